"""`kvbound solvers`, `kvbound options` and `kvbound policies`."""

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import typer
from rich.console import Console

from heuristics import POLICIES, SHARING, get_policy
from heuristics.engine.policy import Policy
from heuristics.registry import SET
from kvbound.cli.common import JsonOption, emit, table
from kvcore.errors import MissingTool
from kvcore.instance import LIMIT
from solvers.option_names import rows_of_options
from solvers.ways import SOLVERS, Solver


def solvers(json: JsonOption = None) -> None:
    """List the solvers: what can run here, its version, its licence's limit, its proofs."""
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


def options(
    group: Annotated[str | None, typer.Argument(help="only those of one search", show_default=False)] = None,
    json: JsonOption = None,
) -> None:
    """List the options that steer the searches, which `--option` sets: default, effect, and which values they take."""
    columns, cells = ("option", "default", "effect", "value"), list(rows_of_options(group))
    rows = [dict(zip(columns, row, strict=True)) for row in cells]
    emit(json, {"rows": rows}, lambda console: console.print(table(columns, cells)))


def policies(
    name: Annotated[str | None, typer.Argument(help="show its settings, too", show_default=False)] = None,
    json: JsonOption = None,
) -> None:
    """List the policies: rule, source, and what each knows; or one, with the settings that its name may give."""
    if name is not None:
        _policy(get_policy(name), json)
        return
    rows = [
        {"name": name, "rule": policy.rule, "source": policy.source, "knows": policy.knows}
        for name, policy in (POLICIES | SHARING).items()
    ]
    cells = [(row["name"], row["knows"], row["rule"], row["source"]) for row in rows]

    def show(console: Console) -> None:
        console.print(table(("policy", "knows", "rule", "source"), cells))
        console.print(
            f"with numbers, as in index:r0=0.5,group=1 (`kvbound policies NAME` lists them): {', '.join(SET)}"
        )

    emit(json, {"rows": rows}, show)


def _policy(policy: Policy, json: str | None) -> None:
    facts = {"name": policy.name, "rule": policy.rule, "source": policy.source, "knows": policy.knows}
    settings = [
        {"setting": key, "value": getattr(policy, key), "does": setting.does}
        for key, setting in policy.settings.items()
    ]

    def show(console: Console) -> None:
        for key, words in facts.items():
            console.print(f"{key}: {words}")
        if settings:
            cells = [
                (row["setting"], "none" if row["value"] in (None, LIMIT) else f"{row['value']}", row["does"])
                for row in settings
            ]
            console.print(table(("setting", "value", "what it sets"), cells))
            console.print(f"given as {policy.name.partition(':')[0]}:KEY=NUMBER,..")

    emit(json, {**facts, "settings": settings}, show)
