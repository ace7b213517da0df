"""The faces of one system side by side, from one start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.progress import Tick, part_of, silent
from saddlescope.core.registry import named
from saddlescope.core.run import Run
from saddlescope.core.shown import Shown
from saddlescope.core.strict import strict
from saddlescope.core.subject import Face, Subject

from .run import run

ORDER: tuple[Face, ...] = ("predict", "flow", "train")


SAME_END = 1e-6
"""Relative difference of two ends that are one."""


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """One run of each face from the start of `seed`."""

    shown_by: ClassVar[str] = "saddlescope.show.of_comparison"

    system: Subject
    seed: int
    runs: dict[str, Run]

    def rows(self) -> list[dict[str, Any]]:
        """One row per stage: time and loss in each face, None where a face did not see it."""
        indices = sorted({stage.index for one in self.runs.values() for stage in one.stages})
        rows = []
        for index in indices:
            row: dict[str, Any] = {"index": index, "label": ""}
            for face, one in self.runs.items():
                stage = next((stage for stage in one.stages if stage.index == index), None)
                row[face] = {"time": stage.time if stage else None, "loss": stage.loss if stage else None}
                row["label"] = row["label"] or (stage.label if stage else "")
            rows.append(row)
        return rows

    def differences(self) -> dict[str, dict[str, float]]:
        """Largest difference of each other face from the flow: of times relative to the flow's, of losses as a share of
        the drop that led to them.

        The last loss is the one at the end of a run; of two runs that end at different times, both are read where the
        shorter one ends (`common_end`).
        """
        found: dict[str, dict[str, float]] = {}
        flow = self.runs.get("flow")
        for face, one in self.runs.items() if flow is not None else ():
            if one is flow or flow is None:
                continue
            times = [(row[face]["time"], row["flow"]["time"]) for row in self.rows() if one.on_flow_time]
            gaps = {
                "time": [abs(mine / other - 1) for mine, other in times if mine is not None and other],
                "loss": self._loss_gaps(one, flow),
            }
            found[face] = {quantity: max(values) for quantity, values in gaps.items() if values}
        return {face: gaps for face, gaps in found.items() if gaps}

    def common_end(self, face: str) -> float | None:
        """Where the last losses of this face and of the flow are compared; None if both are compared at their ends."""
        flow, one = self.runs.get("flow"), self.runs[face]
        if flow is None or flow.trajectory is None or one.trajectory is None or not one.on_flow_time:
            return None
        ends = sorted(float(run.series("time")[-1]) for run in (flow, one))
        return ends[0] if ends[1] > ends[0] * (1 + SAME_END) else None

    def _loss_gaps(self, one: Run, flow: Run) -> list[float]:
        mine, end = {stage.index: stage.loss for stage in one.stages}, self.common_end(one.face)
        last = min(max(seen, default=0) for seen in (mine, [stage.index for stage in flow.stages]))
        gaps, before = [], float(flow.series("loss")[0])
        for stage in flow.stages:
            loss, other = stage.loss, mine.get(stage.index)
            if loss is None:
                continue
            drop, before = abs(before - loss), loss
            if stage.index == last and end is not None:
                loss, other = (_loss_at(run, end) for run in (flow, one))
            if other is not None and drop > 0:
                gaps.append(abs(other - loss) / drop)
        return gaps

    def to_dict(self) -> dict[str, Any]:
        faces = {face: one.to_dict() for face, one in self.runs.items()}
        return strict(
            {
                "system": self.system.name,
                "seed": self.seed,
                "stages": self.rows(),
                "differences": self.differences(),
                "faces": faces,
            }
        )


def _loss_at(run: Run, moment: float) -> float:
    return float(np.interp(moment, run.series("time"), run.series("loss")))


def compare(system: Subject | str, seed: int = 0, *, tick: Tick = silent) -> Comparison:
    """Run every face that the system has from the start of `seed`; the result has one `Run` for each, and a table.

    tick: hears of the progress.
    """
    chosen = named(system)
    if len(chosen.faces) < 2:
        raise BadArgument(f"{chosen.name} has nothing to compare: it can {', '.join(chosen.faces)}")
    start = chosen.start(seed)
    faces: list[Face] = [face for face in ORDER if face in chosen.faces]
    runs: dict[str, Run] = {}
    prediction = None
    for number, face in enumerate(faces):
        part = part_of(tick, number, len(faces), face)
        runs[face] = run(chosen, face, seed, start=start, prediction=prediction, tick=part)
        prediction = runs[face].prediction
    return Comparison(chosen, seed, runs)
