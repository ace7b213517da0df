"""Parameters, frozen, with JSON round trip, digest and overrides; Spec, those of the engines of `dynamics`."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import BadArgument, unknown

OPTIMIZERS = ("gd", "momentum", "adam", "adamw")
SCHEDULES = ("constant", "cosine", "plateau")

LARGEST_INT = 2**31 - 1
"""Counters of the optimizers are 32 bits wide."""

LARGEST_FLOAT = 1e308


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """What fixes one problem. A subclass states the fields, each with a default; its `check` says what they may be."""

    def __post_init__(self) -> None:
        for field, kind in _field_types(type(self)).items():
            object.__setattr__(self, field, _coerce(field, getattr(self, field), kind))
        self.check()

    def check(self) -> None:
        """Raise `BadArgument` for a field that has no meaning."""

    def remarks(self) -> list[str]:
        """What a user should know of these values though they are legal."""
        return []

    def replace(self, **overrides: Any) -> typing.Self:
        """A copy with some fields changed; an unknown field is an error that suggests the nearest."""
        names = _field_types(type(self))
        for name in overrides:
            if name not in names:
                raise unknown("field", name, names)
        return dataclasses.replace(self, **overrides)

    def to_dict(self) -> dict[str, Any]:
        return {
            name: list(v) if isinstance(v := getattr(self, name), tuple) else v for name in _field_types(type(self))
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> typing.Self:
        return cls().replace(**fields)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> typing.Self:
        return cls.from_dict(json.loads(text))

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{type(self).__name__}:{self.to_json()}".encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Spec(Parameters):
    """Fields that every system shares. A system's own Spec adds its symbols and extends `check`.

    horizon: end of the run in the system's clock; null: 1.3 x the last predicted time, prolonged until the last
        plateau is reached.
    learning_rate: of `train`.
    steps: of `train`; null: as many as the horizon needs.
    optimizer: gd, momentum, adam, adamw.
    momentum: decay of optimizer=momentum.
    weight_decay: of optimizer=adamw.
    batch_size: samples per step; null: the whole problem at every step.
    fresh_data: draw every batch anew instead of from the training set.
    clip_norm: largest gradient norm; null: no clipping.
    schedule: constant, cosine, or plateau (the rate falls when the evaluation loss no longer does).
    warmup_steps: of linear warm-up before the schedule.
    plateau_factor: by which schedule=plateau multiplies the rate.
    plateau_patience: evaluations without improvement that it waits for.
    plateau_every: steps between evaluations.
    data_seed: of whatever data or teacher the problem draws; `--seed` moves the initial weights only.
    """

    horizon: float | None = None
    learning_rate: float = 0.1
    steps: int | None = None
    optimizer: str = "gd"
    momentum: float = 0.9
    weight_decay: float = 0.0
    batch_size: int | None = None
    fresh_data: bool = False
    clip_norm: float | None = None
    schedule: str = "constant"
    warmup_steps: int = 0
    plateau_factor: float = 0.5
    plateau_patience: int = 10
    plateau_every: int = 100
    data_seed: int = 0

    def check(self) -> None:
        require(
            self.horizon is None or 1e-12 <= self.horizon < math.inf,
            "horizon",
            self.horizon,
            "at least 1e-12, and finite",
        )
        require(0 < self.learning_rate < math.inf, "learning_rate", self.learning_rate, "positive and finite")
        require(self.steps is None or self.steps > 0, "steps", self.steps, "positive")
        if self.optimizer not in OPTIMIZERS:
            raise unknown("optimizer", self.optimizer, OPTIMIZERS)
        if self.schedule not in SCHEDULES:
            raise unknown("schedule", self.schedule, SCHEDULES)
        require(0 <= self.momentum < 1, "momentum", self.momentum, "in [0, 1)")
        require(0 <= self.weight_decay < math.inf, "weight_decay", self.weight_decay, "zero or positive, and finite")
        if self.weight_decay:
            require(self.optimizer == "adamw", "weight_decay", self.weight_decay, "0 unless `optimizer` is adamw")
        require(self.batch_size is None or self.batch_size > 0, "batch_size", self.batch_size, "positive")
        if self.fresh_data and self.batch_size is None:
            raise BadArgument("`fresh_data` needs a `batch_size`: how many sequences to draw at each step")
        require(
            self.clip_norm is None or 0 < self.clip_norm < math.inf, "clip_norm", self.clip_norm, "positive and finite"
        )
        require(self.warmup_steps >= 0, "warmup_steps", self.warmup_steps, "zero or positive")
        if self.schedule == "cosine" and self.steps is not None:
            require(self.warmup_steps < self.steps, "warmup_steps", self.warmup_steps, f"below `steps` = {self.steps}")
        require(0 < self.plateau_factor < 1, "plateau_factor", self.plateau_factor, "between 0 and 1")
        require(self.plateau_patience >= 0, "plateau_patience", self.plateau_patience, "zero or positive")
        require(self.plateau_every > 0, "plateau_every", self.plateau_every, "positive")
        require(self.data_seed >= 0, "data_seed", self.data_seed, "zero or positive")

    @property
    def follows_flow(self) -> bool:
        """Whether `train` moves the weights along the gradient flow, so that its time is the flow's."""
        return self.optimizer == "gd"

    def remarks(self) -> list[str]:
        if self.follows_flow:
            return []
        return [
            f"with optimizer={self.optimizer} the time of `train` counts steps x learning_rate, as for gd, but weights "
            "do not follow the flow at that pace"
        ]


