"""`kvbound solvers` and `kvbound policies`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rich.console import Console

from heuristics import POLICIES
from kvbound.cli.common import JsonOption, emit, table
from kvcore.errors import MissingTool
from solvers.ways import SOLVERS, Solver


def solvers(json: JsonOption = None) -> None:
    """List the solvers: what can run here, its version, its licence's limit, what it can prove."""
    with ThreadPoolExecutor() as pool:
        rows = list(pool.map(_solver, SOLVERS.values()))
    cells = [
        (row["name"], row["version"] or "not here", row["licence"] or row["install"], row["proves"]) for row in rows
    ]
    emit(json, {"rows": rows}, lambda console: console.print(table(("solver", "version", "licence", "proves"), cells)))


def _solver(solver: Solver) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": solver.name, "proves": solver.proves, "install": solver.install}
    try:
        if solver.module:
            solver.try_it()
        return {**facts, "available": True, "version": solver.version(), "licence": solver.licence()}
    except MissingTool as missing:
        return {**facts, "available": False, "version": None, "licence": None, "install": str(missing)}


def policies(json: JsonOption = None) -> None:
    """List the policies: rule, source, and what each knows."""
    rows = [
        {"name": name, "rule": policy.rule, "source": policy.source, "knows": policy.knows}
        for name, policy in POLICIES.items()
    ]
    cells = [(row["name"], row["knows"], row["rule"], row["source"]) for row in rows]

    def show(console: Console) -> None:
        console.print(table(("policy", "knows", "rule", "source"), cells))
        named = "index:r0=SECONDS,group=G, deadline:flow=F,token=T, staggered:B,G, wait:N,COUNT"
        console.print(f"with parameters: random:SEED, {named}")

    emit(json, {"rows": rows}, show)
