"""docs/rules.md from the docstrings of the policies: each rule in full, its guarantee, running time and source."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from heuristics import POLICIES
from heuristics.engine import admission, min_waste
from heuristics.engine.policy import Policy
from heuristics.registry import NAMED

INTRODUCTION = """# The rules of all policies

Written by `python -m docs.make` from the code. [policies.md](policies.md) has the proofs, and says how the papers are
read; [names.md](names.md#policies) has a line on each.

## The admission test
"""


def rules_page() -> str:
    """Return docs/rules.md: what several policies share, then each policy."""
    classes = {type(policy): None for policy in POLICIES.values()}
    shared = {base: None for one in classes for base in one.__mro__[1:] if issubclass(base, Policy)}
    names = {one: [name for name, policy in POLICIES.items() if type(policy) is one] for one in classes}
    lines = [INTRODUCTION, text_of(admission), "## The min-waste rule\n", text_of(min_waste)]
    lines += [line for base in shared if base is not Policy and base not in classes for line in described(base, [])]
    lines += [line for one, known in names.items() for line in described(one, known)]
    lines += [line for name, one in NAMED.items() if one not in names for line in described(one, [f"{name}:.."])]
    return "\n".join(lines)


def described(one: type, names: list[str]) -> Iterator[str]:
    """Yield a heading with the names of a class, or its own, and its docstring with a link to its file."""
    file = f"{one.__module__.replace('.', '/')}.py"
    yield f"## {', '.join(names) or one.__name__}\n"
    yield f"[{file}](../{file})" + (
        f", on top of `{one.__mro__[1].__name__}`.\n" if one.__mro__[1] is not Policy else "\n"
    )
    yield text_of(one)


def text_of(documented: Any) -> str:
    """Return a docstring, its first sentence as a paragraph."""
    return f"{inspect.getdoc(documented)}\n"
