"""Schedules for Chrome's trace viewer and Perfetto, in the Trace Event format.

A schedule is a process with threads for batches, transfers, each request (moves are instants) and each node of
contents. Counters follow the memory.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Any

import kvcore
from kvcore.account import Period, account, contents_curve, forgets_of, residence, savings
from kvcore.files import write_text
from kvcore.trace import BatchTrace, RequestTrace, Trace

STEPS = 50_000  # up to this many batch steps of all requests, each is an event; beyond, decodes without a break are one
BATCHES, TRANSFERS, FIRST = 1, 2, 3  # the threads of a process; those of the requests start at FIRST
Event = dict[str, Any]


def write_trace_events(target: str, schedules: Sequence[tuple[str, Trace]]) -> None:
    """Write the labelled schedules as one file, which https://ui.perfetto.dev and chrome://tracing open."""
    events = [event for pid, (label, trace) in enumerate(schedules, 1) for event in trace_events(label, trace, pid)]
    lines = ",\n".join(json.dumps(event, ensure_ascii=False, separators=(",", ":")) for event in events)
    about = json.dumps({"made_by": f"kvbound {kvcore.__version__}"})
    write_text(target, f'{{"displayTimeUnit":"ms","otherData":{about},"traceEvents":[\n{lines}\n]}}')


def trace_events(label: str, trace: Trace, pid: int = 1) -> Iterator[Event]:
    """Yield the events of a schedule, as the process `pid`."""
    tick = trace.instance.tick_seconds * 10**6
    each = sum(span.length for request in trace.requests for span in request.spans) <= STEPS
    yield _name("process_name", pid, 0, label)
    for event in _events(trace, each):
        event["pid"] = pid
        for key in ("ts", "dur"):
            if key in event:
                event[key] = _microseconds(event[key], tick)
        yield event


def _events(trace: Trace, each: bool) -> Iterator[Event]:
    yield _name("thread_name", 0, BATCHES, "batches")
    yield from _batches(trace, each)
    if any(request.moves for request in trace.requests):
        yield _name("thread_name", 0, TRANSFERS, "transfers")
    saved = [dict[int, int]() for _ in trace.requests]
    for saving in savings(trace):
        saved[saving.position][saving.batch] = saving.ticks
    for tid, (request, periods) in enumerate(account(trace), FIRST):
        yield _name("thread_name", 0, tid, request.request.id)
        yield from _work(trace, periods, tid, each)
        yield from _calls(request, tid)
        yield from _moves(trace, request, tid, saved[tid - FIRST])
    if trace.instance.contents:
        yield from _contents(trace, FIRST + len(trace.requests), each)
    yield from _counter("device memory", trace.memory_curve())
    yield from _counter("host memory", trace.host_curve())


def _batches(trace: Trace, each: bool) -> Iterator[Event]:
    """Runs of batches of the same decodes have the features and the memory of the first."""
    number = 0
    for run in trace.runs:
        whole = BatchTrace(run.start, run.ends[-1] - run.start, run.features, run.devices[0], 0, run.host)
        for batch in run.batches() if each else (whole,):
            features = {name: value for name, value in batch.features._asdict().items() if value}
            args = {"batch": number, "device": batch.device, "host": batch.host, **features}
            together = 1 if each else len(run.ends)
            if together > 1:
                args["last_batch"] = number + together - 1
            yield _complete(BATCHES, "batch" if together == 1 else "batches", "batch", batch.start, batch.end, args)
            number += together


def _work(trace: Trace, periods: Iterable[Period], tid: int, each: bool) -> Iterator[Event]:
    for decodes, some in groupby(periods, lambda period: period.work is not None and period.work.phase == "decode"):
        steps = [step for period in some if period.work for step in period.work.steps()]
        for together in [steps] if decodes and not each else [[step] for step in steps]:
            first, last = together[0], together[-1]
            args = {"batch": first.batch, "tokens": sum(step.tokens for step in together), "resident": first.resident,
                    "recomputed": sum(step.recomputed for step in together)}  # fmt: skip
            if first != last:
                args["last_batch"] = last.batch
            start, end = trace.batches[first.batch].start, trace.batches[last.batch].end
            yield _complete(tid, "recompute" if first.recomputed else first.phase, "work", start, end, args)


def _calls(request: RequestTrace, tid: int) -> Iterator[Event]:
    for k, call in enumerate(request.calls, 1):
        args = {"call": k, "handling": call.handling, "held": call.held}
        yield _complete(tid, f"call: {call.handling}", "call", call.start, call.end, args)


def _moves(trace: Trace, request: RequestTrace, tid: int, saved: Mapping[int, int]) -> Iterator[Event]:
    for move in request.moves:
        batch = trace.batches[move.batch]
        args = {"request": request.request.id, "batch": move.batch, "tokens": move.tokens}
        if move.kind == "reuse":
            args["ticks_saved"] = saved[move.batch]
        if move.kind in ("drop", "reuse"):
            yield _instant(move.kind, tid, batch.start, args)
        else:
            name = move.kind.replace("_", " ")
            yield _complete(TRANSFERS, f"{name} {request.request.id}", "transfer", batch.start, batch.end, args)


def _contents(trace: Trace, tid: int, each: bool) -> Iterator[Event]:
    yield _name("thread_name", 0, tid, "forgets")
    for j, blocks in forgets_of(trace).items():
        for node, k in blocks.items():
            yield _instant("forget", tid, trace.batches[j].start, {"node": node, "batch": j, "blocks": k})
    curve = contents_curve(trace)
    yield from _counter("contents", [(tick, tokens) for tick, tokens, _ in curve])
    yield from _counter("contents, retained", [(tick, tokens) for tick, _, tokens in curve])
    for more, (node, rows) in enumerate(residence(trace).items() if each else (), 1):
        yield _name("thread_name", 0, tid + more, f"contents: {node}")
        for row in rows:
            if row.blocks:
                name = f"{row.blocks} block{'s' * (row.blocks > 1)}: {', '.join(row.holders) or 'retained'}"
                args = {"blocks": row.blocks, "retained": row.retained, "holders": dict(row.holders)}
                yield _complete(tid + more, name, "contents", row.start, row.end, args)


def _counter(name: str, curve: Sequence[tuple[int, int]]) -> Iterator[Event]:
    before = 0
    for tick, tokens in curve:
        if tokens != before:
            yield {"ph": "C", "name": name, "tid": 0, "ts": tick, "args": {"tokens": tokens}}
        before = tokens


def _instant(name: str, tid: int, tick: int, args: dict[str, Any]) -> Event:
    return {"ph": "i", "s": "t", "name": name, "cat": "move", "tid": tid, "ts": tick, "args": args}


def _complete(tid: int, name: str, category: str, start: int, end: int, args: dict[str, Any]) -> Event:
    return {"ph": "X", "name": name, "cat": category, "tid": tid, "ts": start, "dur": end - start, "args": args}


def _name(what: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _microseconds(ticks: int, tick: Fraction) -> int | float:
    whole, rest = divmod(ticks * tick.numerator, tick.denominator)
    return whole + rest / tick.denominator if rest else whole
