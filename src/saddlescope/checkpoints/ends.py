"""What a comparison is given: folders, files and hub names, torch modules, state dicts, trees of arrays, adapters."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from saddlescope.core.errors import BadArgument

from .adapter import Adapter, is_adapter, open_adapter
from .hub import locate
from .live_adapter import MERGE, adapter_in, carries_adapter, own_weights
from .memory import InMemory, of_module, of_tree
from .modules import is_module, unwrap
from .read import open_checkpoint
from .tensor import WeightSource


class Ends(NamedTuple):
    """One of them may be missing: an adapter may come alone."""

    base: WeightSource | None
    tuned: WeightSource | Adapter | None


def opened(base: Any, tuned: Any) -> Ends:
    """Both ends; of an adapter in memory alone, the model that it is in is the base."""
    if tuned is None:
        return _alone(base)
    if _is_adapter(base) and not (carries_adapter(base) and _holds(tuned, base)):
        if carries_adapter(base):
            raise BadArgument(
                f"the first model, {type(unwrap(base)).__name__}, carries an adapter, and the base comes first: give "
                f"it without, as it was before PEFT or as {MERGE}"
            )
        other = tuned if _on_disk(tuned) else "BASE"
        raise BadArgument(f"{base} is an adapter, and the base comes first: saddlescope diff {other} {base}")
    first = own_weights(base) if carries_adapter(base) else _weights(base)
    second = _adapter(tuned) if _is_adapter(tuned) else _weights(tuned)
    if isinstance(second, InMemory) and first.where == second.where:
        first.where, second.where = f"{first.where} (base)", f"{second.where} (tuned)"
    return Ends(first, second)


def _alone(given: Any) -> Ends:
    if not _is_adapter(given):
        if _on_disk(given):
            locate(given)
        where = given if _on_disk(given) else _weights(given).where
        raise BadArgument(f"{where} is no adapter: give two checkpoints, BASE and TUNED, or the folder of an adapter")
    adapter = _adapter(given)
    if not carries_adapter(given):
        return Ends(None, adapter)
    try:
        return Ends(own_weights(given), adapter)
    except BadArgument as error:
        # What it was put into may be quantised; the adapter is not.
        adapter.notes = (*adapter.notes, f"without its base: {error}")
        return Ends(None, adapter)


def _weights(given: Any) -> WeightSource:
    if _on_disk(given):
        return open_checkpoint(given)
    return of_module(given) if is_module(given) else of_tree(given)


def _adapter(given: Any) -> Adapter:
    return adapter_in(given) if carries_adapter(given) else open_adapter(given)


def _is_adapter(given: Any) -> bool:
    return is_adapter(given) if _on_disk(given) else carries_adapter(given)


def _on_disk(given: Any) -> bool:
    return isinstance(given, str | os.PathLike)


def _holds(model: Any, part: Any) -> bool:
    """Whether PEFT has put into `part` what is now called `model`: it changes a model in place."""
    return is_module(model) and any(inner is unwrap(part) for inner in unwrap(model).modules())
