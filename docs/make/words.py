"""`python -m docs.make.words`: count the words that people wrote in docs/, by shelf and page, and in docstrings."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = {"api.md", "engines.md", "index.md", "names.md", "reference.md", "rules.md", "verdicts.md", "worst.md"}
"""Pages whose words are in the code and in `pages.toml`. Those of measured.md are in records, by hand, and count."""
FENCED = re.compile(r"^ *(`{3,}).*?^ *\1$", flags=re.DOTALL | re.MULTILINE)
FORMULA = re.compile(r"(`+).+?\1|(?P<dollars>\$\$?)(?=[^\s$])(?P<tex>.+?)(?<!\s)(?P=dollars)(?!\d)", flags=re.DOTALL)
"""What is between dollars, `tex`, or between backticks: in code a dollar is a dollar."""


def count(text: str) -> int:
    """Return the words of a page outside its code blocks and formulas; a word has two letters in a row."""
    words = FORMULA.sub(lambda found: "" if found["tex"] else found[0], FENCED.sub("", text)).split()
    return sum(1 for word in words if re.search("[A-Za-z]{2}", word))


def shelves() -> dict[str, list[str]]:
    """Return the pages of docs/ on each shelf: what the first level of `nav` in mkdocs.yml names."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    names, texts = (re.split(r"^  - (\S+):$", nav, flags=re.MULTILINE)[first::2] for first in (1, 2))
    return {name: re.findall(r" (\w+\.md)$", text, flags=re.M) for name, text in zip(names, texts, strict=True)}


def counts() -> dict[str, dict[str, int]]:
    """Return the words of each page written by hand, by shelf."""
    found: dict[str, dict[str, int]] = {}
    for shelf, names in shelves().items():
        texts = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in names if name not in GENERATED}
        found[shelf] = {name: count(text) for name, text in texts.items()}
    return found


def docstrings() -> Iterator[tuple[str, str]]:
    """Yield the file and the text of each docstring of the packages that are shipped; attributes have them, too."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    for package in tool["hatch"]["build"]["targets"]["wheel"]["packages"]:
        for file in sorted({*(ROOT / package).rglob("*.py")} - {ROOT / "library/check.py"}):  # of library/checker/
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                body = getattr(node, "body", None)
                for part in body if isinstance(body, list) else ():
                    if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
                        yield file.relative_to(ROOT).as_posix(), str(part.value.value)


if __name__ == "__main__":
    print(f"docstrings: {sum(len(text.split()) for _, text in docstrings()):,}")
    table = counts()
    for shelf, words in table.items():
        print(f"{shelf}: {sum(words.values()):,}")
        for page, number in sorted(words.items(), key=lambda item: -item[1]):
            print(f"  {page:18} {number:6,}")
    print(f"all: {sum(sum(words.values()) for words in table.values()):,}")
