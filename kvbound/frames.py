"""Traces, results, comparisons and sweeps as tables of pandas."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from kvbound.comparison import Comparison
from kvcore.errors import BadInput, MissingTool
from kvcore.metrics import flow_time, ttft
from kvcore.result import Result
from kvcore.trace import RequestTrace, Trace
from sweeps import Sweep

Rows = Iterable[dict[str, Any]]
NESTED = ("handling", "completion", "ladder", "log")
"""Keys of a row that have an entry for each call, request, method or event: tables of their own."""


def to_dataframe(thing: Trace | Result | Comparison | Sweep | Rows, view: str | None = None) -> Any:
    """Return a pandas DataFrame; integers stay exact, and so do fractions, in text.

    Of a Trace `requests` (the default) or `batches`, in ticks and tokens; of a Result its `row`, its `ladder` of bounds
    (the default where there is no schedule), the `log` of a solve, `requests` or `batches`; of a Comparison its `rows`
    or `ladder`; of a Sweep its `cells` or `summary`. Rows in dictionaries, as of `heuristics.load.load_rows`, are taken
    as they are.

    Raises:
        BadInput: there is no such view, or nothing that makes a table.
        MissingTool: pandas is not installed.
    """
    views = next((views for kind, views in VIEWS.items() if isinstance(thing, kind)), None)
    if views is None:
        if not isinstance(thing, list | tuple) or not all(isinstance(row, dict) for row in thing):
            raise BadInput(f"a Trace, Result, Comparison, Sweep or rows make a table, not a {type(thing).__name__}")
        views = {"rows": list}
    only_bound = isinstance(thing, Result) and thing.trace is None and "ladder" in thing.extra
    chosen = view or ("ladder" if only_bound else next(iter(views)))
    if chosen not in views:
        raise BadInput(f"a {type(thing).__name__} has no table {chosen!r}; it has {', '.join(views)}")
    rows = [{key: cell for key, cell in row.items() if key not in NESTED} for row in views[chosen](thing)]
    try:
        pandas = import_module("pandas")
    except ImportError:
        raise MissingTool("tables need pandas, which is not installed: pip install 'kvbound[pandas]'") from None
    frame = pandas.json_normalize(rows)
    for name in frame:
        cells = [row.get(name) for row in rows]
        whole = [isinstance(cell, int) and abs(cell) < 2**63 for cell in cells]
        if any(whole) and cells.count(None) == whole.count(False) > 0:
            frame[name] = pandas.array(cells, dtype="Int64")  # where one is missing, the others would become floats
    return frame


def _requests(trace: Trace) -> Rows:
    return [_request(each) for each in trace.requests]


def _request(trace: RequestTrace) -> dict[str, Any]:
    request = trace.request
    return {
        "request": request.id, "arrival": request.arrival, "prompt": request.prompt, "output": request.output,
        "calls": len(request.calls), "call_time": request.call_time, "first_token": trace.first_token,
        "completion": trace.completion, "ttft": ttft(trace), "flow_time": flow_time(trace),
        "recomputed": sum(span.recomputed for span in trace.spans),
    }  # fmt: skip


def _batches(trace: Trace) -> Rows:
    for batch in trace.batches:
        row = {"start": batch.start, "end": batch.end, "device": batch.device, "host": batch.host}
        yield row | batch.features._asdict()


def _held(result: Result) -> Trace:
    if result.trace is None:
        raise BadInput(f"the result holds no schedule: {result.status}, {result.stopped}")
    return result.trace


VIEWS: dict[type, dict[str, Callable[[Any], Rows]]] = {
    Trace: {"requests": _requests, "batches": _batches},
    Result: {
        "row": lambda result: [result.to_json()],
        "ladder": lambda result: result.extra.get("ladder", []),
        "log": lambda result: result.extra.get("log", []),
        "requests": lambda result: _requests(_held(result)),
        "batches": lambda result: _batches(_held(result)),
    },
    Comparison: {"rows": Comparison.rows, "ladder": Comparison.ladder_rows},
    Sweep: {"cells": lambda sweep: sweep.flat, "summary": lambda sweep: [line.to_json() for line in sweep.summary]},
}
"""The tables of each kind, the default first."""
