"""Numbers that show the errata: how far off is what the paper prints, and what holds instead.

Truths come from tokens that the chain has drawn, from differences of a loss over all entries of a tensor or over data
whose second moments are exact, or from integrating the flow; what the paper concludes from its algebra is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.tree import layout_of, ravel

from .. import chain, data, reduction
from ..data import Frame
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

LATE = 1e6
"""When flows that tend to a vertex are within a few thousandths of it: their approach is a power of time."""

POINTS = 2000
"""Random points at which an inequality is tried."""

Shown = tuple[float, float]


# ---- what the evidence shares


def _off(found: Any, true: Any) -> float:
    """Largest deviation, as a share of the largest entry of the truth."""
    return float(np.abs(np.asarray(found) - true).max() / np.abs(true).max())


def _apart(found: np.ndarray, true: np.ndarray) -> float:
    """Distance over the length of the truth."""
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))


def _rng(which: int = 0) -> np.random.Generator:
    return np.random.default_rng(which)


def _slope(loss: Callable[[np.ndarray], float], place: np.ndarray, step: float) -> np.ndarray:
    """dL/dx by central differences; exact but for rounding where L is quadratic."""
    slope = np.zeros_like(place)
    for entry in np.ndindex(place.shape):
        move = np.zeros_like(place)
        move[entry] = step
        slope[entry] = (loss(place + move) - loss(place - move)) / (2 * step)
    return slope


class _Path(NamedTuple):
    """time (n,), coefficients (n, rows, h) of V along the features, attention (n, rows, columns)."""

    time: np.ndarray
    coefficients: np.ndarray
    attention: np.ndarray
    frame: Frame

    @property
    def end(self) -> np.ndarray:
        """Mass of each column in the first row, at the end."""
        return self.frame.multiplicity * self.attention[-1, 0]

    @property
    def squares(self) -> np.ndarray:
        """|s|² of the first row."""
        return (self.frame.multiplicity * self.attention[:, 0] ** 2).sum(-1)

    @property
    def loss(self) -> np.ndarray:
        left = reduction.residual(self.coefficients, self.attention, self.frame)
        return (self.frame.multiplicity * left**2).sum((-1, -2)) / 2


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
    """|s − s_1*| at the end, idle positions taken together."""
    return float(np.linalg.norm(path.end - np.eye(len(path.end))[0]))


def _rates(spec: RegressionSpec, c: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """V' (h,) and s' (T,) of the symmetric flow, s' by differences of the softmax along q'."""
    frame = data.build_frame(replace(spec, coupled=True, lumped=False))
    logits = np.log(s)[None]
    dc, dq = reduction.unpack(reduction.velocity(reduction.pack(c[None], logits, frame), frame), frame)
    step = 1e-5 / np.abs(dq).max()
    ahead, behind = (reduction.softmax(logits + sign * step * dq, 1.0) for sign in (1, -1))
    return dc[0], (ahead - behind)[0] / (2 * step)


def _pull(spec: RegressionSpec, c: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Vᵀ G − H |V|² s."""
    strengths = np.zeros(len(s))
    strengths[: spec.patterns] = spec.strengths
    return strengths * np.pad(c, (0, len(s) - len(c))) - spec.heads * (c @ c) * s


