"""Families of instances, the smallest first: enumerated, drawn, or listed by name."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kvcore.instance import Instance
from workloads.builtin import builtin_instance

Item = Instance | tuple[Instance, ...]
"""One case: an instance, or several that are compared."""

DATA = "KVBOUND_DATA"


@dataclass(frozen=True)
class Family:
    """Instances in words and as a list; `complete`: finite, and all of them are listed (up to symmetry).

    With `data`, the instances are of real traces, in the folder that the variable KVBOUND_DATA names.
    """

    what: str
    items: Callable[[], Iterable[Item]]
    complete: bool = False
    data: bool = False

    @property
    def missing(self) -> str | None:
        """Say what is not at hand (None: nothing)."""
        folder = os.environ.get(DATA)
        if self.data and (folder is None or not Path(folder).is_dir()):
            return f"the data is not at hand: {DATA} names no folder (docs/data.md says how to get it)"
        return None

    def __iter__(self) -> Iterator[tuple[Instance, ...]]:
        """Yield the cases, the smallest first."""
        cases = [item if isinstance(item, tuple) else (item,) for item in self.items()]
        yield from sorted(cases, key=size)


def size(case: tuple[Instance, ...]) -> tuple[int, ...]:
    """Return how large a case is: instances, requests, calls, tokens, ticks in calls and before arrivals, memory."""
    requests = [request for instance in case for request in instance.requests]
    return (
        len(requests),
        sum(len(request.calls) for request in requests),
        sum(request.peak + 1 for request in requests),
        sum(request.call_time + request.arrival for request in requests),
        sum(instance.machine.memory or 0 for instance in case),
    )


def enumerated(what: str, items: Callable[[], Iterable[Item]]) -> Family:
    """Return a finite family of which `items` lists every instance, up to symmetry."""
    return Family(what, items, complete=True)


def listed(*names: str, complete: bool = True) -> Family:
    """Return built-in instances by their names."""
    return Family(", ".join(names), lambda: [builtin_instance(name) for name in names], complete)


def drawn(what: str, count: int, make: Callable[[random.Random, str], Item]) -> Family:
    """Return `count` drawn cases: seed k makes the k-th, drawn again where no schedule could carry it out."""
    return Family(f"{what}; {count} drawn with seeds 0 to {count - 1}", lambda: _draws(count, make))


def _draws(count: int, make: Callable[[random.Random, str], Item]) -> Iterator[Item]:
    for seed in range(count):
        yield _draw(random.Random(seed), f"drawn-{seed}", make)


def _draw(draw: random.Random, name: str, make: Callable[[random.Random, str], Item]) -> Item:
    while True:
        try:
            return make(draw, name)
        except ValidationError:  # some request can never fit
            continue


def possible(make: Callable[..., Instance], *arguments: Any, **options: Any) -> list[Instance]:
    """Return the instance in a list, or nothing where no schedule could carry it out."""
    try:
        return [make(*arguments, **options)]
    except ValidationError:
        return []
