"""Comparing models in memory: to the last digit what their files give, and what cannot be compared is named."""

from __future__ import annotations

import copy
import json
import stat
import tracemalloc
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import saddlescope as ss
from saddlescope.checkpoints.memory import of_module, of_tree
from saddlescope.checkpoints.peft_names import names_in_memory
from saddlescope.core.errors import BadArgument
from saddlescope.watch.jax_tree import named_leaves

from .models import MODELS, tiny, tiny_gpt2
from .test_imports import loaded_by

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


def changed(model, seed=1):
    """A copy of which every tensor has changed, matrices mostly in three directions."""
    torch.manual_seed(seed)
    model = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            change = 0.002 * torch.randn(parameter.shape)
            if parameter.ndim == 2:
                change += 0.02 * torch.randn(parameter.shape[0], 3) @ torch.randn(3, parameter.shape[1])
            parameter += change.to(parameter.dtype)
    return model


def told(found, names=None):
    """All that is told but for the places. names: what the tensors are called elsewhere."""
    told = found.to_dict()
    places = [told.pop("base"), told.pop("tuned")]
    told["notes"] = [note for note in told["notes"] if not any(place in note for place in places)]
    for module in told["modules"]:
        module["name"] = (names or {}).get(module["name"], module["name"])
    told["modules"].sort(key=lambda module: module["name"])
    return told


class Pair(NamedTuple):
    base: object
    tuned: object
    files: tuple


@pytest.fixture(scope="module", params=[(family, torch.float32) for family in MODELS] + [("llama", torch.bfloat16)])
def pair(request, tmp_path_factory):
    family, dtype = request.param
    folder = tmp_path_factory.mktemp(family)
    base = tiny(family).to(dtype)
    tuned = changed(base)
    for name, model in (("base", base), ("tuned", tuned)):
        model.save_pretrained(folder / name)
    return Pair(base, tuned, (folder / "base", folder / "tuned"))


# ---- what is found ---------------------------------------------------------------------------------------


def test_modules_are_compared_as_their_files(pair):
    """Spectra, ranks, floors, heads and notes, for every family; beside a file too."""
    base, tuned, files = pair
    stored = load_file(files[0] / "model.safetensors")
    names = names_in_memory(stored, base.config.to_dict())
    expected = told(ss.diff(*files), names)
    assert expected["heads"] and {"notes", "modules", "family"} < set(expected)
    assert told(ss.diff(base, tuned)) == expected
    assert told(ss.diff(files[0], tuned), names) == expected
    assert told(ss.diff(base, files[1])) == expected


def test_state_dicts_are_compared_as_their_files(pair):
    base, tuned, files = pair
    names = names_in_memory(load_file(files[0] / "model.safetensors"), base.config.to_dict())
    expected = told(ss.diff(*files), names)
    config = base.config.to_dict()
    assert told(ss.diff(base.state_dict(), tuned.state_dict(), config=config)) == expected
    # As a training script saves it, and with the config of the other end.
    saved = {"epoch": 3, "model": tuned.state_dict(), "optimizer": {"lr": 0.1, "moments": torch.ones(3, 3)}}
    assert told(ss.diff(base, saved)) == expected


def test_jax_trees_are_compared_as_their_files(tmp_path):
    """Nested, in two precisions, and named as a watch names them."""
    rng = np.random.default_rng(0)

    def tree(scale, dtype):
        def draw(*shape):
            return jnp.asarray(scale * rng.normal(size=shape), dtype)

        layers = [{name: draw(12, 12) for name in ("wq", "wk", "wv", "wo")} for _ in range(2)]
        return {"layers": layers, "mlp": {"in": draw(12, 20), "bias": draw(20)}, "scale": draw()}

    mapping = {"heads": 3, **{role: f"layers.{{layer}}.w{role[0]}" for role in ("query", "key", "value", "output")}}
    for dtype in (jnp.float32, jnp.bfloat16):
        base = tree(1.0, dtype)
        tuned = jax.tree.map(jnp.add, base, tree(0.1, dtype))
        files = [tmp_path / f"{name}-{dtype.__name__}.safetensors" for name in ("base", "tuned")]
        for file, params in zip(files, (base, tuned), strict=True):
            save_file({name: np.asarray(leaf) for name, leaf in named_leaves(params).items()}, file)
        expected = told(ss.diff(*files, mapping=mapping))
        assert len(expected["heads"]) == 2 * 2 * 3
        assert told(ss.diff(base, tuned, mapping=mapping)) == expected
        numpy = jax.tree.map(np.asarray, base)
        assert told(ss.diff(numpy, files[1], mapping=mapping)) == expected
    assert set(of_tree(base).tensors) == set(named_leaves(base))


