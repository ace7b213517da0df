"""The notebooks of this folder, run and exported: python docs/notebooks/export.py [FOLDER] [NAME ...]

They are kept as scripts whose cells begin with `# %%`. Each becomes FOLDER/NAME.ipynb, with its outputs, and
FOLDER/NAME.html, which needs nothing else. By default all of them, in out/notebooks.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter

HERE = Path(__file__).parent
SECONDS = 600
"""That a cell may take."""


def scripts(names: list[str]) -> list[Path]:
    every = {path.stem: path for path in sorted(HERE.glob("*.py")) if path.name != Path(__file__).name}
    if unknown := set(names) - set(every):
        sys.exit(f"no notebook {', '.join(sorted(unknown))}: there are {', '.join(every)}")
    return [every[name] for name in names] if names else list(every.values())


def export(script: Path, folder: Path) -> None:
    notebook = jupytext.read(script)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(folder)}}).execute()
    nbformat.write(notebook, folder / f"{script.stem}.ipynb")
    # Formulas are written as text here: nothing is to be fetched when the page is read.
    page, _ = HTMLExporter(mathjax_url="", require_js_url="", jquery_url="").from_notebook_node(notebook)
    (folder / f"{script.stem}.html").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out/notebooks")
    out.mkdir(parents=True, exist_ok=True)
    for script in scripts(sys.argv[2:]):
        export(script, out)
        print(f"wrote {out / script.stem}.html")
