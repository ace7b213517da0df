"""What is run for this paper's figures and claims.

Flows have n=60 sentences of L=5 words, m1 = m/8 and the horizon τ = 3e6 unless said otherwise. A width costs nothing:
asymptotic statements are judged over widths from 2^8 to 1e9.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from saddlescope.core.experiment import Experiment, Size, by_seeds, over

from ..spec import APPENDIX

WIDTHS = over("width", *(2**k for k in (8, 10, 12, 14, 17, 20)), 10**9)
WIDE = {"width": 2**20}
"""Wide enough for what remains of the width to be below every tolerance."""

COUNTS = ((12, 5), (18, 5), (24, 5), (36, 5), (60, 5), (72, 5), (24, 3), (36, 7))
"""(n, L): below, at and above n = 3(L+1); of (12, 5), (18, 5), (24, 5) and (36, 7) the fourth type counts."""

FEW = {"samples": 24}
VARIANTS = (
    {"activation": "relu"},
    {"trained_output": True},
    {"heads": 2},
    {"layers": 2},
    {"optimizer": "momentum", "learning_rate": 2e-4},
    {"optimizer": "adam", "learning_rate": 1e-5},
)


def _counts(*pairs: tuple[int, int]) -> tuple[dict[str, Any], ...]:
    return tuple({"samples": n, "tokens": length} for n, length in pairs)


_flow = partial(Experiment, system="cooccurrence", face="flow")
_training = partial(Experiment, system="cooccurrence", face="train")

EXPERIMENTS = (
    _flow(
        "widths",
        "How do the two phases, and everything that Theorems 3.1 to 3.3 bound, depend on the width?",
        **by_seeds(8, 1, WIDTHS),
    ),
    _flow(
        "counts",
        "Where do balance and generalisation end, for so many sentences of so many words?",
        full=Size(2, _counts(*COUNTS, (48, 5), (120, 5), (180, 5), (60, 7), (60, 10))),
        short=Size(1, _counts(*COUNTS)),
        fields=WIDE,
    ),
    _flow(
        "endless",
        "What is left of it with infinitely many sentences?",
        **by_seeds(8, 2, over("width", 2**10, 2**14, 10**9, samples=None)),
        fields={"horizon": 1e7},
    ),
    Experiment(
        "starts",
        "What do starts look like, before anything moves?",
        "cooccurrence",
        "predict",
        **by_seeds(100, 20, over("width", 2**8, 2**12, 10**6, **FEW)),
    ),
    _flow(
        "small_starts",
        "What becomes of the first moments as the start shrinks?",
        **by_seeds(8, 1, over("init_scale", 0.1, 0.03, 0.01, 0.001, 1e-5)),
        fields={**FEW, **WIDE, "horizon": 100.0},
    ),
    _flow(
        "neurons",
        "How much does the number of neurons matter?",
        **by_seeds(4, 1, over("neurons", 2**6, 2**8, 2**11, 2**14, 2**17)),
        fields={**FEW, "width": 2**14, "horizon": 1e4},
    ),
    _flow(
        "sampled",
        "What if types of sentences are drawn, as in Definition 2.1?",
        full=Size(1, over("data_seed", *range(16), sampled_types=True)),
        short=Size(1, over("data_seed", *range(3), sampled_types=True)),
        fields={**WIDE, "samples": 36, "horizon": 1e5},
    ),
    _flow(
        "words",
        "What if irrelevant words repeat, and come in topics?",
        **by_seeds(4, 1, over("topics", 1, 6, 20)),
        fields={"width": 2**14, "vocabulary": 64, "horizon": 1e5, "test_sets": 20},
    ),
    # ---- Appendix A
    _training(
        "appendix",
        "The experiment of Appendix A, a drawn as Kaiming's start draws all layers.",
        full=Size(4, over("data_seed", 0, 1, 2, 3)),
        short=Size(1, over("data_seed", 1, 2, 3)),
        fields=APPENDIX,
    ),
    _training(
        "appendix_signs",
        "The same with a = ±1, as section 2.2 has it.",
        full=Size(4, ({"steps": 30_000},)),
        short=Size(1, ({"steps": 2000},)),
        fields={**APPENDIX, "output": "signs"},
    ),
    _training(
        "appendix_distinct",
        "The same with all irrelevant words distinct, as Assumption 2.3 has it.",
        full=Size(4, ({"steps": 30_000},)),
        short=Size(1, ({"steps": 6000},)),
        fields={**APPENDIX, "vocabulary": None, "test_sets": 2},
    ),
    # ---- section 5
    Experiment(
        "variants",
        "Do the two phases survive another network, optimizer or language?",
        "cooccurrence/variant",
        "train",
        **by_seeds(3, 1, VARIANTS),
        fields={"width": 128, "learning_rate": 1e-3, "steps": 2000},
    ),
)
