"""One process, or several that torchrun started and that share every batch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import distributed

from saddlescope.core.errors import BadArgument


class Process(NamedTuple):
    """Where this process computes, and which of how many it is."""

    device: torch.device
    rank: int = 0
    world: int = 1

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def summed(self, values: torch.Tensor) -> torch.Tensor:
        """Over all processes."""
        if self.world > 1:
            distributed.all_reduce(values)
        return values


def processes() -> int:
    """How many torchrun started."""
    said = os.environ.get("WORLD_SIZE", "1")
    if not said.isdigit() or said == "0":
        raise BadArgument(f"`WORLD_SIZE` in the environment must be a number of processes, got {said!r}: unset it")
    return int(said)


@contextmanager
def taking_part(device: str) -> Iterator[Process]:
    """Under torchrun, which sets RANK, WORLD_SIZE and LOCAL_RANK, each process has its own GPU, or shares the CPU."""
    world = processes()
    cuda = device == "cuda"
    if world == 1:
        yield Process(torch.device(device))
        return
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if cuda and local >= torch.cuda.device_count():
        raise BadArgument(f"{world} processes share {torch.cuda.device_count()} GPUs: start one for each GPU")
    if cuda:
        torch.cuda.set_device(local)
    distributed.init_process_group("nccl" if cuda else "gloo")
    try:
        yield Process(torch.device("cuda", local) if cuda else torch.device("cpu"), distributed.get_rank(), world)
    finally:
        distributed.destroy_process_group()
