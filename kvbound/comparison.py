"""Policies beside the proved optimum or best bound, with handlings as given and free."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from heuristics.registry import SHARING, AnyPolicy
from kvbound import tables
from kvbound.explanation import Explained, explain_all
from kvbound.plots.frame import DRAWABLE, check_drawable
from kvbound.plots.style import Figure
from kvbound.simulation import Simulation, Watch, outside_schedules, policy_names, simulate_policies, unwatched
from kvbound.tables import Cells, because, between, decimal, in_words, title
from kvbound.units import units_of
from kvcore.instance import Instance
from kvcore.metrics import SUMS, objective_value, summary
from kvcore.result import Result, Stop
from kvcore.schedule import Schedule
from kvcore.trace import Trace
from solvers import solve
from solvers.dual_bound import best_bound

if TYPE_CHECKING:
    from kvbound.report import Report

Against = Literal["optimum", "bound"] | None  # what policies are measured against

USUAL = (
    "vllm-v1", "sglang", "trtllm-max-utilization", "sarathi-serve",
    "infercept", "mars", "augserve", "vllm", "fcfs", "serial",
)  # fmt: skip
"""Engines, schedulers for calls, the vLLM of their papers, two that never evict: `serial` is the worst to expect."""
USUAL_WITHOUT_EVICTION = ("fcfs", "sjf", "sjf-api", "mars-order", "serial")
"""Figure 1's rule is for machines that evict in calls only."""
WORDS = {"as-given": "handling as given", "free": "handling free"}
SHORT = {"as-given": "as given", "free": "free"}
UNMEASURED = "nothing to measure against was looked for (--optimum does)"


def compare(
    instance: Instance,
    policies: str | Sequence[AnyPolicy] | None = None,
    objective: str = "total-flow-time",
    handling: str = "as-given",
    time_limit: float | None = None,
    threads: int = 1,
    *,
    work: int | None = None,
    against: Against = "optimum",
    window: Fraction | None = None,
    schedules: Mapping[str, Schedule] | None = None,
    traces: bool = True,
    watch: Watch = unwatched,
) -> Comparison:
    """Run the policies, and find what they are measured against: with handlings as given, and free where they differ.

    `policies` are names (None: the usual ones; one text may hold several, with commas), Policy objects or classes, or
    functions, as `get_policy` takes them. They are measured against the optimum (or its bounds), the best lower bound,
    or nothing. `time_limit` is in processor seconds, for each policy and each optimum (None: 60 for an optimum, none
    for policies); `work` limits the counted work of each optimum instead. `window` is that of `kvcore.metrics`. A
    policy that cannot run, or not in time, has a row that says why. `schedules`, by name, come from others
    (`kv.read_run`, `kv.read_schedule`): InvalidSchedule if one breaks a rule. Without `traces` only the best policy's
    schedule is kept.
    """
    usual = (*SHARING, *USUAL) if instance.contents else USUAL if instance.machine.evict else USUAL_WITHOUT_EVICTION
    names = usual if policies is None else policy_names(policies) if isinstance(policies, str) else policies
    outside = outside_schedules(instance, schedules or {}, objective, window)
    limit, time_limit = math.inf if time_limit is None else time_limit, 60 if time_limit is None else time_limit
    runs, interrupted = simulate_policies(
        instance, names, objective, handling,
        window=window, strict=False, time_limit=limit, traces=traces, watch=watch,
    )  # fmt: skip
    optima: dict[str, Result] = {}
    for kind in _kinds(instance, handling) if against else ():
        if interrupted:
            break
        freed = instance.with_free_calls() if kind == "free" else instance
        rows = [
            (objective_value(run.trace, objective), run.label, run.trace.schedule)
            for run in outside + runs
            if run.trace is not None and run.trace.instance.sha256 == freed.sha256
        ]
        with watch(f"{instance.name}: {against}, {WORDS[kind]}") as progress:
            if against == "bound":
                optima[kind] = best_bound(freed, objective, time_limit=time_limit, work=work, progress=progress)
            else:
                known = {label: schedule for _, label, schedule in sorted(rows, key=lambda row: row[0])[:1]}
                optima[kind] = solve(
                    freed, objective, time_limit=time_limit, work=work, threads=threads, known=known, progress=progress
                )
        interrupted = optima[kind].stopped == Stop.INTERRUPTED
        for value, label, schedule in rows:
            optima[kind].refuse(schedule, value, label)
    return Comparison(instance, objective, outside + runs, optima, interrupted)


