"""What all watches share: when to measure, where results go, how a run is taken up again."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

import saddlescope
from saddlescope.core.errors import BadArgument, unknown
from saddlescope.core.shown import Shown
from saddlescope.spectra.layouts import HeadLayout

from .background import Worker, beside
from .folder import Record, WatchFolder
from .lora import AddedProducts
from .measure import Measurement, Weights, start_norms
from .schedule import Schedule
from .trajectory import HeadStage, head_stages, trajectory

if TYPE_CHECKING:
    import xarray


class WatchedRun(Shown):
    """A folder that fills with measured steps. Subclasses say where weights come from.

    Prints itself in a few lines, in a notebook as a table with a picture, at any moment of the training: what is
    stored by then.
    """

    shown_by: ClassVar[str] = "saddlescope.show.of_watch"

    def __init__(
        self,
        folder: str | Path,
        *,
        every: int,
        schedule: Literal["log", "every"],
        device: Literal["auto", "model", "cpu"],
        background: bool | Literal["auto"],
        on_accelerator: bool,
        modes: int,
        fresh: bool,
        active: bool,
    ):
        if device not in ("auto", "model", "cpu"):
            raise unknown("`device`", str(device), ("auto", "model", "cpu"))
        thread = beside(background, on_accelerator) and active
        self.schedule, self.modes = Schedule(every, schedule), modes
        if not isinstance(modes, int) or modes < 1:
            raise BadArgument(f"`modes` must be the number of singular values to keep, at least 1, got {modes!r}")
        self.active = active
        """False on all but one process of a distributed run: they measure and write nothing."""
        self._store = WatchFolder(folder)
        self._worker = Worker(thread)
        self._last: int | None = None  # the last step that was named
        self._next = 0
        self._closed = False
        self._unwritten: list[Record] = []
        self._complaints: list[str] = []
        self._complained: set[str] = set()
        self._same_start = True
        self.latest: dict[str, float] = {}
        """Step and means over heads of the last finished measurement; empty before the first."""
        self._fresh = fresh

    # ---- how a run begins --------------------------------------------------------------------------------

    def _open(
        self,
        layout: HeadLayout,
        seen: Weights,
        arrays: Mapping[str, np.ndarray],
        notes: Sequence[str],
        start: int,
        method: str,
        load: Callable[[Path], Mapping[str, Any]],
    ) -> Weights:
        """The weights that changes are measured from: `seen`, or those of the run that the folder holds.

        arrays: `seen` as NumPy arrays, to be stored.  load: reads them back as the arrays of `seen`.
        """
        self._layers = layout.layers
        described = {name: list(array.shape) for name, array in arrays.items()}
        meta = {
            "saddlescope": saddlescope.__version__,
            "family": layout.family,
            "notes": [*layout.notes, *notes],
            "layers": [layer.label for layer in layout.layers],
            "tensors": described,
            "lora_modules": [adapter.module for adapter in seen.adapters],
            "adapters": [[adapter.key, adapter.factors, adapter.transposed] for adapter in seen.adapters],
            "schedule": {"kind": self.schedule.kind, "every": self.schedule.every},
            "modes": self.modes,
            "method": method,
        }
        if self._fresh:
            self._store.clear()
        self.resumed = self._store.holds_run()
        if self.resumed:
            before = self._store.meta()
            self._check_same_model(before["tensors"], described)
            self._store.sweep()
            tensors = load(self._store.start)
            self._same_start = all(bool((tensors[name] == seen.tensors[name]).all()) for name in arrays)
            origin = Weights(tensors, [AddedProducts.read(fields) for fields in before["adapters"]])
            self._meta = meta | {name: before[name] for name in ("start", "start_norms", "adapters")}
            self._store.write_meta(self._meta)
        else:
            origin = seen
            norms = start_norms(layout.layers, seen)
            self._meta = meta | {"start": start, "start_norms": _nullable(norms)}
            self._store.create(self._meta, dict(arrays))
        self._norms = np.array(self._meta["start_norms"], float)
        return origin

    def _check_same_model(self, before: Mapping[str, list[int]], now: Mapping[str, list[int]]) -> None:
        differing = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        if differing:
            name = differing[0]
            was, is_ = (f"shape {tuple(side[name])}" if name in side else "absent" for side in (before, now))
            raise BadArgument(
                f"`folder` {str(self.folder)!r} holds the run of another model: {name!r} is {was} there and {is_} here "
                f"({len(differing)} such tensors). Give another folder, or fresh=True to discard that run."
            )

    # ---- measuring ---------------------------------------------------------------------------------------

    def _due(self, step: int) -> bool:
        """Whether `step` is to be measured; the first step of a run that is taken up drops what it repeats."""
        self._worker.check()
        self._tell()
        if self._closed:
            raise BadArgument(f"step {step} came after close(): make a new watch on {str(self.folder)!r} to go on")
        if self._last is None:
            self._begin(step)
        elif step < self._last and "order" not in self._complained:
            self._complained.add("order")
            warnings.warn(
                f"step {step} came after step {self._last}: steps must increase, so it is not measured. Call "
                f"rewind({step}) if training went back.",
                stacklevel=3,
            )
        self._last = step if self._last is None else max(step, self._last)
        if step < self._next:
            return False
        self._next = self.schedule.next_after(step)
        return True

    def _begin(self, step: int) -> None:
        if step < 0:
            raise BadArgument(f"`step` must not be negative, got {step}")
        if not self._same_start and step <= self._meta["start"] + 1:
            raise BadArgument(
                f"step {step} begins the run in {str(self._store.folder)!r} again, but from other weights than it was "
                "begun with. Give another folder, or fresh=True to discard that run; to resume it, load the "
                "checkpoint's weights and go on with its steps."
            )
        self.rewind(step)

    def rewind(self, step: int) -> None:
        """Drop every measurement from `step` on: training goes on from a checkpoint before it."""
        self._worker.wait()
        self._store.drop_from(step)
        self._unwritten = [record for record in self._unwritten if record.step < step]
        self._last, self._next = step - 1, self.schedule.next_after(step - 1)

    def _keep(self, step: int, loss: Any, measure: Callable[[], Measurement]) -> None:
        """Measure and store, beside the training."""
        number = float("nan") if loss is None else float(getattr(loss, "detach", lambda: loss)())

        def job() -> None:
            found = measure()
            arrays = found._asdict()
            note = arrays.pop("note")
            self._commit(Record(step, number, note, **arrays))
            self.latest = {"step": step, **found.scalars(self._norms)}

        self._worker.submit(job)

    def record_loss(self, step: int, loss: float) -> None:
        """Give a measured step the loss that became known after it was measured."""

        def job() -> None:
            held = {record.step: record for record in self._unwritten}
            if step in held:
                self._unwritten.remove(held[step])
                self._commit(held[step]._replace(loss=loss))
            elif step in self._store.steps():
                self._commit(self._store.read(step)._replace(loss=loss))

        self._worker.add(job)

    def _commit(self, *records: Record) -> None:
        """To disk. What a full disk refuses stays in memory and is tried again with the next step."""
        waiting, self._unwritten = [*self._unwritten, *records], []
        for one in waiting:
            try:
                self._store.write(one)
            except OSError as error:
                self._unwritten.append(one)
                self._complaints.append(f"step {one.step} could not be written to {self._store.folder} ({error})")

    def _tell(self) -> None:
        """Warnings are given where the user's own code runs, and once."""
        if self._complaints and "disk" not in self._complained:
            self._complained.add("disk")
            message = f"{self._complaints[0]}: it is kept in memory and tried again with every measurement"
            warnings.warn(message, stacklevel=4)
        self._complaints.clear()

    # ---- what was found ----------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        return self._store.folder

    @property
    def steps(self) -> list[int]:
        """Measured steps, ascending."""
        self._worker.wait()
        return sorted({*self._store.steps(), *(record.step for record in self._unwritten)})

    @property
    def trajectory(self) -> xarray.Dataset:
        """Everything measured so far, over time, layer, circuit, head and mode."""
        self._worker.wait()
        return self._read(self.steps_so_far())

    def steps_so_far(self) -> list[int]:
        """Those whose measurement is over by now, without waiting for the one under way."""
        if not self.active:
            raise BadArgument("only rank 0 of a distributed run is watched: ask there, or read_watched(folder)")
        return sorted({*self._store.steps(), *(record.step for record in tuple(self._unwritten))})

    def trajectory_so_far(self, most: int) -> xarray.Dataset | None:
        """The same of at most so many steps, evenly chosen, without waiting; None before the first is over."""
        steps = self.steps_so_far()
        places = np.linspace(0, len(steps) - 1, min(len(steps), most)).round().astype(int)
        return self._read([steps[place] for place in dict.fromkeys(places)]) if steps else None

    @property
    def news(self) -> str:
        """In words, without waiting: "measuring", why the last measurement failed, or nothing."""
        return self._worker.news

    def _read(self, steps: Sequence[int]) -> xarray.Dataset:
        held = {record.step: record for record in tuple(self._unwritten)}
        records = [held.get(step) or self._store.read(step) for step in steps]
        return trajectory(self._meta, records, sorted(held), str(self.folder))

    def stages(self) -> list[HeadStage]:
        """When each head learned each direction of its change, the earliest first."""
        return head_stages(self.trajectory)

    def report(self, path: str | Path) -> Path:
        """Ranks, singular values and loss over the steps, as .html, .svg, .png or .pdf."""
        from .report import write_report

        return write_report(self.trajectory, Path(path))

    # ---- how it ends -------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """For a checkpoint: returns when everything measured so far is on disk, so that none of it is lost."""
        self._worker.wait()
        return {"folder": str(self.folder), "step": self._last}

    def close(self) -> None:
        """Wait for the measurement under way."""
        self._closed = True
        try:
            self._worker.close()
        finally:
            self._commit()
            if self._unwritten:
                lost = ", ".join(str(record.step) for record in self._unwritten)
                warnings.warn(f"steps {lost} could not be written to {self.folder} and are lost", stacklevel=2)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.close()
            return
        try:
            self.close()
        except Exception as error:  # the user's own exception is the one to be seen
            warnings.warn(f"the last measurement failed too ({type(error).__name__}: {error})", stacklevel=2)


def _nullable(array: np.ndarray) -> Any:
    """Nested lists with None for NaN, which JSON does not have."""
    known = array.astype(object)
    known[~np.isfinite(array)] = None
    return known.tolist()
