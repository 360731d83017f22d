"""The ways to solve an instance, a record each. A new one is a module with `run(task, send)` and a line in `WAYS`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any

import kvcore
from kvcore.certificates.budget import InvalidCertificate
from kvcore.certificates.certificate import HORIZON
from kvcore.errors import MissingTool
from kvcore.instance import Instance
from kvcore.metrics import tail_of
from kvcore.rigid import why_not_rigid
from solvers.task import Task, label


@dataclass(frozen=True)
class Solver:
    """A solver: what it proves, the package that carries it, how to get that, and what the licence found here allows.

    `licence` raises MissingTool if there is none. `module` is what is imported to use it, if anything.
    """

    name: str
    proves: str
    package: str = "kvbound"
    install: str = ""
    licence: Callable[[], str] = lambda: "MIT, no limit"
    module: str = ""

    def version(self) -> str:
        """Return the version that is installed (MissingTool if it is not there)."""
        if self.package == "kvbound":  # it runs, so it is there; from a checkout it may not be installed
            return kvcore.__version__
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            raise MissingTool(f"{self.name} is not installed; install it with: {self.install}") from None

    def load(self, module: str) -> Any:
        """Import its module; MissingTool says how to install it, or why it cannot be loaded where it is."""
        try:
            return import_module(module)
        except ImportError as error:
            raise self.missing(error) from None

    def try_it(self) -> None:
        """Raise MissingTool if it cannot be loaded. It is tried in a process of its own: not all go into one."""
        command = [sys.executable, "-c", f"import {self.module}"]
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
        if tried.returncode:
            lines = tried.stderr.strip().splitlines()
            raise self.missing(lines[-1] if lines else f"its process ended with code {tried.returncode}")

    def missing(self, error: object) -> MissingTool:
        """Return the error that says how to install it, or why it cannot be loaded although it is installed."""
        try:
            installed = f"{self.package} {self.version()}"
        except MissingTool as missing:
            return missing
        return MissingTool(f"{self.name} cannot be loaded although {installed} is installed: {error}")


@dataclass(frozen=True)
class Way:
    """A formulation and what solves it."""

    formulation: str
    solver: Solver
    run: str
    """The function that carries out a task in a worker process, as MODULE:FUNCTION."""
    horizon: str = ""
    """Why it looks at all schedules; otherwise only at those of a number of batches, which it needs."""
    proves: bool = True
    """Whether it proves bounds; all but one of those that do find schedules, too."""
    plans: bool = False
    """Whether it plans its time, and so is told its share of it, in seconds of the processor."""
    rests: bool = True
    """Whether it may be stopped for a while under a time limit; not where HiGHS looks at the clock."""
    endless: bool = False
    """Whether it ends by its limit alone, so that it needs one."""
    exact: bool = False
    """Whether its bounds are exact integers of kvbound's own."""
    what: str = ""
    """The method in words, where `auto` chooses it to run beside another one."""
    declines: Callable[[Instance, str], str | None] = lambda instance, objective: None
    """Says why an instance and an objective are not for it; it may decline more once it runs."""
    tails: bool = False
    """Whether it takes percentiles."""

    @property
    def label(self) -> str:
        """Name it for people: the formulation, and its solver if that says more."""
        return label(self.formulation, self.solver.name)

    def why_not(self, instance: Instance, objective: str) -> str | None:
        """Say why an instance and an objective are not for it; it may decline more once it runs."""
        if tail_of(objective) is not None and not self.tails:
            return f"{self.formulation} does not take {objective}: improve and bound do"
        return self.declines(instance, objective)

    def runner(self) -> Callable[..., Any]:
        """Load the function that carries out a task: of a `solvers.task.Task` and what sends its messages."""
        module, _, name = self.run.partition(":")
        found: Callable[..., Any] = getattr(import_module(module), name)
        return found


def _not_rigid(instance: Instance, objective: str) -> str | None:
    reason = why_not_rigid(instance, objective)
    return reason and f"starts of requests that run from start to end: {reason}; try --formulation events"


def _not_for_flow(instance: Instance, objective: str) -> str | None:
    from solvers.slot_flow.scope import why_not  # only now: it loads a compiler

    reason = why_not(instance, objective)
    return reason and f"arc-flow {reason}; use slots, events or batch-bigm"


