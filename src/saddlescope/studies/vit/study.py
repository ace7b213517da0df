"""The study: a vision transformer trained from scratch, its heads watched at every epoch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.core.observable import Coordinate, Observable, Once
from saddlescope.core.parts import OwnLoop, part
from saddlescope.core.progress import Tick
from saddlescope.core.subject import Subject
from saddlescope.core.trajectory import build_trajectory
from saddlescope.spectra.heads import CIRCUITS

from .needs import LIBRARIES, device_of, lacking
from .spec import PRESETS, ViTSpec

if TYPE_CHECKING:
    import xarray

    from .training import Trained

HEADS = ("layer", "circuit", "head")
EPOCHS = Observable("time of training", units="epochs")
CURVES = {
    "loss": Observable("training loss", units="nats"),
    "accuracy": Observable("training accuracy"),
    "test_loss": Observable("test loss", units="nats"),
    "test_accuracy": Observable("test accuracy"),
}
PLACES = {
    "layer": Coordinate("layer", "layer"),
    "circuit": Coordinate("circuit: W_K W_Qᵀ (QK), W_V W_O (OV)", "circuit", values=CIRCUITS),
    "head": Coordinate("head", "head"),
    "mode": Coordinate("direction, by falling singular value", "mode"),
    "cut": Coordinate("cut of each matrix's change", "cut"),
    "directions": Coordinate("directions that are kept of each matrix's change", "cut"),
}
KEPT = {
    "kept_ranks": Once("directions that are kept of each matrix's change", "cut"),
    "kept_loss": Once("training loss with the change cut", "cut", units="nats"),
    "kept_test_loss": Once("test loss with the change cut", "cut", units="nats"),
    "kept_test_accuracy": Once("test accuracy with the change cut", "cut"),
}
"""What cut changes do: the fields of `truncation.Kept`."""


class Training(OwnLoop):
    """alone: on a GPU."""

    libraries = ("torch",)
    needs = LIBRARIES

    def lacks(self) -> str:
        return lacking(self.spec.data, self.needs)

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
            coordinates={"directions": kept.ranks},
        )


class ViT(Subject):
    name = "vit"
    paper = "boix2023"
    summary = "a vision transformer trained by Adam: rank and spectrum of every head's change, epoch by epoch"
    spec_type = ViTSpec
    presets = PRESETS
    observables = {
        **CURVES,
        "stable_rank": Observable("stable rank of each head's change", *HEADS),
        "entropy_rank": Observable("entropy rank of each head's change", *HEADS),
        "relative_change": Observable("relative size of each head's change", *HEADS),
        "singular_values": Observable("singular values of each head's change", *HEADS, "mode"),
        "start_values": Once("singular values of each head at the start", *HEADS, "product_mode"),
        "end_values": Once("singular values of each head at the end", *HEADS, "product_mode"),
        "change_values": Once("singular values of each head's whole change", *HEADS, "change_mode"),
        "random_stable_rank": Once("stable rank of a random change of the same norms", *HEADS),
        **KEPT,
    }
    time = EPOCHS
    training = part(Training)

    def coordinates(self) -> dict[str, Coordinate]:
        modes = [Coordinate("direction, by falling singular value", dim) for dim in ("product_mode", "change_mode")]
        return {**PLACES, **{one.dims[0]: one for one in modes}}
