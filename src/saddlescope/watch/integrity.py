"""Whether a series of checkpoints is what it says: every number of every step is read once, and the steps compared.

Published series have held the same weights under many steps, weights of another run, and files cut short. What is found
here is reported beside the measurement and stops nothing.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from saddlescope.checkpoints.adapter import listed
from saddlescope.checkpoints.read import Checkpoint
from saddlescope.checkpoints.tensor import Tensor
from saddlescope.core.progress import Tick, silent
from saddlescope.spectra.arrays import LARGEST_WEIGHT

PIECE_BYTES = 4 * 2**20
"""Of a tensor, read at a time."""

SAMPLED = 256
"""Numbers of each tensor that distances between steps are estimated from, always at the same places."""

STRAY = 1.25
"""A step strays if both ways to it are this many times as long as the way past it; at most 0.8 in sound trainings of
small models, and 1 where a training only wanders about a point."""

BREAK = 3.0
"""The way to a step breaks the line if its angle, or its length, is this many times what the ways before and after let
expect; at most 2.5 in the same trainings, the most where a learning rate is raised again."""

AWAY = 1.02
"""So is what is this many times as far from the step before it as from the first."""

LEAST_ANGLE = 20.0
"""Degrees: below, a change of direction is training's own, whatever its neighbours do."""

LEAST_DISTANCE = 0.1
"""The same for distances, as a share of the distance from the start."""

SHRUNK = 0.5
"""A training does not come back from its furthest place to less than this share of that distance."""

LONG_START, SHORT_START = 0.5, 0.01
"""Half of the whole way in a hundredth of the steps is no beginning of a training."""


@dataclass(frozen=True)
class Finding:
    """kind: unreadable, misnamed, identical, missing, extra, shape, dtype, not finite, jump, order or start."""

    kind: str
    steps: tuple[int, ...]
    tensors: tuple[str, ...]
    message: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"steps": list(self.steps), "tensors": list(self.tensors)}


class Scan(NamedTuple):
    """What is remembered of a step; tensors by the names that the first step gives them."""

    step: int
    tensors: dict[str, Tensor]
    digests: dict[str, str]
    samples: dict[str, np.ndarray]  # of tensors of floats
    not_finite: list[str]


# ---- one step --------------------------------------------------------------------------------------------


def scan(checkpoint: Checkpoint, names: Mapping[str, str], step: int, tick: Tick = silent) -> Scan:
    """One pass over all tensors, a few megabytes at a time.  names: stored name -> name in the first step."""
    found = Scan(step, {}, {}, {}, [])
    total, done = max(sum(map(_size, checkpoint.tensors.values())), 1), 0
    for stored, tensor in checkpoint.tensors.items():
        tick(done / total, stored)
        name, real = names.get(stored, stored), "float" in tensor.dtype
        hashed = hashlib.blake2b(f"{tensor.dtype}{tensor.shape}".encode(), digest_size=32)
        places, picked, start, finite = _places(_size(tensor)), [], 0, True
        for piece in _pieces(checkpoint, stored):
            hashed.update(piece.view(np.uint8).data)
            if real:
                finite = finite and bool((np.abs(piece) <= LARGEST_WEIGHT).all())
                low, high = np.searchsorted(places, (start, start + piece.size))
                with np.errstate(over="ignore"):
                    picked.append(piece[places[low:high] - start].astype(np.float32))
            start += piece.size
        found.tensors[name], found.digests[name] = tensor, hashed.hexdigest()
        if real:
            found.samples[name] = np.concatenate(picked)
        if not finite:
            found.not_finite.append(name)
        done += _size(tensor)
    return found


def _size(tensor: Tensor) -> int:
    return math.prod(tensor.shape)


def _places(size: int) -> np.ndarray:
    """Where a tensor is sampled: the same for all that have as many numbers, and in no step with their rows."""
    if size <= SAMPLED:
        return np.arange(size)
    return np.unique(np.random.default_rng(size).integers(0, size, SAMPLED))


