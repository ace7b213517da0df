"""Numbers that show the errata: how far off is what the paper prints, and what holds instead.

Truths come from the flow of u and v themselves, integrated as the paper writes it and not in the logarithms that the
room uses elsewhere, from differences of the loss, or from Algorithm 1 on small networks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import data
from ..data import Frame, Samples, Weights
from ..spec import FullSpec, LinearSpec, TransformerSpec

if TYPE_CHECKING:
    from saddlescope.numerics.integrate import Path

    from ..plateaus import Functions, Plateau
    from ..prediction import Step

LINEAR = LinearSpec()
"""Coefficients 2, -1, 0.5, -0.25 and identity covariance: everything is known, T_k = 1/|coefficient|."""

HEAD = TransformerSpec(dim=4, tokens=4, samples=40)
"""An attention head small enough to be followed in no time."""

LEAVER = TransformerSpec(dim=14, tokens=6, samples=160, teacher_seed=30, data_seed=31)
LEAVER_SEED, LEAVER_STAGES = 32, 5
"""An ordinary head on which an entry leaves the support again, at the fifth stage."""

HEADS = TransformerSpec(dim=2, tokens=3, samples=30, heads=2)

SEEDS = 8

Shown = tuple[float, float]


# ---- what the evidence shares


def _off(found: Any, true: Any) -> float:
    """Largest deviation, as a share of the largest entry of the truth."""
    return float(np.abs(np.asarray(found) - true).max() / np.abs(true).max())


def _functions(force: Callable[[np.ndarray], np.ndarray], loss: Callable[[np.ndarray], float]) -> Functions:
    """Functions of a loss whose Hessian is found by differences of the force."""
    from ..plateaus import Functions

    def hessian(product: np.ndarray, which: np.ndarray) -> np.ndarray:
        steps = 1e-6 * np.eye(len(product))[which]
        return np.array([(force(product - step) - force(product + step)) / 2e-6 for step in steps]).T.reshape(
            len(product), len(which)
        )

    return Functions(loss, force, hessian)


@cache
def _linear() -> Plateau:
    """The origin of the diagonal linear network, in NumPy: L = |p − coefficients|²/2."""
    from ..plateaus import Plateau

    target = np.array(LINEAR.coefficients)
    functions = _functions(lambda p: target - p, lambda p: float(((p - target) ** 2).sum() / 2))
    return Plateau.origin(functions, len(target))


@cache
def _origin(spec: TransformerSpec) -> Plateau:
    from ..system import Transformer

    return Transformer(spec).problem.origin


@cache
def _walk(spec: TransformerSpec, seed: int, stages: int) -> tuple[Step, ...]:
    """The stages of Algorithm 1."""
    from ..forecast import logs_of
    from ..prediction import algorithm_1

    return algorithm_1(_origin(spec), logs_of(data.unit_weights(spec.size, seed)), stages).steps


def _flow(
    functions: Functions,
    start: Weights,
    end: float,
    watch: Callable[[np.ndarray, np.ndarray], float] | None = None,
) -> Path:
    """Eq. (4) as it stands. watch: of u and v; the flow ends where it first changes its sign."""
    from saddlescope.numerics.integrate import integrate

    def velocity(_: float, state: np.ndarray) -> np.ndarray:
        u, v = np.split(state, 2)
        force = functions.force(u * v)
        return np.concatenate([v * force, u * force])

    def signal(state: np.ndarray) -> float:
        return watch(*np.split(state, 2)) if watch else -1.0

    return integrate(
        velocity,
        np.concatenate(start),
        0.0,
        end,
        rtol=1e-10,
        atol=1e-40,
        watch=(lambda state: np.array([signal(state)])) if watch else None,
        stop=lambda _, state: signal(state) > 0,
    )


def _weights(path: Path) -> Weights:
    """u and v at every step."""
    return Weights(*np.split(path.state, 2, axis=1))


def _end(path: Path) -> Weights:
    return Weights(*np.split(path.state[-1], 2))


def _normal_form(unit: Weights) -> Weights:
    """u > |v|: what section C.3 means, exchanging u and v and flipping the signs of both."""
    swap = np.abs(unit.v) > np.abs(unit.u)
    u, v = np.where(swap, unit.v, unit.u), np.where(swap, unit.u, unit.v)
    return Weights(u * np.sign(u), v * np.sign(u))


def _moment(spec: TransformerSpec, level: float, log10_alpha: float) -> float:
    """Plain time at which some |p| of a head first passes a level."""
    origin = _origin(spec)
    start = data.scaled(data.unit_weights(spec.size, 0), log10_alpha)
    longest = -10 * log10_alpha * np.log(10) / origin.units.force
    path = _flow(origin.functions, start, longest, lambda u, v: float(np.abs(u * v).max()) - level)
    return path.crossings[0][0]


# ---- sections 2 to 4


def shows_sample_spaces() -> Shown:
    """d_x is what h of Definition 3.1 takes in, d_y what the loss takes beside an output: here p and 1."""
    inputs, targets = data.regression(LINEAR)
    true = np.array([inputs[0].size, targets[0].size])  # of the pair (x, y)
    d_x, d_y = len(LINEAR.coefficients), 1
    return _off([d_y, d_x], true), _off([d_x, d_y], true)


def shows_bounded_data() -> Shown:
    """C is the largest norm in the training set: a bound for it, and not for the distribution that it is drawn from."""
    train = np.linalg.norm(data.tokens(HEAD), axis=(1, 2))
    fresh = np.linalg.norm(data.tokens(replace(HEAD, data_seed=1, samples=20_000)), axis=(1, 2))
    return float(np.mean(fresh > train.max())), float(np.mean(train > train.max()))


def shows_eq4() -> Shown:
    """With a single coordinate the printed product is defined, but a matrix; with more it is not even that.

    Two outputs a p, b p, squared error.
    """
    rng = np.random.default_rng(0)
    slope, targets, p, step = rng.normal(size=(2, 1)), rng.normal(size=2), np.array([0.7]), 1e-4

    def loss(product: np.ndarray) -> float:
        return float(((targets - slope @ product) ** 2).sum() / 2)

    true = np.array([(loss(p - step) - loss(p + step)) / (2 * step)])
    error = (slope @ p - targets)[None]  # Dl (1, outputs); slope is Dh (outputs, coordinates)
    return _off(-(error.T @ slope.T), true), _off(-(slope.T @ error.T)[:, 0], true)


def shows_lemma_4_1() -> Shown:
    functions, weights = _linear().functions, data.unit_weights(4, 0)
    u, v = weights
    force, step = functions.force(u * v), 1e-3
    true = ((u + step * v * force) ** 2 - (u - step * v * force) ** 2) / (2 * step)  # d(u²)/dt, exact for a square
    return _off(u * v * force, true), _off(2 * u * v * force, true)


def _until_active(exponents: np.ndarray, force: np.ndarray) -> np.ndarray:
    """Delta_k(i) of Eq. (8)."""
    moves = force != 0
    return np.where(moves, (exponents - 1 + np.sign(force)) / np.where(moves, force, 1.0), np.inf)


def shows_b0() -> Shown:
    """The flow's T_1 without its finite-alpha remainder, from the difference of two alphas."""
    force = _origin(HEAD).force
    late, early = (_moment(HEAD, 0.05, log10) for log10 in (-16.0, -8.0))
    true = (late - early) / (8 * np.log(10))
    printed, repaired = (_until_active(np.full(HEAD.size, b), force).min() for b in (0.0, 1.0))
    return _off(printed, true), _off(repaired, true)