def require(condition: bool, field: str, value: Any, must_be: str, why: str = "") -> None:
    """Raise `BadArgument` unless the condition holds: "`field` must be `must_be`, got `value`: `why`"."""
    if not condition:
        raise BadArgument(f"`{field}` must be {must_be}, got {value!r}" + (f": {why}" if why else ""))


LARGEST_DATA = 10**9
"""Numbers that an array may have: 8 GB."""


def require_room(field: str, value: Any, numbers: float) -> None:
    """Raise `BadArgument` where this value of a field makes an array of so many numbers that no memory holds it."""
    require(
        numbers <= LARGEST_DATA,
        field,
        value,
        f"such that arrays have at most {LARGEST_DATA:.0e} numbers, not {numbers:.0e}",
    )


def _field_types(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _coerce(field: str, value: Any, kind: Any) -> Any:
    """Turn what JSON or a caller gives into the declared type, or say what was expected."""
    if isinstance(kind, types.UnionType):
        options = [option for option in typing.get_args(kind) if option is not type(None)]
        if value is None:
            return None
        return _coerce(field, value, options[0])
    if typing.get_origin(kind) in (tuple, list):  # kept as a tuple, since a Spec does not change
        item = typing.get_args(kind)[0]
        if isinstance(value, str) or not hasattr(value, "__iter__"):
            raise BadArgument(f"`{field}` must be a list, got {value!r}: for example --set {field}=[0.4,0.3]")
        return tuple(_coerce(f"{field}[{index}]", entry, item) for index, entry in enumerate(value))
    if kind is bool and isinstance(value, bool):
        return value
    if kind is str and isinstance(value, str):
        return value
    if kind in (int, float) and hasattr(value, "__float__") and not isinstance(value, (bool, str)):
        try:
            number = float(value)
        except OverflowError:
            raise BadArgument(f"`{field}` is too large: at most {LARGEST_FLOAT:.0e}") from None
        if kind is float:
            return number
        if math.isfinite(number) and number == int(number):
            require(abs(number) <= LARGEST_INT, field, value, f"at most {LARGEST_INT}")
            return int(value)
    if kind not in _WORDS:
        raise BadArgument(f"field `{field}` has type {kind}, which no Spec may have: {_KINDS}")
    raise BadArgument(f"`{field}` must be {_WORDS[kind]}, got {value!r}")


_KINDS = "use bool, int, float or str, one of these | None, or a list of them such as tuple[float, ...]"
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}