def beside_policies(result: Result) -> Comparison:
    """Return a solve as a comparison with the usual policies on its instance."""
    found = compare(result.instance, None, result.objective, against=None)
    return replace(found, optima={_kinds(result.instance, "as-given")[0]: result})


def _kinds(instance: Instance, handling: str) -> list[str]:
    calls = [call for request in instance.requests for call in request.calls]
    if not calls:
        return ["as-given"]
    return ["free"] if handling == "free" or all(call.handling == "free" for call in calls) else ["as-given", "free"]


@dataclass(frozen=True)
class Comparison:
    """Policies and outside schedules on one instance, and their optimum or bound, by handling."""

    instance: Instance
    objective: str
    policies: list[Simulation]
    optima: dict[str, Result]
    interrupted: bool = False

    def __repr__(self) -> str:
        runs = [run.row for run in self.policies if run.row["value"] is not None]
        best = [min(runs, key=lambda row: Fraction(row["value"]))] if runs else []
        known = [f"best of {len(runs)} policies {row['policy']} {row['value']}" for row in best]
        known += [f"{title(found)}, {SHORT[kind]} {found.value or found.bound}" for kind, found in self.optima.items()]
        return f"Comparison({self.instance.name!r}, {self.objective}: {'; '.join(known)})"

    def rows(self) -> list[dict[str, Any]]:
        """Return a JSON-ready row per schedule, with its ratio to each optimum's bound as an exact fraction."""
        rows = [{"label": run.label, **run.row} for run in self.policies]
        for kind, optimum in self.optima.items():
            measured = {} if optimum.trace is None else {"measures": summary(optimum.trace)}
            rows.append({"label": f"{title(optimum)}, {SHORT[kind]}", **optimum.to_json(), **measured})
        for row in rows:
            row["ratio_to_bound"] = {kind: _ratio(row["value"], optimum) for kind, optimum in self.optima.items()}
        return rows

    def summary(self, rows: list[dict[str, Any]]) -> Cells:
        """Return the table of values, a row for each schedule."""
        columns = ["schedule", *tables.value_columns(units_of(self.instance), self.objective, "value", "mean")]
        columns += [f"/ {SHORT[kind]}" for kind in self.optima]
        columns += tables.without_calls_column(self.instance, self.objective)
        calls, failed = (any(row.get(key) for row in rows) for key in ("handling", "error"))
        said = ["handling of calls"] * calls + ["why not"] * failed
        cells = [
            [*self._cells(row), *[tables.handling_text(row)] * calls, *[tables.why_not(row)] * failed] for row in rows
        ]
        return Cells([*columns, *said], cells, range(1, len(columns)))

    def _cells(self, row: dict[str, Any]) -> list[object]:
        values = (row["value"], row["mean"])
        if row.get("status") == "bound-only":
            mean = Fraction(row["bound"]) / len(self.instance.requests) if self.objective in SUMS else None
            values = (row["bound"], None if mean is None else str(mean))
        units = units_of(self.instance)
        return [
            row["label"],
            *(units.value(value, self.objective) for value in values),
            *(decimal(row["ratio_to_bound"][kind]) for kind in self.optima),
            *tables.without_calls(values[0], self.instance, self.objective),
        ]

    def verdicts(self, took: Callable[[Result], str] = lambda optimum: "") -> list[str]:
        """Say what was proved for each handling, and how much of a gap may be the bound's."""
        lines = []
        for kind, optimum in self.optima.items():
            lines.append(verdict(kind, optimum, took(optimum)))
            mine = [run for run in self.policies if run.row["instance_sha256"] == optimum.instance.sha256]
            first = next((run for run in mine if run.row["value"] is not None), None)
            if first and optimum.value and optimum.bound and optimum.value > optimum.bound > 0:
                over = Fraction(first.row["value"]) / Fraction(optimum.value)
                lines.append(f"the best found is {float(Fraction(optimum.value) / Fraction(optimum.bound)):.3g} times "
                             f"the bound; {first.label} {float(over):.3g} times the best found")  # fmt: skip
        return lines

    def figure(self, path: str | None = None) -> Figure:
        """Draw every schedule, one column each, on the same axes; save it if a `path` is given."""
        from kvbound.plots import compare_schedules

        check_drawable(self.instance)
        titled = [(f"{row['label']}\n{self._title(row)}", trace) for row, trace in self._traced()]
        return compare_schedules(titled, path)

    def _title(self, row: dict[str, Any]) -> str:
        units = units_of(self.instance)
        if row["mean"] is None:
            return f"{self.objective} {units.named(row['value'], self.objective)}"
        return f"mean {units.named(row['mean'], self.objective)}"

    def ladder_rows(self) -> list[dict[str, Any]]:
        """Return policies, best schedules and all bounds as rows, for each handling."""
        rows = []
        for kind, optimum in self.optima.items():
            mine = [{**run.row, "label": run.label} for run in self.policies]
            mine += [{**optimum.to_json(), "label": title(optimum)}] if optimum.value is not None else []
            group = {"group": WORDS[kind], "instance_sha256": optimum.instance.sha256}
            rows += [{**row, **group} for row in mine + ladder_of(optimum)]
        return rows

    def schedules(self) -> list[tuple[str, Trace]]:
        """Return every schedule with its label."""
        return [(row["label"], trace) for row, trace in self._traced()]

    def _traced(self) -> list[tuple[dict[str, Any], Trace]]:
        traces = [run.trace for run in self.policies] + [found.trace for found in self.optima.values()]
        return [(row, trace) for row, trace in zip(self.rows(), traces, strict=True) if trace is not None]

    def explained(self) -> list[Explained]:
        """Explain every schedule beside the best of the first handling, or the best there is.

        The ratio without calls is to the first bound, else to that schedule's value.
        """
        schedules = self.schedules()
        if not schedules:
            return []
        found = schedules[sum(run.trace is not None for run in self.policies) :]
        best = min(schedules, key=lambda pair: Fraction(objective_value(pair[1], self.objective)))
        reference = found[0] if found else best
        bound = next((optimum.bound for optimum in self.optima.values()), None)
        least = objective_value(reference[1], self.objective) if bound is None else bound
        return explain_all(schedules, reference, self.objective, least)

    def report(self) -> Report:
        """Return the report of the comparison."""
        from kvbound.report import Report

        return Report(
            self.instance,
            rows := self.rows(),
            self.schedules(),
            self.summary(rows),
            self.verdicts() or [UNMEASURED],
            {WORDS[kind]: optimum for kind, optimum in self.optima.items()},
            self.ladder_rows(),
            self.explained() if len(self.instance.requests) <= DRAWABLE else [],
        )


