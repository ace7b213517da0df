"""The main job: run a room's experiments, each run once, and judge its claims by them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from saddlescope.core.claim import NEEDS_FULL, Claim, Verdict, judge
from saddlescope.core.errors import BadArgument, told, unknown
from saddlescope.core.experiment import Experiment, Figure
from saddlescope.core.progress import Tick, silent
from saddlescope.core.registry import subject
from saddlescope.core.room import Room, room, rooms
from saddlescope.core.run import Run

from .archive import Archive, Runs
from .derived import Also, Derived, Question, ask, claims_on, failures, files_in, verdicts_from
from .plan import Note, Plan
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
        """Those that these experiments decide; of a whole room also those whose experiment does not exist."""
        names = {experiment.name for experiment in self.experiments}
        return [claim for claim in self.room.claims if claim.experiment in names or (self.whole and self._lost(claim))]

    def _lost(self, claim: Claim) -> bool:
        return claim.experiment is not None and claim.experiment not in self.room.experiments


@dataclass(frozen=True)
class Reproduced:
    """One room's results.

    requests, runs, about: by experiment, what was asked for, what it gave (read when asked for), and what that is.

    missing: experiments without runs, and why: this size, or this machine, lacks them.  figures: as SVG, by name.
    errata: how far off what is printed is, and the repair, by name; None where they were not asked for.
    mistakes: in the room's own code and names, each of which costs what depends on it.
    files: what figures are wanted as besides SVG, by their place in the folder of the report.
    """

    chosen: Chosen
    requests: Mapping[str, Sequence[Request]]
    runs: Mapping[str, Sequence[Run]]
    about: Mapping[str, Sequence[About]]
    missing: Mapping[str, str]
    verdicts: Sequence[Verdict]
    figures: Mapping[str, str]
    errata: Mapping[str, Mapping[str, Any]] | None
    mistakes: Sequence[str]
    files: Mapping[str, bytes]


def choose(targets: Sequence[str] = ()) -> list[Chosen]:
    """Targets are SYSTEM or SYSTEM:FIGURE; none means every room that has experiments."""
    if not targets:
        return [_whole(found) for found in rooms().values() if found.experiments or found.broken]
    figures: dict[str, list[str] | None] = {}
    for target in targets:
        name, colon, figure = target.partition(":")
        if colon and name not in rooms():  # a class that is not installed
            found, colon = room(target), ""
            if rooms().get(found.name) != found:
                raise BadArgument(f"{target} has the name of another system, {found.name!r}: give it one of its own")
            name = found.name
        found = room(name)
        if not (found.experiments or found.broken):
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
    needed = dict.fromkeys(name for figure in figures for name in figure.experiments if name in found.experiments)
    return Chosen(found, figures, tuple(found.experiments[name] for name in needed), False)


def carry_out(
    chosen: Sequence[Chosen],
    store: Store,
    *,
    full: bool = False,
    workers: int | None = None,
    records: Records | None = None,
    also: Sequence[Also] = (),
    tick: Tick = silent,
    note: Note = lambda words: None,
) -> list[Reproduced]:
    """Run what the store lacks, judge, draw. A killed call goes on where it stopped.

    workers: None means all cores.  records: runs that are taken from there, where the store has none.  also: what each
    figure is wanted as besides SVG.  note: hears of what went wrong and was mended: runs that were damaged, workers
    that were lost.
    """
    store.prepare()
    archive = Archive(store, records)
    requests, wrong = _requests(chosen, full)
    for _ in range(ATTEMPTS):
        _drop_damaged(archive, requests.values(), note)
        missing = {key: why for key, group in requests.items() if (why := _why_missing(group, archive))} | wrong
        questions = {choice.room.name: list(_questions(choice, requests, missing, full, also)) for choice in chosen}
        plan = Plan(archive, requests, missing, [one for group in questions.values() for one in group])
        try:
            plan.carry_out(workers, tick, note)
            failed = {
                key: plan.failed[one.name]
                for key, group in requests.items()
                for one in group
                if one.name in plan.failed
            }
            wrong |= failed
            return [_gathered(choice, archive, requests, missing | failed, wrong, full, also) for choice in chosen]
        except Damaged as error:
            note(f"{error}; it is made again")
            store.look_again()
    raise RuntimeError(f"runs in {store.root} could not be read back, {ATTEMPTS} times: is the disk sound?")


def _requests(chosen: Sequence[Chosen], full: bool) -> tuple[Asked, dict[tuple[str, str], str]]:
    """What each experiment asks for; and why, where it asks for what cannot be."""
    requests: dict[tuple[str, str], list[Request]] = {}
    wrong: dict[tuple[str, str], str] = {}
    for choice in chosen:
        for experiment in choice.experiments:
            key = choice.room.name, experiment.name
            try:
                requests[key] = list(requests_of(experiment, full))
                # Raises where a part of its system cannot be made, or its code not be read.
                assert all(one.name and _lacking(one) is not None for one in requests[key])
            except Exception as error:  # a room's author may have made any mistake
                requests[key], wrong[key] = [], f"its experiment cannot be run: {told(error)}"
    return requests, wrong


def _drop_damaged(archive: Archive, requests: Iterable[Sequence[Request]], note: Note) -> None:
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
    return next((why for request in to_make if (why := _lacking(request))), "")


def _lacking(request: Request) -> str:
    return request.system.training.lacks() if request.face == "train" else ""


Asked = Mapping[tuple[str, str], Sequence[Request]]
"""Requests by room and experiment."""


def _questions(
    choice: Chosen, requests: Asked, missing: Container[tuple[str, str]], full: bool, also: Sequence[Also]
) -> Iterator[Question]:
    """What is to be found out of a room's runs and code. A figure that lacks an experiment is not drawn."""
    name = choice.room.name

    def runs(*experiments: str) -> tuple[tuple[str, tuple[Request, ...]], ...]:
        return tuple((experiment, tuple(requests[name, experiment])) for experiment in experiments)

    for experiment in choice.experiments:
        if (name, experiment.name) not in missing and claims_on(choice.room, experiment.name):
            yield ask("verdicts", name, experiment.name, full, runs(experiment.name))
    for figure in choice.figures:
        if all((name, one) in requests and (name, one) not in missing for one in figure.experiments):
            for kind in ("figure", *also):
                yield ask(kind, name, figure.name, full, runs(*figure.experiments))
    for erratum in (one for one in choice.room.errata if choice.whole and one.shows):
        yield ask("erratum", name, erratum.name)


