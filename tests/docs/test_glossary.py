"""The names that a user meets are terms of the glossary."""

import inspect
import re

import kvbound as kv
from docs.make import FOLDER

PLAIN = {"own", "logged", "ranked", "unified", "listed", "comparison", "explanation", "matrix", "fails", "space"}
PLAIN |= {"report", "measured", "selection"}
"""Words of class names that mean what they mean everywhere."""
MEASURES = {"total", "weighted", "max", "time", "requests"}


def terms():
    """Return the words that stand in bold, in italics or as code in the glossary, in lower case."""
    text = re.sub(r"^\* ", "", (FOLDER / "glossary.md").read_text(encoding="utf-8").lower(), flags=re.MULTILINE)
    found = [word for groups in re.findall(r"\*\*(.+?)\*\*|\*(.+?)\*|`(.+?)`", text) for word in groups if word]
    return {part for word in found for part in (word, *re.split("[ ,-]+", word))}


def test_every_public_class_is_named_by_terms():
    public = {name: getattr(kv, name) for name in dir(kv)}
    shown = [name for name, it in public.items() if inspect.isclass(it) and not issubclass(it, Exception)]
    assert len(shown) > 30
    words = {word.lower() for name in shown for word in re.findall("[A-Z][a-z]*", name)}
    known = terms() | PLAIN
    assert {word for word in words if not {word, f"{word}s"} & known} == set()


def test_objectives_and_switches_are_terms():
    switches = {name for name, field in kv.Machine.model_fields.items() if field.annotation is bool}
    assert len(switches) == 7
    words = {word for name in kv.OBJECTIVES for word in name.split("-")} - MEASURES
    assert (words | switches) - terms() == set()
