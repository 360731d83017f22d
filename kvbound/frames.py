"""Traces, results, comparisons and sweeps as tables of pandas."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from kvbound.comparison import Comparison
from kvcore.errors import BadInput, needed
from kvcore.files import write_text
from kvcore.metrics import Value, flow_time, is_late, ttft
from kvcore.result import LogEntry, Result, Rung
from kvcore.trace import RequestTrace, Trace
from sweeps import Sweep
from sweeps.export import as_csv

Rows = Iterable[dict[str, Any]]
NESTED = ("handling", "completion", "ladder", "log")
"""Keys of a row with an entry for each call, request, method or event: tables of their own."""
SPREADS = ("latency", "latency_without_calls", "ttft", "tpot", "normalized_latency")
PARTS = ("mean", "p50", "p99")
PER_TOKEN = ("tpot", "normalized_latency")
SHARES = ("slo_attainment_by_class", "waste_share", "handlings")
FRACTION = re.compile(r"-?\d+(/\d+)?")


def to_dataframe(thing: Trace | Result | Comparison | Sweep | Rows, view: str | None = None) -> Any:
    """Return a pandas DataFrame of numbers, with the unit in the name of each column, such as `latency_p99_seconds`.

    A tick without a length is one second. Views: of a Trace `requests` (the default) or `batches`; of a Result its
    `row`, its `ladder` of bounds (the default without a schedule), the `log` of a solve, `requests` or `batches`; of a
    Comparison its `rows` or `ladder`; of a Sweep its `cells` or `summary`. The view `json` of a Result or a Comparison
    has all that JSON has, in ticks.

    Raises:
        BadInput: there is no such view, or nothing that makes a table.
        MissingTool: pandas is not installed.
    """
    views = next((views for kind, views in VIEWS.items() if isinstance(thing, kind)), None)
    if views is None:
        if not isinstance(thing, list | tuple) or not all(isinstance(row, dict) for row in thing):
            raise BadInput(f"a Trace, Result, Comparison, Sweep or rows make a table, not a {type(thing).__name__}")
        views = {"rows": list}
    only_bound = isinstance(thing, Result) and thing.trace is None and thing.ladder is not None
    chosen = view or ("ladder" if only_bound else next(iter(views)))
    if chosen not in views:
        raise BadInput(f"a {type(thing).__name__} has no table {chosen!r}; it has {', '.join(views)}")
    rows = [{key: cell for key, cell in row.items() if key not in NESTED} for row in views[chosen](thing)]
    pandas = needed("pandas", "tables need pandas", "'kvbound[pandas]'")
    frame = pandas.json_normalize(rows)
    for name in frame:
        cells = [row.get(name) for row in rows]
        given = [cell for cell in cells if cell is not None]
        whole = [isinstance(cell, int) and abs(cell) < 2**63 for cell in given]
        if given and all(whole) and len(given) < len(cells):
            frame[name] = pandas.array(cells, dtype="Int64")  # where one is missing, the others would become floats
        elif given and any("/" in str(cell) for cell in given) and all(FRACTION.fullmatch(str(cell)) for cell in given):
            frame[name] = [None if cell is None else float(Fraction(cell)) for cell in cells]
    return frame


def write_rows(file: str, rows: Rows) -> None:
    """Write rows of `simulate` or `compare` as CSV or, by the name, as parquet (MissingTool: pandas or pyarrow)."""
    flat = [_row(row) for row in rows]
    if file.endswith(".parquet"):
        frame = to_dataframe(flat)
        needed("pyarrow", "parquet needs pyarrow", "pyarrow")
        frame.to_parquet(file)
        return
    cells = [{key: "" if cell != cell else cell for key, cell in row.items()} for row in flat]
    write_text(file, as_csv(cells, list(dict.fromkeys(key for row in flat for key in row))))


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("label", "group", "instance", "objective", "policy", "status", "error")
    facts = {name: row[name] for name in names if name in row}
    facts |= _values(row, row["objective"], Fraction(row["tick_seconds"]), "value", "mean", "bound")
    facts |= {"gap": _number(row["gap"])}
    facts |= {f"ratio_{kind.replace('-', '_')}": _number(of) for kind, of in row.get("ratio_to_bound", {}).items()}
    facts |= {"found_by": row["found_by"], "proved_by": row["proved_by"], "took_seconds": row["seconds"]}
    return facts | _measured(row.get("measures") or {})


def _measured(measures: Mapping[str, Any]) -> dict[str, Any]:
    flat = {name: value for name, value in measures.items() if not isinstance(value, dict | None)}
    for name in SPREADS:
        unit = "seconds_per_token" if name in PER_TOKEN else "seconds"
        flat |= {f"{name}_{part}_{unit}": measures[name][part] for part in PARTS if measures.get(name)}
    for name in SHARES:
        flat |= {f"{name}_{part}": share for part, share in (measures.get(name) or {}).items()}
    return flat


def _values(row: Mapping[str, Any], objective: str, tick: Fraction, *names: str) -> dict[str, Any]:
    unit = {"late-requests": "requests", "normalized-latency": "seconds_per_token"}.get(objective, "seconds")
    scale = 1 if objective == "late-requests" else tick
    return {f"{name}_{unit}": _number(row[name], scale) for name in names if name in row}


def _number(value: Value | str | None, scale: Fraction | int = 1) -> float:
    return float("nan") if value is None else float(Fraction(value) * scale)


def _told(result: Result, entries: Iterable[Rung | LogEntry] | None) -> Rows:
    for entry in entries or ():
        row = {"took_seconds" if key == "seconds" else key: cell for key, cell in entry.row(result.objective).items()}
        values = _values(row, result.objective, result.instance.tick_seconds, "value", "bound")
        yield {key: cell for key, cell in row.items() if key not in ("value", "bound")} | values


def _requests(trace: Trace) -> Rows:
    return [_request(each, trace.instance.tick_seconds) for each in trace.requests]


def _request(trace: RequestTrace, tick: Fraction) -> dict[str, Any]:
    request = trace.request
    ticks = {
        "arrival": request.arrival, "call": request.call_time, "first_token": trace.first_token,
        "completion": trace.completion, "ttft": ttft(trace), "latency": flow_time(trace),
        "latency_without_calls": flow_time(trace) - request.call_time,
    }  # fmt: skip
    return {
        "request": request.id, "prompt_tokens": request.prompt, "output_tokens": request.output,
        "calls": len(request.calls), **{f"{name}_seconds": float(time * tick) for name, time in ticks.items()},
        "recomputed_tokens": sum(span.recomputed for span in trace.spans),
        **({} if request.slo is None else {"on_time": not is_late(trace)}),
        **({} if request.slo_class is None else {"slo_class": request.slo_class}),
    }  # fmt: skip


def _batches(trace: Trace) -> Rows:
    tick = trace.instance.tick_seconds
    for batch in trace.batches:
        times = {"start_seconds": float(batch.start * tick), "end_seconds": float(batch.end * tick)}
        yield times | {"device_tokens": batch.device, "host_tokens": batch.host} | batch.features._asdict()


def _held(result: Result) -> Trace:
    if result.trace is None:
        raise BadInput(f"the result holds no schedule: {result.status}, {result.stopped}")
    return result.trace


VIEWS: dict[type, dict[str, Callable[[Any], Rows]]] = {
    Trace: {"requests": _requests, "batches": _batches},
    Result: {
        "row": lambda result: [_row(result.to_json())],
        "ladder": lambda result: _told(result, result.ladder),
        "log": lambda result: _told(result, result.log),
        "requests": lambda result: _requests(_held(result)),
        "batches": lambda result: _batches(_held(result)),
        "json": lambda result: [result.to_json()],
    },
    Comparison: {
        "rows": lambda comparison: map(_row, comparison.rows()),
        "ladder": lambda comparison: map(_row, comparison.ladder_rows()),
        "json": Comparison.rows,
    },
    Sweep: {"cells": lambda sweep: sweep.flat, "summary": lambda sweep: [line.to_json() for line in sweep.summary]},
}
