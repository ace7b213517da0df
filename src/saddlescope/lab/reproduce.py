"""The main job: run a room's experiments, each run once, and judge its claims by them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from saddlescope.core.claim import NEEDS_FULL, Claim, Evidence, Verdict, judge_runs
from saddlescope.core.errors import BadArgument, unknown
from saddlescope.core.experiment import Experiment, Figure
from saddlescope.core.progress import Tick, silent
from saddlescope.core.registry import system
from saddlescope.core.room import Room, room, rooms

from .ensemble import all_at_once
from .judge import evidence_of
from .pool import cores, on_cores
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
    """One room's results. runs: outcomes by experiment; an experiment that this size lacks is missing."""

    chosen: Chosen
    runs: Mapping[str, Sequence[Outcome]]
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
    chosen: Sequence[Chosen], store: Store, *, full: bool = False, workers: int | None = None, tick: Tick = silent
) -> list[Reproduced]:
    """Run what the store lacks, then judge. A killed call goes on where it stopped. workers: None means all cores."""
    store.prepare()
    requests = {
        (choice.room.name, experiment.name): list(requests_of(experiment, full))
        for choice in chosen
        for experiment in choice.experiments
    }
    wanted = list({request.name: request for group in requests.values() for request in group}.values())
    names = {request.name: name for (_, name), group in requests.items() for request in group}
    outcomes: dict[str, list[Outcome]] = {}
    for _ in range(ATTEMPTS):
        run_missing(store, wanted, tick, names, workers)
        for request in wanted:
            if request.name not in outcomes:
                try:
                    outcomes[request.name] = store.load(request)
                except Damaged:
                    continue
        if len(outcomes) == len(wanted):
            break
    else:
        raise RuntimeError(f"runs in {store.root} could not be read back, {ATTEMPTS} times: is the disk sound?")
    results = []
    for choice in chosen:
        groups = {experiment.name: requests[choice.room.name, experiment.name] for experiment in choice.experiments}
        runs = {
            name: [outcome for request in group for outcome in outcomes[request.name]]
            for name, group in groups.items()
            if group
        }
        results.append(Reproduced(choice, runs, list(_judged(choice, runs, full, tick))))
    return results


def _judged(choice: Chosen, runs: Mapping[str, Sequence[Outcome]], full: bool, tick: Tick) -> Iterator[Verdict]:
    for number, claim in enumerate(choice.claims):
        tick(number / len(choice.claims), f"judging {claim.name}")
        assert claim.experiment is not None
        evidence = [evidence_of(outcome) for outcome in runs.get(claim.experiment, ())]
        yield judge_runs(claim, evidence, lacking="" if full else NEEDS_FULL)


def requests_of(experiment: Experiment, full: bool) -> Iterator[Request]:
    """One request per run; an ensemble's seeds in batches. None where the experiment has no such size."""
    size = experiment.size(full)
    for variant in size.variants if size else ():
        what = system(experiment.system, **{**experiment.fields, **variant})
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
    """experiments: what each run, by its name, is for; said as it finishes."""
    missing = [request for request in requests if request not in store]
    done = len(requests) - len(missing)
    workers = min(workers or cores(), len(missing))
    job = partial(_perform, store)
    finished = ((place, job(request)) for place, request in enumerate(missing))
    if workers > 1:
        finished = on_cores(job, missing, workers)
    tick(done / max(len(requests), 1), f"{done} of {len(requests)} runs")
    try:
        for place, _ in finished:
            done += 1
            last = missing[place]
            tick(done / len(requests), f"{done} of {len(requests)} runs, last: {experiments[last.name]}, {last.words}")
    except OSError as error:
        raise RuntimeError(
            f"cannot write to {store.root}: {error.strerror or error}. The {done} runs that are finished are kept; the "
            "same call goes on from there"
        ) from error
    finally:
        store.sweep()


def _perform(store: Store, request: Request) -> None:
    if request in store:  # somebody else was faster
        return
    if request.stages_only:
        store.save(request, all_at_once(request.system, request.solver, request.seeds))
        return
    save = None
    if request.face == "train":
        save = store.unfinished(request)
        save.parent.mkdir(parents=True, exist_ok=True)
    outcome = run_face(request.system, request.face, request.seeds[0], solver=request.solver, save=save)
    store.save(request, [outcome])
