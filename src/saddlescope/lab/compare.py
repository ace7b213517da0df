"""The faces of one system side by side, from one start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from saddlescope.core.errors import BadArgument
from saddlescope.core.progress import Tick, part_of, silent
from saddlescope.core.registry import named
from saddlescope.core.run import Run
from saddlescope.core.strict import strict
from saddlescope.core.subject import Face, Subject

from .run import run

ORDER: tuple[Face, ...] = ("predict", "flow", "train")


@dataclass(frozen=True)
class Comparison:
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
        """Largest relative difference of each other face from the flow, in time and in loss."""
        found: dict[str, dict[str, float]] = {}
        for face in self.runs if "flow" in self.runs else ():
            for quantity in ("time", "loss") if face != "flow" else ():
                pairs = [(row[face][quantity], row["flow"][quantity]) for row in self.rows()]
                gaps = [abs(one / other - 1) for one, other in pairs if one is not None and other]
                if gaps:
                    found.setdefault(face, {})[quantity] = max(gaps)
        return found

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
