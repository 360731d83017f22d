"""The notebooks with what they show: `python -m docs.make.notebooks [NAME ..]` runs scripts and writes their twins.

What a twin keeps does not depend on the machine: no times, no versions, and nothing of a cell tagged `measured`.
"""

import os
import re
import sys
from base64 import b64decode
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_output
from scour import scour

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "notebooks").glob("*.py"))
IMAGE = re.compile(r"<img [^>]*>")
SOURCE = re.compile(r"(?<=data:image/svg\+xml);base64,([^\"]*)")
SCOUR = scour.parse_args(["--enable-id-stripping", "--remove-metadata", "--indent=none", "--set-precision=5"])
PLAIN = " !$'()*+,-./:;=?@_~"  # what stands in an address as it is: then Git packs a picture well
NOT_KEPT = "Differs by machine: run the notebook to see it.\n"  # what stands in place of what was measured


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """Return the cells that run."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def runs_here(script: Path) -> bool:
    """Whether the packages of a script are installed; one that measures a device needs PyTorch."""
    return "--device" not in script.read_text(encoding="utf-8") or find_spec("torch") is not None


def executed(notebook: NotebookNode) -> NotebookNode:
    """Run a notebook with the repository's packages, in a folder of its own; raise the first error of a cell."""
    with TemporaryDirectory() as folder:
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        client = NotebookClient(
            notebook, timeout=None, kernel_name="python3", record_timing=False, coalesce_streams=True,
            resources={"metadata": {"path": folder}},
        )  # fmt: skip
        return client.execute(env={**os.environ, "PYTHONPATH": path, "IPYTHONDIR": folder})


def kept(notebook: NotebookNode) -> NotebookNode:
    """Leave what is the same on every machine, and the digest of the code that showed it."""
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
    for cell in code_cells(notebook):
        cell.execution_count = None
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = None
            for kind, make in (("image/svg+xml", small), ("text/html", small_images)):
                if kind in output.get("data", {}):
                    output.data[kind] = make(output.data[kind])
        if "measured" in cell.metadata.get("tags", ()):
            cell.outputs = [new_output("stream", text=NOT_KEPT)] if cell.outputs else []
    kernel, language = {"display_name": "Python 3", "language": "python", "name": "python3"}, {"name": "python"}
    notebook.metadata = {"kernelspec": kernel, "language_info": language, "code": digest(notebook)}
    return notebook


def small(picture: str) -> str:
    """Return an SVG picture in a third of the bytes, its font named once."""
    lean = re.sub(r' font-family="[^"]*"', "", scour.scourString(picture, SCOUR))
    return lean.replace("<svg ", '<svg font-family="DejaVu Sans, Verdana, sans-serif" ', 1)


def small_images(html: str) -> str:
    """Return HTML with the pictures in it made small."""
    return SOURCE.sub(lambda found: "," + quote(small(b64decode(found[1]).decode()), PLAIN), html)


def digest(notebook: NotebookNode) -> str:
    """Return the SHA-256 of the code of a notebook."""
    return sha256("\0".join(cell.source for cell in code_cells(notebook)).encode()).hexdigest()


def said(notebook: NotebookNode) -> list[list[str]]:
    """Return what each cell shows: its text and tables, and of a picture that there is one."""
    return [[_said(output) for output in cell.outputs] for cell in code_cells(notebook)]


def _said(output: NotebookNode) -> str:
    data = output.get("data", {})
    if any(kind.startswith("image/") for kind in data):
        return "a picture"
    return IMAGE.sub("a picture", output.get("text", "") or data.get("text/html") or data.get("text/plain", ""))


def write(script: Path) -> None:
    """Run a script and write its twin."""
    nbformat.write(kept(executed(jupytext.read(script))), script.with_suffix(".ipynb"))


if __name__ == "__main__":
    for each in SCRIPTS:
        if each.stem in (sys.argv[1:] or [script.stem for script in SCRIPTS]):
            print(each.stem if runs_here(each) else f"{each.stem}: left as it is, PyTorch is not here", flush=True)
            if runs_here(each):
                write(each)
