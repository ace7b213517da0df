"""Comparing checkpoints: what is found, what is advised, what PEFT makes of it, and what is refused."""

from __future__ import annotations

import itertools
import json
import math
import re
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from saddlescope.checkpoints.advice import advise
from saddlescope.checkpoints.diff import diff
from saddlescope.checkpoints.extract import extract
from saddlescope.checkpoints.lora import allocate, ranks_for_energy
from saddlescope.checkpoints.match import by_number, matched_names
from saddlescope.show.weights import Group, _held
from saddlescope.spectra.matrix import MatrixChange

from .models import MODELS, dense_products, tiny
from .planted import FORMATS, plain

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")


def weights_of(model):
    return {name: tensor.detach().clone().double() for name, tensor in model.state_dict().items()}


def from_folder(family, folder):
    return getattr(transformers, MODELS[family][0]).from_pretrained(folder)


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def pair(request, tmp_path_factory):
    """A base, the same after a change of every tensor, and both folders."""
    folder = tmp_path_factory.mktemp(request.param)
    model = tiny(request.param)
    model.save_pretrained(folder / "base")
    before = weights_of(model)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                low = torch.randn(parameter.shape[0], 3) @ torch.randn(3, parameter.shape[1])
                parameter += 0.002 * low + 0.0005 * torch.randn_like(parameter)
            else:
                parameter += 0.001 * torch.randn_like(parameter)
    model.save_pretrained(folder / "tuned")
    return request.param, folder, before, weights_of(model)


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.fixture
def ends(tmp_path):
    """Two files that hold these tensors."""

    def write(base, tuned):
        files = [tmp_path / "base.safetensors", tmp_path / "tuned.safetensors"]
        for file, tensors in zip(files, (base, tuned), strict=True):
            save_file(tensors, file)
        return files

    return write


def adapted(model, targets, drawn, **options):
    """With a LoRA whose factors B, which PEFT leaves at zero, are `drawn`."""
    transposed = model.config.model_type == "gpt2"
    model = peft.get_peft_model(model, peft.LoraConfig(target_modules=targets, fan_in_fan_out=transposed, **options))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.copy_(drawn(parameter))
    return model


# ---- what is found ---------------------------------------------------------------------------------------


def test_modules_and_heads_against_dense(pair, answer):
    """Singular values of every matrix and every head's product to 1e-12 of the largest; fields as designed."""
    family, folder, before, after = pair
    found = answer("diff", folder / "base", folder / "tuned")
    assert found["family"] == family
    assert set(found) == {"base", "tuned", "family", "notes", "modules", "heads", "lora"}
    stored = load_file(folder / "base" / "model.safetensors")
    assert {module["name"] for module in found["modules"]} == {name for name in stored if stored[name].ndim == 2}
    for module in found["modules"]:
        change = (after[module["name"]] - before[module["name"]]).numpy()
        exact = np.linalg.svd(change, compute_uv=False)
        listed = np.array(module["singular_values"])
        assert np.abs(listed - exact[: len(listed)]).max() <= 1e-12 * exact[0]
        assert module["shape"] == list(change.shape) and module["dtype"] == "float32"
        size = np.linalg.norm(before[module["name"]].numpy())
        assert math.isclose(module["relative_change"], np.linalg.norm(change) / size, rel_tol=1e-9)
        assert math.isclose(module["stable_rank"], (exact**2).sum() / exact[0] ** 2, rel_tol=1e-9)
        assert module["rank_above_floor"] == len(exact)  # float32 hides nothing of this change
    heads = {(row["circuit"], row["layer"], row["head"]): row for row in found["heads"]}
    assert len(heads) == 2 * 2 * 4
    row = heads["OV", 1, 3]
    ends = [dense_ov(family, weights, layer=1, head=3) for weights in (before, after)]
    exact = np.linalg.svd(ends[1] - ends[0], compute_uv=False)
    assert np.abs(np.array(row["singular_values"]) - exact[: len(row["singular_values"])]).max() <= 1e-12 * exact[0]


