"""The vision transformer of Appendix B: pre-norm blocks, a class token, learned positions, no dropout."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from saddlescope.core.source import source

from .spec import ViTSpec

ACTIVATIONS = {"gelu": nn.GELU, "relu": nn.ReLU}


class Attention(nn.Module):
    """Names and order of the fused weight are timm's, which checkpoint readers know."""

    def __init__(self, width: int, heads: int, head_width: int):
        super().__init__()
        self.heads, self.rows = heads, heads * head_width
        self.qkv = nn.Linear(width, 3 * self.rows, bias=False)
        self.proj = nn.Linear(self.rows, width)

    def forward(self, x: torch.Tensor, asking: int | None = None) -> torch.Tensor:
        """asking: how many tokens, from the first on, look at the others; None: all."""
        if asking is None or not isinstance(self.qkv, nn.Linear):
            # An adapter in the layer's place acts when it is called: its `weight` is that of the layer below.
            query, key, value = self._by_head(self.qkv(x), 3)
            query = query[:, :, :asking]
        else:
            (query,) = self._by_head(functional.linear(x[:, :asking], self.qkv.weight[: self.rows]), 1)
            key, value = self._by_head(functional.linear(x, self.qkv.weight[self.rows :]), 2)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return self.proj(mixed.transpose(1, 2).flatten(2))

    def _by_head(self, rows: torch.Tensor, parts: int) -> torch.Tensor:
        """[B, T, parts H dh] -> [parts, B, H, T, dh]."""
        return rows.unflatten(2, (parts, self.heads, -1)).permute(2, 0, 3, 1, 4)


class Block(nn.Module):
    def __init__(self, spec: ViTSpec):
        super().__init__()
        self.norm1 = nn.LayerNorm(spec.width)
        self.attn = Attention(spec.width, spec.heads, spec.head_width)
        self.norm2 = nn.LayerNorm(spec.width)
        self.mlp = nn.Sequential(
            nn.Linear(spec.width, spec.mlp_width), ACTIVATIONS[spec.activation](), nn.Linear(spec.mlp_width, spec.width)
        )

    def forward(self, x: torch.Tensor, asking: int | None = None) -> torch.Tensor:
        x = x[:, :asking] + self.attn(self.norm1(x), asking)
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """Images [B, channels, height, width] -> logits [B, classes]."""

    def __init__(self, spec: ViTSpec, channels: int, height: int, width: int, classes: int):
        super().__init__()
        self.config = {"num_heads": spec.heads}  # read by whoever cuts the fused weight into heads
        self.patch = spec.patch
        tokens = (height // spec.patch) * (width // spec.patch)
        self.patch_embed = nn.Linear(channels * spec.patch**2, spec.width)
        self.cls_token = nn.Parameter(torch.empty(1, 1, spec.width))
        self.pos_embed = nn.Parameter(torch.empty(1, tokens + 1, spec.width))
        self.blocks = nn.ModuleList(Block(spec) for _ in range(spec.depth))
        self.norm = nn.LayerNorm(spec.width)
        self.head = nn.Linear(spec.width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patch_embed(self.patches(images))
        x = torch.cat([self.cls_token.to(x.dtype).expand(len(x), -1, -1), x], 1) + self.pos_embed.to(x.dtype)
        *others, last = self.blocks
        for block in others:
            x = block(x)
        # The answer is read from the class token: what the last block would make of the others reaches nothing.
        return self.head(self.norm(last(x, asking=1)[:, 0]))

    def patches(self, images: torch.Tensor) -> torch.Tensor:
        """[B, C, H, W] -> [B, tokens, C p p]."""
        batch, channels, height, width = images.shape
        p = self.patch
        cut = images.view(batch, channels, height // p, p, width // p, p)
        return cut.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * p * p)


@source("boix2023", "Section 5, initialization scale")
@torch.no_grad()
def initialize(model: VisionTransformer, scale: float, generator: torch.Generator) -> None:
    """Every linear layer uniform in ±1/√fan_in, torch's default, times `scale` but for the token map.

    The token map is the patch embedding with the class token and the positions (standard normal, as in the usual code
    for CIFAR). Gains of the norms start at one: they hold no direction that a scale could make small.
    """
    model.cls_token.normal_(generator=generator)
    model.pos_embed.normal_(generator=generator)
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            bound = module.in_features**-0.5 * (1.0 if name == "patch_embed" else scale)
            for parameter in module.parameters():
                parameter.uniform_(-bound, bound, generator=generator)
