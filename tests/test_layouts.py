"""Heads found in checkpoints, against what the models' own modules compute."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file
from scipy.special import softmax

from saddlescope.core.errors import BadArgument
from saddlescope.spectra.layouts import HeadWeights, find_layout

from .models import model_of

TOKENS = 5
OV_ERROR = 1e-10  # float64 throughout
QK_ERROR = 1e-5  # many families take the softmax in float32


class Case(NamedTuple):
    """scale: of the scores, 1 / sqrt(dh) unless given."""

    model: str
    options: dict[str, Any]
    notes: tuple[str, ...] = ()
    scale: float | None = None


# heads, key/value heads and coordinates per head all differ, and heads times coordinates is not the width where the
# family allows it: a transposition cannot go unseen.
DECODER = dict(vocab_size=30, hidden_size=24, intermediate_size=32, num_hidden_layers=2, pad_token_id=0)
LLAMA = dict(**DECODER, num_attention_heads=4, num_key_value_heads=2, head_dim=10)
PLAIN = dict(**DECODER, num_attention_heads=3)
GPT = dict(vocab_size=30, n_embd=24, n_layer=2, n_head=3, n_positions=40, bos_token_id=0, eos_token_id=0)
VISION = dict(intermediate_size=32, num_hidden_layers=2, image_size=8, patch_size=4)
IMAGE = dict(**VISION, hidden_size=24, num_attention_heads=3)
TOWER = dict(**VISION, hidden_size=36, num_attention_heads=4)
FALCON = dict(vocab_size=30, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, eos_token_id=0, bos_token_id=0)
NEW = dict(new_decoder_architecture=True, num_kv_heads=2)
NEO = dict(vocab_size=30, hidden_size=24, num_layers=2, num_heads=3, attention_types=[[["global", "local"], 1]])
CODEGEN = {**GPT, "n_embd": 40, "n_head": 8, "rotary_dim": 4}
DISTIL = dict(vocab_size=30, dim=24, hidden_dim=32, n_layers=2, n_heads=3)
T5 = dict(vocab_size=30, d_model=24, d_kv=5, d_ff=32, num_layers=2, num_heads=3, decoder_start_token_id=0)
BART = dict(vocab_size=30, d_model=24, encoder_layers=2, decoder_layers=1, encoder_ffn_dim=32, decoder_ffn_dim=32)
BART |= dict(encoder_attention_heads=3, decoder_attention_heads=4)
BART |= dict(pad_token_id=0, decoder_start_token_id=2, forced_eos_token_id=2)
CLIP = dict(text_config={**PLAIN, "eos_token_id": 1, "bos_token_id": 0}, vision_config=TOWER, projection_dim=8)

ROPE, GQA, BIAS, NORM = "RoPE", "GQA: 4 query heads share 2", "Biases", "QK-norm"
POSITION = "Relative position bias"
CASES = {
    "gpt2": Case("GPT2LMHeadModel", GPT, (BIAS,)),
    "gpt_bigcode multi-query": Case("GPTBigCodeForCausalLM", GPT, ("GQA: 3 query heads share 1", BIAS)),
    "gpt_bigcode": Case("GPTBigCodeForCausalLM", {**GPT, "multi_query": False}, (BIAS,)),
    "llama": Case("LlamaForCausalLM", LLAMA, (ROPE, GQA)),
    "mistral": Case("MistralForCausalLM", LLAMA, (ROPE, GQA)),
    "qwen2": Case("Qwen2ForCausalLM", LLAMA, (ROPE, GQA, BIAS)),
    "qwen3": Case("Qwen3ForCausalLM", LLAMA, (ROPE, NORM, GQA)),
    "gemma": Case("GemmaForCausalLM", LLAMA, (ROPE, GQA)),
    "gemma2": Case("Gemma2ForCausalLM", LLAMA, (ROPE, "Softcap", GQA), scale=1 / 16),
    "gemma3_text": Case("Gemma3ForCausalLM", LLAMA, (ROPE, NORM, GQA), scale=1 / 16),
    "olmo": Case("OlmoForCausalLM", {**LLAMA, "clip_qkv": 50.0}, (ROPE, "clip_qkv", GQA)),
    "olmo2": Case("Olmo2ForCausalLM", LLAMA, (ROPE, NORM, GQA)),
    "phi3": Case("Phi3ForCausalLM", LLAMA, (ROPE, GQA)),
    "gpt_neox": Case("GPTNeoXForCausalLM", PLAIN, (ROPE, BIAS)),
    "gptj": Case("GPTJForCausalLM", {**GPT, "rotary_dim": 4}, (ROPE,)),
    "gpt_neo": Case("GPTNeoForCausalLM", NEO, scale=1.0),
    "codegen": Case("CodeGenForCausalLM", CODEGEN, (ROPE,)),
    "opt": Case("OPTForCausalLM", {**PLAIN, "ffn_dim": 32, "word_embed_proj_dim": 24}, (BIAS,)),
    "falcon new": Case("FalconForCausalLM", {**FALCON, **NEW}, (ROPE, GQA)),
    "falcon multi-query": Case("FalconForCausalLM", FALCON, (ROPE, "GQA: 4 query heads share 1")),
    "falcon old": Case("FalconForCausalLM", {**FALCON, "multi_query": False}, (ROPE,)),
    "bert": Case("BertForMaskedLM", PLAIN, (BIAS,)),
    "roberta": Case("RobertaForMaskedLM", PLAIN, (BIAS,)),
    "distilbert": Case("DistilBertForMaskedLM", DISTIL, (BIAS,)),
    "vit": Case("ViTForImageClassification", IMAGE, (BIAS,)),
    "deit": Case("DeiTForImageClassification", IMAGE, (BIAS,)),
    "beit": Case("BeitForImageClassification", {**IMAGE, "use_relative_position_bias": True}, (POSITION, BIAS)),
    "dinov2": Case("Dinov2ForImageClassification", IMAGE, (BIAS,)),
    "t5": Case("T5ForConditionalGeneration", T5, (f"In encoder, decoder: {POSITION}",), scale=1.0),
    "bart": Case("BartForConditionalGeneration", BART, (BIAS,)),
    "clip": Case("CLIPModel", CLIP, (BIAS,)),
}


def build(case, torch):
    """A tiny random model in float64 whose scores are bilinear: its own forward pass, less what the notes warn of."""
    model = model_of(case.model, **case.options, attn_implementation="eager").double().eval()
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if name.endswith("bias") or "relative" in name:
                tensor.zero_()
            elif tensor.ndim >= 2:
                tensor.normal_(std=0.3)
        for name, tensor in model.named_buffers():
            if name.endswith("inv_freq"):  # every token stands at position 0
                tensor.zero_()
            elif name.endswith("embed_positions"):
                tensor.copy_(tensor[:1].expand_as(tensor))
    for module in model.modules():
        for part in ("q_norm", "k_norm"):
            if hasattr(module, part):
                setattr(module, part, torch.nn.Identity())
        if hasattr(module, "attn_logit_softcapping"):
            module.attn_logit_softcapping = None
    return model


def run(model, torch):
    """Attention probabilities [heads, tokens, tokens] by stack and layer, from one pass with real inputs."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(3, 30, (1, TOKENS), generator=generator)
    pixels = torch.randn(1, 3, 8, 8, generator=generator, dtype=torch.float64)
    accepted = model.forward.__code__.co_varnames
    inputs = {"input_ids": tokens} if model.main_input_name == "input_ids" else {"pixel_values": pixels}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = tokens.flip(1)
    if "text_model" in dict(model.named_children()):
        inputs |= {"pixel_values": pixels, "input_ids": tokens}
    with torch.no_grad():
        result = model(**inputs, output_attentions=True, **({"use_cache": False} if "use_cache" in accepted else {}))
    if model.config.is_encoder_decoder:
        stacks = {name: result[f"{name}_attentions"] for name in ("encoder", "decoder", "cross")}
    elif "text_model_output" in result:
        stacks = {name: result[f"{name}_output"].attentions for name in ("text_model", "vision_model")}
    else:
        stacks = {"": result.attentions}
    return {stack: [one[0].double().numpy() for one in layers] for stack, layers in stacks.items()}


