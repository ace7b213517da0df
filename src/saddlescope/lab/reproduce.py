"""The main job: run a room's experiments, each run once, and judge its claims by them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from saddlescope.core.claim import NEEDS_FULL, Claim, Evidence, Verdict, judge_runs
from saddlescope.core.errors import BadArgument, unknown
from saddlescope.core.experiment import Experiment, Figure
from saddlescope.core.progress import Tick, part_of, silent
from saddlescope.core.registry import subject
from saddlescope.core.room import Room, room, rooms
from saddlescope.core.study import Study
from saddlescope.core.system import System

from .ensemble import all_at_once
from .judge import evidence_of
from .pool import cores, on_cores
from .records import Records
from .request import Request
from .run import Outcome, run_face
from .store import Damaged, Store

BATCH = 125
"""Seeds of an ensemble that run together, and are kept together: part of the run's name, so the same on any machine."""

ATTEMPTS = 3
"""How often runs that turn out to be damaged are made again."""


@dataclass(frozen=True)
class Chosen:
    """What is to be reproduced of a room: everything, or some figures with the experiments that they draw on."""

    room: Room
    figures: tuple[Figure, ...]
    experiments: tuple[Experiment, ...]
    whole: bool

    @property
    def claims(self) -> list[Claim]:
        names = {experiment.name for experiment in self.experiments}
        return [claim for claim in self.room.claims if claim.experiment in names]


@dataclass(frozen=True)
class Reproduced:
    """One room's results. runs: outcomes by experiment.

    missing: experiments without runs, and why: this size, or this machine, lacks them.
    """

    chosen: Chosen
    runs: Mapping[str, Sequence[Outcome]]
    missing: Mapping[str, str]
    verdicts: Sequence[Verdict]

    @property
    def results(self) -> dict[str, list[Evidence]]:
        return {name: [evidence_of(outcome) for outcome in runs] for name, runs in self.runs.items()}


def choose(targets: Sequence[str] = ()) -> list[Chosen]:
    """Targets are SYSTEM or SYSTEM:FIGURE; none means every room that has experiments."""
    if not targets:
        return [_whole(found) for found in rooms().values() if found.experiments]
    figures: dict[str, list[str] | None] = {}
    for target in targets:
        name, colon, figure = target.partition(":")
        found = room(name)
        if not found.experiments:
            raise BadArgument(f"{name} has no experiments to reproduce")
        if not colon:
            figures[name] = None
        elif figures.setdefault(name, []) is not None:
            figures[name] = [*(figures[name] or []), _figure_name(found, figure)]
    return [_some(room(name), wanted) if wanted is not None else _whole(room(name)) for name, wanted in figures.items()]


def _figure_name(found: Room, text: str) -> str:
    """ "3", "fig3", "Fig. 3" and "figure 3" mean figure 3."""
    plain = text.lower().removeprefix("figure").removeprefix("fig").lstrip(". ")
    if plain not in found.figures:
        raise unknown(f"figure of {found.name}", text, found.figures)
    return plain


def _whole(found: Room) -> Chosen:
    return Chosen(found, tuple(found.figures.values()), tuple(found.experiments.values()), True)


def _some(found: Room, names: Sequence[str]) -> Chosen:
    figures = tuple(figure for name, figure in found.figures.items() if name in names)
    needed = dict.fromkeys(name for figure in figures for name in figure.experiments)
    return Chosen(found, figures, tuple(found.experiments[name] for name in needed), False)


def reproduce(
    chosen: Sequence[Chosen],
    store: Store,
    *,
    full: bool = False,
    workers: int | None = None,
    records: Records | None = None,
    tick: Tick = silent,
) -> list[Reproduced]:
    """Run what the store lacks, then judge. A killed call goes on where it stopped.

    workers: None means all cores.  records: runs that are taken from there, where the store has none.
    """
    store.prepare()
    requests = {
        (choice.room.name, experiment.name): list(requests_of(experiment, full))
        for choice in chosen
        for experiment in choice.experiments
    }
    names = {request.name: name for (_, name), group in requests.items() for request in group}
    outcomes: dict[str, list[Outcome]] = {}
    missing: dict[tuple[str, str], str] = {}
    for _ in range(ATTEMPTS):
        for request in (request for group in requests.values() for request in group):
            if records and request in records and request not in store:
                outcomes[request.name] = [records.load(request)]
        missing = {key: why for key, group in requests.items() if (why := _why_missing(group, store, outcomes))}
        wanted = {
            request.name: request
            for key, group in requests.items()
            if key not in missing
            for request in group
            if request.name not in outcomes
        }
        run_missing(store, list(wanted.values()), tick, names, workers)
        for name, request in wanted.items():
            if name not in outcomes:
                try:
                    outcomes[name] = store.load(request)
                except Damaged:
                    continue
        if wanted.keys() <= outcomes.keys():
            break
    else:
        raise RuntimeError(f"runs in {store.root} could not be read back, {ATTEMPTS} times: is the disk sound?")
    results = []
    for choice in chosen:
        keys = {experiment.name: (choice.room.name, experiment.name) for experiment in choice.experiments}
        absent = {name: missing[key] for name, key in keys.items() if key in missing}
        runs = {
            name: [outcome for request in requests[key] for outcome in outcomes[request.name]]
            for name, key in keys.items()
            if name not in absent
        }
        results.append(Reproduced(choice, runs, absent, list(_judged(choice, runs, absent, full, tick))))
    return results


