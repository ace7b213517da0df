"""Ctrl-C at awkward moments."""

import subprocess
import sys

SWALLOWED = """
import os, signal, time
from saddlescope.interrupt import hear_every_interrupt

class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):  # the signal is dealt with in here, where Python ignores what is raised
            pass

hear_every_interrupt()
try:
    dying = Dying()
    del dying
    time.sleep(30)
except KeyboardInterrupt:
    print("heard")
"""

TORN_DOWN = """
import atexit, os, sys
from saddlescope import cli

def interrupted(*arguments, **options):
    raise KeyboardInterrupt

atexit.register(os.abort)  # stands for compiled code that does not survive the end of the interpreter
cli.app = interrupted
cli.main(["list"])
"""


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_an_interrupt_that_python_ignores_is_heard():
    done = python(SWALLOWED)
    assert done.stdout == "heard\n" and not done.stderr


def test_other_errors_that_python_ignores_are_reported():
    done = python(SWALLOWED.replace("os.kill(os.getpid(), signal.SIGINT)", "1 / 0").replace("time.sleep(30)", ""))
    assert not done.stdout and "ZeroDivisionError" in done.stderr


def test_an_interrupted_command_ends_without_a_teardown():
    done = python(TORN_DOWN)
    assert done.returncode == 130 and done.stderr.startswith("interrupted")
