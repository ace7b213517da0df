"""Numbers that show the errata: how far off is what the paper prints, and what holds instead.

Truths come from tokens that the chain has drawn, from gradients of a loss over all entries of a tensor or over data
whose second moments are exact, or from integrating the flow; what the paper concludes from its algebra is compared.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.tree import layout_of, ravel

from .. import chain, data, reduction
from ..data import Frame, Weights
from ..spec import MarkovSpec, RegressionSpec

THEOREM = RegressionSpec(
    positions=40, patterns=3, heads=3, importance_ratio=1.7, base_scale=1.0, dimension=3, coupled=True, lumped=True
)
"""Section C.6 with b0 = 1, all heads alike and all idle positions alike: three coefficients and four logits."""

HEADS = replace(THEOREM, coupled=False, lumped=False)
"""The same with heads and positions of their own."""

FEW = replace(HEADS, positions=6, heads=5)
"""Small enough for tensors with all their entries; heads are more than patterns, positions more than either."""

WORDS = MarkovSpec(
    positions=6, vocabulary=5, patterns=2, heads=2, interval_length=2, importance_ratio=1.7, base_scale=3.0
)
"""A chain for section 2.1: w = 4, I(1) = {1, 2}, I(2) = {3, 4}."""

PAIRS = replace(WORDS, vocabulary=4, interval_length=1, positions=1)
"""One token after two uniform ones: every law can be written down."""

SHARP = 40.0
"""λ of section 2.1: e^-40 is rounding."""

SHARES = np.array([0.8, 0.2])
"""alpha_i of each of its intervals, which sections 2 and 2.1 leave free."""

LATE = 1e6
"""When flows that tend to a vertex are within a few thousandths of it: their approach is a power of time."""

POINTS = 2000
"""Random points at which an inequality is tried."""

Shown = tuple[float, float]


# ---- what the evidence shares


def _apart(found: np.ndarray, true: np.ndarray) -> float:
    """Distance over the length of the truth."""
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))


class _Path(NamedTuple):
    """time (n,), coefficients (n, rows, h) of V along the features, attention (n, rows, columns)."""

    time: np.ndarray
    coefficients: np.ndarray
    attention: np.ndarray
    frame: Frame


def _flow(spec: RegressionSpec, coefficients: Any, logits: Any, end: float) -> _Path:
    """Proposition 1's flow from these rows, or the symmetric one where spec.coupled."""
    from saddlescope.numerics.integrate import integrate

    frame = data.build_frame(spec)
    start = reduction.pack(np.atleast_2d(coefficients), np.atleast_2d(logits), frame)
    fold = layout_of(start).unravel
    path = integrate(
        lambda _, flat: ravel(reduction.velocity(fold(flat), frame)),
        ravel(start),
        0.0,
        end,
        jacobian=lambda _, flat: reduction.jacobian(fold(flat), frame),
    )
    c, q = reduction.unpack(fold(path.state), frame)
    return _Path(path.time, c, reduction.softmax(q, frame.multiplicity), frame)


@cache
def _usual() -> _Path:
    """The symmetric flow from V = 0 and uniform attention."""
    return _flow(THEOREM, np.zeros(3), np.zeros(4), 1e4)


def _from_vertex(path: _Path) -> float:
    """|s − s_1*| of the first row at the end, idle positions taken together."""
    mass = path.frame.multiplicity * path.attention[-1, 0]
    return float(np.linalg.norm(mass - np.eye(len(mass))[0]))


# ---- section 2


def _divergence(log_truth: np.ndarray, log_found: np.ndarray) -> float:
    """Mean KL(truth || found); rounding may leave a zero negative."""
    return abs(float((np.exp(log_truth) * (log_truth - log_found)).sum(-1).mean()))


def shows_eq3() -> Shown:
    """The law of x_1 given x_0 alone, x_{-1} and x_0 being uniform."""
    features, d = chain.draw_features(PAIRS.chain), PAIRS.vocabulary
    tables = chain.lag_tables(features, PAIRS.lags)
    tokens, counts = chain.sample(tables, 1, 200_000, np.random.default_rng(0)), np.zeros((d, d))
    np.add.at(counts, (tokens[:, 1], tokens[:, 2]), 1)
    seen = np.log(counts / counts.sum(1, keepdims=True))
    silent = chain.log_softmax(features[0].T)  # row x: softmax of A_1* x
    pairs = np.stack([np.tile(np.arange(d), d), np.repeat(np.arange(d), d)], 1)
    both = chain.log_softmax(chain.next_logits(tables, pairs)).reshape(d, d, d)
    return _divergence(seen, silent), _divergence(seen, np.log(np.exp(both).mean(1)))


