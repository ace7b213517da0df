"""The public names."""

from .folder import read_watched as read_watched
from .huggingface import SaddleCallback as SaddleCallback
from .jax_tree import TreeWatch as TreeWatch, measure_tree as measure_tree
from .lightning import LightningCallback as LightningCallback
from .watch import Watch as Watch
