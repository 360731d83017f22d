"""`kvbound compare`: every policy beside the proved optimum, with handlings as given and with free ones."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

import typer
from rich.console import Console

from kvbound.cli import EXIT_INTERRUPTED
from kvbound.cli.common import (
    HandlingOption,
    InstanceArgument,
    JsonOption,
    ObjectiveOption,
    PlotOption,
    emit,
    handling_text,
    in_seconds,
    load,
    table,
)
from kvbound.cli.progress import SolveProgress
from kvbound.cli.simulate import policy_names
from kvbound.cli.solve import between
from kvbound.files import check_writable
from kvbound.instance import Instance
from kvbound.result import Result

WORDS = {"as-given": "handling as given", "free": "handling free"}
SHORT = {"as-given": "as given", "free": "free"}


def compare(
    instance: InstanceArgument,
    policies: Annotated[str, typer.Option(metavar="NAME[,NAME..]|all")] = "all",
    objective: ObjectiveOption = "total-flow-time",
    handling: HandlingOption = "as-given",
    time_limit: Annotated[float, typer.Option(min=0.1, metavar="S", help="seconds for each optimum")] = 60,
    threads: Annotated[int, typer.Option(min=1, metavar="N")] = 1,
    plot: PlotOption = None,
    json: JsonOption = None,
) -> int:
    """Say how far each policy is from the best schedule there is."""
    check_writable(plot, json)
    comparison = compare_policies(load(instance), policy_names(policies), objective, handling, time_limit, threads)
    if plot is not None:
        comparison.draw(plot)
    emit(json, {"rows": comparison.rows()}, comparison.show)
    return EXIT_INTERRUPTED if comparison.interrupted else 0


def compare_policies(
    instance: Instance, policies: list[str], objective: str, handling: str, time_limit: float, threads: int = 1
) -> Comparison:
    """Run the policies and solve for the optimum: with handlings as given, and with free ones where they differ."""
    import solvers

    results = [solvers.simulate_policy(instance, name, objective, handling=handling) for name in policies]
    optima: dict[str, Result] = {}
    for kind in _kinds(instance, handling):
        with SolveProgress(f"{instance.name}: optimum, {WORDS[kind]}") as progress:
            optima[kind] = solvers.solve(
                instance, objective, handling=kind, time_limit=time_limit, threads=threads, progress=progress
            )
    return Comparison(instance, objective, results, optima)


def _kinds(instance: Instance, handling: str) -> list[str]:
    """Return the handlings for which an optimum is sought: both, where they differ."""
    calls = [call for request in instance.requests for call in request.calls]
    if not calls:
        return ["as-given"]
    return ["free"] if handling == "free" or all(call.handling == "free" for call in calls) else ["as-given", "free"]


@dataclass(frozen=True)
class Comparison:
    """Policies and optima on one instance; `optima` is by handling."""

    instance: Instance
    objective: str
    policies: list[Result]
    optima: dict[str, Result]

    @property
    def interrupted(self) -> bool:
        """Whether a solve was interrupted."""
        return any(optimum.stopped == "interrupted" for optimum in self.optima.values())

    def rows(self) -> list[dict[str, Any]]:
        """Return a JSON-ready row per schedule, with its ratio to the bound on each optimum as an exact fraction."""
        labelled = [(result.policy or "", result) for result in self.policies]
        labelled += [(f"{_name(optimum)}, {SHORT[kind]}", optimum) for kind, optimum in self.optima.items()]
        return [
            {
                "label": label,
                **result.to_json(),
                "ratio_to_bound": {kind: _ratio(result, optimum) for kind, optimum in self.optima.items()},
            }
            for label, result in labelled
        ]

    def show(self, console: Console) -> None:
        """Print the table and what was proved."""
        rows = self.rows()
        columns = ["schedule", "value", "mean", "in s"]
        columns += [f"/ {SHORT[kind]}" for kind in self.optima]
        console.print(f"[bold]{self.instance.name}[/bold], {self.objective}", soft_wrap=True)
        cells = [self._cells(row) for row in rows]
        console.print(table([*columns, "handling of calls"], cells, right=range(1, len(columns))))
        console.print(
            "/: the value over the optimum (over the lower bound, where that is all there is)", soft_wrap=True
        )
        for kind, optimum in self.optima.items():
            console.print(_verdict(kind, optimum), soft_wrap=True)

    def _cells(self, row: dict[str, Any]) -> list[object]:
        per_request = row["mean"] if row["mean"] is not None else row["value"]
        return [
            row["label"],
            row["value"],
            decimal(row["mean"]),
            in_seconds(per_request, row),
            *(decimal(row["ratio_to_bound"][kind]) for kind in self.optima),
            handling_text(row),
        ]

    def draw(self, path: str) -> None:
        """Draw every schedule, one column each, on the same axes."""
        from kvbound.plots import compare_schedules

        results = [*self.policies, *self.optima.values()]
        columns = [
            (f"{row['label']}\n{_value_text(row)}", result.trace)
            for result, row in zip(results, self.rows(), strict=True)
            if result.trace is not None
        ]
        compare_schedules(columns, path=path)


def _name(optimum: Result) -> str:
    return "optimum" if optimum.status == "optimal" else "best found"


def _ratio(result: Result, optimum: Result) -> str | None:
    if result.value is None or optimum.bound is None or optimum.bound <= 0:
        return None
    return str(Fraction(result.value) / Fraction(optimum.bound))


def _verdict(kind: str, optimum: Result) -> str:
    if optimum.status == "optimal":
        assert optimum.horizon is not None
        return f"{WORDS[kind]}: {optimum.value} is proved optimal in {optimum.seconds:.2f} s ({optimum.horizon.why})"
    return f"{WORDS[kind]}: not proved ({optimum.stopped}); {between(optimum)}"


def _value_text(row: dict[str, Any]) -> str:
    return f"{row['objective']} {row['value']}" if row["mean"] is None else f"mean {decimal(row['mean'])}"


def decimal(text: str | None) -> str | None:
    """Write a fraction for people."""
    return None if text is None else f"{float(Fraction(text)):.4g}"
