"""The mathematics of the problem as models. A Pyomo formulation is made by `make`; what solves it is in `solvers/`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvcore.errors import unknown
from kvcore.instance import Instance
from kvcore.metrics import Value

if TYPE_CHECKING:
    from formulations.big_m import BigM

PYOMO = ("batch-bigm", "batch-bigm:plain")
"""Pyomo models: INFERMAX's program (its Section 5) with arrivals, calls and handlings, tightened; and the same with the
paper's loose constants and nothing else, for comparison."""


def make(name: str, instance: Instance, objective: str, batches: int, *, upper_bound: Value | None = None) -> BigM:
    """Build the named Pyomo formulation with at most `batches` batches.

    `upper_bound` is the value of a known schedule: it may tighten the model, and never cuts off a schedule
    that is at least as good. Raises BadInput for an unknown name or an unsupported objective.
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
