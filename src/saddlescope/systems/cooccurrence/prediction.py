"""What theory says: the flow with all Gram matrices frozen, its seven numbers from a start at zero, and where it ends.

Frozen Gram matrices make attention a constant, F linear in G, and G a kernel flow. From G(0) = 0 with uniform
attention, sentences of one type stay alike: G of μ1, μ2, μ3 and one value for the own words of each type, seven
numbers, are all there is. Late, all sentences that matter keep the same pace, and their shares solve a problem of four
numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.source import source

from .data import HOLDS, LABELS, PAPER, Frame, Sentences
from .spec import COMMON, SHARES, TaskSpec

LONGEST = 3e6
"""Horizon of a run whose Spec sets none."""

POINTS = 200
"""At which a course is saved at least, besides the steps of the solver."""

SETTLED = 1e4
"""By then every sentence is right, or will not be."""


class Linear(NamedTuple):
    """A model F = outputs @ x with x' = response @ (weights y g(y F)), in the clock of the paper's T1.

    outputs (n, size), response (size, n), weights (n,), labels (n,), kinds (n,).
    """

    outputs: Any
    response: Any
    weights: Any
    labels: Any
    kinds: Any


class Course(NamedTuple):
    """time (t,), state (t, size), margin (t, n), rate (t,): of the loss of sentences with one signal.

    turn, right: T0.5, where that rate falls through zero, and T1, from where on every margin is positive; None: never.
    """

    time: np.ndarray
    state: np.ndarray
    margin: np.ndarray
    rate: np.ndarray
    turn: float | None
    right: float | None


# ---- two linear models


def outputs_of(sentences: Sentences, scores: np.ndarray, root: float) -> np.ndarray:
    """(n, D): how often each word is attended to in each sentence, added over queries."""
    words = np.asarray(sentences.words)
    inner = scores[words[:, None, :], words[:, :, None]] / root
    p = np.exp(inner - inner.max(-1, keepdims=True))
    seen = (p / p.sum(-1, keepdims=True)).sum(1)
    found = np.zeros((len(words), len(scores)))
    np.add.at(found, (np.arange(len(words))[:, None], words), seen)
    return found


def frozen(frame: Frame) -> Linear:
    """G' = (I + A Gram(W_V)/|s|²) P with p and both Gram matrices those of the start."""
    start, train = frame.start, frame.train
    outputs = outputs_of(train, np.asarray(start.scores), float(frame.root))
    kernel = np.eye(len(frame.learns)) + frame.energy * np.asarray(start.value_gram) / start.readout
    response = kernel @ (outputs * frame.learns).T
    return Linear(outputs, response, train.weights, train.labels, train.kinds)


def seven(counts: Any, words: Sequence[int], shares: Any = SHARES) -> Linear:
    """G1, G2, G3, and the value of an own word of each type; one row for each type. counts: null for n = infinity."""
    common = np.array([[float(word in held) for word in range(COMMON)] for held in HOLDS])
    own = np.zeros(4) if counts is None else 1 / np.asarray(counts, float)
    outputs = np.hstack([common, np.diag(np.asarray(words, float))])
    return Linear(outputs, np.hstack([common, np.diag(own)]).T, np.asarray(shares), np.array(LABELS), np.arange(4))


def seven_of(spec: TaskSpec, frame: Frame | None = None) -> Linear:
    """Of a Spec; the counts of types are the frame's where they are drawn."""
    if spec.samples is None:
        return seven(None, spec.words)
    counts = spec.counts if frame is None else np.bincount(frame.train.kinds, minlength=4)
    assert counts is not None
    return seven(counts, spec.words, np.asarray(counts) / spec.samples)


