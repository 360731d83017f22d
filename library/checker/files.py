"""Errors, the budget of steps, and files: their JSON and the shapes of what is in it (docs/formats.md)."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any


def one_line(text: str) -> str:
    """At most 400 letters of a text, with a question mark for what a terminal may obey."""
    text = " ".join(text[:2000].split())
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:400]


class Bad(Exception):
    """The input is not what docs/formats.md asks for: exit code 2."""

    def __init__(self, detail: str) -> None:
        super().__init__(one_line(detail))


class Broken(Exception):
    """A rule is broken, or a claim is not proved: exit code 1."""

    def __init__(
        self, detail: str, rule: int | None = None, batch: int | None = None, request: str | None = None
    ) -> None:
        where = f", request {request}: " if request else ": "
        said = detail if rule is None else f"rule R{rule} is broken in batch {batch}{where}{detail}"
        super().__init__(one_line(said))
        self.rule, self.batch = rule, batch


class NotChecked(Broken):
    """The claim may be true, but this file cannot say."""


class Box(dict[str, Any]):
    """An object of a file; its keys are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        """What is at a key."""
        return self[name]


Shape = Callable[[Any, str], Any]
Amount = int | Fraction
MOST_BYTES, MOST_VALUES, MOST_TOKENS = 2**27, 10**7, 5 * 10**6
MOST_STEPS = 5 * 10**9  # of about 0.1 microseconds, or of 10 bytes
MOST_TRIED = 2 * 10**7  # batches that are tried in one search: some ten minutes
ONE = 2**64
spent = [0]


def spend(steps: int, what: str) -> None:
    """Count what is about to be done for one schedule or certificate."""
    spent[0] += steps
    if spent[0] > MOST_STEPS:
        raise NotChecked(f"{what} would take more than the {MOST_STEPS} steps that are taken")


def shaped(value: Any, shape: Any, where: str) -> Any:
    """What a value of a file means, if it has a shape.

    A shape is a check; [shape] of a list; {str: shape} of a map; else the keys of an object and what is at them:
    a shape, or (shape, default) of what may be left out.
    """
    if callable(shape):
        return shape(value, where)
    if not isinstance(value, type(shape)):
        raise Bad(f"{where}: give {'a list' if isinstance(shape, list) else 'an object'}")
    if isinstance(shape, list):
        return [shaped(item, shape[0], f"{where}[{index}]") for index, item in enumerate(value)]
    if str in shape:
        return {key: shaped(item, shape[str], f"{where}.{key}") for key, item in value.items()}
    if value.keys() - shape.keys():
        raise Bad(f"{where}: give no other keys than {', '.join(shape)}")
    result = Box()
    for key, inner in shape.items():
        inner, *default = inner if isinstance(inner, tuple) else (inner,)
        if key not in value and not default:
            raise Bad(f"{where}: {key} is missing")
        result[key] = shaped(value.get(key, *default), inner, f"{where}.{key}")
    return result


def check(test: Callable[[Any], object], what: str) -> Shape:
    """The shape of a value that passes a test."""

    def checked(value: Any, where: str) -> Any:
        if not test(value):
            raise Bad(f"{where}: give {what} (it is {value!r})")
        return value

    return checked


def integer(least: float, most: int = 10**15) -> Shape:
    """The shape of a whole number."""
    return check(lambda value: type(value) is int and least <= value <= most, f"an integer from {least} to {most}")


def one_of(*values: object) -> Shape:
    """The shape of one of some values."""
    return check(lambda value: (type(value), value) in [(type(known), known) for known in values], f"one of {values}")


def optional(shape: Any) -> Shape:
    """The shape of a value or null."""
    return lambda value, where: None if value is None else shaped(value, shape, where)


def headed(kind: str) -> dict[str, Any]:
    """The keys with which a file begins."""
    return {"format": (one_of(f"kvbound-{kind}"), f"kvbound-{kind}"), "version": (one_of(1), 1)}


def ratio(value: Any, where: str) -> Fraction:
    """A fraction, as text or as a whole number."""
    return claim(str(value) if type(value) is int else value, where)


def claim(value: Any, where: str) -> Fraction:
    """A fraction in text."""
    if isinstance(value, str) and len(value) <= 400 and re.fullmatch("-?[0-9]+(/0*[1-9][0-9]*)?", value):
        return Fraction(value)
    raise Bad(f"{where}: give a whole number, or a fraction in text (it is {value!r})")


text = check(
    lambda value: isinstance(value, str) and len(value) <= 200 and value.isprintable(),
    "a text of 200 letters at most on one line",
)
switch, limit, number = one_of(True, False), optional(integer(1)), integer(0)


def load(path: str | Path) -> Any:
    """What a file of JSON holds."""
    try:
        with (gzip.open if str(path).endswith(".gz") else open)(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES or sum(map(data.count, (b",", b":", b"[", b"{"))) > MOST_VALUES:
            raise NotChecked(f"{path}: more than {MOST_BYTES} bytes or {MOST_VALUES} values are not read")
        return json.loads(data.decode("utf-8"), object_pairs_hook=once, parse_constant=refused)
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise Bad(f"{path}: {error}") from None


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys differ."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return dict(pairs)


def refused(constant: str) -> Any:
    """Refuse what is no number, as NaN."""
    raise ValueError(f"{constant} is not a number that a file may hold")
