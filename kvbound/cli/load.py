"""`kvbound load`."""

from fractions import Fraction
from functools import partial
from typing import Annotated, Any

from rich.console import Console

from heuristics.load import keeps, last_kept, load_rows, rate, scaled
from kvbound.cli import EXIT_INTERRUPTED, common
from kvbound.cli.common import OUT, POLICY, emit, option, table
from kvbound.cli.progress import LiveLine, SolveProgress, drawing, load_instance
from kvbound.plots import plot_load
from kvbound.simulation import policy_names
from kvbound.tables import SHORT, TIMES, Row, Rows, class_cells, percent, rate_unit, spread
from kvbound.units import Units, units_of
from kvcore.errors import BadInput
from kvcore.files import check_writable, write_text
from kvcore.instance import Instance
from kvcore.metrics import Value
from kvcore.parameters import fraction
from kvcore.result import Stop
from sweeps.export import as_csv as table_as_csv

FACTS = ("factor", "rate", "policy", "error", "stationary")
MOST_JOBS = 64
FLOW, LATE = "total-flow-time", "late-requests"
ANY = "any scheduler"
"""The row of bounds: a mean latency is at least its, the SLOs met at most its."""
QUEUE = {True: "steady", False: "grows", None: "-"}
GROWS = "grows: the queue grows over the run, so that its percentiles say only how long the run was"
BRIEF = (("latency", "mean"), ("latency", "p99"), ("ttft", "p99"))
"""The times for an 80-column terminal; where there are calls, also the mean without them."""


def load_sweep(
    instance: common.InstanceArgument,
    policies: Annotated[str, option("NAME[,NAME..]|all", "`kvbound policies` lists them", *POLICY[::-1])],
    factors: Annotated[str, option("F[,F..]", "arrivals come so many times as fast")] = "1/2,1,2",
    handling: common.HandlingOption = "as-given",
    window: common.WindowOption = None,
    jobs: Annotated[int, option("N", "processes at once", min=1, max=MOST_JOBS)] = 1,
    csv_file: Annotated[str | None, option("OUT.csv", "write every measure there", "--csv", *OUT)] = None,
    plot: common.PlotOption = None,
    bound: Annotated[
        float | None,
        option("S", "seconds for each bound, on a load's mean latency and SLOs met, drawn as lines", min=0.1),
    ] = None,
    keep: Annotated[
        float | None,
        option("PERCENT", "between the factors, look for the last load with so many on time", min=0.001, max=100),
    ] = None,
    wide: common.WideOption = False,
    json: common.JsonOption = None,
) -> int:
    """Run policies on the same requests at several loads; Ctrl-C keeps the rows that are there."""
    from solvers.simulate import free_calls

    check_writable(csv_file, plot, json)
    loaded = free_calls(load_instance(instance), handling)
    multiples = [fraction("--factors", text.strip()) for text in factors.split(",")]
    stop = None if window is None else fraction("--window", window)
    if bound is not None and stop is not None:
        raise BadInput("--bound is on the latency of all requests, --window leaves some out; give one of them")
    if keep is not None and not any(request.slo for request in loaded.requests):
        raise BadInput("no request has an SLO to keep; `kvbound import` and `generate` set them (--slo-ttft, ..)")
    names, rows, bounds = policy_names(policies), list[dict[str, Any]](), list[dict[str, Any]]()
    ended = 0
    try:
        with LiveLine(f"{loaded.name} at {len(multiples)} loads") as line:
            for row in load_rows(loaded, names, multiples, window=stop, jobs=jobs):
                rows.append(row)
                line.part(len(rows), len(names) * len(multiples))
        if bound is not None:
            bounds.extend(_bound(loaded, factor, bound) for factor in multiples)
        if keep is not None:
            for name in names:
                known = [row for row in rows if row["policy"] == name]
                rows.extend(last_kept(known, keep / 100, lambda at: next(load_rows(loaded, [name], [at], window=stop))))  # noqa: B023
            if bound is not None:
                bounds.extend(last_kept(bounds[:], keep / 100, lambda at: _bound(loaded, at, bound)))
    except KeyboardInterrupt:
        ended = EXIT_INTERRUPTED
    draw = drawing(lambda file: plot_load(rows, file, units_of(loaded), bounds, keep)) if rows else None
    kept = [] if keep is None else goodput(rows, bounds, keep / 100)
    payload = {"instance": loaded.name, "rows": rows, **({"bounds": bounds} if bounds else {})}
    emit(
        json, payload if keep is None else {**payload, "goodput": kept},
        lambda console: _show(console, rows, bounds, kept, units_of(loaded), wide=wide),
        (csv_file, lambda file: write_text(file, as_csv(rows))), (plot, draw),
    )  # fmt: skip
    return ended