def _gathered(
    choice: Chosen,
    archive: Archive,
    requests: Asked,
    missing: Mapping[tuple[str, str], str],
    wrong: Mapping[tuple[str, str], str],
    full: bool,
    also: Sequence[Also],
) -> Reproduced:
    """Everything is there: read it."""
    name, derived = choice.room.name, Derived(archive)
    questions = _questions(choice, requests, missing, full, also)
    answers = {(question.kind, question.name): derived.answer(question) for question in questions}
    absent = {one.name: missing[name, one.name] for one in choice.experiments if (name, one.name) in missing}
    groups = {one.name: requests[name, one.name] for one in choice.experiments if one.name not in absent}
    decided = [row for (kind, _), rows in answers.items() if kind == "verdicts" for row in rows]
    found = {verdict.claim.name: verdict for verdict in verdicts_from(choice.claims, decided)}

    def undecided(claim: Claim) -> Verdict:
        assert claim.experiment is not None
        return judge(claim, [], absent.get(claim.experiment) or choice.room.no_experiment(claim.experiment))

    drawn = [one for (kind, one), answer in answers.items() if kind == "figure" and answer["svg"]]
    errors = [
        f"{kind} {one}: {words}"
        for (kind, one), answer in answers.items()
        if kind not in also or one in drawn  # the same mistake is told once
        for words in failures(answer)
    ]
    errors += [f"experiment {one}: {why}" for (room, one), why in wrong.items() if room == name]
    return Reproduced(
        choice,
        {one.name: requests[name, one.name] for one in choice.experiments},
        Runs(archive, groups),
        {experiment: [archive.about(request) for request in group] for experiment, group in groups.items()},
        absent,
        [found.get(claim.name) or undecided(claim) for claim in choice.claims],
        {one: answers["figure", one]["svg"] for one in drawn},
        {one: answer for (kind, one), answer in answers.items() if kind == "erratum"} if choice.whole else None,
        [
            f"{name}: {words}"
            for words in [*errors, *choice.room.broken, *choice.room.lost(choice.claims, choice.figures)]
        ],
        {
            f"{'data' if kind == 'data' else 'figures'}/{name}-{one}{ending}": content
            for (kind, one), answer in answers.items()
            if kind in also
            for ending, content in files_in(answer).items()
        },
    )


def requests_of(experiment: Experiment, full: bool) -> Iterator[Request]:
    """One request per run; an ensemble's seeds in batches. None where the experiment has no such size."""
    size = experiment.size(full)
    if size is None:
        return
    for variant in size.variants:
        what = subject(experiment.system, size.preset, **{**experiment.fields, **variant})
        what.needs_face(experiment.face)
        if experiment.keep == "stages":
            for first in range(0, size.seeds, BATCH):
                seeds = tuple(range(first, min(first + BATCH, size.seeds)))
                yield Request(what, experiment.face, seeds, experiment.solver, stages_only=True)
        else:
            for seed in range(size.seeds):
                yield Request(what, experiment.face, (seed,), experiment.solver)
