"""Numbers that show the errata: how far off is what the paper prints, and what holds instead.

Everything is evaluated in the eigenbasis of Λ, where E(Λ̂²) is diagonal too. Where a truth is needed that does not
rest on the paper's algebra, it comes from differences of the loss, from sequences, or from integrating the flow.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations
from math import comb
from typing import Any, Literal, NamedTuple

import numpy as np

from saddlescope.core.source import source
from saddlescope.core.tree import layout_of, ravel

from .. import data, prediction, reduction
from ..data import Weights
from ..spec import LinearICLSpec

FIG1 = LinearICLSpec(eigenvalues=(0.4, 0.3, 0.2, 0.1), context_length=31, heads=4, rank=1, init_scale=0.01)
"""The setting of Fig. 1; the initial scale, which the paper does not give, is ours."""

FLOWS = 4
"""Seeds whose flow is integrated."""

STARTS = 16
"""Seeds of which only the plateaus are followed."""

Shown = tuple[float, float]


# ---- what the evidence shares


def _off(found: Any, true: Any) -> float:
    """Largest deviation, as a share of the largest entry of the truth."""
    return float(np.abs(np.asarray(found) - true).max() / np.abs(true).max())


def _frame(spec: LinearICLSpec = FIG1) -> data.Frame:
    return data.build_frame(spec)


def _random_weights(heads: int, rank: int, dim: int) -> Weights:
    rng = np.random.default_rng(0)
    return Weights(
        rng.normal(size=(heads, 1)), rng.normal(size=(heads, rank, dim)), rng.normal(size=(heads, rank, dim))
    )


def _slope(weights: Weights, name: Literal["value", "key", "query"]) -> np.ndarray:
    """∂L/∂(one kind of weight) by central differences, exact but for rounding: L is quadratic in every entry."""
    moments = _frame().moments
    part = getattr(weights, name)
    slope = np.zeros_like(part)
    for place in np.ndindex(part.shape):
        step = np.zeros_like(part)
        step[place] = 1.0
        up, down = (
            reduction.loss_of_map(reduction.attention_map(weights._replace(**{name: moved})), moments)
            for moved in (part + step, part - step)
        )
        slope[place] = (up - down) / 2
    return slope


def _contexts(count: int) -> tuple[np.ndarray, np.ndarray]:
    """x (count, N, D) of Fig. 1, and the covariance Λ̂ (count, D, D) of each context."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, FIG1.context_length, FIG1.dim)) * np.sqrt(FIG1.eigenvalues)
    return x, np.swapaxes(x, 1, 2) @ x / FIG1.context_length


