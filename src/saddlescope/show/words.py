"""Numbers and closing lines of results, the same in tables, in a terminal's repr and in a notebook."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from saddlescope.core.run import Run
    from saddlescope.lab.compare import Comparison


def number(value: float | None, digits: int = 6) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}g}"


def closing_lines(run: Run) -> list[str]:
    """Its last numbers, how it was made, and how it ended."""
    lines = [f"final loss {number(run.final_loss, 9)}"]
    if run.conserved_drift is not None and math.isfinite(run.conserved_drift):
        lines.append(f"conserved drift {run.conserved_drift:.1e}")
    return ["; ".join(lines), f"{run.solver}; {run.result}; {run.seconds:.2f} s"]


def gap_lines(results: Sequence[Comparison]) -> list[str]:
    """How far each face is from the flow, in words; of several seeds the largest difference."""
    lines = []
    units = {"time": "of the flow's time", "loss": "of the drop in loss"}
    over = "" if len(results) == 1 else f" over {len(results)} seeds"
    for face in results[0].runs:
        found = [result.differences().get(face, {}) for result in results]
        most = {
            quantity: max((gaps[quantity] for gaps in found if quantity in gaps), default=None) for quantity in units
        }
        gaps = " and ".join(f"{gap:.1e} {units[quantity]}" for quantity, gap in most.items() if gap is not None)
        if not gaps:
            continue
        line = f"{face} against flow, largest difference{over}: {gaps}"
        if (end := results[0].common_end(face)) is not None:
            where = f"at time {end:.6g}, where" if len(results) == 1 else "where"
            line += f"; the last loss is compared {where} the shorter run ends"
        lines.append(line)
    return lines
