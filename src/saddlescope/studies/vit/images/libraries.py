"""Libraries that only images need: asked for by name before they are used."""

from __future__ import annotations

from importlib.util import find_spec

from saddlescope.core.errors import BadArgument

PACKAGES = {"PIL": "Pillow", "pyarrow": "pyarrow", "sklearn": "scikit-learn"}


def need(library: str, source: object) -> None:
    """An error unless `library` is installed. It is not imported: the answer costs nothing."""
    if find_spec(library) is None:
        raise BadArgument(
            f"{source} is read with {PACKAGES[library]}, which is missing: pip install 'saddlescope[torch]'"
        )