def listen(model, keys):
    """Inputs and outputs of the modules that own the tensors `keys`, filled in by the next pass."""
    heard = {}
    for key in keys:
        module = model.get_submodule(key.removesuffix(".weight"))

        def hook(module, inputs, output, key=key):
            heard[key] = (inputs[0].reshape(-1, inputs[0].shape[-1]), output.reshape(-1, output.shape[-1]))

        module.register_forward_hook(hook)
    return heard


def products(heads: HeadWeights):
    group = heads.query.shape[0] // heads.key.shape[0]
    key, value = (np.repeat(np.asarray(one), group, 0) for one in (heads.key, heads.value))
    return np.asarray(heads.query) @ key.swapaxes(1, 2), value @ np.asarray(heads.output)


def relative_error(got, wanted):
    return np.abs(got - wanted).max() / np.abs(wanted).max()


def shapes_of(state):
    return {name: tuple(tensor.shape) for name, tensor in state.items()}


def assert_same(heads: HeadWeights, others: HeadWeights):
    for one, other in zip(heads, others, strict=True):
        np.testing.assert_array_equal(one, other)


def compare(heads, probabilities, queries, keys, output, scale=None, values=None):
    """Errors of OV in the module's output and of QK in its scores, both made with the module's own probabilities."""
    qk, ov = products(heads)
    values = keys if values is None else values
    mixed = sum(a @ values @ product for a, product in zip(probabilities, ov, strict=True))
    scale = heads.query.shape[-1] ** -0.5 if scale is None else scale
    scores = scale * (queries @ qk @ keys.T)
    seen = probabilities > 1e-12  # a causal mask leaves zeros
    measured = np.log(np.where(seen, probabilities, 1.0))
    # Softmax forgets a constant per row: compare with the first key, which every query sees.
    wanted = np.where(seen, measured - measured[..., :1], 0)
    return relative_error(mixed, output), relative_error(np.where(seen, scores - scores[..., :1], 0), wanted)


