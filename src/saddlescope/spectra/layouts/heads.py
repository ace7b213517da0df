"""How many heads a layer has: from the mapping, the config or a telling tensor, and always checked against shapes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

from saddlescope.core.errors import BadArgument
from saddlescope.spectra.layouts.places import Place
from saddlescope.spectra.layouts.rules import CODEGEN_SHARDS

Shapes = Mapping[str, tuple[int, ...]]

HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads")
KEY_VALUE_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv")
HEAD_DIM = ("head_dim", "d_kv", "kv_channels")

# Words in the names of a part of a model -> the section of its config that speaks of that part.
_SECTIONS = {
    "vision_config": r"vision|visual|image",
    "audio_config": r"audio|speech",
    "text_config": r"text|language",
    "encoder": r"encoder",
    "decoder": r"decoder",
}


class Number(NamedTuple):
    """A number and where it comes from, for the error that blames it."""

    value: int
    source: str


class Rows(NamedTuple):
    """Rows (heads times coordinates) of a layer's queries, and of its keys."""

    query: int
    key: int


def section(config: Mapping[str, Any], place: Place) -> Mapping[str, Any]:
    """The part of a config that speaks of `place`: itself, or a nested text_config, vision_config, ..."""
    nested = {name: config[name] for name in _SECTIONS if isinstance(config.get(name), Mapping)}
    for name, words in _SECTIONS.items():
        if name in nested and any(re.search(words, word) for word in place.words):
            return nested[name]
    if _field(config, HEADS) is None:
        for name in ("text_config", *nested):
            if name in nested and _field(nested[name], HEADS):
                return nested[name]
    return config


def _field(config: Mapping[str, Any], names: tuple[str, ...]) -> Number | None:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return Number(value, f"`{name}` = {value} of the config")
    return None


def _given(place: Place, config: Mapping[str, Any], mapping: Mapping[str, Any], option: str) -> Number | None:
    if (value := mapping.get(option)) is not None:
        return Number(value, f"`{option}` = {value} of the mapping")
    if option == "head_dim":
        return _field(config, HEAD_DIM)
    if option == "heads":
        sides = tuple(f"{side}_attention_heads" for side in ("encoder", "decoder") if side in place.words)
        return _field(config, (*sides, *HEADS))
    if "new_decoder_architecture" in config and not config["new_decoder_architecture"]:
        # Older Falcons: `num_kv_heads` is filled in but not read.
        return Number(1, "`multi_query` of the config") if config.get("multi_query") else None
    return _field(config, KEY_VALUE_HEADS)


def fill_in(
    place: Place, whole: Mapping[str, Any], part: Mapping[str, Any], mapping: Mapping[str, int]
) -> Mapping[str, int]:
    """The numbers of the mapping that hold for `place`.

    With tensors of its own, all. Otherwise it says what the config does not: in a model of several parts, a number
    meant for one must not displace what the config knows of another.
    """
    if place.scheme.family == "custom":
        return mapping
    here = {}
    for option, value in mapping.items():
        told = _given(place, part, {}, option)
        if told is None:
            here[option] = value
        elif told.value != value and part is whole:
            raise BadArgument(f"`{option}` = {value} of the mapping contradicts {told.source}: leave one of them out")
    return here


def rows_of(place: Place, shapes: Shapes) -> Rows | str:
    """Rows of queries and keys from the shapes by role, or why these shapes are not an attention layer."""
    sizes, named = {}, {}
    for role in place.scheme.roles:
        axes = place.scheme.axes(role, shapes)
        if len(shapes[role]) != len(axes) or 0 in shapes[role]:
            return f"`{role}` has shape {tuple(shapes[role])}, not {len(axes)} axes ({', '.join(axes)})"
        for axis, size in zip(axes, shapes[role], strict=True):
            if axis in ("layer", "head_dim") and named.setdefault(axis, size) != size:
                return f"`{role}` has shape {tuple(shapes[role])}, but {axis} is {named[axis]} elsewhere"
        sizes[role] = prod(n for axis, n in zip(axes, shapes[role], strict=True) if axis not in ("layer", "model"))
    if place.scheme.rule != "separate":
        sizes["query"], extra = sizes["output"], sizes["fused"] - sizes["output"]
        if extra <= 0 or extra % 2:
            return f"{sizes['fused']} fused rows do not hold keys and values beside {sizes['output']} of queries"
        sizes["key"] = sizes["value"] = extra // 2
    if sizes["query"] != sizes["output"] or sizes["key"] != sizes["value"]:
        listed = ", ".join(f"{role} {sizes[role]}" for role in ("query", "key", "value", "output"))
        return f"rows do not belong together ({listed})"
    return Rows(sizes["query"], sizes["key"])


