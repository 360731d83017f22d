"""What a cost model is: the coefficients, the tick that they count, and the machine measured."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from kvcore.cost import Cost
from kvcore.instance import Machine


@dataclass(frozen=True)
class CostModel:
    """How long a batch takes: the coefficients, the tick that they count, the machine measured, what and from where."""

    make: Callable[[], Cost]
    tick: Fraction  # seconds
    machine: Machine | None  # None: the cost is of no machine
    what: str
    source: str
    rounding: Fraction = Fraction(0)  # the largest relative error of a coefficient (see `costmodels.rounding`)
