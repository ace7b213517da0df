"""How the network of a run answers prompts that no run was trained on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from saddlescope.core.run import Run
from saddlescope.core.source import source

from ... import prediction
from .common import map_at, resting, theory_of

PROMPTS = 2000


class Prompts(NamedTuple):
    """correlation β (P, D), in-context covariance Λ̂ (P, D, D), query x_q, task w, answer y_q."""

    correlation: np.ndarray
    covariance: np.ndarray
    query: np.ndarray
    task: np.ndarray
    answer: np.ndarray


@source("zhang2025", "Eq. (13)", "Eq. (15)")
def fresh_prompts(eigenvalues: np.ndarray, length: int, count: int = PROMPTS) -> Prompts:
    """Prompts that no run was trained on. Λ̂ is drawn by Bartlett's decomposition: the cost does not depend on N."""
    rng = np.random.default_rng((20_25, length))
    D = len(eigenvalues)
    if length >= D:
        lower = np.tril(rng.standard_normal((count, D, D)), -1)
        lower[:, range(D), range(D)] = np.sqrt(rng.chisquare(length - np.arange(D), (count, D)))
        root = np.sqrt(eigenvalues)[:, None] * lower
        covariance = root @ root.swapaxes(-1, -2) / length
    else:
        x = rng.standard_normal((count, length, D)) * np.sqrt(eigenvalues)
        covariance = x.swapaxes(-1, -2) @ x / length
    query, task = rng.standard_normal((count, D)) * np.sqrt(eigenvalues), rng.standard_normal((count, D))
    return Prompts(np.einsum("pij,pj->pi", covariance, task), covariance, query, task, (task * query).sum(-1))


def answers(run: Run, row: int, prompts: Prompts) -> np.ndarray:
    """What the network of this moment says: βᵀ Σ v k qᵀ x_q."""
    return np.einsum("pi,ij,pj->p", prompts.correlation, map_at(run, row), prompts.query)


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def attend(run: Run, row: int, tokens: np.ndarray) -> np.ndarray:
    """Bottom right entry of X + Σ (1/N) W^V X X' W^K' W^Q X, as Eq. (1) and (2) write it, for each X (D+1, N+1)."""
    value, key, query = (run.series(name)[row] for name in ("value", "key", "query"))
    D, N = key.shape[-1], tokens.shape[-1] - 1
    made = tokens[:, -1, -1].copy()
    for head, size in enumerate(value):
        to_value = np.append(np.zeros(D), size)
        to_key, to_query = (np.pad(part[head], ((0, 0), (0, 1))) for part in (key, query))
        scores = (to_key @ tokens).swapaxes(-1, -2) @ (to_query @ tokens[:, :, -1:])  # (P, N+1, 1)
        made += ((to_value @ tokens)[:, None, :] @ scores)[:, 0, 0] / N
    return made


def distance_from_theory(run: Run) -> list[float]:
    """On each conspicuous plateau: rms distance of the network on fresh tokens from Eq. (8), over rms y_q."""
    theory, spec = theory_of(run), run.system.spec
    rng = np.random.default_rng((20_25, spec.context_length, 1))
    x = rng.standard_normal((PROMPTS, spec.dim, spec.context_length + 1)) * np.sqrt(theory.eigenvalues)[:, None]
    task = rng.standard_normal((PROMPTS, spec.dim))
    y = np.einsum("pd,pdn->pn", task, x)
    tokens = np.concatenate([x, y[:, None]], axis=1)
    tokens[:, -1, -1] = 0.0  # the query's label is what is asked for
    correlation, query = np.einsum("pn,pdn->pd", y[:, :-1], x[..., :-1]) / spec.context_length, x[..., -1]
    found = []
    for plateau in resting(run):
        expected = prediction.in_context_prediction(correlation, query, *theory, plateau.learned)
        found.append(rms(attend(run, plateau.row, tokens) - expected) / rms(y[:, -1]))
    return found


def distance_from_regression(run: Run) -> list[float]:
    """On each conspicuous plateau past the first: rms distance from wᵀ Σ_{d<=m} e eᵀ x_q, over that of the answers."""
    theory, spec = theory_of(run), run.system.spec
    prompts = fresh_prompts(theory.eigenvalues, spec.context_length)
    found = []
    for plateau in resting(run)[1:]:
        kept = (prompts.task * prompts.query)[:, : plateau.learned].sum(-1)
        found.append(rms(answers(run, plateau.row, prompts) - kept) / rms(prompts.answer))
    return found


def distance_from_least_squares(run: Run) -> float:
    """At the end: rms distance from in-context least squares, which for noise-free labels is wᵀ x_q itself."""
    theory, spec = theory_of(run), run.system.spec
    prompts = fresh_prompts(theory.eigenvalues, spec.context_length)
    fitted = np.linalg.solve(prompts.covariance, prompts.correlation[..., None])[..., 0]
    return rms(answers(run, -1, prompts) - (fitted * prompts.query).sum(-1)) / rms(prompts.answer)
