"""Numbers that claims and figures take from a training: ranks of changes, of products, and how they grew."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from saddlescope.core.claim import by_field, rows_over
from saddlescope.core.run import Run
from saddlescope.spectra.ranks import energy_rank, stable_rank as rank_or_zero

QK, OV = 0, 1
"""Places of the circuits W_Q W_Kᵀ (the paper's W_K W_Qᵀ, transposed) and W_V W_O."""

SHARE = 0.9
"""Of the energy that `directions` must hold."""


def spectrum_of(run: Run, name: str) -> np.ndarray:
    """Singular values [layer, circuit, head, mode]: "start" and "end" of the products, "change" of their change."""
    return run.trajectory[f"{name}_values"].values


def stable_rank(values: np.ndarray) -> np.ndarray:
    """NaN where nothing changed: no change is no low-rank change."""
    return _if_any(rank_or_zero(values))


def directions(values: np.ndarray) -> np.ndarray:
    """How many of the largest singular values hold SHARE of the energy; NaN where there is none."""
    return _if_any(energy_rank(values, SHARE))


def _if_any(found: np.ndarray) -> np.ndarray:
    return np.where(found > 0, found, np.nan)


def against_start(run: Run) -> np.ndarray:
    """Stable rank of every head's change, over that of the product it began with."""
    return stable_rank(spectrum_of(run, "change")) / stable_rank(spectrum_of(run, "start"))


def against_random(run: Run) -> np.ndarray:
    """Stable rank of every head's change, over that of a random change of weights with the same norms."""
    return stable_rank(spectrum_of(run, "change")) / run.trajectory["random_stable_rank"].values


def normalised_tail(run: Run) -> np.ndarray:
    """QK: every singular value of the change over its largest, over the same of the start, from the second on."""
    change, start = (spectrum_of(run, name)[:, QK] for name in ("change", "start"))
    change = change[..., : start.shape[-1]]
    return (change / change[..., :1] / (start / start[..., :1]))[..., 1:]


def end_directions(run: Run) -> np.ndarray:
    """Directions of the trained product over all that the width of a head allows."""
    end = spectrum_of(run, "end")
    return directions(end) / end.shape[-1]


def change_directions(run: Run) -> np.ndarray:
    """Directions of the change over those of the trained product."""
    return directions(spectrum_of(run, "change")) / directions(spectrum_of(run, "end"))


def by_layer(run: Run, circuit: int) -> np.ndarray:
    """Stable rank of the change over epochs, the mean of each layer's heads: [time, layer]."""
    return run.series("stable_rank")[:, :, circuit].mean(-1)


def growth(run: Run) -> np.ndarray:
    """Stable rank at the end over that after the first epoch, by circuit and layer."""
    return np.array([by_layer(run, circuit)[-1] / by_layer(run, circuit)[1] for circuit in (QK, OV)])


def fall(run: Run) -> list[float]:
    """QK: the least stable rank in the first half, of the mean over layers, over that after the first epoch."""
    curve = by_layer(run, QK)[1:].mean(-1)
    return [curve[: max(2, len(curve) // 2)].min() / curve[0]]


def growth_from_least(run: Run) -> list[float]:
    """QK: stable rank at the end, of the mean over layers, over the least since the first epoch."""
    curve = by_layer(run, QK)[1:].mean(-1)
    return [curve[-1] / curve.min()]


def largest_step(run: Run) -> np.ndarray:
    """The largest rise of the mean rank between recorded epochs, as a share of the whole rise from its least."""
    found = []
    for circuit in (QK, OV):
        curve = by_layer(run, circuit)[1:].mean(-1)
        rise = curve[int(curve.argmin()) :]
        found.append(np.diff(rise).max() / (rise[-1] - rise[0]) if len(rise) > 1 and rise[-1] > rise[0] else np.nan)
    return np.array(found)


def _at_end(runs: Sequence[Run]) -> np.ndarray:
    """Stable rank at the end [circuit, layer], the mean over heads and runs."""
    return np.mean([run.series("stable_rank")[-1].mean(-1).T for run in runs], 0)


def ranks_by_scale(runs: Sequence[Run], circuit: int) -> np.ndarray:
    """[layer, scale] at the end, the smallest scale first."""
    return np.stack([_at_end(group)[circuit] for group in by_field(runs, "init_scale").values()], -1)


def against_default_scale(runs: Sequence[Run]) -> np.ndarray:
    """Ranks of every smaller scale over those of the default one, by circuit and layer."""
    groups = by_field(runs, "init_scale")
    default = _at_end(groups[1.0])
    return np.stack([_at_end(group) / default for scale, group in groups.items() if scale < 1])


def between_activations(runs: Sequence[Run]) -> np.ndarray:
    """|ReLU / GeLU - 1| of the ranks at the end, by circuit and layer."""
    groups = by_field(runs, "activation")
    return np.abs(_at_end(groups["relu"]) / _at_end(groups["gelu"]) - 1)


def ranks_over(field: str, circuit: int) -> Callable[[Sequence[Run]], np.ndarray]:
    """Rows (value of the field, stable rank of the change at the end), of runs that differ in nothing else."""
    return _rows_over(field, lambda run: _at_end([run])[circuit].mean())


def start_ranks_over(field: str) -> Callable[[Sequence[Run]], np.ndarray]:
    """The same of the products at the start, both circuits together."""
    return _rows_over(field, lambda run: stable_rank(spectrum_of(run, "start")).mean())


def _rows_over(field: str, measured: Callable[[Run], float]) -> Callable[[Sequence[Run]], np.ndarray]:
    def rows(runs: Sequence[Run]) -> np.ndarray:
        usual = type(runs[0].system)().spec
        chosen = [run for run in runs if _differs_only_in(run.system.spec, usual, field)]
        return rows_over(field, measured)(chosen)

    return rows


def _differs_only_in(spec: object, usual: object, field: str) -> bool:
    bound = {field, "mlp_width"} if field == "width" else {field}  # the MLP is as wide as the embedding
    return all(getattr(spec, name) == value for name, value in vars(usual).items() if name not in bound)


def share_kept(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Ranks that the attention's changes were cut down to, and the share of what they did for the loss that is left."""
    ranks, loss = (run.trajectory[f"kept_{name}"].values for name in ("ranks", "loss"))
    return ranks, (loss[0] - loss) / (loss[0] - loss[-1])


def share_kept_at(part: float) -> Callable[[Run], list[float]]:
    """The share that this part of all directions keeps."""

    def found(run: Run) -> list[float]:
        ranks, share = share_kept(run)
        return [float(np.interp(part * ranks[-1], ranks, share))]

    return found


def share_at_stable_rank(run: Run) -> list[float]:
    """The share that as many directions of each whole matrix keep as the largest stable rank of any head's product."""
    ranks, share = share_kept(run)
    return [float(np.interp(stable_rank(spectrum_of(run, "change")).max(), ranks, share))]
