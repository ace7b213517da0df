"""Small models of transformers with random weights, and what the heads of a GPT-2 compute, formed whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

LAYERS = 2
GPT2 = dict(n_layer=LAYERS, n_embd=16, n_head=2, vocab_size=16, n_positions=8, bos_token_id=0, eos_token_id=0)
WITHOUT_DROPOUT = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
SMALL = dict(hidden_size=16, num_hidden_layers=LAYERS, num_attention_heads=2, intermediate_size=24, vocab_size=20)
WIDER = dict(hidden_size=48, num_hidden_layers=LAYERS, num_attention_heads=4, intermediate_size=80, vocab_size=101)

MODELS = {
    "gpt2": ("GPT2LMHeadModel", GPT2 | dict(n_embd=48, n_head=4, vocab_size=101, n_positions=32)),
    "llama": ("LlamaForCausalLM", dict(**WIDER, num_key_value_heads=2)),
    "vit": ("ViTForImageClassification", dict(**SMALL, image_size=8, patch_size=4, num_labels=3)),
    "gpt_neox": ("GPTNeoXForCausalLM", SMALL),
    "opt": ("OPTForCausalLM", dict(**SMALL, ffn_dim=24, word_embed_proj_dim=16, max_position_embeddings=20)),
    "roberta": ("RobertaForSequenceClassification", dict(**SMALL, num_labels=1, type_vocab_size=1, pad_token_id=19)),
}


def model_of(kind: str, seed: int = 0, **settings: Any):
    torch, transformers = map(pytest.importorskip, ("torch", "transformers"))
    torch.manual_seed(seed)
    transformers.logging.set_verbosity_error()
    made = getattr(transformers, kind)
    return made(made.config_class(**settings))


def tiny(family: str):
    return model_of(MODELS[family][0], **MODELS[family][1])


def tiny_gpt2(seed: int = 0, **settings):
    return model_of("GPT2LMHeadModel", seed, **GPT2 | WITHOUT_DROPOUT | settings)


def dense_products(tensors, heads: int) -> np.ndarray:
    """QK and OV of every head as d x d matrices in 64 bits, [layer, circuit, head]. tensors: by name."""
    found = []
    for layer in range(LAYERS):
        names = [f"transformer.h.{layer}.attn.{name}.weight" for name in ("c_attn", "c_proj")]
        fused, output = (np.asarray(tensors[name], np.float64) for name in names)
        # W_Q, W_K and W_V stand side by side, [in, 3 out].
        query, key, value = (np.split(part, heads, axis=1) for part in np.split(fused, 3, axis=1))
        ov = zip(value, np.split(output, heads), strict=True)
        found.append([[q @ k.T for q, k in zip(query, key, strict=True)], [v @ o for v, o in ov]])
    return np.array(found)
