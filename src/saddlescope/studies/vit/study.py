"""The study: a vision transformer trained from scratch, its heads watched at every epoch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.core.parts import OwnLoop, part
from saddlescope.core.progress import Tick
from saddlescope.core.subject import Once, Subject
from saddlescope.core.trajectory import build_trajectory

from .needs import device_of, lacking
from .spec import PRESETS, ViTSpec

if TYPE_CHECKING:
    import xarray

    from .training import Trained

HEADS = ("layer", "circuit", "head")
KEPT = {f"kept_{name}": Once(("cut",)) for name in ("ranks", "loss", "test_loss", "test_accuracy")}
"""What cut changes do: the fields of `truncation.Kept`."""


class Training(OwnLoop):
    """alone: on a GPU."""

    libraries = ("torch",)

    def lacks(self) -> str:
        return lacking(self.spec.data)

    @property
    def alone(self) -> bool:
        return device_of(self.spec) == "cuda"

    def train(self, seed: int, folder: Path | None, tick: Tick) -> xarray.Dataset | None:
        from .images import load_images
        from .training import train

        spec = self.spec
        # The bar counts epochs: it waits at its start until the images are read, and the words say how far that is.
        images = load_images(spec.data, spec.image_size, spec.labels, lambda share, words: tick(0.0, words))
        found = train(spec, seed, images, folder, tick)
        return found and self._trajectory(seed, found)

    def _trajectory(self, seed: int, found: Trained) -> xarray.Dataset:
        """Time counts epochs."""
        from .ends import compare_ends, heads_of
        from .truncation import ATTENTION, keep_directions, named

        ends = compare_ends(*(heads_of(weights, self.spec.heads) for weights in (found.start, found.end)))
        kept = keep_directions(found.start, found.end, named(found.end, ATTENTION), found.judge)
        curves = {name: np.array(values) for name, values in found.curves.items()}
        measured = found.watched["time"].values / max(1, found.steps_per_epoch)
        # An epoch whose loss was not finite has no spectra.
        curves = {name: values[: len(measured)] for name, values in curves.items()}
        heads = {name: found.watched[name].values for name in ("stable_rank", "entropy_rank", "relative_change")}
        return build_trajectory(
            self.system,
            "train",
            seed,
            measured,
            {**curves, **heads, "singular_values": found.watched["singular_values"].values},
            solver="adam",
            result=found.result,
            seconds=found.seconds["training"],
            conserved_drift=None,
            step=found.watched["time"].values.astype(int),
            constants={
                "start_values": ends.start,
                "end_values": ends.end,
                "change_values": ends.change,
                "random_stable_rank": ends.random_stable_rank,
                **{f"kept_{name}": values for name, values in kept._asdict().items()},
            },
            extra={
                "device": found.device,
                "dtype": self.spec.precision,
                "preparing_seconds": found.seconds["preparing"],
                "spectra_seconds": found.seconds["spectra"],
            },
        )


class ViT(Subject):
    name = "vit"
    paper = "boix2023"
    summary = "a vision transformer trained by Adam: rank and spectrum of every head's change, epoch by epoch"
    spec_type = ViTSpec
    presets = PRESETS
    observables = {
        "loss": (),
        "accuracy": (),
        "test_loss": (),
        "test_accuracy": (),
        "stable_rank": HEADS,
        "entropy_rank": HEADS,
        "relative_change": HEADS,
        "singular_values": (*HEADS, "mode"),
        "start_values": Once((*HEADS, "product_mode")),
        "end_values": Once((*HEADS, "product_mode")),
        "change_values": Once((*HEADS, "change_mode")),
        "random_stable_rank": Once(HEADS),
        **KEPT,
    }
    training = part(Training)