class Registered(NamedTuple):
    kernel: object
    rest: object


def test_names_of_trees():
    weights = jnp.ones((3, 4))
    tree = {"a": [Registered(weights, None), (weights + 1,)], "b.c": {7: weights + 2}, "rate": 0.1, "act": np.tanh}
    held = of_tree(tree)
    assert list(held.tensors) == ["a.0.kernel", "a.1.0", "b.c.7"]
    assert held.notes == ["left out of weights in memory, no arrays: rate"]
    equinox = pytest.importorskip("equinox")
    linear = equinox.nn.Linear(3, 2, key=jax.random.key(0))
    assert set(of_tree({"head": linear}).tensors) == {"head.weight", "head.bias"}
    loop: dict[str, object] = {"weights": weights}
    loop["self"] = loop
    twice = {"a.b": weights, "a": {"b": weights}}
    for wrong, words in ((loop, "holds itself"), (twice, "two arrays are called 'a.b'")):
        with pytest.raises(BadArgument, match=words):
            of_tree(wrong)


def encoder():
    torch.manual_seed(0)
    return torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(12, 3, 20, batch_first=True), 2)


def test_a_module_without_config_tells_its_heads(tmp_path):
    """nn.MultiheadAttention knows how many it has; of its file a mapping must say so."""
    base = encoder()
    tuned = changed(base)
    files = [tmp_path / "base.pt", tmp_path / "tuned.pt"]
    for file, model in zip(files, (base, tuned), strict=True):
        torch.save(model.state_dict(), file)
    expected = told(ss.diff(*files, mapping={"heads": 3}))
    assert len(expected["heads"]) == 2 * 2 * 3
    assert told(ss.diff(base, tuned)) == expected
    assert told(ss.diff(files[0], tuned)) == expected


@pytest.mark.parametrize(
    "wrap", [torch.compile, torch.nn.DataParallel, lambda model: torch.nn.DataParallel(torch.compile(model))]
)
def test_wrappers_are_seen_through(wrap):
    base = encoder()
    tuned = changed(base)
    found = ss.diff(base, wrap(tuned))
    assert told(found) == told(ss.diff(base, tuned))
    assert found.tuned == "TransformerEncoder in memory (tuned)"


def test_tied_weights_count_once(tmp_path):
    base = tiny_gpt2()
    assert "lm_head.weight" in base.state_dict()
    found = ss.diff(base, changed(base))
    assert "lm_head.weight" not in {module.name for module in found.modules}
    assert not any("lm_head" in note for note in found.notes)


def test_nothing_of_a_model_is_changed_or_copied():
    """Rows are views of the model itself; training goes on as if nobody had looked."""
    model = encoder()
    before = copy.deepcopy(model.state_dict())
    held = of_module(model)
    name = "layers.0.linear1.weight"
    weight = model.get_parameter(name)
    assert held.rows(name, 3, 5).__array_interface__["data"][0] == weight[3].data_ptr()
    ss.diff(before, changed(model))
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.state_dict().items())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())


def test_no_model_is_copied_whole():
    """Arrays that NumPy makes on the way are of one matrix at a time, whatever the model has."""
    rng = np.random.default_rng(0)
    base = {f"layers.{n}.weight": torch.tensor(rng.normal(size=(96, 96))).bfloat16() for n in range(120)}
    tuned = {name: weight + 0.01 * weight[:, :1] @ weight[:1] for name, weight in base.items()}
    size = sum(weight.numel() * weight.element_size() for weight in base.values())
    ss.diff(*({name: ends[name] for name in list(base)[:2]} for ends in (base, tuned)))  # what is made once
    tracemalloc.start()
    found = ss.diff(base, tuned, heads=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.modules) == 120 and peak < 0.9 * size


def test_arrays_are_compared_without_torch_or_jax():
    found = loaded_by(
        "import numpy as np, saddlescope as ss\n"
        "base = {'a.weight': np.eye(5), 'b': [np.ones(3)]}\n"
        "repr(ss.diff(base, {'a.weight': 2 * np.eye(5), 'b': [np.zeros(3)]}).advise())"
    )
    assert "scipy" in found and not {"torch", "jax", "transformers", "matplotlib", "pandas"} & found


# ---- a model that PEFT has put an adapter into -------------------------------------------------------------


@pytest.fixture(params=["gpt2", "llama"])
def wrapped(request, tmp_path):
    """A base on disk, the model with a LoRA in it, and the adapter's folder."""
    peft = pytest.importorskip("peft")
    base = tiny(request.param)
    base.save_pretrained(tmp_path / "base")
    gpt2 = request.param == "gpt2"
    targets, kept = (["c_attn", "wte"], ["wpe"]) if gpt2 else (["q_proj", "v_proj"], ["lm_head"])
    config = peft.LoraConfig(
        r=4, lora_alpha=6, target_modules=targets, modules_to_save=kept, fan_in_fan_out=gpt2, task_type="CAUSAL_LM"
    )
    model = peft.get_peft_model(base, config)
    torch.manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name or "lora_embedding_A" in name:
                parameter.copy_(0.05 * torch.randn(parameter.shape))
    model.save_pretrained(tmp_path / "adapter")
    return base, model, tmp_path


