"""The main job: run a room's experiments, each run once, and judge its claims by them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from saddlescope.core.claim import NEEDS_FULL, Claim, Evidence, Verdict, judge_runs
from saddlescope.core.errors import BadArgument, unknown
from saddlescope.core.experiment import Experiment, Figure
from saddlescope.core.progress import Tick, silent
from saddlescope.core.registry import subject
from saddlescope.core.room import Room, room, rooms

from .archive import Archive, Runs
from .derived import Derived, Question, ask, claims_on, verdicts_from
from .judge import evidence_of
from .outcome import Outcome
from .plan import Plan
from .records import Records
from .request import Request
from .store import About, Damaged, Store

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
    """One room's results. runs: outcomes by experiment, read when they are asked for; about: what they are.

    missing: experiments without runs, and why: this size, or this machine, lacks them.  figures: as SVG, by name.
    errata: how far off what is printed is, and the repair, by name; None where they were not asked for.
    """

    chosen: Chosen
    runs: Mapping[str, Sequence[Outcome]]
    about: Mapping[str, Sequence[About]]
    missing: Mapping[str, str]
    verdicts: Sequence[Verdict]
    figures: Mapping[str, str]
    errata: Mapping[str, Mapping[str, float]] | None

    def evidence(self, experiment: str) -> list[Evidence]:
        return [evidence_of(outcome) for outcome in self.runs[experiment]]


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
    note: Callable[[str], object] = lambda words: None,
) -> list[Reproduced]:
    """Run what the store lacks, judge, draw. A killed call goes on where it stopped.

    workers: None means all cores.  records: runs that are taken from there, where the store has none.  note: hears of
    what went wrong and was mended: runs that were damaged, workers that were lost.
    """
    store.prepare()
    archive = Archive(store, records)
    requests = {
        (choice.room.name, experiment.name): list(requests_of(experiment, full))
        for choice in chosen
        for experiment in choice.experiments
    }
    for _ in range(ATTEMPTS):
        _drop_damaged(archive, requests.values(), note)
        missing = {key: why for key, group in requests.items() if (why := _why_missing(group, archive))}
        questions = {choice.room.name: list(_questions(choice, requests, missing, full)) for choice in chosen}
        plan = Plan(archive, requests, missing, [one for group in questions.values() for one in group])
        try:
            plan.carry_out(workers, tick, note)
            return [_gathered(choice, archive, requests, missing, questions[choice.room.name]) for choice in chosen]
        except Damaged as error:
            note(f"{error}; it is made again")
            store.look_again()
    raise RuntimeError(f"runs in {store.root} could not be read back, {ATTEMPTS} times: is the disk sound?")


def _drop_damaged(archive: Archive, requests: Iterable[Sequence[Request]], note: Callable[[str], object]) -> None:
    for request in (request for group in requests for request in group):
        if request in archive:
            try:
                archive.about(request)
            except Damaged as error:
                note(f"{error}; it is made again")


def _why_missing(group: Sequence[Request], archive: Archive) -> str:
    """Why an experiment has no runs; "" where it has, or they can be made. Part of a sweep is not the experiment."""
    if not group:
        return NEEDS_FULL
    # What another machine has made, and the store or the records hold, needs nothing of this one.
    to_make = (request for request in group if request not in archive)
    return next((why for request in to_make if (why := request.system.lacks())), "")


Asked = Mapping[tuple[str, str], Sequence[Request]]
"""Requests by room and experiment."""


def _questions(choice: Chosen, requests: Asked, missing: Container[tuple[str, str]], full: bool) -> Iterator[Question]:
    """What is to be found out of a room's runs and code. A figure that lacks an experiment is not drawn."""
    name = choice.room.name

    def runs(*experiments: str) -> tuple[tuple[str, tuple[Request, ...]], ...]:
        return tuple((experiment, tuple(requests[name, experiment])) for experiment in experiments)

    for experiment in choice.experiments:
        if (name, experiment.name) not in missing and claims_on(choice.room, experiment.name):
            yield ask("verdicts", name, experiment.name, full, runs(experiment.name))
    for figure in choice.figures:
        if not any((name, experiment) in missing for experiment in figure.experiments):
            yield ask("figure", name, figure.name, full, runs(*figure.experiments))
    for erratum in choice.room.errata if choice.whole else ():
        yield ask("erratum", name, erratum.name)


def _gathered(
    choice: Chosen, archive: Archive, requests: Asked, missing: Mapping[tuple[str, str], str], asked: Sequence[Question]
) -> Reproduced:
    """Everything is there: read it."""
    name, derived = choice.room.name, Derived(archive)
    answers = {(question.kind, question.name): derived.answer(question) for question in asked}
    absent = {
        experiment.name: why for experiment in choice.experiments if (why := missing.get((name, experiment.name)))
    }
    groups = {one.name: requests[name, one.name] for one in choice.experiments if one.name not in absent}
    found: dict[str, Verdict] = {}
    for experiment in choice.experiments:
        claims = claims_on(choice.room, experiment.name)
        if experiment.name in absent:
            verdicts = [judge_runs(claim, [], absent[experiment.name]) for claim in claims]
        else:
            verdicts = verdicts_from(claims, answers.get(("verdicts", experiment.name), ()))
        found |= {verdict.claim.name: verdict for verdict in verdicts}
    return Reproduced(
        choice,
        Runs(archive, groups),
        {experiment: [archive.about(request) for request in group] for experiment, group in groups.items()},
        absent,
        [found[claim.name] for claim in choice.claims],
        {figure: answer for (kind, figure), answer in answers.items() if kind == "figure"},
        {erratum: answer for (kind, erratum), answer in answers.items() if kind == "erratum"} if choice.whole else None,
    )


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
