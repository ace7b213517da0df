"""What a product of weights leaves out of a head's score, in plain sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from saddlescope.spectra.layouts.layer import AttentionLayer
from saddlescope.spectra.layouts.places import Place


class Seen(NamedTuple):
    """What is known of one stack."""

    place: Place
    layers: Sequence[AttentionLayer]
    config: Mapping[str, Any]  # its section
    names: Collection[str]  # plain names of all tensors of the model


def _owned(seen: Seen, pattern: str) -> bool:
    return any(re.search(pattern, name) for name in seen.names if seen.place.owns(name))


def _beside(seen: Seen, pattern: str) -> bool:
    """In the stack, or among what stands beside its list of layers."""
    root = re.sub(r"[^./]*[./]$", "", seen.place.before)
    return any(re.search(pattern, name) for name in seen.names if name.startswith(root))


def _alibi(seen: Seen) -> bool:
    return bool(seen.config.get("alibi")) or seen.config.get("model_type") == "bloom"


def rope(seen: Seen) -> str | None:
    fields = ("rope_parameters", "rope_theta", "rope_scaling", "rotary_dim", "rotary_pct", "rotary_emb_base")
    rotates = (
        seen.place.scheme.rope
        or any(seen.config.get(field) is not None for field in fields)
        or seen.config.get("position_embedding_type") in ("rotary", "rope")
        or _beside(seen, r"(^|[./])(rope|rotary)")
    )
    if rotates and not seen.place.cross and not _alibi(seen):
        return "RoPE: the QK product is the score at relative position 0 only."
    return None


def alibi(seen: Seen) -> str | None:
    return "ALiBi: a bias by distance is added to the scores; the QK product leaves it out." if _alibi(seen) else None


def relative(seen: Seen) -> str | None:
    fields = ("relative_attention_num_buckets", "use_relative_position_bias", "use_shared_relative_position_bias")
    configured = any(seen.config.get(field) for field in fields)
    configured |= "relative" in str(seen.config.get("position_embedding_type", ""))
    if _owned(seen, r"relative_(attention|position)_bias") or (configured and not seen.place.cross):
        return "Relative position bias is added to the scores; the QK product leaves it out."
    return None


def qk_norm(seen: Seen) -> str | None:
    configured = any(seen.config.get(field) for field in ("use_qk_norm", "qk_norm", "qk_layernorm"))
    if configured or _owned(seen, r"[./](q|k|query|key)_?(norm|layernorm|ln)[./]"):
        return "QK-norm: queries and keys are normalised before the score, so QK is not bilinear."
    return None


def softcap(seen: Seen) -> str | None:
    cap = seen.config.get("attn_logit_softcapping")
    return f"Softcap: scores pass through {cap:g} tanh(score / {cap:g}), so QK is not bilinear." if cap else None


def clip(seen: Seen) -> str | None:
    bound = seen.config.get("clip_qkv")
    return (
        f"clip_qkv: queries, keys and values are clipped at ±{bound:g}, so products hold below it." if bound else None
    )


def shared_heads(seen: Seen) -> str | None:
    counts = {(layer.heads, layer.key_value_heads) for layer in seen.layers if layer.key_value_heads < layer.heads}
    if not counts:
        return None
    listed = ", ".join(f"{heads} query heads share {shared} key/value heads" for heads, shared in sorted(counts))
    return f"GQA: {listed}."


def biases(seen: Seen) -> str | None:
    for roles in seen.place.layers.values():
        for role, name in roles.items():
            bias = re.sub(r"(weight|kernel|w)$", lambda end: "b" if end[0] == "w" else "bias", name)
            if role != "output" and bias != name and bias in seen.names:
                return "Biases on queries, keys or values: the products leave them out."
    return None


def adapters(seen: Seen) -> str | None:
    return "LoRA adapters: heads are those of the base weights." if _owned(seen, r"\.lora_A\b") else None


def borrowed_order(seen: Seen) -> str | None:
    scheme, model_type = seen.place.scheme, seen.config.get("model_type")
    if scheme.rule == "separate" or not scheme.types or model_type in (None, *scheme.types):
        return None
    return f"Fused tensors are read in the order of {scheme.family}; for model_type {model_type!r} this is unchecked."


FLAGS: tuple[Callable[[Seen], str | None], ...] = (
    *(rope, alibi, relative, qk_norm, softcap, clip, shared_heads, biases, adapters, borrowed_order),
)


def take_notes(stacks: Mapping[str, Seen]) -> list[str]:
    """Every sentence once; one that is not true of all stacks says of which."""
    said: dict[str, list[str]] = {}
    for flag in FLAGS:
        for stack, seen in stacks.items():
            if sentence := flag(seen):
                said.setdefault(sentence, []).append(stack)
    return [
        sentence if len(where) == len(stacks) else f"In {', '.join(where)}: {sentence}"
        for sentence, where in said.items()
    ]
