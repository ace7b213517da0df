"""A mapping of the user's own: where heads are in a model that the table of schemes does not know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from saddlescope.core.errors import BadArgument, unknown
from saddlescope.spectra.layouts.rules import AXES, RULES
from saddlescope.spectra.layouts.schemes import FUSED, QUERY_KEY_VALUE, Scheme

EXAMPLE = (
    'mapping={"heads": 12, "query": "layers.{layer}.attn.wq", "key": "layers.{layer}.attn.wk", '
    '"value": "layers.{layer}.attn.wv", "output": "layers.{layer}.attn.wo", "orientation": "out_in"}'
)
COUNTS = ("heads", "key_value_heads", "head_dim")
OPTIONS = (*COUNTS, *QUERY_KEY_VALUE, "fused", "order", "orientation", "axes")
ORDERS = {"thirds": "blocks", "per_head": "grouped"} | {rule: rule for rule in RULES if rule != "separate"}


def some_names(names: Iterable[str], most: int = 6) -> str:
    names = list(names)
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "") if names else "none"


def read_mapping(mapping: Mapping[str, Any] | None) -> tuple[dict[str, int], Scheme | None]:
    """Its head counts, and its naming scheme if it has one: head counts alone complete a known model."""
    if mapping is None:
        return {}, None
    for option in mapping:
        if option not in OPTIONS:
            raise unknown("option of the mapping", option, OPTIONS)
    counts = {option: mapping[option] for option in COUNTS if mapping.get(option) is not None}
    for option, count in counts.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise BadArgument(f"`{option}` of the mapping must be a positive whole number, got {count!r}")
    if not any(role in mapping for role in (*QUERY_KEY_VALUE, "fused")):
        if left := [option for option in ("order", "orientation", "axes") if option in mapping]:
            raise BadArgument(f"`{left[0]}` of the mapping needs the tensors it speaks of, such as {EXAMPLE}")
        return counts, None
    return counts, _scheme(mapping)


def _scheme(mapping: Mapping[str, Any]) -> Scheme:
    fused = "fused" in mapping
    roles = FUSED if fused else QUERY_KEY_VALUE
    for role in roles:
        if role not in mapping:
            raise BadArgument(f"the mapping has no `{role}`: it needs {', '.join(roles)}, such as {EXAMPLE}")
    for role in (*QUERY_KEY_VALUE, "fused"):
        if role in mapping and role not in roles:
            raise BadArgument(f"the mapping has both `fused` and `{role}`: a fused tensor holds query, key and value")
    for role in roles:
        if not isinstance(mapping[role], str) or mapping[role].count("{layer}") > 1:
            raise BadArgument(f"`{role}` of the mapping must be a name with at most one {{layer}}: {mapping[role]!r}")
    orientation = mapping.get("orientation", "out_in")
    if orientation not in ("out_in", "in_out"):
        raise unknown("orientation of the mapping", str(orientation), ("out_in", "in_out"))
    rule = "separate"
    if fused:
        order = str(mapping.get("order", "thirds"))
        if order not in ORDERS:
            raise unknown("order of the mapping", order, ORDERS)
        rule = ORDERS[order]
    elif "order" in mapping:
        raise BadArgument("`order` of the mapping is the order inside a fused tensor: give `fused`, or leave it out")
    leaves = tuple(mapping[role] for role in roles)
    return Scheme("custom", "", leaves, rule, orientation, own_axes=_axes(mapping.get("axes", {}), roles))


def _axes(given: Any, roles: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    if not isinstance(given, Mapping):
        raise BadArgument(
            f'`axes` of the mapping must name axes by tensor, such as {{"query": ["model", "head", "head_dim"], '
            f'"output": ["head", "head_dim", "model"]}}; got {given!r}'
        )
    axes = {}
    for role, words in given.items():
        if role not in roles:
            raise unknown("tensor in `axes` of the mapping", role, roles)
        words = tuple(words.split() if isinstance(words, str) else words)
        for word in words:
            if word not in AXES:
                raise unknown(f"axis of `{role}` in the mapping", str(word), AXES)
        heads = ("rows",) if "rows" in words else ("head", "head_dim")
        if len(set(words)) < len(words) or not {"model", *heads} <= set(words):
            raise BadArgument(f"`axes` of `{role}` must have model, and rows or head and head_dim, each once: {words}")
        axes[role] = words
    if "query" in axes:
        axes = {"key": axes["query"], "value": axes["query"], **axes}
    stacked = {role for role in roles if "layer" in axes.get(role, ())}
    if stacked and stacked != set(roles):
        raise BadArgument(f"`axes` of the mapping: a layer axis must be in all of {', '.join(roles)} or in none")
    return axes
