"""Optimizers and schedules of a Spec, from optax."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import optax
from optax.contrib import reduce_on_plateau

from saddlescope.core.spec import Spec


def direction(spec: Spec) -> optax.GradientTransformation:
    """Gradient to step at learning rate one: the engine multiplies by rate and schedule."""
    base = {
        "gd": optax.identity,
        "momentum": lambda: optax.trace(decay=spec.momentum),
        "adam": optax.scale_by_adam,
        "adamw": lambda: optax.chain(optax.scale_by_adam(), optax.add_decayed_weights(spec.weight_decay)),
    }[spec.optimizer]()
    if spec.clip_norm is None:
        return base
    return optax.chain(optax.clip_by_global_norm(spec.clip_norm), base)


def rate_factor(spec: Spec, steps: int | None) -> Callable:
    """Step -> share of the learning rate: warm-up, then constant or cosine."""
    if spec.schedule == "cosine":
        assert steps is not None  # the engine refuses a cosine without an end
        return optax.warmup_cosine_decay_schedule(0.0, 1.0, spec.warmup_steps, steps)
    if spec.warmup_steps:
        return optax.linear_schedule(1.0 / (spec.warmup_steps + 1), 1.0, spec.warmup_steps)
    return lambda step: jnp.ones(())


def plateau(spec: Spec) -> optax.GradientTransformationExtraArgs:
    """ReduceLROnPlateau, fed with an evaluation loss."""
    return reduce_on_plateau(factor=spec.plateau_factor, patience=spec.plateau_patience)
