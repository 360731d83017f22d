"""Policies beside the proved optimum, or the best bound, with handlings as given and with free ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from kvbound.plots.frame import DRAWABLE
from kvbound.simulation import Simulation, Watch, simulate_policies, unwatched
from kvbound.tables import Cells, between, decimal, handling_text, in_seconds
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.result import Result
from kvcore.summary import summary
from kvcore.trace import Trace
from solvers import solve
from solvers.driver import Progress
from solvers.ladder import climb, stronger

if TYPE_CHECKING:
    from kvbound.report import Report

Against = Literal["optimum", "bound"] | None
"""What policies are measured against."""

USUAL = (
    "fcfs", "sjf", "sjf-api", "mars-order", "serial", "vllm", "sarathi", "infermax", "infercept", "mars", "augserve",
)  # fmt: skip
"""Some policies of each paper: the rule of Figure 1, which never evicts, and those that need a machine that does."""
OPEN = 0.01
"""Where an optimum stays open by more than this fraction, the ladder of bounds is tried as well."""
WORDS = {"as-given": "handling as given", "free": "handling free"}
SHORT = {"as-given": "as given", "free": "free"}
UNMEASURED = "nothing to measure against was looked for (--optimum does)"


def compare(
    instance: Instance,
    policies: Sequence[str] | None = None,
    objective: str = "total-flow-time",
    handling: str = "as-given",
    time_limit: float = 60,
    threads: int = 1,
    *,
    against: Against = "optimum",
    window: Fraction | None = None,
    watch: Watch = unwatched,
) -> Comparison:
    """Run the policies, and find what they are measured against: with handlings as given, and free where they differ.

    `policies` are names (None: the usual ones). They are measured against the optimum (with the ladder of bounds where
    it stays open), the best lower bound, or nothing. `time_limit` is in seconds, for each optimum; `window` is what
    `kvcore.summary` takes. A policy that cannot run has a row that says why.
    """
    names = USUAL if policies is None else policies
    runs, interrupted = simulate_policies(
        instance, names, objective, handling, window=window, strict=False, watch=watch
    )
    optima: dict[str, Result] = {}
    for kind in _kinds(instance, handling) if against else ():
        if interrupted:
            break
        freed = instance.with_free_calls() if kind == "free" else instance
        with watch(f"{instance.name}: {against}, {WORDS[kind]}") as progress:
            if against == "bound":
                optima[kind] = climb(freed, objective, time_limit=time_limit, progress=progress)
            else:
                optima[kind] = _optimum(freed, objective, time_limit, threads, progress)
        interrupted = optima[kind].stopped == "interrupted"
    return Comparison(instance, objective, runs, optima, interrupted)


def _optimum(instance: Instance, objective: str, time_limit: float, threads: int, progress: Progress | None) -> Result:
    """Return the best schedule and bound; where they stay apart, with what the ladder adds in half the time again."""
    found = solve(instance, objective, time_limit=time_limit, threads=threads, progress=progress)
    if found.status == "optimal" or found.stopped == "interrupted" or (found.gap is not None and found.gap < OPEN):
        return found
    return stronger(found, climb(instance, objective, time_limit=time_limit / 2, upper=found.value, progress=progress))


def _kinds(instance: Instance, handling: str) -> list[str]:
    """Return the handlings for which an optimum is sought: both, where they differ."""
    calls = [call for request in instance.requests for call in request.calls]
    if not calls:
        return ["as-given"]
    return ["free"] if handling == "free" or all(call.handling == "free" for call in calls) else ["as-given", "free"]


@dataclass(frozen=True)
class Comparison:
    """Policies on one instance, and the optima or bounds that they are measured against, by handling."""

    instance: Instance
    objective: str
    policies: list[Simulation]
    optima: dict[str, Result]
    interrupted: bool = False

    def rows(self) -> list[dict[str, Any]]:
        """Return a JSON-ready row per schedule, with its ratio to the bound on each optimum as an exact fraction."""
        rows = [(run.row["policy"], run.row) for run in self.policies]
        rows += [
            (f"{_name(optimum)}, {SHORT[kind]}", {**optimum.to_json(), **_measured(optimum)})
            for kind, optimum in self.optima.items()
        ]
        return [
            {
                "label": label,
                **row,
                "ratio_to_bound": {kind: _ratio(row["value"], optimum) for kind, optimum in self.optima.items()},
            }
            for label, row in rows
        ]

    def summary(self, rows: list[dict[str, Any]]) -> Cells:
        """Return the table of values, a row for each schedule."""
        columns = ["schedule", "value", "mean", "in s", *(f"/ {SHORT[kind]}" for kind in self.optima)]
        return Cells([*columns, "handling of calls"], [self._cells(row) for row in rows])

    def _cells(self, row: dict[str, Any]) -> list[object]:
        per_request = row["mean"] if row["mean"] is not None else row["value"]
        return [
            row["label"],
            row["bound"] if row.get("status") == "bound-only" else row["value"],
            decimal(row["mean"]),
            in_seconds(per_request, row),
            *(decimal(row["ratio_to_bound"][kind]) for kind in self.optima),
            handling_text(row),
        ]

    def draw(self, path: str) -> None:
        """Draw every schedule, one column each, on the same axes."""
        from kvbound.plots import compare_schedules

        if len(self.instance.requests) > DRAWABLE:
            raise BadInput(
                f"--plot draws up to {DRAWABLE} requests, {self.instance.name} has {len(self.instance.requests)}; "
                "kvbound load draws measures"
            )
        columns = [
            (f"{row['label']}\n{_value_text(row)}", trace)
            for trace, row in zip(self.traces(), self.rows(), strict=True)
            if trace is not None
        ]
        compare_schedules(columns, path=path)

    def draw_ladder(self, path: str) -> None:
        """Draw policies, best schedules and all bounds on one axis, a group for each handling."""
        from kvbound.plots import ladder, save

        rows = self.ladder_rows()
        if not rows:
            raise BadInput("--ladder draws values beside bounds; --no-optimum leaves none")
        save(ladder(rows).figure.figure, path)

    def ladder_rows(self) -> list[dict[str, Any]]:
        """Return the rows of the ladder: policies, best schedules and all bounds, for each handling."""
        rows = []
        for kind, optimum in self.optima.items():
            mine = [{**run.row, "label": run.row["policy"]} for run in self.policies]
            mine += [{**optimum.to_json(), "label": _name(optimum)}] if optimum.value is not None else []
            group = {"group": WORDS[kind], "instance_sha256": optimum.instance.sha256}
            rows += [{**row, **group} for row in mine + _rungs(optimum)]
        return rows

    def traces(self) -> list[Trace | None]:
        """Return the trace of each row; None where no schedule is held."""
        return [run.trace for run in self.policies] + [optimum.trace for optimum in self.optima.values()]

    def schedules(self) -> list[tuple[str, Trace]]:
        """Return every schedule with its label."""
        pairs = zip(self.rows(), self.traces(), strict=True)
        return [(row["label"], trace) for row, trace in pairs if trace is not None]

    def report(self) -> Report:
        """Return all of it as a page."""
        from kvbound.report import Report

        verdicts = [verdict(kind, optimum) for kind, optimum in self.optima.items()]
        return Report(
            self.instance,
            rows := self.rows(),
            self.traces(),
            self.summary(rows),
            verdicts or [UNMEASURED],
            {WORDS[kind]: optimum for kind, optimum in self.optima.items()},
            self.ladder_rows(),
        )


def _rungs(optimum: Result) -> list[dict[str, Any]]:
    """Return a row for each bound of the ladder, the lowest first; without a ladder, for the bound that was proved."""
    row = {**optimum.to_json(), "value": None}
    rungs = [rung for rung in optimum.extra.get("ladder", []) if rung["bound"] is not None]
    if not rungs:
        return [{**row, "label": "bound"}] if optimum.value is not None else []
    rungs.sort(key=lambda rung: Fraction(rung["bound"]))
    return [{**row, "label": f"bound: {rung['method']}", "bound": rung["bound"]} for rung in rungs]


def _name(optimum: Result) -> str:
    if optimum.value is None:
        return "lower bound"
    return "optimum" if optimum.status == "optimal" else "best found"


def _measured(optimum: Result) -> dict[str, Any]:
    return {} if optimum.trace is None else {"measures": summary(optimum.trace)}


def _ratio(value: int | str | None, optimum: Result) -> str | None:
    if value is None or optimum.bound is None or optimum.bound <= 0:
        return None
    return str(Fraction(value) / Fraction(optimum.bound))


def verdict(kind: str, optimum: Result, took: str = "") -> str:
    """Say what was proved for a handling; `took` is written behind a proof."""
    if optimum.status == "optimal":
        assert optimum.horizon is not None
        return f"{WORDS[kind]}: {optimum.value} is proved optimal{took} ({optimum.horizon.why})"
    if optimum.value is None:
        return f"{WORDS[kind]}: no schedule is below {optimum.bound} ({optimum.formulation}: {_why(optimum)})"
    return f"{WORDS[kind]}: not proved ({optimum.stopped}); {between(optimum)}"


def _why(optimum: Result) -> str:
    return "nothing was proved" if optimum.certificate is None else optimum.certificate.why


def _value_text(row: dict[str, Any]) -> str:
    return f"{row['objective']} {row['value']}" if row["mean"] is None else f"mean {decimal(row['mean'])}"