def refused(words, shapes, config, mapping=None):
    with pytest.raises(BadArgument, match=words):
        find_layout(shapes, config, mapping)


@pytest.mark.parametrize("name", CASES)
def test_heads_reproduce_the_modules_own_pass(name, torch):
    case = CASES[name]
    model = build(case, torch)
    state = model.state_dict()
    layout = find_layout(shapes_of(state), model.config.to_dict())
    heard = listen(model, {key for layer in layout.layers for key in layer.keys})
    probabilities = run(model, torch)
    expected = [(stack, number) for stack, layers in probabilities.items() for number in range(len(layers))]
    assert [(layer.stack, layer.layer) for layer in layout.layers] == expected
    for layer in layout.layers:
        own = probabilities[layer.stack][layer.layer]
        assert len(own) == layer.heads
        queries, keys = (heard[layer.keys[i]][0].numpy() for i in ((0, 1) if len(layer.keys) == 4 else (0, 0)))
        ov, qk = compare(layer.split(state), own, queries, keys, heard[layer.keys[-1]][1].numpy(), case.scale)
        assert ov < OV_ERROR and qk < QK_ERROR


@pytest.mark.parametrize("name", CASES)
def test_names_on_disk_and_in_memory_give_the_same_heads(name, tmp_path):
    case = CASES[name]
    model = model_of(case.model, **case.options)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    disk = load_file(tmp_path / "model.safetensors")
    memory = {key: tensor.numpy() for key, tensor in model.state_dict().items()}
    saved, live = (find_layout(shapes_of(tensors), config) for tensors in (disk, memory))
    assert saved.family == live.family == config["model_type"] == name.split()[0]
    assert saved.notes == live.notes
    for wanted in case.notes:
        assert sum(note.startswith(wanted) for note in live.notes) == 1, live.notes
    assert len(live.notes) == len(case.notes)
    assert len(saved.layers) == len(live.layers)
    for ours, theirs in zip(saved.layers, live.layers, strict=True):
        assert (ours.stack, ours.layer, ours.heads) == (theirs.stack, theirs.layer, theirs.heads)
        assert_same(ours.split(disk), theirs.split(memory))


