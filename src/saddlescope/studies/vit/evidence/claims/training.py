"""What the paper says of vision transformers, in a form that can lose; and what its open questions ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from saddlescope.core.claim import OURS, Claim, all_of, bounded, monotone, only, scales_as, together

from .. import measures

PAPER = "boix2023"

HALF = "half: a change without any bias has the start's own stable rank (random ones have 0.9 to 1.5 times it)"


def _of_every_run(suffix: str, experiment: str, runs: int) -> Iterator[Claim]:
    """What must hold in each training of an experiment, whatever its scale."""
    each: dict[str, Any] = {"experiment": experiment, "seeds": all_of(runs)}
    default: dict[str, Any] = {"experiment": experiment, "seeds": all_of(1), "applies": only(init_scale=1.0)}
    yield Claim(
        name=f"low_rank_against_start{suffix}",
        says="The change of every head's W_K W_Qᵀ and W_V W_O has at most half the stable rank of the product it began "
        "with.",
        source=(PAPER, "Section 5, Figure 5"),
        **each,
        measured=measures.against_start,
        relation=bounded(0.5, because=HALF),
    )
    yield Claim(
        name=f"low_rank_against_random{suffix}",
        says="It has at most half the stable rank of what random changes of the weights of the same norms would make.",
        source=(PAPER, "Section 5, low-rank bias"),
        **each,
        measured=measures.against_random,
        relation=bounded(0.5, because=HALF),
    )
    yield Claim(
        name=f"spectrum_below_start{suffix}",
        says="Over its largest, every singular value of the change of W_K W_Qᵀ is below the start's, default scale.",
        source=(PAPER, "Figure 5"),
        **default,
        measured=measures.normalised_tail,
        relation=bounded(1.0, because="1: a spectrum that falls like the start's is no lower in rank"),
    )
    yield Claim(
        name=f"product_is_not_low_rank{suffix}",
        says="For 90% of its energy every trained product needs at least a third of the directions that it has.",
        source=(PAPER, "Section 1.1, trained weights that are not low-rank"),
        **default,
        measured=measures.end_directions,
        relation=bounded(lower=1 / 3, because="a random product needs two thirds, one of low rank some hundredths"),
    )
    yield Claim(
        name=f"change_is_lower_than_product{suffix}",
        says="The change needs fewer directions for 90% of its energy than the trained product, in every head.",
        source=(PAPER, "Section 1.1, trained weights that are not low-rank"),
        **default,
        measured=measures.change_directions,
        relation=bounded(0.9, because="counts of few directions jump by 5%; 1 would be no difference"),
    )
    yield Claim(
        name=f"an_eighth_keeps_the_loss{suffix}",
        says="An eighth of the directions of each attention matrix's change keeps 90% of what it does for the loss.",
        source=(OURS, "open question 2: what a LoRA could hold"),
        **each,
        measured=measures.share_kept_at(1 / 8),
        relation=bounded(lower=0.9, because="the rest of the loss is a tenth; random directions would keep an eighth"),
    )


def _of_scales(suffix: str, experiment: str, runs: int) -> Iterator[Claim]:
    for circuit, name, product in ((measures.QK, "qk", "W_K W_Qᵀ"), (measures.OV, "ov", "W_V W_O")):
        yield Claim(
            name=f"rank_falls_with_scale_{name}{suffix}",
            says=f"The smaller the initial scale, the lower the change's stable rank at every layer: {product}.",
            source=(PAPER, "Figure 4"),
            experiment=experiment,
            seeds=together(runs),
            measured=lambda runs, circuit=circuit: measures.ranks_by_scale(runs, circuit),
            relation=monotone("rises", because="means over heads and seeds, from scale 0.1 to 0.3 to 1"),
        )
    yield Claim(
        name=f"small_scales_against_default{suffix}",
        says="Scales 0.3 and 0.1 give a lower stable rank than the default one at every layer, in both products.",
        source=(OURS, "Figure 4, without an order among the small scales"),
        experiment=experiment,
        seeds=together(runs),
        measured=measures.against_default_scale,
        relation=bounded(0.95, because="5%: twice the standard error of a layer's mean over heads"),
        repairs=f"rank_falls_with_scale_qk{suffix}",
    )


def _of_growth(suffix: str, experiment: str, runs: int) -> Iterator[Claim]:
    yield Claim(
        name=f"rank_grows{suffix}",
        says="The change's stable rank grows from the first epoch to the last, in both products and at every layer.",
        source=(PAPER, "Appendix B, Figure 12"),
        experiment=experiment,
        seeds=all_of(runs),
        measured=measures.growth,
        relation=bounded(lower=1.1, because="10%: twice the standard error of a layer's mean over heads"),
    )
    yield Claim(
        name=f"first_it_falls{suffix}",
        says="The stable rank of W_K W_Qᵀ's change falls in the first half of the training, below that after an epoch.",
        source=(OURS, "Figure 12, the first epochs"),
        experiment=experiment,
        seeds=all_of(runs),
        measured=measures.fall,
        relation=bounded(0.95, because="5%: epoch by epoch the mean over all heads moves by less where it rests"),
    )
    yield Claim(
        name=f"then_it_grows{suffix}",
        says="From its least on, the stable rank of W_K W_Qᵀ's change grows, as the mean over layers.",
        source=(OURS, "Figure 12, after the first epochs"),
        experiment=experiment,
        seeds=all_of(runs),
        measured=measures.growth_from_least,
        relation=bounded(lower=1.02, because="2%: at the end of training the mean moves by less than 1% an epoch"),
        repairs=f"rank_grows{suffix}",
    )


def _of_activations(suffix: str, experiment: str, runs: int) -> Iterator[Claim]:
    yield Claim(
        name=f"relu_too{suffix}",
        says="With ReLU the change is of low rank as with GeLU: half the start's at most.",
        source=(PAPER, "Section 6, limitations: the architecture must be smooth"),
        experiment=experiment,
        seeds=all_of(runs),
        measured=measures.against_start,
        relation=bounded(0.5, because=HALF),
    )
    yield Claim(
        name=f"relu_like_gelu{suffix}",
        says="Ranks at the end differ by less than 15% between ReLU and GeLU, at every layer.",
        source=(OURS, "open question 1: ReLU"),
        experiment=experiment,
        seeds=together(runs),
        measured=measures.between_activations,
        relation=bounded(0.15, because="two seeds of one activation differ by up to 15% at a layer"),
    )


CLAIMS = (
    *_of_every_run("", "digits_scales", 9),
    *_of_growth("", "digits", 3),
    *_of_scales("", "digits_scales", 9),
    *_of_activations("", "digits_activations", 4),
    *(
        Claim(
            name=f"rank_over_{field}_{name}",
            says=f"The stable rank of the change of {product} does not grow with {words}: over a factor of "
            f"{factor}, its exponent is below 0.2.",
            source=(OURS, "open question 3: depth, width, heads"),
            experiment="shapes",
            seeds=together(7),
            measured=measures.ranks_over(field, circuit),
            relation=scales_as(
                0.0, 0.2, because="seeds differ by 10% in the mean, which is 0.1 in an exponent over this range"
            ),
        )
        for field, words, factor in (("depth", "depth", 3), ("width", "width", 4), ("heads", "the number of heads", 4))
        for circuit, name, product in ((measures.QK, "qk", "W_K W_Qᵀ"), (measures.OV, "ov", "W_V W_O"))
    ),
    *_of_every_run("_cifar", "cifar", 1),
    *_of_growth("_cifar", "cifar", 1),
    Claim(
        name="growth_is_gradual_cifar",
        says="No step between saved epochs brings more than a quarter of the mean rank's growth from its least.",
        source=(PAPER, "Section 5 and Appendix B, gradual increase"),
        experiment="cifar",
        measured=measures.largest_step,
        relation=bounded(0.25, because="a single jump would be 1, and even growth over 500 epochs 0.002"),
    ),
    Claim(
        name="stable_rank_is_not_enough_cifar",
        says="Of each whole attention matrix's change, as many directions as the largest stable rank of a head's "
        "product keep less than half of what it does.",
        source=(OURS, "open question 2: the rank that a LoRA needs"),
        experiment="cifar",
        measured=measures.share_at_stable_rank,
        relation=bounded(0.5, because="half: a LoRA acts on whole matrices, in which heads do not share directions"),
    ),
    *_of_scales("_cifar", "cifar_scales", 3),
    Claim(
        name="low_rank_against_start_cifar_scales",
        says="At every initial scale the change has at most half the stable rank of the product it began with.",
        source=(PAPER, "Figures 3 and 4"),
        experiment="cifar_scales",
        seeds=all_of(3),
        measured=measures.against_start,
        relation=bounded(0.5, because=HALF),
    ),
    *_of_activations("_cifar", "cifar_activations", 2),
)
