"""How fast exact answers are: every formulation on every solver that is here, side by side.

Every row that ends "optimal" asserts the optimum that is known; the others say how far they came in the time limit.
"""

from __future__ import annotations

from typing import Any

import solvers
from benchmarks.record import timed
from kvbound.builtin import builtin_instance
from kvbound.errors import BadInput, MissingTool
from kvbound.instance import Instance

TIME_LIMIT = 10.0
WAYS = (
    ("search", "auto"),
    ("arc-flow", "highs"),
    ("batch-bigm", "highs"),
    ("batch-bigm:plain", "highs"),
    ("cp-sat", "auto"),
    ("batch-bigm", "gurobi"),
    ("batch-bigm:plain", "gurobi"),
)


def cases() -> list[tuple[Instance, str, str]]:
    """Instances with their objective and handling."""
    mars, sample = builtin_instance("mars-figure1"), builtin_instance("infercept-sample:k=4")
    return [
        (mars, "total-flow-time", "as-given"),
        (mars, "total-flow-time", "free"),
        *((builtin_instance(f"infermax-figure15:I={prompt}"), "busy-time", "as-given") for prompt in (1, 4, 32)),
        (sample, "total-flow-time", "as-given"),
        (sample, "total-flow-time", "free"),
    ]


def run() -> list[dict[str, Any]]:
    """Solve every case in every way; the search once more often, since it is the fastest."""
    rows: list[dict[str, Any]] = []
    for instance, objective, handling in cases():
        optimum = None
        for formulation, solver in WAYS:
            row = _measure(instance, objective, handling, formulation, solver)
            if row["status"] == "optimal":
                assert optimum in (None, row["value"]), f"{instance.name}: {row['value']} and {optimum}"
                optimum = row["value"]
            rows.append(row)
    return rows


def _measure(instance: Instance, objective: str, handling: str, formulation: str, solver: str) -> dict[str, Any]:
    way = {"case": instance.name, "objective": objective, "handling": handling, "way": f"{formulation} {solver}"}
    try:
        result, seconds = timed(
            lambda: solvers.solve(
                instance, objective, formulation=formulation, solver=solver, handling=handling, time_limit=TIME_LIMIT
            ),
            3 if formulation == "search" else 1,
        )
    except (BadInput, MissingTool) as error:
        return {**way, "status": "not run", "why": str(error)}
    return {**way, "status": result.status, "value": result.value, "bound": result.bound, "gap": result.gap, **seconds}
