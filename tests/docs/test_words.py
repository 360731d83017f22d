"""The pages written by hand stand on four shelves and stay short."""

import ast
import re
from pathlib import Path

from docs.make import FOLDER
from docs.make.words import GENERATED, count, counts, docstrings, shelves

LIMIT = 25_000
DOCSTRINGS = 75_000
VAGUE = ("what it", "so many", "of which", "at the least", "at the most")
"""Where a noun can stand."""
ROOT = Path(__file__).parents[2]
UNSAID = {"again", "back", "cells", "fixed", "goes", "has", "out", "since"}
"""Names of fields that do not say of which thing."""
KEPT = {
    "SlotPrices.since": "a key of certificates", "Speed.cells": "a key of certificates",
    "SpeedOptions.cells": "an option that users set", "Row.cells": "a table has cells",
    "CostLine.fixed": "part of a cost", "Shape.fixed": "part of a cost", "Shape.cells": "as the key of certificates",
}  # fmt: skip


def test_every_page_is_on_one_of_four_shelves():
    assert list(shelves()) == ["Tutorial", "How-to", "Explanation", "Reference"]
    on_shelves = sorted(page for pages in shelves().values() for page in pages)
    assert on_shelves == sorted(path.name for path in FOLDER.glob("*.md"))


def test_the_words_by_hand_have_a_limit():
    words = {page: number for shelf in counts().values() for page, number in shelf.items()}
    assert not GENERATED & set(words)
    assert sum(words.values()) <= LIMIT, sorted(words.items(), key=lambda item: -item[1])


def test_the_words_of_docstrings_have_a_limit():
    assert sum(len(text.split()) for _, text in docstrings()) <= DOCSTRINGS


def test_docstrings_name_things():
    vague = [(file, phrase) for file, text in docstrings() for phrase in VAGUE
             if re.search(rf"\b{phrase}\b", " ".join(text.lower().split()))]  # fmt: skip
    assert vague == []


def test_fields_name_things():
    fields = {
        f"{node.name}.{item.target.id}"
        for package in ("kvcore", "bounds", "solvers") for file in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.target.id in UNSAID
    }  # fmt: skip
    assert fields == set(KEPT)


def test_numbers_symbols_and_code_blocks_are_no_words():
    assert count("| two words | 3 % |\n```python\nnot counted\n```\nx `and code`") == 4


def test_formulas_are_no_words_and_dollars_in_code_are_dollars():
    assert count("cost $\\max(ab, cd)$ is\n\n$$\\sum_i\nab$$\n\n`$ ls ab` or `$x` 5$ and $6") == 6