def hint(place: Place, shapes: Shapes, rows: Rows) -> tuple[str, Number] | None:
    """A head count or a head's width that some small tensor gives away; `shapes` by plain name."""
    for name, shape in shapes.items():
        if not place.owns(name):
            continue
        if name.endswith(("relative_attention_bias.weight", "relative_position_bias_table")) and len(shape) == 2:
            return "heads", Number(shape[1], f"the columns of {name!r}")
        if re.search(r"\.q_norm\.(weight|scale)$", name) and len(shape) == 1 and shape[0] < rows.query:
            return "head_dim", Number(shape[0], f"the size {shape[0]} of {name!r}")
        # Elsewhere rotary embeddings may cover a part of the head only.
        if name.endswith("rotary_emb.inv_freq") and place.scheme.family in ("llama", "phi3") and len(shape) == 1:
            return "head_dim", Number(2 * shape[0], f"twice the size {shape[0]} of {name!r}")
    return None


def count_heads(
    place: Place,
    tensor: tuple[str, tuple[int, ...]],
    rows: Rows,
    config: Mapping[str, Any],
    mapping: Mapping[str, Any],
    guess: tuple[str, Number] | None,
) -> tuple[int, int]:
    """Query heads and key/value heads; `tensor` (name, shape) is the one that an error points at."""
    name, shape = tensor
    numbers = {option: _given(place, config, mapping, option) for option in ("heads", "key_value_heads", "head_dim")}
    if guess and numbers[guess[0]] is None and numbers["heads"] is None:
        numbers[guess[0]] = guess[1]
    heads, head_dim = numbers["heads"], numbers["head_dim"]

    def refuse(number: Number, why: str) -> BadArgument:
        return BadArgument(
            f"{number.source} does not fit {name!r} of shape {shape}: {why}. Do these numbers belong to these weights?"
        )

    if heads is None and head_dim is None:
        raise BadArgument(
            f"the number of heads is missing: {name!r} of shape {shape} can be cut into heads in many ways. Give the "
            'model\'s config.json, or config={"num_attention_heads": n}, or mapping={"heads": n}.'
        )
    if heads is None:
        assert head_dim is not None
        if rows.query % head_dim.value:
            raise refuse(head_dim, f"{rows.query} rows are not a multiple of it")
        heads = Number(rows.query // head_dim.value, head_dim.source)
    if guess and guess[0] == "heads" and guess[1].value != heads.value:
        raise refuse(heads, f"{guess[1].source} say {guess[1].value}")
    if rows.query % heads.value:
        raise refuse(heads, f"{rows.query} rows cannot be cut into {heads.value} heads")
    width = rows.query // heads.value
    if head_dim and head_dim.value != width:
        raise refuse(head_dim, f"{rows.query} rows are {heads.value} heads of {width} by {heads.source}")
    if rows.key % width:
        raise refuse(heads, f"that makes heads of {width}, but {rows.key} rows of keys are not a multiple of {width}")
    shared = rows.key // width
    wanted = numbers["key_value_heads"]
    if wanted and wanted.value != shared:
        raise refuse(wanted, f"{rows.key} rows of keys are {shared} heads of {width}")
    if heads.value % shared:
        raise refuse(heads, f"{heads.value} query heads cannot share {shared} key/value heads")
    if place.scheme.rule == "codegen" and (heads.value % CODEGEN_SHARDS or shared != heads.value):
        raise refuse(heads, f"CodeGen keeps its heads in {CODEGEN_SHARDS} equal shards")
    return heads.value, shared
