"""Attention heads while they learn: spectra of every head's change, taken beside a training of one's own.

    from saddlescope.watch import Watch

    with Watch(model, every=100, folder="watched") as watch:
        for step, batch in enumerate(batches, start=1):
            ...                             # forward, backward, optimizer.step()
            watch.step(step, loss=loss)
    watch.trajectory                        # an xarray.Dataset over time, layer, circuit, head, mode
    watch.stages()                          # which head learned a direction when
    watch.report("watched.html")

SaddleCallback goes into a transformers Trainer, LightningCallback into a Lightning Trainer, TreeWatch takes parameter
trees of jax. Names are loaded when they are first used: importing this room imports none of these libraries.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Watch": "watch",
    "SaddleCallback": "huggingface",
    "LightningCallback": "lightning",
    "TreeWatch": "jax_tree",
    "measure_tree": "jax_tree",
    "read_watched": "store",
}

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "LightningCallback",
    "SaddleCallback",
    "TreeWatch",
    "Watch",
    "measure_tree",
    "read_watched",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'saddlescope.watch' has no attribute {name!r}; it offers {', '.join(__all__)}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:
    from .huggingface import SaddleCallback as SaddleCallback
    from .jax_tree import TreeWatch as TreeWatch
    from .jax_tree import measure_tree as measure_tree
    from .lightning import LightningCallback as LightningCallback
    from .store import read_watched as read_watched
    from .watch import Watch as Watch
