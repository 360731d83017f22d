"""What is reported of a schedule of many requests: means, percentiles, throughput, goodput, waste, in seconds.

The measures of single requests are exact (`kvcore.metrics`); their means and percentiles are given as floats, for
people and plots. Nothing is decided with them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from kvcore.errors import BadInput
from kvcore.metrics import Value, busy_time, handlings, is_late, makespan, token_counts, tpot, ttft
from kvcore.trace import RequestTrace, Trace

PERCENTILES = (50, 95, 99)


def summary(trace: Trace, window: Fraction | None = None) -> dict[str, Any]:
    """Return the measures of a trace as JSON-ready values; times in seconds, shares between 0 and 1.

    With a `window` (seconds from tick 0) it is what is seen where the clock stops then: the requests that have
    arrived count, and one that is not done counts with the time it has waited so far; it is never left out. Latency,
    normalized latency and TTFT are then lower bounds on the true ones, `unfinished` says for how many.

    Raises:
        BadInput: no request has arrived in the window.
    """
    seconds = trace.instance.tick_seconds
    end = makespan(trace) if window is None else int(window / seconds)
    requests = [request for request in trace.requests if request.request.arrival <= end]
    if not requests:
        raise BadInput(f"no request arrives within {float(window or 0):g} s")
    done = [request for request in requests if request.completion <= end]
    good = sum(not is_late(request) for request in done)
    wall = float(max(1, end) * seconds)
    generated = sum(request.request.output for request in done)
    return {
        "requests": len(requests),
        "unfinished": len(requests) - len(done),
        **{name: _spread(values, seconds) for name, values in _times(requests, end).items()},
        "requests_per_second": len(done) / wall,
        "tokens_per_second": generated / wall,
        "goodput_per_second": good / wall,
        "slo_attainment": good / len(requests) if any(request.request.slo for request in requests) else None,
        **_work(trace),
        "handlings": dict(sorted(Counter(handlings(trace).values()).items())),
    }


def _times(requests: Sequence[RequestTrace], end: int) -> dict[str, list[Value]]:
    """Return the measures of the requests up to tick `end`, in ticks or ticks per token."""
    flows = [min(request.completion, end) - request.request.arrival for request in requests]
    calls = [_called(request, end) for request in requests]
    outputs = [request.request.output for request in requests]
    several = [request for request in requests if request.request.output > 1 and request.completion <= end]
    rests = [request.request.output - 1 for request in several]
    waits: list[Value] = [end - r.request.arrival if r.first_token > end else ttft(r) for r in requests]
    return {
        "latency": list(flows),
        "latency_without_calls": [flow - called for flow, called in zip(flows, calls, strict=True)],
        "ttft": waits,
        "tpot": [value for request in several if (value := tpot(request)) is not None],
        "tpot_without_calls": [
            Fraction(request.completion - request.first_token - request.request.call_time, rest)
            for request, rest in zip(several, rests, strict=True)
        ],
        "normalized_latency": [Fraction(flow, output) for flow, output in zip(flows, outputs, strict=True)],
        "normalized_latency_without_calls": [
            Fraction(flow - called, output) for flow, called, output in zip(flows, calls, outputs, strict=True)
        ],
    }


def _called(request: RequestTrace, end: int) -> int:
    """Return the ticks that it has spent in calls up to `end`."""
    return sum(max(0, min(call.end, end) - call.start) for call in request.calls)


def _spread(values: Iterable[Value], seconds: Fraction) -> dict[str, float] | None:
    """Return mean, percentiles (nearest rank) and maximum in seconds; None if there is no value."""
    ordered = sorted(float(value * seconds) for value in values)
    if not ordered:
        return None
    ranks = {f"p{p}": ordered[-(-len(ordered) * p // 100) - 1] for p in PERCENTILES}
    return {"mean": sum(ordered) / len(ordered), **ranks, "max": ordered[-1]}


def _work(trace: Trace) -> dict[str, Any]:
    """Return what the whole schedule processed, moved and wasted."""
    tokens = token_counts(trace)
    capacity = (trace.instance.machine.memory or 0) * makespan(trace)
    return {
        "batches": sum(len(run.ends) for run in trace.runs),
        "busy_seconds": float(busy_time(trace) * trace.instance.tick_seconds),
        "evictions": evictions(trace),
        **tokens,
        "recomputed_share": tokens["tokens_recomputed"] / tokens["tokens_processed"],
        "waste_share": {part: ticks / capacity for part, ticks in trace.waste.parts().items()} if capacity else None,
    }


def evictions(trace: Trace) -> int:
    """Return how often KV was dropped or swapped out other than between a call's start and the next work."""
    return sum(_evictions(request) for request in trace.requests if request.moves)


def _evictions(request: RequestTrace) -> int:
    worked = [span.batch for span in request.spans]
    windows = [(call.batch, worked[bisect_right(worked, call.batch)]) for call in request.calls]
    moved = [move.batch for move in request.moves if move.kind != "swap_in"]
    return sum(not any(start < batch <= end for start, end in windows) for batch in moved)
