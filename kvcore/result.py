"""Results of solving, bounding or simulating, with separate axes (`docs/formats.md` for the JSON)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, asdict, dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from kvcore.certificates import Certificate, recompute
from kvcore.contradiction import contradiction
from kvcore.instance import Instance
from kvcore.metrics import AVERAGES, SUMS, Value, completions, handlings, objective_value
from kvcore.referee import verify_schedule
from kvcore.schedule import Schedule
from kvcore.trace import Trace

Status = Literal["optimal", "claimed", "feasible", "bound-only", "infeasible", "unknown"]
BoundKind = Literal["certificate", "solver", "search"]
"""Whose word a bound is, best first: the checker's, a solver's, or kvbound's own search's."""


@dataclass(frozen=True)
class Horizon:
    """The batches of a model or search, and whether and why they are proved to be enough."""

    batches: int
    sufficient: bool
    why: str


@dataclass(frozen=True)
class SolverInfo:
    """What computed it."""

    name: str
    version: str
    threads: int | None = None
    seed: int | None = None


class Stop(StrEnum):
    """Why it stopped. `TIME_LIMIT`: of the processor; `EARLY`: a `gap` or a `target` was decided."""

    UNSAID = ""
    PROVED = "proved"
    TIME_LIMIT = "time limit"
    CLOCK_LIMIT = "limit of the clock"
    WORK_LIMIT = "work limit"
    MEMORY_LIMIT = "memory limit"
    SEARCH_LIMIT = "limit of the search"
    ROUNDS = "rounds"
    INTERRUPTED = "interrupted"
    EARLY = "stopped early"
    SOLVER_FAILURE = "solver failure"
    DECLINED = "no way to solve takes it"
    ENDED = "ended"
    GIVEN = "given"

    __repr__ = str.__repr__


@dataclass(frozen=True)
class Rung:
    """What one method proved in how many seconds, what its relaxation drops, and the argument."""

    method: str
    seconds: float = 0.0
    bound: Value | None = None
    drops: str = ""
    why: str = ""
    why_not: str = ""
    """What prevented or ended a bound."""
    certificate: Certificate | None = field(default=None, repr=False)
    more: float = 0.0
    """Seconds that its first proof needs beyond those left."""

    def row(self, objective: str) -> dict[str, Any]:
        """Return the JSON row."""
        why = self.why or self.why_not or "it ended before its first proof"
        return {"method": self.method, "bound": number(self.bound, objective), "seconds": round(self.seconds, 3),
                "drops": self.drops, "why": why}  # fmt: skip


class LogEntry(NamedTuple):
    """A better value or bound: seconds, and source."""

    seconds: float
    what: Literal["value", "bound"]
    value: Value
    by: str

    def row(self, objective: str) -> dict[str, Any]:
        """Return the JSON row."""
        return {"seconds": round(self.seconds, 3), self.what: number(self.value, objective), "by": self.by}


@dataclass(frozen=True)
class Size:
    """The size of a model."""

    rows: int
    columns: int
    nonzeros: int


@dataclass(frozen=True)
class Start:
    """The schedule to start from: its policy, if any, and value (None: no time for one)."""

    policy: str | None
    value: Value | None = None


@dataclass
class Result:
    """A schedule or none, its exact value, a lower bound or none, and where each comes from.

    The referee computes `value` and `completion` here; every schedule passes it, and every certificate the checker.
    `claimed` is the solver's value; `verified` needs the two to be equal. `infeasible` means proved: no schedule exists
    (or none as asked, see `stopped`).

    Raises:
        InvalidSchedule, InvalidCertificate: the referee or the checker refuses what is given.
        Contradiction: a bound is above the value.
    """

    instance: Instance
    objective: str
    schedule: Schedule | None = None
    claimed: Value | None = None
    bound: Value | None = None
    bound_kind: BoundKind | None = None
    certificate: Certificate | None = None
    """The best certificate; `bound` may be better, on the word of `bound_kind`."""
    found_by: str | None = None
    """A way or policy."""
    proved_by: str | None = None
    """A way, or method of `bounds`."""
    horizon: Horizon | None = None
    formulation: str | None = None
    solver: SolverInfo | None = None
    policy: str | None = None
    seconds: float = 0.0
    """Of the processor, of the command or its busiest worker."""
    clock_seconds: float = 0.0
    stopped: Stop = Stop.UNSAID
    infeasible: bool = False
    chosen: str = ""
    """Why these ways."""
    log: Sequence[LogEntry] | None = None
    ladder: Sequence[Rung] | None = None
    certifying_seconds: float | None = None
    """Of `seconds`, for the certificate of a claim."""
    target: Value | None = None
    """The value asked for: see `answer`."""
    models: Mapping[str, Size] = field(default_factory=dict)
    """Size of each model built, by formulation."""
    constraints: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    start: Start | None = None
    """Of `improve`, with its rounds."""
    rounds: int | None = None
    rejected: Sequence[str] = ()
    """Why the referee or the checker refused workers' results."""
    failed: Sequence[str] = ()
    """Errors of ways and policies."""
    machine_checked: bool = False
    """Whether the checker proved in Coq accepted `certificate` (docs/verified.md)."""
    executed: InitVar[Trace | None] = None
    """The referee's trace; it executes the schedule where none is given."""
    trace: Trace | None = field(init=False, default=None)
    value: Value | None = field(init=False, default=None)

    def __post_init__(self, executed: Trace | None) -> None:
        if executed is not None and (executed.instance is not self.instance or executed.schedule is not self.schedule):
            raise ValueError("the trace is of another schedule")
        if self.schedule is not None:
            self.trace = executed or verify_schedule(self.instance, self.schedule)
            self.value = objective_value(self.trace, self.objective)
        if self.certificate is not None:
            recompute(self.instance, self.objective, self.certificate)
        self.refuse(self.schedule, self.value, self.found_by)

    def refuse(self, schedule: Schedule | None, value: Value | None, found_by: str | None) -> None:
        """Raise Contradiction if a value that the referee passed is below the bound."""
        bound = self.bound_of_all
        if schedule is None or value is None or bound is None or value >= bound:
            return
        claim: dict[str, Any] = {"bound": str(bound), "kind": self.bound_kind, "proved_by": self.proved_by}
        certified = self.certificate if self.certified_bound == bound else None
        raise contradiction(
            f"{self.objective} of {self.instance.name}: a schedule ({found_by}) has {value}, and {self.proved_by} "
            f"{'claims' if certified is None else 'certifies'} that none is below {bound}",
            instance=self.instance, schedule=schedule, bound=certified or claim,
        )  # fmt: skip

    def __repr__(self) -> str:
        known = [self.standing] if self.value is None else [self.standing, f"value {self.value}"]
        known += [] if self.bound is None else [f"bound {self.bound} ({self.bound_kind})"]
        by = self.policy or " on ".join(filter(None, [self.formulation, self.solver.name if self.solver else None]))
        under = f", under {', '.join(self.constraints)}" if self.constraints else ""
        return f"Result({self.instance.name!r}, {self.objective}{under}: {', '.join(known)}; by {by}, {self.stopped})"

    @property
    def verified(self) -> bool:
        """Whether a schedule passed the referee at its claimed value."""
        return self.value is not None and (self.claimed is None or self.claimed == self.value)

    @property
    def certified_bound(self) -> Value | None:
        """The bound of the certificate, which the checker recomputed."""
        return None if self.certificate is None else self.certificate.value

    @property
    def bound_of_all(self) -> Value | None:
        """The best bound for any number of batches, or None."""
        sufficient = self.horizon is not None and self.horizon.sufficient
        return self.bound if sufficient else self.certified_bound

    @property
    def status(self) -> Status:
        """Return "optimal" if a certificate meets the value of a verified schedule, "claimed" if only a word does."""
        if self.infeasible:
            return "infeasible"
        if self.value is None:
            return "unknown" if self.bound is None else "bound-only"
        if not self.verified or self.value != self.bound_of_all:
            return "feasible"
        return "optimal" if self.value == self.certified_bound else "claimed"

    @property
    def standing(self) -> str:
        """The status in words, with whose claim it is."""
        return f"claimed by {self.proved_by}" if self.status == "claimed" else self.status

    @property
    def gap(self) -> float | None:
        """Return (value - bound) / bound; 0 if equal, None without a positive bound."""
        if self.value is None or self.bound is None:
            return None
        if self.value == self.bound:
            return 0.0
        return float(Fraction(self.value - self.bound) / Fraction(self.bound)) if self.bound > 0 else None

    @property
    def answer(self) -> Literal["yes", "no", "unknown"]:
        """Whether a schedule of at most `target` exists."""
        return answer(self.target, self.value, self.bound_of_all)

    def to_json(self) -> dict[str, Any]:
        """Return the interface's JSON-ready row."""
        mean = None
        if self.value is not None and self.objective in SUMS:
            mean = str(Fraction(self.value) / len(self.instance.requests))
        return {
            "instance": self.instance.name,
            "instance_sha256": self.instance.sha256,
            "objective": self.objective,
            "tick_seconds": str(self.instance.tick_seconds),
            "status": self.status,
            "value": number(self.value, self.objective),
            "mean": mean,
            "bound": number(self.bound, self.objective),
            "gap": self.gap,
            "bound_kind": self.bound_kind,
            "certified_bound": number(self.certified_bound, self.objective),
            "found_by": self.found_by,
            "proved_by": self.proved_by,
            "horizon": None if self.horizon is None else asdict(self.horizon),
            "verified": self.verified,
            "formulation": self.formulation,
            "solver": None if self.solver is None else asdict(self.solver),
            "policy": self.policy,
            "seconds": round(self.seconds, 3),
            "clock_seconds": round(self.clock_seconds, 3),
            "stopped": self.stopped,
            "handling": {} if self.trace is None else handlings(self.trace),
            "completion": {} if self.trace is None else completions(self.trace),
            **self._said(),
        }

    def _said(self) -> dict[str, Any]:
        asked = None if self.target is None else {"target": str(self.target), "answer": self.answer}
        start = self.start and {"policy": self.start.policy, "value": number(self.start.value, self.objective)}
        rows = {
            "machine_checked": self.machine_checked or None,
            "chosen": self.chosen or None,
            "log": None if self.log is None else [entry.row(self.objective) for entry in self.log],
            "certifying_seconds": self.certifying_seconds,
            "ladder": None if self.ladder is None else [rung.row(self.objective) for rung in self.ladder],
            "better_than": asked,
            "model": {name: asdict(size) for name, size in self.models.items()} or None,
            "constraints": list(self.constraints) or None,
            "options": self.options or None,
            "start": start,
            "rounds": self.rounds,
            "rejected": list(self.rejected) or None,
            "failed": list(self.failed) or None,
        }
        return {key: row for key, row in rows.items() if row is not None}


def answer(target: Value | None, value: Value | None, bound: Value | None) -> Literal["yes", "no", "unknown"]:
    """Return whether a schedule of at most `target` exists, by a value and a bound for all."""
    if target is not None and value is not None and value <= target:
        return "yes"
    return "no" if target is not None and bound is not None and bound > target else "unknown"


def number(value: Value | None, objective: str) -> int | str | None:
    """Return a value for JSON: a whole number, or a fraction in text."""
    if value is None:
        return None
    return str(Fraction(value)) if objective in AVERAGES else int(value)
