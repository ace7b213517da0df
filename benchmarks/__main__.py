"""Each benchmark prints rows of (what, measured, aim). Times are wall-clock unless said otherwise."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from saddlescope.core.registry import system
from saddlescope.dynamics.field import Field
from saddlescope.dynamics.flow import flow
from saddlescope.dynamics.solvers import Solver
from saddlescope.dynamics.train import train
from saddlescope.lab.ensemble import run_seeds
from saddlescope.numerics.integrate import integrate

from . import instrument, plain, threads

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
    prediction = by_network.theory.landmarks(start.frame)
    network = seconds(lambda: train(by_network, start=start, prediction=prediction)) / few
    by_moments = system("linear_icl", **paper, steps=20_000)
    start = by_moments.start(0)
    exact = seconds(lambda: train(by_moments, start=start, prediction=prediction)) / 20_000
    yield (f"D=8, P=80,000: network step (timed over {few}) / statistics step", f"{network / exact:,.0f} x", "")
    spent = {}
    for count in (1000, 80_000):
        chosen = system("linear_icl", sequences=count, steps=20_000)
        start = chosen.start(0)
        prediction = chosen.theory.landmarks(start.frame)
        spent[count] = seconds(lambda c=chosen, s=start, p=prediction: train(c, start=s, prediction=p), 5)
    yield ("20,000 statistics steps, P=80,000 / P=1,000", f"{spent[80_000] / spent[1000]:.2f} x", "at most 1.2 x")


def ensemble() -> Iterator[Row]:
    """1000 seeds on both cores against one run, at equal tolerance."""
    for scale in (0.1, 0.01, 0.001):
        chosen = system("linear_icl", init_scale=scale)
        landmarks = chosen.theory.landmarks(chosen.start(0).frame)
        horizons = [1.3 * float(chosen.theory.predict(chosen.start(seed)).last_time or 0) for seed in range(5)]
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
        predictions = [chosen.theory.predict(start) for start in starts]
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
        prediction = chosen.theory.landmarks(chosen.start(0).frame)
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


def _evaluations(trajectory) -> int:
    """Of the right-hand side, from how the solver says it was done."""
    return int(re.findall(r"\((\d+) evaluations", trajectory.attrs["solver"])[0])


def smallness() -> Iterator[Row]:
    """Evaluations of one flow of gradual_rank to time 405 against alpha, relative to 1e-32 (N=200)."""
    counts = {}
    for power in (-8.0, -32.0, -128.0, -1000.0, -10_000.0):
        chosen = system("gradual_rank", log10_alpha=power, horizon=405.0, stages=1)
        counts[power] = _evaluations(flow(chosen))
    ratios = ", ".join(f"1e{power:g}: {counts[power] / counts[-32.0]:.2f}" for power in counts)
    yield ("evaluations of a flow against alpha=1e-32", ratios, "1e-1000: at most 3")


def descent() -> Iterator[Row]:
    """The paper-size flow of gradual_rank against plain gradient descent over the same time, extrapolated."""
    paper = {"samples": 1000, "stages": 1, "log10_alpha": -32.0}
    chosen = system("gradual_rank", horizon=1000.0, **paper)
    start = chosen.start(0)
    prediction = chosen.theory.predict(start)
    began = time.perf_counter()
    smooth = flow(chosen, start=start, prediction=prediction, solver="loose")
    spent = time.perf_counter() - began
    rate, few = 0.43, 300
    short = system("gradual_rank", steps=few, learning_rate=rate, **paper)
    step = seconds(lambda: train(short, start=start, prediction=prediction)) / few
    steps = 1000 * chosen.spec.log_inverse_alpha / rate
    yield (
        f"GD at rate {rate} to t=1000 ({steps:,.0f} steps, extrapolated from {few}) / flow, N=1000, alpha=1e-32",
        f"{step * steps / spent:.0f} x ({spent:.0f} s, {_evaluations(smooth)} evaluations)",
        "at least 20 x",
    )


def kernel() -> Iterator[Row]:
    """One gradient of the head against the formula as written, by einsum (N=1000)."""
    import jax
    import jax.numpy as jnp

    from saddlescope.core.precision import on_device

    chosen: Any = system("gradual_rank", samples=1000)
    frame = on_device(chosen.start(0).frame)
    x, y = frame.samples
    p = jnp.asarray(np.random.default_rng(0).normal(size=chosen.spec.size))

    def loss(p):
        kq, vo = jnp.split(p, 2)
        weights = jax.nn.softmax(jnp.einsum("aid,d,ajd->aij", x, kq, x), axis=-1)
        return jnp.mean((y - jnp.einsum("aij,ajd,d->aid", weights, x, vo)) ** 2) / 2

    ax, ay = np.asarray(x), np.asarray(y)
    ours = jax.jit(chosen.objective.force)
    compiled = jax.jit(jax.grad(loss))
    assert np.allclose(ours(p, frame), plain.force(np.asarray(p), ax, ay), rtol=1e-9, atol=1e-12)
    times = {
        "ours": seconds(lambda: ours(p, frame).block_until_ready(), 21),
        "compiled einsum": seconds(lambda: compiled(p).block_until_ready(), 21),
        "NumPy einsum": seconds(lambda: plain.force(np.asarray(p), ax, ay), 3),
    }
    for name in ("compiled einsum", "NumPy einsum"):
        yield (f"gradient by {name} / ours, N=1000", f"{times[name] / times['ours']:.1f} x", "at least 2 x")


def tensors() -> Iterator[Row]:
    """The regression flow of sparse_attention in coefficients against all d x d matrices: same solver, same time."""
    spent = {}
    for size in (10, 20, 50):
        chosen: Any = system("sparse_attention", dimension=size, base_scale=5.0)
        start = chosen.start(0)
        field = Field.of(chosen, start)
        for name, velocity, begin in (
            ("whole", *plain.tensor_flow(chosen, start)),
            ("reduced", field.velocity, field.origin),
        ):
            spent[name, size] = seconds(
                lambda v=velocity, y=begin: integrate(v, y, 0.0, 20.0, method="dop853", rtol=1e-8, atol=1e-11)
            )
    ratios = ", ".join(f"{size}: {spent['whole', size] / spent['reduced', size]:.1f}" for size in (10, 20, 50))
    yield ("flow to t=20 with all V_k, d x d / with their coefficients, by d", f"{ratios} x", "")


def lumped() -> Iterator[Row]:
    """50 patterns among 10,000 positions: the flow to t=3000 with idle positions as one."""
    chosen = system(
        "sparse_attention",
        patterns=50,
        heads=50,
        positions=10_000,
        importance_ratio=1.06,
        base_scale=2.0,
        init_noise=0.01,
        lumped=True,
        horizon=3000.0,
        stages=25,
    )
    start = chosen.start(0)
    prediction = chosen.theory.predict(start)
    began = time.perf_counter()
    found = flow(chosen, start=start, prediction=prediction, solver=Solver("dop853"))
    spent = time.perf_counter() - began
    small = system("sparse_attention")
    one = seconds(lambda: flow(small), 3)
    yield (
        "50 patterns, 10,000 positions, to t=3000 / the default flow",
        f"{spent / one:.0f} x ({spent:.1f} s, {_evaluations(found)} evaluations)",
        "seconds",
    )


def looked_up() -> Iterator[Row]:
    """A gradient of the minimal model: rows looked up against products with one-hot vectors."""
    import jax

    from saddlescope.systems.sparse_attention import network
    from saddlescope.systems.sparse_attention.chain import Tokens

    for name, fields in (("d=20, 300 sequences", {}), ("d=50, 3000 sequences", {"vocabulary": 50, "base_scale": 10.0})):
        chosen: Any = system("sparse_attention/minimal", test_samples=10, **fields)
        start = chosen.start(0)
        batch = Tokens(start.frame.train.tokens[: 3000 if fields else 300])
        ours = jax.jit(jax.grad(lambda w, b, c=chosen: network.cross_entropy(w, c.spec, b, None)))
        products = jax.jit(jax.grad(lambda w, b, c=chosen: plain.one_hot_loss(w, c.spec, b.tokens)))
        spent = [
            seconds(lambda f=f, s=start, b=batch: jax.block_until_ready(f(s.point, b)), 20) for f in (products, ours)
        ]
        yield (
            f"gradient of the minimal model, {name}: one-hot products / looked up",
            f"{spent[0] / spent[1]:.2f} x",
            "",
        )


def sampling() -> Iterator[Row]:
    """Sequences of the chain per second, against one at a time."""
    from saddlescope.systems.sparse_attention import chain
    from saddlescope.systems.sparse_attention.spec import PAPER_FULL, FullSpec

    spec = FullSpec(**PAPER_FULL)
    tables = chain.lag_tables(chain.draw_features(spec.chain), spec.lags)
    rng = np.random.default_rng(0)
    together = seconds(lambda: chain.sample(tables, 20, 9000, rng), 3) / 9000
    alone = seconds(lambda: [chain.sample(tables, 20, 1, rng) for _ in range(100)], 3) / 100
    yield (
        "sequences of Table 1 (d=50, w=12, T=20): one at a time / together",
        f"{alone / together:.0f} x ({1 / together:,.0f} a second)",
        "",
    )


def widths() -> Iterator[Row]:
    """The flow of cooccurrence in Gram matrices against that of all weights, by the same solver; and over widths."""
    ratios = {}
    for width in (256, 1024, 4096):
        chosen: Any = system("cooccurrence", samples=24, width=width, horizon=100.0)
        start = chosen.start(0)
        velocity, flat = plain.word_flow(chosen, start)
        field = Field.of(chosen, start)
        spent = [
            seconds(lambda v=v, y=y: integrate(v, y, 0.0, np.log1p(100.0), method="dop853", rtol=1e-8, atol=1e-11))
            for v, y in ((velocity, flat), (field.velocity, field.origin))
        ]
        ratios[width] = spent[0] / spent[1]
    words = ", ".join(f"{width}: {ratio:.1f}" for width, ratio in ratios.items())
    yield ("flow of cooccurrence (n=24, L=5) to τ=100 with all weights / in Gram matrices, by width", f"{words} x", "")
    times = {}
    for width in (256, 10**9):
        chosen = system("cooccurrence", width=width)
        start = chosen.start(0)
        prediction = chosen.theory.predict(start)
        times[width] = seconds(lambda c=chosen, s=start, p=prediction: flow(c, start=s, prediction=p), 3)
    yield (
        "flow of cooccurrence (n=60, L=5) to τ=3e6 at m=1e9 / at m=256",
        f"{times[10**9] / times[256]:.2f} x ({times[10**9]:.1f} s)",
        "at most 1.5 x",
    )


def log_time() -> Iterator[Row]:
    """Evaluations of the flow of cooccurrence over ln τ: a decade costs the same wherever it lies."""
    counts = []
    for horizon in (1e2, 1e4, 1e6, 1e8):
        chosen = system("cooccurrence", samples=24, width=10**6, horizon=horizon)
        counts.append(_evaluations(flow(chosen)))
    words = ", ".join(str(count) for count in counts)
    yield ("evaluations of the flow of cooccurrence to τ = 1e2, 1e4, 1e6, 1e8", words, "linear in ln τ")


BENCHMARKS = (
    imports,
    statistics,
    init_scale,
    dimension,
    ensemble,
    kernel,
    smallness,
    descent,
    tensors,
    lumped,
    looked_up,
    sampling,
    widths,
    log_time,
    threads.default_threads,
    *instrument.BENCHMARKS,
)


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
