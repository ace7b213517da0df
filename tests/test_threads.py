"""One thread for linear algebra inside, and as many as before outside."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import saddlescope as ss
from saddlescope.core import threads as module
from saddlescope.core.threads import LARGE, one_thread, threads_for
from saddlescope.lab.pool import WORKER_ENVIRONMENT

from .conftest import printed


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    """The suite keeps to one thread: here every BLAS has two to begin with."""
    import scipy.linalg  # noqa: F401

    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("this BLAS cannot be given two threads")
        yield


def test_they_are_given_back():
    with one_thread():
        assert blas_threads() == {1}
        with one_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}
    with pytest.raises(ValueError, match="wrong"), one_thread():
        raise ValueError("wrong")
    assert blas_threads() == {2}


def as_users_start_it(code: str, **settings: str) -> list[str]:
    """What a process prints that has BLAS's own number of threads."""
    environment = {name: value for name, value in os.environ.items() if name not in WORKER_ENVIRONMENT}
    return printed(sys.executable, "-c", code, env={**environment, **settings}).split()


OVERLAPPING = """
import threading

import scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits

from saddlescope.core.threads import one_thread

inside, leave = threading.Event(), threading.Event()

def threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

def other():
    with one_thread():
        inside.set()
        leave.wait(60)
        print(threads())  # the first has left

with threadpool_limits(2, user_api="blas"):
    before = threads()
    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(60)
    with one_thread():
        print(threads())  # the other is inside too
    leave.set()
    thread.join()
    print(threads() == before)
    late = threading.Thread(target=lambda: print(threads() == before))
    late.start()
    late.join()
"""


def test_blocks_of_two_threads_may_overlap():
    assert as_users_start_it(OVERLAPPING) == ["{1}", "{1}", "True", "True"]


class Shared:
    """A BLAS with one number for all Python threads, as BLIS has."""

    internal_api = "blis"
    num_threads = 8

    def set_num_threads(self, number):
        self.num_threads = number


def test_a_number_that_threads_share_is_given_back_by_the_last(monkeypatch):
    library, inside, leave = Shared(), threading.Event(), threading.Event()
    monkeypatch.setattr(module, "_libraries", lambda: [library])

    def other():
        with one_thread():
            inside.set()
            leave.wait(60)

    with ThreadPoolExecutor() as threads:
        threads.submit(other)
        inside.wait(60)
        with one_thread():
            assert library.num_threads == 1
        assert library.num_threads == 1
        leave.set()
    assert library.num_threads == 8


def test_large_matrices_keep_theirs():
    with threads_for((LARGE + 1, 4 * LARGE)):
        assert blas_threads() == {2}
    with threads_for((LARGE, 4 * LARGE)):
        assert blas_threads() == {1}


def watched(monkeypatch, owner, name):
    """How many threads there are whenever a function is called."""
    seen, whole = [], getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *given: (seen.append(blas_threads()), whole(*given))[1])
    return seen


@pytest.mark.parametrize("run", [ss.predict, ss.flow, ss.train])
def test_the_python_api_computes_with_one(run, monkeypatch):
    chosen = ss.system("squares", "tiny")
    seen = watched(monkeypatch, type(chosen.theory), "predict")
    run(chosen)
    assert seen == [{1}] and blas_threads() == {2}


def test_a_measurement_computes_with_one(monkeypatch, tmp_path, torch):
    from saddlescope.watch import measure as measuring

    seen = watched(monkeypatch, measuring, "changed")
    model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 2, batch_first=True), 1)
    with ss.Watch(model, every=1, heads=2, folder=tmp_path / "watched") as watch:
        with torch.no_grad():
            for weight in model.parameters():
                weight += 0.01 * torch.randn(weight.shape)
        watch.step(1)
    assert seen and all(found == {1} for found in seen) and blas_threads() == {2}
    assert np.isfinite(watch.trajectory["stable_rank"].isel(time=-1)).all()


STARTED = """
import os
import saddlescope as ss
from saddlescope.templates.squares.system import Squares, SquaresFlow

class Compiled(SquaresFlow):
    arrays = "jax"

class CompiledSquares(Squares):
    flow = ss.part(Compiled)

ss.flow(CompiledSquares(CompiledSquares.preset("tiny")))
names = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
print(sum("XLAEigen" in name for name in names), "PJRT_NPROC" in os.environ)
"""


@pytest.mark.parametrize(("settings", "threads"), [({}, "1"), ({"NPROC": "3"}, "3")])
def test_a_flow_starts_jax_with_one_thread_unless_told_otherwise(settings, threads):
    assert as_users_start_it(STARTED, **settings) == [threads, "False"]
