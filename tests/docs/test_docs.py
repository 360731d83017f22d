"""Every page's code runs and prints what the page says; every link inside the repository leads somewhere."""

import os
import re
import sys
from pathlib import Path

import pytest

from docs.make.api import MEMBERS
from docs.make.engines import measured, summary
from heuristics import run_policy
from heuristics.policies.serial import Serial
from tests.support.commands import kvbound
from tests.support.markdown_blocks import find_blocks, run_page
from workloads.builtin import builtin_instance

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def echo(arguments):
    """Stand in for kvbound: print the arguments, one a line; exit with their number."""
    return len(arguments), "".join(f"{argument}\n" for argument in arguments)


def name_of(page):
    return page.relative_to(ROOT).as_posix()


LONG = {f"docs/{name}.md" for name in ("commands", "sweeps", "report", "model", "runs")}
"""Pages that take seconds each."""
NEED_TORCH = {"docs/calibration.md", "docs/commands.md", "docs/engine.md", "docs/replay.md"}
"""Pages that the tests of the engine run."""


def to_run(*, torch):
    """Return the pages whose blocks need PyTorch, or the others, as parameters of a test."""
    names = {name_of(page): page for page in PAGES if (name_of(page) in NEED_TORCH) is torch}
    names.pop("docs/index.md", None)  # the README
    return [pytest.param(page, marks=[pytest.mark.slow] * (name in LONG), id=name) for name, page in names.items()]


