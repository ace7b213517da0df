"""TreeWatch: the heads in a parameter tree of jax, measured beside any training loop."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from safetensors.numpy import load_file

from saddlescope.core.errors import BadArgument
from saddlescope.spectra.layouts import HeadLayout, find_layout

from .measure import METHODS, Measurement, Weights, measure, wide_numpy
from .run import WatchedRun


def named_leaves(params: Any) -> dict[str, Any]:
    """Arrays of a tree by dotted name: {"layers": [{"query": w}]} gives "layers.0.query"."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(params)
    named = {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}
    return {name: leaf for name, leaf in named.items() if hasattr(leaf, "shape") and hasattr(leaf, "dtype")}


def measure_tree(params0: Any, params1: Any, layout: HeadLayout, modes: int = 32) -> Measurement:
    """The change of every head from one tree to the other, on the CPU, to the last digits."""
    return measure(layout.layers, Weights(named_leaves(params0)), Weights(named_leaves(params1)), modes)


class TreeWatch(WatchedRun):
    """A `Watch` for jax: the parameters are given at every step, since jax does not change them in place.

    params: nested dictionaries, or any tree; named by the path to each array, joined with dots.
    config: the content of a config.json, where there is one.  mapping: where the heads are (see `find_layout`).
    device: "model" measures where the parameters are, through Gram matrices; "cpu" and "auto" on copies, through QR.
    The other arguments are those of `Watch`.
    """

    def __init__(
        self,
        params: Any,
        config: Mapping[str, Any] | None = None,
        mapping: Mapping[str, Any] | None = None,
        every: int = 100,
        folder: str | Path = "watched",
        *,
        schedule: Literal["log", "every"] = "log",
        device: Literal["auto", "model", "cpu"] = "auto",
        background: bool | Literal["auto"] = "auto",
        modes: int = 32,
        fresh: bool = False,
        start: int = 0,
    ):
        leading = jax.process_index() == 0
        leaves = named_leaves(params)
        on_accelerator = any(_on_accelerator(leaf) for leaf in leaves.values())
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
        self._on_device = device == "model"
        layout = find_layout({name: leaf.shape for name, leaf in leaves.items()}, config, mapping)
        self._keys = dict.fromkeys(key for layer in layout.layers for key in layer.keys)
        seen = Weights({name: np.array(self._copied(name, leaves[name])) for name in self._keys})
        for name, array in seen.tensors.items():
            if not np.isfinite(wide_numpy(array)).all():
                raise BadArgument(f"parameter {name!r} is not finite at the start: no change can be measured from it")
        method = METHODS["model" if self._on_device else "cpu"]
        self._start = self._open(layout, seen, seen.tensors, [], start, method, load_file)
        if not self.resumed:
            self._keep(start, None, lambda: self._measure(seen))

    def step(self, step: int, params: Any, loss: Any = None) -> bool:
        """Call once after each update; returns at once, and False, unless a measurement is due."""
        if not (self.active and self._due(step)):
            return False
        leaves, start = named_leaves(params), self._start.tensors
        for name in self._keys:
            if name not in leaves or leaves[name].shape != start[name].shape:
                now, before = (f"shape {side[name].shape}" if name in side else "nothing" for side in (leaves, start))
                raise BadArgument(f"`params` has {now} at {name!r}, at the start {before}: give the same tree")
        now = Weights({name: self._copied(name, leaves[name]) for name in self._keys})
        self._keep(step, loss, lambda: self._measure(now))
        return True

    def _copied(self, name: str, leaf: Any) -> Any:
        """A view or a reference would not survive the donation of the buffer to the next update."""
        if not getattr(leaf, "is_fully_addressable", True):
            raise BadArgument(
                f"parameter {name!r} is sharded over several processes: gather it, for example by "
                "jax.experimental.multihost_utils.process_allgather, and give the whole"
            )
        return jax.numpy.array(leaf) if self._on_device else np.array(leaf)

    def _measure(self, now: Weights) -> Measurement:
        if not self._on_device:
            return measure(self._layers, self._start, now, self.modes)
        # 64 bits here only: the user's own computations keep the precision they have.
        with jax.enable_x64(True) if hasattr(jax, "enable_x64") else contextlib.nullcontext():
            return measure(self._layers, self._start, now, self.modes, partial(jax.numpy.asarray, dtype=np.float64))


def _on_accelerator(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and any(device.platform != "cpu" for device in leaf.devices())
