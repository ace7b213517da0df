"""SaddleCallback: a Watch inside a transformers Trainer."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback
from transformers.trainer_callback import CallbackHandler, ExportableState

from .watch import Watch


class SaddleCallback(TrainerCallback, ExportableState):
    """Trainer(..., callbacks=[SaddleCallback(every=100)]); its `watch` holds the results.

    folder: `saddlescope` in the Trainer's output_dir unless given.  The other arguments are those of `Watch`.
    A training that resumes from a checkpoint goes on where that was; one that begins anew sets an earlier run aside, as
    folder-1, folder-2, ...  A step's loss is the Trainer's mean over the logging steps that it lies in.
    Means over heads join what the Trainer logs, as saddlescope/stable_rank_qk, saddlescope/stable_rank_ov and
    saddlescope/relative_change, with saddlescope/step, at which they were measured.
    """

    def __init__(
        self,
        every: int = 100,
        folder: str | Path | None = None,
        *,
        schedule: str = "log",
        mapping: Mapping[str, Any] | None = None,
        heads: int | None = None,
        device: str = "auto",
        background: bool | str = "auto",
        modes: int = 32,
    ):
        self.folder = None if folder is None else str(folder)
        self.options: dict[str, Any] = {
            "every": every,
            "schedule": schedule,
            "mapping": None if mapping is None else dict(mapping),
            "heads": heads,
            "device": device,
            "background": background,
            "modes": modes,
        }
        self.watch: Watch | None = None
        self._logged = -1
        self._unknown: list[int] = []  # measured steps whose loss has not been logged yet

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        if not state.is_world_process_zero:
            return
        _lead_callbacks(self)
        # A Trainer that resumes from a checkpoint without this callback would fail at its next save.
        state.stateful_callbacks.setdefault(type(self).__name__, self.state())
        folder = self.folder or str(Path(args.output_dir) / "saddlescope")
        self.watch = Watch.taken_up(model, folder, state.global_step, **self.options)
        self._logged = -1
        self._unknown.clear()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.watch is not None and self.watch.step(state.global_step):
            self._unknown.append(state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if self.watch is None or logs is None:
            return
        if "loss" in logs:
            for step in self._unknown:
                self.watch.record_loss(step, float(logs["loss"]))
            self._unknown.clear()
        if "train_runtime" in logs:  # the last log of a training waits for the last measurement
            self.watch.state()
        latest = dict(self.watch.latest)
        if latest and latest["step"] > self._logged:
            self._logged = latest["step"]
            scalars = {f"saddlescope/{name}": value for name, value in latest.items()}
            logs.update(scalars)
            # The history got its copy before any callback was asked.
            if state.log_history and state.log_history[-1].get("step") == state.global_step:
                state.log_history[-1].update(scalars)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.watch is not None:
            self.watch.close()

    def state(self) -> dict[str, Any]:
        """What a checkpoint carries. By the time it is written, every step up to it is measured and stored."""
        if self.watch is not None:
            self.watch.state()
        return {"args": {**self.options, "folder": self.folder}, "attributes": {}}


def _lead_callbacks(callback: TrainerCallback) -> None:
    """Move `callback` before the Trainer's loggers, so that they see what it adds to the logs.

    A Trainer puts its loggers before the user's callbacks and tells no callback who calls it, hence the look at the
    calling frame. Where that finds nothing, only the history gets the numbers.
    """
    frame = sys._getframe(2)
    handler = frame.f_locals.get("self")
    if isinstance(handler, CallbackHandler) and callback in handler.callbacks:
        # The list is being walked: moving the callback that has its turn shifts only those that had theirs.
        handler.callbacks.remove(callback)
        handler.callbacks.insert(0, callback)