@source(PAPER, "Theorem 3.1", "Lemma 4.3")
def follow(model: Linear, state: np.ndarray, end: float) -> Course:
    """Integrate in log-time, with both moments located inside the steps."""
    from saddlescope.numerics.integrate import integrate

    one = (model.kinds == 1) | (model.kinds == 2)
    share = (model.weights * one).sum()

    def pull(x: np.ndarray) -> np.ndarray:
        return model.weights * model.labels / (1 + np.exp(np.minimum(model.labels * (x @ model.outputs.T), 700)))

    def velocity(inner: float, x: np.ndarray) -> np.ndarray:
        return np.exp(inner) * (model.response @ pull(x))

    def signals(x: np.ndarray) -> np.ndarray:
        c = pull(x)
        rate = -((c * one) * ((c @ model.response.T) @ model.outputs.T)).sum(-1) / share
        return np.stack([rate, (model.labels * (x @ model.outputs.T)).min(-1)], -1)

    path = integrate(
        velocity,
        state,
        0.0,
        float(np.log1p(end)),
        method="dop853",
        rtol=1e-11,
        atol=1e-13,
        watch=signals,
        spacing=float(np.log1p(end)) / POINTS,
    )
    found = signals(path.state)
    turns = [time for time, which in path.crossings if which == 0]
    rises = [time for time, which in path.crossings if which == 1]
    turn = 0.0 if found[0, 0] <= 0 else np.expm1(turns[0]) if turns else None
    right = None if found[-1, 1] <= 0 else np.expm1(rises[-1]) if rises else 0.0
    margin = model.labels * (path.state @ model.outputs.T)
    return Course(np.expm1(path.time), path.state, margin, found[:, 0], turn, right)


def curvature(model: Linear) -> float:
    """The largest, of the loss over x while outputs are small: |g'| is 1/4 there."""
    root = np.sqrt(model.weights)[:, None]
    return float(np.linalg.eigvals(root * (model.outputs @ model.response) * root.T).real.max() / 4)


def log_loss(margin: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, -margin)


# ---- where it ends


class Late(NamedTuple):
    """pulls (4,): τ Σ_{i in type} g_i/n.  slopes (3,): dG/d ln τ of μ1, μ2, μ3.  margins, fresh_margins (4,): that of
    y F of training sentences of each type, and of fresh ones, whose own words nothing has taught.

    ratio: R = −G3'/G1'.  loss_tau: training loss times τ.  exponent: of the test loss, τ^-exponent.
    """

    pulls: np.ndarray
    slopes: np.ndarray
    margins: np.ndarray
    fresh_margins: np.ndarray

    @property
    def ratio(self) -> float:
        return float(-self.slopes[2] / self.slopes[0])

    @property
    def loss_tau(self) -> float:
        return float(self.pulls.sum())

    @property
    def exponent(self) -> float:
        return float(self.fresh_margins.min())


@source(PAPER, "Lemma 4.5", "Theorem F.8")
def late(counts: Any, words: Sequence[int]) -> Late:
    """The limit of the seven numbers as τ grows.

    g ~ 1/τ wherever the margin grows as ln τ, and decays faster where it grows faster. With q_t = τ (pull of type t),
    Q_st = y_s y_t (words that s and t share): Q q = 1 on types that count, Q q >= 1 and q = 0 on the others. These are
    the conditions of the largest margin, and have one solution; it is found by trying all sets of types.
    """
    model = seven(counts, words)
    y = model.labels[:, None]
    Q = (y * model.outputs) @ (y.T * model.response)
    for size in (4, 3, 2, 1):
        for kept in itertools.combinations(range(4), size):
            block = Q[np.ix_(kept, kept)]
            if np.linalg.matrix_rank(block) < size:
                continue
            q = np.zeros(4)
            q[list(kept)] = np.linalg.solve(block, np.ones(size))
            # 1e-12: of sums of a few numbers of order one.
            if q.min() >= -1e-12 and (Q @ q).min() >= 1 - 1e-12:
                slopes = (model.response @ (model.labels * q))[:COMMON]
                fresh = model.labels * (model.outputs[:, :COMMON] @ slopes)
                return Late(q, slopes, Q @ q, fresh)
    raise AssertionError(f"no set of types balances for counts {counts} and words {words}")


def threshold(tokens: int) -> int:
    """n = 3(L+1): with fewer sentences, by the law's counts, R < 1 and fresh sentences with one signal end up wrong."""
    return 3 * (tokens + 1)


