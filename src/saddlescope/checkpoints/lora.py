"""Which ranks a LoRA needs: all directions above the floor, a share of their energy, or the best that a budget buys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from saddlescope.spectra.ranks import energy_rank


def ranks_for_energy(values: Sequence[np.ndarray], share: float) -> list[int]:
    """For each module, how many of its singular values hold this share of the summed squares of all of them."""
    return [int(min(energy_rank(s, share), (s > 0).sum())) if len(s) else 0 for s in values]


def allocate(values: Sequence[np.ndarray], costs: Sequence[int], budget: int) -> list[int]:
    """Ranks of least summed squared error among all whose parameters fit the budget.

    values: singular values of each module, descending.  costs: parameters per rank of each module, m + n.
    Modules of equal cost form a group, in which the largest values come first whatever module they belong to. What is
    left is a knapsack over the few groups. With the price λ of a parameter at which spending just reaches the budget,
    Σ over groups of max_k [gain(k) − λ cost k] + λ budget bounds every allocation from above; choices whose own bound
    is below an allocation in hand are dropped, and the few that remain are combined exactly.
    """
    groups: dict[int, list[tuple[float, int]]] = {}
    for module, (known, cost) in enumerate(zip(values, costs, strict=True)):
        groups.setdefault(int(cost), []).extend((float(s) ** 2, module) for s in known if s > 0)
    prices = sorted(groups)
    ordered = [sorted(groups[price], key=lambda pair: -pair[0]) for price in prices]
    gains = [np.r_[0.0, np.cumsum([gain for gain, _ in group])] for group in ordered]
    ranks = [0] * len(values)
    for group, size in zip(ordered, _best_sizes(gains, prices, budget), strict=True):
        for _, module in group[:size]:
            ranks[module] += 1
    return ranks


def _best_sizes(gains: list[np.ndarray], prices: list[int], budget: int) -> list[int]:
    """How many to take of each group: concave gains, one price for each of its members."""
    if sum(price * (len(gain) - 1) for gain, price in zip(gains, prices, strict=True)) <= budget:
        return [len(gain) - 1 for gain in gains]
    in_hand, rate = _greedy(gains, prices, budget)
    lower = sum(gain[size] for gain, size in zip(gains, in_hand, strict=True))
    worth = [gain - rate * price * np.arange(len(gain)) for gain, price in zip(gains, prices, strict=True)]
    # What groups from here on can add at most, each priced; with the price of the budget it bounds every allocation.
    ahead = np.r_[np.cumsum([float(each.max()) for each in worth][::-1])[::-1], 0.0]
    slack = 1e-12 * (abs(lower) + rate * budget)  # rounding of these sums must not exclude the best
    partial: list[tuple[int, float, tuple[int, ...]]] = [(0, 0.0, ())]  # spent, gained, sizes
    for group, (gain, price, each) in enumerate(zip(gains, prices, worth, strict=True)):
        likely = np.flatnonzero(each >= each.max() - (ahead[0] + rate * budget - lower) - slack)
        grown = []
        for spent, held, chosen in partial:
            for size in likely:
                cost, value = spent + int(size) * price, held + float(gain[size])
                if cost <= budget and value + ahead[group + 1] + rate * (budget - cost) >= lower - slack:
                    grown.append((cost, value, (*chosen, int(size))))
        # Of two choices the one that costs more and gains no more is dropped.
        grown.sort(key=lambda choice: (choice[0], -choice[1]))
        partial, best = [], -1.0
        for choice in grown:
            if choice[1] > best:
                partial.append(choice)
                best = choice[1]
    return list(partial[-1][2]) if partial and partial[-1][1] >= lower else in_hand


def _greedy(gains: list[np.ndarray], prices: list[int], budget: int) -> tuple[list[int], float]:
    """Directions by gain per parameter while they fit, and the rate at which the first one did not."""
    steps = sorted(
        (
            (float(rise) / price, group)
            for group, (gain, price) in enumerate(zip(gains, prices, strict=True))
            for rise in np.diff(gain)
        ),
        key=lambda step: -step[0],
    )
    sizes, spent, rate = [0] * len(gains), 0, 0.0
    for worth, group in steps:
        if spent + prices[group] <= budget:
            sizes[group] += 1
            spent += prices[group]
        else:
            rate = max(rate, worth)
    return sizes, rate
