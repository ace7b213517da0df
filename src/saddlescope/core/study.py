"""Study: an experiment on a real network, with its own training loop, whose runs go through the same lab."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from .progress import Tick
from .subject import Subject
from .trajectory import check_schema

if TYPE_CHECKING:
    import xarray


class Study(Subject):
    """A network that no theory here reduces: nothing to flow or to predict.

    Importing a study's package is cheap: the library that it trains with is imported by `train`.
    """

    faces = ("train",)

    @abstractmethod
    def train(self, seed: int, folder: Path | None, tick: Tick) -> xarray.Dataset:
        """The whole run, as `build_trajectory` makes it, with `step`, and `device` and `dtype` among its attributes.

        `seed` moves the initial weights. folder: exists, and is this run's own: checkpoints and partial results live
        there, so that the same call goes on where a killed one stopped; None: nothing is kept. attrs["seconds"] counts
        all calls together.
        """


def check_trained(trajectory: xarray.Dataset) -> None:
    """Raise ValueError unless a study's trajectory says what the store and the records ask of it."""
    check_schema(trajectory)
    missing = [name for name in ("device", "dtype") if name not in trajectory.attrs]
    if missing:
        raise ValueError(f"trajectory lacks the attributes {missing}: pass them to build_trajectory as `extra`")
    if "step" not in trajectory.coords:
        raise ValueError("trajectory lacks the coordinate `step`: pass it to build_trajectory")
