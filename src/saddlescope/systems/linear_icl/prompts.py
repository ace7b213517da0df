"""How the network of a run answers prompts that no run was trained on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from saddlescope.core.claim import Evidence

from . import prediction
from .measures import frame_of, map_at, resting

PROMPTS = 2000


class Prompts(NamedTuple):
    """correlation β (P, D), in-context covariance Λ̂ (P, D, D), query x_q, task w, answer y_q."""

    correlation: np.ndarray
    covariance: np.ndarray
    query: np.ndarray
    task: np.ndarray
    answer: np.ndarray


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


def answers(run: Evidence, row: int, prompts: Prompts) -> np.ndarray:
    """What the network of this moment says: βᵀ Σ v k qᵀ x_q."""
    return np.einsum("pi,ij,pj->p", prompts.correlation, map_at(run, row), prompts.query)


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def distance_from_theory(run: Evidence) -> list[float]:
    """On each conspicuous plateau: rms distance from Eq. (8) on fresh prompts, over that of the answers."""
    frame, spec = frame_of(run), run.system.spec
    prompts = fresh_prompts(frame.eigenvalues, spec.context_length)
    return [
        rms(
            answers(run, plateau.row, prompts)
            - prediction.in_context_prediction(
                prompts.correlation, prompts.query, frame.eigenvalues, frame.second_moments, plateau.learned
            )
        )
        / rms(prompts.answer)
        for plateau in resting(run)
    ]


def distance_from_regression(run: Evidence) -> list[float]:
    """On each conspicuous plateau past the first: rms distance from wᵀ Σ_{d<=m} e eᵀ x_q, over that of the answers."""
    frame, spec = frame_of(run), run.system.spec
    prompts = fresh_prompts(frame.eigenvalues, spec.context_length)
    found = []
    for plateau in resting(run)[1:]:
        kept = (prompts.task * prompts.query)[:, : plateau.learned].sum(-1)
        found.append(rms(answers(run, plateau.row, prompts) - kept) / rms(prompts.answer))
    return found


def distance_from_least_squares(run: Evidence) -> float:
    """At the end: rms distance from in-context least squares, which for noise-free labels is wᵀ x_q itself."""
    frame, spec = frame_of(run), run.system.spec
    prompts = fresh_prompts(frame.eigenvalues, spec.context_length)
    fitted = np.linalg.solve(prompts.covariance, prompts.correlation[..., None])[..., 0]
    return rms(answers(run, -1, prompts) - (fitted * prompts.query).sum(-1)) / rms(prompts.answer)
