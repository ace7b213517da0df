"""The table of naming schemes: which tensors of a family hold its attention, and by which rule they are cut."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

QUERY_KEY_VALUE = ("query", "key", "value", "output")
FUSED = ("fused", "output")

_PREFIX = r"(?:.*[./])?"
# A packed weight is matched too, so that its layer is left out by name and not overlooked.
_SUFFIX = r"(?:\.weight|\.qweight|\.weight_packed)?"


@dataclass(frozen=True)
class Scheme:
    """Names are `stem` + "." + one of `leaves`, behind any prefix; leaves follow `roles`."""

    family: str
    stem: str
    leaves: tuple[str, ...]
    rule: str = "separate"
    orientation: str = "out_in"  # nn.Linear; "in_out": Conv1D, Flax; "longer_out": the fused tensor's longer side
    types: tuple[str, ...] = ()  # model_type in config.json
    rope: bool = False
    own_axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of roles that are not plain matrices

    @property
    def roles(self) -> tuple[str, ...]:
        return QUERY_KEY_VALUE if self.rule == "separate" else FUSED

    @cached_property
    def patterns(self) -> dict[str, re.Pattern[str]]:
        return {role: re.compile(self._pattern(leaf)) for role, leaf in zip(self.roles, self.leaves, strict=True)}

    def match(self, name: str) -> tuple[str, re.Match[str]] | None:
        """The role of the tensor `name` in this scheme."""
        for role, leaf in zip(self.roles, self.leaves, strict=True):
            # A mixture of experts has tens of thousands of names: most are told apart without a regular expression.
            literal = f"{self.stem}.{leaf}" if self.stem else leaf
            if literal.rpartition("{layer}")[2] in name and (match := self.patterns[role].fullmatch(name)):
                return role, match
        return None

    def _pattern(self, leaf: str) -> str:
        leaf = re.escape(leaf).replace(r"\{layer\}", r"(?P<layer>\d+)")
        if not self.stem:
            return f"(?P<before>{_PREFIX})(?P<after>){leaf}{_SUFFIX}"
        before, after = map(re.escape, self.stem.split("{layer}"))
        return rf"(?P<before>{_PREFIX}{before})(?P<layer>\d+)(?P<after>{after})\.{leaf}{_SUFFIX}"

    def axes(self, role: str, shapes: Mapping[str, tuple[int, ...]]) -> tuple[str, ...]:
        """What the axes of `role`'s tensor are, given the shapes of its layer by role."""
        if role in self.own_axes:
            return self.own_axes[role]
        orientation = self.orientation
        if orientation == "longer_out":
            fused = shapes["fused"]
            orientation = "out_in" if fused[:1] > fused[-1:] else "in_out"
        # "out" is where the heads are for every tensor but the output projection, which reads from them.
        heads_lead = (orientation == "out_in") != (role == "output")
        return ("rows", "model") if heads_lead else ("model", "rows")


_PROJECTIONS = ("q_proj", "k_proj", "v_proj")
_LLAMA_LIKE = (
    *("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2", "gemma3"),
    *("gemma3_text", "olmo", "olmo2", "olmo3", "olmoe", "stablelm", "starcoder2", "cohere", "cohere2", "granite"),
)
_VISION = ("vit", "deit", "beit", "dinov2", "vit_mae", "vit_msn", "ijepa")
_BERT_LIKE = ("bert", "roberta", "xlm-roberta", "camembert", "electra", "ernie", "data2vec-text", "xlm-roberta-xl")
_BART_LIKE = ("opt", "bart", "mbart", "whisper", "clip", "siglip", "marian", "pegasus", "blenderbot", "m2m_100")

SCHEMES = (
    Scheme("llama", "layers.{layer}.self_attn", (*_PROJECTIONS, "o_proj"), types=_LLAMA_LIKE, rope=True),
    Scheme("phi3", "layers.{layer}.self_attn", ("qkv_proj", "o_proj"), "blocks", types=("phi3", "phimoe"), rope=True),
    Scheme("opt", "layers.{layer}.self_attn", (*_PROJECTIONS, "out_proj"), types=_BART_LIKE),
    Scheme("bart", "layers.{layer}.encoder_attn", (*_PROJECTIONS, "out_proj"), types=_BART_LIKE),
    # Released GPT-2 weights are Conv1D; nanoGPT keeps the names with nn.Linear.
    Scheme("gpt2", "h.{layer}.attn", ("c_attn", "c_proj"), "blocks", "longer_out", types=("gpt2", "imagegpt")),
    Scheme("gpt_bigcode", "h.{layer}.attn", ("c_attn", "c_proj"), "grouped", types=("gpt_bigcode",)),
    Scheme("gptj", "h.{layer}.attn", (*_PROJECTIONS, "out_proj"), types=("gptj",), rope=True),
    Scheme("codegen", "h.{layer}.attn", ("qkv_proj", "out_proj"), "codegen", types=("codegen",), rope=True),
    Scheme("gpt_neo", "h.{layer}.attn.attention", (*_PROJECTIONS, "out_proj"), types=("gpt_neo",)),
    Scheme(
        *("gpt_neox", "layers.{layer}.attention", ("query_key_value", "dense"), "grouped"),
        types=("gpt_neox",),
        rope=True,
    ),
    Scheme(
        *("falcon", "h.{layer}.self_attention", ("query_key_value", "dense"), "grouped"),
        types=("falcon", "RefinedWeb", "RefinedWebModel", "bloom"),
        rope=True,
    ),
    *(
        Scheme("bert", stem, ("self.query", "self.key", "self.value", "output.dense"), types=_BERT_LIKE)
        for stem in ("layer.{layer}.attention", "layer.{layer}.crossattention")
    ),
    Scheme("distilbert", "layer.{layer}.attention", ("q_lin", "k_lin", "v_lin", "out_lin"), types=("distilbert",)),
    # One model, two names: as it is saved, and as transformers 5 names it in memory.
    Scheme(
        *("vit", "layer.{layer}.attention"),
        ("attention.query", "attention.key", "attention.value", "output.dense"),
        types=_VISION,
    ),
    *(
        Scheme("vit", stem, (*_PROJECTIONS, "o_proj"), types=_VISION)
        for stem in ("layers.{layer}.attention", "layer.{layer}.attention")
    ),
    Scheme("timm_vit", "blocks.{layer}.attn", ("qkv", "proj"), "blocks"),
    *(
        Scheme("t5", f"block.{{layer}}.layer.{module}", ("q", "k", "v", "o"), types=("t5", "mt5", "umt5", "longt5"))
        for module in ("0.SelfAttention", "1.EncDecAttention")
    ),
    Scheme("multihead_attention", "", ("in_proj_weight", "out_proj"), "blocks"),
    Scheme("multihead_attention", "", ("q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj")),
)
