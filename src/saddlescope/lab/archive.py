"""Runs, wherever they are kept: in the store, or, where it has none, among the records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from saddlescope.core.run import Run

from .records import Records
from .request import Request
from .store import About, Store


@dataclass(frozen=True)
class Archive:
    store: Store
    records: Records | None = None

    def __contains__(self, request: Request) -> bool:
        return request in self.store or (self.records is not None and request in self.records)

    def about(self, request: Request) -> About:
        """What a run is, without its numbers; raises `Damaged` where the stored one is not as it was written."""
        if request in self.store or self.records is None:
            return self.store.about(request)
        return self.records.about(request)

    def load(self, request: Request) -> list[Run]:
        if request in self.store or self.records is None:
            return self.store.load(request)
        return [self.records.load(request)]


class Runs(Mapping[str, Sequence[Run]]):
    """Runs by experiment, read when they are asked for."""

    def __init__(self, archive: Archive, requests: Mapping[str, Sequence[Request]]):
        self.archive, self.requests = archive, requests

    def __getitem__(self, experiment: str) -> list[Run]:
        return [run for request in self.requests[experiment] for run in self.archive.load(request)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.requests)

    def __len__(self) -> int:
        return len(self.requests)