def _excess(shift: int = 0, shares: np.ndarray | None = None, weighted: bool = False) -> float:
    """Mean KL of section 2.1's construction from the truth. shift: how much further back heads look.

    shares: alpha_i of the truth.  weighted: their logarithms are added to λ.
    """
    from .. import network

    features = chain.draw_features(WORDS.chain)
    tables, behind = chain.lag_tables(features, WORDS.lags), chain.lags(WORDS)
    tokens, w = chain.sample(tables, WORDS.positions, 30, np.random.default_rng(0)), WORDS.window
    logits = np.zeros((WORDS.heads, *behind.shape))
    for head, interval in enumerate(WORDS.lags):
        for lag, share in zip(interval, (1, 1) if shares is None else shares * len(interval), strict=True):
            tables[lag - 1] *= share
            logits[head][behind == lag + shift] = SHARP + weighted * np.log(share)
    truth = [chain.log_softmax(chain.next_logits(tables, tokens[:, t : t + w])) for t in range(WORDS.positions)]
    found, _ = network.log_probabilities(network.Minimal(logits, features), WORDS, tokens)
    return _divergence(np.stack(truth, 1), np.asarray(found))


def shows_key_query() -> Shown:
    return _excess(shift=1), _excess()


def shows_alpha() -> Shown:
    return _excess(shares=SHARES), _excess(shares=SHARES, weighted=True)


# ---- section 3


def shows_strengths() -> Shown:
    norms = np.linalg.norm(chain.draw_features(WORDS.chain), axis=(1, 2))
    printed, repaired = (np.abs(scale * np.array(WORDS.strengths) / norms - 1) for scale in (1, WORDS.vocabulary**0.5))
    return float(printed.max()), float(repaired.max())


def shows_strict_order() -> Shown:
    ends = [_flow(replace(THEOREM, importance_ratio=m), np.zeros(3), np.zeros(4), LATE) for m in (1.0, 1.7)]
    return _from_vertex(ends[0]), _from_vertex(ends[1])


def _descent(covariance: np.ndarray | None = None) -> np.ndarray:
    """−dL/dθ at random weights: of Proposition 1, or of Eq. (8) without noise, which adds a constant.

    covariance: of one token, the tokens of Eq. (8) having exactly E(x_i x_jᵀ) = 1[i=j] covariance.
    """
    import jax
    import jax.numpy as jnp

    from saddlescope.core.precision import start_with_one_thread

    start_with_one_thread()
    frame, rng, (d, T, H) = data.build_frame(FEW), np.random.default_rng(0), (FEW.dimension, FEW.positions, FEW.heads)
    target = np.einsum("bt,bij->ijt", frame.targets, frame.basis)
    independent = np.sqrt(d * T) * np.eye(d * T).reshape(-1, d, T)
    tokens = None if covariance is None else np.linalg.cholesky(covariance) @ independent

    def loss(weights: Weights) -> Any:
        left = target - jnp.einsum("kij,kt->ijt", weights.values, reduction.softmax(weights.logits, 1.0))
        if tokens is None:
            return (left**2).sum() / 2
        return (jnp.einsum("ijt,njt->ni", left, tokens) ** 2).sum(1).mean() / 2

    slope = jax.grad(loss)(Weights(rng.normal(size=(H, d, d)), rng.normal(size=(H, T))))
    return -np.concatenate([np.ravel(part) for part in slope])


def _unlike(found: np.ndarray, direction: np.ndarray) -> float:
    """Share of a vector that is not along a direction."""
    return _apart(direction * (found @ direction) / (direction @ direction), found)


def shows_assumption_1() -> Shown:
    flow = _descent()
    uneven, even = np.diag([0.7, 0.2, 0.1]), np.eye(FEW.dimension)
    return _unlike(_descent(uneven), flow), _unlike(_descent(even), flow)


def shows_assumption_1_scale() -> Shown:
    flow, even = _descent(), np.eye(FEW.dimension)
    return _apart(_descent(even / FEW.dimension), flow), _apart(_descent(even), flow)


