"""Parameters of linear_icl: what they may be, what they mean, and settings that the paper does not show."""

from __future__ import annotations

import json
import math

import pytest

import saddlescope as ss
from saddlescope import cli
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


@pytest.mark.parametrize(
    ("settings", "tolerance"),
    [
        ({"eigenvalues": [0.6, 0.2, 0.1, 0.07, 0.03], "heads": 6, "context_length": 10, "init_scale": 0.003}, 1e-3),
        ({"eigenvalues": [3, 1], "heads": 2, "rank": 2, "context_length": 100}, 1e-3),
        ({"eigenvalues": [0.5, 0.3], "heads": 3, "sequences": 3000, "context_length": 12}, 0.1),  # plateaus creep
    ],
    ids=str,
)
def test_parameters_that_appear_in_no_figure(settings, tolerance):
    chosen = ss.system("linear_icl", **settings)
    predicted, measured = (ss.run(chosen, face).stages for face in ("predict", "flow"))
    times = [stage.time for stage in predicted]
    assert len(times) > 1 and [stage.time for stage in measured] == pytest.approx(times, rel=tolerance)


@pytest.mark.parametrize("face", ["predict", "flow", "train"])
@pytest.mark.parametrize("name", ["linear_icl", "linear_icl/next_token"])
def test_json_on_the_command_line(capsys, tmp_path, face, name):
    table = tmp_path / "run.csv"
    code = cli.run([face, name, "--preset", "tiny", "--out", str(table), "--json"])
    value = json.loads(capsys.readouterr().out)
    assert code == 0 and value["system"] == name and value["result"] == "finished"
    assert [list(stage) for stage in value["stages"]] == [["index", "time", "loss", "label"]] * 2
    assert (value["conserved_drift"] is None) == (face == "predict")
    assert len(value["observables"]["gain"]) == 2
    columns = {"seed", "index", "time"} if face == "predict" else {"seed", "time", "loss", "gain_2", "key_1_1_2"}
    assert columns <= set(table.read_text().partition("\n")[0].split(","))


def test_a_diverged_training_has_no_stages():
    found = ss.run(ss.system("linear_icl", learning_rate=30), "train")
    assert found.result.startswith("diverged") and found.stages == []


def test_statements_of_the_paper_are_found():
    kind = type(ss.system("linear_icl"))
    for statement in ("Eq. (5)", "(5)", "eq 5", "5"):
        assert [row["function"] for row in statements(kind, statement)] == ["plateau_loss"]
    known = {row["statement"] for row in statements(kind)}
    assert {"Eq. (2)", "Eq. (7)", "Eq. (24)", "Eq. (29)", "Eq. (37)", "Eq. (45)", "(C3)"} <= known
