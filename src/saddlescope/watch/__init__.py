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

from typing import TYPE_CHECKING

from saddlescope.core.lazy import lazy_names

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


__getattr__, __dir__ = lazy_names(__name__, _HOMES, __all__)

if TYPE_CHECKING:
    from .huggingface import SaddleCallback as SaddleCallback
    from .jax_tree import TreeWatch as TreeWatch
    from .jax_tree import measure_tree as measure_tree
    from .lightning import LightningCallback as LightningCallback
    from .store import read_watched as read_watched
    from .watch import Watch as Watch