GPT2_SHAPES = {"h.0.attn.c_attn.weight": (12, 36), "h.0.attn.c_proj.weight": (12, 12)}


def random_state(shapes):
    generator = np.random.default_rng(0)
    return {name: generator.normal(size=shape) for name, shape in shapes.items()}


def llama_shapes(layers=2, head_dim=5) -> dict[str, tuple[int, ...]]:
    """Four heads, two of keys and values."""
    shapes = {"q": (4 * head_dim, 12), "k": (2 * head_dim, 12), "v": (2 * head_dim, 12), "o": (12, 4 * head_dim)}
    modules = [f"model.layers.{number}.self_attn" for number in range(layers)]
    return {f"{module}.{leaf}_proj.weight": shape for module in modules for leaf, shape in shapes.items()}


@pytest.mark.parametrize("other_widths", [False, True])
def test_torch_multihead_attention(torch, other_widths):
    torch.manual_seed(0)
    widths = dict(kdim=10, vdim=14) if other_widths else {}
    module = torch.nn.MultiheadAttention(24, 3, bias=False, batch_first=True, dtype=torch.float64, **widths)
    query, key, value = (torch.randn(1, 5, width, dtype=torch.float64) for width in (24, 10, 14))
    key, value = (key, value) if other_widths else (query, query)
    with torch.no_grad():
        output, weights = module(query, key, value, average_attn_weights=False)
    (layer,) = find_layout(shapes_of(module.state_dict()), {"num_heads": 3}).layers
    seen = (one[0].numpy() for one in (weights, query, key, output))
    errors = compare(layer.split(module.state_dict()), *seen, values=value[0].numpy())
    assert max(errors) < OV_ERROR


def test_torch_transformer_has_three_stacks(torch):
    model = torch.nn.Transformer(24, 3, 2, 1, dim_feedforward=8, batch_first=True)
    layout = find_layout(shapes_of(model.state_dict()), mapping={"heads": 3})
    assert layout.family == "multihead_attention"
    found = [(one.stack, one.layer) for one in layout.layers]
    assert found == [("encoder", 0), ("encoder", 1), ("decoder", 0), ("cross", 0)]
    assert layout.layers[-1].keys[0] == "decoder.layers.0.multihead_attn.in_proj_weight"
    assert layout.notes == ("Biases on queries, keys or values: the products leave them out.",)
    encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(24, 3, 8, bias=False, batch_first=True), 2)
    layout = find_layout(shapes_of(encoder.state_dict()), {"num_heads": 3})
    assert [(one.stack, one.layer) for one in layout.layers] == [("", 0), ("", 1)]
    assert not layout.notes


