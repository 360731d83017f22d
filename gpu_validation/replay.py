"""What was predicted of schedules beside what was measured: errors, the ranking, and the gain of the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpu_validation.measure import in_turns
from gpu_validation.plan import make_plan
from gpu_validation.retime import retimed
from kvcore.cost import Cost
from kvcore.metrics import objective_value
from kvcore.trace import Trace

if TYPE_CHECKING:
    from gpu_validation.engine import Engine, ReplayResult

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Replayed:
    """A schedule, what its batches were predicted to last, and what they lasted."""

    name: str
    trace: Trace
    predicted: Sequence[float | Fraction]
    """Seconds [batches]."""
    rounds: Floats
    """Seconds [repeats, batches]."""

    @cached_property
    def measured(self) -> Floats:
        """The median of each batch, in seconds."""
        return np.median(self.rounds, axis=0)

    @cached_property
    def clocks(self) -> tuple[Trace, Trace]:
        """The schedule on the clock of the prediction, and on the measured one."""
        return retimed(self.trace, self.predicted), retimed(self.trace, self.measured.tolist())

    @cached_property
    def errors(self) -> Floats:
        """(predicted - measured) / measured of each batch."""
        return np.array([float(p) for p in self.predicted]) / self.measured - 1

    def values(self, objective: str) -> tuple[float, float]:
        """Return an objective as predicted and as measured, in seconds."""
        predicted, measured = (objective_value(trace, objective) for trace in self.clocks)
        return float(predicted) / 1e9, float(measured) / 1e9

    def error(self, objective: str) -> float:
        """Return (predicted - measured) / measured of an objective."""
        predicted, measured = self.values(objective)
        return predicted / measured - 1

    def row(self, objective: str) -> dict[str, Any]:
        """Return all that is reported about it, JSON-ready; times in seconds."""
        worst, sizes, totals = int(np.argmax(np.abs(self.errors))), np.abs(self.errors), self.rounds.sum(axis=1)
        predicted, measured = self.values(objective)
        late = sum(bool(batch.swap_in.keys() & batch.work.keys()) for batch in self.trace.expanded().batches)
        return {
            "schedule": self.name, "batches": len(self.measured), "batches_that_read_what_they_swap_in": late,
            "repeats": len(self.rounds), "predicted": predicted, "measured": measured,
            "error": predicted / measured - 1, "makespan_error": self.error("makespan"),
            "batch_seconds": {
                "predicted": float(sum(self.predicted)), "measured": float(self.measured.sum()),
                "p10": float(np.quantile(totals, 0.1)), "p90": float(np.quantile(totals, 0.9)),
            },
            "mape": float(sizes.mean()), "p95": float(np.quantile(sizes, 0.95)), "bias": float(self.errors.mean()),
            "worst": {
                "batch": worst, "predicted": float(self.predicted[worst]), "measured": float(self.measured[worst]),
                "error": float(self.errors[worst]),
            },
        }  # fmt: skip


def execute(
    engine: Engine, traces: Mapping[str, Trace], cost: Cost, tick: Fraction, repeats: int, warm_up: int
) -> tuple[list[Replayed], dict[str, ReplayResult]]:
    """Replay all schedules in turn; return them with the seconds of their batches, and the last run of each.

    The prediction is by the cost, at a tick of so many seconds.
    """
    plans = {name: make_plan(trace.instance, trace.schedule) for name, trace in traces.items()}
    engine.reserve(plans.values())
    runs: dict[str, ReplayResult] = {}

    def run(name: str) -> Sequence[float]:
        runs[name] = engine.run(plans[name])
        return runs[name].batch_seconds

    taken = in_turns({name: partial(run, name) for name in plans}, repeats, warm_up)
    predicted = {name: [cost.duration(b.features) * tick for b in trace.batches] for name, trace in traces.items()}
    return [Replayed(name, traces[name], predicted[name], np.array(taken[name])) for name in traces], runs


def report(
    replays: Sequence[Replayed], objective: str, runs: Mapping[str, ReplayResult] | None = None
) -> dict[str, Any]:
    """Return the rows, whether the ranking is the model's, and the gain of the best schedule over each other one.

    With the last run of each, a row also says whether its tokens are those of the first, and the bubble: the share of
    the wall clock in which no batch ran.
    """
    rows = [replayed.row(objective) for replayed in replays]
    if runs is not None:
        first = runs[replays[0].name]
        for row, run in zip(rows, [runs[replayed.name] for replayed in replays], strict=True):
            bubble = 1 - sum(run.batch_seconds) / run.wall_seconds
            row |= {"bubble": bubble, "graph_batches": run.graph_batches, "same_tokens": run.tokens == first.tokens}
    found = {"ranking": ranking(replays, objective), "gains": gains(replays, objective)}
    return {"objective": objective, "rows": rows, **found}


def ranking(replays: Sequence[Replayed], objective: str) -> dict[str, Any]:
    """Count the pairs whose order was predicted rightly, and those that the error cannot confuse.

    The error is the largest relative one of any of these schedules. A pair is `clear` if the predicted values differ by
    more than that, relative to the larger.
    """
    error = max(abs(replayed.error(objective)) for replayed in replays)
    pairs = []
    for a, b in combinations(replays, 2):
        (p, m), (q, n) = a.values(objective), b.values(objective)
        clear = abs(p - q) > error * max(p, q)
        pairs.append({"pair": [a.name, b.name], "clear": clear, "right": (p < q) == (m < n) and (p > q) == (m > n)})
    return {
        "error": error, "pairs": pairs, "right": sum(pair["right"] for pair in pairs),
        "clear": sum(pair["clear"] for pair in pairs),
        "clear_and_right": sum(pair["clear"] and pair["right"] for pair in pairs),
    }  # fmt: skip


def gains(replays: Sequence[Replayed], objective: str) -> list[dict[str, Any]]:
    """Return by which factor each schedule is above the one that was predicted to be best."""
    best = min(replays, key=lambda replayed: replayed.values(objective)[0])
    least = best.values(objective)
    rows = []
    for replayed in replays:
        predicted, measured = (value / lowest for value, lowest in zip(replayed.values(objective), least, strict=True))
        rows.append({"schedule": replayed.name, "predicted": predicted, "measured": measured, "over": best.name})
    return rows