def _pieces(checkpoint: Checkpoint, name: str) -> Iterator[np.ndarray]:
    shape, dtype = checkpoint.tensors[name]
    if not shape or 0 in shape:
        yield np.ascontiguousarray(checkpoint.read(name)).reshape(-1)
        return
    rows = max(1, PIECE_BYTES // (math.prod(shape[1:]) * np.dtype(dtype).itemsize))
    for start in range(0, shape[0], rows):
        yield np.ascontiguousarray(checkpoint.rows(name, start, start + rows)).reshape(-1)


# ---- what the steps hold ---------------------------------------------------------------------------------


def check(scans: Sequence[Scan]) -> tuple[list[Finding], list[str]]:
    """Findings and notes on steps in their order. What most steps have is taken to be right."""
    copies = _identical(scans)
    repeated = {step for finding in copies for step in finding.steps[1:]}
    apart = [one for one in scans if one.step not in repeated]
    findings = [
        *copies,
        *_absent(scans),
        *_unlike(scans, "shape"),
        *_unlike(scans, "dtype"),
        *_not_finite(scans),
        *_out_of_line(apart),
    ]
    return findings, _frozen(apart)


def _identical(scans: Sequence[Scan]) -> list[Finding]:
    groups: dict[frozenset[tuple[str, str]], list[int]] = {}
    for one in scans:
        groups.setdefault(frozenset(one.digests.items()), []).append(one.step)
    return [
        Finding("identical", tuple(steps), (), f"{_steps(steps)} hold the same weights, bit by bit")
        for steps in groups.values()
        if len(steps) > 1
    ]


def _absent(scans: Sequence[Scan]) -> list[Finding]:
    count = Counter(name for one in scans for name in one.tensors)
    usual = [name for name in count if 2 * count[name] >= len(scans)]
    missing: dict[tuple[str, ...], list[int]] = {}
    extra: dict[tuple[str, ...], list[int]] = {}
    for one in scans:
        missing.setdefault(tuple(name for name in usual if name not in one.tensors), []).append(one.step)
        extra.setdefault(tuple(name for name in one.tensors if 2 * count[name] < len(scans)), []).append(one.step)
    return [
        Finding(kind, tuple(steps), names, f"{_steps(steps)}: {word} {listed(names)}, {but}")
        for kind, groups, word, but in (
            ("missing", missing, "without", "which the others have"),
            ("extra", extra, "with", "which the others do not have"),
        )
        for names, steps in groups.items()
        if names
    ]


def _unlike(scans: Sequence[Scan], field: str) -> list[Finding]:
    """Tensors whose shape or dtype is not that of most steps."""
    seen: dict[str, Counter[Any]] = {}
    for one in scans:
        for name, tensor in one.tensors.items():
            seen.setdefault(name, Counter())[getattr(tensor, field)] += 1
    usual = {name: counts.most_common(1)[0][0] for name, counts in seen.items()}
    groups: dict[tuple[str, ...], list[Scan]] = {}
    for one in scans:
        names = tuple(name for name, tensor in one.tensors.items() if getattr(tensor, field) != usual[name])
        groups.setdefault(names, []).append(one)
    findings = []
    for names, members in groups.items():
        if not names:
            continue
        steps, example = [one.step for one in members], str(names[0])
        more = f" and {len(names) - 1} more tensors differ" if len(names) > 1 else ""
        is_ = getattr(members[0].tensors[example], field)
        message = f"{_steps(steps)}: {example} has {field} {is_}, elsewhere {usual[example]}{more}"
        findings.append(Finding(field, tuple(steps), names, message))
    return findings


def _not_finite(scans: Sequence[Scan]) -> list[Finding]:
    return [
        Finding("not finite", (one.step,), tuple(names), f"step {one.step}: NaN or infinity in {listed(names)}")
        for one in scans
        if (names := one.not_finite)
    ]


def _frozen(scans: Sequence[Scan]) -> list[str]:
    if len(scans) < 2:
        return []
    first, *rest = scans
    still = [n for n, digest in first.digests.items() if all(one.digests.get(n) == digest for one in rest)]
    return [f"{len(still)} of {len(first.digests)} tensors never change: {listed(still)}"] if still else []


def _steps(steps: Sequence[int]) -> str:
    more = f" and {len(steps) - 8} more" if len(steps) > 8 else ""
    return f"{'step' if len(steps) == 1 else 'steps'} {', '.join(map(str, steps[:8]))}{more}"


# ---- where the steps lie ---------------------------------------------------------------------------------


def _out_of_line(scans: Sequence[Scan]) -> list[Finding]:
    """Steps that do not lie on the way of the others.

    What cannot be told: whether the first or the second belongs to the rest, unless the run moves little or by log
    steps, and runs that share their start before they have parted.
    """
    scans, names = _comparable(scans)
    if len(scans) < 3 or not names:
        return []
    steps = [one.step for one in scans]
    distance, angle = geometry(scans, names)
    findings, kept = [], list(range(len(scans)))
    for block in strays(distance, angle):
        kept = [place for place in kept if place not in block]
        near = min((place for place in range(len(scans)) if place not in block), key=lambda p: distance[block[0], p])
        which = [steps[place] for place in block]
        message = (
            f"{_steps(which)}: off the way of the steps around, which are closer to each other than to this; nearest "
            f"is step {steps[near]}. Perhaps of another run, or misnamed"
        )
        findings.append(Finding("jump", tuple(which), (), message))
    for place in breaks([steps[k] for k in kept], distance[np.ix_(kept, kept)], angle[np.ix_(kept, kept)]):
        step, before = steps[kept[place]], steps[kept[place - 1]]
        message = (
            f"the change from step {before} to step {step} is out of line with the others: one of the two may be of "
            "another run, from there on all may be, or training was disturbed"
        )
        findings.append(Finding("jump", (step,), (), message))
    return findings + _disordered([steps[k] for k in kept], distance[0, kept])


def _disordered(steps: Sequence[int], away: np.ndarray) -> list[Finding]:
    """away: distance from the first step."""
    findings = []
    if away[1] > LONG_START * away[-1] and steps[1] - steps[0] < SHORT_START * (steps[-1] - steps[0]):
        share = (steps[1] - steps[0]) / (steps[-1] - steps[0])
        message = (
            f"step {steps[1]} is already {away[1] / away[-1]:.0%} of the way from step {steps[0]} to step {steps[-1]}, "
            f"after {share:.1%} of the steps: step {steps[0]} may be of another run, or the order reversed"
        )
        findings.append(Finding("start", (steps[0],), (), message))
    furthest = np.maximum.accumulate(away)
    back = [step for step, here, far in zip(steps, away, furthest, strict=True) if here < SHRUNK * far]
    if back:
        far = steps[int(np.argmax(away))]
        message = f"{_steps(back)}: much closer to step {steps[0]} than step {far} is. Perhaps in reversed order"
        findings.append(Finding("order", tuple(back), (), message))
    return findings


def _comparable(scans: Sequence[Scan]) -> tuple[list[Scan], list[str]]:
    """Steps with at least half of the usual tensors, finite and in the usual shapes, and the tensors they share."""
    seen = Counter((name, one.tensors[name].shape) for one in scans for name in one.samples)
    usual = [key for key, count in seen.items() if 2 * count > len(scans)]
    usable = [
        {name for name, shape in usual if name in one.samples and one.tensors[name].shape == shape}
        - set(one.not_finite)
        for one in scans
    ]
    members = [place for place, names in enumerate(usable) if names and 2 * len(names) >= len(usual)]
    shared = set.intersection(*(usable[place] for place in members)) if members else set()
    return [scans[place] for place in members], sorted(shared)


def geometry(scans: Sequence[Scan], names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Between any two steps: the distance of their weights, and the angle, in degrees, of their changes from the first.

    Estimated from samples. Angles do not depend on how large the learning rate was; they are NaN for what has not
    moved.
    """
    gram = np.zeros((len(scans), len(scans)))
    for name in names:
        values = np.stack([one.samples[name] for one in scans]).astype(np.float64)
        change = values - values[0]
        gram += change @ change.T * (_size(scans[0].tensors[name]) / max(values.shape[1], 1))
    square = np.diag(gram)
    size = np.sqrt(square)
    with np.errstate(divide="ignore", invalid="ignore"):
        angle = np.degrees(np.arccos(np.clip(gram / (size[:, None] * size), -1, 1)))
    return np.sqrt(np.maximum(square[:, None] + square - 2 * gram, 0.0)), angle


def strays(distance: np.ndarray, angle: np.ndarray) -> list[list[int]]:
    """Blocks of steps that leave the way and come back: those around are closer to each other than to them.

    In a training, what lies further apart in steps lies further apart in weights, however fast it learns.
    """
    kept, found = list(range(len(distance))), []
    while True:
        scored = [
            (_detour(distance, angle, *(kept[i] for i in (first - 1, first, last, last + 1))), first, last)
            for first in range(1, len(kept) - 1)
            for last in range(first, min(first + max(1, (len(kept) - 1) // 3), len(kept) - 1))
        ]
        score, first, last = max(scored, default=(0.0, 0, 0), key=lambda one: (one[0], one[1] - one[2]))
        if score < STRAY:
            return found
        found.append(kept[first : last + 1])
        del kept[first : last + 1]


def _detour(distance: np.ndarray, angle: np.ndarray, before: int, first: int, last: int, after: int) -> float:
    """How many times as long the ways to a block are as the way past it."""
    score = 0.0
    far = LEAST_DISTANCE * max(distance[0, before], distance[0, after])
    for lengths, least in ((distance, far), (angle, LEAST_ANGLE)):
        ways, past = min(lengths[before, first], lengths[last, after]), lengths[before, after]
        if ways > least and past > 0:
            score = max(score, ways / past)
    return score


def breaks(steps: Sequence[int], distance: np.ndarray, angle: np.ndarray) -> list[int]:
    """Places where the way takes a turn or a leap that the two ways before and the two that follow do not let expect.

    Allowed for: angles that grow with the ratio of the steps, and distances that grow with their square, as they do
    while a learning rate warms up. No training leads away from where it goes: what is further from the step before it
    than from the first is a break too.
    """
    time = np.asarray(steps, float) - steps[0]
    places = np.arange(2, len(steps))  # the way to the second step has no angle, and may well be the longest
    turned, gone = angle[places - 1, places], distance[places - 1, places]
    spread, passed = np.log(time[places] / time[places - 1]), time[places] - time[places - 1]
    found = []
    for way, place in enumerate(places):
        near = [other for other in (way - 2, way - 1, way + 1, way + 2) if 0 <= other < len(places)]
        turns = [turned[other] * max(1.0, spread[way] / spread[other]) for other in near]
        moves = [gone[other] * max(1.0, passed[way] / passed[other]) ** 2 for other in near]
        # The first way of all has none before it: where it is long, training may only have begun.
        compared = way > 0 and bool(near)
        if (
            gone[way] > AWAY * distance[0, place]
            or (compared and turned[way] > max(BREAK * max(turns), LEAST_ANGLE))
            or (compared and gone[way] > BREAK * max(moves) > 0)
        ):
            found.append(int(place))
    return found
