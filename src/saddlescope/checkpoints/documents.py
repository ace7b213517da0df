"""config.json and its kin: JSON objects from files that may be damaged or hostile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from saddlescope.core.errors import BadArgument

BYTES_MAX = 64 * 2**20  # the index of a model with a million tensors is under half of it
RESTORE = "restore it from where the weights came from"


def read_object(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > BYTES_MAX:
            raise BadArgument(f"{path} has more than {BYTES_MAX} bytes, no description of a model has: {RESTORE}")
        found = json.loads(path.read_text(encoding="utf-8"))
    except BadArgument:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise BadArgument(f"{path} is not readable JSON ({str(error)[:200]}): {RESTORE}") from error
    if not isinstance(found, dict):
        raise BadArgument(f"{path} must hold a JSON object, got {type(found).__name__}: {RESTORE}")
    return found
