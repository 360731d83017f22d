"""What every proof of a lower bound has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod

from kvcore.instance import Instance, Noun
from kvcore.metrics import Value


class InvalidCertificate(Exception):
    """A certificate that does not prove what it claims; the text says why, in one line."""


class Proof(Noun, ABC):
    """An argument for a lower bound, as numbers that anyone can follow; each kind has a file of its own."""

    kind: str

    @abstractmethod
    def value(self, instance: Instance, objective: str) -> Value:
        """Return the lower bound that these numbers prove, recomputed exactly from the instance.

        Raises InvalidCertificate if the argument does not hold for such an instance or objective.
        """

    @property
    def states_in_all(self) -> int:
        """States of searches that it looks at, at the most: what makes checking it take long."""
        return 0

    @property
    @abstractmethod
    def why(self) -> str:
        """The argument in words."""