def test_timm_attention():
    """As timm's Attention computes: timm itself would bring torchvision, which has no build to match."""
    state = random_state({"qkv.weight": (72, 24), "proj.weight": (24, 24), "proj.bias": (24,), "tokens": (5, 24)})
    tokens = state.pop("tokens") / 10  # else some weights of the softmax would vanish
    query, key, value = (tokens @ state["qkv.weight"].T).reshape(5, 3, 3, 8).transpose(1, 2, 0, 3)
    weights = softmax(8**-0.5 * query @ key.swapaxes(1, 2), axis=-1)
    output = (weights @ value).swapaxes(0, 1).reshape(5, 24) @ state["proj.weight"].T
    state = {f"blocks.1.attn.{name}": array for name, array in state.items()}
    layout = find_layout(shapes_of(state), {"num_heads": 3})
    (layer,) = layout.layers
    assert (layout.family, layer.layer, layout.notes) == ("timm_vit", 1, ())
    assert max(compare(layer.split(state), weights, tokens, tokens, output)) < OV_ERROR


def test_linear_layers_under_the_names_of_gpt2():
    conv = random_state(GPT2_SHAPES)
    linear = {name: array.T for name, array in conv.items()}
    (one,), (other,) = (find_layout(shapes_of(state), {"n_head": 3}).layers for state in (conv, linear))
    assert_same(one.split(conv), other.split(linear))


def test_parts_of_a_model_read_their_own_part_of_the_config():
    kind = "Gemma3ForConditionalGeneration"
    model = model_of(kind, text_config=LLAMA, vision_config=TOWER, mm_tokens_per_image=4)
    config = model.config.to_dict()
    for field in ("num_attention_heads", "num_key_value_heads", "head_dim"):  # published configs leave these out
        del config["text_config"][field]
    layout = find_layout(shapes_of(model.state_dict()), config)
    assert layout.family == "gemma3"
    heads = {(one.stack, one.heads, one.key_value_heads) for one in layout.layers}
    assert heads == {("language_model", 4, 2), ("vision_tower.encoder", 4, 4), ("vision_tower.head", 4, 4)}
    assert any(note.startswith("In language_model: RoPE") for note in layout.notes)
    assert any(note.startswith("In vision_tower.encoder, vision_tower.head: Biases") for note in layout.notes)


def test_arrays_of_every_library_split_alike(torch):
    jax = pytest.importorskip("jax")
    for shapes in (
        llama_shapes(1),
        GPT2_SHAPES,
        {"h.0.self_attention.query_key_value.weight": (32, 16), "h.0.self_attention.dense.weight": (16, 16)},
        {"h.0.attn.qkv_proj.weight": (36, 12), "h.0.attn.out_proj.weight": (12, 12)},
    ):
        state = {name: array.astype(ml_dtypes.bfloat16) for name, array in random_state(shapes).items()}
        (layer,) = find_layout(shapes, {"num_attention_heads": 4}).layers
        wide = {key: array.astype(np.float32) for key, array in state.items()}
        assert layer.split(state).query.dtype == ml_dtypes.bfloat16
        others = [{key: jax.numpy.asarray(array) for key, array in state.items()}]
        others += [{key: torch.from_numpy(array) for key, array in wide.items()}]
        for arrays in (state, *others):
            assert_same(HeadWeights(*(np.asarray(part, np.float32) for part in layer.split(arrays))), layer.split(wide))


def test_gradients_pass_and_nothing_is_copied(torch):
    state = {name: torch.tensor(array, requires_grad=True) for name, array in random_state(llama_shapes(1)).items()}
    (layer,) = find_layout(shapes_of(state), {"num_attention_heads": 4}).layers
    heads = layer.split(state)
    for key, part in zip(layer.keys, heads, strict=True):
        assert part.data_ptr() == state[key].data_ptr()
    torch.stack([(part**2).sum() for part in heads]).sum().backward()
    for tensor in state.values():
        torch.testing.assert_close(tensor.grad, 2 * tensor)


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: f"base_model.model.{name}".replace("_proj.weight", "_proj.base_layer.weight"),
        lambda name: f"module._orig_mod.{name}",
        lambda name: name.replace("layers.1.", "layers.1._orig_mod.").replace("layers.0.", "layers.0._orig_mod."),
        lambda name: name.removeprefix("model."),
    ],
)
def test_prefixes_and_wrappers_do_not_matter(rename):
    shapes = {rename(name): shape for name, shape in llama_shapes().items()}
    layout = find_layout(shapes, {"num_attention_heads": 4, "model_type": "smollm"})
    assert layout.family == "smollm"
    assert [layer.layer for layer in layout.layers] == [0, 1]
    assert {key for layer in layout.layers for key in layer.keys} == set(shapes)


