"""One face from many seeds, on all cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from saddlescope.core.progress import Tick, part_of, silent
from saddlescope.core.registry import named
from saddlescope.core.run import Run
from saddlescope.core.shown import Shown
from saddlescope.core.subject import Face, Subject
from saddlescope.core.system import System

from .pool import can_travel, cores, on_cores
from .run import all_at_once, run

FEWEST = 4
"""Seeds below which starting processes costs more than it saves."""

TOGETHER = 32
"""Seeds from which flows run as one batch: below it the batch is too small to pay."""


class Ensemble(Shown, list[Run]):
    """Runs of one face of one system from several seeds: a list of runs that shows itself."""

    shown_by = "saddlescope.show.of_ensemble"


def run_seeds(
    system: Subject | str, face: Face, seeds: Sequence[int], *, solver: str = "default", tick: Tick = silent
) -> Ensemble:
    """One face from many seeds, on all cores: runs in the order of `seeds`.

    Flows of a batched system run together, without a prediction each. A system whose class is defined in the calling
    script runs in this process alone.  solver: of `flow`.  tick: hears of the progress.
    """
    chosen = named(system)
    chosen.needs_face(face)
    workers = min(cores(), len(seeds))
    job = partial(_one_by_one, chosen, face, solver)
    if face == "flow" and len(seeds) >= TOGETHER and _together(chosen):
        job = partial(all_at_once, chosen, solver)
    # Training compiles once per process: one process with a warm cache is faster there.
    if workers == 1 or len(seeds) < FEWEST or face == "train" or not can_travel(job):
        return Ensemble(job(seeds, tick))
    return Ensemble(_on_cores(job, seeds, workers, tick))


def _together(system: System) -> bool:
    from saddlescope.core.tree import layout_of
    from saddlescope.dynamics.ensemble import can_run_together

    state = system.flow.state_of(system.start(0))
    return can_run_together(system, layout_of(state).size)


def _one_by_one(system: Subject, face: Face, solver: str, seeds: Sequence[int], tick: Tick = silent) -> list[Run]:
    runs = []
    for number, seed in enumerate(seeds):
        part = part_of(tick, number, len(seeds), f"seed {number + 1} of {len(seeds)}")
        part(0.0, "")
        runs.append(run(system, face, seed, solver=solver, tick=part))
    return runs


def _on_cores(job: Callable[..., list[Run]], seeds: Sequence[int], workers: int, tick: Tick) -> list[Run]:
    """Split the seeds into parts small enough for the bar to move, large enough for batches to pay."""
    size = max(1, min(250, -(-len(seeds) // workers)))
    parts = [tuple(seeds[first : first + size]) for first in range(0, len(seeds), size)]
    done: dict[tuple[int, ...], list[Run]] = {}
    for part, runs in on_cores(job, parts, workers):
        done[part] = runs
        count = sum(map(len, done))
        tick(count / len(seeds), f"{count} of {len(seeds)} seeds")
    return [run for part in parts for run in done[part]]
