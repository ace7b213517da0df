"""Parameters: round trip, coercion, and errors that name the way out."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saddlescope.core.errors import BadArgument
from saddlescope.core.registry import system, system_types
from saddlescope.systems.linear_icl.spec import LinearICLSpec

spectra = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=6).map(lambda values: sorted(values, reverse=True))


@given(eigenvalues=spectra, context_length=st.integers(1, 10**6), init_scale=st.floats(1e-12, 1e3))
def test_round_trip(eigenvalues, context_length, init_scale):
    spec = LinearICLSpec(eigenvalues=tuple(eigenvalues), context_length=context_length, init_scale=init_scale)
    again = LinearICLSpec.from_json(spec.to_json())
    assert again == spec and again.digest == spec.digest and hash(again) == hash(spec)
    json.loads(spec.to_json())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"eigenvalues": [0.4, -0.1]}, ["eigenvalues", "-0.1", "positive"]),
        ({"eigenvalues": [0.4, 0.0]}, ["eigenvalues", "positive"]),
        ({"eigenvalues": [0.1, 0.4]}, ["eigenvalues", "descending", "[0.4, 0.1]"]),
        ({"eigenvalues": [0.4, math.nan]}, ["eigenvalues", "finite"]),
        ({"eigenvalues": [math.inf, 0.1]}, ["eigenvalues", "finite"]),
        ({"eigenvalues": []}, ["eigenvalues", "at least one"]),
        ({"eigenvalues": 0.4}, ["eigenvalues", "list"]),
        ({"eigenvalues": "0.4,0.3"}, ["eigenvalues", "list", "--set"]),
        ({"eigenvalues": ["a"]}, ["eigenvalues[0]", "number"]),
        ({"rank": 5}, ["rank", "between 1 and 4"]),
        ({"rank": 0}, ["rank"]),
        ({"heads": 0}, ["heads", "at least 1"]),
        ({"heads": 2.5}, ["heads", "whole number"]),
        ({"heads": True}, ["heads", "whole number"]),
        ({"init_scale": 0}, ["init_scale", "fixed point"]),
        ({"init_scale": -1e-3}, ["init_scale", "positive"]),
        ({"init_scale": math.nan}, ["init_scale", "finite"]),
        ({"context_length": 0}, ["context_length"]),
        ({"sequences": 0}, ["sequences", "population"]),
        ({"objective": "next_tokn"}, ["objective", "did you mean 'next_token'"]),
        ({"optimizer": "sgd"}, ["optimizer", "gd"]),
        ({"learning_rate": 0}, ["learning_rate"]),
        ({"horizon": -1}, ["horizon"]),
        ({"steps": 0}, ["steps"]),
        ({"batch_size": 8}, ["batch_size", "fresh_data"]),
        ({"fresh_data": True}, ["batch_size"]),
        ({"fresh_data": "yes"}, ["fresh_data", "true or false"]),
        ({"weight_decay": 0.1}, ["weight_decay", "adamw"]),
        ({"hedas": 3}, ["hedas", "did you mean 'heads'"]),
        ({"heads": 10**400}, ["heads", "too large"]),
        ({"heads": 10**30}, ["heads", "at most"]),
        ({"heads": 10**9}, ["heads", "1e7"]),
        ({"steps": 1e308}, ["steps", "at most"]),
        ({"eigenvalues": [1e308]}, ["eigenvalues", "1e9"]),
        ({"init_scale": 1e-300}, ["init_scale", "1e-12"]),
        ({"clip_norm": math.inf}, ["clip_norm", "finite"]),
        ({"schedule": "cosine", "steps": 10, "warmup_steps": 10}, ["warmup_steps", "steps"]),
    ],
    ids=str,
)
def test_bad_input_gets_a_clear_word(fields, words):
    with pytest.raises(BadArgument) as error:
        system("linear_icl", **fields)
    for word in words:
        assert word in str(error.value)


def test_repeated_eigenvalues_are_legal_and_remarked_upon():
    spec = LinearICLSpec(eigenvalues=(0.35, 0.35, 0.15, 0.15))
    assert len(spec.remarks()) == 2 and "equal" in spec.remarks()[0]
    assert "2 of 4 directions" in LinearICLSpec(heads=2).remarks()[0]


def test_names_are_suggested():
    with pytest.raises(BadArgument, match="did you mean 'linear_icl'"):
        system("linear_ilc")
    with pytest.raises(BadArgument, match="quick"):
        system("linear_icl", "quik")


def test_presets_of_every_system_are_legal():
    for kind in system_types().values():
        assert {"tiny", "quick", "paper"} <= set(kind.presets)
        for preset in kind.presets:
            kind(kind.preset(preset))


def test_inverse_length_of_next_token_contexts():
    assert LinearICLSpec(objective="next_token").inverse_length == pytest.approx(0.12991, abs=5e-6)
    assert LinearICLSpec(objective="next_token", context_length=2).inverse_length == 0.75
    by_series = LinearICLSpec(objective="next_token", context_length=1001).inverse_length
    assert by_series == pytest.approx(sum(1 / k for k in range(1, 1002)) / 1001, rel=1e-14)
    assert LinearICLSpec(objective="next_token", context_length=2**31 - 1).inverse_length < 1e-7
