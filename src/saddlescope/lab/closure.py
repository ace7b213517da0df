"""Which files a run depends on: all that the code which makes it imports, directly or not."""

from __future__ import annotations

import ast
import hashlib
import inspect
import itertools
from collections.abc import Iterable, Iterator, Set
from functools import cache
from pathlib import Path

import saddlescope
from saddlescope.core.subject import Subject

ANALYSIS_MODULES = frozenset({"evidence", "claims", "experiments", "figures", "errata", "measures", "report", "show"})
"""Analysis modules and packages, by the last word of their names: not part of a run's hash, nor is what only they
import."""

OURS = Path(__file__).resolve().parents[1]
RUNS = OURS / "lab/run.py"
"""Where what engines give becomes runs."""

INSTALLED = {"site-packages", "dist-packages"}


def sources_now(system: Subject) -> str:
    """Hash of the code that the runs of a system or study depend on; the same wherever the package lies."""
    return hash_of(files_of(system))


def sources(system: Subject) -> str:
    """The same when it was first asked for, which is closer to what this process has imported."""
    key = type(system), _engines(system)
    if key not in _sources_then:
        _sources_then[key] = sources_now(system)
    return _sources_then[key]


_sources_then: dict[tuple[type[Subject], frozenset[str]], str] = {}


class CodeChanged(RuntimeError):
    """Nobody knows which code has run, so what it gave must not be kept under the name of either."""


def code_changed(words: str) -> CodeChanged:
    return CodeChanged(
        f"the code of {words} changed while it ran, so its result was not kept: call again (a Python process that "
        "has loaded the old code must be started anew)"
    )


def hash_of(files: Iterable[Path]) -> str:
    """Of what they hold, and of where they are inside their packages."""
    known = sorted((_address(file), file) for file in files)
    parts = (part for address, file in known for part in (address.encode(), file.read_bytes()))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _engines(system: Subject) -> frozenset[str]:
    return frozenset(module for part in system.parts for module in part.engines.values())


def files_of(system: Subject) -> set[Path]:
    """Of its classes, of the engines of its parts and of what finds its stages, with all that they import."""
    # A variant may be built on classes of another folder (a user's system that extends one of ours).
    bases = [base for base in type(system).__mro__ if issubclass(base, Subject)]
    homes = [file for base in bases if (file := home(base)) is not None]
    engines = [OURS.parent.joinpath(*module.split(".")).with_suffix(".py") for module in _engines(system)]
    return closure([*homes, *engines, RUNS])


def home(kind: type) -> Path | None:
    """The file of a class; None for one that was typed into an interpreter."""
    try:
        file = Path(inspect.getfile(kind)).resolve()
    except (OSError, TypeError):
        return None
    return file if file.is_file() else None


def closure(files: Iterable[Path], leave_out: Set[str] = ANALYSIS_MODULES) -> set[Path]:
    """These files with all that they import from their own packages and from this one.

    leave_out: last words of the names of modules and packages that do not count.

    Imports inside functions count; those for type checkers alone do not, nor do libraries.
    """
    found: set[Path] = set()
    queue = list(files)
    packages = {OURS, *(_package(file) for file in queue)}
    while queue:
        if (here := queue.pop()) not in found:
            found.add(here)
            for file in set(_imported(here)) - found:
                # This package's own __init__ holds lazy names, and the version, which changes no number.
                ours = file != OURS / "__init__.py" and any(file.is_relative_to(package) for package in packages)
                if ours and file.is_file() and not leave_out & _last_words(file):
                    queue.append(file)
    return found


def _last_words(file: Path) -> set[str]:
    """The last word in the name of a module, and of each package that it is in.

    The outermost package is left out: it is the whole project, and may well be called my_experiments.
    """
    parts = file.relative_to(_outside(file)).with_suffix("").parts
    return {part.rpartition("_")[2] for part in parts[1:] or parts}


def _imported(here: Path) -> list[Path]:
    """Where the modules may be that a file imports: files, or packages."""
    return _imported_then(here, here.stat().st_mtime_ns)


@cache
def _imported_then(here: Path, moment: int) -> list[Path]:
    """moment: when the file was last written, so that one which has changed is read again."""
    nodes = list(_run_nodes(ast.parse(here.read_text(encoding="utf-8"))))
    places = [origin.joinpath(*parts) for node in nodes for origin, parts in _named(here, node)]
    places += _offered(nodes)
    return [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]


def _run_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a syntax tree, but for what `if TYPE_CHECKING:` guards."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for other in node.orelse:
                yield other
                yield from _run_nodes(other)
        else:
            yield node
            yield from _run_nodes(node)


def _named(here: Path, node: ast.AST) -> Iterator[tuple[Path, list[str]]]:
    """(folder, names below it) of every module that an import may mean."""
    if isinstance(node, ast.Import):
        for origin in _origins(here):
            yield from ((origin, alias.name.split(".")) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module.split(".") if node.module else []
        origins = [here.parents[node.level - 1]] if node.level else _origins(here)
        # A name that is imported may be a module itself; "from . import x" says nothing of the package around it then.
        modules = [[*base, alias.name] for alias in node.names]
        around = [base] if base or not all(_is_module(origins[0].joinpath(*parts)) for parts in modules) else []
        yield from itertools.product(origins, [*around, *modules])


def _offered(nodes: Iterable[ast.AST]) -> list[Path]:
    """Homes of the names that a file takes from this package itself: `from saddlescope import Spec`, `ss.Spec`."""
    own = saddlescope.__name__
    imports = [alias for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    called = {alias.asname or alias.name for alias in imports if alias.name == own}
    from_it = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == own]
    names = [alias.name for node in from_it for alias in node.names]
    names += [
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in called
    ]
    return [OURS.joinpath(*saddlescope.HOMES[name].split(".")) for name in names if name in saddlescope.HOMES]


def _is_module(place: Path) -> bool:
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


def _origins(here: Path) -> list[Path]:
    """Folders in which a file's absolute imports are looked for: that of its outermost package, and of this one."""
    return list(dict.fromkeys([_outside(here), OURS.parent]))


def _package(file: Path) -> Path:
    """The outermost package of a file; of a file in none its folder, or the file where all libraries are installed."""
    outside = _outside(file)
    if outside != file.parent:
        return outside / file.relative_to(outside).parts[0]
    return file if outside.name in INSTALLED else outside


def _outside(file: Path) -> Path:
    """The folder that a file's outermost package is in."""
    return next(folder for folder in file.parents if not (folder / "__init__.py").is_file())


def _address(file: Path) -> str:
    return file.relative_to(_outside(file)).as_posix()
