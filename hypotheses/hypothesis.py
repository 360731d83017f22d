"""A hypothesis: a statement, its source, a family of instances, and a predicate."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import repeat
from pathlib import Path
from typing import ParamSpec

from pydantic import ValidationError

from hypotheses.case import Case, Fails
from kvcore.errors import BadInput
from kvcore.files import read_instance
from kvcore.instance import Instance
from kvcore.shown import brief
from workloads.builtin import builtin_instance, is_builtin

STATES = ("proved", "no counterexample", "refuted", "undecided")
"""Verdicts, also those that a file may state. A family without its data is "skipped"."""

P = ParamSpec("P")
Predicate = Callable[[Case], Fails | Fraction | str | None]
"""How a case fails; or, where it holds, None, how near it came (the record keeps the largest), or words.

The case raises `Undecided` where a limit strikes.
"""


@dataclass(frozen=True)
class Hypothesis:
    """A claim about scheduling that a script decides.

    `states` is the verdict expected. `sentence` quotes the source where the verdict contradicts it. With `every`, cases
    after a failure are judged too, and failures counted.
    """

    statement: str
    source: str
    states: str
    family: Family
    predicate: Predicate
    sentence: str = ""
    note: str = ""
    every: bool = False

    def __repr__(self) -> str:
        return f"Hypothesis({brief(self.statement)}, states {self.states!r} of {brief(self.family.what)})"

    def __post_init__(self) -> None:
        if self.states not in STATES:
            raise BadInput(f"states is one of {', '.join(STATES)}, not {self.states!r}")
        for name in ("statement", "source"):
            if not str(getattr(self, name)).strip():
                raise BadInput(f"a hypothesis needs a {name}")
        if self.states == "proved" and not self.family.complete:
            raise BadInput("only a family of which all instances are listed can prove a claim; state something else")


Item = Instance | tuple[Instance, ...]  # one case: an instance, or several that are compared
DATA = "KVBOUND_DATA"


@dataclass(frozen=True)
class Family:
    """Instances in words and as a list; `complete`: finite, and all are listed (up to symmetry).

    With `data`, they are of real traces, in the folder KVBOUND_DATA.
    """

    what: str
    items: Callable[[], Iterable[Item]]
    complete: bool = False
    data: bool = False

    @property
    def missing(self) -> str | None:
        """Say what is not at hand, or None."""
        folder = os.environ.get(DATA)
        if self.data and (folder is None or not Path(folder).is_dir()):
            return f"the data is not at hand: {DATA} names no folder (docs/data.md says how to get it)"
        return None

    def __iter__(self) -> Iterator[tuple[Instance, ...]]:
        cases = [item if isinstance(item, tuple) else (item,) for item in self.items()]
        yield from sorted(cases, key=size)


def size(case: tuple[Instance, ...]) -> tuple[int, ...]:
    """Return the size of a case: instances, requests, calls, tokens, ticks in calls and before arrivals, memory."""
    requests = [request for instance in case for request in instance.requests]
    return (
        len(requests),
        sum(len(request.calls) for request in requests),
        sum(request.peak + 1 for request in requests),
        sum(request.call_time + request.arrival for request in requests),
        sum(instance.machine.memory or 0 for instance in case),
    )


def enumerated(what: str, items: Callable[[], Iterable[Item]]) -> Family:
    """Return a finite family; `items` lists all, up to symmetry."""
    return Family(what, items, complete=True)


def listed(*names: str) -> Family:
    """Return built-in instances by name, and those of files."""
    return Family(", ".join(names), lambda: map(_named, names), complete=True)


def _named(name: str) -> Instance:
    return read_instance(name) if Path(name).is_file() and not is_builtin(name) else builtin_instance(name)


def drawn(what: str, count: int, make: Callable[[random.Random, str], Instance]) -> Family:
    """Return `count` drawn cases: seed k makes the k-th, drawn again where no schedule exists."""

    def items() -> Iterator[Item]:
        for seed in range(count):
            draw = random.Random(seed)
            yield next(made for _ in repeat(None) for made in possible(make, draw, f"drawn-{seed}"))

    return Family(f"{what}; {count} drawn with seeds 0 to {count - 1}", items)


def possible(make: Callable[P, Instance], *arguments: P.args, **options: P.kwargs) -> list[Instance]:
    """Return the instance in a list, or nothing where no schedule exists."""
    try:
        return [make(*arguments, **options)]
    except ValidationError:
        return []
