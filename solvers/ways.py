"""The one table of ways: what finds schedules, what proves bounds, or both; a new one is a module and a row."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module, metadata
from typing import Any, Literal

import bounds.task
import kvcore
from kvcore.certificates import (
    Alone,
    Configurations,
    Enumeration,
    Events,
    InOrder,
    InvalidCertificate,
    LateTail,
    LateWindows,
    Pairs,
    Potentials,
    Shares,
    SlotDual,
    Slots,
    Speed,
)
from kvcore.certificates.certificate import HORIZON
from kvcore.errors import BadInput, MissingTool
from kvcore.features import NOTHING, OBJECTIVES, RULES, Feature, Takes
from kvcore.instance import Instance
from kvcore.schedule import Schedule
from solvers.messages import SolveJob, label


@dataclass(frozen=True)
class Solver:
    """A solver: its proofs, its package, how to get that, and what the licence found here allows.

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
    """What finds schedules, or proves bounds: a formulation, and what solves it.

    Where it yields `bounds.task.Proposal`s and schedules (`proposes`), each proof becomes a certificate, and
    `solvers.dual_bound` runs it; a solver of others, which calls back, has a `run(job, send)`.
    """

    formulation: str
    solver: Solver
    proves: Literal["certificate", "solver"] | None
    """What its bounds rest on; None: it finds schedules only."""
    proposes: str = ""
    """The generator of its proofs and schedules, as MODULE:FUNCTION; BadInput at its call says why it declines."""
    finds: bool = True
    """Whether it finds schedules."""
    run: str = "solvers.dual_bound:run"
    """The function that carries out a job in a worker process, as MODULE:FUNCTION."""
    drops: str = ""
    """What its relaxation leaves out, in words."""
    what: str = ""
    """The method in words, where `auto` chooses it to run beside another one."""
    horizon: str = HORIZON
    """Why it looks at all schedules; empty: only at those of a number of batches, which it needs."""
    at_once: bool = False
    """Whether it mostly takes so little time that a solve begins with it, before there is any worker."""
    slows: bool = False
    """Whether its bound rises as long as there is time, ever more slowly: it gets more of it (`LadderOptions`)."""
    plans: bool = False
    """Whether it plans its time, and so is told its share of it, in seconds of the processor."""
    endless: bool = False
    """Whether it ends by its limit alone, so that it needs one."""
    counts: bool = True
    """Whether its work can be counted."""
    takes: Takes = NOTHING
    """Features it is proved with."""

    @property
    def label(self) -> str:
        """Name it for people: the formulation, and its solver if that says more."""
        return label(self.formulation, self.solver.name)

    def runner(self) -> Callable[..., Any]:
        """Load the function that carries out a job: of a `solvers.messages.SolveJob` and what sends its messages."""
        return _loaded(self.run)

    def proposals(self, task: bounds.task.Task) -> Iterator[bounds.task.Proposal | Schedule]:
        """Return its proofs and schedules; BadInput or InvalidCertificate says why it declines."""
        if reason := self.takes.why_not(self.formulation, task.instance, task.objective):
            raise BadInput(reason)
        found: Iterator[bounds.task.Proposal | Schedule] = _loaded(self.proposes)(task)
        return found

    def declines(self, instance: Instance, objective: str) -> str | None:
        """Say why an instance and an objective are not for it; it may decline more once it runs."""
        if not self.proposes:
            return self.takes.why_not(self.formulation, instance, objective)
        try:
            self.proposals(bounds.task.Task(instance, objective, finds=True))
        except (BadInput, InvalidCertificate) as reason:
            return str(reason)
        return None


def _loaded(function: str) -> Callable[..., Any]:
    """Load a function only when it is called for: compilers and solvers take a while."""
    module, _, name = function.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


# fmt: off
_HIGHS = Solver("highs", "claims optima, by branch and bound in floating point; its dual bound is rounded safely",
                "highspy", "pip install highspy", module="highspy")
_GUROBI = Solver("gurobi", "as HiGHS", "gurobipy", "pip install 'kvbound[gurobi]'",
                 lambda: import_module("solvers.gurobi").licence(), "gurobipy")
_CP_SAT = Solver("cp-sat", "claims optima, by clause learning over integers; no certificate of it", "ortools",
                 "pip install 'kvbound[cp-sat]'", lambda: "Apache-2.0, no limit", "ortools.sat.python.cp_model")
_BOUND = Solver("bound", "lower bounds, each with a certificate")
_relaxation = partial(Way, solver=_BOUND, proves="certificate", finds=False)

