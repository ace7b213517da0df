"""The Gram form on a GPU against QR and SVD there, and a training with and without its spectra:
python -m benchmarks.on_gpu, where torch has CUDA."""

from __future__ import annotations

import tempfile
import time

import numpy as np
import torch

from saddlescope.spectra.factored import change_factors, gram_spectrum, spectrum
from saddlescope.spectra.ranks import stable_rank
from saddlescope.studies.vit.network import VisionTransformer, initialize
from saddlescope.studies.vit.study import ViT
from saddlescope.watch.watch import Watch


def timed(function, repeats: int = 3) -> float:
    function()
    torch.cuda.synchronize()
    spent = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        torch.cuda.synchronize()
        spent.append(time.perf_counter() - began)
    return 1000 * float(np.median(spent))


def by_qr(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    core = torch.linalg.qr(left, mode="r")[1] @ torch.linalg.qr(right, mode="r")[1].mT
    return torch.linalg.svdvals(core)


def beside_training(device: str = "cuda", preset: str = "paper", epochs: int = 6, steps: int = 97) -> None:
    """Epochs of the vision transformer on random images, with and without spectra at their ends, in turns."""
    spec = ViT.preset(preset)
    model = VisionTransformer(spec, 3, 32, 32, 10)
    initialize(model, 1.0, torch.Generator().manual_seed(0))
    model.to(device)
    on_gpu = device == "cuda"
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=on_gpu)
    images = torch.randn(spec.batch_size, 3, 32, 32, device=device)
    labels = torch.randint(0, 10, (spec.batch_size,), device=device)

    def score() -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16):
            return torch.nn.functional.cross_entropy(model(images).float(), labels)

    compiled = torch.compile(score) if on_gpu else score

    def epoch(watch: Watch | None, number: int) -> float:
        began = time.perf_counter()
        for _ in range(steps):
            compiled().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if watch is not None:
            watch.step(number * steps)
        if on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter() - began

    with tempfile.TemporaryDirectory() as folder, Watch(model, steps, folder, schedule="every") as watch:
        epoch(None, 0)
        # The work of a measurement goes on during the next epoch, which is the one that is timed.
        pairs = []
        for number in range(1, epochs + 1):
            epoch(watch, number)
            beside = epoch(None, 0)
            watch.state()
            pairs.append((beside, epoch(None, 0)))
    with_spectra, without = np.median(pairs, 0)
    print(f"epoch with spectra / without: {with_spectra / without:.3f} ({1000 * without / steps:.1f} ms a step)")


def main() -> None:
    beside_training()
    rng = np.random.default_rng(0)
    print(torch.cuda.get_device_name())
    cases = {
        "ViT: 96 products, d=512, head 128": (96, 512, 128),
        "LLaMA-7B layer: 64 products, d=4096, head 128": (64, 4096, 128),
    }
    for name, (heads, width, size) in cases.items():
        for decay in (0.0, 4.0):  # decades over which the change's own spectrum falls
            start = [0.02 * rng.normal(size=(heads, width, size)) for _ in range(2)]
            shape = np.logspace(0, -decay, size)
            end = [array + 1e-3 * rng.normal(size=array.shape) * shape for array in start]
            exact = spectrum(*change_factors(*(array[:2] for array in start), *(array[:2] for array in end)))
            for kind in (torch.float64, torch.float32):
                arrays = [torch.tensor(array, device="cuda", dtype=kind) for array in (*start, *end)]
                factors = change_factors(*arrays)
                found = gram_spectrum(*factors)[:2].double().cpu().numpy()
                error = np.abs(found - exact).max() / exact.max()
                rank = np.abs(stable_rank(found) / stable_rank(exact) - 1).max()
                gram = timed(lambda f=factors: gram_spectrum(*f))
                print(
                    f"{name}, {decay:g} decades, {kind}: Gram {gram:.1f} ms, error {error:.0e} of the largest, "
                    f"stable rank {rank:.0e}",
                    flush=True,
                )
            if decay == 0.0:
                few = [factor.double()[:8] for factor in factors]
                print(
                    f"   QR and SVD of the core, 8 of them, float64: {timed(lambda f=few: by_qr(*f), 1):.0f} ms",
                    flush=True,
                )


if __name__ == "__main__":
    main()