@pytest.mark.parametrize("telling, shape, head_dim", [("q_norm.weight", (5,), 5), ("rotary_emb.inv_freq", (3,), 6)])
def test_a_small_tensor_gives_the_head_count_away(telling, shape, head_dim):
    layout = find_layout({**llama_shapes(head_dim=head_dim), f"model.layers.0.self_attn.{telling}": shape})
    assert [(layer.heads, layer.key_value_heads) for layer in layout.layers] == [(4, 2)] * 2
    assert any(note.startswith(NORM) for note in layout.notes) == ("norm" in telling)


def test_t5_needs_no_config():
    module = "encoder.block.0.layer.0.SelfAttention"
    shapes = {f"{module}.{leaf}.weight": (15, 24) for leaf in "qkv"} | {f"{module}.o.weight": (24, 15)}
    shapes[f"{module}.relative_attention_bias.weight"] = (32, 3)
    (layer,) = find_layout(shapes).layers
    assert (layer.heads, layer.stack) == (3, "")
    refused("relative_attention_bias", shapes, {"num_heads": 5})


def test_adapters_are_noted_and_not_read():
    shapes = {name.replace(".weight", ".base_layer.weight"): shape for name, shape in llama_shapes().items()}
    shapes["model.layers.0.self_attn.q_proj.lora_A.default.weight"] = (2, 12)
    layout = find_layout(shapes, {"num_attention_heads": 4})
    assert any(note.startswith("LoRA") for note in layout.notes)
    assert all("lora" not in key for layer in layout.layers for key in layer.keys)


WHERE = r" = \d+ .*model\.layers\.0\.self_attn\.q_proj\.weight.*\(20, 12\)"


@pytest.mark.parametrize(
    ("config", "mapping", "message"),
    [
        (None, None, r"number of heads is missing.*q_proj.*\(20, 12\).*config\.json.*mapping="),
        ({"num_attention_heads": 3}, None, f"`num_attention_heads`{WHERE}"),
        ({"num_attention_heads": 4, "head_dim": 6}, None, f"`head_dim`{WHERE}"),
        ({"num_attention_heads": 4, "num_key_value_heads": 4}, None, f"`num_key_value_heads`{WHERE}"),
        ({"num_attention_heads": 20, "num_key_value_heads": 2}, None, f"`num_key_value_heads`{WHERE}"),
        ({"num_attention_heads": 4}, {"heads": 2}, "`heads` = 2 of the mapping contradicts `num_attention_heads` = 4"),
    ],
)
def test_head_counts_that_are_missing_or_disagree(config, mapping, message):
    refused(message, llama_shapes(), config, mapping)


def test_incomplete_quantised_and_odd_layers_are_left_out():
    shapes = llama_shapes(6)
    del shapes["model.layers.1.self_attn.k_proj.weight"]
    shapes["model.layers.2.self_attn.q_proj.weight"] = (120, 1)  # four bits, packed
    shapes["model.layers.2.self_attn.q_proj.weight.absmax"] = (4,)
    shapes["model.layers.3.self_attn.q_proj.qweight"] = shapes.pop("model.layers.3.self_attn.q_proj.weight")
    shapes["model.layers.4.self_attn.v_proj.weight"] = (0,)  # sharded elsewhere
    layout = find_layout(shapes, {"num_attention_heads": 4, "num_hidden_layers": 8})
    assert [layer.layer for layer in layout.layers] == [0, 5]
    assert [note for note in layout.notes if "left out" in note or "Of 8" in note] == [
        "Layer 1 left out: k_proj missing.",
        "Layers 2, 3 left out: q_proj quantised.",
        "Layer 4 left out: `value` has shape (0,), not 2 axes (rows, model).",
        "Of 8 layers in the config, no attention weights of 6, 7.",
    ]
    only_missing = {name: shape for name, shape in shapes.items() if "layers.1." in name}
    refused("Layer 1 left out: k_proj missing", only_missing, {"num_attention_heads": 4})


