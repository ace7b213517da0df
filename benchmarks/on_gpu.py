"""The Gram form on a GPU against QR and SVD there: python -m benchmarks.on_gpu, where torch has CUDA."""

from __future__ import annotations

import time

import numpy as np
import torch

from saddlescope.spectra.factored import change_factors, gram_spectrum, spectrum
from saddlescope.spectra.ranks import stable_rank


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


def main() -> None:
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
