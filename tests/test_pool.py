"""Work in processes: what an interrupt leaves behind."""

import threading
import time

from saddlescope.lab.pool import on_cores


def test_an_abandoned_pool_leaves_no_thread():
    """The pool's thread, if left, closes a pipe while the interpreter writes to it: a traceback at exit, by chance."""
    before = set(threading.enumerate())
    work = on_cores(time.sleep, [0, 60], workers=2)
    assert next(work) == (0, None)
    began = time.monotonic()
    work.close()
    assert set(threading.enumerate()) <= before
    assert time.monotonic() - began < 30  # the other part would sleep for a minute
