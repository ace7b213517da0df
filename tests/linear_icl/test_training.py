"""Training on statistics, on sequences and on fresh batches, and how near it is to the flow."""

from __future__ import annotations

import numpy as np
import pytest

import saddlescope as ss
from saddlescope.core.errors import BadArgument


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("optimizer", ["gd", "adam"])
def test_statistics_give_the_network_trajectory(rank, optimizer):
    """1000 steps on 500 sequences: the loss differs by at most 1e-12, from drops included."""
    settings = {"sequences": 500, "init_scale": 0.5, "rank": rank, "steps": 1000, "optimizer": optimizer}
    settings["learning_rate"] = 0.2 if optimizer == "gd" else 0.01
    first, second = (
        ss.train(ss.system("linear_icl", **settings, statistics=statistics), snapshots="linear")["loss"].values
        for statistics in (True, False)
    )
    assert first[-1] < 0.7 * first[0]
    # Adam divides by the root of squared gradients, which magnifies rounding where they are small.
    assert np.abs(first - second).max() <= (1e-12 if optimizer == "gd" else 1e-10)


def test_step_of_0395_is_within_a_percent_of_the_flow():
    chosen = ss.system("linear_icl", init_scale=0.03, learning_rate=0.1975)
    flowed, trained = (ss.run(chosen, face) for face in ("flow", "train"))
    assert len(flowed.stages) == len(trained.stages) == 4
    for one, other in zip(trained.stages, flowed.stages, strict=True):
        assert one.time == pytest.approx(other.time, rel=1e-2)
    assert trained.result == "finished"


def test_online_training_learns_the_population():
    """Fresh batches of 512 from a large start: the population's loss falls towards L(M_D), up to gradient noise."""
    fields = {"init_scale": 1.0, "fresh_data": True, "batch_size": 512, "learning_rate": 0.1, "steps": 3000}
    chosen = ss.system("linear_icl", "tiny", **fields)
    reached, last = float(ss.train(chosen)["loss"][-1]), ss.predict(chosen).levels[-1]
    assert last < reached < 1.1 * last


def test_softmax_attention_trains():
    run = ss.run(ss.system("linear_icl/softmax", "tiny", steps=3000, init_scale=1.0), "train")
    assert run.result == "finished" and run.final_loss is not None
    assert run.final_loss < 0.8 * run.series("loss")[0]
    with pytest.raises(BadArgument, match="sequences"):
        ss.system("linear_icl/softmax", "tiny", sequences=None).start(0)


def test_softmax_attention_may_diverge_without_overflow():
    result = ss.train(ss.system("linear_icl/softmax", "tiny", init_scale=100.0, learning_rate=10.0)).attrs["result"]
    assert result.startswith("diverged: ") and "smaller learning_rate" in result
