"""`kvbound load`: policies at several loads, as a table, a CSV file and a plot like those of the papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any

from rich.console import Console

from kvbound.cli import EXIT_INTERRUPTED
from kvbound.cli.common import (
    OUT,
    POLICY,
    HandlingOption,
    InstanceArgument,
    JsonOption,
    PlotOption,
    WindowOption,
    emit,
    option,
    table,
)
from kvbound.cli.progress import LiveLine
from kvbound.instances import load_instance
from kvbound.simulation import policy_names
from kvbound.tables import CAUSES, SHORT, TIMES, rate_unit, spread
from kvbound.units import Units, units_of
from kvcore.errors import BadInput
from kvcore.files import check_writable, write_text
from kvcore.parameters import fraction
from sweeps.export import as_csv as table_as_csv

SPREADS = ("latency", "latency_without_calls", "ttft", "tpot", "tpot_without_calls", "normalized_latency",
           "normalized_latency_without_calls")  # fmt: skip
PARTS = ("mean", "p50", "p95", "p99", "max")
FACTS = ("factor", "rate", "policy", "error", "stationary")
COUNTS = ("requests", "unfinished", "requests_per_second", "tokens_per_second", "goodput_per_second", "slo_attainment",
          "batches", "evictions", "recomputed_share", "tokens_swapped_out", "tokens_swapped_in")  # fmt: skip
MOST_JOBS = 64
GROWS = "the queue grows: its percentiles mean nothing"


def load_sweep(
    instance: InstanceArgument,
    policies: Annotated[str, option("NAME[,NAME..]|all", "`kvbound policies` lists them", *POLICY[::-1])],
    factors: Annotated[str, option("F[,F..]", "arrivals come so many times as fast")] = "1/2,1,2",
    handling: HandlingOption = "as-given",
    window: WindowOption = None,
    jobs: Annotated[int, option("N", "processes at once", min=1, max=MOST_JOBS)] = 1,
    csv_file: Annotated[str | None, option("OUT.csv", "write every measure there", "--csv", *OUT)] = None,
    plot: PlotOption = None,
    json: JsonOption = None,
) -> int:
    """Run policies on the same requests at several loads; Ctrl-C keeps the rows that are there."""
    from heuristics.load import load_rows
    from solvers.driver import free_calls

    check_writable(csv_file, plot, json)
    loaded = free_calls(load_instance(instance), handling)
    multiples = [fraction("--factors", text.strip()) for text in factors.split(",")]
    stop = None if window is None else fraction("--window", window)
    names, rows = policy_names(policies), list[dict[str, Any]]()
    ended = 0
    try:
        with LiveLine(f"{loaded.name} at {len(multiples)} loads"):
            rows.extend(load_rows(loaded, names, multiples, window=stop, jobs=jobs))
    except KeyboardInterrupt:
        ended = EXIT_INTERRUPTED
    if plot is not None and rows and all("error" in row for row in rows):
        raise BadInput(f"there is nothing to draw: {rows[0]['error']}")
    if csv_file is not None:
        write_text(csv_file, as_csv(rows))
    if plot is not None and rows:
        from kvbound.plots import plot_load

        plot_load(rows, path=plot, units=units_of(loaded))
    emit(json, {"instance": loaded.name, "rows": rows}, lambda console: _show(console, rows, units_of(loaded)))
    return ended


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as CSV with a header: a column for every measure (spreads as `measure_part`), seconds."""
    columns = [*FACTS, *COUNTS, *(f"{name}_{part}" for name in SPREADS for part in PARTS)]
    columns += [f"waste_{part}" for part in CAUSES]
    return table_as_csv(
        [{key: row.get(key) for key in FACTS} | _flat(row.get("measures") or {}) for row in rows], columns
    )


def _flat(measured: Mapping[str, Any]) -> dict[str, Any]:
    flat = {name: measured[name] for name in COUNTS if name in measured}
    for name in SPREADS:
        flat |= {f"{name}_{part}": value for part, value in (measured.get(name) or {}).items()}
    return flat | {f"waste_{part}": share for part, share in (measured.get("waste_share") or {}).items()}


def _show(console: Console, rows: Sequence[Mapping[str, Any]], units: Units) -> None:
    names = [(name, part) for name, part in TIMES if part in ("mean", "p99") or name.startswith("normalized")]
    rate = rate_unit(units)
    columns = ["load", f"rate/{rate}", "policy", *(f"{SHORT[name]} {part}" for name, part in names), f"good/{rate}", ""]
    console.print(f"times in {units.time}")
    cells = [
        [
            str(Fraction(row["factor"])),
            None if row["rate"] is None else f"{row['rate']:.4g}",
            row["policy"],
            *(spread(row.get("measures", {}).get(name), part, units) for name, part in names),
            f"{row['measures']['goodput_per_second']:.4g}" if "measures" in row else None,
            row.get("error", GROWS if row.get("stationary") is False else ""),
        ]
        for row in rows
    ]
    console.print(table(columns, cells, right=(0, 1, *range(3, len(columns) - 1))))
