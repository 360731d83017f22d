"""Every notebook is the twin of its script, shows what the script shows, and ends with one sentence that it checks."""

import re
from copy import deepcopy
from pathlib import Path

import jupytext
import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from docs.make.notebooks import (
    IMAGE,
    NOT_KEPT,
    SCRIPTS,
    code_cells,
    digest,
    executed,
    kept,
    runs_here,
    said,
    small_images,
)

ROOT = Path(__file__).parents[2]
NEEDS_TORCH = ROOT / "notebooks" / "06_does_the_model_tell_the_truth.py"
"""What the tests of the engine run."""
AGAIN = "make notebooks writes the .ipynb anew"


def name_of(script):
    return script.stem


def cells(notebook):
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def twin_of(script):
    return nbformat.read(script.with_suffix(".ipynb"), as_version=4)


def pictures(notebook):
    return sum(found == "a picture" or found.endswith("a picture</div>") for cell in said(notebook) for found in cell)


def test_every_script_has_its_twin():
    assert len(SCRIPTS) >= 7
    assert [script.stem for script in SCRIPTS] == [file.stem for file in sorted((ROOT / "notebooks").glob("*.ipynb"))]


@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_the_twins_say_the_same(script):
    twin = twin_of(script)
    nbformat.validate(twin)
    assert cells(jupytext.read(script)) == cells(twin), AGAIN
    assert twin.metadata.code == digest(twin), f"the code was changed since it ran: {AGAIN}"
    assert twin.metadata.kernelspec.name == "python3"


@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_a_notebook_asks_verifies_and_answers(script):
    notebook = jupytext.read(script)
    text, code = notebook.cells[0].source, [cell.source for cell in code_cells(notebook)]
    assert "**Question.**" in text
    assert any("verify_schedule(" in source for source in code)
    assert "print(" in code[-1]
    assert "\nassert " in code[-1]


@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_a_twin_shows_what_no_machine_changes(script):
    twin = twin_of(script)
    assert said(twin)[-1][0].endswith(".\n")
    assert said(twin)[-1][0].count("\n") == 1
    assert pictures(twin) > 0
    shown = "".join(text for cell in said(twin) for text in cell)
    assert re.findall(r"0x[0-9a-f]{5,}|/(?:home|root|tmp|work)/|\bwarning\b", shown, flags=re.IGNORECASE) == []
    assert script.with_suffix(".ipynb").stat().st_size < 150_000
    for cell in code_cells(twin):
        assert {output.output_type for output in cell.outputs} <= {"stream", "display_data", "execute_result"}
        assert cell.execution_count is None
        if "measured" in cell.metadata.get("tags", ()):
            assert [output.text for output in cell.outputs] == [NOT_KEPT]


@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_the_index_lists_it(script):
    index = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    assert f"(../notebooks/{script.stem}.ipynb)" in index


@pytest.mark.slow
@pytest.mark.parametrize("script", [script for script in SCRIPTS if script != NEEDS_TORCH], ids=name_of)
def test_a_twin_is_fresh(script):
    check_fresh(script)


def check_fresh(script):
    """Run a script: it says what its twin says, and draws where that draws."""
    assert runs_here(script)
    assert said(kept(executed(jupytext.read(script)))) == said(twin_of(script)), AGAIN


def test_a_stale_twin_is_seen():
    twin = twin_of(ROOT / "notebooks" / "02_when_eviction_is_optimal.py")
    for change in ("text", "picture"):
        stale = deepcopy(twin)
        if change == "text":
            code_cells(stale)[-1].outputs[0].text = "Eviction is never optimal.\n"
        else:
            cell = next(
                cell for cell in code_cells(stale) if any("image/svg+xml" in o.get("data", {}) for o in cell.outputs)
            )
            cell.outputs.pop()
        assert said(stale) != said(twin)
    code_cells(stale)[0].source += "\n1"
    assert stale.metadata.code != digest(stale)


def test_a_picture_in_a_table_is_kept_small():
    import kvbound as kv

    html = kv.builtin_instance("mars-figure1")._repr_html_()
    small = small_images(html)
    assert len(small) < len(html) / 2
    assert IMAGE.sub("", small) == IMAGE.sub("", html)
    assert 'src="data:image/svg+xml,%3C' in small


@pytest.mark.slow
def test_a_false_answer_fails():
    notebook = jupytext.read(ROOT / "notebooks" / "01_mars_example.py")
    assert "mars == 10" in notebook.cells[-1].source
    notebook.cells[-1].source = notebook.cells[-1].source.replace("mars == 10", "mars == 11")
    with pytest.raises(CellExecutionError, match="AssertionError"):
        executed(notebook)
