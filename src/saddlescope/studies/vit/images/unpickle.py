"""A pickle of arrays, text, numbers, lists and dicts, read without running anything that the pickle names.

What a pickle of numpy arrays names is replaced by stand-ins that only take notes. Numpy itself is called afterwards,
with a dtype and a shape that have been checked: its own way to rebuild an array trusts the pickle with both.
"""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from saddlescope.core.errors import BadArgument

BYTES_MAX = 2**30
"""Six times the largest CIFAR file."""

DAMAGED = "the file is damaged or no CIFAR file, unpack the archive again"


class Refused(Exception):
    """The pickle names what is none of the stand-ins."""


class Kind:
    """Stands in for numpy.dtype."""

    __slots__ = ("code", "order")

    def __init__(self, code: object, *_: object) -> None:
        self.code, self.order = text(code), "|"

    def __setstate__(self, state: Any) -> None:
        self.order = text(state[1])


class Array:
    """Stands in for numpy.ndarray: what the pickle says of it, of which nothing has been believed."""

    __slots__ = ("state",)

    def __init__(self, *_: object) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def read(self, path: Path, name: str) -> np.ndarray:
        """The array, if it is of integers and its bytes are as many as its shape claims."""
        if not isinstance(self.state, tuple) or len(self.state) != 5:
            raise BadArgument(f"{path}: the array {name} has no contents: {DAMAGED}")
        _, shape, kind, columns_first, raw = self.state
        code = kind.order + kind.code if isinstance(kind, Kind) else type(kind).__name__
        if not re.fullmatch("[<>=|][iu][1248]", code):
            raise BadArgument(f"{path}: the array {name} is of kind {code[:20]!a}, not of integers: {DAMAGED}")
        dtype = np.dtype(code)
        sizes = shape if isinstance(shape, tuple) and len(shape) <= 4 else (-1,)
        honest = all(type(size) is int and 0 <= size <= BYTES_MAX for size in sizes)
        if not honest or not isinstance(raw, bytes) or math.prod(sizes) * dtype.itemsize != len(raw):
            held = f"{len(raw)} bytes" if isinstance(raw, bytes) else f"a {type(raw).__name__}"
            raise BadArgument(f"{path}: the array {name} claims another shape than its contents, {held}: {DAMAGED}")
        return np.frombuffer(raw, dtype).reshape(sizes, order="F" if columns_first is True else "C")


class Maker:
    """What a name in the pickle stands for: it can be called, and nothing about it can be changed."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[..., object] | None) -> None:
        self.make = make

    def __call__(self, *arguments: object) -> object:
        if self.make is None:
            raise ValueError("an array is made in a way that numpy does not use")
        return self.make(*arguments)

    def __setstate__(self, state: object) -> None:
        raise ValueError("a name is given a state")


def text(value: object) -> str:
    """Python 2 wrote its strings as bytes."""
    if isinstance(value, bytes):
        return value.decode("latin1")
    return value if isinstance(value, str) else ""


# The reader written in Python, not in C: that one makes room for whatever the pickle claims to hold before it looks.
class Reader(pickle._Unpickler):
    # A bytearray is made at the length that is claimed for it, here too.
    dispatch = {code: load for code, load in pickle._Unpickler.dispatch.items() if code != pickle.BYTEARRAY8[0]}

    def __init__(self, contents: bytes) -> None:
        super().__init__(BytesIO(contents), encoding="bytes")
        self.encoded: dict[str, bytes] = {}
        self.names: dict[tuple[str, str], Callable[..., object] | None] = {
            ("numpy.core.multiarray", "_reconstruct"): Array,
            ("numpy._core.multiarray", "_reconstruct"): Array,
            ("numpy", "ndarray"): None,  # only ever an argument of _reconstruct
            ("numpy", "dtype"): Kind,
            ("_codecs", "encode"): self.encode,
        }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.names:
            raise Refused(f"it names {ascii(f'{module}.{name}')[:200]}")
        return Maker(self.names[module, name])

    def encode(self, value: object, encoding: object) -> bytes:
        """Stands in for _codecs.encode, by which Python 3 writes bytes for Python 2.

        Each text once: a pickle could ask for the same one a million times.
        """
        if text(encoding) not in ("latin1", "latin-1") or not isinstance(value, str):
            raise ValueError("bytes are encoded in a way that pickle does not use")
        if value not in self.encoded:
            self.encoded[value] = value.encode("latin1")
        return self.encoded[value]


def unpickle(path: Path) -> Any:
    """The object pickled in `path`, its arrays as `Array`; strings of Python 2 are bytes."""
    size = path.stat().st_size
    if size > BYTES_MAX:
        raise BadArgument(f"{path} has {size} bytes, far more than any CIFAR file: it is not read")
    contents = path.read_bytes()
    try:
        return Reader(contents).load()
    except Refused as error:
        raise BadArgument(
            f"{path} is not a plain pickle of arrays ({error}). Loading the rest could run code, so nothing "
            "was loaded: unpack the archive again, from a source you trust"
        ) from error
    except Exception as error:  # a damaged pickle can fail in any way its opcodes can
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise BadArgument(f"{path} cannot be read as a pickle ({reason}): {DAMAGED}") from error
