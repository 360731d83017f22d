"""Every notebook is the twin of its script, holds no output, and runs; it ends with one sentence that it checks."""

from __future__ import annotations

import os
from pathlib import Path

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "notebooks").glob("*.py"))
QUICK = ("01_mars_example",)
"""Those that the fast suite runs."""
NEEDS_TORCH = ROOT / "notebooks" / "06_does_the_model_tell_the_truth.py"
"""What the tests of the engine run."""


def name_of(script: Path) -> str:
    return script.stem


def cells(notebook: NotebookNode) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def execute(notebook: NotebookNode, folder: Path, monkeypatch: pytest.MonkeyPatch) -> NotebookNode:
    """Run a notebook with the repository's packages, in a folder of its own; raise the first error of a cell."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    client = NotebookClient(
        notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    return client.execute()


def test_every_script_has_its_twin() -> None:
    assert len(SCRIPTS) >= 6
    assert [script.stem for script in SCRIPTS] == [file.stem for file in sorted((ROOT / "notebooks").glob("*.ipynb"))]


@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_the_twins_say_the_same(script: Path) -> None:
    twin = nbformat.read(script.with_suffix(".ipynb"), as_version=4)
    nbformat.validate(twin)
    assert cells(jupytext.read(script)) == cells(twin), f"{script.stem}: make notebooks writes the .ipynb anew"
    assert [cell for cell in code_cells(twin) if cell.outputs or cell.execution_count is not None] == []
    assert twin.metadata.kernelspec.name == "python3"


@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_a_notebook_asks_verifies_and_answers(script: Path) -> None:
    notebook = jupytext.read(script)
    text, code = notebook.cells[0].source, [cell.source for cell in code_cells(notebook)]
    assert "**Question.**" in text
    assert any("verify_schedule(" in source for source in code)
    assert any("SVG(" in source for source in code)
    assert "print(" in code[-1]
    assert "\nassert " in code[-1]


@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_the_index_lists_it(script: Path) -> None:
    index = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    assert f"(../notebooks/{script.stem}.ipynb)" in index


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, marks=() if script.stem in QUICK else pytest.mark.slow)
        for script in SCRIPTS
        if script != NEEDS_TORCH
    ],
    ids=name_of,
)
def test_it_runs_and_says_one_sentence(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_sentence(script, tmp_path, monkeypatch)


def check_sentence(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = execute(nbformat.read(script.with_suffix(".ipynb"), as_version=4), tmp_path, monkeypatch)
    answer = "".join(output.text for output in code_cells(done)[-1].outputs)
    assert answer.count("\n") == 1
    assert answer.endswith(".\n")
    pictures = [out for cell in code_cells(done) for out in cell.outputs if "image/svg+xml" in out.get("data", {})]
    assert pictures != []


@pytest.mark.slow
def test_a_false_answer_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = jupytext.read(ROOT / "notebooks" / "01_mars_example.py")
    assert "mars == 10" in notebook.cells[-1].source
    notebook.cells[-1].source = notebook.cells[-1].source.replace("mars == 10", "mars == 11")
    with pytest.raises(CellExecutionError, match="AssertionError"):
        execute(notebook, tmp_path, monkeypatch)
