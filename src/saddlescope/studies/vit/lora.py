"""The study of LoRA: whether the rank of a full fine-tuning's change is the rank that a LoRA needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from saddlescope.core.observable import Coordinate, Observable, Once
from saddlescope.core.parts import part
from saddlescope.core.progress import Tick
from saddlescope.core.subject import Subject
from saddlescope.core.trajectory import build_trajectory
from saddlescope.spectra.ranks import stable_rank

from .lora_spec import NETWORKS, PRESETS, TRAINED, LoRASpec
from .needs import LIBRARIES
from .study import CURVES, EPOCHS, HEADS, KEPT, PLACES, Training

if TYPE_CHECKING:
    import xarray

    from .adaptation import Adapted
    from .training import Trained


class Adapting(Training):
    needs = (*LIBRARIES, "peft")

    def train(self, seed: int, folder: Path | None, tick: Tick) -> xarray.Dataset:
        from .adaptation import adapt_network
        from .images import load_images
        from .training import kept

        spec = self.spec
        images = load_images(spec.data, spec.image_size, spec.labels)
        with kept(folder) as home:
            return self._trajectory(seed, adapt_network(spec, seed, images, Path(home), tick))

    def _trajectory(self, seed: int, found: Adapted) -> xarray.Dataset:
        runs = {"full": found.full, "lora": found.lora, "small": found.small}
        # A training that diverged ends earlier than the others.
        length = min(len(_epoch_rows(run)) for run in runs.values() if run)
        moments, values = _spectra(found)
        at_epochs = _epoch_rows(found.lora)[:length] if found.lora else np.zeros(length, int)
        ranks = stable_rank(values)
        judged = np.array([found.judged.get(name, (np.nan,) * 3) for name in NETWORKS])
        curves = {
            f"{name}_{curve}": np.array(run.curves[curve][:length]) if run else np.full(length, np.nan)
            for name, run in runs.items()
            for curve in ("loss", "test_accuracy")
        }
        heads = _heads(found.full)[:length]
        modules = [name.removesuffix(".weight") for name in found.matrices]
        return build_trajectory(
            self.system,
            "train",
            seed,
            np.arange(length),
            {
                **{name.removeprefix("full_"): values for name, values in curves.items()},
                "stable_rank": heads,
                "lora_head_stable_rank": _heads(found.lora)[:length] if found.lora else np.full_like(heads, np.nan),
                "lora_stable_rank": ranks[at_epochs],
                "lora_singular_values": values[at_epochs],
            },
            solver="adam",
            result=found.result,
            seconds=found.seconds,
            conserved_drift=None,
            step=np.arange(length) * found.full.steps_per_epoch,
            constants={
                "early_epochs": moments,
                "early_stable_rank": ranks,
                "early_singular_values": values,
                "advised_ranks": np.array([found.ranks[name] for name in found.matrices]),
                "full_ranks": np.array([min(found.full.end[name].shape) for name in found.matrices]),
                **dict(zip(("judged_loss", "judged_test_loss", "judged_test_accuracy"), judged.T, strict=True)),
                "parameters": np.array([found.parameters[name] for name in TRAINED]),
                **{f"kept_{name}": values for name, values in found.kept._asdict().items()},
            },
            extra={
                "device": found.full.device,
                "dtype": self.spec.precision,
                "modules": " ".join(modules),
            },
            coordinates={"module": modules, "epoch": moments, "directions": found.kept.ranks},
        )


class LoRA(Subject):
    """Time counts epochs of the fine-tunings, which run side by side: `loss` and `stable_rank` (of heads) are of the
    full one, `lora_...` of the LoRA of the advised ranks, `small_...` of the one of rank `small_rank`.

    early_...: the LoRA at the steps 1, 2, 4, ... too, over `early_epochs`.  judged_...: of NETWORKS, all in the same
    way.  parameters: of TRAINED.  kept_...: with so many directions of each matrix's full change.  attrs["modules"]
    names the modules.
    """

    name = "vit/lora"
    paper = "boix2023"
    summary = "a pretrained vision transformer fine-tuned in full and by LoRAs of the rank that its change has"
    spec_type = LoRASpec
    presets = PRESETS
    observables = {
        "loss": CURVES["loss"],
        "test_accuracy": CURVES["test_accuracy"],
        "lora_loss": Observable("training loss of the LoRA", units="nats"),
        "lora_test_accuracy": Observable("test accuracy of the LoRA"),
        "small_loss": Observable("training loss of the small LoRA", units="nats"),
        "small_test_accuracy": Observable("test accuracy of the small LoRA"),
        "stable_rank": Observable("stable rank of each head's change", *HEADS),
        "lora_head_stable_rank": Observable("stable rank of each head's change by the LoRA", *HEADS),
        "lora_stable_rank": Observable("stable rank of each module's LoRA", "module", symbol="BA"),
        "lora_singular_values": Observable("singular values of each module's LoRA", "module", "mode", symbol="BA"),
        "early_epochs": Once("when the LoRA was measured", "moment", units="epochs"),
        "early_stable_rank": Once("stable rank of each LoRA at every measurement", "moment", "module", symbol="BA"),
        "early_singular_values": Once(
            "singular values of each LoRA at every measurement", "moment", "module", "mode", symbol="BA"
        ),
        "advised_ranks": Once("rank that is advised for each module", "module"),
        "full_ranks": Once("largest rank of each module", "module"),
        "judged_loss": Once("training loss of each network", "network", units="nats"),
        "judged_test_loss": Once("test loss of each network", "network", units="nats"),
        "judged_test_accuracy": Once("test accuracy of each network", "network"),
        "parameters": Once("weights that each fine-tuning trains", "trained"),
        **KEPT,
    }
    time = EPOCHS
    training = part(Adapting)

    def coordinates(self) -> dict[str, Coordinate]:
        return {
            **PLACES,
            "module": Coordinate("module", "module"),
            "moment": Coordinate("measurement of the LoRA", "moment"),
            "epoch": Coordinate("when the LoRA was measured", "moment", units="epochs"),
            "network": Coordinate("network", "network", values=NETWORKS),
            "trained": Coordinate("fine-tuning", "trained", values=TRAINED),
        }


def _epoch_rows(run: Trained) -> np.ndarray:
    """Which measurements were made at the ends of epochs."""
    return np.flatnonzero(run.watched["time"].values % max(1, run.steps_per_epoch) == 0)


def _heads(run: Trained) -> np.ndarray:
    return run.watched["stable_rank"].values[_epoch_rows(run)]


def _spectra(found: Adapted) -> tuple[np.ndarray, np.ndarray]:
    """When the LoRA was measured, in epochs, and its singular values [moment, module, mode]; NaN where there is none.

    Directions that a module's factors do not have are zero, as they are in their product.
    """
    shape = (len(found.matrices), max(1, *found.ranks.values()))
    if found.lora is None:
        return np.zeros(1), np.full((1, *shape), np.nan)
    watched = found.lora.watched
    values = np.zeros((watched.sizes["time"], *shape))
    for place, name in enumerate(found.matrices):
        if rank := found.ranks[name]:
            values[:, place, :rank] = watched["lora_singular_values"].sel(module=name.removesuffix(".weight"))[:, :rank]
    return watched["time"].values / found.full.steps_per_epoch, values