def _why_missing(group: Sequence[Request], store: Store, there: Container[str]) -> str:
    """Why an experiment has no runs; "" where it has, or they can be made. Part of a sweep is not the experiment."""
    if not group:
        return NEEDS_FULL
    # What another machine has made, and the store or the records hold, needs nothing of this one.
    to_make = (request for request in group if request.name not in there and request not in store)
    return next((why for request in to_make if (why := request.system.lacks())), "")


def _judged(
    choice: Chosen, runs: Mapping[str, Sequence[Outcome]], missing: Mapping[str, str], full: bool, tick: Tick
) -> Iterator[Verdict]:
    for number, claim in enumerate(choice.claims):
        tick(number / len(choice.claims), f"judging {claim.name}")
        assert claim.experiment is not None
        evidence = [evidence_of(outcome) for outcome in runs.get(claim.experiment, ())]
        yield judge_runs(claim, evidence, missing.get(claim.experiment, "" if full else NEEDS_FULL))


def requests_of(experiment: Experiment, full: bool) -> Iterator[Request]:
    """One request per run; an ensemble's seeds in batches. None where the experiment has no such size."""
    size = experiment.size(full)
    for variant in size.variants if size else ():
        what = subject(experiment.system, **{**experiment.fields, **variant})
        assert size is not None
        if experiment.keep == "stages":
            for first in range(0, size.seeds, BATCH):
                seeds = tuple(range(first, min(first + BATCH, size.seeds)))
                yield Request(what, experiment.face, seeds, experiment.solver, stages_only=True)
        else:
            for seed in range(size.seeds):
                yield Request(what, experiment.face, (seed,), experiment.solver)


def run_missing(
    store: Store, requests: Sequence[Request], tick: Tick, experiments: Mapping[str, str], workers: int | None = None
) -> None:
    """Side by side, then one after another those that need the machine alone.

    experiments: what each run, by its name, is for; said as it finishes.
    """
    missing = [request for request in requests if request not in store]
    together = [request for request in missing if not request.system.alone]
    done = len(requests) - len(missing)
    workers = min(workers or cores(), len(together))
    job = partial(_perform, store)
    finished = on_cores(job, together, workers) if workers > 1 else enumerate(map(job, together))

    def stands(which: str, request: Request) -> str:
        return f"{done} of {len(requests)} runs, {which}: {experiments[request.name]}, {request.words}"

    tick(done / max(len(requests), 1), f"{done} of {len(requests)} runs")
    try:
        for place, _ in finished:
            done += 1
            tick(done / len(requests), stands("last", together[place]))
        for request in (request for request in missing if request.system.alone):
            part = part_of(tick, done, len(requests), stands("now", request))
            part(0.0, "")
            job(request, part)
            done += 1
    except OSError as error:
        if error.filename and not Path(error.filename).resolve().is_relative_to(store.root.resolve()):
            raise  # no fault of the store: a study could not read its data
        raise RuntimeError(
            f"cannot write to {store.root}: {error.strerror or error}. The {done} runs that are finished are kept; the "
            "same call goes on from there"
        ) from error
    finally:
        store.sweep()


def _perform(store: Store, request: Request, tick: Tick = silent) -> None:
    with store.held(request) if isinstance(request.system, Study) else nullcontext():
        if request not in store:  # else somebody was faster
            store.save(request, _made(store, request, tick))


def _made(store: Store, request: Request, tick: Tick) -> list[Outcome]:
    if request.stages_only:
        request.system.needs_face("flow")
        assert isinstance(request.system, System)
        return all_at_once(request.system, request.solver, request.seeds)
    save = None
    if request.face == "train":
        save = store.unfinished(request)
        save.parent.mkdir(parents=True, exist_ok=True)
    return [run_face(request.system, request.face, request.seeds[0], solver=request.solver, save=save, tick=tick)]
