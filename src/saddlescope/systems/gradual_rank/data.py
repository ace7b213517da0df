"""What a run starts from: inputs, the teacher, the initial weights. All drawn with NumPy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.errors import BadArgument

from .spec import FullSpec, LinearSpec, TransformerSpec

ACTIVE = 1e-3
"""Share of the largest |p| above which an entry of a run counts as nonnegligible."""


class Weights(NamedTuple):
    """u, v: the factors of p = u*v, (p,) each."""

    u: Any
    v: Any


class Samples(NamedTuple):
    """inputs, targets: with the sample axis first."""

    inputs: Any
    targets: Any


class Frame(NamedTuple):
    """frozen: further arrays that the network reads (feed-forward weights).  log_inverse_alpha: B = log(1/alpha)."""

    samples: Samples
    frozen: tuple[Any, ...]
    log_inverse_alpha: Any


def tokens(spec: TransformerSpec | FullSpec) -> np.ndarray:
    """Isotropic Gaussian tokens (Appendix A), (N, n, d)."""
    return np.random.default_rng(spec.data_seed).normal(size=(spec.samples, spec.tokens, spec.dim))


def teacher(teacher_seed: int, shape: tuple[int, int, int]) -> np.ndarray:
    """The teacher's products (p,): per layer and head W_K W_Q^T first, then W_V W_O^T. shape: (layers, heads, d).

    Products of two normals, scaled so that losses and entries have the size of the paper's Figs 6 to 8.
    """
    rng = np.random.default_rng((teacher_seed, 1))
    pairs = [scale * rng.normal(size=shape) * rng.normal(size=shape) for scale in (0.33, 0.6)]
    return np.stack(pairs, axis=2).reshape(-1)


def feed_forward(spec: TransformerSpec) -> tuple[np.ndarray, ...]:
    """Frozen W_A and W_B of every layer, (layers, d, d) each; none for a single head."""
    if spec.is_head:
        return ()
    rng = np.random.default_rng((spec.teacher_seed, 2))
    shape = (spec.layers, spec.dim, spec.dim)
    return tuple(rng.normal(size=shape) / np.sqrt(spec.dim) for _ in range(2))


def regression(spec: LinearSpec) -> Samples:
    """Samples of a linear teacher; without a number of them, those whose covariance is the identity exactly."""
    truth = np.array(spec.coefficients)
    if spec.samples is None:
        inputs = np.sqrt(len(truth)) * np.eye(len(truth))
    else:
        inputs = np.random.default_rng(spec.data_seed).normal(size=(spec.samples, len(truth)))
    return Samples(inputs, inputs @ truth)


def unit_weights(size: int, seed: int, equal: bool = False) -> Weights:
    """theta_0: standard normal, u first; alpha multiplies it."""
    rng = np.random.default_rng(seed)
    u, v = rng.normal(size=size), rng.normal(size=size)
    return Weights(u, u.copy() if equal else v)


def check_unit_weights(weights: Weights, equal: bool) -> None:
    """Assumption 4.2 wants |u_i| != |v_i|; where they are equal, p_i keeps its sign for ever."""
    dead = np.flatnonzero((weights.u == 0) & (weights.v == 0))
    if dead.size:
        raise BadArgument(f"u_i = v_i = 0 at the start for coordinates {dead[:5].tolist()}: they would never move")
    stuck = np.flatnonzero(np.abs(weights.u) == np.abs(weights.v))
    if stuck.size and not equal:
        raise BadArgument(
            f"|u_i| = |v_i| at the start for coordinates {stuck[:5].tolist()}"
            f"{' ...' if stuck.size > 5 else ''}: u_i² − v_i² = 0 is conserved, so p_i = u_i v_i can never change its "
            "sign. Draw u and v independently, or set equal_start=true if this is meant"
        )


def scaled(unit: Weights, log10_alpha: float) -> Weights:
    alpha = 10.0**log10_alpha
    return Weights(alpha * unit.u, alpha * unit.v)


class Matrices(NamedTuple):
    """W_K, W_Q, W_V, W_O, (d, d') each."""

    key: Any
    query: Any
    value: Any
    output: Any


class FullFrame(NamedTuple):
    """mask: (d, d'), one where weights may differ from zero."""

    samples: Samples
    mask: Any


def block_mask(dim: int, width: int, block: int | None) -> np.ndarray:
    if block is None:
        return np.ones((dim, width))
    place = np.arange(dim) // block
    return (place[:, None] == place[None, :]).astype(float)


def matrices(spec: FullSpec, seed: int) -> Matrices:
    rng = np.random.default_rng(seed)
    mask = block_mask(spec.dim, spec.width, spec.block)
    return Matrices(*(10.0**spec.log10_alpha * mask * rng.normal(size=mask.shape) for _ in range(4)))
