"""`library/check.py`: the modules of `library/checker` in one file, which needs nothing else."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "library" / "checker"
INNER = "library.checker."
NOTE = "# Made of library/checker/ by `python -m docs.make`: edit it there.\n\nfrom __future__ import annotations\n"
END = '\nif __name__ == "__main__":\n    sys.exit(main(sys.argv[1:]))\n'


def check_file() -> str:
    """Return the text: what the head of the package says, all imports, and each module after those that it imports."""
    names: defaultdict[str, set[str]] = defaultdict(set)
    parts = []
    for module in _after_those_below("command"):
        doc, imports, body = _parts(module)
        for source, name in imports:
            if not source.startswith(INNER):
                names[source].add(name)
        parts.append(f"\n# --- {doc} ".ljust(121, "-") + f"\n\n\n{body}")
    imports = [f"import {name}" for name in sorted(names.pop(""))]
    imports += [f"from {source} import {', '.join(sorted(names[source]))}" for source in sorted(names)]
    head = (PACKAGE / "__init__.py").read_text(encoding="utf-8")
    return "\n".join([head, NOTE, *imports, *parts, END])


def _parts(module: str) -> tuple[str, list[tuple[str, str]], str]:
    """Return what a module says that it is, the names that it imports from where, and the rest."""
    text = (PACKAGE / f"{module}.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    found = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    sources = [(node.module or "") if isinstance(node, ast.ImportFrom) else "" for node in found]
    names = [(source, each.name) for source, node in zip(sources, found, strict=True) for each in node.names]
    rest = text.splitlines(keepends=True)[found[-1].end_lineno :]
    return ast.get_docstring(tree) or "", names[1:], "".join(rest).lstrip("\n")


@cache
def _after_those_below(module: str) -> tuple[str, ...]:
    below = (source.removeprefix(INNER) for source, _ in _parts(module)[1] if source.startswith(INNER))
    return (*dict.fromkeys(name for one in below for name in _after_those_below(one)), module)