def dense_ov(family, weights, layer, head):
    if family == "gpt2":
        return dense_products(weights, 4)[layer, 1, head]
    prefix = f"model.layers.{layer}.self_attn"
    value = weights[f"{prefix}.v_proj.weight"].numpy()[12 * (head // 2) : 12 * (head // 2 + 1)].T
    return value @ weights[f"{prefix}.o_proj.weight"].numpy()[:, 12 * head : 12 * (head + 1)].T


def test_table_notes_and_files(pair, tmp_path, call):
    family, folder, _, _ = pair
    command = ["diff", folder / "base", folder / "tuned", "--out"]
    code, out, _ = call(*command, tmp_path / "rows.csv", "--report", tmp_path / "page.html", "--lora")
    assert code == 0
    assert "above floor" in out and "LoRA ranks" in out and "vectors (biases" in out
    assert ("RoPE" in out) == (family == "llama")
    assert (tmp_path / "rows.csv").read_text().startswith("row,name,dtype,relative_change")
    assert "<svg" in (tmp_path / "page.html").read_text()
    pyarrow = pytest.importorskip("pyarrow.parquet")
    assert call(*command, tmp_path / "rows.parquet")[0] == 0
    rows = pyarrow.read_table(tmp_path / "rows.parquet").to_pylist()
    assert {row["row"] for row in rows} == {"module", "head"}
    assert len(rows[0]["singular_values"]) == 48


LONG = (
    "bert.encoder.layer.{}.attention.self.query.weight",
    "bert.encoder.layer.{}.attention.output.dense.weight",
    "bert.embeddings.word_embeddings.weight",
)


@pytest.mark.parametrize("layers", [3, 40])
@pytest.mark.parametrize("columns", [70, 80, 96, 140])
def test_table_fits_the_terminal(layers, columns, ends, call, monkeypatch):
    """Names are broken at dots and underscores; columns that are left out are not explained; those that decide the
    rank of a LoRA stay."""
    monkeypatch.setenv("COLUMNS", str(columns))
    base = {name.format(layer): draw(12, 12, seed=layer) for name in LONG for layer in range(layers)}
    tuned = {name: array + np.outer(draw(12, seed=1), draw(12, seed=2)) for name, array in base.items()}
    code, out, _ = call("diff", *ends(base, tuned))
    assert code == 0
    table, _, rest = out.partition("└")
    lines = [line for line in table.splitlines() if line[:1] in "┏┃┡│"]
    assert lines and max(map(len, lines)) <= columns and "…" not in table
    heads = [" ".join(words).strip() for words in zip(*(_cells(line) for line in lines if line[0] == "┃"), strict=True)]
    assert {"change", "stable rank", "rank 90%", "rank 99%", "above floor"} <= set(heads)
    for name in ("random", "entropy rank", "top / floor", "stable rank", "rank 90%", "above floor"):
        assert (f"{name}: " in rest) == (name in heads), name
    assert ("entropy rank" in heads) == (columns == 140)
    names = [_cells(line)[0] for line in lines if line[0] == "│"]
    for number, part in enumerate(names):
        # A line that goes on in the next ends where a name may be broken.
        goes_on = number + 1 < len(names) and not _cells(lines[number - len(names) + 1])[1]
        assert not goes_on or part[-1] in "._", part
    whole = "".join(names)
    assert "attention.self.query" in whole and "bert.embeddings.word_embeddings" in whole


def _cells(line):
    return [cell.strip() for cell in re.split("[┃│]", line)[1:-1]]


def test_columns_of_a_rank_for_a_share_of_the_energy(ends, call):
    """One strong direction and two weak ones: 90% in the first, 99% in all three; what the known top does not hold is
    more than it."""
    u, v = (np.linalg.qr(draw(40, 40, seed=seed))[0] for seed in (0, 1))
    change = (u[:, :3] * [1.0, 0.2, 0.2]) @ v[:, :3].T
    base = draw(40, 40, seed=2)
    _, out, _ = call("diff", *ends({"a.weight": base}, {"a.weight": base + change}))
    row = next(line for line in out.splitlines() if line.startswith("│ a "))
    assert _cells(row)[4:7] == ["1", "3", "3"]
    modules = [{"energy_rank_99": None, "singular_values": [1.0] * 64}, {"energy_rank_99": 5, "singular_values": [1.0]}]
    assert [_held(Group("a", modules[place:]), "energy_rank_99") for place in (0, 1)] == ["> 64", "5"]


def test_names_under_another_prefix():
    base = ["h.0.attn.weight", "h.1.attn.weight", "ln_f.weight"]
    tuned = [f"_orig_mod.transformer.{name}" for name in base] + ["lm_head.weight"]
    assert matched_names(base, tuned) == {name: f"_orig_mod.transformer.{name}" for name in base}
    assert matched_names(base, base) == {name: name for name in base}
    assert matched_names(base, ["other.weight"]) == {}
    assert sorted(["h.10.a", "h.9.b", "h.9.a", "wte"], key=by_number) == ["h.9.a", "h.9.b", "h.10.a", "wte"]


def test_odd_tensors_are_listed_never_fatal(ends):
    """Resized embeddings, experts in a stack, kernels, vectors, buffers, tensors that only one end has."""
    base = {
        "wte.weight": draw(30, 8),
        "mlp.experts.up": draw(3, 8, 12),
        "conv.weight": draw(6, 3, 2, 2),
        "norm.weight": draw(8),
        "mask": np.ones((1, 1, 8, 8), np.float32),
        "ids": np.arange(12).reshape(3, 4),
        "old.weight": draw(4, 4),
        "shape.weight": draw(4, 6),
    }
    moved = {name: array + draw(*array.shape, seed=1) for name, array in base.items() if name != "ids"}
    tuned = {**moved, "ids": base["ids"], "shape.weight": draw(6, 4), "lm_head.weight": draw(30, 8)}
    tuned["wte.weight"] = np.concatenate([moved["wte.weight"], draw(2, 8)])
    del tuned["old.weight"]
    found = diff(*ends(base, tuned))
    experts = {f"mlp.experts.up[{number}]" for number in range(3)}
    assert {module.name for module in found.modules} == {"wte.weight", "conv.weight", *experts}
    words = "\n".join(found.notes)
    assert "wte.weight was resized from 30 to 32 rows" in words and "shape.weight has the shape" in words
    assert all(told in words for told in ("old.weight", "lm_head.weight", "no heads", "vectors")), words
    by_name = {module.name: module for module in found.modules}
    assert by_name["conv.weight"].shape == (6, 12) and by_name["wte.weight"].shape == (30, 8)
    exact = np.linalg.svd(tuned["mlp.experts.up"][1] - base["mlp.experts.up"][1], compute_uv=False)
    # The difference is exact in float32, the SVD beside it is not: 1e-6 of the largest.
    assert np.allclose(by_name["mlp.experts.up[1]"].spectrum.singular_values, exact, rtol=0, atol=1e-6 * exact[0])
    left_out = {row["name"] for row in advise(found).left_out}
    assert {"conv.weight", "mlp.experts.up[1]"} <= left_out


def test_mixed_precision_is_told(ends):
    case = plain(np.random.default_rng(1), (64, 64), 4, 1e-2)
    found = diff(*ends({"a.weight": case.before}, {"a.weight": case.after.astype(np.float32)}))
    assert found.modules[0].dtype == "bfloat16 -> float32" and found.modules[0].rank_above_floor == 4
    assert any("lie on the bfloat16 grid" in note for note in found.notes)


# ---- advice ----------------------------------------------------------------------------------------------


def test_no_allocation_is_better():
    """Brute force over every allocation of at most the same size."""
    rng = np.random.default_rng(2)
    for _ in range(150):
        count = int(rng.integers(1, 5))
        values = [np.sort(rng.exponential(size=rng.integers(1, 5)))[::-1] for _ in range(count)]
        costs = [int(cost) for cost in rng.choice([3, 5, 7, 12], count)]
        budget = int(rng.integers(0, 2 + sum(cost * len(s) for cost, s in zip(costs, values, strict=True))))
        ranks = allocate(values, costs, budget)
        assert sum(rank * cost for rank, cost in zip(ranks, costs, strict=True)) <= budget

        def left(ranks, values=values):
            return sum(float((s[rank:] ** 2).sum()) for rank, s in zip(ranks, values, strict=True))

        every = itertools.product(*(range(len(s) + 1) for s in values))
        best = min(left(r) for r in every if sum(a * b for a, b in zip(r, costs, strict=True)) <= budget)
        assert left(ranks) <= best * (1 + 1e-12) + 1e-15


def test_budget_of_a_large_model_is_quick():
    """Two hundred modules of three shapes: the knapsack over groups has few choices left."""
    rng = np.random.default_rng(3)
    values = [np.sort(rng.exponential(size=64))[::-1] for _ in range(200)]
    costs = [(8192, 15104, 5120)[number % 3] for number in range(200)]
    ranks = allocate(values, costs, 10**7)
    spent = sum(rank * cost for rank, cost in zip(ranks, costs, strict=True))
    assert 10**7 - 5120 < spent <= 10**7


def test_ranks_for_a_share_of_the_energy():
    s = np.sqrt([8.0, 1.0, 1.0])
    assert ranks_for_energy([s, s[:0]], 0.8) == [1, 0]
    assert ranks_for_energy([s], 1.0) == [3]


@pytest.mark.parametrize("options", [{"energy": 0.9}, {"budget": 4000}, {"budget": 20_000}, {}])
def test_extracted_adapter_is_what_was_predicted(pair, options, tmp_path):
    """PEFT loads it, merges it, and leaves the predicted residual to 1e-5; Conv1D and embeddings included."""
    family, folder, _, after = pair
    found = diff(folder / "base", folder / "tuned", heads=False)
    advice = advise(found, **options)
    if "budget" in options:
        assert advice.parameters <= options["budget"]
    report = extract(found, advice, tmp_path / "adapter")
    loaded = peft.PeftModel.from_pretrained(from_folder(family, folder / "base"), tmp_path / "adapter")
    trainable = sum(tensor.numel() for name, tensor in loaded.named_parameters() if "lora_" in name)
    assert trainable == advice.parameters
    merged = weights_of(loaded.merge_and_unload())
    left = math.sqrt(sum(float(((after[m.name] - merged[m.name]) ** 2).sum()) for m in found.modules))
    total = math.sqrt(sum(module.spectrum.energy for module in found.modules))
    # Merging rounds every weight to float32, and B A before it: 1e-7 of the weights, whatever the ranks leave out.
    weights = math.sqrt(sum(float((after[module.name] ** 2).sum()) for module in found.modules))
    assert math.isclose(left, advice.residual, rel_tol=1e-5, abs_tol=2e-7 * weights)
    assert math.isclose(report["residual"], advice.residual, rel_tol=1e-5, abs_tol=1e-6 * total)


@pytest.mark.parametrize("name", ["gpt2", "gpt2 as on the hub", "llama", "vit", "gpt_neox", "opt", "roberta"])
def test_extracted_adapter_acts(name, tmp_path):
    """A forward pass through the adapter is that of the tuned matrices: PEFT found every module it names."""
    model = tiny(name.split()[0])
    pictures = model.main_input_name == "pixel_values"
    inputs = {"pixel_values": torch.randn(2, 3, 8, 8)} if pictures else {"input_ids": torch.arange(12).reshape(2, 6)}
    model.eval().save_pretrained(tmp_path / "base")
    if name == "gpt2 as on the hub":
        file = tmp_path / "base" / "model.safetensors"
        bare = {key.removeprefix("transformer."): array for key, array in load_file(file).items()}
        save_file(bare, file, {"format": "pt"})
    with torch.no_grad():
        before = model(**inputs).logits
        for key, parameter in model.named_parameters():
            if parameter.ndim == 2 and "embed_positions" not in key:
                parameter += 0.05 * torch.randn_like(parameter)
        after = model(**inputs).logits
    model.save_pretrained(tmp_path / "tuned")
    found = diff(tmp_path / "base", tmp_path / "tuned", heads=False)
    advice = advise(found)
    extract(found, advice, tmp_path / "adapter")
    tied = any("tied" in words for words in advice.remarks)
    assert tied == (name in ("gpt2", "gpt2 as on the hub", "opt"))
    loaded = peft.PeftModel.from_pretrained(type(model).from_pretrained(tmp_path / "base"), tmp_path / "adapter").eval()
    with torch.no_grad():
        found_logits = (loaded.merge_and_unload() if tied else loaded)(**inputs).logits
    # Full ranks: what is left is float32 arithmetic on another path, 1e-7 for each of some dozen products.
    assert float((found_logits - after).norm()) <= 1e-4 * float((after - before).norm())


def test_advice_is_a_lora_config(pair):
    family, folder, _, _ = pair
    lora = advise(diff(folder / "base", folder / "tuned", heads=False), energy=0.8).to_dict()
    fields = ("r", "lora_alpha", "target_modules", "rank_pattern", "alpha_pattern", "fan_in_fan_out")
    config = peft.LoraConfig(**{name: lora[name] for name in fields})
    model = peft.get_peft_model(from_folder(family, folder / "base"), config)
    ranks = {
        name.removeprefix("base_model.model.").removesuffix(".lora_A.default.weight"): tensor.shape[0]
        for name, tensor in model.named_parameters()
        if "lora_A" in name
    }
    assert ranks == {name: lora["rank_pattern"][name] for name in ranks} and ranks


@pytest.mark.parametrize("options", [{}, {"use_rslora": True}])
def test_adapter_alone_and_with_its_base(pair, options, tmp_path, call, answer):
    """Spectrum of scaling B A without the base; the shrunken one leaves what was predicted; merged, its rank is
    found."""
    family, folder, _, _ = pair
    torch.manual_seed(1)
    targets = ["c_attn", "c_fc"] if family == "gpt2" else ["q_proj", "down_proj"]
    used = torch.arange(16) < 11  # five directions are not used
    base_model = from_folder(family, folder / "base")
    base = weights_of(base_model)
    model = adapted(base_model, targets, lambda b: 0.01 * used * torch.randn_like(b), r=16, lora_alpha=32, **options)
    model.save_pretrained(tmp_path / "lora")
    merged_model = model.merge_and_unload()
    merged_model.save_pretrained(tmp_path / "merged")
    merged = weights_of(merged_model)

    alone = answer("diff", tmp_path / "lora")
    assert alone["tuned"] is None and alone["heads"] == []
    for module in alone["modules"]:
        assert module["rank"] == 16 and module["rank_above_floor"] == 11 and module["relative_change"] is None
        exact = torch.linalg.svdvals(merged[f"{module['name']}.weight"] - base[f"{module['name']}.weight"]).numpy()
        assert np.abs(np.array(module["singular_values"]) - exact[:16]).max() <= 1e-5 * exact[0]
    assert "of r" in call("diff", tmp_path / "lora")[1]

    by_files = diff(folder / "base", tmp_path / "merged")
    changed = {module.name: module.rank_above_floor for module in by_files.modules if module.rank_above_floor}
    assert changed == {f"{module['name']}.weight": 11 for module in alone["modules"]}
    by_adapter = diff(folder / "base", tmp_path / "lora")
    for one, other in zip(by_adapter.heads, by_files.heads, strict=True):
        scale = other.change.singular_values.max()
        assert np.abs(one.change.singular_values - other.change.singular_values).max() <= 1e-5 * scale

    smaller = diff(tmp_path / "lora")
    advice = advise(smaller, energy=0.7)
    extract(smaller, advice, tmp_path / "smaller")
    shrunk = peft.PeftModel.from_pretrained(from_folder(family, folder / "base"), tmp_path / "smaller")
    found = weights_of(shrunk.merge_and_unload())
    names = [f"{module.name}.weight" for module in smaller.modules]
    left = math.sqrt(sum(float(((found[name] - merged[name]) ** 2).sum()) for name in names))
    assert math.isclose(left, advice.residual, rel_tol=1e-5)


def test_adapter_of_a_model_that_is_renamed_in_memory(tmp_path, refusal):
    """PEFT knows a ViT's modules by names that its file does not have."""
    model = tiny("vit")
    model.save_pretrained(tmp_path / "base")
    model = adapted(model, ["q_proj", "fc1"], lambda b: 0.1 * torch.randn_like(b), r=2)
    model.save_pretrained(tmp_path / "adapter")
    found = diff(tmp_path / "base", tmp_path / "adapter")
    assert {module.rank_above_floor for module in found.modules} == {2} and len(found.modules) == 4
    assert all(heads.change.rank.max() <= 2 for heads in found.heads)
    assert "the base comes first" in refusal("diff", tmp_path / "adapter", tmp_path / "base")


def test_two_kinds_of_models_are_told_apart(tmp_path, call, refusal):
    for folder, kind, name in (("a", "bert", "bert.x"), ("b", "vit", "vit.x"), ("c", "vit", "bert.x")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text(json.dumps({"model_type": kind}))
        tensors = {f"{name}.{n}.layer.dense.weight": np.eye(4, dtype=np.float32) + n for n in range(3)}
        save_file(tensors, tmp_path / folder / "model.safetensors")
    assert "different models" in refusal("diff", tmp_path / "a", tmp_path / "b")
    code, out, _ = call("diff", tmp_path / "a", tmp_path / "c")
    assert code == 0 and "is one the fine-tune of the other?" in out
    assert "the same place" in call("diff", tmp_path / "a", tmp_path / "a")[1]


def test_rows_that_nobody_used_are_no_rounding(ends):
    before = draw(64, 8)
    after = before.copy()
    after[:10] += 0.1
    found = diff(*ends({"wpe.weight": before}, {"wpe.weight": after}))
    assert found.modules[0].unchanged == 54 / 64 and found.modules[0].unchanged_inside == 0
    assert not any("rounded away" in note for note in found.notes)


def test_a_merged_adapter_of_rank_16_is_found(pair, tmp_path):
    """In float32 and, both ends rounded, in bf16."""
    family, folder, _, _ = pair
    torch.manual_seed(2)
    target = "c_attn" if family == "gpt2" else "q_proj"
    for dtype in (torch.float32, torch.bfloat16):
        base = from_folder(family, folder / "base").to(dtype)
        base.save_pretrained(tmp_path / f"base-{dtype}")
        model = adapted(base, [target], lambda b: 0.02 * torch.linalg.qr(torch.randn(b.shape))[0], r=16, lora_alpha=16)
        model.merge_and_unload().save_pretrained(tmp_path / f"merged-{dtype}")
        found = diff(tmp_path / f"base-{dtype}", tmp_path / f"merged-{dtype}", heads=False)
        ranks = {module.rank_above_floor for module in found.modules if target in module.name}
        assert ranks == {16}, dtype


# ---- how it shows itself ---------------------------------------------------------------------------------


def shows_well(result):
    """A few lines, a piece of a page with its picture, a picture that is not empty, a table."""
    pytest.importorskip("matplotlib").use("agg")
    import matplotlib.pyplot as plt

    lines = repr(result).splitlines()
    assert len(lines) <= 25 and max(map(len, lines)) <= 100
    assert "<img" in result._repr_html_()
    axes = result.plot()
    plt.close(axes.figure)
    assert any(map(len, (axes.images, axes.patches, axes.lines, axes.texts)))
    return " ".join(" ".join(lines).split()), axes, result.to_dataframe()


def test_a_difference_shows_itself(pair):
    family, folder, _, _ = pair
    found = diff(folder / "base", folder / "tuned")
    words, axes, table = shows_well(found)
    assert "matrices changed" in words and "rank 90%" in words and "QK of 8 heads" in words
    assert list(table["name"]) == [module.name for module in found.modules]
    assert table["stable_rank"].tolist() == [module.stable_rank for module in found.modules]
    assert len(found.to_dataframe("heads")) == 2 * 2 * 4
    with pytest.raises(ValueError, match="'modules' or 'heads'"):
        found.to_dataframe("nonsense")  # type: ignore[arg-type]
    kinds = [label.get_text() for label in axes.get_yticklabels()]
    drawn = axes.images[0].get_array()
    place = kinds.index("attn.c_attn" if family == "gpt2" else "self_attn.q_proj")
    name = "transformer.h.1.attn.c_attn.weight" if family == "gpt2" else "model.layers.1.self_attn.q_proj.weight"
    assert drawn[place, 1] == pytest.approx(next(m.stable_rank for m in found.modules if m.name == name))


def test_advice_shows_itself(pair):
    _, folder, _, _ = pair
    advice = diff(folder / "base", folder / "tuned", heads=False).advise(budget=20_000)
    words, _, table = shows_well(advice)
    assert f"{advice.parameters:,} parameters" in words
    assert dict(zip(table["name"], table["rank"], strict=True)) == {
        **advice.ranks,
        **{row["name"]: 0 for row in advice.left_out},
    }


def test_a_difference_without_a_change_shows_itself(ends):
    hostile = "<b>$x^2$[/b]\x1b.weight"
    base = {hostile: draw(4, 4), "one.weight": draw(5, 4)}
    for tuned, told in ((base, "0 of 2 matrices"), ({**base, hostile: 2 * base[hostile]}, "1 of 2 matrices")):
        found = diff(*ends(base, tuned))
        words, _, _ = shows_well(found)
        assert told in words and "\x1b" not in words and "<b>" not in found._repr_html_().replace("<b>1 of", "")[90:]
        shows_well(found.advise())


def test_an_adapter_shows_itself(pair, tmp_path):
    family, folder, _, _ = pair
    target = "c_attn" if family == "gpt2" else "q_proj"
    model = adapted(from_folder(family, folder / "base"), [target], lambda b: 0.01 * torch.randn_like(b), r=4)
    model.save_pretrained(tmp_path / "lora")
    words, _, table = shows_well(diff(tmp_path / "lora"))
    assert "an adapter of 2 matrices" in words and "of r" in words and list(table["rank"]) == [4, 4]


# ---- what is refused -------------------------------------------------------------------------------------


def test_names_of_tensors_are_not_obeyed(ends, call):
    """Markup and escapes in a name are shown, or left out; they neither break the table nor reach the terminal."""
    base = dict.fromkeys(("a[/b].weight", "b\x1b[31m.weight", "only[/b].weight"), draw(4, 4))
    command = ["diff", *ends(base, dict.fromkeys(("a[/b].weight", "b\x1b[31m.weight"), 2 * draw(4, 4)))]
    code, out, _ = call(*command, "--budget", "8")
    assert code == 0 and "a[/b]" in out and "only[/b].weight" in out and "\x1b[31m" not in out
    code, out, _ = call(*command, "--budget", "0")
    assert code == 0 and "0 parameters buy no direction" in out


def test_shrunken_vocabulary_is_left_out_of_an_adapter(ends):
    words, linear = draw(20, 8), np.eye(8, dtype=np.float32)
    tuned = {"wte.weight": 2 * words[:15], "lin.weight": 2 * linear}
    advice = advise(diff(*ends({"wte.weight": words, "lin.weight": linear}, tuned)))
    assert list(advice.ranks) == ["lin.weight"]
    assert any(row["name"] == "wte.weight" and "lost rows" in row["reason"] for row in advice.left_out)


@pytest.mark.parametrize(
    ("kind", "size"), [("float16", 6e4), ("bfloat16", 3e38), ("bfloat16", 1e-37), ("float32", 1e38)]
)
def test_extreme_numbers(kind, size, tmp_path):
    """At the ends of a format: ranks are found, nothing overflows."""
    rng = np.random.default_rng(8)
    signs = np.sign(rng.normal(size=(24, 30)))
    after = np.where(np.arange(24)[:, None] < 12, -signs, signs)
    ends = [(size * array).astype(FORMATS[kind]) for array in (signs, after)]
    change = MatrixChange.of(*ends)
    exact = np.linalg.svd(ends[1].astype(float) / size - ends[0].astype(float) / size, compute_uv=False)
    assert np.allclose(change.spectrum.singular_values / size, exact, rtol=0, atol=1e-6 * exact[0])
    assert change.rank_above_floor == 12


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere", "base"], "nowhere"),
        (["base"], "is no adapter"),
        (["base", "tuned", "--energy", "2"], "--energy"),
        (["base", "tuned", "--budget", "-5"], "--budget"),
        (["base", "tuned", "--budget", "100", "--energy", "0.5"], "exclude each other"),
        (["base", "tuned", "--out", "rows.txt"], ".csv"),
        (["base", "tuned", "--report", "missing/page.html"], "does not exist"),
        (["base", "tuned", "--extract", "base"], "not empty"),
        (["base", "tuned", "--mapping", "none.json"], "none.json"),
        (["base", "nan"], "h.0.attn.c_attn.weight: the tuned holds nan at row 1, column 2"),
        (["base", "infinite-vector"], "ln_1.bias"),
        (["base", "other"], "no tensor in common"),
        (["base", "wider"], "different models"),
        (["nowhere"], "no file or folder"),
    ],
)
def test_refusals(tmp_path, monkeypatch, refusal, arguments, told):
    monkeypatch.chdir(tmp_path)
    matrix, vector = "h.0.attn.c_attn.weight", "h.0.ln_1.bias"
    base = {matrix: draw(8, 24), vector: np.zeros(8, np.float32)}
    broken = draw(8, 24)
    broken[1, 2] = np.nan
    versions = {
        "base": base,
        "tuned": {name: array + 0.01 for name, array in base.items()},
        "nan": {**base, matrix: broken},
        "infinite-vector": {**base, vector: np.full(8, np.inf, np.float32)},
        "other": {"encoder.kernel": np.ones((3, 3), np.float32)},
        "wider": {matrix: np.ones((9, 27), np.float32)},
    }
    for name, tensors in versions.items():
        (tmp_path / name).mkdir()
        save_file(tensors, tmp_path / name / "model.safetensors")
    assert told in refusal("diff", *arguments)
    assert {path.name for path in tmp_path.iterdir()} == set(versions)


def test_truncated_shard_is_refused(pair, tmp_path, refusal):
    _, folder, _, _ = pair
    shutil.copytree(folder / "tuned", tmp_path / "cut")
    file = tmp_path / "cut" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    assert "model.safetensors" in refusal("diff", folder / "base", tmp_path / "cut")


def test_unknown_names_take_a_mapping(ends, tmp_path, answer, refusal):
    base = {f"b.{name}": draw(12, 12) for name in ("wq", "wk", "wv", "wo")}
    command = ["diff", *ends(base, {name: array * np.float32(1.01) for name, array in base.items()})]
    without = answer(*command)
    assert without["heads"] == [] and any("no heads" in note for note in without["notes"])
    mapping = {"heads": 3, "query": "b.wq", "key": "b.wk", "value": "b.wv", "output": "b.wo"}
    (tmp_path / "map.json").write_text(json.dumps(mapping))
    command += ["--mapping", tmp_path / "map.json"]
    assert len(answer(*command)["heads"]) == 6
    (tmp_path / "map.json").write_text("[1]")
    assert refusal(*command)
