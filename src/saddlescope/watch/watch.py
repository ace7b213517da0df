"""Watch: the heads of a torch model, measured beside any training loop."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file

from saddlescope.checkpoints.modules import config_of, heads_of_modules, is_sharded, plain, trouble, unwrap
from saddlescope.core.errors import BadArgument
from saddlescope.spectra.arrays import numpy_of
from saddlescope.spectra.layouts import HeadLayout, find_layout

from .folder import WatchFolder
from .lora import MARK, adapter_notes, find_adapters
from .measure import METHODS, Measurement, Weights, measure
from .parameters import GATHER, leads, numberless, refusal, tensors_of
from .run import WatchedRun


class Watch(WatchedRun):
    """Measures how far, and in how many directions, each head's QK and OV products have moved from the start.

    model: any torch module; wrappers of data parallelism, torch.compile and PEFT are seen through.
    every, schedule: "every" measures at 0, n, 2n, ...; "log" also at 1, 2, 4, ..., 512.
    folder: where results go. One that holds a run of this model resumes it: changes count from that run's start, and
        the first `step` drops what was measured from there on.  fresh=True discards it instead.
    mapping, heads: where the heads are, for models whose names or config do not say (see `find_layout`).
    device: "model" measures on the model's device, through Gram matrices; "cpu" on copies, through QR, to the last
        digits; "auto" is "model" on a GPU.
    background: measure in a thread while training goes on; "auto": if the model is on an accelerator.
    modes: singular values kept for each head.
    start: the step whose weights the model has now.
    state: the full tensors by name where the model's own are sharded; `step` takes it too.

    In a distributed run only rank 0 acts.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        every: int = 100,
        folder: str | Path = "watched",
        *,
        schedule: Literal["log", "every"] = "log",
        mapping: Mapping[str, Any] | None = None,
        heads: int | None = None,
        device: Literal["auto", "model", "cpu"] = "auto",
        background: bool | Literal["auto"] = "auto",
        modes: int = 32,
        fresh: bool = False,
        start: int = 0,
        state: Mapping[str, Any] | None = None,
    ):
        leading = leads()
        self._model = unwrap(model)
        on_accelerator = any(parameter.device.type not in ("cpu", "meta") for parameter in self._model.parameters())
        super().__init__(
            folder,
            every=every,
            schedule=schedule,
            device=device,
            background=background,
            on_accelerator=on_accelerator,
            modes=modes,
            fresh=fresh,
            active=leading,
        )
        if not leading:
            return
        tensors = tensors_of(self._model, state)
        layout = self._find_layout(tensors, mapping, heads)
        self._keys = dict.fromkeys(key for layer in layout.layers for key in layer.keys)
        self._device, self._stream = None, None
        seen = self._weights(state, copied=True)
        for name, tensor in seen.tensors.items():
            if not math.isfinite(float(tensor.float().abs().max())):
                raise BadArgument(f"parameter {name!r} is not finite at the start: no change can be measured from it")
        self._device = _place(device, tensors[next(iter(self._keys))].device)
        arrays = {name: numpy_of(tensor) for name, tensor in seen.tensors.items()}
        method = METHODS["model" if self._device else "cpu"]
        notes = adapter_notes(self._model, seen.adapters)
        self._start = self._open(layout, seen, arrays, notes, start, method, load_file)
        if not self.resumed:
            self._keep(start, None, lambda: self._measure(seen))

    def step(self, step: int, loss: Any = None, state: Mapping[str, Any] | None = None) -> bool:
        """Call once after each optimizer step; returns at once, and False, unless a measurement is due."""
        if not (self.active and self._due(step)):
            return False
        self._take(step, loss, state)
        return True

    @classmethod
    def taken_up(cls, model: Any, folder: str, step: int, **options: Any) -> Watch:
        """For a trainer that begins at step 0, an earlier run then being set aside, or goes on from a checkpoint."""
        if step == 0:
            WatchFolder(folder).set_aside()
        watch = cls(model, folder=folder, start=step, **options)
        watch.resume_from(step)
        return watch

    def resume_from(self, step: int) -> None:
        """Training goes on from the weights of `step`, which the model now has: later measurements are dropped."""
        if not self.active:
            return
        self.rewind(step + 1)
        if step in self.schedule and step not in self.steps:
            self._take(step, None, None)

    def _take(self, step: int, loss: Any, state: Mapping[str, Any] | None) -> None:
        # A thread must not read weights that the next step is changing.
        now = self._weights(state, copied=self._worker.background)
        for name, tensor in self._start.tensors.items():
            if name in now.tensors and now.tensors[name].shape != tensor.shape:
                why = f"had shape {tuple(tensor.shape)} at the start"
                raise refusal(name, now.tensors[name], why)
        ready = torch.cuda.current_stream(self._device).record_event() if self._on_cuda() else None
        self._keep(step, loss, lambda: self._measure(now, ready))

    def _measure(self, now: Weights, ready: Any = None) -> Measurement:
        if self._device is None:
            return measure(self._layers, self._start, now, self.modes)
        if self._worker.background:
            # Of this thread alone: as many as there are cores would take them from the loop that feeds the GPU.
            torch.set_num_threads(1)
        with torch.no_grad(), self._own_stream(ready):
            return measure(self._layers, self._start, now, self.modes, lambda one: one.to(self._device, torch.float64))

    def _on_cuda(self) -> bool:
        return self._device is not None and self._device.type == "cuda"

    def _own_stream(self, ready: Any) -> contextlib.AbstractContextManager[Any]:
        """The training's kernels need not wait for eigenvalues; these wait for the copy of the weights."""
        if not self._on_cuda():
            return contextlib.nullcontext()
        self._stream = self._stream or torch.cuda.Stream(self._device)
        if ready is not None:
            self._stream.wait_event(ready)
        return torch.cuda.stream(self._stream)

    def _find_layout(
        self, tensors: Mapping[str, torch.Tensor], mapping: Mapping[str, Any] | None, heads: int | None
    ) -> HeadLayout:
        config = config_of(self._model)
        if heads is None and not config and mapping is None:
            heads = heads_of_modules(self._model)
        if heads is not None:
            mapping = {**(mapping or {}), "heads": heads}
        troubles = {name: why for name, tensor in tensors.items() if (why := trouble(tensor))}
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items() if MARK not in name}
        try:
            layout = find_layout(shapes, config, mapping)
        except BadArgument as error:
            for name, why in troubles.items():
                raise refusal(name, tensors[name], why) from error
            if is_sharded(self._model):
                raise BadArgument(f"{error} The model is sharded by FSDP. {GATHER}") from error
            raise
        # A layer that lacks a whole tensor is left out of a layout; its siblings tell how its tensors are called.
        wanted = {numberless(key) for layer in layout.layers for key in layer.keys}
        for key, why in troubles.items():
            if numberless(key) in wanted:
                raise refusal(key, tensors[key], why)
        return layout

    def _weights(self, state: Mapping[str, Any] | None, copied: bool) -> Weights:
        tensors = tensors_of(self._model, state)
        adapters = find_adapters(self._model, tensors, plain)
        wanted = [*self._keys, *(name for adapter in adapters for name in adapter.names)]
        kept = {}
        for name in wanted:
            if name not in tensors:
                raise BadArgument(
                    f"parameter {name!r} is not in {'the model' if state is None else '`state`'} any more: {GATHER}"
                )
            if why := trouble(tensors[name]):
                raise refusal(name, tensors[name], why)
            there = self._device or torch.device("cpu")
            kept[name] = tensors[name].to(there, copy=copied)
        return Weights(kept, adapters)


def _place(device: str, model_device: torch.device) -> torch.device | None:
    """Where torch computes; None: NumPy does."""
    on_model = device == "model" or (device == "auto" and model_device.type == "cuda")
    # Apple's GPUs have no 64 bits.
    return model_device if on_model and model_device.type != "mps" else None
