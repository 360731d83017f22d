"""What docs/ generates is current, and the site builds without a warning and without the network."""

import os
import re
import subprocess
import sys
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import matplotlib
import pyomo.environ as pyo
import pytest

from docs.make import FOLDER, hooks, lists, texts
from docs.make.pictures import MATPLOTLIB, PICTURES
from docs.make.reference import PROGRAMS, ConstraintClass, constraints, reference_page
from formulations import make
from kvcore.limits import BUDGETS
from workloads.builtin import builtin_instance

ROOT = FOLDER.parent
AGAIN = "run: python -m docs.make"


@pytest.mark.parametrize("name", texts())
def test_a_generated_page_is_current(name):
    assert (FOLDER / name).read_text(encoding="utf-8") == texts()[name], AGAIN


def picture(name):
    """A picture as a parameter; those of an optimum take a solve."""
    return pytest.param(name, marks=[pytest.mark.slow] if name in ("bound.svg", "gap.svg") else [])


@pytest.mark.parametrize("name", [picture(name) for name in PICTURES])
def test_a_picture_is_current(name):
    kept, drawn = (FOLDER / "images" / name).read_bytes(), PICTURES[name]()
    assert words(kept) == words(drawn), AGAIN
    if matplotlib.__version__.startswith(f"{MATPLOTLIB}."):
        assert kept == drawn, AGAIN


