"""Series of checkpoints: a real, short training, read back from disk, whole and spoiled in every way that is known."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from saddlescope.core.errors import BadArgument
from saddlescope.watch.integrity import breaks, strays
from saddlescope.watch.order import find_series
from saddlescope.watch.series import draw_series, read_series
from saddlescope.watch.trajectory import place_of

from .models import dense_products, tiny_gpt2
from .test_diff import shows_well

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

STEPS = (0, 1, 2, 4, 8, 16, 32, 64)
HEADS, WIDTH = 4, 32


def train(folder, seed, steps=STEPS):
    """On random tokens, with warmup and decay, saved at `steps`."""
    torch.set_num_threads(1)
    model = tiny_gpt2(seed, vocab_size=50, n_positions=16, n_embd=WIDTH, n_head=HEADS).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps[-1] + 1):
        if step in steps:
            model.save_pretrained(folder / f"checkpoint-{step}")
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1.0, (step + 1) / 10) * (1 - step / (steps[-1] + 1))
        tokens = torch.randint(0, 50, (4, 16))
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    train(folder, seed=0)
    return folder


@pytest.fixture(scope="module")
def sound(run):
    return read_series([run])


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign")
    train(folder, seed=1, steps=(0, 8, 16))
    return folder


@pytest.fixture
def spoiled(run, tmp_path):
    return shutil.copytree(run, tmp_path / "run")


def weights(folder, step):
    return folder / f"checkpoint-{step}" / "model.safetensors"


def rewrite(path, change):
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


def found(series):
    return {(finding.kind, finding.steps) for finding in series.findings}


# ---- a sound series --------------------------------------------------------------------------------------


def test_singular_values_against_dense_products(run, sound):
    trajectory = sound.trajectory.transpose("time", "layer", "circuit", "head", "mode")
    assert list(trajectory["circuit"]) == ["QK", "OV"]
    ends = np.array([dense_products(load_file(weights(run, step)), HEADS) for step in STEPS])
    exact = np.linalg.svd(ends - ends[0], compute_uv=False)
    # The dense difference has the errors of its products: 1e-15 of what is seen here.
    values = exact[..., : 2 * WIDTH // HEADS]
    assert (np.abs(trajectory["singular_values"].values - values) <= 1e-12 * exact[..., :1]).all()
    relative = np.linalg.norm(exact, axis=-1) / np.linalg.norm(ends[0], axis=(-2, -1))
    np.testing.assert_allclose(trajectory["relative_change"], relative, rtol=1e-10, atol=1e-12)


def test_clean_run_has_no_findings(sound):
    assert sound.findings == []
    assert [step for step, _ in sound.checkpoints] == list(sound.trajectory["time"].values) == list(STEPS)
    assert (sound.trajectory["singular_values"].values[0] == 0).all()
    assert sound.stages and all(0 <= (one.stage.time or 0) <= STEPS[-1] for one in sound.stages)


def test_few_modes_leave_ranks_as_they_are(run, sound):
    one_mode = read_series([run], modes=1).trajectory
    assert one_mode.sizes["mode"] == 1
    for name in ("stable_rank", "entropy_rank", "relative_change"):
        np.testing.assert_allclose(one_mode[name], sound.trajectory[name], rtol=1e-12)
    with pytest.raises(BadArgument, match="`modes`"):
        read_series([run], modes=0)


def test_json(sound):
    told = json.loads(json.dumps(sound.to_dict(), allow_nan=False))
    assert told["family"] == "gpt2"
    assert [one["step"] for one in told["checkpoints"]] == list(STEPS)
    assert set(told["stages"][0]) == {"layer", "circuit", "head", "direction", "step", "singular_value"}
    assert {type(stage["layer"]) for stage in told["stages"]} == {int}  # as `diff` has it
    assert len(told["growth"]) == 2 * len(STEPS)
    assert told["growth"][0]["stable_rank_median"] is None and told["growth"][0]["relative_change_median"] == 0
    assert 1 <= told["growth"][-1]["stable_rank_median"] <= 2 * WIDTH // HEADS


def test_progress_rises_to_the_end(run):
    shares = []
    read_series([run], tick=lambda share, words: shares.append(share))
    assert shares == sorted(shares) and 0.9 < shares[-1] < 1


def test_frozen_tensors_are_a_note(spoiled):
    start, name = load_file(weights(spoiled, 0)), "transformer.wte.weight"
    for step in STEPS[1:]:
        rewrite(weights(spoiled, step), lambda tensors: tensors.update({name: start[name]}))
    series = read_series([spoiled])
    assert series.findings == []
    assert any("1 of" in note and f"never change: {name}" in note for note in series.notes)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_figure(sound, tmp_path, suffix):
    path = draw_series(sound, tmp_path / f"growth{suffix}")
    assert path.stat().st_size > 10_000
    with pytest.raises(BadArgument, match="must end in"):
        draw_series(sound, tmp_path / "growth.txt")


def test_files_of_torch_beside_one_config(run, tmp_path):
    shutil.copy(run / "checkpoint-0" / "config.json", tmp_path)
    for step in (0, 8, 64):
        state = {f"module.{name}": torch.from_numpy(array) for name, array in load_file(weights(run, step)).items()}
        torch.save({"step": step, "model": state}, tmp_path / f"ckpt_{step}.pt")
    kept = [run / f"checkpoint-{step}" for step in (0, 8, 64)]
    torch_files, folders = read_series([tmp_path]), read_series(kept)
    assert torch_files.findings == []
    np.testing.assert_array_equal(torch_files.trajectory["singular_values"], folders.trajectory["singular_values"])


def test_wrapped_names_are_the_same_tensors(spoiled):
    def wrap(tensors):
        for name in list(tensors):
            tensors[f"module.{name}"] = tensors.pop(name)

    rewrite(weights(spoiled, 16), wrap)
    series = read_series([spoiled])
    assert series.findings == []
    assert np.isfinite(series.trajectory["singular_values"].sel(time=16)).all()


def test_heads_a_few_at_a_time_are_the_same(run, sound, monkeypatch):
    monkeypatch.setattr("saddlescope.spectra.heads.WIDE_BYTES", 1)
    few = read_series([run]).trajectory["singular_values"]
    np.testing.assert_array_equal(few, sound.trajectory["singular_values"])


def test_layers_of_several_stacks_are_numbers_too():
    assert place_of("3") == {"layer": 3}
    assert place_of("vision_tower.encoder.11") == {"layer": 11, "stack": "vision_tower.encoder"}


def test_a_series_shows_itself(sound, spoiled):
    words, axes, table = shows_well(sound)
    assert "8 checkpoints, steps 0 to 64" in words and "no duplicates" in words
    assert len(axes.lines) == 2 * 2  # a line for each layer and circuit
    assert len(table) == len(STEPS) * 2 * 2 * HEADS
    one = table[(table["step"] == 64) & (table["layer"] == 1) & (table["circuit"] == "OV") & (table["head"] == 3)]
    there = sound.trajectory.sel(time=64, layer="1", circuit="OV").isel(head=3)
    assert one["stable_rank"].item() == float(there["stable_rank"])
    shutil.copy(weights(spoiled, 8), weights(spoiled, 16))
    words, axes, _ = shows_well(read_series([spoiled]))
    assert "identical: steps 8, 16" in words and len(axes.lines) == 2 * 2 + 2


# ---- spoiled ones ----------------------------------------------------------------------------------------


def test_same_content_under_two_steps(spoiled):
    shutil.copy(weights(spoiled, 8), weights(spoiled, 16))
    assert found(read_series([spoiled])) == {("identical", (8, 16))}


@pytest.mark.parametrize(("place", "other"), [(1, 8), (8, 8), (16, 16), (64, 16)])
def test_checkpoint_of_another_run(spoiled, foreign, place, other):
    shutil.copy(weights(foreign, other), weights(spoiled, place))
    assert found(read_series([spoiled])) == {("jump", (place,))}


def test_first_of_another_run(spoiled, foreign):
    """Every change counts from it: all that can be told is that no training begins so."""
    shutil.copy(weights(foreign, 0), weights(spoiled, 0))
    shutil.copytree(spoiled / "checkpoint-64", spoiled / "checkpoint-128")
    later = {name: array * np.float32(1.01) for name, array in load_file(weights(spoiled, 64)).items()}
    save_file(later, weights(spoiled, 128), metadata={"format": "pt"})
    assert ("start", (0,)) in found(read_series([spoiled]))


def wandering(steps, seed, draws=4000):
    """Places of a training that drifts and wanders, fast at first or after a warmup."""
    rng = np.random.default_rng(seed)
    drift = rng.normal(size=draws)
    place, found = np.zeros(draws), []
    for step in range(steps[-1] + 1):
        if step in steps:
            found.append(place.copy())
        rate = min(1.0, (step + 1) / 30) * (1.02 - step / steps[-1])
        place += rate * (0.3 * np.exp(-step / 100) * drift + rng.normal(size=draws))
    return np.array(found)


def geometry_of(places):
    change = places - places[0]
    gram = change @ change.T
    size = np.sqrt(np.diag(gram))
    with np.errstate(invalid="ignore"):
        angle = np.degrees(np.arccos(np.clip(gram / np.outer(size, size), -1, 1)))
    return np.linalg.norm(places[:, None] - places, axis=-1), angle


@pytest.mark.parametrize("steps", [(0, 1, 2, 4, 8, 16, 32, 64, 128, 256), tuple(range(0, 301, 30)), (10, 20, 300)])
def test_steps_of_one_training_are_in_line(steps):
    distance, angle = geometry_of(wandering(steps, seed=0))
    assert strays(distance, angle) == []
    assert breaks(steps, distance, angle) == []


@pytest.mark.parametrize("block", [[4], [7], [3, 4], [5, 6, 7]], ids=str)
def test_steps_of_another_training_stray(block):
    steps = tuple(range(0, 301, 30))
    places = wandering(steps, seed=0)
    places[block] = wandering(steps, seed=1)[block]
    assert strays(*geometry_of(places)) == [block]


@pytest.mark.parametrize("place", [5, 10])
def test_training_that_becomes_another_breaks(place):
    steps = tuple(range(0, 301, 30))
    places = wandering(steps, seed=0)
    places[place:] = wandering(steps, seed=1)[place:]
    distance, angle = geometry_of(places)
    assert strays(distance, angle) == []
    assert breaks(steps, distance, angle) == [place]


def test_swapped_steps(spoiled):
    first, second = load_file(weights(spoiled, 2)), load_file(weights(spoiled, 64))
    rewrite(weights(spoiled, 2), lambda tensors: tensors.update(second))
    rewrite(weights(spoiled, 64), lambda tensors: tensors.update(first))
    findings = found(read_series([spoiled]))
    assert {kind for kind, _ in findings} <= {"jump", "order"} and any(2 in steps for _, steps in findings)


IN, OUT = "transformer.h.1.attn.c_attn.weight", "transformer.h.0.attn.c_proj.weight"


def spoils_one_number(value):
    def spoil(tensors):
        tensors[OUT][3, 5] = value

    return spoil


@pytest.mark.parametrize(
    ("spoil", "kind", "tensor", "lost"),
    [
        (lambda tensors: tensors.pop(IN), "missing", IN, "1"),
        (lambda tensors: tensors.update(added=np.zeros(3, np.float32)), "extra", "added", ""),
        (spoils_one_number(np.nan), "not finite", OUT, "0"),
    ],
)
def test_a_spoiled_tensor_costs_its_layer(spoiled, spoil, kind, tensor, lost):
    rewrite(weights(spoiled, 8), spoil)
    series = read_series([spoiled])
    (finding,) = series.findings
    assert (finding.kind, finding.steps, finding.tensors) == (kind, (8,), (tensor,))
    for name in ("singular_values", "stable_rank"):
        for layer in "01":
            as_it_is = np.isnan if layer == lost else np.isfinite
            assert as_it_is(series.trajectory[name].sel(time=8, layer=layer)).all()


def test_not_finite_at_the_start(spoiled, tmp_path):
    rewrite(weights(spoiled, 0), spoils_one_number(np.inf))
    series = read_series([spoiled])
    assert found(series) == {("not finite", (0,))}
    assert np.isnan(series.trajectory["stable_rank"].sel(layer="0")).all()
    assert np.isfinite(series.trajectory["stable_rank"].sel(layer="1")).all()
    json.dumps(series.to_dict(), allow_nan=False)
    assert draw_series(series, tmp_path / "growth.png").is_file()


def test_other_shape_and_dtype(spoiled):
    def spoil(tensors):
        tensors["transformer.wte.weight"] = np.vstack([tensors["transformer.wte.weight"]] * 2)
        tensors["transformer.wpe.weight"] = tensors["transformer.wpe.weight"].astype(np.float16)

    rewrite(weights(spoiled, 4), spoil)
    half = {"transformer.wpe.weight": np.full((16, WIDTH), np.inf, np.float16)}
    rewrite(weights(spoiled, 8), lambda tensors: tensors.update(half))
    assert found(read_series([spoiled])) == {("shape", (4,)), ("dtype", (4, 8)), ("not finite", (8,))}


@pytest.mark.parametrize("step", [0, 4])
def test_truncated_file(spoiled, step):
    path = weights(spoiled, step)
    path.write_bytes(path.read_bytes()[:-100])
    series = read_series([spoiled])
    assert found(series) == {("unreadable", (step,))}
    assert str(path.parent) in series.findings[0].message
    assert [one for one, _ in series.checkpoints] == [other for other in STEPS if other != step]


def test_too_few_that_can_be_read(run, tmp_path):
    (tmp_path / "checkpoint-5").mkdir()
    with pytest.raises(BadArgument, match="needs two checkpoints of whole models that can be read, got 1: step 5"):
        read_series([run / "checkpoint-0", tmp_path / "checkpoint-5"])


# ---- arguments -------------------------------------------------------------------------------------------


def test_two_in_any_order(run):
    series = read_series([run / "checkpoint-64", run / "checkpoint-0"])
    assert [step for step, _ in series.checkpoints] == [0, 64]
    assert series.findings == []


def test_unknown_family(tmp_path):
    for step in (0, 1):
        save_file({"mystery": np.eye(4, dtype=np.float32) * (step + 1)}, tmp_path / f"step{step}.safetensors")
    with pytest.raises(BadArgument, match="no known attention layers"):
        read_series([tmp_path])


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        (["step_1000", "step_200"], [200, 1000]),
        (["step1000", "step512", "step0"], [0, 512, 1000]),
        (["global_step20", "global_step3"], [3, 20]),
        (["epoch-3", "epoch-10"], [3, 10]),
        (["epoch=0-step=50.ckpt", "epoch=1-step=7.ckpt"], [7, 50]),
        (["ckpt_1000.pt", "ckpt_20.pt"], [20, 1000]),
        (["iter_0000100", "iter_0000020"], [20, 100]),
        (["step1000-tokens4B", "step9000-tokens37B"], [1000, 9000]),
        (["checkpoint-2k", "checkpoint-500"], [500, 2000]),
        (["300", "20"], [20, 300]),
        (["weights_300.safetensors", "weights_20.safetensors"], [20, 300]),
    ],
    ids=lambda value: str(value[0]),
)
def test_order_by_names(tmp_path, names, steps):
    for name in names:
        path = tmp_path / name
        path.touch() if path.suffix else path.mkdir()
    for given in ([tmp_path], [tmp_path / name for name in names], [tmp_path / name for name in reversed(names)]):
        order = find_series(given)
        assert [step for step, _ in order.checkpoints] == steps
        assert not order.findings


def test_names_are_believed_before_trainer_states(tmp_path):
    for name, step in (("epoch-1", 700), ("epoch-2", 1400), ("checkpoint-2000", 2100)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    order = find_series([tmp_path])
    assert [step for step, _ in order.checkpoints] == [700, 1400, 2000]
    assert [(finding.kind, finding.steps) for finding in order.findings] == [("misnamed", (2000,))]


def test_command_writes_what_it_found(run, tmp_path, call, answer, refusal):
    """The trajectory as a file that xarray reads, lists of words included."""
    import xarray

    told = answer("series", run, "--out", tmp_path / "growth.nc")
    stored = xarray.load_dataset(tmp_path / "growth.nc", engine="scipy")
    assert list(stored["time"].values) == [one["step"] for one in told["checkpoints"]]
    assert json.loads(stored.attrs["notes"]) is not None
    code, out, _ = call("series", run)
    assert code == 0 and "checkpoints: no duplicates" in out
    assert "no file or folder" in refusal("series", "nowhere")


def test_order_without_steps_in_names():
    assert find_series(["b", "a"], [20, 10]).checkpoints == [(10, "a"), (20, "b")]
    order = find_series(["early", "late", "final"])
    assert order.checkpoints == [(0, "early"), (1, "late"), (2, "final")]
    assert "the order given" in order.notes[0]
    order = find_series(["gpt2", "org/tuned@step20", "org/tuned@step10"])  # the base comes first
    assert order.checkpoints == [(0, "gpt2"), (10, "org/tuned@step10"), (20, "org/tuned@step20")]
    assert "step 0" in order.notes[0]


@pytest.mark.parametrize(
    ("folders", "steps", "words"),
    [
        ([], None, "at least two checkpoints, got 0"),
        (["step1"], None, "no file or folder"),
        (["a/step1", "b/step1"], None, "both have step 1"),
        (["step1", "epoch1"], None, "counts epochs"),
        (["step1", "final"], None, "final has no step"),
        (["a", "b"], [1], "one for each of 2 checkpoints, got 1"),
        (["a", "b"], [1, 1.5], "whole numbers"),
        (["a", "b"], [1, 1], "both have step 1"),
    ],
)
def test_refusals(folders, steps, words):
    with pytest.raises(BadArgument, match=words):
        find_series(folders, steps)
