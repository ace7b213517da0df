"""LoRA beside a full fine-tuning: stages that resume exactly, adapters that act, claims that can go either way."""

from __future__ import annotations

import copy

import numpy as np
import pytest

pytest.importorskip("peft")

import torch

from saddlescope.core.claim import judge
from saddlescope.core.errors import BadArgument
from saddlescope.core.progress import silent
from saddlescope.core.run import Run
from saddlescope.core.trajectory import check_trained
from saddlescope.lab.stages import run_of
from saddlescope.studies.vit.adaptation import of_one_rank, turned, with_adapters
from saddlescope.studies.vit.evidence.claims.lora import CLAIMS, second_direction
from saddlescope.studies.vit.evidence.lora_figures import FIGURE
from saddlescope.studies.vit.images import load_images
from saddlescope.studies.vit.lora import LoRA
from saddlescope.studies.vit.lora_spec import NETWORKS, TRAINED, LoRASpec
from saddlescope.studies.vit.network import VisionTransformer
from saddlescope.studies.vit.truncation import cut, directions_of
from saddlescope.testing.sabotage import survivors

BY_NAME = {claim.name: claim for claim in CLAIMS}
STUDY = LoRA(LoRA.preset("tiny"))


def trained(folder, tick):
    return STUDY.training.train(0, folder, tick)


@pytest.fixture(scope="module")
def whole():
    return trained(None, silent)


def judged(run, kind, network):
    return run[f"judged_{kind}"].values[NETWORKS.index(network)]


def test_a_run_says_what_it_declares(whole):
    check_trained(whole)
    assert whole.attrs["result"] == "finished"
    assert len(whole.attrs["modules"].split()) == whole.sizes["module"] == len(whole["advised_ranks"])
    assert whole.sizes["time"] == STUDY.spec.tune_epochs + 1
    assert (whole["advised_ranks"] <= whole["full_ranks"]).all()


class Killed(Exception):
    pass


@pytest.mark.parametrize("stage", range(4))
def test_a_run_killed_in_any_stage_goes_on_exactly(tmp_path, whole, stage):
    def kill(share, words=""):
        if share > stage / 4:  # after the first epoch of this stage
            raise Killed

    with pytest.raises(Killed):
        trained(tmp_path, kill)
    done = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert done == set(("pretrained", *TRAINED)[: stage + 1])
    shares = []
    resumed = trained(tmp_path, lambda share, words="": shares.append(share))
    assert resumed.drop_attrs().identical(whole.drop_attrs())
    assert min(shares) > stage / 4  # what was done is not done again
    assert trained(tmp_path, kill).drop_attrs().identical(whole.drop_attrs())  # no epoch: nothing kills it


def test_a_lora_begins_at_zero_and_every_adapter_acts(whole):
    """The last block reads one token only: its fused weight must not be read past the adapter."""
    values = whole["early_singular_values"].values
    assert np.all(values[0] == 0)
    assert whole["early_epochs"].values[1] == 1 / 14  # the first step of an epoch's 14
    assert np.all(values[1, :, 0] > 0)
    # Adding BA = 0 changes nothing, but the products are summed in another order.
    assert whole["lora_loss"].values[0] == pytest.approx(whole["loss"].values[0], rel=1e-6)
    ranks = (values[-1] > 0).sum(1)
    assert np.array_equal(ranks, whole["advised_ranks"].values)


