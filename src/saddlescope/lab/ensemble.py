"""One face from many seeds, on all cores."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial

from saddlescope.core.progress import Tick, silent
from saddlescope.core.system import Face, System

from .run import Outcome, outcome_of, run_face

FEWEST = 4
"""Seeds below which starting processes costs more than it saves."""

TOGETHER = 32
"""Seeds from which flows run as one batch: below it the batch is too small to pay."""


def run_seeds(
    system: System, face: Face, seeds: Sequence[int], *, solver: str = "default", tick: Tick = silent
) -> list[Outcome]:
    """Outcomes in the order of `seeds`. Flows of a batched system run together, without a prediction each."""
    system.needs_face(face)
    cores = min(os.cpu_count() or 1, len(seeds))
    job = partial(_one_by_one, system, face, solver)
    if face == "flow" and len(seeds) >= TOGETHER and _together(system):
        job = partial(_all_at_once, system, solver)
    # Training compiles once per process: one process with a warm cache is faster there.
    if cores == 1 or len(seeds) < FEWEST or face == "train":
        return job(seeds, tick)
    return _on_cores(job, seeds, cores, tick)


def _together(system: System) -> bool:
    from saddlescope.core.tree import layout_of
    from saddlescope.dynamics.ensemble import can_run_together

    start = system.start(0)
    state = start.point if system.starts_reduced else system.reduce(start.point, start.frame)
    return can_run_together(system, layout_of(state).size)


def _one_by_one(system: System, face: Face, solver: str, seeds: Sequence[int], tick: Tick = silent) -> list[Outcome]:
    outcomes = []
    for number, seed in enumerate(seeds, start=1):
        outcomes.append(run_face(system, face, seed, solver=solver))
        tick(number / len(seeds), f"{number} of {len(seeds)} seeds")
    return outcomes


def _all_at_once(system: System, solver: str, seeds: Sequence[int], tick: Tick = silent) -> list[Outcome]:
    from saddlescope.dynamics.ensemble import flow_together

    trajectories, landmarks = flow_together(system, seeds, solver=solver, tick=tick)
    return [
        outcome_of(system, "flow", seed, trajectory, landmarks, trajectory.attrs["seconds"])
        for seed, trajectory in zip(seeds, trajectories, strict=True)
    ]


def _on_cores(job: Callable[..., list[Outcome]], seeds: Sequence[int], cores: int, tick: Tick) -> list[Outcome]:
    """Split the seeds into parts small enough for the bar to move, large enough for batches to pay."""
    size = max(1, min(250, -(-len(seeds) // cores)))
    parts = [list(seeds[first : first + size]) for first in range(0, len(seeds), size)]
    # spawn: a forked process would inherit jax's threads in an unknown state.
    context = multiprocessing.get_context("spawn")
    with _single_threaded(), ProcessPoolExecutor(cores, mp_context=context) as pool:
        futures = {pool.submit(job, part): number for number, part in enumerate(parts)}
        done: dict[int, list[Outcome]] = {}
        try:
            for future in as_completed(futures):
                done[futures[future]] = future.result()
                count = sum(map(len, done.values()))
                tick(count / len(seeds), f"{count} of {len(seeds)} seeds")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [outcome for number in range(len(parts)) for outcome in done[number]]


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Workers inherit one thread for linear algebra: on small matrices threads would only fight over the cores."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