def shows_theta_space() -> Shown:
    weights = data.unit_weights(HEAD.size, 0)
    true = sum(part.size for part in weights)
    return abs(HEAD.size - true) / true, abs(2 * HEAD.size - true) / true


def shows_sign_length() -> Shown:
    """The signs that v^k = s^k * u^k needs, by the number of entries of u^k."""
    printed, repaired = [], []
    for k, step in enumerate(_walk(HEAD, 0, 3), start=1):
        true = len(step.after.product)
        printed.append(abs(k - true) / true)
        repaired.append(abs(HEAD.size - true) / true)
    return max(printed), max(repaired)


def shows_eq11_index() -> Shown:
    """Step (B) from the origin, the sign of the winner's v taken from each coordinate's force in turn."""
    origin = _linear()
    winner = int(np.argmax(np.abs(origin.force)))
    true = np.where(np.arange(len(origin.force)) == winner, LINEAR.coefficients, 0.0)

    def reached(sign: float) -> np.ndarray:
        seed = 1e-3 * np.eye(len(true))[winner]
        return np.multiply(*_end(_flow(origin.functions, Weights(seed, sign * seed), 20.0)))

    found = {sign: _off(reached(sign), true) for sign in (1.0, -1.0)}
    return max(found[s] for s in np.sign(origin.force)), found[np.sign(origin.force[winner])]