def test_adapters_do_what_their_product_does():
    """A network with adapters computes what it would with B A added to its matrices; nothing else is trained."""
    spec = LoRASpec(**LoRA.presets["tiny"]).stage(2, 0.1)
    torch.manual_seed(0)
    network = VisionTransformer(spec, 1, 8, 8, 10).eval()
    for parameter in (network.cls_token, network.pos_embed):
        torch.nn.init.normal_(parameter)
    merged = copy.deepcopy(network)
    config = {"target_modules": ["qkv", "proj", "mlp.0", "mlp.2", "head"], "lora_dropout": 0.0}
    adapted = with_adapters(of_one_rank(config, 2), seed=0)(network).eval()
    trained = {name for name, parameter in adapted.named_parameters() if parameter.requires_grad}
    assert trained == {name for name, _ in adapted.named_parameters() if ".lora_" in name}
    tensors = dict(adapted.named_parameters())
    for name, parameter in merged.named_parameters():
        a = tensors.get(f"base_model.model.{name.removesuffix('.weight')}.lora_A.default.weight")
        if a is not None:
            b = tensors[f"base_model.model.{name.removesuffix('.weight')}.lora_B.default.weight"]
            torch.nn.init.normal_(b)
            parameter.data += b.data @ a.data
    images = torch.randn(3, 1, 8, 8)
    assert torch.allclose(adapted(images), merged(images), atol=1e-4)  # 32 bits


def test_the_start_of_adapters_depends_on_the_seed_alone():
    spec = LoRASpec(**LoRA.presets["tiny"]).stage(2, 0.1)

    def factors(seed):
        torch.rand(1)  # whatever was drawn before
        network = VisionTransformer(spec, 1, 8, 8, 10)
        adapted = with_adapters({"r": 2, "target_modules": ["qkv"]}, seed)(network)
        return [p for name, p in adapted.named_parameters() if "lora_A" in name]

    state = torch.get_rng_state()
    assert all(map(torch.equal, factors(1), factors(1)))
    assert not any(map(torch.equal, factors(1), factors(2)))
    torch.set_rng_state(state)


def test_all_directions_are_the_fine_tuned_network(whole):
    assert whole["kept_loss"].values[-1] == judged(whole, "loss", "full")
    assert judged(whole, "loss", "full") < judged(whole, "loss", "cut") < judged(whole, "loss", "start")


def test_ranks_by_matrix():
    rng = torch.Generator().manual_seed(0)
    start, end = ({name: torch.randn(5, 4, generator=rng) for name in "ab"} for _ in range(2))
    found = cut(start, end, directions_of(start, end, "ab"), {"a": 2, "b": 4})
    assert torch.equal(found["b"], end["b"])
    left = torch.linalg.svdvals(end["a"] - found["a"])
    expected = torch.linalg.svdvals(end["a"] - start["a"])[2:]
    assert torch.allclose(left[:2], expected, atol=1e-5)  # 32 bits


def test_turned_images_keep_their_labels():
    images = load_images("digits")
    other = turned(images)
    for name in ("train_pixels", "test_pixels"):
        assert np.array_equal(getattr(other, name)[7, 0], np.rot90(getattr(images, name)[7, 0]))
    assert np.array_equal(other.train_labels, images.train_labels)


def test_a_full_fine_tuning_that_diverges_is_a_result():
    study = LoRA(STUDY.spec.replace(tune_learning_rate=1e30))
    run = study.training.train(0, None, silent)
    check_trained(run)
    assert run.attrs["result"].startswith("full fine-tuning diverged")
    assert not run["advised_ranks"].values.any()
    assert np.isnan(judged(run, "loss", "lora"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"energy": 0.0}, "`energy` must be above 0"),
        ({"energy": 1.5}, "`energy` must be above 0"),
        ({"small_rank": 0}, "`small_rank` must be at least 1"),
        ({"tune_epochs": 1}, "`tune_epochs` must be above `warmup_epochs`"),
        ({"epochs": 0, "warmup_epochs": 0}, "`epochs` must be at least 1"),
        ({"lora_learning_rate": 0}, "`lora_learning_rate` must be positive"),
    ],
)
def test_bad_fields_are_refused(fields, words):
    with pytest.raises(BadArgument, match=words):
        STUDY.spec.replace(**fields)


# ---- claims, on runs with a known answer -----------------------------------------------------------------


def planted(whole, **arrays) -> list[Run]:
    """Two runs in which a LoRA does as well as all weights, with other arrays in the place of some."""
    good = {
        "judged_loss": [0.1, 0.12, 0.15, 0.14, 0.6, 4.0],  # of NETWORKS
        "judged_test_accuracy": [0.96, 0.95, 0.95, 0.95, 0.8, 0.1],
        "kept_loss": np.geomspace(4, 0.1, whole.sizes["cut"]),
        **arrays,
    }
    run = whole.copy(deep=True)
    for name, values in good.items():
        run[name] = (run[name].dims, np.broadcast_to(np.asarray(values, float), run[name].shape).copy())
    return [run_of(run.assign_attrs(seed=seed), STUDY) for seed in range(2)]


