"""Paper: what a reference to a paper needs, from which the report's headings and BibTeX are made."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Paper:
    """A paper, as it is cited. A room's `CITATION` is one.

    authors: "Family, Given" each; of a group its name.  title, year.  venue: short, for headings ("NeurIPS").

    published: the name of the proceedings in full; "" of a preprint.  series, volume, pages: of the proceedings.
    eprint: number on arXiv; subject: its class there ("cs.LG").  url: of another place where it can be read.
    note: anything else that a reader of the reference must know.
    """

    authors: tuple[str, ...] = ()
    title: str = ""
    year: int | None = None
    venue: str = ""
    published: str = ""
    series: str = ""
    volume: str = ""
    pages: str = ""
    eprint: str = ""
    subject: str = ""
    url: str = ""
    note: str = ""

    def __str__(self) -> str:
        """One line: families, title, venue and year."""
        families = ", ".join(name.partition(",")[0] for name in self.authors)
        when = " ".join(filter(None, [self.venue, str(self.year or "")]))
        return f"{families}{': ' if families else ''}{self.title}{f' ({when})' if when else ''}"

    @classmethod
    def read(cls, line: str) -> Paper:
        """What can be made of a line like "Zhang, Saxe: A title (NeurIPS 2024)"; else all of it is the title."""
        found = re.fullmatch(r"\s*([^:]+):\s+(.+)", line, re.DOTALL)
        authors, rest = found.groups() if found else ("", line)
        when = re.search(r"\(([^()]*?)\s*\b((?:19|20)\d\d)\)", rest)
        arxiv = re.search(r"arXiv[:\s]*(\d{4}\.\d{4,5})", rest)
        title = rest[: min((match.start() for match in (when, arxiv) if match), default=len(rest))]
        venue = when[1].strip(" ,") if when and not arxiv else ""
        return cls(
            authors=tuple(_turned(name) for name in re.split(r",\s*and\s+|,\s*|\s+and\s+", authors.strip()) if name),
            title=title.strip(" .,\n"),
            year=int(when[2]) if when else None,
            venue=venue,
            published=venue,
            eprint=arxiv[1] if arxiv else "",
        )


def _turned(name: str) -> str:
    """ "E. Littwin" -> "Littwin, E."; a family name alone stays, even one of several words."""
    found = re.fullmatch(r"((?:\w\.[\s-]*)+)(.+)", name)
    return f"{found[2]}, {found[1].strip()}" if found else name