def shows_a42_start() -> Shown:
    """The first coordinate starts with v = −u, which is not v = u; the others as drawn."""
    origin, unit = _linear(), data.unit_weights(4, 0)
    first = np.arange(4) == 0
    opposed = Weights(unit.u, np.where(first, -unit.u, unit.v))
    end = 0.75 * 8 * np.log(10)  # between T_1 = 1/2 and T_2 = 1
    reached = [np.multiply(*_end(_flow(origin.functions, data.scaled(start, -8), end)))[0] for start in (opposed, unit)]
    true = LINEAR.coefficients[0]
    return _off(reached[0], true), _off(reached[1], true)


def shows_a42_index() -> Shown:
    """How many coordinates minimise, beyond the one that is asked for, worst of three stages."""
    printed, repaired = 0, 0
    exponents = np.ones(HEAD.size)
    for step in _walk(HEAD, 0, 3):
        delay = _until_active(exponents, step.before.force)
        constant = np.full(HEAD.size, delay[step.entering[0]])  # i -> Delta(i_k)
        printed = max(printed, int((constant == constant.min()).sum()) - 1)
        repaired = max(repaired, int((delay == delay.min()).sum()) - 1)
        exponents = step.exponents
    return float(printed), float(repaired)


def shows_a43() -> Shown:
    """Halfway up to theta^1 of the linear network, where the force on the support is 1."""
    functions, here = _linear().functions, np.array([1.0, 0, 0, 0])
    push = np.concatenate([-np.geomspace(1e-4, 0.05, 20), np.geomspace(1e-4, 0.05, 20)])

    def loss(u: float) -> float:
        return functions.loss(u**2 * here)

    levels = np.array([loss(1 + d) for d in push])
    return max(0.0, float((levels / push**2).min())), max(0.0, float(((levels - loss(1.0)) / push**2).min()))


def shows_theorem_sign() -> Shown:
    """Between T_2 = 1 and T_3 = 2, from Gaussian theta_0 as in Appendix A."""
    origin = _linear()
    product = np.where(np.arange(4) < 2, LINEAR.coefficients, 0.0)
    u = np.sqrt(np.abs(product))
    theta = np.concatenate([u, np.sign(product) * u])
    printed, repaired = [], []
    for seed in range(SEEDS):
        end = _end(_flow(origin.functions, data.scaled(data.unit_weights(4, seed), -12), 1.5 * 12 * np.log(10)))
        printed.append(_off(np.concatenate(end), theta))
        repaired.append(_off(end.u * end.v, product))
    return float(np.mean(printed)), float(np.mean(repaired))


def shows_heads() -> Shown:
    first = _walk(HEADS, 0, 1)[0].after.product.reshape(HEADS.layers, HEADS.heads, -1)
    each, together = (int(np.count_nonzero(np.abs(part) > 1e-9)) for part in (first, first.sum(1)))
    return float(each - 1), float(together - 1)


# ---- section 5 and Appendices A and B


def shows_eigenvalues() -> Shown:
    """Change of W_K W_Q^T when a Gaussian start is moved by Gaussian steps of rank one."""
    spec = FullSpec(dim=8)
    before, change = data.matrices(spec, 0), data.matrices(spec, 1)
    moved = [a + b[:, :1] @ b[:1] / np.abs(b).max() for a, b in zip(before[:2], change[:2], strict=True)]
    difference = moved[0] @ moved[1].T - before.key @ before.query.T
    true = np.linalg.svd(difference, compute_uv=False)
    printed = np.sort(np.abs(np.linalg.eigvals(difference)))[::-1]
    repaired = np.sqrt(np.maximum(np.linalg.eigvalsh(difference @ difference.T)[::-1], 0.0))
    return _off(printed, true), _off(repaired, true)


def shows_descent() -> Shown:
    """−dL/dp of eight of the 40 samples, then of all of them in another order."""
    from .. import network
    from ..system import Transformer

    problem = Transformer(HEAD).problem
    force = network.compiled_force(problem.objective)
    product = np.prod(data.unit_weights(HEAD.size, 0), axis=0)
    order = np.random.default_rng(0).permutation(HEAD.samples)

    def of(which: np.ndarray) -> np.ndarray:
        return np.asarray(force(product, Frame(Samples(*(part[which] for part in problem.samples)), (), 1.0)))

    true = of(np.arange(HEAD.samples))
    return _off(of(order[:8]), true), _off(of(order), true)


