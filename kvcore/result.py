"""What solving, bounding or simulating gives, with its axes kept apart (see `docs/formats.md` for the JSON)."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from kvcore.certificates import Certificate
from kvcore.instance import Instance
from kvcore.metrics import SUMS, Value, completions, handlings, objective_value
from kvcore.referee import verify_schedule
from kvcore.schedule import Schedule
from kvcore.trace import Trace

Status = Literal["optimal", "feasible", "bound-only", "infeasible", "unknown"]
BoundKind = Literal["solver", "certificate", "exhaustive"]


@dataclass(frozen=True)
class Horizon:
    """How many batches a model or search looks at, and whether that is proved to be enough, with the argument."""

    batches: int
    sufficient: bool
    why: str

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of the interface."""
        return {"batches": self.batches, "sufficient": self.sufficient, "why": self.why}


@dataclass(frozen=True)
class SolverInfo:
    """What computed it."""

    name: str
    version: str
    threads: int | None = None
    seed: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of the interface."""
        return {"name": self.name, "version": self.version, "threads": self.threads, "seed": self.seed}


DECLINED = "no way to solve takes it"
"""Why a solve stopped of which every worker declined the instance; what each said is under `failed`."""


@dataclass
class Result:
    """A schedule or none, its exact value, a lower bound or none, and where each comes from.

    `value` and `completion` are the referee's, computed here from the schedule; a `Result` with a schedule cannot be
    made without the referee passing it. `claimed` is what the solver said; `verified` needs the two to be equal.
    `infeasible` means proved: no schedule exists at all (or none that satisfies what was asked, see `stopped`).
    """

    instance: Instance
    objective: str
    schedule: Schedule | None = None
    claimed: Value | None = None
    bound: Value | None = None
    bound_kind: BoundKind | None = None
    certificate: Certificate | None = None
    """The best certificate that came up; `bound` may be better, on the word of `bound_kind`."""
    horizon: Horizon | None = None
    formulation: str | None = None
    solver: SolverInfo | None = None
    policy: str | None = None
    seconds: float = 0.0
    stopped: str = ""
    """Why it stopped, in words: "proved", "time limit", "interrupted", "memory limit", .."""
    infeasible: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
    trace: Trace | None = field(init=False, default=None)
    value: Value | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.schedule is not None:
            self.trace = verify_schedule(self.instance, self.schedule)
            self.value = objective_value(self.trace, self.objective)

    def __repr__(self) -> str:
        """Return what is known, from what, and how it was found."""
        known = [self.status] if self.value is None else [self.status, f"value {self.value}"]
        known += [] if self.bound is None else [f"bound {self.bound} ({self.bound_kind})"]
        by = self.policy or " on ".join(filter(None, [self.formulation, self.solver.name if self.solver else None]))
        under = f", under {', '.join(self.extra['constraints'])}" if "constraints" in self.extra else ""
        return f"Result({self.instance.name!r}, {self.objective}{under}: {', '.join(known)}; by {by}, {self.stopped})"

    @property
    def verified(self) -> bool:
        """Whether a schedule is held that passed the referee with the value that was claimed for it."""
        return self.value is not None and (self.claimed is None or self.claimed == self.value)

    @property
    def status(self) -> Status:
        """Return "optimal" only if value = bound, the horizon is sufficient and the schedule is verified."""
        if self.infeasible:
            return "infeasible"
        if self.value is None:
            return "unknown" if self.bound is None else "bound-only"
        proved = self.bound == self.value and self.verified and self.horizon is not None and self.horizon.sufficient
        return "optimal" if proved else "feasible"

    @property
    def gap(self) -> float | None:
        """Return (value - bound) / bound; 0 if equal, None without a positive bound."""
        if self.value is None or self.bound is None:
            return None
        if self.value == self.bound:
            return 0.0
        return float(Fraction(self.value - self.bound) / Fraction(self.bound)) if self.bound > 0 else None

    def to_json(self) -> dict[str, Any]:
        """Return the row of the interface, JSON-ready."""
        mean = None
        if self.value is not None and self.objective in SUMS:
            mean = str(Fraction(self.value) / len(self.instance.requests))
        return {
            "instance": self.instance.name,
            "instance_sha256": self.instance.sha256,
            "objective": self.objective,
            "tick_seconds": str(self.instance.tick_seconds),
            "status": self.status,
            "value": _number(self.value, self.objective),
            "mean": mean,
            "bound": _number(self.bound, self.objective),
            "gap": self.gap,
            "bound_kind": self.bound_kind,
            "horizon": None if self.horizon is None else self.horizon.to_json(),
            "verified": self.verified,
            "formulation": self.formulation,
            "solver": None if self.solver is None else self.solver.to_json(),
            "policy": self.policy,
            "seconds": round(self.seconds, 3),
            "stopped": self.stopped,
            "handling": {} if self.trace is None else handlings(self.trace),
            "completion": {} if self.trace is None else completions(self.trace),
            **self.extra,
        }


def _number(value: Value | None, objective: str) -> int | str | None:
    if value is None:
        return None
    return str(Fraction(value)) if objective == "normalized-latency" else int(value)
