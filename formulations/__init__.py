"""The problem as models; `make` builds a Pyomo formulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcore.errors import unknown
from kvcore.instance import Instance
from kvcore.metrics import Value

if TYPE_CHECKING:
    from formulations.big_m import BigM

PYOMO = ("batch-bigm", "batch-bigm:plain")
"""INFERMAX's program (its Section 5), extended and tightened; and with the paper's loose constants alone."""


def make(name: str, instance: Instance, objective: str, batches: int, *, upper_bound: Value | None = None) -> BigM:
    """Build the named Pyomo formulation with at most `batches` batches.

    It cuts off no schedule of value at most `upper_bound`, that of a known one. Raises BadInput for an unknown name or
    an unsupported objective.
    """
    from formulations.big_m import BigM
    from formulations.tightening import tighten

    if name not in PYOMO:
        raise unknown("Pyomo formulation", name, PYOMO)
    program = BigM(instance, objective, batches, upper_bound=upper_bound)
    if name == "batch-bigm":
        tighten(program)
    program.write()
    return program
