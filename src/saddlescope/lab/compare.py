"""The faces of one system side by side, from one start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from saddlescope.core.errors import BadArgument
from saddlescope.core.progress import Tick, part_of, silent
from saddlescope.core.subject import Face, Subject
from saddlescope.core.system import System

from .outcome import Outcome, strict
from .run import run_face

ORDER: tuple[Face, ...] = ("predict", "flow", "train")


@dataclass(frozen=True)
class Comparison:
    system: System
    seed: int
    outcomes: dict[str, Outcome]

    def rows(self) -> list[dict[str, Any]]:
        """One row per stage: time and loss in each face, None where a face did not see it."""
        indices = sorted({stage.index for outcome in self.outcomes.values() for stage in outcome.stages})
        rows = []
        for index in indices:
            row: dict[str, Any] = {"index": index, "label": ""}
            for face, outcome in self.outcomes.items():
                stage = next((stage for stage in outcome.stages if stage.index == index), None)
                row[face] = {"time": stage.time if stage else None, "loss": stage.loss if stage else None}
                row["label"] = row["label"] or (stage.label if stage else "")
            rows.append(row)
        return rows

    def differences(self) -> dict[str, dict[str, float]]:
        """Largest relative difference of each other face from the flow, in time and in loss."""
        found: dict[str, dict[str, float]] = {}
        for face in self.outcomes if "flow" in self.outcomes else ():
            for quantity in ("time", "loss") if face != "flow" else ():
                pairs = [(row[face][quantity], row["flow"][quantity]) for row in self.rows()]
                gaps = [abs(one / other - 1) for one, other in pairs if one is not None and other]
                if gaps:
                    found.setdefault(face, {})[quantity] = max(gaps)
        return found

    def to_dict(self) -> dict[str, Any]:
        faces = {face: outcome.to_dict() for face, outcome in self.outcomes.items()}
        return strict(
            {
                "system": self.system.name,
                "seed": self.seed,
                "stages": self.rows(),
                "differences": self.differences(),
                "faces": faces,
            }
        )


def compare(system: Subject, seed: int = 0, *, tick: Tick = silent) -> Comparison:
    """Run every face that the system has from the same start."""
    if not isinstance(system, System):
        raise BadArgument(f"{system.name} is a study and has no other face to compare with: it can train")
    start = system.start(seed)
    faces: list[Face] = [face for face in ORDER if face in system.faces]
    outcomes: dict[str, Outcome] = {}
    prediction = None
    for number, face in enumerate(faces):
        part = part_of(tick, number, len(faces), face)
        outcomes[face] = run_face(system, face, seed, start=start, prediction=prediction, tick=part)
        prediction = outcomes[face].prediction
    return Comparison(system, seed, outcomes)
