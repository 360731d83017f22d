"""docs/api.md from `kvbound/__init__.pyi`: every public name, how it is called, and what it says of itself."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import Any

import kvbound
from docs.make.pages import PAGES

UNBROKEN = "\0"  # a space where a line does not end
MEMBERS = {
    "Job": {"finds", "forget", "hold", "spares"}, "View": {"present", "continuing"},
    "Plan": {"true_demands", "test_among", "batch", "undo"},
}  # fmt: skip


def api_page(root: Path) -> str:
    """Return the page."""
    listing = (root / "kvbound" / "__init__.pyi").read_text(encoding="utf-8")
    sections = re.split(r"^# ", listing, flags=re.MULTILINE)[2:]
    return "\n".join([PAGES["api"]["head"], *(line for section in sections for line in _section(section))])


def _section(text: str) -> Iterator[str]:
    heading, _, listed = text.partition("\n")
    yield f"## {heading}\n"
    for module, name in re.findall(r"^from (\S+) import \w+ as (\w+)", listed, flags=re.MULTILINE):
        yield from _entry(module, name)


def _entry(module: str, name: str) -> Iterator[str]:
    thing: Any = getattr(kvbound, name)
    yield f"### `{name}`\n"
    if callable(thing) and not (isinstance(thing, type) and issubclass(thing, BaseException)):
        yield f"```pyi\n{_called(name, thing)}\n```\n"
    said = inspect.getdoc(thing) if callable(thing) else None
    yield f"{said}\n\nFrom `{module}`.\n" if said else f"From `{module}`.\n"
    if name in MEMBERS:
        yield from (f"* `{member}`: {text}" for member, text in _members(thing, MEMBERS[name]))
        yield ""


def _members(thing: type, hidden: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the properties and methods of a class, with their arguments, and the first line of each docstring."""
    for name, member in vars(thing).items():
        called = inspect.isfunction(member)
        if not name.startswith("_") and name not in hidden and (called or isinstance(member, property)):
            given = f"({', '.join([*inspect.signature(member).parameters][1:])})" if called else ""
            yield f"{name}{given}", str(inspect.getdoc(member)).partition("\n")[0]


def _called(name: str, thing: Any) -> str:
    """Return how it is called: of a class the arguments, of a function their types as well."""
    signature, typed = inspect.signature(thing), not isinstance(thing, type)
    arguments = [_argument(each, typed) for each in signature.parameters.values() if each.name != "root"]
    first = next((k for k, each in enumerate(signature.parameters.values()) if each.kind is each.KEYWORD_ONLY), None)
    if typed and first is not None:
        arguments.insert(first, "*")
    words = f"kv.{name}({', '.join(argument.replace(' ', UNBROKEN) for argument in arguments)})"
    words += f" -> {signature.return_annotation}".replace(" ", UNBROKEN) if typed else ""
    return fill(words, 110, subsequent_indent="    ", break_on_hyphens=False).replace(UNBROKEN, " ")


def _argument(parameter: inspect.Parameter, typed: bool) -> str:
    default = parameter.default
    stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    shown = f"{stars}{parameter.name}: {parameter.annotation}" if typed else parameter.name
    if default is inspect.Parameter.empty:
        return shown
    value = repr(default) if isinstance(default, float | int | str | None) else ".."
    return f"{shown} = {value}" if typed else f"{shown}={value}"
