"""Predictions of schedules beside measurements: errors, ranking, and the gain of the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import combinations, count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from costmodels.retime import retimed
from gpu_validation.calibration import Timings, fitted
from gpu_validation.measure import in_turns
from gpu_validation.plan import make_plan
from kvcore.cost import Cost, Features
from kvcore.metrics import objective_value
from kvcore.trace import Trace

if TYPE_CHECKING:
    from gpu_validation.engine import Engine, ReplayResult

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Replayed:
    """A schedule, with the predicted and measured seconds of its batches."""

    name: str
    trace: Trace
    predicted: Sequence[float | Fraction]  # seconds [batches]
    rounds: Floats  # seconds [repeats, batches]
    launches: Floats | None = None  # on a GPU, the host's seconds to start each batch, in the last round

    @cached_property
    def measured(self) -> Floats:
        """The median of each batch, in seconds."""
        return np.median(self.rounds, axis=0)

    @cached_property
    def clocks(self) -> tuple[Trace, Trace]:
        """The schedule on the predicted and on the measured clock."""
        return retimed(self.trace, self.predicted), retimed(self.trace, self.measured.tolist())

    @cached_property
    def errors(self) -> Floats:
        """(predicted - measured) / measured of each batch."""
        return np.array([float(p) for p in self.predicted]) / self.measured - 1

    def values(self, objective: str) -> tuple[float, float]:
        """Return an objective as predicted and measured, in seconds."""
        predicted, measured = (objective_value(trace, objective) for trace in self.clocks)
        return float(predicted) / 1e9, float(measured) / 1e9

    def error(self, objective: str) -> float:
        """Return (predicted - measured) / measured of an objective."""
        predicted, measured = self.values(objective)
        return predicted / measured - 1

    def row(self, objective: str) -> dict[str, Any]:
        """Return its report, JSON-ready; times in seconds."""
        worst, sizes, totals = int(np.argmax(np.abs(self.errors))), np.abs(self.errors), self.rounds.sum(axis=1)
        predicted, measured = self.values(objective)
        makespans = self.values("makespan")
        bound = None if self.launches is None else float((self.launches >= self.measured).mean())
        late = sum(bool(batch.swap_in.keys() & batch.work.keys()) for batch in self.trace.expanded().batches)
        return {
            "schedule": self.name, "batches": len(self.measured), "batches_that_read_what_they_swap_in": late,
            "repeats": len(self.rounds), "predicted": predicted, "measured": measured,
            "error": predicted / measured - 1, "predicted_makespan_seconds": makespans[0],
            "measured_makespan_seconds": makespans[1], "makespan_error": makespans[0] / makespans[1] - 1,
            "batch_seconds": {
                "predicted": float(sum(self.predicted)), "measured": float(self.measured.sum()),
                "p10": float(np.quantile(totals, 0.1)), "p90": float(np.quantile(totals, 0.9)),
            },
            "batch_error": {"median": float(np.median(sizes)), "p95": float(np.quantile(sizes, 0.95))},
            "launch_bound": bound, "mape": float(sizes.mean()), "p95": float(np.quantile(sizes, 0.95)),
            "bias": float(self.errors.mean()),
            "worst": {
                "batch": worst, "predicted": float(self.predicted[worst]), "measured": float(self.measured[worst]),
                "error": float(self.errors[worst]),
            },
        }  # fmt: skip


def execute(
    engine: Engine, traces: Mapping[str, Trace], cost: Cost, tick: Fraction, repeats: int, warm_up: int,
    timings: Timings | None = None, told: Callable[[int, int], None] = lambda k, n: None,
) -> tuple[list[Replayed], dict[str, ReplayResult]]:  # fmt: skip
    """Replay all schedules in turn; return them with the seconds of their batches, and the last run of each.

    The prediction is by the cost, at a tick of this many seconds; with `timings`, points of a grid timed in turn with
    the schedules, by the fit to these. Ctrl-C keeps the whole rounds. `told` hears the runs done, of how many.
    """
    plans = {name: make_plan(trace.instance, trace.schedule) for name, trace in traces.items()}
    engine.reserve(plans.values())
    runs: dict[str, ReplayResult] = {}
    behind = count()

    def run(name: str) -> Sequence[float]:
        told(next(behind), len(plans) * (repeats + warm_up))
        runs[name] = engine.run(plans[name])
        return runs[name].batch_seconds

    turns: dict[str, Callable[[], Sequence[float] | None]] = {name: partial(run, name) for name in plans}
    taken: Any = in_turns(turns if timings is None else {"": timings.visit, **turns}, repeats, warm_up, partly=True)
    found = None if timings is None else fitted(timings.measured(), engine.device.type)
    replays = []
    for name, trace in traces.items():
        features = [batch.features for batch in trace.batches]
        predicted = [cost.duration(x) * tick if found is None else found.predict(x) for x in features]
        launches = None if engine.device.type == "cpu" else np.array(runs[name].launch_seconds)
        replays.append(Replayed(name, trace, predicted, np.array(taken[name]), launches))
    return replays, runs


def report(
    replays: Sequence[Replayed], objective: str, runs: Mapping[str, ReplayResult] | None = None
) -> dict[str, Any]:
    """Return the rows, whether the ranking is the model's, and the gain of the best schedule over each other one.

    With the last run of each, a row also says whether its tokens are those of the first, and its batches' share of the
    wall clock.
    """
    rows = [replayed.row(objective) for replayed in replays]
    if runs is not None:
        first = runs[replays[0].name]
        for row, run in zip(rows, [runs[replayed.name] for replayed in replays], strict=True):
            share = sum(run.batch_seconds) / run.wall_seconds
            row |= {"of_wall": share, "graph_batches": run.graph_batches, "same_tokens": run.tokens == first.tokens}
    order = ranking(replays, objective)
    once = {"kendall_tau": order.pop("kendall_tau"), "regret": order.pop("regret"), "ranking": order}
    return {"objective": objective, "rows": rows, **once, "gains": gains(replays, objective)}


def ranking(replays: Sequence[Replayed], objective: str) -> dict[str, Any]:
    """Compare the predicted order of the schedules with the measured one; those with the same batches count once.

    `gap` of a pair is the difference of the predicted values over the larger one. `kendall_tau` is the part of the
    pairs in the predicted order minus the others (None: no pair); `regret` how much more the predicted best took than
    the measured best.
    """
    distinct: dict[object, Replayed] = {}
    for replayed in replays:
        distinct.setdefault(_done(replayed.trace), replayed)
    pairs, signs = list[dict[str, Any]](), list[int]()
    for a, b in combinations(distinct.values(), 2):
        (p, m), (q, n) = a.values(objective), b.values(objective)
        signs.append(int(np.sign(p - q) * np.sign(m - n)))
        pairs.append({"pair": [a.name, b.name], "gap": abs(p - q) / max(p, q), "right": signs[-1] > 0})
    values = [replayed.values(objective) for replayed in distinct.values()]
    return {
        "distinct": len(distinct), "pairs": pairs, "right": sum(pair["right"] for pair in pairs),
        "kendall_tau": sum(signs) / len(signs) if signs else None,
        "regret": min(values)[1] / min(measured for _, measured in values) - 1,
    }  # fmt: skip


def _done(trace: Trace) -> tuple[Any, ...]:
    return tuple(
        tuple(tuple(sorted(part.items())) for part in (batch.work, batch.drop, batch.swap_out, batch.swap_in))
        for batch in trace.expanded().batches
    )


def beyond(trace: Trace, seen: Sequence[Features]) -> int:
    """Return how many batches exceed, in something, all batches that a cost was fitted to."""
    most = [max(column) for column in zip(*seen, strict=True)]
    return sum(any(x > m for x, m in zip(batch.features, most, strict=True)) for batch in trace.batches)


def gains(replays: Sequence[Replayed], objective: str) -> list[dict[str, Any]]:
    """Return the factor of each schedule above the predicted best."""
    best = min(replays, key=lambda replayed: replayed.values(objective)[0])
    least = best.values(objective)
    rows = []
    for replayed in replays:
        predicted, measured = (value / lowest for value, lowest in zip(replayed.values(objective), least, strict=True))
        rows.append({"schedule": replayed.name, "predicted": predicted, "measured": measured, "over": best.name})
    return rows
