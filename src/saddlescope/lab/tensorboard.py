"""Scalars of TensorBoard event files, read without TensorBoard: length-framed records, each one protobuf `Event`."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.extras import needed_by

with needed_by("reading TensorBoard's events"):
    from google_crc32c import value as crc32c

FLOAT, DOUBLE = 1, 2
"""TensorFlow's numbers of the two types in which scalars are written."""

Scalars = dict[str, list[tuple[int, float]]]
"""Tag to (step, value), in the order of writing."""


def event_files(path: Path) -> list[Path]:
    """The event files of a run: `path` itself, or those in the folder, oldest first (names carry the time)."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if is_event_file(file))
    if not found:
        below = sorted({str(file.parent) for file in path.glob("*/*") if is_event_file(file)})
        way_out = (
            f"name one of the runs in it: {', '.join(below[:8])}" if below else "name the file that holds the curve"
        )
        raise BadArgument(f"{path} is a folder, and holds no event file (events.out.tfevents.*): {way_out}")
    return found


def is_event_file(path: Path) -> bool:
    return "tfevents" in path.name and path.is_file()


def read_scalars(path: Path) -> Scalars:
    """Every scalar of an event file; a last record that is cut off belongs to a run still writing, or killed."""
    scalars: Scalars = {}
    for offset, record in _records(path):
        try:
            step, values = _event(record)
        except (ValueError, struct.error) as error:
            raise _damaged(path, offset, f"it is no event ({error})") from error
        for tag, value in values:
            scalars.setdefault(tag, []).append((step, value))
    return scalars


def _records(path: Path) -> Iterator[tuple[int, bytes]]:
    """Byte offset and content: u64 length, its checksum, the content, its checksum."""
    size = path.stat().st_size
    with path.open("rb") as file:
        offset = 0
        while offset + 12 <= size:
            head = file.read(12)
            if len(head) < 12:
                return
            (length,) = struct.unpack("<Q", head[:8])
            _check(path, offset, head[:8], head[8:], "length")
            if length + 4 > size - offset - 12:
                return
            body = file.read(length + 4)
            if len(body) < length + 4:
                return
            _check(path, offset, body[:-4], body[-4:], "content")
            yield offset, body[:-4]
            offset += 12 + length + 4


def _check(path: Path, offset: int, content: bytes, written: bytes, what: str) -> None:
    plain = int(crc32c(content))
    # The format rotates and shifts checksums, so that a record which holds records does not check itself.
    masked = ((plain >> 15 | plain << 17) + 0xA282EAD8) & 0xFFFFFFFF
    if struct.unpack("<I", written)[0] != masked:
        raise _damaged(path, offset, f"the checksum of its {what} does not fit")


def _damaged(path: Path, offset: int, why: str) -> BadArgument:
    return BadArgument(
        f"{path}: the record at byte {offset} is damaged, {why}: copy the file again, or cut it there to keep the rest"
    )


def _event(record: bytes) -> tuple[int, list[tuple[str, float]]]:
    """Step and tagged scalars of an Event: step is field 2, summary field 5, in it the values field 1."""
    step, values = 0, []
    for field, content in _fields(record):
        if field == 2 and isinstance(content, int):
            step = content - 2**64 if content >= 2**63 else content
        elif field == 5 and isinstance(content, bytes):
            values += [_tagged(inner) for number, inner in _fields(content) if number == 1 and isinstance(inner, bytes)]
    return step, [(tag, value) for tag, value in values if value is not None]


def _tagged(summary_value: bytes) -> tuple[str, float | None]:
    """Tag is field 1, simple_value field 2, tensor field 8; histograms, images and texts have no scalar."""
    tag, scalar = "", None
    for field, content in _fields(summary_value):
        if not isinstance(content, bytes):
            continue
        if field == 1:
            tag = content.decode("utf-8")
        elif field == 2:
            (scalar,) = struct.unpack("<f", content)
        elif field == 8:
            scalar = _tensor_scalar(content)
    return tag, scalar


def _tensor_scalar(tensor: bytes) -> float | None:
    """The number in a tensor that holds one: dtype is field 1, raw content field 4, floats field 5, doubles field 6."""
    kind, parts = 0, {4: b"", 5: b"", 6: b""}
    for field, content in _fields(tensor):
        if field == 1 and isinstance(content, int):
            kind = content
        elif field in parts and isinstance(content, bytes):
            parts[field] += content
    if kind not in (FLOAT, DOUBLE):
        return None
    raw = parts[4] or parts[5 if kind == FLOAT else 6]
    width = 4 if kind == FLOAT else 8
    return float(np.frombuffer(raw, f"<f{width}")[0]) if len(raw) == width else None


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers of a protobuf message with their content: integers as such, everything else as bytes."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        kind = key & 7
        if kind == 0:
            content, place = _varint(message, place)
            yield key >> 3, content
            continue
        if kind == 2:
            length, place = _varint(message, place)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if place + length > len(message):
            raise ValueError("a field ends outside of it")
        yield key >> 3, message[place : place + length]
        place += length


def _varint(message: bytes, place: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            break
        byte = message[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number & (2**64 - 1), place
    raise ValueError("an integer does not end")
