"""One face from many seeds, on all cores."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from saddlescope.core.progress import Tick, silent
from saddlescope.core.system import Face, System

from .run import Outcome, run_face

FEWEST = 4
"""Seeds below which starting processes costs more than it saves."""


def run_seeds(
    system: System, face: Face, seeds: Sequence[int], *, solver: str = "default", tick: Tick = silent
) -> list[Outcome]:
    """Outcomes in the order of `seeds`."""
    system.needs_face(face)
    cores = min(os.cpu_count() or 1, len(seeds))
    # Training compiles once per process: one process with a warm cache is faster there.
    if cores == 1 or len(seeds) < FEWEST or face == "train":
        outcomes = []
        for number, seed in enumerate(seeds):
            outcomes.append(run_face(system, face, seed, solver=solver))
            tick((number + 1) / len(seeds), f"seed {seed} done, {number + 1} of {len(seeds)}")
        return outcomes
    # spawn: a forked process would inherit jax's threads in an unknown state.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores, mp_context=context, initializer=_one_thread) as pool:
        try:
            futures = {pool.submit(run_face, system, face, seed, solver=solver): number for number, seed in enumerate(seeds)}
            done = {}
            for future in as_completed(futures):
                done[futures[future]] = future.result()
                tick(len(done) / len(seeds), f"{len(done)} of {len(seeds)} seeds")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [done[number] for number in range(len(seeds))]


def _one_thread() -> None:
    # Small matrices: threads of the linear algebra library would only fight over the cores.
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
