"""The report as one HTML file that needs nothing else: no network, no fonts, no script to be readable."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from saddlescope.core.words import duration

if TYPE_CHECKING:
    from markupsafe import Markup

MARKS = {"supported": "✓", "refuted": "✗", "undecided": "?"}
"""Verdicts are told apart by these signs, and by words: colour only helps."""

_SIGNS = {"at most": ("≤", ">"), "at least": ("≥", "<"), "above": (">", "≤")}
"""What to write between a value and its bound: where the bound is kept, and where it is not."""

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LOWERED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "−0123456789")
_TAG = re.compile(r"""<[^<>"']*(?:(?:"[^"]*"|'[^']*')[^<>"']*)*>""")


def render(data: dict[str, Any], template: str = "report.html.j2") -> str:
    """The whole page.  The same data gives the same bytes, and a value that is missing is an error, not a gap."""
    from importlib.resources import files

    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(number=number, duration=duration, powers=_powers, prose=_prose)
    environment.globals.update(
        anchor=anchor, comparison=comparison, embed=_embed, marks=MARKS, natural_width=natural_width
    )
    text = files("saddlescope.show").joinpath(template).read_text(encoding="utf-8")
    return environment.from_string(text).render(data)


def anchor(kind: str, paper: str, name: str) -> str:
    """An id for links and style sheets.  Odd letters are spelled out, so that names that differ keep different ids."""
    return "-".join(re.sub(r"[^A-Za-z0-9_]", lambda odd: f"-{ord(odd[0]):x}-", part) for part in (kind, paper, name))


def number(value: float | None, digits: int = 3) -> str:
    """Rounded, as it is set in print: a true minus, and powers of ten instead of an e."""
    if value is None or math.isnan(value):
        return "–" if value is None else "not a number"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if 1 <= abs(value) < 1e6:
        digits = max(digits, len(str(int(abs(value)))))
    mantissa, _, exponent = f"{value + 0.0:.{digits}g}".partition("e")
    if exponent:
        power = "10" + str(int(exponent)).translate(_RAISED)
        mantissa = {"1": power, "-1": "-" + power}.get(
            mantissa, f"{mantissa}\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}{power}"
        )
    return mantissa.replace("-", "−")


def comparison(value: float | None, bound: float | None, side: str) -> str:
    """How the value stands to its bound, with enough digits that two different numbers look different."""
    if value is None or bound is None or math.isnan(value):
        return "not measured" if value is None else number(value)
    digits = telling_digits(value, bound)
    kept = {"at most": value <= bound, "at least": value >= bound, "above": value > bound}[side]
    sign = _SIGNS[side][0 if kept else 1]
    return f"{number(value, digits)} {sign} {number(bound, digits)}"


def telling_digits(value: float | None, bound: float | None) -> int:
    """Of both numbers, as many that two different ones look different; three are enough for one alone."""
    if value is None or bound is None:
        return 3
    return next((n for n in range(3, 17) if value == bound or number(value, n) != number(bound, n)), 17)


def _prose(text: str) -> Markup:
    """Escaped text in which `code` between backticks is set as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", str(escape(text))))


def _powers(text: str) -> Markup:
    """Exponents as the browser sets them: many fonts draw ⁻⁵ and ² at different heights, or lack the former."""
    from markupsafe import Markup, escape

    runs = re.compile("[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+")
    return Markup(runs.sub(lambda run: f"<sup>{run[0].translate(_LOWERED)}</sup>", str(escape(text))))


def natural_width(svg: str) -> float:
    """In CSS pixels: how wide the figure was drawn, from which the page judges what its letters can bear."""
    width = re.search(r"""<svg[^>]*?\swidth=["']([\d.]+)(pt|px|in|)["']""", svg)
    return float(width[1]) * {"pt": 4 / 3, "in": 96.0}.get(width[2], 1.0) if width else 640.0


def _embed(svg: str, prefix: str, label: str) -> Markup:
    """A trusted SVG file as an element of the page whose id is `prefix`.

    Matplotlib names clip paths and glyphs alike in every file, so without a prefix one figure would be drawn with the
    shapes of another, and its style sheet selects every element there is.  Namespaces, metadata and comments mean
    nothing inside HTML.
    """
    from markupsafe import Markup, escape

    svg = re.sub(r"<!--.*?-->|<metadata\b.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    rules = re.compile(r"<style[^>]*>.*?</style>", re.DOTALL)
    svg = rules.sub(lambda style: re.sub(r"\*\s*\{", f"#{prefix} svg *{{", style[0]), svg)
    svg = _TAG.sub(lambda tag: _prefixed(tag[0], prefix), svg)
    size = f"--natural:{natural_width(svg):g}px"
    return Markup(f'<svg role="img" aria-label="{escape(label)}" style="{size}"{svg.strip()[4:]}')


def _prefixed(tag: str, prefix: str) -> str:
    tag = re.sub(r"""\s+xmlns(?::\w+)?=(?:"[^"]*"|'[^']*')""", "", tag)
    tag = re.sub(r"""(\sid=["'])""", rf"\g<1>{prefix}-", tag)
    tag = re.sub(r"""(\s(?:xlink:)?href=["']#)""", rf"\g<1>{prefix}-", tag)
    return re.sub(r"""(url\(\s*(?:"|'|&quot;)?#)""", rf"\g<1>{prefix}-", tag)
