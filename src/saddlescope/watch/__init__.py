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

from saddlescope.core.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
