"""CIFAR-10 and CIFAR-100 as unpacked from their archives for Python, which are pickles that Python 2 wrote.

A pickle is a program. This one is read and never run: the standard library tells its opcodes apart, and the few that
these files use are followed on plain lists, tuples, text and numbers. Whatever a pickle names remains a text.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from pickletools import genops
from typing import Any

import numpy as np

from saddlescope.core.errors import unknown
from saddlescope.studies.vit.images.decode import Part, naming, part_of_arrays

BYTES_MAX = 2**29
OPCODES_MAX = 10**6
"""Three and five times what the largest file has: what is read into memory is bounded by both."""

CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
ADDED = {"APPEND": 1, "SETITEM": 2, "APPENDS": None, "SETITEMS": None}
JOINED = {"TUPLE": None, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "REDUCE": 2, "BUILD": 2}
"""How much of the stack is added to the list below it, or joined to a tuple; None: all from the last mark on."""

KINDS = ("labels", "fine_labels", "coarse_labels")


def read_cifar(path: Path, labels: str | None) -> Part:
    with naming(str(path), "check its permissions, or unpack the archive again"):
        if path.stat().st_size > BYTES_MAX:
            raise ValueError("it is far larger than any of CIFAR")
        entries = unpickle(path.read_bytes())
        kinds = [kind for kind in KINDS if kind in entries]
        if labels is not None and labels not in kinds:
            raise unknown(f"labels of {path}", labels, kinds)
        pixels = pixels_of(entries.get("data"))
        numbers = entries[labels or kinds[0]] if kinds else None
        if not isinstance(numbers, list) or len(numbers) != len(pixels) or any(type(one) is not int for one in numbers):
            raise ValueError("there is no list of one number for each image")
        return part_of_arrays(str(path), np.array(numbers, np.int64), pixels)


def pixels_of(array: Any) -> np.ndarray:
    """uint8 [n, 32, 32, 3] of what was found in an array's place: how it is made, and the state it is given."""
    match array:
        case [_, [_, [int(rows), 3072], [[_, ["u1", *_]], _], bool(columns_first), str(raw)]]:
            pixels = np.frombuffer(raw.encode("latin1"), np.uint8)
            pixels = pixels.reshape((rows, 3072), order="F" if columns_first else "C")
            return pixels.reshape(rows, 3, 32, 32).transpose(0, 2, 3, 1)
    raise ValueError("`data` is no array uint8 of shape (n, 3072)")


def unpickle(contents: bytes) -> dict[str, Any]:
    """The entries of the one dict in a pickle. What would be called or given a state is a pair of both instead."""
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[Any, Any] = {}
    for opcode, argument, _ in islice(genops(contents), OPCODES_MAX):
        name = opcode.name
        if name == "MARK":
            marks.append(len(stack))
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name in ("EMPTY_LIST", "EMPTY_DICT"):  # a dict becomes the list of its keys and values in turns
            stack.append([])
        elif name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name in ADDED or name in JOINED:
            count = ADDED[name] if name in ADDED else JOINED[name]
            start = marks.pop() if count is None else len(stack) - count
            taken = stack[start:]
            del stack[start:]
            if name in ADDED:
                stack[-1].extend(taken)
            else:
                stack.append(tuple(taken))
        elif name == "STOP":
            (flat,) = stack
            return {key: value for key, value in zip(flat[::2], flat[1::2], strict=True) if isinstance(key, str)}
        elif argument is None:
            raise ValueError(f"it has the opcode {name}")
        elif name != "PROTO":
            stack.append(argument)
    raise ValueError("it is far longer than any of CIFAR")
