"""What all proofs of a lower bound have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any, ClassVar, NamedTuple

from kvcore.certificates.budget import Budget, InvalidCertificate, Work
from kvcore.features import Takes
from kvcore.instance import Instance, Noun
from kvcore.metrics import Value

FINEST = 10**40
"""Longer sums would have denominators of thousands of digits."""


def add_up(terms: Sequence[Value]) -> Value:
    """Return the sum, each term rounded down to `FINEST` parts if their common denominator exceeds that."""
    parts = 1
    for term in terms:
        parts = min(lcm(parts, term.denominator), FINEST)
    return Fraction(sum(term.numerator * parts // term.denominator for term in terms), parts)


class Known(NamedTuple):
    """What a case says: which of its branch's two cases it is of."""

    branch: Any
    first: bool


def cases_of(nodes: Sequence[Any], branch: type, budget: Budget) -> Iterator[tuple[Any, tuple[Known, ...]]]:
    """Yield the prices of each case, and its branches: one precedes all of its first case, then all of the other.

    Raises InvalidCertificate where that is not so.
    """
    later: list[tuple[Known, ...]] = [()]
    for each in nodes:
        if not later:
            raise InvalidCertificate("there are prices of no case")
        known = later.pop()
        budget.spend("its cases", Work.visit * (1 + len(known)))
        if isinstance(each, branch):
            later += [(*known, Known(each, False)), (*known, Known(each, True))]
        else:
            yield each, known
    if later:
        raise InvalidCertificate("a case has no prices")


@dataclass
class Outcome:
    """How a search ended: nothing below the target (`proved`), an end below it, or a limit."""

    proved: bool
    tries: int
    states: int = 0
    cost: int | None = None
    """Of the end."""
    end: int = 0
    """Its place in the last layer."""

    def check(self, target: int, what: str, limits: str) -> None:
        """Raise InvalidCertificate where the target is not proved."""
        if self.cost is not None:
            raise InvalidCertificate(f"its search finds {what} at {self.cost}, below {target}")
        if not self.proved:
            raise InvalidCertificate(f"its search does not end within {limits}")


class Proof(Noun, ABC):
    """An argument for a lower bound, as numbers that anyone can follow."""

    kind: str
    takes: ClassVar[Takes]
    """What the argument is proved for."""
    argument: ClassVar[str] = ""
    """In words, with numbers of the proof as `{0.name}`."""

    def value(self, instance: Instance, objective: str) -> Value:
        """Return the lower bound that these numbers prove, recomputed exactly from the instance.

        Raises InvalidCertificate if it is not proved here, or exceeds a `Budget`.
        """
        return self.checked(instance, objective, Budget())

    def checked(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return `value`, spending from this budget."""
        if reason := self.takes.why_not(self.kind, instance, objective):
            raise InvalidCertificate(reason)
        return self.prove(instance, objective, budget)

    @abstractmethod
    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return the bound, for `checked`."""

    @property
    def why(self) -> str:
        """The argument."""
        return self.argument.format(self)
