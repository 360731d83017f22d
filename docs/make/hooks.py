"""What MkDocs needs to show the pages as they are in the repository (`hooks` in mkdocs.yml).

Files and folders of the repository that a page links to, such as the code of a constraint, become pages of the site, so
that the links lead somewhere without the network. Notebooks become pages with what they show: as kept in the
repository, or run anew where RUN_NOTEBOOKS is set (`make docs`). Words after the language of a code block, which tell
the tests what to do, are left out. Formulas between dollars pass through Markdown as code and become MathML, which
browsers draw.
"""

import html
import os
import re
from pathlib import Path
from posixpath import normpath, relpath

import jupytext
import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert import MarkdownExporter

from docs.make.notebooks import executed, runs_here
from docs.make.words import FORMULA

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(?<=\])\((?![a-z]+:|#)([^)#\s]+)(?:#([^)\s]*))?\)")
BLOCK = re.compile(r"(^ *(?P<ticks>```+).*?^ *(?P=ticks)$)", flags=re.MULTILINE | re.DOTALL)
WORDS = re.compile(r"\A( *```+\w+) .*")
SHOWN_FORMULA = re.compile(r"<code>(\$\$?)([^<]+?)\1</code>")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file or folder outside docs/ that a page links to."""
    pages = [file.src_uri for file in files if file.src_uri.endswith(".md")]
    texts = {page: (ROOT / "docs" / page).read_text(encoding="utf-8") for page in pages}
    aims = {aim for page, text in texts.items() for aim in outside(page, BLOCK.sub("", text))}
    for aim in sorted(aims):
        for name, content in (notebook(aim) if aim.endswith(".ipynb") else {page_of(aim): listing(aim)}).items():
            files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the text of a page as MkDocs is to read it."""
    uri = page.file.src_uri
    done, parts = 0, []
    for block in BLOCK.finditer(markdown):
        parts += [linked(uri, markdown[done : block.start()]), WORDS.sub(r"\1", block[0])]
        done = block.end()
    return "".join([*parts, linked(uri, markdown[done:])])


def linked(uri: str, text: str) -> str:
    """Return a text without code blocks, its links as they are on the site, and its formulas as code."""
    text = LINK.sub(lambda link: f"({target(uri, link)})", text)
    return FORMULA.sub(lambda found: f"`{found[0]}`" if found["tex"] else found[0], text)


def path_of(uri: str, link: str) -> str:
    """Return the path in the repository that a link of a page leads to."""
    return normpath(f"docs/{uri}/../{link}".removeprefix("docs/source/"))


def outside(uri: str, text: str) -> set[str]:
    """Return the files and folders outside docs/ that a page (its text without code blocks) links to."""
    paths = {path_of(uri, link[1]) for link in LINK.finditer(text)}
    return {path for path in paths if not path.startswith("docs/") and (ROOT / path).exists()}


def page_of(path: str) -> str:
    """Return the page of the site for a file of the repository; Markdown is shown as such, other files as code."""
    return f"source/{path.removesuffix('.md')}.md"


def listing(path: str) -> str:
    """Return the page for a file of the repository, or for a folder: the names of what is in it."""
    if (ROOT / path).is_dir():
        names = sorted(entry.name for entry in (ROOT / path).iterdir() if not entry.name.startswith(("_", ".")))
        return "\n".join([f"# {path}", "", *(f"* `{name}`" for name in names), ""])
    text = (ROOT / path).read_text(encoding="utf-8")
    return text if path.endswith(".md") else f"# {path}\n\n````{Path(path).suffix[1:]}\n{text}````\n"


def notebook(path: str) -> dict[str, str | bytes]:
    """Return the files of the site for a notebook: its page, and its pictures."""
    script = (ROOT / path).with_suffix(".py")
    run = "RUN_NOTEBOOKS" in os.environ and runs_here(script)
    cells = executed(jupytext.read(script)) if run else nbformat.read(ROOT / path, as_version=4)
    resources = {"unique_key": script.stem, "output_files_dir": "."}
    text, made = MarkdownExporter().from_notebook_node(cells, resources)
    pictures = {f"source/notebooks/{name}": content for name, content in made["outputs"].items()}
    return {page_of(path): text.replace("![svg](", "![the picture that the cell draws]("), **pictures}


def target(uri: str, link: re.Match[str]) -> str:
    """Return where a link leads on the site; a line of a file (`#L12`) is the anchor of that line of its page."""
    path, anchor = path_of(uri, link[1]), f"#{link[2]}" if link[2] else ""
    if not (ROOT / path).exists():
        return link[1]
    if not path.startswith("docs/"):
        path = f"docs/{page_of(path)}"
    anchor = re.sub(r"^#L(\d+)$", r"#line-0-\1", anchor)
    return relpath(path.removeprefix("docs/"), f"{uri}/..") + anchor


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Set the formulas; tell MkDocs of the anchors of lines of code, which it does not see where it checks links."""
    page.present_anchor_ids = (page.present_anchor_ids or set()) | set(re.findall(r'id="(line-\d+-\d+)"', content))
    return SHOWN_FORMULA.sub(mathml, content)


def mathml(formula: re.Match[str]) -> str:
    """Return a formula that Markdown has shown as code, `$..$` or in display `$$..$$`, as MathML."""
    from latex2mathml.converter import convert

    return convert(html.unescape(formula[2]), display="block" if formula[1] == "$$" else "inline")
