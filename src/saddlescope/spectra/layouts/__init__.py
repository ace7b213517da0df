"""Where a model keeps its attention heads, read from the names and shapes of its tensors.

Every head comes out in one form, rows being tokens: W_Q, W_K, W_V [heads, d, dh] and W_O [heads, dh, d], so that
QK_h = W_Q[h] W_K[h // group]^T and OV_h = W_V[h // group] W_O[h] with group = heads / key_value_heads.

A new naming is one row in `schemes.py`; a new order inside a fused tensor is one function in `rules.py`.
"""

from saddlescope.spectra.layouts.find import find_layout
from saddlescope.spectra.layouts.layer import AttentionLayer, HeadLayout
from saddlescope.spectra.layouts.rules import HeadWeights

__all__ = ["AttentionLayer", "HeadLayout", "HeadWeights", "find_layout"]
