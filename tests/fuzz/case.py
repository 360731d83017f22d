"""A case, what it may turn out to be, and the clock that counts."""

from __future__ import annotations

import contextlib
import json
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from typing import Any
from unittest import mock

from kvcore import Instance, Schedule
from kvcore.certificates.budget import Most
from solvers.neighbourhoods import improve
from tests.support.exhaustive import TooManyStates


@dataclass(frozen=True)
class Case:
    """What a part looks at; `seed` is for what it draws besides."""

    instance: Instance
    objective: str
    seed: int
    schedule: Schedule | None = None
    text: str | None = None

    def document(self) -> dict[str, Any]:
        return {
            "instance": json.loads(self.instance.to_json()), "objective": self.objective, "seed": self.seed,
            "schedule": self.schedule and json.loads(self.schedule.to_json()), "text": self.text,
        }  # fmt: skip

    @classmethod
    def read(cls, document: dict[str, Any]) -> Case:
        """Read a case back from the file of a finding."""
        instance = Instance.model_validate_json(json.dumps(document["instance"]))
        schedule = document["schedule"] and Schedule.model_validate_json(json.dumps(document["schedule"]))
        return cls(instance, document["objective"], document["seed"], schedule, document["text"])

    def of(self, instance: Instance) -> Case:
        """Return the case with another instance, of which its schedule is made to be one."""
        schedule = self.schedule and self.schedule.model_copy(update={"instance_sha256": instance.sha256})
        return replace(self, instance=instance, schedule=schedule)


class Wrong(Exception):
    """What must not be; `kind` is the same for findings that are alike."""

    def __init__(self, kind: str, detail: object = "") -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


class Skip(Exception):
    """The case is none for its part, or takes more work than it may."""


@dataclass(frozen=True)
class Part:
    """A part of the harness.

    `make` draws the cases of a number; `check` raises Wrong or Skip, and counts what it has seen; `reach` is what the
    counts must have, and what is never seen is reported.
    """

    name: str
    make: Callable[[Random], Iterator[Case]]
    check: Callable[[Case, Counter[str]], None]
    reach: frozenset[str]
    tries: int = 300
    """Smaller cases that are looked at, at the most, where one is wrong."""

    def cases(self, seed: int, number: int) -> Iterator[Case]:
        """Yield the cases of a number."""
        return self.make(Random(f"{seed} {self.name} {number}"))


@dataclass(frozen=True)
class Finding:
    """What went wrong with a case."""

    kind: str
    detail: str
    case: Case


@contextlib.contextmanager
def counted_time() -> Iterator[None]:
    """Let each look at the clock take a millisecond: limits of time become limits of work."""
    ticks = count()

    def clock() -> float:
        return next(ticks) / 1000

    with (
        mock.patch("time.monotonic", clock),
        mock.patch("time.process_time", clock),
        mock.patch("heuristics.engine.guarded.SECONDS", 1000.0),
        mock.patch.object(Most, "states", 1500),
        mock.patch.object(Most, "labels", 20_000),
        mock.patch("solvers.neighbourhoods.improve", lambda *given, **named: improve(*given, **{"rounds": 60} | named)),
    ):
        yield


def judge(part: Part, case: Case, seen: Counter[str]) -> Finding | None:
    """Return what is wrong with a case (None: nothing, or it was skipped)."""
    counts: Counter[str] = Counter()
    try:
        with counted_time():
            part.check(case, counts)
    except (Skip, TooManyStates):
        seen["skipped"] += 1
        return None
    except Wrong as wrong:
        return Finding(wrong.kind, str(wrong), case)
    except Exception as error:
        where = [f for f in traceback.extract_tb(error.__traceback__) if "/site-packages/" not in f.filename][-1]
        place = f"{type(error).__name__} in {where.filename.rsplit('/', 2)[-1]} {where.name}"
        return Finding(place, "".join(traceback.format_exception(error)), case)
    seen.update(counts)
    seen["answered"] += 1
    return None


def looked_at(part: Part, numbers: Sequence[int]) -> Counter[str]:
    """Judge the cases of some numbers, for a test: nothing is wrong with any; return what was seen."""
    seen: Counter[str] = Counter()
    for number in numbers:
        for case in part.cases(0, number):
            finding = judge(part, case, seen)
            assert finding is None, f"{part.name} {number}: {finding.detail}"
    return seen
