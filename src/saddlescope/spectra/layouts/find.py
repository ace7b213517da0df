"""From names and shapes to a layout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from saddlescope.core.errors import BadArgument
from saddlescope.spectra.layouts.heads import Number, Rows, Shapes, count_heads, fill_in, hint, rows_of, section
from saddlescope.spectra.layouts.layer import AttentionLayer, HeadLayout
from saddlescope.spectra.layouts.mapping import EXAMPLE, read_mapping, some_names
from saddlescope.spectra.layouts.notes import Seen, take_notes
from saddlescope.spectra.layouts.places import Place, find_places, name_stacks, plain_names
from saddlescope.spectra.layouts.schemes import SCHEMES, Scheme

# Beside a weight, these say that what is stored is not the weight itself.
_QUANTISED = (".absmax", "_scale", "_scale_inv", "_scale_2", "_zero_point", ".SCB")


def find_layout(
    shapes: Mapping[str, tuple[int, ...]],
    config: Mapping[str, Any] | None = None,
    mapping: Mapping[str, Any] | None = None,
) -> HeadLayout:
    """Every attention layer of a model, from the names and shapes of its tensors.

    `config` is the content of config.json. `mapping` describes a model of one's own; its `heads` alone completes
    a model whose names are known but whose config is not.
    """
    config = config or {}
    names = plain_names(shapes)
    plain_shapes = {plain: tuple(shapes[stored]) for plain, stored in names.items()}
    counts, own = read_mapping(mapping)
    model_type = config.get("model_type")
    if own:
        _check_patterns(own, plain_shapes)
    places = find_places(plain_shapes, (own,) if own else SCHEMES, model_type)
    # A tensor named like an output projection alone is no sign of attention.
    places = [place for place in places if any({"query", "fused"} & set(roles) for roles in place.layers.values())]
    if not places:
        raise _unknown_model(plain_shapes, model_type)

    stacks, left_out = {}, defaultdict(list)
    for stack, place in name_stacks(places):
        part = section(config, place)
        reader = _Reader(place, stack, names, plain_shapes, part, fill_in(place, config, part, counts))
        layers = []
        for number in sorted(place.layers):
            read = reader.read(number)
            if isinstance(read, str):
                left_out[stack, read].append(number)
            else:
                layers.extend(read)
        if layers:
            stacks[stack] = Seen(place, layers, reader.config, plain_shapes)
    omissions = [_omission(stack, reason, numbers) for (stack, reason), numbers in left_out.items()]
    if not stacks:
        raise BadArgument(
            f"no attention layer can be read. {' '.join(omissions)} Give a complete checkpoint of plain weights "
            f"(dequantised, not sharded), or, if these names mean something else, {EXAMPLE}"
        )
    layers = tuple(layer for seen in stacks.values() for layer in seen.layers)
    family = str(model_type or max(stacks.values(), key=lambda seen: len(seen.layers)).place.scheme.family)
    notes = [*take_notes(stacks), *omissions, *_absent(stacks), *_misnamed(model_type, stacks)]
    return HeadLayout(family, layers, tuple(notes))


@dataclass
class _Reader:
    """Reads the layers of one place."""

    place: Place
    stack: str
    names: Mapping[str, str]
    shapes: Shapes
    config: Mapping[str, Any]
    counts: Mapping[str, int]
    hints: dict[Rows, tuple[str, Number] | None] = field(default_factory=dict)  # looked for in all names, so only once

    def read(self, number: int) -> list[AttentionLayer] | str:
        """The layer, or why it is left out; several layers where all lie in one tensor."""
        scheme, found = self.place.scheme, self.place.layers[number]
        leaves = dict(zip(scheme.roles, scheme.leaves, strict=True))
        if missing := [leaves[role] for role in scheme.roles if role not in found]:
            return f"{', '.join(missing)} missing"
        if packed := [leaves[role] for role, name in found.items() if self._quantised(name)]:
            return f"{', '.join(packed)} quantised"
        shapes = {role: self.shapes[name] for role, name in found.items()}
        rows = rows_of(self.place, shapes)
        if isinstance(rows, str):
            return rows
        leading = found[scheme.roles[0]]
        if rows not in self.hints:
            self.hints[rows] = self._head_axis(shapes) or hint(self.place, self.shapes, rows)
        heads, shared = count_heads(
            self.place, (self.names[leading], self.shapes[leading]), rows, self.config, self.counts, self.hints[rows]
        )
        axes = tuple(scheme.axes(role, shapes) for role in scheme.roles)
        keys = tuple(self.names[found[role]] for role in scheme.roles)
        built = (heads, shared, keys, scheme.rule, axes)
        if "layer" not in axes[0]:
            return [AttentionLayer(number, self.stack, *built)]
        depth = shapes[scheme.roles[0]][axes[0].index("layer")]
        return [AttentionLayer(layer, self.stack, *built, slot=layer) for layer in range(depth)]

    def _head_axis(self, shapes: Shapes) -> tuple[str, Number] | None:
        role = "query" if self.place.scheme.rule == "separate" else "output"
        axes = self.place.scheme.axes(role, shapes)
        if "head" not in axes:
            return None
        heads = shapes[role][axes.index("head")]
        return "heads", Number(heads, f"the head axes of `{role}`")

    def _quantised(self, name: str) -> bool:
        if name.endswith((".qweight", ".weight_packed")):
            return True
        return any(f"{base}{end}" in self.shapes for base in (name, name.removesuffix(".weight")) for end in _QUANTISED)


MOST_LAYERS = 10_000
"""Up to which layers of a config are looked for: it may claim any number."""


def _omission(stack: str, reason: str, numbers: list[int]) -> str:
    where = f"{'Layer' if len(numbers) == 1 else 'Layers'} {some_names(map(str, numbers), 12)}"
    return f"{where}{f' of {stack}' if stack else ''} left out: {reason}."


def _absent(stacks: Mapping[str, Seen]) -> list[str]:
    if len(stacks) > 1:
        return []
    (seen,) = stacks.values()
    fields = (seen.config.get(field) for field in ("num_hidden_layers", "n_layer", "num_layers", "n_layers"))
    depth = next((depth for depth in fields if isinstance(depth, int)), 0)
    present = {*seen.place.layers, *(layer.layer for layer in seen.layers)}
    absent = [str(number) for number in range(min(depth, MOST_LAYERS)) if number not in present]
    return [f"Of {depth} layers in the config, no attention weights of {some_names(absent, 12)}."] if absent else []


def _misnamed(model_type: str | None, stacks: Mapping[str, Seen]) -> list[str]:
    schemes = [seen.place.scheme for seen in stacks.values()]
    known = any(model_type in scheme.types for scheme in SCHEMES)
    if not known or any(model_type in scheme.types or scheme.family == "custom" for scheme in schemes):
        return []
    return [f"The config says model_type {model_type!r}, but the names are those of {schemes[0].family}."]


def _check_patterns(own: Scheme, shapes: Shapes) -> None:
    for role, pattern in own.patterns.items():
        if not any(pattern.fullmatch(name) for name in shapes):
            leaf = own.leaves[own.roles.index(role)]
            raise BadArgument(f"`{role}` of the mapping, {leaf!r}, matches no tensor: names are {some_names(shapes)}")


def _unknown_model(shapes: Shapes, model_type: str | None) -> BadArgument:
    matrices = [name for name, shape in shapes.items() if len(shape) >= 2]
    told = f" of model_type {model_type!r}" if model_type else ""
    return BadArgument(
        f"no known attention layers in a model{told}: its matrices are {some_names(matrices)}. Say where its heads "
        f"are, for example {EXAMPLE}"
    )