def test_adapter_in_a_model_is_that_of_its_folder(wrapped):
    base, model, folder = wrapped
    expected = told(ss.diff(folder / "base", folder / "adapter"))
    assert {module["rank_above_floor"] for module in expected["modules"]} == {4} and expected["heads"]
    before = type(base).from_pretrained(folder / "base")
    for ends in ((model,), (folder / "base", model), (before, model), (base, model), (before, folder / "adapter")):
        found = told(ss.diff(*ends))
        assert any("modules_to_save" in note for note in found["notes"])
        for one in (expected, found):  # the names in it are those of the file, or of memory
            one["notes"] = [note for note in one["notes"] if "modules_to_save" not in note]
        assert found == expected


def test_what_cannot_be_told_of_an_adapter_is_refused(wrapped):
    base, model, folder = wrapped
    before = type(base).from_pretrained(folder / "base")

    def refused(words, *ends):
        with pytest.raises(BadArgument, match=words):
            ss.diff(*ends)

    refused("the base comes first", model, before)
    refused("without the scaling", folder / "base", model.state_dict())
    model.add_adapter("second", model.peft_config["default"])
    assert ss.diff(folder / "base", model).tuned == f"adapter 'default' of {type(model).__name__}"
    layers = [part for part in model.modules() if hasattr(part, "lora_A")]
    for names, words in ((["default", "second"], "several active adapters"), (["default"], "")):
        for layer in layers:
            layer.set_adapter(names)
        if words:
            refused(words, folder / "base", model)
    model.merge_adapter()
    refused("merged into the weights", folder / "base", model)
    merged = ss.diff(before, copy.deepcopy(model).merge_and_unload())
    assert {module.rank_above_floor for module in merged.modules if module.rank_above_floor} <= {4, 32, 48, 101}


def test_adapter_in_a_quantised_model_stands_alone(wrapped):
    _, model, folder = wrapped
    layer = next(part for part in model.modules() if hasattr(part, "lora_A"))
    layer.base_layer.weight = torch.nn.Parameter(layer.base_layer.weight.to(torch.int8), requires_grad=False)
    found = ss.diff(model)
    assert found.tuned is None and found.heads == [] and any("is quantised" in note for note in found.notes)
    assert found.to_dict()["modules"] == ss.diff(folder / "adapter").to_dict()["modules"]
    assert len(ss.diff(folder / "base", model).heads) == len(ss.diff(folder / "base", folder / "adapter").heads)


# ---- what is refused -----------------------------------------------------------------------------------------


def in_place():
    model = encoder()
    before = model.state_dict()  # no copy: training changes it too
    return before, changed_in_place(model)


def changed_in_place(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1
    return model


def with_parameter(value):
    """The encoder, one of whose weights is this."""
    model = encoder()
    model.layers[1].linear1.weight = torch.nn.Parameter(value, requires_grad=False)
    return model


def traced():
    found = []
    jax.jit(lambda params: found.append(params))(jnp.ones((3, 3)))
    return {"w": jnp.ones((3, 3))}, {"w": found[0]}


def donated():
    params = {"w": jnp.ones((3, 3))}
    params["w"].delete()
    return params, {"w": jnp.zeros((3, 3))}


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        (in_place, "the same weights in memory.*copy.deepcopy"),
        (lambda: (encoder(),), "is no adapter"),
        (lambda: (encoder(), torch.optim.SGD(encoder().parameters(), 0.1)), "no weights in a SGD"),
        (lambda: ({"epoch": 3}, encoder()), "no weights in a dict"),
        (lambda: ({"name": np.array(["a"])}, encoder()), "no numbers"),
        (lambda: (encoder(), with_parameter(torch.empty(20, 12, device="meta"))), "layers.1.linear1.weight.*meta"),
        (lambda: (encoder(), with_parameter(torch.empty(0))), "ZeRO-3.*GatheredParameters"),
        (lambda: (encoder(), with_parameter(torch.eye(20, 12).to_sparse())), "is sparse.*to_dense"),
        (lambda: (encoder(), with_parameter(torch.zeros(20, 12, dtype=torch.int8))), "quantised"),
        (lambda: (encoder(), with_parameter(torch.zeros(20, 12).to(torch.float8_e4m3fn))), "quantised.*float8"),
        (lambda: (encoder(), with_parameter(torch.full((20, 12), np.nan))), "the tuned holds nan at row 0, column 0"),
        (lambda: (encoder(), torch.nn.Sequential(torch.nn.LazyLinear(3))), "no shape yet"),
        (lambda: (encoder(), "nowhere"), "no file or folder"),
        (lambda: (encoder(), {"other": np.ones((3, 3))}), "no tensor in common"),
        (traced, "outside of jit"),
        (donated, "donated"),
        (lambda: ({"w": jax.eval_shape(lambda: jnp.ones((3, 3)))}, {"w": jnp.ones((3, 3))}), "without numbers"),
    ],
)
def test_refusals(ends, words):
    with pytest.raises(BadArgument, match=words):
        ss.diff(*ends())


