"""PEFT's rank_pattern and alpha_pattern: regular expressions out of a file that may be hostile."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from saddlescope.core.errors import BadArgument

STEPS_MAX = 1e8  # some seconds


def pattern_value(patterns: Mapping[str, float], name: str, default: float) -> float:
    """The value of the first key that matches the end of the module path `name`, as peft.utils.get_pattern_key."""
    for key, value in patterns.items():
        if steps(key, len(name)) > STEPS_MAX:
            raise BadArgument(f"the pattern {key[:80]!r} could take forever to match: write the module's name instead")
        try:
            if re.match(rf"(.*\.)?({key})$", name):
                return value
        except (re.error, RecursionError, OverflowError) as error:
            raise BadArgument(f"the pattern {key[:80]!r} is no regular expression ({error}): correct it") from error
    return patterns.get(name, default)


def steps(pattern: str, length: int) -> float:
    """A bound on the backtracking of `pattern` on `length` characters: choices multiply."""
    bare = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "x", pattern, flags=re.DOTALL)
    if re.search(r"\)[*+{]", bare):  # a repeat of a repeat backtracks exponentially
        return math.inf
    unbounded = 1 + len(re.findall(r"[*+{]", bare))  # 1 for PEFT's own prefix
    optional = len(re.findall(r"(?<![(*+}])\?", bare))
    alternatives, open_groups = 1.0, [1]
    for character in bare:
        if character == "(":
            open_groups.append(1)
        elif character == "|":
            open_groups[-1] += 1
        elif character == ")" and len(open_groups) > 1:
            alternatives *= open_groups.pop()
    # Ways to cut `length` characters into the stretches of the repeats: length + unbounded choose unbounded.
    cuts = math.lgamma(length + unbounded + 1) - math.lgamma(length + 1) - math.lgamma(unbounded + 1)
    exponent = cuts + optional * math.log(2)
    return alternatives * math.prod(open_groups) * math.exp(exponent) if exponent < 700 else math.inf