def test_an_unknown_model_says_what_was_seen():
    shapes = {"layers.0.mixer.in_proj.weight": (8, 4), "layers.0.out_proj.weight": (4, 8)}
    refused(r"'mamba'.*mixer\.in_proj\.weight.*mapping=\{", shapes, {"model_type": "mamba"})


def test_a_config_of_another_family_is_noted():
    layout = find_layout(llama_shapes(), {"num_attention_heads": 4, "model_type": "gpt2"})
    assert any("model_type 'gpt2'" in note and "llama" in note for note in layout.notes)
    fused = {"h.0.self_attention.query_key_value.weight": (24, 8), "h.0.self_attention.dense.weight": (8, 8)}
    layout = find_layout(fused, {"num_attention_heads": 2, "model_type": "cousin"})
    assert any("order of falcon" in note and "'cousin'" in note for note in layout.notes)
    assert any("ALiBi" in note for note in find_layout(fused, {"n_head": 2, "alibi": True}).notes)


OWN = {role: f"layers.{{layer}}.attn.w{role[0]}" for role in ("query", "key", "value", "output")}


def test_a_mapping_in_both_orientations():
    shapes = {"q": (20, 12), "k": (10, 12), "v": (10, 12), "o": (12, 20)}
    names = {f"net.layers.{layer}.attn.w{one}.weight": one for layer in range(2) for one in shapes}
    state = random_state({name: shapes[one] for name, one in names.items()})
    flipped = {name: array.T for name, array in state.items()}
    straight = find_layout(shapes_of(state), mapping={"heads": 4, **OWN})
    turned = find_layout(shapes_of(flipped), mapping={"heads": 4, "orientation": "in_out", **OWN})
    assert straight.family == "custom"
    for one, other in zip(straight.layers, turned.layers, strict=True):
        assert (one.heads, one.key_value_heads, one.keys) == (4, 2, other.keys)
        assert_same(one.split(state), other.split(flipped))
    query = state["net.layers.1.attn.wq.weight"]
    np.testing.assert_array_equal(straight.layers[1].split(state).query[2], query[10:15].T)


FLAX = {role: f"layers_{{layer}}/attn/{'out' if role == 'output' else role}/kernel" for role in OWN}


def test_a_flax_tree():
    """Kernels of DenseGeneral: [d, H, dh] for q, k and v, [H, dh, d] for the output."""
    sizes = {"query": (12, 4, 5), "key": (12, 2, 5), "value": (12, 2, 5), "out": (4, 5, 12)}
    tree = {f"params/layers_{layer}/attn/{one}/kernel": size for layer in range(3) for one, size in sizes.items()}
    state = random_state(tree)
    axes = {"query": "model head head_dim", "output": ["head", "head_dim", "model"]}
    layout = find_layout({**tree, "params/layers_0/attn/query/bias": (4, 5)}, mapping={**FLAX, "axes": axes})
    found = [(layer.layer, layer.heads, layer.key_value_heads) for layer in layout.layers]
    assert found == [(0, 4, 2), (1, 4, 2), (2, 4, 2)]
    assert any(note.startswith(BIAS) for note in layout.notes)
    query, key, value, output = (state[f"params/layers_2/attn/{one}/kernel"] for one in sizes)
    straight = HeadWeights(query.swapaxes(0, 1), key.swapaxes(0, 1), value.swapaxes(0, 1), output)
    assert_same(layout.layers[2].split(state), straight)
    refused("`heads` = 5 of the mapping.*head axes", tree, None, {**FLAX, "axes": axes, "heads": 5})


