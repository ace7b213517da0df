"""Names of a package that are loaded when they are first used.

Nothing is imported here but what these names need: this file is most of what `import saddlescope` costs.
"""

from __future__ import annotations

TYPE_CHECKING = False  # that of `typing`, whose import takes longer than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


def lazy_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's __getattr__ and __dir__. file: its __init__.py, beside which a stub lists the names.

    A name that needs a library of an extra says so when it is used; `from package import *` passes it over. `HOMES` is
    a name too: the module of each of the others, relative to the package.
    """
    homes: dict[str, str] = {}

    def known() -> dict[str, str]:
        if not homes:
            homes.update(names_in_stub(file))
        return homes

    def find(name: str) -> Any:
        if name == "HOMES":
            return known()
        if name == "__all__":
            return sorted(can_be_had())
        if name not in known():
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it offers {', '.join(sorted(homes))}")
        from importlib import import_module

        from .extras import needed_by

        with needed_by(name):
            return getattr(import_module(f"{package}.{homes[name]}"), name)

    def can_be_had() -> Iterator[str]:
        from .extras import MissingLibrary

        for name in known():
            try:
                find(name)
            except MissingLibrary:
                continue
            yield name

    return find, lambda: sorted(known())


def names_in_stub(file: str) -> dict[str, str]:
    """The public names of a package, which the stub beside its __init__.py imports, and the module of each.

    Those of a room that is absent are not offered.
    """
    import ast
    from pathlib import Path

    folder, stub = Path(file).parent, ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes = [(node.module, node.names) for node in stub.body if isinstance(node, ast.ImportFrom) and node.module]
    there = [(home, names) for home, names in homes if (folder / f"{home.replace('.', '/')}.py").is_file()]
    return {alias.name: home for home, names in there for alias in names}
