"""What a run needs of the machine, found out without importing it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from functools import cache

from saddlescope.core.errors import BadArgument, unknown
from saddlescope.core.extras import absent, missing

from .spec import ViTSpec

DEVICES = ("cpu", "cuda")

SMALL = 128
"""Width below which a GPU would only wait for its launches, and compiling would take longer than training."""

LIBRARIES = ("torch", "PIL", "pyarrow", "sklearn")


def lacking(data: str, libraries: Sequence[str] = LIBRARIES) -> str:
    """Why images of `data` cannot be trained on here; "" if they can."""
    if lacked := absent(libraries):
        return str(missing("it", *lacked))
    from .images import missing as missing_images

    return missing_images(data)


def device_of(spec: ViTSpec) -> str:
    """ "cuda" where there is a GPU and the network can fill it; SADDLESCOPE_DEVICE in the environment overrules."""
    chosen = os.environ.get("SADDLESCOPE_DEVICE")
    if chosen:
        if chosen not in DEVICES:
            raise unknown("SADDLESCOPE_DEVICE", chosen, DEVICES)
        if chosen == "cuda" and not _has_gpu():
            raise BadArgument("`SADDLESCOPE_DEVICE` is cuda, and torch finds no GPU here: unset it, or set it to cpu")
        return chosen
    return "cuda" if spec.width >= SMALL and _has_gpu() else "cpu"


@cache
def _has_gpu() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()