def goodput(rows: Rows, bounds: Rows, share: float) -> list[dict[str, Any]]:
    """Return a row for each policy with the last load at which this share is on time, the best first.

    The last, `no scheduler`, has the least load at which a bound shows that fewer are on time.
    """
    kept: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: Fraction(row["factor"])):
        if keeps(row, share):
            kept[row["policy"]] = row
    ranked = sorted(kept.values(), key=lambda row: Fraction(row["factor"]), reverse=True)
    beyond = min((b for b in bounds if not keeps(b, share)), key=lambda b: Fraction(b["factor"]), default=None)
    last = [] if beyond is None else [{**beyond, "policy": "no scheduler"}]
    return [
        {key: row.get(key, row["measures"].get(key)) for key in (*FACTS[:3], "slo_attainment", "goodput_per_second")}
        for row in (*ranked, *last)
    ]


def _bound(instance: Instance, factor: Fraction, seconds: float) -> dict[str, Any]:
    loaded = scaled(instance.with_free_calls(), factor)
    slos = any(request.slo for request in loaded.requests)
    requests, arrivals = len(loaded.requests), rate(loaded)
    flow, method = _least(loaded, FLOW, factor, seconds)
    measures: dict[str, Any] = {"latency": {"mean": float(Fraction(flow) * loaded.tick_seconds / requests)}}
    if slos:
        late, by = _least(loaded, LATE, factor, seconds)
        measures["slo_attainment"] = float(1 - Fraction(late) / requests)
        method = f"{method}, {by}"
    return {"factor": str(factor), "rate": None if arrivals is None else float(arrivals), "policy": ANY,
            "method": method, "measures": measures}  # fmt: skip


def _least(instance: Instance, objective: str, factor: Fraction, seconds: float) -> tuple[Value, str | None]:
    from solvers.dual_bound import best_bound

    with SolveProgress(f"bound at load {factor}", partial(units_of(instance).named, objective=objective)) as progress:
        found = best_bound(instance, objective, time_limit=seconds, progress=progress)
    if found.stopped == Stop.INTERRUPTED:
        raise KeyboardInterrupt
    return found.bound or 0, found.formulation


def as_csv(rows: Rows) -> str:
    """Return the rows as CSV with a header: a column for every measure, and for each part of one (`latency_p99`)."""
    flat = [{key: row.get(key) for key in FACTS} | _flat(row.get("measures") or {}) for row in rows]
    return table_as_csv(flat, list(dict.fromkeys(key for row in flat for key in row)))


def _flat(measured: Row) -> dict[str, Any]:
    plain = {name: value for name, value in measured.items() if not isinstance(value, dict)}
    parts = {name: value for name, value in measured.items() if isinstance(value, dict)}
    return plain | {
        f"{name.removesuffix('_share')}_{part}": value for name, of in parts.items() for part, value in of.items()
    }


def _show(console: Console, rows: Rows, bounds: Rows, kept: Rows, units: Units, *, wide: bool) -> None:
    measured = [row["measures"] for row in rows if "measures" in row]
    calls = any(each["handlings"] for each in measured)
    slos = any(each["slo_attainment"] is not None for each in measured)
    names = [*BRIEF[:1], *[("latency_without_calls", "mean")] * calls, *BRIEF[1:]]
    if wide:
        names = [(name, part) for name, part in TIMES if part in ("mean", "p99") or name.startswith("normalized")]
    per = rate_unit(units)
    columns = ["load", f"rate/{per}", "policy", *(f"{SHORT[name]} {part}" for name, part in names)]
    classes = list(dict.fromkeys(name for each in measured for name in class_cells(each)))
    columns += ["SLO met"] * slos + classes + [f"good/{per}"] * (wide or not slos) + ["queue"]
    console.print(f"times in {units.time}")

    def number(value: float | None) -> str | None:
        return None if value is None else f"{value:.4g}"

    def cell(row: Row, written: str | None, beyond: str) -> str | None:
        return f"{beyond} {written}" if written is not None and row["policy"] == ANY else written

    cells = [
        [
            number(float(Fraction(row["factor"]))) if kept else str(Fraction(row["factor"])),
            number(row["rate"]),
            row["policy"],
            *(cell(row, spread(row.get("measures", {}).get(name), part, units), "≥") for name, part in names),
            *[cell(row, percent(row.get("measures", {}).get("slo_attainment")), "≤")] * slos,
            *(class_cells(row.get("measures", {})).get(name) for name in classes),
            *[number(row.get("measures", {}).get("goodput_per_second"))] * (wide or not slos),
            QUEUE[row.get("stationary")],
        ]
        for row in sorted([*rows, *bounds], key=lambda row: Fraction(row["factor"]))
    ]
    console.print(table(columns, cells, right=(0, 1, *range(3, len(columns) - 1))))
    if kept:
        console.print("the last load with enough on time; the first at which no scheduler has them")
        cells = [
            [number(float(Fraction(row["factor"]))), number(row["rate"]), row["policy"], percent(row["slo_attainment"]),
             number(row["goodput_per_second"])]
            for row in kept
        ]  # fmt: skip
        console.print(table(["load", f"rate/{per}", "policy", "SLO met", f"good/{per}"], cells, right=(0, 1, 3, 4)))
    if any(row.get("stationary") is False for row in rows):
        console.print(GROWS, soft_wrap=True)
    for row in rows:
        if "error" in row:
            console.print(f"load {Fraction(row['factor'])}: {row['error']}", soft_wrap=True)
    if not wide:
        console.print("--wide shows more columns")