def _ordered_starts(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Random V(0), of sizes 0.1 to 30, and q(0) with m_1 ⟨V, V_1*⟩ >= m_k ⟨V, V_k*⟩ and s_1 >= s_k; T = 8."""
    rng, m = np.random.default_rng(0), np.array(THEOREM.strengths)
    starts = []
    for _ in range(count):
        weighted = np.sort(m * rng.normal(size=3) * 10 ** rng.uniform(-1, 1.5))[::-1]
        logits = 2 * rng.normal(size=8)
        logits[:3] = np.sort(logits[:3])[::-1]
        starts.append((weighted / m, logits))
    return starts


def shows_theorem_1() -> Shown:
    m = np.array(THEOREM.strengths)
    printed = _flow(THEOREM, np.full(3, -20.0), np.zeros(4), LATE)
    # As far from zero and on the same side, with m_k c_k in order: this is all that the repair asks for.
    repaired = [_flow(THEOREM, -20 * m[0] / m, np.zeros(4), LATE)]
    small = replace(THEOREM, positions=8, lumped=False)
    repaired += [_flow(small, c, q, LATE) for c, q in _ordered_starts(6)]
    return _from_vertex(printed), max(map(_from_vertex, repaired))


@cache
def _departure(base_scale: float, size: float, random: bool) -> tuple[float, float]:
    """The least c_1 with which Theorem 2's bound holds until some deviation is 0.1, and when that is.

    From V = 0 and uniform attention all heads are moved at random, or the first one is moved along V_1* and s_1*. Heads
    and symmetric flow are one system, so that a solver's error is common to both.
    """
    from saddlescope.numerics.integrate import integrate

    spec = replace(HEADS, base_scale=base_scale)
    rng, T = np.random.default_rng(0), spec.positions
    frame = data.build_frame(spec)
    symmetric = frame._replace(copies=np.array(float(spec.heads)))
    first = np.eye(spec.heads)[0]
    W, z = (rng.normal(size=(spec.heads, n)) if random else np.outer(first, np.eye(n)[0]) for n in (3, T))
    z -= z.mean(1, keepdims=True)
    # Heads that are not moved have rows of zeros, which no division may touch.
    W, z = (size * part / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-300) for part in (W, z))
    heads = reduction.pack(W, np.log(1 / T + z), frame)
    mean = reduction.pack(np.zeros((1, 3)), np.zeros((1, T)), symmetric)
    fold_heads, fold_mean = layout_of(heads).unravel, layout_of(mean).unravel
    cut = heads.coefficients.size + heads.logits.size

    def velocity(_: float, flat: np.ndarray) -> np.ndarray:
        parts = (fold_heads(flat[:cut]), frame), (fold_mean(flat[cut:]), symmetric)
        return np.concatenate([ravel(reduction.velocity(state, of)) for state, of in parts])

    def deviation(flat: np.ndarray) -> np.ndarray:
        c, q = reduction.unpack(fold_heads(flat[..., :cut]), frame)
        c_mean, q_mean = reduction.unpack(fold_mean(flat[..., cut:]), symmetric)
        s, s_mean = reduction.softmax(q, 1.0), reduction.softmax(q_mean, 1.0)
        return np.maximum(np.linalg.norm(c - c_mean, axis=-1), np.linalg.norm(s - s_mean, axis=-1)).max(-1)

    path = integrate(
        velocity,
        np.concatenate([ravel(heads), ravel(mean)]),
        0.0,
        1e3 / base_scale,
        method="dop853",
        rtol=1e-11,
        atol=1e-14,
        stop=lambda _, flat: bool(deviation(flat) > 0.1),
    )
    time = path.time[1:]
    return float((np.log(deviation(path.state[1:]) / size) / time).max()), float(time[-1])


def shows_universal() -> Shown:
    of_one, of_ten = (_departure(base_scale, 1e-4, False)[0] for base_scale in (1.0, 10.0))
    closer = _departure(1.0, 1e-6, False)[0]
    return abs(of_ten / of_one - 1), abs(closer / of_one - 1)


def shows_window() -> Shown:
    sizes = (1e-2, 1e-3, 1e-4)
    rate, _ = _departure(1.0, sizes[0], True)
    together = np.diff([_departure(1.0, size, True)[1] for size in sizes])
    windows = ([-1 / (rate * np.log(size)) for size in sizes], [-np.log(size) / rate for size in sizes])
    against = [float(np.mean(np.sign(np.diff(window)) != np.sign(together))) for window in windows]
    return against[0], against[1]


# ---- appendices B and C


def shows_blind() -> Shown:
    d = WORDS.vocabulary
    seen = np.linalg.svd((np.eye(d) - 1 / d) @ chain.draw_features(WORDS.chain)[0], compute_uv=False)
    return float(1 - seen[-1] / seen[0]), float(1 - seen[-2] / seen[0])


def shows_simplex() -> Shown:
    T = HEADS.positions
    noise = 1e-3 * np.random.default_rng(0).standard_normal((64, T))
    sums = [(1 / T + noise).sum(1), reduction.softmax(T * noise, 1.0).sum(1)]
    return float(np.abs(sums[0] - 1).mean()), float(np.abs(sums[1] - 1).mean())


def _elsewhere(base_scale: float) -> float:
    """Share of the heads with less than half of their attention on position 1 at 1.3 t_1, from section C.6's noise."""
    spec = replace(HEADS, base_scale=base_scale)
    away = []
    for seed in range(3):
        noise = 0.04 * np.random.default_rng(seed).standard_normal((3, spec.positions))
        path = _flow(spec, np.zeros((3, 3)), noise, 40 / base_scale)
        left = reduction.residual(path.coefficients, path.attention, path.frame)[:, 0, 0] / path.frame.strengths[0]
        first = path.time[np.argmax(left < 0.5)]
        away += [np.interp(1.3 * first, path.time, path.attention[:, k, 0]) < 0.5 for k in range(spec.heads)]
    return float(np.mean(away))


def shows_base_scale() -> Shown:
    return _elsewhere(1.0), _elsewhere(10.0)


# ---- appendix D


def shows_lemma_1() -> Shown:
    s, v = np.array([0.3, 0.1, 0.6]), np.array([0.0, 0.0, 10.0])
    moved = reduction.project(s, v, 1.0)
    printed = (moved[1] - moved[0]) / np.abs(moved).max()
    rng, T, j = np.random.default_rng(0), FEW.positions, 1
    worst = 0.0
    for leads in (True, False):
        s = rng.dirichlet(np.ones(T), POINTS)
        v = rng.normal(size=(POINTS, T))
        if leads:  # s_1 >= s_j, and v_1 is the largest of all T entries
            s[:, [0, j]] = np.sort(s[:, [0, j]])[:, ::-1]
            v = np.sort(v)[:, ::-1]
        else:  # s_1 = s_j, v_1 >= v_j, and nothing is asked of the others
            s[:, j] = s[:, 0]
            s /= s.sum(1, keepdims=True)
            v[:, [0, j]] = np.sort(v[:, [0, j]])[:, ::-1]
        moved = reduction.project(s, v, 1.0)
        worst = max(worst, float(((moved[:, j] - moved[:, 0]) / np.abs(moved).max(1)).max()))
    return float(printed), max(0.0, worst)


def shows_idle() -> Shown:
    """At V = 0 attention is at rest, and V' = G s."""
    idle = np.where(np.arange(FEW.positions) < FEW.patterns, 0.0, 1.0)
    s = idle / idle.sum()
    at_rest = not (np.array(FEW.strengths) * s[: FEW.patterns]).any()
    printed = np.linalg.norm(s - np.eye(FEW.positions)[0]) if at_rest else 0.0
    near = replace(THEOREM, positions=FEW.positions, heads=FEW.heads)
    return float(printed), _from_vertex(_flow(near, np.zeros(3), np.r_[np.full(3, np.log(1e-3)), 0.0], 10 * LATE))


def _sizes(path: _Path) -> np.ndarray:
    """|V| of the first row."""
    return np.linalg.norm(path.coefficients[:, 0], axis=-1)


def shows_v_bound() -> Shown:
    largest = _sizes(_usual()).max() * THEOREM.heads / THEOREM.strengths[0]
    return float(max(0.0, largest - 1)), float(max(0.0, largest / np.sqrt(THEOREM.positions) - 1))


def shows_v_optimal() -> Shown:
    path = _usual()
    size, squares = _sizes(path), (path.frame.multiplicity * path.attention[:, 0] ** 2).sum(-1)
    pull = np.linalg.norm(path.frame.strengths * path.attention[:, 0, : THEOREM.patterns], axis=-1)
    best = pull / (THEOREM.heads * squares)
    so_far = np.maximum.accumulate(best)
    return float(max(0.0, (size / best).max() - 1)), float(max(0.0, (size / so_far).max() - 1))
