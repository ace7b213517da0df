"""Which function implements which equation: `@source` registers it, `saddlescope where` finds it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
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
    """Implementations of a statement, however it is written (see `is_among`)."""
    return [found for found in implementations(paper) if is_among(statement, found.statements)]


def is_among(statement: str, known: Iterable[str]) -> bool:
    """Whether a statement is one of these; "(5)", "Eq 5" and "eq. (5)" all mean "Eq. (5)"."""
    wanted = _plain(statement)
    return any(wanted in (_plain(one), _plain(one).removeprefix("eq")) for one in known)


def _plain(statement: str) -> str:
    return re.sub(r"[^a-z0-9]", "", statement.lower())