def _sequence() -> np.ndarray:
    """One input X (D+1, N+1) of Eq. (1), its last column the query with label 0."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(FIG1.dim, FIG1.context_length + 1)) * np.sqrt(FIG1.eigenvalues)[:, None]
    y = rng.normal(size=FIG1.dim) @ x
    y[-1] = 0.0
    return np.vstack([x, y])


class _Flow(NamedTuple):
    """A gradient flow of Fig. 1 from init_scale 0.01: weights at every step, loss, times of the drops."""

    time: np.ndarray
    weights: Weights
    loss: np.ndarray
    drops: np.ndarray

    @property
    def grown(self) -> np.ndarray:
        """Heads that hold a direction at the end."""
        return np.abs(self.weights.value[-1, :, 0]) > 0.5


def _levels(spec: LinearICLSpec = FIG1, stages: int | None = None) -> np.ndarray:
    """L(M_0), L(M_1), ..., of all stages unless told."""
    frame, stages = _frame(spec), spec.stage_count if stages is None else stages
    return np.array([prediction.plateau_loss(frame.eigenvalues, frame.second_moments, m) for m in range(stages + 1)])


@cache
def _flow(seed: int) -> _Flow:
    from saddlescope.numerics.integrate import integrate

    start, moments, levels = data.initial_weights(FIG1, seed), _frame().moments, _levels()
    layout = layout_of(start)

    def loss(flat: np.ndarray) -> Any:
        return reduction.loss_of_map(reduction.attention_map(layout.unravel(flat)), moments)

    path = integrate(
        lambda _, flat: ravel(reduction.velocity(layout.unravel(flat), moments)),
        ravel(start),
        0.0,
        1e7,
        jacobian=lambda _, flat: reduction.jacobian(layout.unravel(flat), moments),
        watch=lambda flat: loss(flat) - (levels[:-1] + levels[1:]) / 2,
        stop=lambda _, flat: loss(flat) - levels[-1] < 1e-9,
    )
    drops = np.array([when for when, _ in path.crossings])
    return _Flow(path.time, layout.unravel(path.state), loss(path.state), drops)


def _stage_times(spec: LinearICLSpec, seed: int, stages: int | None = None) -> list[float]:
    """Times of the first drops by the stage algorithm."""
    from ..escape import Way, escape_times

    frame, levels = _frame(spec), _levels(spec, stages)
    lam, second = frame.eigenvalues, frame.second_moments
    plateaus = [prediction.fixed_point(lam, second, range(m), spec.heads, spec.rank) for m in range(len(levels))]
    found = escape_times(data.initial_weights(spec, seed), Way(frame, levels, plateaus, spec.rank)).times
    return [np.inf if when is None else when for when in found]


def _departure(weights: Weights, rates: np.ndarray) -> tuple[float, int]:
    """When the first of some small heads leaves a plateau whose residual is diag(rates), and which head it is."""
    from ..escape import drift_until

    size = 0.05 * np.cbrt(prediction.learned_gain(_frame().eigenvalues, _frame().second_moments)[0])
    longest = 1e5 / (np.min(rates[rates > 0]) * np.abs(weights.value).max())
    leg = drift_until(weights, np.diag(rates), size, longest)
    return leg.duration, int(np.abs(leg.weights.value[:, 0]).argmax())


# ---- the evidence, in the order of the paper


def shows_fixed_point_count() -> Shown:
    heads, dim = 2, FIG1.dim
    frame = _frame()
    gain = prediction.learned_gain(frame.eigenvalues, frame.second_moments)
    subsets = [list(s) for m in range(dim + 1) for s in combinations(range(dim), m)]
    targets = [np.diag(np.where(np.isin(np.arange(dim), s), gain, 0.0)) for s in subsets]
    reachable = sum(int(np.linalg.matrix_rank(target)) <= heads for target in targets)
    repaired = sum(comb(dim, m) for m in range(heads + 1))
    return abs(2**dim - reachable) / reachable, abs(repaired - reachable) / reachable


def _farthest_stationary(eigenvalues: tuple[float, ...]) -> float:
    """Turn one head from e_1 to e_2; where its velocity vanishes, how far is its map from all M(S)?"""
    frame = _frame(replace(FIG1, eigenvalues=eigenvalues))
    gain = prediction.learned_gain(frame.eigenvalues, frame.second_moments)
    subsets = np.array(list(np.ndindex(*(2,) * len(gain))))
    farthest = 0.0
    for angle in np.linspace(0, np.pi / 2, 91):
        tilted = np.sqrt(gain) * [np.cos(angle), np.sin(angle), 0, 0]
        value = np.cbrt(tilted @ tilted)
        key = tilted[None, None] / np.sqrt(value)
        head = Weights(np.array([[value]]), key, key)
        if np.abs(ravel(reduction.velocity(head, frame.moments))).max() < 1e-12:
            made = reduction.attention_map(head)[0]
            nearest = min(np.linalg.norm(made - np.diag(s * gain)) for s in subsets)
            farthest = max(farthest, nearest / np.linalg.norm(made))
    return float(farthest)


def shows_repeated_eigenvalues() -> Shown:
    return _farthest_stationary((0.35, 0.35, 0.15, 0.15)), _farthest_stationary(FIG1.eigenvalues)


def shows_c3() -> Shown:
    frame = _frame()
    first, second = frame.eigenvalues[:2] ** -2.0
    head = Weights(np.zeros((1, 1)), np.array([[[1.0, 1, 0, 0]]]), np.array([[[first, -second, 0, 0]]]))
    outside = np.arange(FIG1.dim)  # S is empty
    share = min(np.linalg.norm(part[..., outside]) / np.linalg.norm(part) for part in (head.key, head.query))
    moves = np.abs(ravel(reduction.velocity(head, frame.moments))).max()
    left_of_49 = prediction.fixed_point_conditions(head, frame.eigenvalues, frame.second_moments, [])["C3"]
    return float(share), float(max(moves, left_of_49))


def shows_signs() -> Shown:
    printed, repaired = 0.0, 0.0
    for flow in map(_flow, range(FLOWS)):
        value, key, query = (part[-1][flow.grown] for part in flow.weights)
        size = np.linalg.norm(key, axis=-1)
        printed = max(printed, (np.linalg.norm(key - query, axis=-1) / size).max())
        opposed = key - np.sign(value)[:, :, None] * query
        repaired = max(repaired, (np.linalg.norm(opposed, axis=-1) / size).max())
    return float(printed), float(repaired)


def shows_later_plateaus() -> Shown:
    spec = replace(FIG1, init_scale=1e-3)
    lam = np.array(spec.eigenvalues)
    printed, repaired = [], []
    for seed in range(STARTS):
        durations = np.diff(_stage_times(spec, seed), prepend=0.0)
        printed += list(np.diff(durations) <= 0)
        start = data.initial_weights(spec, seed)
        aligned = start._replace(query=np.sign(start.value)[:, :, None] * start.key)
        alone = [_departure(aligned, np.where(np.arange(len(lam)) < m, 0.0, lam**2))[0] for m in range(len(lam))]
        repaired += list(np.diff(alone) <= 0)
    return float(np.mean(printed)), float(np.mean(repaired))


def _apart_from_regression(length: int) -> float:
    """E(ŷ_q − regression)² / E(y_q²) at M_D, where regression on all components returns y_q itself."""
    levels = _levels(replace(FIG1, context_length=length))
    return float(levels[-1] / levels[0])


def shows_large_n() -> Shown:
    return _apart_from_regression(FIG1.context_length), _apart_from_regression(10**6)


def shows_rank_divides() -> Shown:
    printed, repaired, count = 0, 0, 0
    lam = 1 / np.arange(1, 9)
    spec = LinearICLSpec(eigenvalues=tuple(lam / lam.sum()), heads=9)
    frame = _frame(spec)
    for rank in (2, 3, 4):
        for m in range(spec.dim):
            point = prediction.fixed_point(frame.eigenvalues, frame.second_moments, range(m), spec.heads, rank)
            lingers = bool(np.linalg.eigvalsh(reduction.jacobian(point, frame.moments))[-1] < 1e-9)
            printed += (m > 0 and rank % m == 0) != lingers
            repaired += (m % rank == 0) != lingers
            count += 1
    return printed / count, repaired / count


def _pull_of_own_label(hide: bool) -> float:
    """Mean |∂ŷ_n/∂y_n| at M_D over n = 2..N, with the full output X + ... of section 2.2; ŷ_n is affine in y_n."""
    frame = _frame()
    learned = np.diag(prediction.learned_gain(frame.eigenvalues, frame.second_moments))

    def predict(X: np.ndarray, n: int, label: float) -> float:
        seen = X[:, :n].copy()
        seen[-1, -1] = 0.0 if hide else label
        return float(seen[-1, -1] + seen[-1] @ seen[:-1].T @ learned @ seen[:-1, -1] / (n - 1))

    X = _sequence()
    return float(np.mean([abs(predict(X, n, 1.0) - predict(X, n, 0.0)) for n in range(2, FIG1.context_length + 1)]))


def shows_eq9() -> Shown:
    return _pull_of_own_label(hide=False), _pull_of_own_label(hide=True)


def _fourth_moment(lam: np.ndarray) -> np.ndarray:
    """E(x xᵀ x xᵀ) of a Gaussian x, in the eigenbasis."""
    return np.diag(2 * lam**2 + lam.sum() * lam)


def shows_eq10() -> Shown:
    frame, length = _frame(), FIG1.context_length
    lam = frame.eigenvalues
    of_sum = (length * (length - 1) * np.diag(lam**2) + length * _fourth_moment(lam)) / length**2
    maps = (np.diag(lam) @ np.linalg.inv(second) for second in (_fourth_moment(lam) / length**2, of_sum))
    left = [np.abs(reduction.residual(made[None], frame.moments)).max() / lam[0] ** 2 for made in maps]
    return float(left[0]), float(left[1])


def shows_eq14() -> Shown:
    X = _sequence()
    x, y, length = X[:-1, :-1], X[-1, :-1], FIG1.context_length
    true = (X @ X.T / length)[-1, :-1]
    return _off(y.sum() * X[:-1, -1] / length, true), _off(y @ x.T / length, true)


def shows_eq16() -> Shown:
    x, covariance = _contexts(1)
    x, square, N = x[0], covariance[0] @ covariance[0], FIG1.context_length
    outer = x[:, :, None] * x[:, None, :]
    same = (outer @ outer).sum(0)
    different = np.einsum("nij,mjk->ik", outer, outer) - same
    printed = (N**2 - N) / N**2 * different + N / N**2 * same
    return _off(printed, square), _off((different + same) / N**2, square)


def shows_eq24c() -> Shown:
    frame = _frame()
    Λ, A = np.diag(frame.eigenvalues), np.diag(frame.second_moments)
    weights = _random_weights(3, 1, FIG1.dim)
    value, key = weights.value, weights.key[:, 0]
    true = -_slope(weights, "query")[:, 0] / 2
    made = reduction.attention_map(weights)[0]
    printed, repaired = (value * (key @ (Λ @ Λ - Λ @ M @ A).T) for M in (made, made.T))
    return _off(printed, true), _off(repaired, true)


@source("zhang2025", "Eq. (30)")
def shows_eq30() -> Shown:
    """Tasks ±√D e_i and queries ±√(D λ_j) e_j, all pairs, have exactly E(w wᵀ) = I and E(x_q x_qᵀ) = Λ."""
    frame, count = _frame(), 2
    lam, D = frame.eigenvalues, FIG1.dim
    learned = np.where(np.arange(D) < count, prediction.learned_gain(lam, frame.second_moments), 0.0)
    _, covariance = _contexts(200)
    task, query = np.sqrt(D) * np.eye(D)[:, None], np.sqrt(D * lam)[None, :, None] * np.eye(D)
    β = np.einsum("pij,twj->ptwi", covariance, task)
    guess = prediction.in_context_prediction(β, query, lam, frame.second_moments, count)
    true = np.mean(((task * query).sum(-1) - guess) ** 2)
    left = np.eye(D) - covariance * learned
    printed = np.mean(np.einsum("pij,pji,i->p", left, left, lam))
    repaired = np.mean(np.einsum("pji,pji,i->p", left, left, lam))
    return _off(printed, true), _off(repaired, true)


def shows_eq37() -> Shown:
    from scipy.integrate import quad

    frame = _frame()
    lam, second = float(frame.eigenvalues[0]), float(frame.second_moments[0])
    ends = np.array([0.2, 0.9]) * np.cbrt(lam / second)
    true = np.diff(lam**2 * prediction.aligned_time(ends, lam, second))[0]
    printed, repaired = (quad(lambda v, p=power: 1 / (v**2 - second / lam * v**p), *ends)[0] for power in (2, 5))
    return _off(printed, true), _off(repaired, true)


def shows_eq38() -> Shown:
    spec = replace(FIG1, init_scale=1e-6)
    lam = np.array(spec.eigenvalues)
    printed = []
    for seed in range(STARTS):
        start = data.initial_weights(spec, seed)
        winner = _departure(start, lam**2)[1]
        guess = prediction.plateau_duration(lam[0], start.value[winner, 0])
        printed.append(abs(guess / _stage_times(spec, seed, stages=1)[0] - 1))
    repaired = [abs(_stage_times(FIG1, seed, stages=1)[0] / _flow(seed).drops[0] - 1) for seed in range(FLOWS)]
    return float(np.median(printed)), float(np.median(repaired))


def shows_d6_numbering() -> Shown:
    levels = _levels()
    printed, repaired = [], []
    for flow in map(_flow, range(FLOWS)):
        begin = np.concatenate([[0.0], flow.drops[:-1]])
        halfway = np.interp((begin + flow.drops) / 2, flow.time, flow.loss)
        printed.append(np.abs(halfway / levels[1:] - 1))
        repaired.append(np.abs(halfway / levels[:-1] - 1))
    return float(np.median(printed)), float(np.median(repaired))


def shows_eq40() -> Shown:
    from scipy.linalg import expm

    learned, s = 2, 1.7
    lam, D = np.array(FIG1.eigenvalues), FIG1.dim
    rate = np.where(np.arange(D) < learned, 0.0, lam**2)
    k, q = np.random.default_rng(0).normal(size=(2, D))
    Ω, zero = np.diag(rate), np.zeros((D, D))
    true = expm(s * np.block([[zero, Ω], [Ω, zero]])) @ np.concatenate([k, q])
    plus, minus = (k + q) * np.exp(rate * s) / 2, (k - q) * np.exp(-rate * s) / 2
    moving = np.where(rate > 0, [plus + minus, plus - minus], 0.0)
    printed = moving + np.where(rate > 0, 0.0, [k + q, k + q])
    repaired = moving + np.where(rate > 0, 0.0, [k, q])
    return _off(printed.ravel(), true), _off(repaired.ravel(), true)


def shows_equal_norms() -> Shown:
    printed, repaired = [], []
    for flow in map(_flow, range(FLOWS)):
        value, key = flow.weights.value[:, flow.grown, 0] ** 2, (flow.weights.key[:, flow.grown] ** 2).sum((-2, -1))
        apart = np.abs(key - value) / (key + value)
        printed += list(apart.max(0))
        repaired += list(apart[-1])
    return float(np.median(printed)), float(np.median(repaired))


def shows_e1_block() -> Shown:
    X = _sequence()
    x, y, length = X[:-1, :-1], X[-1, :-1], FIG1.context_length
    true = (X @ X.T / length)[-1, -1]
    return _off((y @ x.T / length)[0], true), _off(y @ y / length, true)


def shows_e1_population() -> Shown:
    spec = replace(FIG1, sequences=1000)
    x, y = data.draw_sequences(spec)
    weights = data.initial_weights(spec, 0)
    off = []
    for labels in (y[None], np.stack([y, -y])):
        gram, query, target = data.contexts(
            data.Sequences(np.concatenate([x] * len(labels)), np.concatenate(labels)), spec.objective
        )
        made = np.einsum("pab,pd,abd->p", gram, query, reduction.attention_map(weights))
        pull = np.einsum("p,pab,pd->abd", target - made, gram, query) / len(target)
        move = reduction.pull_back(pull, weights)
        stray = max(np.abs(move.value[:, :-1]).max(), np.abs(move.key[..., -1]).max())
        off.append(float(stray / max(np.abs(move.value[:, -1]).max(), np.abs(move.key[..., :-1]).max())))
    return off[0], off[1]


def shows_eq45c() -> Shown:
    frame = _frame()
    weights = _random_weights(2, 2, FIG1.dim)
    E = reduction.residual(reduction.attention_map(weights), frame.moments)[0]  # E(β (y_q − ŷ_q) x_qᵀ)
    true = -_slope(weights, "query") / 2
    value = weights.value[:, :, None]
    printed = value * (weights.key @ np.diag(E))[..., None] * np.ones(FIG1.dim)
    return _off(printed, true), _off(value * (weights.key @ E), true)


def shows_fig7() -> Shown:
    fig7 = replace(FIG1, heads=5, rank=2)
    return _off(_levels(replace(fig7, context_length=32)) / _levels(), 1.0), _off(_levels(fig7) / _levels(), 1.0)


def shows_e5() -> Shown:
    spec = replace(FIG1, eigenvalues=(0.35, 0.35, 0.15, 0.15), init_scale=1e-3)
    lam = np.array(spec.eigenvalues)
    start = data.initial_weights(spec, 0)
    before, after = _departure(start, lam**2)[0], _departure(start, (2 * lam) ** 2)[0]
    return abs(after / before - 1), abs(4 * after / before - 1)


def shows_eq51() -> Shown:
    weights = _random_weights(2, 2, FIG1.dim)
    move = reduction.velocity(weights, _frame().moments)
    true = 2 * (weights.key * move.key).sum(-1)
    chain = -(weights.key * _slope(weights, "key")).sum(-1)  # E(−kᵀ dL/dŷ dŷ/dk)
    return _off(2 * chain, true), _off(chain, true)