def test_layers_scanned_into_one_tensor():
    sizes = {"query": (12, 3, 4, 5), "key": (12, 3, 2, 5), "value": (12, 3, 2, 5), "out": (4, 3, 5, 12)}
    state = random_state({f"decoder/attn/{one}": size for one, size in sizes.items()})
    names = {role: f"attn/{'out' if role == 'output' else role}" for role in OWN}
    axes = {"query": "model layer head head_dim", "output": "head layer head_dim model"}
    layout = find_layout(shapes_of(state), mapping={**names, "axes": axes})
    assert [layer.layer for layer in layout.layers] == [0, 1, 2]
    query, key, value, output = (tensor[:, 1] for tensor in state.values())
    straight = HeadWeights(query.swapaxes(0, 1), key.swapaxes(0, 1), value.swapaxes(0, 1), output)
    assert_same(layout.layers[1].split(state), straight)


@pytest.mark.parametrize("order", ["thirds", "per_head"])
def test_a_fused_mapping(order):
    state = random_state({"b.0.qkv.weight": (36, 9), "b.0.out.weight": (9, 12)})
    mapping = {"heads": 3, "fused": "b.{layer}.qkv", "output": "b.{layer}.out", "order": order}
    (layer,) = find_layout(shapes_of(state), mapping=mapping).layers
    fused = state["b.0.qkv.weight"]
    parts = fused.reshape(3, 3, 4, 9) if order == "thirds" else fused.reshape(3, 3, 4, 9).swapaxes(0, 1)
    for got, expected in zip(layer.split(state)[:3], parts, strict=True):
        np.testing.assert_array_equal(got, expected.swapaxes(1, 2))
    # The same numbers with every axis apart, as some Flax models keep them.
    loose = {"b.0.qkv.weight": np.moveaxis(fused.reshape(3, 3, 4, 9), -1, 0), "b.0.out.weight": state["b.0.out.weight"]}
    middle = "part head" if order == "thirds" else "head part"
    (same,) = find_layout(shapes_of(loose), mapping={**mapping, "axes": {"fused": f"model {middle} head_dim"}}).layers
    assert_same(layer.split(state), same.split(loose))


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({**OWN, "head": 4}, "did you mean 'heads'"),
        ({**OWN, "heads": 0}, "`heads`.*positive.*0"),
        ({**OWN, "heads": 4, "orientation": "out-in"}, "did you mean 'out_in'"),
        ({**OWN, "heads": 4, "query": "blocks.{layer}.wq"}, r"'blocks.\{layer\}.wq'.*matches no.*layers\.0\.attn"),
        ({"heads": 4, "query": "x"}, "no `key`"),
        ({**OWN, "fused": "x"}, "both `fused` and `query`"),
        ({"fused": "x", "output": "y", "order": "third"}, "did you mean 'thirds'"),
        ({**OWN, "order": "thirds"}, "give `fused`"),
        ({"orientation": "in_out"}, "needs the tensors"),
        ({**OWN, "axes": {"query": "model heads head_dim"}}, "did you mean 'head'"),
        ({**OWN, "axes": {"query": "model head"}}, "head and head_dim"),
        ({**OWN, "axes": {"queries": "model rows"}}, "did you mean 'query'"),
        ({**OWN, "axes": ["model"]}, "must name axes by tensor"),
        ({**OWN, "axes": {"query": "layer rows model"}}, "in all of"),
    ],
)
def test_a_wrong_mapping_says_what_is_wrong(mapping, message):
    shapes = {f"layers.0.attn.w{one}": (20, 12) for one in "qkv"} | {"layers.0.attn.wo": (12, 20)}
    refused(message, shapes, None, mapping)
