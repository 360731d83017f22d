"""Functions of a batch in exact seconds, and their integer coefficients over a divisor.

Features and coefficients are non-negative, so if every coefficient of a function is off by at most the fraction e of
itself, so is its value, and so is the largest of several. With T the exact time in ticks (at least 1) and D the integer
time,

    (1 - e) T <= D < (1 + e) T + 1

because D is rounded up.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from kvcore.cost import Cost, CostFunction, Features
from kvcore.errors import BadInput
from kvcore.instance import LIMIT

EXACT = 10**12  # a function is kept exact if its divisor and coefficients are at most this
PRECISION = Fraction(1, 10**6)  # else a coefficient is off by at most this part of itself, if a file may


@dataclass(frozen=True)
class Function:
    """A linear function of the features: non-negative seconds for each; `tokens_above` is for tokens above `knee`."""

    seconds: Mapping[str, Fraction]
    knee: int = 0

    def value(self, features: Features) -> Fraction:
        """Return the seconds of a batch."""
        return sum((seconds * self._amount(name, features) for name, seconds in self.seconds.items()), Fraction(0))

    def plus(self, other: "Function") -> "Function":
        """Return the sum with a function without hinge."""
        names = dict.fromkeys((*self.seconds, *other.seconds))
        return Function(
            {name: self.seconds.get(name, Fraction(0)) + other.seconds.get(name, Fraction(0)) for name in names},
            self.knee,
        )

    def _amount(self, name: str, features: Features) -> int:
        if name == "tokens_above":
            return max(0, features.tokens - self.knee)
        amount: int = getattr(features, name)
        return amount


@dataclass(frozen=True)
class Rounded:
    """The integer cost, and the largest relative error of its coefficients (0: exact)."""

    cost: Cost
    error: Fraction


def longest(functions: Iterable[Function], features: Features) -> Fraction:
    """Return the seconds of a batch: the largest value of the functions."""
    return max(function.value(features) for function in functions)


def rounded(functions: Sequence[Function], tick: Fraction) -> Rounded:
    """Return the integer cost of these functions at a tick, without those that are 0.

    BadInput if none is left, or if the tick is so short that a coefficient exceeds the largest number of a file.
    """
    parts = [_rounded(function, tick) for function in functions if any(function.seconds.values())]
    if not parts:
        raise BadInput("every coefficient of the cost is 0; a batch has to take time")
    return Rounded(Cost(tuple(function for function, _ in parts)), max(error for _, error in parts))


def _rounded(function: Function, tick: Fraction) -> tuple[CostFunction, Fraction]:
    ticks = {name: seconds / tick for name, seconds in function.seconds.items() if seconds}
    divisor = _divisor(list(ticks.values()), tick)
    whole = {name: round(value * divisor) for name, value in ticks.items()}
    error = max(abs(Fraction(whole[name], divisor) - value) / value for name, value in ticks.items())
    terms: dict[str, object] = dict(whole)
    if "tokens_above" in whole:
        terms["tokens_above"] = {"knee": function.knee, "coefficient": whole["tokens_above"]}
    return CostFunction.model_validate({"divisor": divisor, **terms}), error


def _divisor(ticks: list[Fraction], tick: Fraction) -> int:
    exact, least, most = lcm(*(value.denominator for value in ticks)), min(ticks), max(ticks)
    if exact <= EXACT and most * exact <= EXACT:
        return exact
    if most > LIMIT:
        raise BadInput(f"a coefficient is {float(most):.3g} ticks of {tick} s, at most {LIMIT:.0e}: take a longer tick")
    divisor = 1
    while divisor * least * PRECISION < Fraction(1, 2) and 10 * divisor <= LIMIT and 10 * divisor * most <= LIMIT:
        divisor *= 10
    return divisor
