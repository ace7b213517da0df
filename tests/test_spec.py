"""Parameters: round trip, coercion, and errors that name the way out."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from saddlescope.core.errors import BadArgument
from saddlescope.core.registry import system, system_types
from saddlescope.templates.squares.spec import SquaresSpec

targets = st.lists(st.floats(1e-3, 1e5), min_size=1, max_size=6).map(tuple)


# A busy machine is slow, which is no fault of the parameters.
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(targets=targets, init_scale=st.floats(1e-300, 1e-3), steps=st.none() | st.integers(1, 10**6))
def test_round_trip(targets, init_scale, steps):
    spec = SquaresSpec(targets=targets, init_scale=init_scale, steps=steps)
    again = SquaresSpec.from_json(spec.to_json())
    assert again == spec and again.digest == spec.digest and hash(again) == hash(spec)
    json.loads(spec.to_json())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"targets": [2, -1]}, ["targets", "-1.0", "positive"]),
        ({"targets": [2, math.nan]}, ["targets", "nan", "below 1e6"]),
        ({"targets": [math.inf, 1]}, ["targets", "inf", "below 1e6"]),
        ({"targets": []}, ["targets", "at least one"]),
        ({"targets": 2}, ["targets", "list"]),
        ({"targets": "2,1"}, ["targets", "list", "--set"]),
        ({"targets": ["a"]}, ["targets[0]", "number"]),
        ({"init_scale": 0}, ["init_scale", "u = 0 never moves"]),
        ({"init_scale": -1e-3}, ["init_scale", "positive"]),
        ({"init_scale": math.nan}, ["init_scale", "positive"]),
        ({"init_scale": "small"}, ["init_scale", "a number", "'small'"]),
        ({"inti_scale": 1e-3}, ["inti_scale", "did you mean 'init_scale'"]),
        ({"optimizer": "sgd"}, ["optimizer", "gd"]),
        ({"optimizer": "adma"}, ["optimizer", "did you mean 'adam'"]),
        ({"optimizer": 3}, ["optimizer", "a word"]),
        ({"learning_rate": 0}, ["learning_rate"]),
        ({"horizon": -1}, ["horizon"]),
        ({"steps": 0}, ["steps"]),
        ({"steps": 2.5}, ["steps", "whole number"]),
        ({"steps": True}, ["steps", "whole number"]),
        ({"steps": 10**400}, ["steps", "too large"]),
        ({"steps": 10**30}, ["steps", "at most"]),
        ({"steps": 1e308}, ["steps", "at most"]),
        ({"fresh_data": True}, ["batch_size"]),
        ({"fresh_data": "yes"}, ["fresh_data", "true or false"]),
        ({"weight_decay": 0.1}, ["weight_decay", "adamw"]),
        ({"clip_norm": math.inf}, ["clip_norm", "finite"]),
        ({"schedule": "cosine", "steps": 10, "warmup_steps": 10}, ["warmup_steps", "steps"]),
    ],
    ids=str,
)
def test_bad_input_gets_a_clear_word(fields, words):
    with pytest.raises(BadArgument) as error:
        system("squares", **fields)
    for word in words:
        assert word in str(error.value)


def test_names_are_suggested():
    with pytest.raises(BadArgument, match="did you mean 'squares'"):
        system("sqares")
    with pytest.raises(BadArgument, match="quick"):
        system("squares", "quik")


def test_presets_of_every_system_are_legal():
    for kind in system_types().values():
        assert {"tiny", "quick", "paper"} <= set(kind.presets)
        for preset in kind.presets:
            kind(kind.preset(preset))
