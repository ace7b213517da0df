"""A page in a real browser, where one is installed."""

from __future__ import annotations

import html
import struct
import subprocess
from pathlib import Path


def browse(browser: str, where: Path, *options: str) -> str:
    quiet = "--disable-gpu --disable-background-networking --disable-component-update --no-first-run --hide-scrollbars"
    command = [browser, "--headless", "--no-sandbox", *quiet.split(), f"--user-data-dir={where.parent / 'profile'}"]
    run = subprocess.run([*command, *options, where.as_uri()], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout


def opens_well(browser: str, page: str, folder: Path) -> None:
    """Nothing sticks out at the width of a phone, and the page can be drawn wide, narrow and on paper.

    The window of a headless browser has a least width; a frame has none, and its media queries see its own.
    """
    whole, framed = folder / "page.html", folder / "framed.html"
    whole.write_text(page, encoding="utf-8")
    inner = html.escape(page.replace("<details>", "<details open>"))
    look = "document.title = 'wide ' + this.contentDocument.documentElement.scrollWidth"
    frame = f'<iframe style="width:390px;height:3000px;border:0" onload="{look}" srcdoc="{inner}"></iframe>'
    framed.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body style="margin:0">{frame}', encoding="utf-8")

    assert "<title>wide 390</title>" in browse(browser, framed, "--dump-dom")
    for name, width, source in (("wide", 1280, whole), ("narrow", 500, framed)):
        picture = folder / f"{name}.png"
        browse(browser, source, f"--window-size={width},1200", f"--screenshot={picture}")
        assert struct.unpack(">II", picture.read_bytes()[16:24]) == (width, 1200)
    paper = folder / "page.pdf"
    browse(browser, whole, "--no-pdf-header-footer", f"--print-to-pdf={paper}")
    assert paper.read_bytes().startswith(b"%PDF-")
