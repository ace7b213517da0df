r"""Words and numbers as LaTeX that every engine sets, pdfTeX and BibTeX too: letters and commands, no Unicode."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence


def _pairs(signs: str, commands: str) -> dict[str, str]:
    return dict(zip(signs, commands.split(), strict=True))


SIGNS = {
    **_pairs("αβγδεζηθι", r"\alpha \beta \gamma \delta \varepsilon \zeta \eta \theta \iota"),
    **_pairs("κλμνξπρςσ", r"\kappa \lambda \mu \nu \xi \pi \rho \varsigma \sigma"),
    **_pairs("τυφχψωµ", r"\tau \upsilon \varphi \chi \psi \omega \mu"),
    **_pairs("ΓΔΘΛΞΠΣΥΦΨΩ", r"\Gamma \Delta \Theta \Lambda \Xi \Pi \Sigma \Upsilon \Phi \Psi \Omega"),
    **_pairs("−±×·√∞∂∇∫∑∏", r"- \pm \times \cdot \surd \infty \partial \nabla \int \sum \prod"),
    **_pairs("∝≤≥≠≈∼≡≪≫", r"\propto \le \ge \ne \approx \sim \equiv \ll \gg"),
    **_pairs("⟨⟩‖′″ℓ∘⊤⊥⊗⊙", r"\langle \rangle \| ' '' \ell \circ \top \perp \otimes \odot"),
    **_pairs("→←⇒∈∉⊂∪∩∅", r"\to \gets \Rightarrow \in \notin \subset \cup \cap \emptyset"),
}
"""Set in mathematics."""

TEXT = {
    **{sign: "\\" + sign for sign in "&%$#_{}"},
    **_pairs(
        '\\~^|<>"', r"\textbackslash{} \textasciitilde{} \textasciicircum{} \textbar{} \textless{} \textgreater{} ''"
    ),
    **_pairs("ßæÆœŒøØłŁı", r"{\ss} {\ae} {\AE} {\oe} {\OE} {\o} {\O} {\l} {\L} {\i}"),
    **_pairs("–—‘’“”…§°", r"-- --- ` ' `` '' \ldots{} \S{} \ensuremath{^\circ}"),
    "\N{NO-BREAK SPACE}": "~",
}

ACCENTS = _pairs(
    "\u0300\u0301\u0302\u0303\u0308\u0304\u0306\u0307\u030a\u030b\u030c\u0327\u0328\u0323",
    "` ' ^ ~ \" = u . r H v c k d",
)
"""Over or under the letter before."""

RAISED = {"<super>": "^", "<sub>": "_"}


def text(words: str) -> str:
    """Plain words. A sign that LaTeX lacks is named by its number, [U+4E2D], so that the rest can be set."""
    return "-{}".join("".join(_set(part)) for part in re.split("-(?=-)", words))  # two hyphens are no dash


def prose(words: str) -> str:
    """Words in which `code` between backticks is set as code."""
    parts = re.split(r"`([^`\n]+)`", words)
    return "".join(rf"\texttt{{{text(part)}}}" if number % 2 else text(part) for number, part in enumerate(parts))


def number(value: float | None, digits: int = 3) -> str:
    r"""Rounded, in mathematics: $1.2 \times 10^{-3}$."""
    if value is None:
        return "--"
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else r"$\infty$" if value > 0 else r"$-\infty$"
    if 1 <= abs(value) < 1e6:
        digits = max(digits, len(str(int(abs(value)))))
    mantissa, _, exponent = f"{value + 0.0:.{digits}g}".partition("e")
    if not exponent:
        return f"${mantissa}$"
    power = rf"10^{{{int(exponent)}}}"
    return {"1": f"${power}$", "-1": f"$-{power}$"}.get(mantissa, rf"${mantissa} \times {power}$")


def _set(words: str) -> Iterator[str]:
    level, raised = "", ""
    for found in re.finditer(r"(.)([\u0300-\u036f]*)", unicodedata.normalize("NFD", words), re.DOTALL):
        sign, marks = found.groups()
        kind, *codes = unicodedata.decomposition(sign).split() or [""]
        if raised and RAISED.get(kind) != level:
            yield rf"\ensuremath{{{level}{{{raised}}}}}"
            raised = ""
        if kind in RAISED:  # a run of these is one exponent
            level = RAISED[kind]
            raised += "".join(_in_mathematics(chr(int(code, 16))) for code in codes)
        else:
            yield _accented(_one(sign, kind, codes), marks)
    if raised:
        yield rf"\ensuremath{{{level}{{{raised}}}}}"


def _one(sign: str, kind: str, codes: Sequence[str]) -> str:
    if sign in TEXT:
        return TEXT[sign]
    if sign in SIGNS:
        return rf"\ensuremath{{{SIGNS[sign]}}}"
    if kind == "<fraction>":
        above, below = "".join(chr(int(code, 16)) for code in codes).split("\N{FRACTION SLASH}")
        return rf"\ensuremath{{\frac{{{above}}}{{{below}}}}}"
    plain = unicodedata.normalize("NFKC", sign)
    if not plain.isascii() or not (plain.isprintable() or plain.isspace()):
        return f"[U+{ord(sign):04X}]"
    return "".join(" " if one.isspace() else TEXT.get(one, one) for one in plain)


def _in_mathematics(sign: str) -> str:
    return SIGNS.get(sign) or (sign if sign.isascii() and sign.isalnum() else TEXT.get(sign, sign))


def _accented(letter: str, marks: str) -> str:
    """In braces, as BibTeX wants it."""
    for mark in marks:
        if mark in ACCENTS:
            letter = rf"{{\{ACCENTS[mark]}{{{letter}}}}}"
    return letter
