"""Waiting for another process to reach the point at which it is to be disturbed, however slow the machine."""

import time


def wait_for(condition, process, patience=120.0):
    began = time.monotonic()
    while not condition():
        assert process.poll() is None, "ended before it could be disturbed"
        assert time.monotonic() - began < patience
        time.sleep(0.01)