def _leaving() -> list[tuple[list[int], np.ndarray, np.ndarray]]:
    """Of every stage of the leaver: who left, who came, and the force at its end, relative and not cleaned."""
    found = []
    for step in _walk(LEAVER, LEAVER_SEED, LEAVER_STAGES):
        came = np.setdiff1d(step.after.support, step.before.support)
        found.append((list(step.left), came, step.after.functions.force(step.after.product) / step.after.units.force))
    return found


FORCELESS = 1e-9
"""Relative force that counts as none."""


def shows_app_a_difference() -> Shown:
    stages = _leaving()
    printed = [np.abs(force[came]).min() < FORCELESS for _, came, force in stages]
    repaired = [np.abs(force[left]).min(initial=np.inf) < FORCELESS for left, _, force in stages]
    return float(np.mean(printed)), float(np.mean(repaired))


def shows_no_leaver() -> Shown:
    stages = _leaving()
    gone = [abs(force[i]) for left, _, force in stages for i in left]
    return len(gone) / len(stages), float(sum(pull < FORCELESS for pull in gone)) / len(stages)


def shows_fig9_weights() -> Shown:
    """A head's second plateau; noise of 0.05 on u and v of its support, each on its own."""
    plateau = _walk(HEAD, 0, 2)[1].after
    u = np.sqrt(np.abs(plateau.product))
    true = Weights(u, np.sign(plateau.product) * u)
    noise = 0.05 * np.random.default_rng(0).normal(size=(2, len(u))) * (plateau.product != 0)
    kicked = Weights(*(part + push for part, push in zip(true, noise, strict=True)))
    rest = 12 / (2 * np.abs(plateau.product[plateau.support]).min() * plateau.curvatures[0])
    end = _end(_flow(plateau.functions, kicked, float(rest)))
    theta, start, final = (np.concatenate(point) for point in (true, kicked, end))
    product = [np.abs(point.u * point.v - plateau.product).max() for point in (kicked, end)]
    return float(np.abs(final - theta).max() / np.abs(start - theta).max()), float(product[1] / product[0])


def shows_fig9_threshold() -> Shown:
    """On theta^1 = (2, 0, ...) of the linear network while the next coordinate waits with |u| = |v| = 2e-5."""
    origin = _linear()
    size = np.array([np.sqrt(2), 2e-5, 1e-12, 1e-12])
    here = Weights(size, np.sign(LINEAR.coefficients) * size)
    noise = 0.05 * np.random.default_rng(0).normal(size=(2, 4))

    def after(which: np.ndarray) -> np.ndarray:
        start = Weights(*(np.where(which, part + push, part) for part, push in zip(here, noise, strict=True)))
        return np.multiply(*_end(_flow(origin.functions, start, 6.0)))

    quiet = after(np.zeros(4, bool))
    return _off(after(size > 1e-5), quiet), _off(after(size > 1.0), quiet)


def shows_stable_rank() -> Shown:
    matrix = np.random.default_rng(0).normal(size=(8, 8)) / np.arange(1, 9)
    spectrum = np.linalg.svd(matrix, compute_uv=False)
    true = np.linalg.norm(matrix) ** 2 / np.linalg.norm(matrix, 2) ** 2
    printed = np.linalg.norm(spectrum[:, None], "fro") ** 2 / np.linalg.norm(spectrum[:, None], 2) ** 2
    return _off(printed, true), _off((spectrum**2).sum() / (spectrum**2).max(), true)


def shows_captions() -> Shown:
    """How many panels the caption leaves without a description."""
    panels = "abcdef"
    spans = {"printed": ("ac", "de"), "repaired": ("ac", "df")}
    named = {name: {p for low, high in ends for p in panels if low <= p <= high} for name, ends in spans.items()}
    return 1 - len(named["printed"]) / len(panels), 1 - len(named["repaired"]) / len(panels)


# ---- Appendix C


def shows_section_c3() -> Shown:
    unit = data.unit_weights(16, 0)
    sign, true = np.sign(unit.u), unit.u * unit.v
    return _off(np.abs(unit.u) * np.abs(unit.v), true), _off((sign * unit.u) * (sign * unit.v), true)


@cache
def _plateau_path() -> Path:
    """The linear network at alpha = 1e-32 from u > |v| until 4 rho = 0.04 of Eq. (24) is exceeded."""
    origin = _linear()
    start = data.scaled(_normal_form(data.unit_weights(4, 0)), -32)

    def moved(u: np.ndarray, v: np.ndarray) -> float:
        return float(np.linalg.norm(u - start.u) + np.linalg.norm(v - start.v)) - 0.04

    return _flow(origin.functions, start, 32 * np.log(10), moved)


