"""Libraries that not every installation has, and the extra that brings each of them.

`pip install saddlescope` gives the instrument; what needs more says which extra, e.g. `saddlescope[lab]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec

EXTRAS: Mapping[str, str] = {
    "jax": "lab",
    "diffrax": "lab",
    "optax": "lab",
    "torch": "torch",
    "transformers": "hf",
    "accelerate": "hf",
    "peft": "hf",
    "lightning": "hf",
    "pyarrow": "vision",
    "PIL": "vision",
    "sklearn": "vision",
    "ruptures": "stages",
    "google_crc32c": "stages",
}
"""Extra of each library, by the name under which it is imported."""


class MissingLibrary(ImportError):
    """What was asked for needs a library that is not installed."""


def missing(what: str, *libraries: str) -> MissingLibrary:
    """The error for `what`, which needs these libraries, and the command that installs them."""
    are = "is" if len(libraries) == 1 else "are"
    return MissingLibrary(f"{what} needs {_listed(libraries)}, which {are} not installed: {installing(*libraries)}")


def installing(*libraries: str) -> str:
    """The command that installs these libraries: extras, and by name those that somebody's own system needs."""
    extras = dict.fromkeys(EXTRAS[name] for name in libraries if name in EXTRAS)
    ours = [f"'saddlescope[{','.join(extras)}]'"] if extras else []
    return " ".join(["pip install", *ours, *(name for name in libraries if name not in EXTRAS)])


def absent(libraries: Iterable[str]) -> list[str]:
    """Those of them that are not installed; none is imported."""
    return [name for name in libraries if not _is_there(name)]


def check_installed(what: str, libraries: Iterable[str]) -> None:
    """Raise `MissingLibrary` if `what` lacks one of these libraries. It names all that are missing."""
    if lacking := absent(libraries):
        raise missing(what, *lacking)


@contextmanager
def needed_by(what: str) -> Iterator[None]:
    """A failed import of a library that an extra brings becomes a `MissingLibrary`. Also a decorator.

    what: the command, function or class that needs the library. Of nested blocks the innermost one is named.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in EXTRAS:
            raise
        raise missing(what, library) from error


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of somebody who hides it, a test say
        return False
