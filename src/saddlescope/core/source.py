"""Which function implements which equation: `@source` registers it, `saddlescope where` finds it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

F = TypeVar("F", bound=Callable)


@dataclass(frozen=True)
class Implementation:
    paper: str
    statements: tuple[str, ...]
    function: Callable

    @property
    def location(self) -> tuple[str, int]:
        code = inspect.unwrap(self.function)
        return inspect.getsourcefile(code) or "?", inspect.getsourcelines(code)[1]


_implementations: dict[tuple[str, str], Implementation] = {}


def source(paper: str, *statements: str) -> Callable[[F], F]:
    """Mark a function as the implementation of numbered statements of a paper.

    `paper`: citation key, e.g. "zhang2025".  `statements`: e.g. "Eq. (5)", "Lemma 4.1".
    """

    def register(function: F) -> F:
        name = f"{function.__module__}.{function.__qualname__}"
        _implementations[paper, name] = Implementation(paper, statements, function)
        return function

    return register


def implementations(paper: str | None = None) -> list[Implementation]:
    return [found for found in _implementations.values() if paper in (None, found.paper)]


def find_statement(paper: str, statement: str) -> list[Implementation]:
    """Implementations of a statement; "(5)", "Eq 5" and "eq. (5)" all mean "Eq. (5)"."""
    wanted = _plain(statement)
    return [
        found
        for found in implementations(paper)
        if any(wanted in (_plain(known), _plain(known).removeprefix("eq")) for known in found.statements)
    ]


def _plain(statement: str) -> str:
    return re.sub(r"[^a-z0-9]", "", statement.lower())
