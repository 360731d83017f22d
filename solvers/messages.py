"""A solve's request and its reports; both cross a process boundary."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from bounds.tuning import Options, option
from kvcore.certificates import Certificate
from kvcore.instance import Instance
from kvcore.metrics import Value
from kvcore.result import BoundKind, Horizon, Rung, Size, Stop, answer
from kvcore.schedule import Schedule

NO_TIME_LIMIT = 10.0**9


def optimal(bound: float, value: float) -> Stop:
    """Return "proved" if a solver's bound meets the value of its optimum, up to its tolerance."""
    return Stop.PROVED if bound >= value - 1e-6 * (1 + abs(value)) else Stop.SOLVER_FAILURE


@dataclass(frozen=True)
class SolveOptions(Options):
    """The driver: who runs, when, and for how long."""

    policies: float = option(0.1, "part of the time limit that workers wait for policies, for a start", least=0, most=1)
    referee: float = option(1.0, "part of a policy's time that the referee may take for its schedule", least=0)
    few_joint: int = option(12, "requests up to which the search over batch boundaries may prove something")
    head_start: float = option(0.5, "processor seconds of what proves after which what finds schedules begins", least=0)
    first_turn: float = option(1.0, "seconds of the first turn of a lane's first job; turns double")
    endless: float = option(60.0, "seconds of `improve` and of `bound` in a solve without a time limit")
    certify: float = option(10.0, "seconds for a certificate of a claim, at the least, without a time limit", least=0)

    at_once = 0.4  # processor seconds of quick bounds before any worker; few requests: more
    longest_wait = 5.0  # seconds that workers wait for policies, at the most
    written_out = 50_000  # batches up to which the schedule to start from is written out for workers
    first_share = 0.3  # part of the time limit that a first turn takes, at the most
    grace = 2.0  # seconds that a worker gets beyond its time limit to end by itself


def label(formulation: str, solver: str) -> str:
    """Name a way for people."""
    return formulation if solver in (formulation, "bound") else f"{formulation} on {solver}"


@dataclass(frozen=True)
class Limits:
    """When a solve ends, and the limits of its workers (`solvers.driver.solve`): seconds, values, MiB."""

    time: float = NO_TIME_LIMIT
    """Of the processor, or of work where it is `counted`."""
    counted: bool = False
    certify: float | None = None
    gap: float | None = None
    target: Value | None = None
    memory: int = 8000
    threads: int = 1
    seed: int = 0

    def met(self, value: Value, bound: Value) -> Stop | None:
        """Return why a solve that holds these may end, if it may."""
        if bound >= value:
            return Stop.PROVED
        is_close = self.gap is not None and bound > 0 and value - bound <= Fraction(self.gap) * bound
        return Stop.EARLY if is_close or answer(self.target, value, bound) != "unknown" else None


@dataclass(frozen=True)
class SolveJob:
    """One solve in one worker process.

    `batches` is the horizon (None: the worker computes it), `upper_bound` the value of a known schedule, `start` a
    schedule to start from. `time_limit` is in seconds (of work if `counted`), `memory_limit` in MiB.
    """

    instance: Instance
    objective: str
    formulation: str
    solver: str
    batches: int | None
    upper_bound: Value | None
    start: Schedule | None
    time_limit: float
    memory_limit: int
    threads: int
    seed: int
    beside: tuple[str, ...] = ()
    """Formulations in the same solve, and policies that have run."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of searches set by the user (`solvers.option_names`)."""
    constraints: bytes = b""
    """Functions that add rows to the model, packed by `solvers.constrained`."""
    counted: bool = False
    """Whether work is counted (`bounds.clock`)."""

    @property
    def label(self) -> str:
        """Name it for people."""
        return label(self.formulation, self.solver)

    @property
    def is_limited(self) -> bool:
        """Whether there is a time limit, at least a lane's part of one."""
        return self.time_limit < NO_TIME_LIMIT / 100


@dataclass(frozen=True)
class Found:
    """A schedule was found; nothing is believed before the referee executes it."""

    schedule: Schedule
    claimed: Value | None


@dataclass(frozen=True)
class Bound:
    """No schedule (within the horizon) has a value below this."""

    value: Value
    kind: BoundKind | None = None
    """Its source; None: the formulation's usual one."""
    certificate: Certificate | None = None
    """A certificate of this very value, if there is one."""
    by: str = ""
    """The method of bounding, where the job has several."""


@dataclass(frozen=True)
class Done:
    """The solve ended by itself. `infeasible`: the model has no solution at all."""

    stop: Stop
    infeasible: bool = False


@dataclass(frozen=True)
class Failed:
    """The solve failed: bad input, a missing tool, or a crash (its results are kept)."""

    message: str
    why: Literal["bad input", "missing tool", "crash"] = "crash"


class News:
    """The value of the best schedule found elsewhere, in a worker; None: no news."""

    value: Value | None = None


NEWS = News()

Progress = Callable[[Value | None, Value | None, float], None]
"""Called several times a second with the best value, the best bound, and the seconds so far."""

Message = Horizon | Found | Bound | Rung | Size | Done | Failed
Send = Callable[[Message], None]
