"""Parameters of linear_icl: what they may be, what they mean, and settings that the paper does not show."""

from __future__ import annotations

import math

import pytest

import saddlescope as ss
from saddlescope.lab.sources import statements
from saddlescope.systems.linear_icl.spec import LinearICLSpec


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"eigenvalues": [0.4, -0.1]}, ["eigenvalues", "-0.1", "positive"]),
        ({"eigenvalues": [0.4, 0.0]}, ["eigenvalues", "positive"]),
        ({"eigenvalues": [0.1, 0.4]}, ["eigenvalues", "descending", "[0.4, 0.1]"]),
        ({"eigenvalues": [0.4, math.nan]}, ["eigenvalues", "finite"]),
        ({"eigenvalues": [math.inf, 0.1]}, ["eigenvalues", "finite"]),
        ({"eigenvalues": [1e308]}, ["eigenvalues", "1e9"]),
        ({"eigenvalues": []}, ["eigenvalues", "at least one"]),
        ({"rank": 9}, ["rank", "between 1 and 4"]),
        ({"rank": 0}, ["rank"]),
        ({"heads": 0}, ["heads", "at least 1"]),
        ({"heads": 10**9}, ["heads", "1e7"]),
        ({"init_scale": 0}, ["init_scale", "fixed point"]),
        ({"init_scale": -1e-3}, ["init_scale", "positive"]),
        ({"init_scale": math.nan}, ["init_scale", "finite"]),
        ({"init_scale": 1e-300}, ["init_scale", "1e-12"]),
        ({"context_length": 0}, ["context_length"]),
        ({"sequences": 0}, ["sequences", "population"]),
        ({"batch_size": 8}, ["batch_size", "fresh_data"]),
        ({"objective": "next_tokn"}, ["objective", "did you mean 'next_token'"]),
        ({"hedas": 3}, ["hedas", "did you mean 'heads'"]),
    ],
    ids=str,
)
def test_bad_input_gets_a_clear_word(fields, words):
    with pytest.raises(ss.BadArgument) as error:
        ss.system("linear_icl", **fields)
    for word in words:
        assert word in str(error.value)


def test_a_variant_has_its_own_objective():
    with pytest.raises(ss.BadArgument, match="objective"):
        ss.system("linear_icl/next_token", objective="last_token")


def test_repeated_eigenvalues_are_legal_and_remarked_upon():
    spec = LinearICLSpec(eigenvalues=(0.35, 0.35, 0.15, 0.15))
    assert len(spec.remarks()) == 2 and "equal" in spec.remarks()[0]
    assert "2 of 4 directions" in LinearICLSpec(heads=2).remarks()[0]
    assert len(ss.predict(ss.system("linear_icl", eigenvalues=(0.35, 0.35))).stages) == 2


def test_inverse_length_of_next_token_contexts():
    assert LinearICLSpec(objective="next_token").inverse_length == pytest.approx(0.12991, abs=5e-6)
    assert LinearICLSpec(objective="next_token", context_length=2).inverse_length == 0.75
    by_series = LinearICLSpec(objective="next_token", context_length=1001).inverse_length
    assert by_series == pytest.approx(sum(1 / k for k in range(1, 1002)) / 1001, rel=1e-14)
    assert LinearICLSpec(objective="next_token", context_length=2**31 - 1).inverse_length < 1e-7


def test_a_diverged_training_has_no_stages():
    found = ss.run(ss.system("linear_icl", learning_rate=30), "train")
    assert found.result.startswith("diverged") and found.stages == []


def test_statements_of_the_paper_are_found():
    kind = type(ss.system("linear_icl"))
    for statement in ("Eq. (5)", "(5)", "eq 5", "5"):
        assert [row["function"] for row in statements(kind, statement)] == ["plateau_loss"]
    known = {row["statement"] for row in statements(kind)}
    assert {"Eq. (2)", "Eq. (7)", "Eq. (24)", "Eq. (29)", "Eq. (37)", "Eq. (45)", "(C3)"} <= known
