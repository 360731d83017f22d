"""How fast exact answers are: small cases in every way side by side, then larger ones by `auto` and the plain Big-M.

Two rows of one case that end "optimal" must agree; the others say how far they came in the time limit. The theory
family, like requests, and real slices have benchmarks of their own (`start_time`, `identical`, `slices`).
"""

from __future__ import annotations

from typing import Any

import solvers
from benchmarks.record import timed
from kvcore.errors import BadInput, MissingTool
from kvcore.instance import Instance
from workloads.builtin import builtin_instance

TIME_LIMIT = 10.0
LONG = 60.0
"""Seconds for a small case, and for a larger one by `auto`."""
WAYS = (
    ("search", "auto"),
    ("arc-flow", "highs"),
    ("batch-bigm", "highs"),
    ("batch-bigm:plain", "highs"),
    ("cp-sat", "auto"),
    ("batch-bigm", "gurobi"),
    ("batch-bigm:plain", "gurobi"),
)


LARGER = (
    *((f"infermax-figure15:I={2**k}", "busy-time") for k in range(11)),
    ("identical:n=16", "busy-time"),
    ("identical:n=64,M=512", "busy-time"),
    *((f"mars-like:n=10,seed={seed}", "total-flow-time") for seed in range(3)),
    ("hindsight:n=14,M=30,seed=14", "total-flow-time"),
    *((f"hindsight:n=30,M=120,P=30,seed={seed}", "total-flow-time") for seed in range(3)),
)
"""Instances and objectives."""


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
            row = _measure(instance, objective, handling, formulation, solver, TIME_LIMIT)
            if row["status"] == "optimal":
                assert optimum in (None, row["value"]), f"{instance.name}: {row['value']} and {optimum}"
                optimum = row["value"]
            rows.append(row)
    return rows + larger()


def larger() -> list[dict[str, Any]]:
    """Solve the larger cases by `auto`, and shortly by the plain Big-M on HiGHS."""
    rows = []
    for name, objective in LARGER:
        instance = builtin_instance(name)
        rows.append(_measure(instance, objective, "as-given", "auto", "auto", LONG))
        rows.append(_measure(instance, objective, "as-given", "batch-bigm:plain", "highs", TIME_LIMIT))
    return rows


def _measure(
    instance: Instance, objective: str, handling: str, formulation: str, solver: str, limit: float
) -> dict[str, Any]:
    way = {"case": instance.name, "objective": objective, "handling": handling, "way": f"{formulation} {solver}"}
    try:
        result, seconds = timed(
            lambda: solvers.solve(
                instance, objective, formulation=formulation, solver=solver, handling=handling, time_limit=limit
            ),
            3 if formulation == "search" else 1,
        )
    except (BadInput, MissingTool) as error:
        return {**way, "status": "not run", "why": str(error)}
    return {**way, "status": result.status, "value": result.value, "bound": result.bound, "gap": result.gap, **seconds}