def _not_for_slots(instance: Instance, objective: str) -> str | None:
    from bounds.slot_solver import declines  # only now: it loads a compiler

    reason = declines(instance, objective)
    return reason and f"slots {reason}"


def _not_for_counts(instance: Instance, objective: str) -> str | None:
    from solvers.counts.solve import declines

    return declines(instance, objective)


def _not_for_events(instance: Instance, objective: str) -> str | None:
    from kvcore.certificates.events import check_size  # only now: it loads a compiler

    try:
        check_size(instance)
    except InvalidCertificate as error:
        return str(error)
    return None


# fmt: off
_HIGHS = Solver("highs", "claims optima, by branch and bound in floating point; its dual bound is rounded safely",
                "highspy", "pip install highspy", module="highspy")
_GUROBI = Solver("gurobi", "as HiGHS", "gurobipy", "pip install 'kvbound[gurobi]'",
                 lambda: import_module("solvers.gurobi").licence(), "gurobipy")
_CP_SAT = Solver("cp-sat", "claims optima, by clause learning over integers; no certificate of it", "ortools",
                 "pip install 'kvbound[cp-sat]'", lambda: "Apache-2.0, no limit", "ortools.sat.python.cp_model")

SLOTS = Way("slots", Solver("slots", "optimal, by a search over slots that the checker runs again"),
            "solvers.exact:run", HORIZON,
            exact=True, what="the search over slots", declines=_not_for_slots)
EVENTS = Way("events", Solver("events", "optimal, by a search over batch boundaries that the checker runs again"),
             "solvers.exact:run", "the search goes through states, whatever the number of batches",
             exact=True, what="the search over batch boundaries", declines=_not_for_events)
COUNTS = Way("counts", Solver("counts", "claims optima, by a search over counts of like requests; no floating point"),
             "solvers.counts.solve:run", "the search looks at every number of batches",
             exact=True, what="the search over counts", declines=_not_for_counts)
CONFIGURATIONS = Way("configurations",
                     Solver("configurations", "optimal, by a search over starts that the checker runs again"),
                     "solvers.exact:run", HORIZON,
                     exact=True, what="the search over what can run together", declines=_not_rigid)
START_TIME = Way("start-time", _HIGHS, "solvers.start_time:run",
                 what="the program of start times", plans=True, rests=False,
                 horizon="some optimal schedule ends within the ticks looked at (docs/start_time.md, Horizon)",
                 declines=_not_rigid)
MODELS = [Way(of, by, "solvers.milp:run")
          for of in ("batch-bigm", "batch-bigm:plain") for by in (_HIGHS, _GUROBI)]
CP_SAT = Way("cp-sat", _CP_SAT, "solvers.cp_sat:run")
SLOT_FLOW = Way("arc-flow", _CP_SAT, "solvers.slot_flow.solve:run",
              "every schedule below the best value known is a flow over the ticks looked at",
              declines=_not_for_flow)

IMPROVE = Way("improve", Solver("improve", "nothing: policies with other parameters and priorities find schedules"),
              "solvers.improve:run", "it proves nothing", proves=False,
              plans=True, endless=True, exact=True, tails=True, what="the search among policies")
LADDER = Way("bound", Solver("bound", "lower bounds, each with a certificate"),
             "solvers.dual_bound:run", HORIZON, plans=True, endless=True, exact=True, tails=True,
             what="the ladder of bounds")

EVERY = (SLOTS, EVENTS, COUNTS, IMPROVE, LADDER, *MODELS, CONFIGURATIONS, START_TIME, CP_SAT, SLOT_FLOW)
WAYS = {(way.formulation, way.solver.name): way for way in EVERY}
# fmt: on
"""Every way, by the names that `--formulation` and `--solver` take; the first of a formulation, or of a solver, is what
either of them alone stands for."""


def way_of(task: Task) -> Way:
    """Return the way of a task."""
    return WAYS[task.formulation, task.solver]


SOLVERS = {way.solver.name: way.solver for way in WAYS.values()}
"""Every solver, by its name."""
