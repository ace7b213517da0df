"""Where attention modules stand in a model: tensor names, grouped into stacks of numbered layers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from saddlescope.spectra.layouts.schemes import Scheme

# Put into the middle of names by torch.compile, FSDP, activation checkpointing and PEFT.
_WRAPPERS = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "base_layer")
_CROSS = ("encoder_attn", "EncDecAttention", "crossattention", "cross_attn", "cross_attention", "multihead_attn")
_ORDER = ("", "encoder", "decoder", "cross")


@dataclass(frozen=True)
class Place:
    """One kind of attention module, repeated over layers; its names are `before` + number + `after` + leaf."""

    before: str
    after: str
    scheme: Scheme
    layers: Mapping[int, Mapping[str, str]]  # number -> role -> plain name; some roles may be missing

    @property
    def words(self) -> list[str]:
        return [word for word in re.split(r"[./]", f"{self.before}.{self.after}") if word]

    @property
    def cross(self) -> bool:
        return any(word in _CROSS for word in self.words)

    @property
    def complete(self) -> int:
        return sum(len(found) == len(self.scheme.roles) for found in self.layers.values())

    def owns(self, name: str) -> bool:
        return name.startswith(self.before) and self.after in name[len(self.before) :]


def plain_names(stored: Iterable[str]) -> dict[str, str]:
    """Names without the words that wrappers put into them -> names as stored."""
    return {".".join(word for word in name.split(".") if word not in _WRAPPERS): name for name in stored}


def _place_of(match: re.Match[str]) -> tuple[str, str, int]:
    groups = match.groupdict()
    if groups.get("layer") is not None:
        return groups["before"], groups["after"], int(groups["layer"])
    numbered = re.fullmatch(r"(|.*[./])(\d+)([./].*)", groups["before"])
    if numbered is None:
        return groups["before"], "", 0
    return numbered[1], numbered[3].rstrip("./"), int(numbered[2])


def find_places(names: Iterable[str], schemes: Sequence[Scheme], model_type: str | None) -> list[Place]:
    """Every place, read by the scheme that completes most of its layers; incomplete places come last."""
    found: dict[tuple[str, str], dict[int, dict[int, dict[str, str]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(dict))
    )
    for name in names:
        for number, scheme in enumerate(schemes):
            if matched := scheme.match(name):
                role, match = matched
                before, after, layer = _place_of(match)
                found[before, after][number][layer].setdefault(role, name)
    places = []
    for (before, after), readings in found.items():
        candidates = [Place(before, after, schemes[number], layers) for number, layers in sorted(readings.items())]
        places.append(
            max(candidates, key=lambda place: (place.complete, model_type in place.scheme.types, _roles(place)))
        )
    return sorted(places, key=lambda place: -place.complete)


def _roles(place: Place) -> int:
    return max(len(found) for found in place.layers.values())


def name_stacks(places: Sequence[Place]) -> list[tuple[str, Place]]:
    """Each place with the words that tell it from the others, in an order that no naming changes."""
    crossed = any(place.cross for place in places) and len(places) > 1
    named = []
    for place in places:
        stack = _telling_words(place, [other for other in places if other.cross == place.cross])
        if place.cross and crossed:
            stack = f"{stack}.cross" if stack else "cross"
        elif crossed:  # self-attention beside cross-attention is a decoder's
            stack = stack or "decoder"
        named.append((stack, place))
    return sorted(named, key=lambda pair: (_ORDER.index(pair[0]) if pair[0] in _ORDER else len(_ORDER), pair[0]))


def _telling_words(place: Place, peers: Sequence[Place]) -> str:
    for depth, word in enumerate(place.words):
        alike = [other for other in peers if other.words[depth : depth + 1] == [word]]
        if len(alike) < len(peers):
            more = _telling_words(place, alike)
            return f"{word}.{more}" if more else word
    return ""