def late_by_formula(samples: float, tokens: int) -> tuple[float, float, float]:
    """R, L τ and γ for counts n/2, n/6, n/6, n/6, written out: type 4 either counts or does not."""
    k1, k2, k4 = 2 * (tokens - 3) / samples, 6 * (tokens - 2) / samples, 6 * (tokens - 1) / samples
    rho, c = (7 + k2) / (5 + k1), 0.0
    f = (3 + k1) * rho - 4
    if 2 - rho < f:
        rho, c = np.linalg.solve([[5 + k1, -2], [1, k4]], [7 + k2, 1 + k2])
        f = (3 + k1) * rho - 4 - c
    first, third = (rho - 1) / f, (2 + c - rho) / f
    return third / first, (rho + 2 + c) / f, third - first


# ---- the prediction of one start


def pace(frame: Frame) -> float:
    """Of the clock in which G' = P, against τ = |s(0)|² t: 1 + A |W_V μ|²/|s|², averaged over learned words."""
    squares = np.average(np.diag(frame.start.value_gram), weights=frame.learns)
    return 1 + float(frame.energy * squares / frame.start.readout)


def growth(frame: Frame, late: Late, horizon: float) -> float:
    """By what share of itself |s|² grows until then: L̂τ A (ln τ)²/|s|⁴, which frozen Gram matrices leave out."""
    return float(late.loss_tau * frame.energy * np.log1p(horizon) ** 2 / frame.start.readout**2)


def course_of(frame: Frame, value: np.ndarray, horizon: float) -> tuple[Course, Course]:
    """With frozen Gram matrices: the whole course, and its part up to the horizon."""
    model = frozen(frame)
    whole = follow(model, value, max(horizon, SETTLED))
    if horizon >= SETTLED:
        return whole, whole
    return whole, follow(model, value, horizon)


def limit_course(spec: TaskSpec, frame: Frame) -> Course:
    """Of the seven numbers, from zero."""
    return follow(seven_of(spec, frame), np.zeros(COMMON + 4), SETTLED)


def test_losses(frame: Frame, states: np.ndarray) -> np.ndarray:
    """Of fresh sentences, along a course of G."""
    outputs = outputs_of(frame.test, np.asarray(frame.start.scores), float(frame.root))
    return log_loss(frame.test.labels * (states @ outputs.T)) @ frame.test.weights


def words_differ(frame: Frame) -> bool:
    """Whether no irrelevant word stands in two places of the training sentences: Assumption 2.3."""
    words = frame.train.words[frame.train.words >= COMMON]
    return len(np.unique(words)) == len(words)


def late_of(spec: TaskSpec, frame: Frame) -> Late:
    """Four shares where no word repeats, else one for each sentence."""
    if spec.samples is None:
        return late(None, spec.words)
    if words_differ(frame):
        return late(np.bincount(frame.train.kinds, minlength=4), spec.words)
    return late_by_sentence(frame)


def late_by_sentence(frame: Frame) -> Late:
    """The same conditions for any sentences: X Xᵀ q = 1 where q > 0, else >= 1; rows of X are y times counts of words.

    λ >= 0 that minimises |Xᵀ λ|² + (Σ λ − 1)² has X Xᵀ λ = 1 − Σ λ where λ > 0, so that q = λ/(1 − Σ λ).
    """
    from scipy.optimize import nnls

    size = len(frame.learns)

    def rows(sentences: Sentences) -> np.ndarray:
        counts = np.array([np.bincount(words, minlength=size) for words in sentences.words])
        return sentences.labels[:, None] * counts

    X = rows(frame.train)
    shares = nnls(np.vstack([X.T, np.ones(len(X))]), np.r_[np.zeros(size), 1.0])[0]
    q = shares / (1 - shares.sum())
    kinds, slopes = frame.train.kinds, X.T @ q
    margins, fresh = X @ slopes, rows(frame.test) @ slopes
    return Late(
        np.bincount(kinds, q, minlength=4),
        slopes[:COMMON],
        np.array([margins[kinds == kind].min() for kind in range(4)]),
        np.array([fresh[frame.test.kinds == kind].min() for kind in range(4)]),
    )
