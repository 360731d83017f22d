"""A cost model: coefficients, tick, and machine."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from kvcore.cost import Cost
from kvcore.instance import Machine


@dataclass(frozen=True)
class CostModel:
    """How long a batch takes: the coefficients, their tick, the machine measured, description and source."""

    make: Callable[[], Cost]
    tick: Fraction  # seconds
    machine: Machine | None  # None: the cost is of no machine
    what: str
    source: str
    rounding: Fraction = Fraction(0)  # the largest relative error of a coefficient (see `costmodels.rounding`)
    note: str = ""  # what it cannot say
