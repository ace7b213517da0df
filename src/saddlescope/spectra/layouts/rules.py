"""How stored tensors are cut into heads.

Only reshape, swapaxes and slices are used: numpy, torch and jax arrays all have them, gradients pass through them,
and they copy nothing that need not be copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class HeadWeights(NamedTuple):
    """Per-head weights of one attention layer, for rows that are tokens."""

    query: Any  # [H, d, dh]
    key: Any  # [H_kv, d, dh]
    value: Any  # [H_kv, d, dh]
    output: Any  # [H, dh, d]


# "rows" are heads and their coordinates in one axis, head-major; "part" tells Q, K and V apart in a fused tensor.
AXES = ("layer", "part", "head", "head_dim", "rows", "model")


def rows_first(tensor: Any, axes: Sequence[str], rule: str, slot: int | None) -> Any:
    """The tensor with its axes in the order that the rule reads: [..., rows, model]."""
    fused_by_head = ("layer", "head", "part", "head_dim", "rows", "model")
    wanted = [axis for axis in (fused_by_head if rule == "grouped" else AXES) if axis in axes]
    now = list(axes)
    for target, axis in enumerate(wanted):
        source = now.index(axis)
        if source != target:
            tensor = tensor.swapaxes(target, source)
            now[target], now[source] = now[source], now[target]
    return tensor[slot] if "layer" in axes else tensor


def by_head(rows: Any, heads: int) -> Any:
    return rows.reshape(heads, -1, rows.shape[-1])  # [H, dh, d]


def canonical(query: Any, key: Any, value: Any, output: Any) -> HeadWeights:
    """From [H, dh, d] each: the output is there already, the others act from the left."""
    return HeadWeights(query.swapaxes(1, 2), key.swapaxes(1, 2), value.swapaxes(1, 2), output)


def separate(stored: Sequence[Any], heads: int, key_value_heads: int) -> HeadWeights:
    """Four tensors."""
    query, key, value, output = stored
    return canonical(
        by_head(query, heads), by_head(key, key_value_heads), by_head(value, key_value_heads), by_head(output, heads)
    )


def blocks(stored: Sequence[Any], heads: int, key_value_heads: int) -> HeadWeights:
    """Fused rows: all of Q, then all of K, then all of V."""
    fused, output = stored
    first_value = heads + key_value_heads
    parts = by_head(fused, first_value + key_value_heads)
    return canonical(parts[:heads], parts[heads:first_value], parts[first_value:], by_head(output, heads))


def grouped(stored: Sequence[Any], heads: int, key_value_heads: int) -> HeadWeights:
    """Fused rows, one group per key/value head: its queries, its key, its value.

    Per-head q, k, v (GPT-NeoX) and one shared key/value head (multi-query Falcon) are its two ends.
    """
    fused, output = stored
    groups = fused.reshape(key_value_heads, heads // key_value_heads + 2, -1, fused.shape[-1])
    return canonical(by_head(groups[:, :-2], heads), groups[:, -2], groups[:, -1], by_head(output, heads))


CODEGEN_SHARDS = 4  # the accelerator cores that CodeGen was trained on; its checkpoints keep their order


def codegen(stored: Sequence[Any], heads: int, key_value_heads: int) -> HeadWeights:
    """Fused rows, one shard after another: its queries, its values, its keys."""
    fused, output = stored
    shards = fused.reshape(CODEGEN_SHARDS, 3, heads // CODEGEN_SHARDS, -1, fused.shape[-1])
    query, value, key = (by_head(shards[:, part], heads) for part in range(3))
    return canonical(query, key, value, by_head(output, heads))


RULES: dict[str, Callable[[Sequence[Any], int, int], HeadWeights]] = {
    "separate": separate,
    "blocks": blocks,
    "grouped": grouped,
    "codegen": codegen,
}