@pytest.mark.parametrize("page", to_run(torch=False))
def test_page_says_what_happens(page, tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    run_page(page.read_text(encoding="utf-8"), name_of(page), tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        file, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        aim = page.parent / file if file else page
        assert aim.exists(), f"{name_of(page)}: there is no {target}"
        if re.fullmatch(r"L\d+", anchor) and aim.suffix == ".py":
            lines = len(aim.read_text(encoding="utf-8").splitlines())
            assert int(anchor[1:]) <= lines, f"{name_of(page)}: {file} has {lines} lines, there is no {anchor}"
        elif anchor:
            assert anchor in anchors(aim), f"{name_of(page)}: {file or 'this page'} has no heading #{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_a_page_names_are_there(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    named = {path for path in re.findall(r"`([a-z_]+/[a-z0-9_./-]*)`", text) if (ROOT / path.split("/")[0]).is_dir()}
    assert {path for path in named if not (ROOT / path).exists()} == set()


def anchors(page):
    """Return the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = set()
    for heading in headings:
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(next(name for name in (anchor, *(f"{anchor}-{n}" for n in range(1, 99))) if name not in found))
    return found


def test_the_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 750  # as `wc -w` counts: all blocks included
    assert "(docs/tutorial.md)" in text.splitlines()[-1]


def test_the_table_of_engines_in_the_readme_is_that_of_its_page():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [line.strip("| ") for line in summary(measured()) 
             if not any(name in line for name in ("no-evict", "trtllm-v2", "| bound |"))]  # fmt: skip
    assert "\n".join(lines) in text


def test_the_interface_names_all_that_a_policy_may_use():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    run = Looks()
    run_policy(builtin_instance("mars-figure1"), run)
    for name, hidden in MEMBERS.items():
        there = {member for member in dir(run.seen[name]) if not member.startswith("_")} - hidden
        section = page.partition(f"### `{name}`\n")[2].partition("\n### ")[0]
        assert there <= set(re.findall(r"`(\w+)(?:\(.*?\))?`", section))
        assert len(there) > 10


class Looks(Serial):
    """Keeps one thing of each kind that a policy sees."""

    def decide(self, view, plan):
        self.seen = {"Job": view.jobs[0], "View": view, "Plan": plan}
        super().decide(view, plan)


def test_semantics_and_formats_are_executed():
    for name in ("docs/semantics.md", "docs/formats.md"):
        languages = [block.language for block in find_blocks((ROOT / name).read_text(encoding="utf-8"))]
        assert languages.count("python") >= 2


def test_python_blocks_share_names_and_folder(tmp_path):
    page = """
```json file=a.json
{"a": 1}
```

```python
import json
a = json.load(open("a.json"))["a"]
```
```python
print(a)
print("and 7 more")
```

```text
1
and ... more
```
"""
    assert run_page(page, "page", tmp_path) == 2


@pytest.mark.parametrize(("page", "message"), [
    ("```python\nprint(1)\n```\n\n```text\n2\n```", r"page:2: the page says\n2\n\nand it printed\n1\n"),
    ("```python\nprint(1)\n```", "page:2: the page says"),
    ("```python\nprint(1)\n```\nwords\n```text\n1\n```", "page:2: the page says"),
    ("```python no-test\n1\n```", "page:2: 'no-test' after python means nothing"),
    ("```bash\nls\n```", "page:2: bash blocks are not run"),
    ("```console\n$ ls\n```", "page:2: only kvbound is run here, not ls"),
    ("```console\nkvbound solve\n```", "page:2: a console block starts with"),
    ("```console\n$ kvbound solve\n```", "`kvbound solve` exits with 1, not 0"),
    ("```console\n$ kvbound\n# exit 1\n```", "`kvbound` exits with 0, not 1"),
    ("```console\n$ kvbound solve\nother\n# exit 1\n```", "the page says\nother\n"),
])  # fmt: skip
def test_a_wrong_page_fails(page, message, tmp_path):
    with pytest.raises(AssertionError, match=message):
        run_page(page, "page", tmp_path, echo)


def test_an_error_in_a_block_carries_the_line_of_the_page(tmp_path):
    with pytest.raises(ZeroDivisionError) as caught:
        run_page("words\n```python\n1\n1 / 0\n```", "page", tmp_path)
    assert caught.traceback[-1].lineno == 3  # counted from 0


def test_an_open_block_is_an_error():
    with pytest.raises(ValueError, match="line 2: the block is not closed"):
        find_blocks("words\n```python\n1")


def test_console_lines_are_run_as_written(tmp_path):
    page = "```console\n$ kvbound a \\\n  'b c'  # a comment\n# exit 2\na\nb ...\n```\n"
    assert run_page(page, "page", tmp_path, echo) == 1


NOT_RUN = {
    "docs/index.md": ["make, which sets up an environment"], "README.md": ["make, which sets up an environment"],
    "docs/model.md": ["a solver of its own"], "docs/data.md": ["public traces, which are not in the repository"],
    "docs/sweeps.md": ["a Dask cluster"], "docs/runs.md": ["vLLM"], "docs/library.md": ["twenty minutes"],
    "docs/verified.md": ["OCaml"], "docs/notebooks.md": ["JupyterLab, a program to look at notebooks"],
}  # fmt: skip
"""What each block marked notest needs that is not here, by page."""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_only_known_blocks_are_not_run(page):
    not_run = [block.line for block in find_blocks(page.read_text(encoding="utf-8")) if "notest" in block.words]
    assert len(not_run) == len(NOT_RUN.get(name_of(page), [])), f"{name_of(page)}: marked notest, at lines {not_run}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_make_has_the_targets_that_a_page_names(page):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    named = re.findall(r"(?:^\$ |`)make ([a-z-]+)", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert set(named) <= set(targets)
    assert page.name != "README.md" or page.parent != ROOT or {"demo", "test"} <= set(named)


@pytest.mark.slow
def test_the_demo_shows_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    said = [line.rstrip() for line in kvbound("demo", "--out", "demo-output").stdout.splitlines()]
    assert len(said) <= 40
    assert max(map(len, said)) <= 80
    assert "optimum                 34.6667           0 %  -" in said
    assert "optimum, free                9     7 % below  -" in said
    assert [line[:4] for line in said if line.startswith(("1.", "2.", "See", "Next"))] == [
        "1. M", "See:", "2. M", "See:", "Next",
    ]  # fmt: skip
    assert said[-1] == "demo-output/real-requests.html"
    kinds = sorted((file.stem, file.suffix) for file in Path("demo-output").iterdir())
    assert kinds == [(name, kind) for name in ("mars-figure1", "real-requests") for kind in (".html", ".svg")]


@pytest.mark.slow
def test_the_demo_says_what_is_not_proved(tmp_path):
    said = kvbound("demo", "--out", tmp_path, "--time-limit", "0.1").stdout
    assert "handling free: not proved (time limit); the optimum is at least" in said


def test_notest_blocks_are_not_run(tmp_path):
    assert run_page("```python notest\n1 / 0\n```\n```console notest\n$ rm x\n```\n", "page", tmp_path) == 0