def shows_lemma_c5() -> Shown:
    """How far the loss of a head falls from what it was, then how far it rises, as a share of L(0)."""
    origin = _origin(HEAD)
    start = data.scaled(data.unit_weights(HEAD.size, 0), -4)
    u, v = _weights(_flow(origin.functions, start, 600.0))
    loss = np.array([origin.functions.loss(p) for p in u * v]) / origin.loss
    fall, rise = np.maximum.accumulate(loss) - loss, loss - np.minimum.accumulate(loss)
    return float(fall.max()), float(rise.max())


def shows_lemma_c6() -> Shown:
    """Halfway through the first plateau of a head at alpha = 1e-4."""
    origin = _origin(HEAD)
    start = data.scaled(data.unit_weights(HEAD.size, 0), -4)
    middle = _end(_flow(origin.functions, start, 2 * np.log(10) / origin.units.force))
    at_rest, now = origin.functions.force(np.zeros(HEAD.size)), origin.functions.force(middle.u * middle.v)
    differs = np.sign(now) != np.sign(at_rest)
    return float(differs.mean()), float(differs[at_rest != 0].mean())


def shows_lemma_c7() -> Shown:
    """t_1 of Eq. (24) in units of log(1/alpha), against T_1 + epsilon for four epsilon."""
    first = float(_plateau_path().crossings[0][0]) / (32 * np.log(10))
    limits = 1 / _linear().units.force + np.array([0.2, 0.1, 0.05, 0.02])
    return float(np.mean(first < limits)), float(np.mean(first >= limits))


def _shortfall(low: float, high: float, bound: float) -> float:
    """How far log_alpha of max(|u|, |v|) falls below a bound while log_alpha(u+v) is between two values."""
    log_alpha = -32 * np.log(10)
    exponent = np.linspace(low, high, 202)[1:-1]
    total, difference = np.exp(exponent * log_alpha), np.exp((2 - exponent) * log_alpha)  # u² − v² = alpha²
    size = np.maximum(np.abs(total + difference), np.abs(total - difference)) / 2
    return max(0.0, float((bound - np.log(size) / log_alpha).max()))


def shows_lemma_c8_interval() -> Shown:
    c = 0.5
    return _shortfall(-c / 2, 2 - c / 2, c / 4), _shortfall(c / 2, 2 - c / 2, c / 4)


def shows_lemma_c8_sign() -> Shown:
    """u > |v| in a ball around zero: all with u, v below epsilon, then those with log_alpha(u+v) < 1/2 as well."""
    rng, log_alpha = np.random.default_rng(0), -32 * np.log(10)
    exponent = rng.uniform(0.1, 1.9, 400)
    total, difference = np.exp(exponent * log_alpha), np.exp((2 - exponent) * log_alpha)
    wrong = total - difference <= 0  # v
    near = np.maximum(total, difference) < 1e-2
    return float(wrong[near].mean()), float(wrong[near & (exponent < 0.5)].mean())


def shows_lemma_c9() -> Shown:
    """Share of the steps up to T_1 − 0.1 at which the winner's u + v, then log_alpha of it, is outside."""
    path, c = _plateau_path(), 0.1
    scale = 32 * np.log(10)
    u, v = _weights(path)
    total = (u + v)[path.time <= (1 / _linear().units.force - 0.1) * scale, 0]
    outside = [np.mean((value <= c) | (value >= 2 - c)) for value in (total, -np.log(total) / scale)]
    return float(outside[0]), float(outside[1])


def shows_lemma_c10() -> Shown:
    """The KQ entries of 64 starts in the first move of a head: |v|, then u, against what log(u+v) gains in it.

    With u > |v|, u = √c cosh s and v = √c sinh s, and a move adds the same J to s of all starts, whatever alpha.
    """
    origin = _origin(HEAD)
    gained = origin.move(int(np.argmax(np.abs(origin.force)))).gained[: HEAD.dim]
    printed, repaired = [], []
    for seed in range(64):
        unit = _normal_form(data.unit_weights(HEAD.size, seed))
        s = np.arctanh(unit.v / unit.u)[: HEAD.dim]
        printed.append(s * (s + gained) < 0)  # v passes zero
        ratio = np.cosh(s + gained) / np.cosh(s)
        repaired.append(np.abs(np.log(ratio)) > np.abs(gained))
    return float(np.mean(printed)), float(np.mean(repaired))