EVENTS = Way("events", Solver("events", "optimal, by a search over batch boundaries that the checker runs again"),
             "certificate", "bounds.events:propose_events", takes=Events.takes,
             drops="nothing, but schedules are looked at only as far as the time allows",
             what="the search over batch boundaries",
             horizon="the search goes through states, whatever the number of batches")
ENUMERATION = Way("enumeration", Solver("enumeration", "optimal, by an enumeration that the checker runs again"),
                  "certificate", "bounds.enumeration:propose_enumeration", takes=Enumeration.takes,
                  drops="nothing, but states are looked at only as far as the time allows",
                  what="the enumeration of states",
                  horizon="the search goes through states, whatever the number of batches")
SLOTS = Way("slots", Solver("slots", "optimal, by a search over slots that the checker runs again"),
            "certificate", "bounds.slot_solver:propose_slots", takes=Slots.takes, slows=True,
            what="the search over slots",
            drops="nothing: all batches of one tick are searched, as far as prices do not exclude them")
CONFIGURATIONS = Way("configurations",
                     Solver("configurations", "optimal, by a search over starts that the checker runs again"),
                     "certificate", "bounds.configurations:propose_configurations", takes=Configurations.takes,
                     slows=True, plans=True,
                     drops="that each request runs once, and how small ones pack",
                     what="the search over what can run together")
SLOT_DUAL = _relaxation("slot-dual", proposes="bounds.slot_dual:propose_dual", takes=SlotDual.takes, plans=True,
                        what="prices of slots", drops="that a request goes one way, not a mixture of several")
CERTIFYING = (
    _relaxation("alone", proposes="bounds.task:propose_alone", takes=Alone.takes, at_once=True,
                drops="all that requests share"),
    _relaxation("shares", proposes="bounds.shares:propose_shares", takes=Shares.takes, at_once=True,
                drops="that a batch holds whole requests: each has a share of the time of its batches"),
    _relaxation("late-windows", proposes="bounds.late_windows:propose_late_windows", takes=LateWindows.takes,
                drops="the order of work in spans of time: no more of it is on time than fits"),
    _relaxation("late-tail", proposes="bounds.tails:propose_tails", takes=LateTail.takes, finds=True,
                drops="what late requests drop: more than a percentile leaves out take so long"),
    _relaxation("in-order", proposes="bounds.in_order:propose_in_order", takes=InOrder.takes,
                drops="that a batch holds whole requests: tokens of a request in order have prices, by the slot"),
    _relaxation("potentials", proposes="bounds.potentials:propose_potentials", takes=Potentials.takes, finds=True,
                at_once=True,
                drops="where KV is, but for what it took in time to get it there: any order of batches"),
    _relaxation("pairs", proposes="bounds.task:propose_pairs", takes=Pairs.takes,
                drops="all but two requests at a time, and what is processed again"),
    EVENTS,
    ENUMERATION,
    SLOT_DUAL,
    SLOTS,
    CONFIGURATIONS,
    _relaxation("speed", proposes="bounds.speed:propose_speed", takes=Speed.takes, slows=True, plans=True,
                drops="that a batch holds whole requests; a fast batch pays more for its work"),
)
"""Those whose proofs a checker recomputes: that end by themselves, the cheapest first, then that use all time left."""
BOUND = _relaxation("bound", takes=Alone.takes, plans=True, endless=True, what="the ladder of bounds")
"""All of them, one after another."""
IMPROVE = Way("improve", Solver("improve", "nothing: policies with other parameters and priorities find schedules"),
              None, run="solvers.improve:run",
              takes=Takes(RULES | OBJECTIVES | {Feature.PERCENTILE, Feature.SHARED, Feature.DROP_AND_WORK}),
              plans=True, endless=True, what="the search among policies", horizon="it proves nothing")
MODELS = [Way(of, by, "solver", run="solvers.milp:run", horizon="", takes=Takes(RULES | OBJECTIVES | {Feature.SHARED}),
              counts=by is _GUROBI)
          for of in ("batch-bigm", "batch-bigm:plain") for by in (_HIGHS, _GUROBI)]
CP_SAT = Way("cp-sat", _CP_SAT, "solver", run="solvers.cp_sat:run", horizon="",
             takes=Takes(RULES | OBJECTIVES | {Feature.SHARED}))

WAYS = {(way.formulation, way.solver.name): way for way in
        (BOUND, *CERTIFYING, IMPROVE, *MODELS, CP_SAT)}
# fmt: on
"""Every way, by the names that `--formulation` and `--solver` take; the first of a formulation, or of a solver, is what
either of them alone stands for."""


def way_of(job: SolveJob) -> Way:
    """Return the way of a job."""
    return WAYS[job.formulation, job.solver]


SOLVERS = {way.solver.name: way.solver for way in WAYS.values()}
"""Every solver, by its name."""
