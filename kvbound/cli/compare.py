"""`kvbound compare`: every policy beside the proved optimum, with handlings as given and with free ones."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from kvbound.cli import EXIT_INTERRUPTED
from kvbound.cli.bound import climb
from kvbound.cli.common import (
    HandlingOption,
    InstanceArgument,
    JsonOption,
    ObjectiveOption,
    PlotOption,
    TraceOption,
    emit,
    handling_text,
    in_seconds,
    load,
    table,
)
from kvbound.cli.measures import WindowOption, times_table, work_table
from kvbound.cli.progress import SolveProgress
from kvbound.cli.simulate import FEW, Simulation, decimal, policy_names, run_one, until_interrupted
from kvbound.cli.solve import between, stronger
from kvbound.plots.frame import DRAWABLE
from kvbound.tables import OVER, Cells
from kvbound.trace_events import write_trace_events
from kvcore.errors import BadInput
from kvcore.files import check_writable, write_text
from kvcore.instance import Instance
from kvcore.parameters import fraction
from kvcore.result import Result
from kvcore.summary import summary
from kvcore.trace import Trace

if TYPE_CHECKING:
    from kvbound.report import Report

Against = Literal["optimum", "bound"] | None
"""What policies are measured against."""

NEVER_EVICT = ("fcfs", "sjf", "sjf-api", "mars-order", "serial")
MAY_EVICT = ("vllm", "sarathi", "infermax", "infercept", "mars", "augserve")
"""The usual policies: those of the first line, and where the machine evicts those of the second."""
SOLVABLE = 200
"""Requests up to which the optimum is looked for unless it is asked for, or not; beyond, a bound."""
OPEN = 0.01
"""Where an optimum stays open by more than this fraction, the ladder of bounds is tried as well."""
WORDS = {"as-given": "handling as given", "free": "handling free"}
SHORT = {"as-given": "as given", "free": "free"}
UNMEASURED = "nothing to measure against was looked for (--optimum does)"


def compare(
    instance: InstanceArgument,
    policies: Annotated[
        str, typer.Option(metavar="NAME[,NAME..]|usual|all", help="usual: some of each paper; docs/policies.md")
    ] = "usual",
    objective: ObjectiveOption = "total-flow-time",
    handling: HandlingOption = "as-given",
    time_limit: Annotated[float, typer.Option(min=0.1, metavar="S", help="seconds for each optimum")] = 60,
    threads: Annotated[int, typer.Option(min=1, metavar="N")] = 1,
    optimum: Annotated[
        bool | None,
        typer.Option(
            "--optimum/--no-optimum",
            help=f"look for it, or for nothing (default: beyond {SOLVABLE} requests a lower bound)",
        ),
    ] = None,
    window: WindowOption = None,
    plot: PlotOption = None,
    ladder: Annotated[
        str | None, typer.Option(metavar="OUT.svg", help="draw values and bounds on one axis (svg, png or pdf)")
    ] = None,
    html: Annotated[
        str | None, typer.Option(metavar="OUT.html", help="write a report: one file, for any browser (docs/report.md)")
    ] = None,
    trace: TraceOption = None,
    json: JsonOption = None,
) -> int:
    """Say how far each policy is from the best schedule there is."""
    check_writable(plot, ladder, html, trace, json)
    loaded, stop = load(instance), None if window is None else fraction("--window", window)
    against: Against = "optimum" if len(loaded.requests) <= SOLVABLE else "bound"
    if optimum is not None:
        against = "optimum" if optimum else None
    usual = ",".join((*NEVER_EVICT, *MAY_EVICT) if loaded.machine.evict else NEVER_EVICT)
    names = policy_names(usual if policies == "usual" else policies)
    strict = policies not in ("usual", "all")
    comparison = compare_policies(
        loaded, names, objective, handling, time_limit, threads, against=against, window=stop, strict=strict
    )
    if plot is not None:
        comparison.draw(plot)
    if ladder is not None:
        comparison.draw_ladder(ladder)
    if html is not None:
        write_text(html, comparison.report().html())
    if trace is not None:
        write_trace_events(trace, comparison.schedules())
    emit(json, {"rows": comparison.rows()}, comparison.show)
    return EXIT_INTERRUPTED if comparison.interrupted else 0


def compare_policies(
    instance: Instance,
    policies: list[str],
    objective: str,
    handling: str,
    time_limit: float,
    threads: int = 1,
    *,
    against: Against = "optimum",
    window: Fraction | None = None,
    strict: bool = True,
) -> Comparison:
    """Run the policies, and find what they are measured against: with handlings as given, and free where they differ.

    That is the optimum (with the ladder of bounds where it stays open), the best lower bound, or nothing. `window` is
    what `kvcore.summary` takes. A policy that cannot run is an error if `strict`, else a row that says so.
    """
    runs, interrupted = until_interrupted(
        run_one(instance, name, objective, handling, window, strict=strict) for name in policies
    )
    optima: dict[str, Result] = {}
    for kind in _kinds(instance, handling) if against else ():
        if interrupted:
            break
        freed = instance.with_free_calls() if kind == "free" else instance
        if against == "bound":
            optima[kind] = climb(freed, objective, time_limit=time_limit)
        else:
            optima[kind] = _optimum(freed, objective, WORDS[kind], time_limit, threads)
        interrupted = optima[kind].stopped == "interrupted"
    return Comparison(instance, objective, runs, optima, interrupted)


def _optimum(instance: Instance, objective: str, what: str, time_limit: float, threads: int) -> Result:
    """Return the best schedule and bound; where they stay apart, with what the ladder adds in half the time again."""
    import solvers

    with SolveProgress(f"{instance.name}: optimum, {what}") as progress:
        found = solvers.solve(instance, objective, time_limit=time_limit, threads=threads, progress=progress)
    if found.status == "optimal" or found.stopped == "interrupted" or (found.gap is not None and found.gap < OPEN):
        return found
    return stronger(found, climb(instance, objective, time_limit=time_limit / 2, upper=found.value))


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

    def show(self, console: Console) -> None:
        """Print the table and what was proved."""
        rows = self.rows()
        console.print(f"{self.instance.name}, {self.objective}", style="bold", soft_wrap=True)
        columns, cells = self.summary(rows)
        console.print(table(columns, cells, right=range(1, len(columns) - 1)))
        measured = [(row["label"], row["measures"]) for row in rows if row.get("measures")]
        if len(self.instance.requests) > FEW and measured:
            for made in (times_table(measured), work_table(measured)):
                console.print()
                console.print(made)
        if not self.optima:
            console.print(UNMEASURED)
            return
        console.print(OVER, soft_wrap=True)
        for kind, optimum in self.optima.items():
            took = f" in {optimum.seconds:.2f} s" if optimum.status == "optimal" else ""
            console.print(_verdict(kind, optimum, took), soft_wrap=True)

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
            row.get("error") or handling_text(row),
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

        verdicts = [_verdict(kind, optimum) for kind, optimum in self.optima.items()]
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


def _verdict(kind: str, optimum: Result, took: str = "") -> str:
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