def shows_section_c8() -> Shown:
    functions, weights = _linear().functions, data.unit_weights(4, 0)
    theta, step = np.concatenate(weights), 1e-5

    def loss(point: np.ndarray) -> float:
        return functions.loss(np.multiply(*np.split(point, 2)))

    true = np.array([(loss(theta + d) - loss(theta - d)) / (2 * step) for d in step * np.eye(8)])
    force = functions.force(weights.u * weights.v)
    printed = np.concatenate([weights.v * force, weights.u * force])
    return _off(printed, true), _off(-printed, true)


# ---- Appendix D


def shows_lemma_d2() -> Shown:
    """At log_alpha(u+v) = −1.001 c, with u² − v² = alpha²: how far u falls short of the bound, as a share of it."""
    alpha, c = 1e-8, 0.5
    total = alpha ** (-1.001 * c)
    u = (total + alpha**2 / total) / 2
    bound = alpha**-c - alpha ** (2 - c / 2)
    return max(0.0, 1 - u / bound), max(0.0, 1 - 2 * u / bound)


@cache
def _hill() -> tuple[Step, ...]:
    """Two coordinates: the second enters, pushes the first over a hill of its own loss, and is pulled back to zero.

    L = V(p_1) + p_2 phi(p_1) + p_2²/2, V' = 13 (p_1 − 1)(p_1 − 1.15)(p_1 − 2), phi = p_1² (p_1 − 1.8).
    """
    from ..forecast import logs_of
    from ..plateaus import Plateau
    from ..prediction import algorithm_1

    slope = 13 * np.poly1d([1.0, 1.15, 2.0], r=True)
    well, pull = slope.integ(), np.poly1d([1.0, -1.8, 0.0, 0.0])

    def force(p: np.ndarray) -> np.ndarray:
        return -np.array([slope(p[0]) + p[1] * pull.deriv()(p[0]), pull(p[0]) + p[1]])

    functions = _functions(force, lambda p: float(well(p[0]) + p[1] * pull(p[0]) + p[1] ** 2 / 2))
    return algorithm_1(Plateau.origin(functions, 2), logs_of(data.unit_weights(2, 0)), 2).steps


def shows_lemma_d4() -> Shown:
    """Of the coordinates off the support of theta^2 with b in {0, 2}, those that the lemma's set does not contain."""
    step = _hill()[1]
    off = np.setdiff1d(np.arange(2), step.after.support)
    at_edge = off[np.minimum(np.abs(step.exponents[off]), np.abs(step.exponents[off] - 2)) < 1e-9]
    printed = np.setdiff1d(step.before.support, step.after.support)
    repaired = np.setdiff1d(np.union1d(step.before.support, step.entering), step.after.support)
    return float(np.mean(~np.isin(at_edge, printed))), float(np.mean(~np.isin(at_edge, repaired)))


def shows_lemma_d7_network() -> Shown:
    """The output of Eq. (1) with diagonal matrices."""
    from .. import network

    inputs = data.tokens(HEAD)
    unit = data.unit_weights(HEAD.size, 0)
    (key, value), (query, output) = (np.split(part, 2) for part in unit)
    true = np.asarray(network.full_head(inputs, *map(np.diag, (key, query, value, output))))
    return (
        _off(network.head(inputs, unit.u * unit.u), true),
        _off(network.head(inputs, unit.u * unit.v), true),
    )


def _lipschitz(radius: float, target: float) -> float:
    """Largest norm found of the Hessian of (u v − target)²/2 in a ball: the gradient's Lipschitz constant, or less."""
    angle, share = np.meshgrid(np.linspace(0, 2 * np.pi, 49), np.linspace(0, 1, 9))
    u, v = radius * share * np.cos(angle), radius * share * np.sin(angle)
    cross = 2 * u * v - target
    matrices = np.stack([np.stack([v**2, cross], -1), np.stack([cross, u**2], -1)], -1)
    return float(np.abs(np.linalg.eigvalsh(matrices)).max())


def shows_lemma_d7_ball() -> Shown:
    """Excess of the constant over K: in B(0, K), best K; in B(0, R), with a K_R found by hand, worst R."""
    target = LINEAR.coefficients[0]
    sizes = np.geomspace(1e-3, 1e3, 241)
    printed = float(min(_lipschitz(K, target) / K for K in sizes)) - 1

    def bound(R: float) -> float:
        return R**2 / 2 + np.hypot(R**2 / 2, R**2 + target)

    return max(0.0, printed), max(0.0, float(max(_lipschitz(R, target) / bound(R) for R in sizes)) - 1)
