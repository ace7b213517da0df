"""What PEFT calls the modules of a model: their paths in memory, which files do not always tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

BODIES = {
    "gpt2": "transformer",
    "gptj": "transformer",
    "gpt_neo": "transformer",
    "codegen": "transformer",
    "falcon": "transformer",
    "gpt_neox": "gpt_neox",
    "bert": "bert",
    "roberta": "roberta",
    "vit": "vit",
    "deit": "deit",
    "beit": "beit",
    "opt": "model",
}
"""Where a model with a head keeps its body; files of the body alone (the hub's gpt2) leave it out of their names."""

HEADED = re.compile(r"(LMHeadModel|DoubleHeadsModel|For[A-Z]\w*)$")

_VISION = (
    (re.compile(r"\bencoder\.layer\.(\d+)\.attention\.attention\.query$"), r"layers.\1.attention.q_proj"),
    (re.compile(r"\bencoder\.layer\.(\d+)\.attention\.attention\.key$"), r"layers.\1.attention.k_proj"),
    (re.compile(r"\bencoder\.layer\.(\d+)\.attention\.attention\.value$"), r"layers.\1.attention.v_proj"),
    (re.compile(r"\bencoder\.layer\.(\d+)\.attention\.output\.dense$"), r"layers.\1.attention.o_proj"),
    (re.compile(r"\bencoder\.layer\.(\d+)\.intermediate\.dense$"), r"layers.\1.mlp.fc1"),
    (re.compile(r"\bencoder\.layer\.(\d+)\.output\.dense$"), r"layers.\1.mlp.fc2"),
    (re.compile(r"\bencoder\.layer\.(?=\d+\.)"), "layers."),
)
RENAMED = {
    "vit": _VISION,
    "deit": _VISION,
    "beit": _VISION,
    "gpt_neox": ((re.compile(r"^embed_out$"), "lm_head"),),
    "mixtral": ((re.compile(r"\bblock_sparse_moe\.gate$"), "mlp.gate"),),
}
"""Names on disk and, from transformers 5 on, in memory; the files kept their old ones."""


def names_in_memory(stored: Iterable[str], config: Mapping[str, Any]) -> dict[str, str]:
    """Tensors of the model that `config` describes: what files call them, and what they are called in memory."""
    stored = list(stored)
    family = str(config.get("model_type"))
    body = BODIES.get(family, "")
    bare = body and not any(name.startswith(f"{body}.") for name in stored)
    prefix = f"{body}." if bare and HEADED.search(architecture(config)) else ""
    found = {}
    for key in stored:
        module, dot, leaf = key.rpartition(".")
        name = prefix + module
        for pattern, replacement in RENAMED.get(family, ()):
            name = pattern.sub(replacement, name)
        found[key] = f"{name}{dot}{leaf}"
    return found


def peft_names(stored: Iterable[str], config: Mapping[str, Any]) -> dict[str, str]:
    """Paths of modules in the model that `config` describes, by the keys of their weights."""
    return {key: name.removesuffix(".weight") for key, name in names_in_memory(stored, config).items()}


def architecture(config: Mapping[str, Any]) -> str:
    named = config.get("architectures")
    return str(named[0]) if isinstance(named, list) and named else ""


def tied(stored: Iterable[str], config: Mapping[str, Any]) -> bool:
    """Whether the output matrix is the embedding: PEFT adapts the one, and the other then differs until it is
    merged."""
    kind = architecture(config)
    if kind and not re.search(r"LMHead|DoubleHeads|CausalLM|MaskedLM|ConditionalGeneration", kind):
        return False
    outputs = any(name.split(".")[0] in ("lm_head", "embed_out") for name in stored)
    flag = config.get("tie_word_embeddings")
    default = config.get("model_type") in ("gpt2", "t5", "opt", "bart", "gemma", "gemma2", "gpt_neo", "codegen")
    return not outputs and bool(default if flag is None else flag)