def _project(s: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Π(s) v."""
    return s * (v - (s * v).sum(-1, keepdims=True))


# ---- section 2: tokens


class _Text(NamedTuple):
    """features (h, d, d), tables (w, d, d) of the truth, tokens (n, w + T)."""

    features: np.ndarray
    tables: np.ndarray
    tokens: np.ndarray

    def law(self, before: np.ndarray) -> np.ndarray:
        return np.exp(chain.log_softmax(chain.next_logits(self.tables, before)))


@cache
def _text() -> _Text:
    features = chain.draw_features(WORDS.chain)
    tables = chain.lag_tables(features, WORDS.lags)
    return _Text(features, tables, chain.sample(tables, WORDS.positions, 30, _rng()))


def _divergence(truth: np.ndarray, found: np.ndarray) -> float:
    """Mean KL(truth || found); rounding may leave a zero negative."""
    return abs(float((truth * np.log(truth / found)).sum(-1).mean()))


def shows_lags() -> Shown:
    """How much the law of x_t changes with x_t itself."""
    text, w, d = _text(), WORDS.window, WORDS.vocabulary
    tokens = text.tokens.copy()
    shown = []
    for first in (0, 1):  # the smallest lag
        changes = []
        for t in range(w, tokens.shape[1]):
            other = tokens.copy()
            other[:, t] = (tokens[:, t] + 1) % d
            window = slice(t - w + 1 - first, t + 1 - first)
            changes.append(np.abs(text.law(tokens[:, window]) - text.law(other[:, window])).sum(-1).mean() / 2)
        shown.append(float(np.mean(changes)))
    return shown[0], shown[1]


def shows_blocks() -> Shown:
    w, h = 6, 3
    true = comb(w - 1, h - 1)
    ends = [len(list(combinations(range(first, w - 1), h - 1))) for first in (1, 0)]  # i_1 > 0, i_1 >= 0
    return abs(ends[0] - true) / true, abs(ends[1] - true) / true


def _pair_laws() -> tuple[_Text, np.ndarray, np.ndarray]:
    """The law of x_1 given (x_0, x_{-1}) (d, d, d), and given x_0 alone (d, d); x_{-1} and x_0 are uniform."""
    features = chain.draw_features(PAIRS.chain)
    tables = chain.lag_tables(features, PAIRS.lags)
    text = _Text(features, tables, chain.sample(tables, 1, 200_000, _rng()))
    d = PAIRS.vocabulary
    later, earlier = np.divmod(np.arange(d * d), d)
    both = text.law(np.stack([earlier, later], 1)).reshape(d, d, d)
    return text, both, both.mean(1)


def shows_eq3() -> Shown:
    text, _, alone = _pair_laws()
    d = PAIRS.vocabulary
    counts = np.zeros((d, d))
    np.add.at(counts, (text.tokens[:, 1], text.tokens[:, 2]), 1)
    seen = counts / counts.sum(1, keepdims=True)
    silent = np.exp(chain.log_softmax(text.features[0].T))  # row x: softmax of A_1* x
    return _divergence(seen, silent), _divergence(seen, alone)


def shows_fig3() -> Shown:
    text, both, alone = _pair_laws()
    d = PAIRS.vocabulary
    at_first = _divergence(both, np.full(d, 1 / d))
    restricted = _divergence(both, alone[:, None])
    attention = reduction.softmax(SHARP * np.eye(2), 1.0)  # head k on lag k
    added = np.einsum("kl,kdx->lxd", attention, text.features)  # by a token x at lag l
    unrestricted = np.exp(chain.log_softmax(added[0][:, None] + added[1][None]))
    return restricted / at_first, _divergence(both, unrestricted) / at_first


# ---- section 2.1: the construction, with one-hot tokens and positions as it is described


def _product(interval: tuple[int, ...], shift: int, shares: np.ndarray | None = None) -> np.ndarray:
    """K_kᵀ Q_k = λ Σ_i Σ_p e_{d+p−i+shift} e_{d+p}ᵀ, rows counted from 1; shares: α_i, whose logarithms are added."""
    d, w, T = WORDS.vocabulary, WORDS.window, WORDS.positions
    matrix = np.zeros((d + T + w, d + T + w))
    for n, lag in enumerate(interval):
        for p in range(w, T + w):
            matrix[d + p - lag + shift - 1, d + p - 1] = SHARP + (0 if shares is None else np.log(shares[n]))
    return matrix


def _attention(X: np.ndarray, product: np.ndarray, query: np.ndarray, t: int) -> np.ndarray:
    """softmax(M_{T−t}(X̃ᵀ Kᵀ Q query))."""
    scores = X.T @ product @ query
    scores[len(scores) - (WORDS.positions - t) :] = -np.inf
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def _excess(
    shift: int = 1,
    *,
    placed: bool = True,
    padded: bool = False,
    tables: np.ndarray | None = None,
    shares: np.ndarray | None = None,
) -> float:
    """Mean KL of the construction from the truth. placed: the query knows its position.  padded: V_k is as large as
    printed, A_k* in its corner.  tables: of another truth."""
    text, (d, w, T) = _text(), (WORDS.vocabulary, WORDS.window, WORDS.positions)
    truth = text if tables is None else text._replace(tables=tables)
    products = [_product(interval, shift, shares) for interval in WORDS.lags]
    found = []
    for tokens in text.tokens:
        X = np.vstack([np.eye(d)[:, tokens], np.eye(T + w)])
        for t in range(T):
            query = X[:, t + w - 1].copy()
            if not placed:
                query[d:] = 0.0
            attended = np.array([X[:d] @ _attention(X, product, query, t) for product in products])
            mixed = np.einsum("kij,kj->i", text.features, attended)
            scores = np.pad(mixed, (0, T + w)) if padded else mixed
            share = np.exp(chain.log_softmax(scores))[:d]
            found.append(_divergence(truth.law(tokens[None, t : t + w])[0], share))
    return float(np.mean(found))


def shows_value_size() -> Shown:
    return _excess(padded=True), _excess()


def shows_query() -> Shown:
    return _excess(placed=False), _excess()


def shows_key_query() -> Shown:
    return _excess(shift=0), _excess()


def shows_alpha() -> Shown:
    text, shares = _text(), np.array([0.8, 0.2])
    tables = chain.lag_tables(text.features, WORDS.lags)
    for interval in WORDS.lags:
        for lag, share in zip(interval, shares, strict=True):
            tables[lag - 1] *= share * len(interval)
    return _excess(tables=tables), _excess(tables=tables, shares=shares)


def shows_indicator() -> Shown:
    w, T, t = WORDS.window, WORDS.positions, 2
    X = np.vstack([np.eye(WORDS.vocabulary)[:, _text().tokens[0]], np.eye(T + w)])
    printed, repaired = [], []
    for interval in WORDS.lags:
        true = _attention(X, _product(interval, 1), X[:, t + w - 1], t)
        for lags, found in (([1] * w, printed), (range(w, 0, -1), repaired)):
            pattern = np.zeros(T + w)
            pattern[t : t + w] = np.isin(lags, interval) / len(interval)
            found.append(_off(pattern, true))
    return max(printed), max(repaired)


# ---- section 3


def shows_strengths() -> Shown:
    norms = np.linalg.norm(chain.draw_features(WORDS.chain), axis=(1, 2))
    m = np.array(WORDS.strengths)
    return _off(m, norms), _off(np.sqrt(WORDS.vocabulary) * m, norms)


def shows_strict_order() -> Shown:
    ends = [_flow(replace(THEOREM, importance_ratio=m), np.zeros(3), np.zeros(4), LATE) for m in (1.0, 1.7)]
    return _from_vertex(ends[0]), _from_vertex(ends[1])


def _data(covariance: np.ndarray) -> np.ndarray:
    """X (n, d, T) with exactly E(x_i x_jᵀ) = covariance for i = j and 0 otherwise."""
    d, T = len(covariance), FEW.positions
    independent = np.sqrt(d * T) * np.eye(d * T).reshape(-1, d, T)
    return np.linalg.cholesky(covariance) @ independent


class _Point(NamedTuple):
    """target G (d, d, T), values V (H, d, d), logits q (H, T): random ones of FEW."""

    target: np.ndarray
    values: np.ndarray
    logits: np.ndarray


@cache
def _point() -> _Point:
    d, T, H = FEW.dimension, FEW.positions, FEW.heads
    target = np.zeros((d, d, T))
    for k, (m, feature) in enumerate(zip(FEW.strengths, data.draw_features(FEW), strict=True)):
        target[..., k] = m * feature
    rng = _rng()
    return _Point(target, rng.normal(size=(H, d, d)), rng.normal(size=(H, T)))


def _tensor(values: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """P = Σ_k V_k ⊗ s_k (d, d, T)."""
    return np.einsum("kij,kt->ijt", values, reduction.softmax(logits, 1.0))


def _descent(loss: Callable[[np.ndarray], float]) -> np.ndarray:
    """Minus the gradient, over V and q, of a loss of P."""
    _, values, logits = _point()
    by_value = _slope(lambda moved: loss(_tensor(moved, logits)), values, 1.0)
    by_logit = _slope(lambda moved: loss(_tensor(values, moved)), logits, 1e-5)
    return -np.concatenate([by_value.ravel(), by_logit.ravel()])


@cache
def _tensor_descent() -> np.ndarray:
    target = _point().target
    return _descent(lambda P: float(((target - P) ** 2).sum() / 2))


def _data_descent(covariance: np.ndarray) -> np.ndarray:
    """Of Eq. (8), without noise, which adds a constant."""
    target, X = _point().target, _data(covariance)
    return _descent(lambda P: float((np.einsum("ijt,njt->ni", P - target, X) ** 2).sum(1).mean() / 2))


def _unlike(found: np.ndarray, direction: np.ndarray) -> float:
    """Share of a vector that is not along a direction."""
    return _apart(direction * (found @ direction) / (direction @ direction), found)


def shows_assumption_1() -> Shown:
    flow = _tensor_descent()
    uneven, even = np.diag([0.7, 0.2, 0.1]), np.eye(FEW.dimension)
    return _unlike(_data_descent(uneven), flow), _unlike(_data_descent(even), flow)


def shows_assumption_1_scale() -> Shown:
    flow, even = _tensor_descent(), np.eye(FEW.dimension)
    return _apart(_data_descent(even / FEW.dimension), flow), _apart(_data_descent(even), flow)


def shows_head_sums() -> Shown:
    """V' of the symmetric flow against the slope of Proposition 1's loss, with so many equal heads."""
    target, values, logits = _point()
    V, q = values[0], logits[0]
    s = reduction.softmax(q, 1.0)
    symmetric = target @ s - FEW.heads * (s @ s) * V
    off = []
    for heads in (FEW.patterns, FEW.heads):
        rest = target - (heads - 1) * np.multiply.outer(V, s)

        def loss(moved: np.ndarray, rest: np.ndarray = rest) -> float:
            return float(((rest - np.multiply.outer(moved, s)) ** 2).sum() / 2)

        off.append(_off(-_slope(loss, V, 1.0), symmetric))
    return off[0], off[1]


def _ordered_starts(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Random V(0), of sizes 0.1 to 30, and q(0) with m_1 ⟨V, V_1*⟩ >= m_k ⟨V, V_k*⟩ and s_1 >= s_k; T = 8."""
    rng, m = _rng(), np.array(THEOREM.strengths)
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
    rng, T = _rng(), spec.positions
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
    seen = np.linalg.svd((np.eye(d) - 1 / d) @ _text().features[0], compute_uv=False)
    return float(1 - seen[-1] / seen[0]), float(1 - seen[-2] / seen[0])


def shows_c4() -> Shown:
    listed = (tuple(range(1, 9)), tuple(range(9, 13)), (13, 14))
    short = []
    for intervals in (listed, listed[::-1]):
        spec = MarkovSpec(intervals=intervals)
        furthest = max(range(spec.patterns), key=lambda k: max(spec.lags[k]))
        short.append(1 - spec.strengths[furthest] / max(spec.strengths))
    return short[0], short[1]


def shows_simplex() -> Shown:
    T = HEADS.positions
    noise = 1e-3 * _rng().standard_normal((64, T))
    sums = [(1 / T + noise).sum(1), reduction.softmax(T * noise, 1.0).sum(1)]
    return float(np.abs(sums[0] - 1).mean()), float(np.abs(sums[1] - 1).mean())


def _elsewhere(base_scale: float) -> float:
    """Share of the heads with less than half of their attention on position 1 at 1.3 t_1, from section C.6's noise."""
    spec = replace(HEADS, base_scale=base_scale)
    away = []
    for seed in range(3):
        path = _flow(spec, np.zeros((3, 3)), 0.04 * _rng(seed).standard_normal((3, spec.positions)), 40 / base_scale)
        left = reduction.residual(path.coefficients, path.attention, path.frame)[:, 0, 0] / path.frame.strengths[0]
        first = path.time[np.argmax(left < 0.5)]
        away += [np.interp(1.3 * first, path.time, path.attention[:, k, 0]) < 0.5 for k in range(spec.heads)]
    return float(np.mean(away))


def shows_base_scale() -> Shown:
    return _elsewhere(1.0), _elsewhere(10.0)


# ---- appendix D


def shows_inner_product() -> Shown:
    """Slope in V of half the square of G − P, written as a sum of h + H products."""
    _, values, logits = _point()
    s = reduction.softmax(logits, 1.0)
    vectors = np.concatenate([np.eye(FEW.positions)[: FEW.patterns], s])
    planted = np.array(FEW.strengths)[:, None, None] * data.draw_features(FEW)

    def products(moved: np.ndarray) -> np.ndarray:
        """⟨B_k, B_l⟩ ⟨v_k, v_l⟩ of all pairs."""
        matrices = np.concatenate([planted, -moved])
        return np.einsum("kij,lij->kl", matrices, matrices) * (vectors @ vectors.T)

    true = -_tensor_descent()[: values.size].reshape(values.shape)
    printed = _slope(lambda moved: float(np.trace(products(moved)) / 2), values, 1.0)
    return _off(printed, true), _off(_slope(lambda moved: float(products(moved).sum() / 2), values, 1.0), true)


def shows_basis_index() -> Shown:
    d, T = FEW.dimension, FEW.positions
    rng = _rng()
    Q, v = rng.normal(size=(d, d)), rng.normal(size=T)
    X = _data(np.eye(d))
    entries = np.einsum("a,nia,ij,njb->b", v, X, Q, X) / len(X)  # E(vᵀ Xᵀ Q X e_b)
    chosen = np.where(np.arange(T) < d, entries, 0.0)
    true = np.trace(Q) * v
    return _off(chosen, true), _off(entries, true)


def shows_ascent() -> Shown:
    loss = _usual().loss
    fall, rise = (np.maximum.accumulate(loss) - loss).max(), (loss - np.minimum.accumulate(loss)).max()
    return float(fall / loss[0]), float(rise / loss[0])


def shows_lemma_1() -> Shown:
    s, v = np.array([0.3, 0.1, 0.6]), np.array([0.0, 0.0, 10.0])
    moved = _project(s, v)
    printed = (moved[1] - moved[0]) / np.abs(moved).max()
    rng, T, j = _rng(), FEW.positions, 1
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
        moved = _project(s, v)
        worst = max(worst, float(((moved[:, j] - moved[:, 0]) / np.abs(moved).max(1)).max()))
    return float(printed), max(0.0, worst)


def _border_points(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Random V, in coefficients, and s with s_1 = s_2 >= s_3."""
    rng = _rng()
    points = []
    for _ in range(count):
        s = rng.dirichlet(np.ones(FEW.positions))
        s[:3] = np.sort(s[:3])[::-1]
        s[1] = s[0]
        points.append((rng.normal(size=3), s / s.sum()))
    return points


def shows_set_r() -> Shown:
    """Largest fall of s_1 − s_2 at points with s_1 = s_2, as a share of the largest |s_i'|."""
    m = np.array(FEW.strengths)
    falls: tuple[list[float], list[float]] = ([0.0], [0.0])
    for c, s in _border_points(200):
        _, move = _rates(FEW, c, s)
        fall = float((move[1] - move[0]) / np.abs(move).max())
        members = (c >= c).all(), (m[0] * c[0] >= m * c).all()
        for inside, found in zip(members, falls, strict=True):
            if inside:
                found.append(fall)
    return max(falls[0]), max(falls[1])


def shows_z_dot() -> Shown:
    """(s_1 − s_2)' at one s and many V. For Π(s)², which cannot act on a number, the best number is put."""
    rng = _rng()
    s = rng.dirichlet(np.ones(FEW.positions))
    m, H = FEW.strengths, FEW.heads
    true, printed, repaired = [], [], []
    for c in rng.normal(size=(50, 3)):
        move = _rates(FEW, c, s)[1]
        true.append(move[0] - move[1])
        printed.append(m[0] * c[0] - m[1] * c[1] - H * (s @ s) * (s[0] - s[1]))
        moved = _project(s, _project(s, _pull(FEW, c, s)))
        repaired.append(moved[0] - moved[1])
    return _unlike(np.array(true), np.array(printed)), _apart(np.array(repaired), np.array(true))


def shows_idle() -> Shown:
    idle = np.where(np.arange(FEW.positions) < FEW.patterns, 0.0, 1.0)
    s = idle / idle.sum()
    # V' = G s, and s' by Π(s), as this point has no logits.
    moves = [*(np.array(FEW.strengths) * s[: FEW.patterns]), *_project(s, _project(s, _pull(FEW, np.zeros(3), s)))]
    at_rest = np.abs(moves).max() == 0
    ordered = s[0] >= s[: FEW.patterns].max()
    printed = np.linalg.norm(s - np.eye(FEW.positions)[0]) if at_rest and ordered else 0.0
    near = replace(THEOREM, positions=FEW.positions, heads=FEW.heads)
    return float(printed), _from_vertex(_flow(near, np.zeros(3), np.r_[np.full(3, np.log(1e-3)), 0.0], 10 * LATE))


def shows_rest_condition() -> Shown:
    """Π(s)² of left minus right side, against H |s|² s' at V = G s / (H |s|²); the best j."""
    rng, H = _rng(), FEW.heads
    s = rng.dirichlet(np.ones(FEW.positions))
    m = np.array(FEW.strengths)
    c = m * s[:3] / (H * (s @ s))
    true = H * (s @ s) * _rates(FEW, c, s)[1]
    left = np.pad(m**2 * s[:3], (0, FEW.positions - 3))
    weight = H**2 * (s @ s) * (c @ c)
    alone = s[:3, None] * np.eye(FEW.positions)[:3]  # ⟨s_j*, s⟩ s_j*
    off = [_off(_project(s, _project(s, left - weight * right)), true) for right in (*alone, s)]
    return min(off[:-1]), off[-1]


def shows_v_bound() -> Shown:
    path, first = _usual(), THEOREM.strengths[0]
    largest = np.linalg.norm(path.coefficients[:, 0], axis=-1).max() * THEOREM.heads / first
    return float(max(0.0, largest - 1)), float(max(0.0, largest / np.sqrt(THEOREM.positions) - 1))


def shows_v_optimal() -> Shown:
    path = _usual()
    size = np.linalg.norm(path.coefficients[:, 0], axis=-1)
    pull = np.linalg.norm(path.frame.strengths * path.attention[:, 0, : THEOREM.patterns], axis=-1)
    best = pull / (THEOREM.heads * path.squares)
    so_far = np.maximum.accumulate(best)
    return float(max(0.0, (size / best).max() - 1)), float(max(0.0, (size / so_far).max() - 1))


def shows_norm_rate() -> Shown:
    """d|W|/dt, W the difference between two flows at random points."""
    places, values = _rng().dirichlet(np.ones(FEW.positions), 2), _rng(1).normal(size=(2, 3))
    rates = [_rates(FEW, V, s)[0] for V, s in zip(values, places, strict=True)]
    W, move, step = values[0] - values[1], rates[0] - rates[1], 1e-6
    true = (np.linalg.norm(W + step * move) - np.linalg.norm(W - step * move)) / (2 * step)
    return _off(move @ W / np.linalg.norm(move), true), _off(move @ W / np.linalg.norm(W), true)
