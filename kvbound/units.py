"""The unit of time and of KV of an instance, for every table, picture and report."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from kvcore.cost import Features
from kvcore.instance import Instance
from kvcore.metrics import AVERAGES, Value

TIMES = (("min", Fraction(60), Fraction(36000)), ("s", Fraction(1), Fraction(1)),
         ("ms", Fraction(1, 10**3), Fraction(1, 10**3)), ("µs", Fraction(1, 10**6), Fraction(1, 10**6)),
         ("ns", Fraction(1, 10**9), Fraction(0)))  # fmt: skip
"""Units of time: name, seconds, and the least seconds at which it is taken."""
DIGITS = 6  # of a number that is not whole


class Units(NamedTuple):
    """A unit of time with its seconds, the seconds of a tick, and the unit of KV."""

    time: str
    seconds: Fraction
    tick_seconds: Fraction
    kv: str = "tokens"

    @property
    def tick(self) -> Fraction:
        """Units of time in a tick."""
        return self.tick_seconds / self.seconds

    def text(self, ticks: Value) -> str:
        """Write a time without its unit."""
        return number(ticks * self.tick)

    def spelled(self, ticks: Value) -> str:
        """Write a time with its unit."""
        return f"{self.text(ticks)} {self.time}"

    def of(self, objective: str) -> str:
        """Return the unit of an objective."""
        if objective == "late-requests":
            return "requests"
        return f"{self.time} per token" if objective in AVERAGES else self.time

    def value(self, value: int | str | Fraction | None, objective: str) -> str | None:
        """Write a value from a row or a result, without its unit (None: there is none)."""
        return None if value is None else number(self.size(value, objective))

    def size(self, value: int | str | Fraction, objective: str) -> Fraction:
        """Return a value of an objective in its unit."""
        return Fraction(value) * (1 if objective == "late-requests" else self.tick)

    def named(self, value: int | str | Fraction, objective: str) -> str:
        """Write a value of an objective with its unit."""
        return f"{self.value(value, objective)} {self.of(objective)}"


def units_of(instance: Instance) -> Units:
    """Return the units of an instance: ticks where a tick is one second, the default of a file.

    Otherwise the largest unit of time within the last completion, if each request has the device to itself. A coarse
    token of KV is a block of fine ones.
    """
    decode = instance.cost.duration(
        Features(busy=1, any_decode=1, tokens=1, generated=1, decode_requests=1, decode_kv=1)
    )
    alone = [request.output * decode + request.call_time for request in instance.requests]
    last = max(request.arrival + ticks for request, ticks in zip(instance.requests, alone, strict=True))
    hours: Value = TIMES[0][2] / instance.tick_seconds
    grid = instance.coarsening
    kv = "tokens" if grid is None or grid.block_tokens == 1 else f"blocks of {grid.block_tokens} tokens"
    return time_units(max(max(alone), min(last, hours - 1)), instance.tick_seconds)._replace(kv=kv)


def time_units(ticks: Value, tick_seconds: Fraction) -> Units:
    """Return the units that suit this many ticks."""
    if tick_seconds == 1:
        return Units("ticks", Fraction(1), tick_seconds)
    name, seconds, _ = next(unit for unit in TIMES if ticks * tick_seconds >= unit[2])
    return Units(name, seconds, tick_seconds)


def seconds_of(tick_seconds: Fraction) -> Units:
    """Return the units for several instances: seconds, or ticks where a tick is one second."""
    return Units("ticks" if tick_seconds == 1 else "s", Fraction(1), tick_seconds)


def units_of_row(row: Mapping[str, Any]) -> Units:
    """Return a row's units, without its instance."""
    return time_units(Fraction(row["value"] or row["bound"] or 0), Fraction(row["tick_seconds"]))


def number(value: Value) -> str:
    """Write a whole number as it is, another one with six digits."""
    value = Fraction(value)
    if value.denominator == 1:
        return f"{value.numerator:,}"
    digits = len(str(abs(int(value)))) if abs(value) >= 1 else 0
    text = f"{float(value):,.{max(1, DIGITS - digits)}f}".rstrip("0").rstrip(".")
    return text if text.strip("-0") else f"{float(value):.1g}"