def test_odd_tensors_are_passed_over_as_in_files():
    """Whole numbers, complex ones, objects and empty arrays have no spectrum; kinds of floats are mixed."""
    base = {
        "w": np.eye(4, dtype=np.float32),
        "half": torch.eye(4, dtype=torch.float16),
        "big endian": np.eye(4).astype(">f8"),
        "whole": np.arange(6).reshape(2, 3),
        "complex": torch.ones(3, 3, dtype=torch.complex64),
        "empty": torch.ones(0, 4),
        "object": np.array([[None, "a"]]),
    }
    tuned = {name: value if name == "object" else value * 2 for name, value in base.items()}
    found = ss.diff(base, tuned)
    assert {module.name: module.dtype for module in found.modules} == {
        "w": "float32",
        "half": "float16",
        "big endian": "float64",
    }
    assert all(module.stable_rank == pytest.approx(4) for module in found.modules)
    assert any("no numbers: object" in note for note in found.notes)


def test_frozen_tensors_that_are_shared_are_told():
    base = encoder()
    tuned = changed(base)
    tuned.layers[0].linear1.weight = base.layers[0].linear1.weight
    notes = ss.diff(base, tuned).notes
    assert any("1 of 24 tensors are one memory at both ends" in note for note in notes)


# ---- what is made of it -----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"energy": 0.8}, {"budget": 3000}])
def test_extracted_adapter_is_that_of_the_files(pair, tmp_path, options):
    """Every factor and every setting, so that PEFT loads it; other users may read it, as any new file."""
    base, tuned, files = pair
    found, expected = ss.diff(base, tuned, heads=False), ss.diff(*files, heads=False)
    found.extract(tmp_path / "memory", **options)
    told = expected.extract(tmp_path / "files", **options)
    assert told["residual"] == pytest.approx(expected.advise(**options).residual, rel=1e-4, abs=1e-4)
    held, stored = (load_file(tmp_path / name / "adapter_model.safetensors") for name in ("memory", "files"))
    assert held.keys() == stored.keys()
    assert all(np.array_equal(held[name], stored[name]) for name in held)
    configs = [json.loads((tmp_path / name / "adapter_config.json").read_text()) for name in ("memory", "files")]
    assert configs[0] == configs[1] | {"base_model_name_or_path": None}
    (tmp_path / "usual").touch()
    usual = stat.S_IMODE((tmp_path / "usual").stat().st_mode)
    assert {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "memory").iterdir()} == {usual}


def test_extracted_adapter_acts(tmp_path):
    peft = pytest.importorskip("peft")
    base = tiny("llama").eval()
    tuned = changed(base)
    tokens = torch.arange(12).reshape(2, 6)
    ss.diff(base, tuned, heads=False).extract(tmp_path / "adapter")
    with torch.no_grad():
        before, after = base(input_ids=tokens).logits, tuned(input_ids=tokens).logits
        adapted = peft.PeftModel.from_pretrained(base, tmp_path / "adapter").eval()(input_ids=tokens).logits
    # What is left are the gains of norms, which a LoRA does not hold.
    assert float((adapted - after).norm()) <= 0.05 * float((after - before).norm())


def test_models_that_moved_on_are_not_extracted(tmp_path):
    base = encoder()
    tuned = changed(base)
    found = ss.diff(base, tuned)
    changed_in_place(tuned)
    with pytest.raises(BadArgument, match="have changed since"):
        found.extract(tmp_path / "adapter")
    assert not list(tmp_path.iterdir())


def test_page(tmp_path):
    """Written without touching the backend that a notebook draws with."""
    import matplotlib

    base = encoder()
    found = ss.diff(base, changed(base))
    matplotlib.use("svg")
    path = found.report(tmp_path / "memory.html", advice=found.advise(energy=0.9))
    assert "LoraConfig" in path.read_text() and matplotlib.get_backend() == "svg"
    assert "LoraConfig" not in found.report(str(tmp_path / "plain.html")).read_text()
