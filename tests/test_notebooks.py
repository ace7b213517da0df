"""The notebooks run from their first cell to their last, and what they show is there when their pages are opened."""

from __future__ import annotations

import json
import re
import sys

import pytest

from .conftest import ROOT, printed

FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "export")


def test_there_are_notebooks_of_a_paper_and_of_a_fine_tune():
    assert NOTEBOOKS == ["tour_of_a_paper", "your_fine_tune"]
    for name in NOTEBOOKS:
        text = (FOLDER / f"{name}.py").read_text()
        compile(text, name, "exec")
        assert text.startswith("# %% [markdown]\n# # ") and text.count("# %%\n") >= 5


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_and_its_page_needs_nothing_else(name, tmp_path):
    """In a kernel of its own, as a reader runs it: a minute each."""
    printed(sys.executable, FOLDER / "export.py", tmp_path, name)
    cells = json.loads((tmp_path / f"{name}.ipynb").read_text())["cells"]
    outputs = [output for cell in cells if cell["cell_type"] == "code" for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"]
    shown = ["".join(output.get("data", {}).get("text/html", "")) for output in outputs]
    ours = [html for html in shown if 'class="saddlescope"' in html]
    assert len(ours) >= 3 and all("data:image/png;base64," in html for html in ours)
    assert [output for output in outputs if "image/png" in output.get("data", {})]
    page = (tmp_path / f"{name}.html").read_text()
    assert page.count('class="saddlescope"') == len(ours)
    assert not re.findall(r"<(?:script|link|img)[^>]* (?:src|href)=[\"']?https?:", page)
