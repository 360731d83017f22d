"""Which solvers there are, whether they are here, and what each can prove."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any

from kvcore.errors import MissingTool


@dataclass(frozen=True)
class Solver:
    """A solver: the package that carries it (None: kvbound itself), what it proves, and how to get it."""

    package: str | None
    proves: str
    install: str


SOLVERS: dict[str, Solver] = {
    "search": Solver(None, "optimal, by an exhausted search over states; no horizon, no floating point", ""),
    "lagrange": Solver(None, "optimal, by branch and bound over prices in exact integers; no horizon", ""),
    "repair": Solver(None, "nothing: destroy and repair finds good schedules, where lagrange applies", ""),
    "highs": Solver("highspy", "optimal, by branch and bound in floating point; its dual bound is rounded safely",
                    "pip install highspy"),
    "cp-sat": Solver("ortools", "optimal, by clause learning over integers; no certificate of it",
                     "pip install 'kvbound[cp-sat]'"),
    "gurobi": Solver("gurobipy", "as HiGHS", "pip install 'kvbound[gurobi]'"),
}  # fmt: skip
"""Every solver by the name that `--solver` takes."""


WITHOUT_HORIZON = {
    "search": "the search goes through states, whatever the number of batches",
    "start-time on highs": "some optimal schedule ends within the ticks looked at (docs/start_time.md, Horizon)",
    "arc-flow on repair": "its bound is that of the first prices, and counts ways of any length",
    "arc-flow on lagrange": "the bound counts ways of any length, and what is fixed leaves no way beyond the slots",
}
"""Tasks, by their labels, that look at all schedules, and why."""


def load(name: str, module: str) -> Any:
    """Import the module of a solver; MissingTool says how to install it, or why it cannot be loaded where it is."""
    try:
        return import_module(module)
    except ImportError as error:
        raise missing(name, error) from None


def missing(name: str, error: ImportError) -> MissingTool:
    """Return the error that says how to install a solver, or why it cannot be loaded although it is installed."""
    try:
        version = solver_version(name)
    except MissingTool as missing:
        return missing
    what = SOLVERS[name].package or "kvbound"
    return MissingTool(f"{name} cannot be loaded although {what} {version} is installed: {error}")


def solver_version(name: str) -> str:
    """Return the version of an installed solver (MissingTool if it is not there)."""
    package = (SOLVERS[name].package if name in SOLVERS else None) or "kvbound"
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        raise MissingTool(f"{name} is not installed; install it with: {SOLVERS[name].install}") from None


def solver_licence(name: str) -> str:
    """Say what the licence found here allows (MissingTool if there is none)."""
    licences: dict[str, Callable[[], str]] = {
        "search": lambda: "MIT, no limit",
        "lagrange": lambda: "MIT, no limit",
        "repair": lambda: "MIT, no limit",
        "highs": lambda: "MIT, no limit",
        "cp-sat": lambda: "Apache-2.0, no limit",
    }
    if name in licences:
        return licences[name]()
    from solvers.gurobi import licence

    return licence()
