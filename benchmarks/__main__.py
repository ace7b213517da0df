"""Each benchmark prints rows of (what, measured, aim). Times are wall-clock unless said otherwise."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from saddlescope.core.registry import system
from saddlescope.dynamics.flow import flow
from saddlescope.dynamics.train import train
from saddlescope.lab.ensemble import run_seeds

Row = tuple[str, str, str]

HARMONIC = {
    size: tuple(float(x) for x in (1 / np.arange(1, size + 1)) / (1 / np.arange(1, size + 1)).sum())
    for size in (4, 8, 16, 32, 64)
}


def seconds(function: Callable[[], object], repeats: int = 1) -> float:
    """Median over repeats after one warm-up call, which pays for imports and compilation."""
    function()
    spent = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        spent.append(time.perf_counter() - began)
    return float(np.median(spent))


def statistics() -> Iterator[Row]:
    """Training on sufficient statistics against the network on its sequences, and against fewer sequences."""
    paper = {"eigenvalues": HARMONIC[8], "heads": 9, "init_scale": 0.1, "sequences": 80_000}
    few = 3
    by_network = system("linear_icl", **paper, statistics=False, steps=few)
    start = by_network.start(0)
    prediction = by_network.landmarks(start.frame)
    network = seconds(lambda: train(by_network, start=start, prediction=prediction)) / few
    by_moments = system("linear_icl", **paper, steps=20_000)
    start = by_moments.start(0)
    exact = seconds(lambda: train(by_moments, start=start, prediction=prediction)) / 20_000
    yield (f"D=8, P=80,000: network step (timed over {few}) / statistics step", f"{network / exact:,.0f} x", "")
    spent = {}
    for count in (1000, 80_000):
        chosen = system("linear_icl", sequences=count, steps=20_000)
        start = chosen.start(0)
        prediction = chosen.landmarks(start.frame)
        spent[count] = seconds(lambda c=chosen, s=start, p=prediction: train(c, start=s, prediction=p), 5)
    yield ("20,000 statistics steps, P=80,000 / P=1,000", f"{spent[80_000] / spent[1000]:.2f} x", "at most 1.2 x")


def ensemble() -> Iterator[Row]:
    """1000 seeds on both cores against one run, at equal tolerance."""
    for scale in (0.1, 0.01, 0.001):
        chosen = system("linear_icl", init_scale=scale)
        landmarks = chosen.landmarks(chosen.start(0).frame)
        horizons = [1.3 * float(chosen.predict(chosen.start(seed)).last_time or 0) for seed in range(5)]
        runs = [chosen.spec.replace(horizon=horizon) for horizon in horizons]

        single = (
            seconds(lambda c=chosen, r=runs, p=landmarks: [flow(type(c)(r[n]), n, prediction=p) for n in range(5)]) / 5
        )
        began = time.perf_counter()
        run_seeds(chosen, "flow", range(1000))
        many = time.perf_counter() - began
        yield (f"1000 seeds / one flow, init_scale={scale:g}", f"{many / single:.0f} x ({many:.0f} s)", "at most 150 x")


def init_scale() -> Iterator[Row]:
    """Cost of one flow against the initial scale, relative to 0.1."""
    spent = {}
    for scale in (0.1, 0.01, 0.001, 0.0001):
        chosen = system("linear_icl", init_scale=scale)
        starts = [chosen.start(seed) for seed in range(4)]
        predictions = [chosen.predict(start) for start in starts]
        spent[scale] = seconds(
            lambda c=chosen, s=starts, p=predictions: [flow(c, n, start=s[n], prediction=p[n]) for n in range(4)], 3
        )
    ratios = ", ".join(f"{scale:g}: {spent[scale] / spent[0.1]:.2f}" for scale in spent)
    yield ("one flow to its end against init_scale 0.1", ratios, "flat")


def dimension() -> Iterator[Row]:
    """Cost of one flow to time 3e5 against D, relative to 4."""
    spent = {}
    for size, eigenvalues in HARMONIC.items():
        chosen = system("linear_icl", eigenvalues=eigenvalues, heads=size, horizon=3e5)
        prediction = chosen.landmarks(chosen.start(0).frame)
        spent[size] = seconds(lambda c=chosen, p=prediction: flow(c, prediction=p))
    ratios = ", ".join(f"{size}: {spent[size] / spent[4]:.0f}" for size in spent)
    yield ("one flow to t=3e5 against D=4 (H=D, λ ~ 1/d)", ratios, "")
    yield ("the same in seconds", ", ".join(f"{size}: {value:.1f}" for size, value in spent.items()), "")


def imports() -> Iterator[Row]:
    """Start of the command line against importing numpy, each in processes of their own."""

    def run(code: str) -> float:
        return seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True, capture_output=True), 9)

    bare, numpy = run("pass"), run("import numpy")
    for name, arguments in (("--help", ["--help"]), ("list", ["list"])):
        spent = run(f"from saddlescope.cli import run; run({arguments!r})")
        yield (f"saddlescope {name} / import numpy", f"{(spent - bare) / (numpy - bare):.1f} x", "at most 4 x")


BENCHMARKS = (imports, statistics, init_scale, dimension, ensemble)


def main() -> None:
    from rich.console import Console
    from rich.table import Table

    names = sys.argv[1:]
    table = Table("what", "measured", "aim")
    for benchmark in BENCHMARKS:
        if not names or benchmark.__name__ in names:
            print(f"{benchmark.__name__}: {benchmark.__doc__}", file=sys.stderr)
            for row in benchmark():
                table.add_row(*row)
                print("  ", *row, sep="  ", file=sys.stderr)
    Console().print(table)


if __name__ == "__main__":
    main()
