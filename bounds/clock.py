"""The clock of searches: processor seconds, or counted work, the same on every machine and under every load."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf

CLOCK = 4.0
"""The limit by the clock over that in processor seconds."""
SECOND = 10**6
"""Units of work that stand for a second."""


class Units:
    """Units of work that things take (docs/solving.md)."""

    look = 300
    slice = 200_000
    proof = 20_000
    token = 5
    move = 5
    pivot = 20
    slot_try = 0.1
    speed_step = 0.002
    nanosecond = 0.001


@dataclass
class _Limit:
    units: float | None = None
    """Work so far (None: it is not counted)."""
    end: float = inf
    """By `time.monotonic`, when all deadlines have passed."""


_LIMIT: ContextVar[_Limit] = ContextVar("limit")


def now() -> float:
    """Return processor seconds, or those of counted work; after the clock's end all deadlines have passed."""
    limit = _LIMIT.get(None)
    if limit is None or limit.units is None:
        is_late = limit is not None and time.monotonic() > limit.end
        return time.process_time() + 1e9 * is_late
    limit.units += Units.look
    return limit.units / SECOND


def used() -> float:
    """Return as `now` does, but nothing more after the clock's end."""
    limit = _LIMIT.get(None)
    return time.process_time() if limit is None or limit.units is None else limit.units / SECOND


def spend(units: float) -> None:
    """Count work besides looks at the clock."""
    limit = _LIMIT.get(None)
    if limit is not None and limit.units is not None:
        limit.units += units


def spend_pivots(pivots: float) -> None:
    """Count pivots of a linear program."""
    spend(Units.pivot * pivots)


def is_counted() -> bool:
    """Whether work is counted here."""
    limit = _LIMIT.get(None)
    return limit is not None and limit.units is not None


def is_late() -> bool:
    """Whether the clock's end has passed."""
    limit = _LIMIT.get(None)
    return limit is not None and time.monotonic() > limit.end


def by_clock(seconds: float) -> float:
    """Return the seconds that a linear program may take: without a limit where work is counted."""
    return inf if is_counted() else seconds


@contextmanager
def limited(seconds: float, work: float | None = None) -> Iterator[float]:
    """Count work in the block, or end it by the clock; give the limit by `now`.

    Within a block that counts work, a second is a million units.
    """
    if work is None and is_counted():
        yield seconds
        return
    token = _LIMIT.set(_Limit(end=time.monotonic() + CLOCK * seconds) if work is None else _Limit(0.0))
    try:
        yield seconds if work is None else work / SECOND
    finally:
        _LIMIT.reset(token)


class Timer:
    """The seconds since it was made."""

    def __init__(self) -> None:
        self._began = time.process_time(), time.monotonic()

    @property
    def seconds(self) -> float:
        """Of the processor."""
        return time.process_time() - self._began[0]

    @property
    def clock(self) -> float:
        """By the clock."""
        return time.monotonic() - self._began[1]