def words(picture):
    """The texts of a picture, which no version of matplotlib changes."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", picture.decode())


def test_a_measurement_has_a_date_and_a_command():
    record = {"title": "Speed", "about": "", "command": "python -m benchmarks", "tables": []}
    with pytest.raises(ValueError, match="Speed: a measurement has a date and the command that makes it"):
        list(lists.lines(record))
    assert list(lists.lines(record | {"date": date(2026, 11, 20)}))[2] == "`python -m benchmarks`, 2026-11-20. "


# --- the reference of constraints ------------------------------------------------------------------------------------
def named(program):
    return {found.name for part in PROGRAMS[program] for found in constraints(ROOT, part)}


@pytest.mark.parametrize(
    ("program", "objective"),
    [("batch-bigm", "total-flow-time"), ("batch-bigm", "busy-time"), ("batch-bigm:plain", "makespan")],
)
def test_the_reference_has_every_constraint_of_the_model(program, objective):
    built = make(
        program, builtin_instance("infermax-figure15:I=1" if objective == "busy-time" else "mars-figure1"), objective,
        12,
    )  # fmt: skip
    rows = {component.name for component in built.model.component_objects(pyo.Constraint)}
    budgets = {limit.key for limit in BUDGETS}  # whose rows are of one method
    assert rows - budgets | {"budget"} <= named(program.removesuffix(":plain"))
    assert len(rows) >= 10


def test_every_rule_is_in_the_constraint_program():
    rules = {rule for part in PROGRAMS["cp-sat"] for found in constraints(ROOT, part) for rule in found.rules}
    assert rules == {f"R{n}" for n in range(1, 12)}


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_constraint_says_an_inequality(program):
    for part in PROGRAMS[program]:
        for found in constraints(ROOT, part):
            assert re.search(r" [<>]?= | means | implies ", found.text), f"{found.owner}.{found.name} has no inequality"


def test_every_equation_of_infermax_has_its_rows():
    found = {number for part in PROGRAMS["batch-bigm"] for row in constraints(ROOT, part) for number in row.equations}
    assert found == {"(1)", "(2)", "(3)", "(4)", "(5)", "no number"}


def write_class(folder, docstring):
    (folder / "formulations").mkdir()
    (folder / "formulations" / "small.py").write_text(
        f"class Small:\n    def constraints(self):\n        return [self.late, self.early]\n\n"
        f"    def early(self):\n        {docstring}\n\n    def late(self):\n        '''R2: a <= b | c[j].'''\n"
    )


def test_a_row_leads_to_its_method(tmp_path):
    write_class(tmp_path, "'''(1), R3: x = 1.'''")
    late, early = constraints(tmp_path, ConstraintClass("small.py", "Small", "heading"))
    assert (late.name, late.line, late.rules, late.equations) == ("late", 8, ["R2"], [])
    assert (early.name, early.line, early.rules, early.equations) == ("early", 5, ["R3"], ["(1)"])


def test_a_constraint_without_docstring_is_an_error(tmp_path):
    write_class(tmp_path, "pass")
    with pytest.raises(ValueError, match=r"formulations/small\.py: Small\.early is a constraint and has no docstring"):
        constraints(tmp_path, ConstraintClass("small.py", "Small", "heading"))


def test_links_of_the_reference_lead_to_definitions():
    links = re.findall(r"\[`(\w+)`\]\(\.\./(\S+)#L(\d+)\)", reference_page(ROOT))
    assert len(links) > 80
    for name, file, line in links:
        assert (ROOT / file).read_text(encoding="utf-8").splitlines()[int(line) - 1].lstrip().startswith(f"def {name}(")


# --- the site --------------------------------------------------------------------------------------------------------
def test_what_a_page_links_to_becomes_a_page():
    text = "[a](../formulations/horizon.py#L3) [b](../tests) [c](bounds.md#x) [d](https://x.y/z.py) [e](../README.md)"
    assert hooks.outside("solving.md", text) == {"formulations/horizon.py", "tests", "README.md"}
    assert hooks.linked("solving.md", text) == (
        "[a](source/formulations/horizon.py.md#line-0-3) [b](source/tests.md) [c](bounds.md#x) [d](https://x.y/z.py) "
        "[e](source/README.md)"
    )
    assert hooks.linked("source/README.md", "[a](docs/bounds.md) [b](tests)") == "[a](../bounds.md) [b](tests.md)"
    assert (
        hooks.linked("source/gpu_validation/records/README.md", "[a](../../docs/replay.md)")
        == "[a](../../../replay.md)"
    )
    assert hooks.listing("formulations/horizon.py").startswith("# formulations/horizon.py\n\n````py\n")
    assert "* `index.md`" in hooks.listing("docs")


def test_formulas_become_mathml():
    pytest.importorskip("latex2mathml")
    shown = hooks.linked("bounds.md", "at $x_i < 2$, `$HOME` and `$a$b`:\n\n$$\\lceil y \\rceil$$")
    assert shown == "at `$x_i < 2$`, `$HOME` and `$a$b`:\n\n`$$\\lceil y \\rceil$$`"
    drawn = hooks.SHOWN_FORMULA.sub(hooks.mathml, "<code>$x &lt; 2$</code> <code>$HOME</code> <code>$$y$$</code>")
    assert re.sub(" xmlns=[^ ]*", "", drawn) == (
        '<math display="inline"><mrow><mi>x</mi><mo>&#x0003C;</mo><mn>2</mn></mrow></math> <code>$HOME</code> '
        '<math display="block"><mrow><mi>y</mi></mrow></math>'
    )


def test_a_notebook_is_a_page_with_what_it_shows(monkeypatch):
    monkeypatch.delenv("RUN_NOTEBOOKS", raising=False)
    page, *pictures = (made := hooks.notebook("notebooks/02_when_eviction_is_optimal.ipynb"))
    assert page == "source/notebooks/02_when_eviction_is_optimal.ipynb.md"
    assert "```python\nfrom IPython" in made[page]
    assert "# 02 When eviction is optimal" in made[page]
    assert "    Eviction is optimal for prompts up to 32 tokens" in made[page]
    assert len(pictures) == 4
    assert all(f"](./{Path(name).name})" in made[page] and b"<svg" in made[name] for name in pictures)


STATED = [
    ("29/3 is possible", "notebooks/01_mars_example.ipynb", "own handlings 29/3 is possible, with free ones 9"),
    ("24.1 %", "notebooks/02_when_eviction_is_optimal.ipynb", "tokens, where it saves up to 24.1% (at I = 1)"),
    ("31 to 108 %", "docs/policies.md", "| `vllm-v1`, `trtllm-max-utilization` | 100 | 32 | 31 | 108 |"),
    ("2.5 %", "docs/measured.md", "`infermax` 3,607 (`sarathi` 3,740, `vllm` 3,848) | 3,520 | 2.5 % |"),
    ("Of 88 beliefs about schedulers, 48", "docs/verdicts.md", "4 no counterexample, 29 proved, 48"),
]  # fmt: skip
"""What comparison.md states, and where that is proved or measured."""


@pytest.mark.parametrize(("said", "file", "found"), STATED)
def test_comparison_says_what_was_proved(said, file, found):
    assert said in (FOLDER / "comparison.md").read_text(encoding="utf-8")
    assert found in (ROOT / file).read_text(encoding="utf-8")


class Site(HTMLParser):
    """The ids of a page, what it loads, and where it leads."""

    def __init__(self, page):
        super().__init__()
        self.ids = set()
        self.loads = []
        self.leads = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids |= {value for key in ("id", "name") if (value := given.get(key))}
        loaded = given.get("src") or (given.get("href") if tag == "link" else None)
        self.loads += [loaded] if loaded else []
        self.leads += [given["href"]] if tag == "a" and given.get("href") else []


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built where every connection is refused."""
    folder = tmp_path_factory.mktemp("site")
    nowhere = {f"{kind}_PROXY": "http://127.0.0.1:9" for kind in ("HTTP", "HTTPS", "ALL")}
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder], cwd=ROOT, text=True,
        env={**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "WARNING" not in done.stdout, done.stdout
    return folder


@pytest.mark.slow
def test_the_site_has_every_page(site):
    pages = {path.relative_to(FOLDER).with_suffix(".html") for path in FOLDER.rglob("*.md")}
    assert [page for page in pages if not (site / page).is_file()] == []
    assert not list(site.rglob("*.py"))


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        for loaded in Site(page).loads:
            assert not urlsplit(loaded).netloc, f"{page.name} loads {loaded}"
    for sheet in site.rglob("*.css"):
        assert re.findall(r"url\(['\"]?(?:https?:)?//[^)]*", sheet.read_text(encoding="utf-8")) == []


@pytest.mark.slow
def test_every_link_of_the_site_leads_somewhere(site):
    pages = {page: Site(page) for page in site.rglob("*.html") if page.name != "404.html"}
    for page, found in pages.items():
        for link in (*found.leads, *found.loads):
            parts = urlsplit(link)
            if parts.scheme:
                continue
            aim = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            aim = aim / "index.html" if aim.is_dir() else aim
            assert aim.is_file(), f"{page.name}: there is no {link}"
            if parts.fragment and aim in pages:
                assert unquote(parts.fragment) in pages[aim].ids, f"{page.name}: nothing is at {link}"


@pytest.mark.slow
def test_lists_and_code_are_no_paragraphs(site):
    """GitHub begins a list without an empty line before it; what the site is made with does not."""
    for page in site.glob("*.html"):
        paragraphs = re.findall(r"<p>(.*?)</p>", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert [text for text in paragraphs if re.search(r"^(\* |- |\d+\. |\||```)", text, flags=re.MULTILINE)] == []


@pytest.mark.slow
def test_the_code_of_a_constraint_is_a_page(site):
    reference = (site / "reference.html").read_text(encoding="utf-8")
    link = re.search(r'href="(source/formulations/big_m\.py\.html)#(line-0-\d+)"><code>token_generation', reference)
    assert link is not None
    page = (site / link[1]).read_text(encoding="utf-8")
    line = page[page.index(f'id="{link[2]}"') :].split("\n")[0]
    assert "token_generation" in re.sub(r"<[^>]*>", "", line)


@pytest.mark.slow
def test_the_search_works_from_the_disk(site):
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert index.startswith("var __index = {")
    assert "mars-figure1" in index
    page = (site / "index.html").read_text(encoding="utf-8")
    assert '<script src="theme/iframe-worker.js"></script>' in page


@pytest.mark.slow
def test_the_site_shows_what_notebooks_show(site):
    pages = sorted((site / "source" / "notebooks").glob("*.ipynb.html"))
    assert len(pages) >= 6
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert "<img" in text.split("<article")[1], page.name