def ladder_of(optimum: Result) -> list[dict[str, Any]]:
    """Return a row for each bound of the ladder, lowest first, and for a proved one above them."""
    row = {**optimum.to_json(), "value": None}
    rungs = [rung.row(optimum.objective) for rung in optimum.ladder or () if rung.bound is not None]
    rungs.sort(key=lambda rung: Fraction(rung["bound"]))
    rows = [{**row, "label": f"bound: {rung['method']}", "bound": rung["bound"]} for rung in rungs]
    beyond = optimum.bound is not None and all(Fraction(optimum.bound) > Fraction(rung["bound"]) for rung in rungs)
    return [*rows, {**row, "label": f"bound: {optimum.proved_by}" if rungs else "bound"}] if beyond else rows


def _ratio(value: int | str | None, optimum: Result) -> str | None:
    if value is None or optimum.bound is None or optimum.bound <= 0:
        return None
    return str(Fraction(value) / Fraction(optimum.bound))


def verdict(kind: str, optimum: Result, took: str = "") -> str:
    """Say what was proved for a handling; `took` follows a proof."""
    if optimum.status in ("optimal", "claimed"):
        proved = "is proved optimal" if optimum.status == "optimal" else f"is the optimum as {optimum.proved_by} claims"
        return f"{WORDS[kind]}: {in_words(optimum, optimum.value)} {proved}{took} ({because(optimum)})"
    if optimum.value is None:
        least = in_words(optimum, optimum.bound)
        why = "nothing was proved" if optimum.certificate is None else optimum.certificate.why
        return f"{WORDS[kind]}: no schedule is below {least} ({optimum.formulation}: {why})"
    return f"{WORDS[kind]}: not proved ({optimum.stopped}); {between(optimum)}"
