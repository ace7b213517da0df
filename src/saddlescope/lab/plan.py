"""The work of `reproduce`: runs, and what follows from them, each begun as soon as what it needs is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from saddlescope.core.errors import CannotGoOn, concerns_all, told_with_place
from saddlescope.core.extras import MissingLibrary
from saddlescope.core.progress import Tick, part_of, silent
from saddlescope.core.run import Run

from .archive import Archive
from .closure import CodeChanged, code_changed, sources_now
from .derived import Derived, Question
from .pool import cores, on_cores
from .request import Request
from .run import all_at_once, run
from .store import Store

Part = Request | Question

Note = Callable[[str], object]
"""Called with words on what went wrong and was mended."""

FIRST = ("train", "flow", "predict")
"""The longest runs begin first, so that at the end no core waits for one of them."""


class Plan:
    """requests: by room and experiment.  missing: those of them that cannot be run.  questions: all that are asked.

    failed: once it is carried out, the runs whose code raised an error, and which; what draws on them has no answer.
    """

    def __init__(
        self,
        archive: Archive,
        requests: Mapping[tuple[str, str], Sequence[Request]],
        missing: Mapping[tuple[str, str], str],
        questions: Sequence[Question],
    ):
        self.archive, self.derived = archive, Derived(archive)
        self.experiments = {request.name: name for (_, name), group in requests.items() for request in group}
        wanted = {one.name: one for key, group in requests.items() if key not in missing for one in group}
        self.runs = len(wanted)
        self.to_make = {name: request for name, request in wanted.items() if request not in archive}
        self.failed: dict[str, str] = {}
        self.open = list(questions)
        self.questions = self.unanswered = len(questions)

    def carry_out(self, workers: int | None, tick: Tick, note: Note) -> None:
        """Side by side, then one after another the runs that need the machine alone, then what follows from those."""
        workers = workers or cores()
        try:
            together = [request for request in self.to_make.values() if not _alone(request)]
            self._side_by_side([*self._in_order(together), *self._ready()], workers, tick, note)
            ready: list[Part] = []
            for request in list(self.to_make.values()):
                part = part_of(tick, self._done, self._all, self._stands("now", request))
                part(0.0, "")
                self._note(request, _attempt(self.archive.store, request, part, note))
                ready += self._finished(request)
            self._side_by_side(ready, workers, tick, note)
        except OSError as error:
            store = self.archive.store
            if error.filename and not _is_below(store.root, error):
                raise
            kept = self.runs - len(self.to_make)
            raise RuntimeError(
                f"cannot write to {error.filename or store.root}: {error.strerror or error}. The {kept} runs that are "
                "finished are kept; the same call goes on from there"
            ) from error
        finally:
            self.archive.store.sweep()

    def _side_by_side(self, parts: list[Part], workers: int, tick: Tick, note: Note) -> None:
        tick(self._done / max(self._all, 1), self._counts())
        job = partial(_do, self.archive)
        workers = min(workers, len(parts) + len(self.open))
        if workers > 1:
            for part, (failure, notes) in on_cores(job, parts, workers, more=self._finished, note=note):
                self._note(part, failure)
                for words in notes:
                    note(words)
                tick(self._done / self._all, self._stands("last", part))
        else:
            while parts:
                part = parts.pop(0)
                failure, notes = job(part)
                self._note(part, failure)
                for words in notes:
                    note(words)
                parts += self._finished(part)
                tick(self._done / self._all, self._stands("last", part))

    def _note(self, part: Part, failure: str) -> None:
        if failure and isinstance(part, Request):
            self.failed[part.name] = f"{part.words} failed: {failure}"

    def _in_order(self, requests: Sequence[Request]) -> list[Request]:
        """Longest faces first. The runs of one experiment compile the same code: they are dealt out in turns, so that
        one worker compiles it and the next finds it compiled."""
        turns: Counter[str] = Counter()
        order = []
        for request in requests:
            name = self.experiments[request.name]
            order.append((FIRST.index(request.face), turns[name], len(order), request))
            turns[name] += 1
        return [request for *_, request in sorted(order, key=lambda entry: entry[:3])]

    def _finished(self, part: Part) -> list[Question]:
        """What can be found out now that this is done."""
        if isinstance(part, Question):
            self.unanswered -= 1
            return []
        del self.to_make[part.name]
        return list(self._ready())

    def _ready(self) -> Iterator[Question]:
        """Questions whose runs are all there; each once. Those that were answered before count as done."""
        for question in list(self.open):
            waits = any(request.name in self.to_make for request in question.requests)
            if not waits and all(request in self.archive for request in question.requests):
                self.open.remove(question)
                if self.derived.find(question) is None:
                    yield question
                else:
                    self.unanswered -= 1

    # ---- where things stand

    @property
    def _all(self) -> int:
        return self.runs + self.questions

    @property
    def _done(self) -> int:
        return self._all - len(self.to_make) - self.unanswered

    def _counts(self) -> str:
        return f"{self.runs - len(self.to_make)} of {self.runs} runs"

    def _stands(self, which: str, part: Part) -> str:
        name = f"{self.experiments[part.name]}, " if isinstance(part, Request) else ""
        return f"{self._counts()}, {which}: {name}{part.words}"


def _do(archive: Archive, part: Part) -> tuple[str, list[str]]:
    """The error that a run ended with, and what there is to note, since a worker has nobody to tell."""
    notes: list[str] = []
    if isinstance(part, Question):
        Derived(archive).work_out(part)
        return "", notes
    return _attempt(archive.store, part, note=notes.append), notes


def _attempt(store: Store, request: Request, tick: Tick = silent, note: Note = lambda words: None) -> str:
    """Make a run. An error in the code of its room costs this run alone, and is told."""
    try:
        perform(store, request, tick, note)
    except (Exception, SystemExit) as error:
        if isinstance(error, CodeChanged | MissingLibrary) or concerns_all(error) or _is_below(store.root, error):
            raise
        return told_with_place(error)
    return ""


def _is_below(root: Path, error: BaseException) -> bool:
    """Whether it is an error of a file in this folder."""
    name = error.filename if isinstance(error, OSError) else None
    return isinstance(name, str) and Path(name).absolute().is_relative_to(root.absolute())


def _alone(request: Request) -> bool:
    return request.face == "train" and request.system.training.alone


def perform(store: Store, request: Request, tick: Tick = silent, note: Note = lambda words: None) -> None:
    """Make a run and keep it; where it is there already, nothing."""
    with store.held(request) if request.face == "train" else nullcontext():
        if request not in store:  # otherwise another process made it first
            try:
                runs = _made(store, request, tick)
            except CannotGoOn as error:
                note(f"{request.words}: {error.__cause__ or error}; {store.begin_anew(request)}")
                runs = _made(store, request, tick)
            if sources_now(request.system) != request.sources:
                raise code_changed(request.words)
            store.save(request, runs)


def _made(store: Store, request: Request, tick: Tick) -> list[Run]:
    if request.stages_only:
        request.system.needs_face("flow")
        return all_at_once(request.system, request.solver, request.seeds)
    save = None
    if request.face == "train":
        save = store.unfinished(request)
        save.parent.mkdir(parents=True, exist_ok=True)
    return [run(request.system, request.face, request.seeds[0], solver=request.solver, save=save, tick=tick)]
