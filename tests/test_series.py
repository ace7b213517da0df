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

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

STEPS = (0, 1, 2, 4, 8, 16, 32, 64)
HEADS, WIDTH = 4, 32


def train(folder, seed, steps=STEPS, name="checkpoint-{}"):
    """A tiny GPT-2 on random tokens, with warmup and decay, saved at `steps`."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    config = transformers.GPT2Config(
        vocab_size=50, n_positions=16, n_embd=WIDTH, n_layer=2, n_head=HEADS, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps[-1] + 1):
        if step in steps:
            model.save_pretrained(folder / name.format(step))
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


def test_singular_values_against_dense_products(run):
    series = read_series([run])
    ends = [load_file(weights(run, step)) for step in STEPS]
    for layer in range(2):
        for moment in range(len(STEPS)):
            for head in range(HEADS):
                for circuit in ("QK", "OV"):
                    change = dense(ends[moment], layer, head, circuit) - dense(ends[0], layer, head, circuit)
                    exact = np.linalg.svd(change, compute_uv=False)[: 2 * WIDTH // HEADS]
                    one = series.trajectory.sel(layer=str(layer), circuit=circuit).isel(time=moment, head=head)
                    start = np.linalg.norm(dense(ends[0], layer, head, circuit))
                    # The dense difference has the errors of its products: 1e-15 of what is seen here.
                    np.testing.assert_allclose(one["singular_values"], exact, rtol=0, atol=1e-12 * exact[0])
                    assert float(one["relative_change"]) == pytest.approx(np.linalg.norm(change) / start, rel=1e-10)


def dense(tensors, layer, head, circuit):
    """GPT-2 keeps W_Q, W_K, W_V side by side, [in, 3 out]."""
    size = WIDTH // HEADS
    fused = tensors[f"transformer.h.{layer}.attn.c_attn.weight"].astype(np.float64)
    query, key, value = (fused[:, part * WIDTH + head * size :][:, :size] for part in range(3))
    output = tensors[f"transformer.h.{layer}.attn.c_proj.weight"].astype(np.float64)[head * size :][:size]
    return query @ key.T if circuit == "QK" else value @ output


def test_clean_run_has_no_findings(run):
    series = read_series([run])
    assert series.findings == []
    assert [step for step, _ in series.checkpoints] == list(STEPS)
    assert list(series.trajectory["time"].values) == list(STEPS)
    assert (series.trajectory["singular_values"].values[0] == 0).all()
    assert series.stages and all(0 <= (one.stage.time or 0) <= STEPS[-1] for one in series.stages)


def test_few_modes_leave_ranks_as_they_are(run):
    all_modes, one_mode = read_series([run]), read_series([run], modes=1)
    assert one_mode.trajectory.sizes["mode"] == 1
    for name in ("stable_rank", "entropy_rank", "relative_change"):
        np.testing.assert_allclose(one_mode.trajectory[name], all_modes.trajectory[name], rtol=1e-12)


def test_json(run):
    told = json.loads(json.dumps(read_series([run]).to_dict(), allow_nan=False))
    assert told["family"] == "gpt2"
    assert [one["step"] for one in told["checkpoints"]] == list(STEPS)
    assert set(told["stages"][0]) == {"layer", "circuit", "head", "direction", "step", "singular_value"}
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
def test_figure(run, tmp_path, suffix):
    path = draw_series(read_series([run]), tmp_path / f"growth{suffix}")
    assert path.stat().st_size > 10_000
    with pytest.raises(BadArgument, match="must end in"):
        draw_series(read_series([run / "checkpoint-0", run / "checkpoint-1"]), tmp_path / "growth.txt")


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


def test_heads_a_few_at_a_time_are_the_same(run, monkeypatch):
    at_once = read_series([run])
    monkeypatch.setattr("saddlescope.spectra.heads.WIDE_BYTES", 1)
    np.testing.assert_array_equal(
        read_series([run]).trajectory["singular_values"], at_once.trajectory["singular_values"]
    )


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
    rewrite(weights(spoiled, 128), lambda tensors: tensors.update(more(tensors)))
    assert ("start", (0,)) in found(read_series([spoiled]))


def more(tensors):
    return {name: (array * np.float32(1.01)).astype(np.float32) for name, array in tensors.items()}


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
    first, second = weights(spoiled, 2), weights(spoiled, 64)
    aside = spoiled / "aside"
    shutil.move(first, aside)
    shutil.move(second, first)
    shutil.move(aside, second)
    kinds = {kind for kind, _ in found(read_series([spoiled]))}
    assert kinds <= {"jump", "order"} and kinds
    assert any(2 in steps for _, steps in found(read_series([spoiled])))


def test_missing_tensor(spoiled):
    name = "transformer.h.1.attn.c_attn.weight"
    rewrite(weights(spoiled, 8), lambda tensors: tensors.pop(name))
    series = read_series([spoiled])
    (finding,) = series.findings
    assert (finding.kind, finding.steps, finding.tensors) == ("missing", (8,), (name,))
    values = series.trajectory["singular_values"].sel(time=8)
    assert np.isnan(values.sel(layer="1")).all() and np.isfinite(values.sel(layer="0")).all()


def test_extra_tensor(spoiled):
    rewrite(weights(spoiled, 8), lambda tensors: tensors.update(added=np.zeros(3, np.float32)))
    (finding,) = read_series([spoiled]).findings
    assert (finding.kind, finding.steps, finding.tensors) == ("extra", (8,), ("added",))


def test_not_finite(spoiled):
    name = "transformer.h.0.attn.c_proj.weight"

    def spoil(tensors):
        tensors[name][3, 5] = np.nan

    rewrite(weights(spoiled, 16), spoil)
    series = read_series([spoiled])
    (finding,) = series.findings
    assert (finding.kind, finding.steps, finding.tensors) == ("not finite", (16,), (name,))
    assert np.isnan(series.trajectory["stable_rank"].sel(time=16, layer="0")).all()
    assert np.isfinite(series.trajectory["stable_rank"].sel(time=16, layer="1")).all()


def test_not_finite_at_the_start(spoiled, tmp_path):
    def spoil(tensors):
        tensors["transformer.h.0.attn.c_proj.weight"][3, 5] = np.inf

    rewrite(weights(spoiled, 0), spoil)
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
    assert found(read_series([spoiled])) == {("shape", (4,)), ("dtype", (4,))}


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


def test_command_writes_what_it_found(run, tmp_path, capsys):
    """The trajectory as a file that xarray reads, lists of words included."""
    import xarray

    from saddlescope import cli

    assert cli.run(["series", str(run), "--out", str(tmp_path / "growth.nc"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    stored = xarray.load_dataset(tmp_path / "growth.nc", engine="scipy")
    assert list(stored["time"].values) == [one["step"] for one in told["checkpoints"]]
    assert json.loads(stored.attrs["notes"]) is not None
    assert cli.run(["series", str(run)]) == 0 and "checkpoints: no duplicates" in capsys.readouterr().out
    assert cli.run(["series", "nowhere"]) == 2 and "no file or folder" in capsys.readouterr().err


def test_order_given_where_names_have_no_steps():
    order = find_series(["early", "late", "final"])
    assert order.checkpoints == [(0, "early"), (1, "late"), (2, "final")]
    assert "the order given" in order.notes[0]


def test_base_model_is_step_zero():
    order = find_series(["gpt2", "org/tuned@step20", "org/tuned@step10"])
    assert order.checkpoints == [(0, "gpt2"), (10, "org/tuned@step10"), (20, "org/tuned@step20")]
    assert "step 0" in order.notes[0]


def test_steps_given():
    assert find_series(["b", "a"], [20, 10]).checkpoints == [(10, "a"), (20, "b")]


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


def test_no_modes(run):
    with pytest.raises(BadArgument, match="`modes`"):
        read_series([run], modes=0)
