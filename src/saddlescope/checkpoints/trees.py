"""Arrays by name out of state dicts and nested parameter trees, of torch, NumPy or jax."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from saddlescope.core.errors import BadArgument

from .modules import is_tensor
from .pickled import NESTED

DEEPEST = 64
"""Levels of a tree, beyond which it is taken to hold itself."""


def named_arrays(tree: Any) -> tuple[dict[str, Any], list[str]]:
    """Arrays by the path to them, joined with dots: {"layers": [{"query": w}]} gives "layers.0.query".

    Also the paths of numbers and other things that are no arrays. Of a training's checkpoint that holds torch's state
    dict beside other things, the state dict alone is taken, as from a file.
    """
    found: dict[str, Any] = {}
    rest: list[str] = []
    for name, leaf in _leaves(_weights_of(tree), "", 0):
        if not is_array(leaf):
            rest += [name] if isinstance(leaf, numbers.Number) and not isinstance(leaf, bool) else []
        elif name in found:
            raise BadArgument(f"two arrays are called {name!r}: rename one of the keys that lead to them")
        else:
            found[name] = leaf
    return found, rest


def is_array(thing: Any) -> bool:
    return hasattr(thing, "shape") and hasattr(thing, "dtype") and not isinstance(thing, type)


def _weights_of(tree: Any) -> Any:
    for _ in range(3):
        inner = [tree[key] for key in NESTED if isinstance(tree, Mapping) and isinstance(tree.get(key), Mapping)]
        if not inner or not any(map(is_tensor, inner[0].values())):
            break
        tree = inner[0]
    return tree


def _leaves(node: Any, name: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > DEEPEST:
        raise BadArgument(f"the tree at {name[:80]!r} is more than {DEEPEST} levels deep, or holds itself: cut it")
    if is_array(node) or node is None:
        inside: Any = ()
        if node is not None:
            yield name or "matrix", node
    elif isinstance(node, Mapping):
        inside = node.items()
    elif isinstance(node, tuple) and hasattr(node, "_fields"):
        inside = zip(node._fields, node, strict=True)  # type: ignore[attr-defined]
    elif isinstance(node, list | tuple):
        inside = enumerate(node)
    else:
        inside = _children(node)
        if inside is None:
            yield name, node
            return
    for key, child in inside:
        yield from _leaves(child, f"{name}.{key}" if name else str(key), depth + 1)


def _children(node: Any) -> list[tuple[str, Any]] | None:
    """Of a class that is registered with jax (Equinox, Flax), what is one level down; None of anything else."""
    jax = sys.modules.get("jax")
    if jax is None or jax.tree_util.all_leaves([node]):
        return None
    leaves, _ = jax.tree_util.tree_flatten_with_path(node, is_leaf=lambda inner: inner is not node)
    return [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in leaves]
