"""The pages under docs/ are true: what they show is run from top to bottom, in one folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from .conftest import ROOT

PAGES = sorted((ROOT / "docs").glob("*.md"))

RUNNER = """
import json, shlex, subprocess, sys
names = {}
for kind, text in json.load(sys.stdin):
    if kind == "python":
        exec(compile(text, "page", "exec"), names)
        continue
    for line in text.splitlines():
        if line.startswith("$ "):
            program, *arguments = shlex.split(line[2:])
            assert program == "saddlescope", line
            subprocess.run([sys.executable, "-m", "saddlescope", *arguments], check=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_runs(page, tmp_path):
    pytest.importorskip("peft")
    blocks = re.findall(r"```(console|python)\n(.*?)```", page.read_text(), re.S)
    # What the page begins with is its promise: the folders that it needs are made by the first block of Python.
    first = next(number for number, (kind, _) in enumerate(blocks) if kind == "python")
    ordered = [blocks[first], *blocks[:first], *blocks[first + 1 :]]
    run = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(ordered),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
    )
    assert run.returncode == 0, run.stderr[-2000:]
    found = re.search(r"base ([\d.]+), tuned ([\d.]+), adapter ([\d.]+)", run.stdout)
    assert found, run.stdout
    base, tuned, adapter = map(float, found.groups())
    assert tuned < adapter < base  # what the page says of its numbers


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
