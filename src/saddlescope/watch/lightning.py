"""LightningCallback: a Watch inside a Lightning Trainer."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saddlescope.core.extras import missing

if TYPE_CHECKING:
    from .watch import Watch


def _callback_class() -> Any:
    """Of the package that the user's Trainer comes from: `lightning` unless only the older name is in use."""
    names = ["lightning.pytorch", "pytorch_lightning"]
    if names[0] not in sys.modules and names[1] in sys.modules:
        names.reverse()
    for name in names:
        try:
            return importlib.import_module(name).Callback
        except ModuleNotFoundError:
            continue
    raise missing("LightningCallback", "lightning")


class LightningCallback(_callback_class()):
    """Trainer(..., callbacks=[LightningCallback(every=100)]); its `watch` holds the results.

    folder: `saddlescope` in the Trainer's default_root_dir unless given.  part: the submodule to watch, by name; the
    whole LightningModule unless given.  The other arguments are those of `Watch`.
    Steps are the Trainer's global_step, one for each optimizer step.  A fit that resumes from a checkpoint goes on
    where that was; one that begins anew sets an earlier run aside, as folder-1, folder-2, ...  Means over heads go to
    the Trainer's loggers as saddlescope/stable_rank_qk, saddlescope/stable_rank_ov and saddlescope/relative_change.
    """

    def __init__(
        self,
        every: int = 100,
        folder: str | Path | None = None,
        *,
        part: str = "",
        schedule: str = "log",
        mapping: Mapping[str, Any] | None = None,
        heads: int | None = None,
        device: str = "auto",
        background: bool | str = "auto",
        modes: int = 32,
    ):
        super().__init__()
        self.folder = None if folder is None else str(folder)
        self.part = part
        self.options: dict[str, Any] = {
            "every": every,
            "schedule": schedule,
            "mapping": mapping,
            "heads": heads,
            "device": device,
            "background": background,
            "modes": modes,
        }
        self.watch: Watch | None = None
        self._logged = -1

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        from .watch import Watch  # imported after lightning, which brings torch

        # Not on_fit_start: there a resumed Trainer does not know its step yet.
        if not trainer.is_global_zero:
            return
        self.folder = self.folder or str(Path(trainer.default_root_dir) / "saddlescope")
        model = pl_module.get_submodule(self.part)
        self.watch = Watch.taken_up(model, self.folder, trainer.global_step, **self.options)
        self._logged = -1

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self.watch is None:
            return
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        # While gradients accumulate the step stays the same, and nothing is due twice.
        self.watch.step(trainer.global_step, loss=loss)
        self._log(trainer)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        if self.watch is not None:
            self.watch.close()
            self._log(trainer)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint carries. By the time it is written, every step up to it is measured and stored."""
        if self.watch is not None:
            self.watch.state()
        return {"folder": self.folder}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.folder = self.folder or state_dict["folder"]

    def _log(self, trainer: Any) -> None:
        latest = dict(self.watch.latest) if self.watch is not None else {}
        step = int(latest.pop("step", -1))
        if step > self._logged and latest:
            self._logged = step
            for logger in trainer.loggers:
                logger.log_metrics({f"saddlescope/{name}": value for name, value in latest.items()}, step=step)