def growing(whole, *delays) -> np.ndarray:
    """Singular values [moment, module, mode] of directions that rise one epoch after the other, or together."""
    epochs, modes = whole["early_epochs"].values, whole.sizes["mode"]
    late = np.resize(delays, modes)
    sizes = np.minimum(1, np.maximum(0, epochs[:, None] - late)) / np.arange(1, modes + 1)
    return np.broadcast_to(sizes[:, None], whole["early_singular_values"].shape)


def ranks(whole, name, values) -> np.ndarray:
    return np.resize(values, whole[name].shape[0])[:, None]


CASES = {
    "lora_rank_holds": {"judged_loss": [0.1, 0.12, 1.0, 0.14, 0.6, 4.0]},
    "lora_recovers": {"judged_loss": [0.1, 0.12, 0.15, 1.0, 0.6, 4.0]},
    "lora_generalises": {"judged_test_accuracy": [0.96, 0.95, 0.95, 0.9, 0.8, 0.1]},
    "lora_needs_less": {"kept_loss": 0.3},
}


@pytest.mark.parametrize("name", CASES)
def test_claims_go_either_way(whole, name):
    good, bad = planted(whole), planted(whole, **CASES[name])
    assert judge(BY_NAME[name], good).verdict == "supported"
    assert judge(BY_NAME[name], bad).verdict == "refuted"
    assert not survivors([BY_NAME[name]], good)


def test_growth_one_by_one_or_together(whole):
    in_turn, at_once = (
        planted(whole, early_singular_values=growing(whole, *delays)) for delays in ((0.0, 0.8, 1.6), (0.0, 0.0))
    )
    assert second_direction(in_turn[0]) == 0
    assert second_direction(at_once[0]) == pytest.approx(0.5)
    for runs, order, together in ((in_turn, "supported", "refuted"), (at_once, "refuted", "supported")):
        assert judge(BY_NAME["lora_one_at_a_time"], runs).verdict == order
        assert judge(BY_NAME["lora_together"], runs).verdict == together
    assert not survivors([BY_NAME["lora_one_at_a_time"]], in_turn)
    assert not survivors([BY_NAME["lora_together"]], at_once)


def test_a_module_of_rank_one_has_no_second_direction(whole):
    values = growing(whole, 0.0, 0.8).copy()
    values[:, 0, 1:] = 0.0
    advised = np.full(whole.sizes["module"], 2)
    advised[0] = 1
    (run, _) = planted(whole, early_singular_values=values, advised_ranks=advised)
    assert second_direction(run) == 0
    (alone, _) = planted(whole, early_singular_values=values, advised_ranks=1)
    assert np.isnan(second_direction(alone))


def test_rank_that_grows_or_recovers(whole):
    growth, dip = (
        planted(
            whole,
            early_stable_rank=ranks(whole, "early_stable_rank", [0.0, first, 1.0]),
            lora_stable_rank=ranks(whole, "lora_stable_rank", over_epochs),
        )
        for first, over_epochs in ((1.0, [0.0, 1.2, 1.5, 2.0]), (3.0, [0.0, 1.5, 1.6, 2.0]))
    )
    for runs, grows, recovers in ((growth, "supported", "refuted"), (dip, "refuted", "supported")):
        assert judge(BY_NAME["lora_rank_grows"], runs).verdict == grows
        assert judge(BY_NAME["lora_rank_recovers"], runs).verdict == recovers
    assert not survivors([BY_NAME["lora_rank_recovers"]], dip)


def test_the_figure_is_drawn(whole):
    from saddlescope.show.style import svg_of

    runs = [run_of(whole, STUDY)]
    assert "</svg>" in svg_of(FIGURE, {"lora": runs})
