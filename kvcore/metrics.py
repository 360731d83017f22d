"""Objectives and reported measures of a trace.

Objectives and measures of single requests are exact: integers, or fractions. Means and percentiles of `summary` are
floats, for people and plots.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from math import ceil, lcm
from operator import sub
from typing import Any, NamedTuple

from kvcore.account import memory_waste
from kvcore.errors import BadInput, did_you_mean
from kvcore.instance import Instance, Request, Slo
from kvcore.trace import RequestTrace, Trace

Value = int | Fraction

PERCENTILES = (50, 95, 99)


def makespan(trace: Trace) -> int:
    """Return the last completion."""
    return max(request.completion for request in trace.requests)


def busy_time(trace: Trace) -> int:
    """Return the sum of the batch durations (INFERMAX's total latency)."""
    return sum(run.ends[-1] - run.start for run in trace.runs)


def flow_time(request: RequestTrace) -> int:
    """Return completion - arrival of one request."""
    return request.completion - request.request.arrival


def ttft(request: RequestTrace) -> int:
    """Return the time to first token: the end of its batch - arrival."""
    return request.first_token - request.request.arrival


def tpot(request: RequestTrace) -> Fraction | None:
    """Return (completion - first token) / (outputs - 1), or None for a single output."""
    if request.request.output == 1:
        return None
    return Fraction(request.completion - request.first_token, request.request.output - 1)


def normalized(request: RequestTrace) -> Fraction:
    """Return one request's flow time over its tokens."""
    return Fraction(flow_time(request), request.request.output)


def is_late(request: RequestTrace) -> bool:
    """Whether any given SLO is strictly exceeded."""
    slo = request.request.slo
    if slo is None:
        return False
    time_per_token = tpot(request)
    return (
        (slo.ttft is not None and ttft(request) > slo.ttft)
        or (slo.latency is not None and flow_time(request) > slo.latency)
        or (slo.tpot is not None and time_per_token is not None and time_per_token > slo.tpot)
        or (slo.normalized_latency is not None and normalized(request) > slo.normalized_latency)
    )


def total_flow_time(trace: Trace) -> int:
    """Return the sum of completion - arrival; over n it is the mean end-to-end latency."""
    return sum(flow_time(request) for request in trace.requests)


def weighted_flow_time(trace: Trace) -> int:
    """Return the sum of weight * (completion - arrival)."""
    return sum(request.request.weight * flow_time(request) for request in trace.requests)


def max_flow_time(trace: Trace) -> int:
    """Return the largest completion - arrival."""
    return max(flow_time(request) for request in trace.requests)


def total_ttft(trace: Trace) -> int:
    """Return the sum of the times to first token."""
    return sum(ttft(request) for request in trace.requests)


def late_requests(trace: Trace) -> int:
    """Return the number of requests with an SLO exceeded."""
    return sum(is_late(request) for request in trace.requests)


def normalized_latency(trace: Trace) -> Fraction:
    """Return the sum of (completion - arrival) / (tokens generated)."""
    return sum((normalized(request) for request in trace.requests), Fraction(0))


OBJECTIVES: dict[str, Callable[[Trace], Value]] = {
    "makespan": makespan,
    "busy-time": busy_time,
    "total-flow-time": total_flow_time,
    "weighted-flow-time": weighted_flow_time,
    "max-flow-time": max_flow_time,
    "total-ttft": total_ttft,
    "late-requests": late_requests,
    "normalized-latency": normalized_latency,
}
"""The objectives by name, all minimised. Percentiles come besides: see `Tail`."""

ALSO = {
    **dict.fromkeys(("latency", "mean-latency", "total-latency", "flow-time", "mean-flow-time"), "total-flow-time"),
    **dict.fromkeys(("weighted-latency", "mean-weighted-latency"), "weighted-flow-time"),
    **dict.fromkeys(("max-latency", "worst-latency"), "max-flow-time"),
    **dict.fromkeys(("ttft", "mean-ttft"), "total-ttft"),
    **dict.fromkeys(("slo", "slo-attainment", "late", "slo-violations"), "late-requests"),
    **dict.fromkeys(("mean-normalized-latency", "latency-per-token"), "normalized-latency"),
}
"""Other names of objectives in commands: the same schedules are best."""


class Tail(NamedTuple):
    """A percentile, by nearest rank, of the flow times of n requests, or of the times to their first tokens.

    All but floor(n (100 - percent) / 100) requests take at most this long: for n < 100, p99 is the largest. It is above
    L exactly if more than these are late when each must take at most L.
    """

    percent: int
    of_first: bool

    def spared(self, n: int) -> int:
        """Return how many of n requests may take longer."""
        return n * (100 - self.percent) // 100

    def value(self, times: Sequence[int]) -> int:
        """Return the percentile of these times."""
        return sorted(times)[-1 - self.spared(len(times))]

    def due(self, instance: Instance, ticks: int) -> Instance:
        """Return the instance in which exactly those above `ticks` are late."""
        slo = Slo(ttft=ticks) if self.of_first else Slo(latency=ticks)
        return instance.replace(requests=tuple(request.replace(slo=slo) for request in instance.requests))


TAILS = ("p99-flow-time", "p99-ttft")
"""Those measured with all objectives."""


def tail_of(objective: str) -> Tail | None:
    """Return the percentile named `pNN-flow-time` or `pNN-ttft` (NN from 1 to 99), or None."""
    found = re.fullmatch("p([1-9][0-9]?)-(flow-time|ttft)", objective)
    return None if found is None else Tail(int(found[1]), found[2] == "ttft")


def spared_by(objective: str, n: int) -> int | None:
    """Return how many of n flow times may be above the objective: a percentile of them or the largest; else None."""
    tail = tail_of(objective)
    if objective == "max-flow-time":
        return 0
    return None if tail is None or tail.of_first else tail.spared(n)


MEASURED = {"median", "tpot", "throughput", "goodput"}
"""Measures without an optimum."""

RATES: dict[str, Callable[[Request], Fraction]] = {
    "total-flow-time": lambda request: Fraction(1),
    "weighted-flow-time": lambda request: Fraction(request.weight),
    "total-ttft": lambda request: Fraction(1),
    "normalized-latency": lambda request: Fraction(1, request.output),
}
"""Objective per tick of a request's flow time (total-ttft: of its TTFT)."""
SUMS = tuple(RATES)
"""Sums over requests, so that a mean makes sense."""
FLOWS = tuple(name for name in SUMS if name != "total-ttft")
"""Sums of flow times."""
AVERAGES = ("normalized-latency",)
"""Objectives with fractional values."""


def weight(request: Request, objective: str) -> Fraction:
    """Return the rate of a request in an objective of `SUMS`."""
    return RATES[objective](request)


def scale_of(requests: Iterable[Request], objective: str) -> int:
    """Return the common denominator of the rates, which makes the objective whole."""
    return lcm(*(weight(request, objective).denominator for request in requests)) if objective in AVERAGES else 1


def least_value(bound: Value, objective: str) -> Value:
    """Return a bound, rounded up where every value is whole."""
    return bound if objective in AVERAGES else ceil(bound)


def objective_value(trace: Trace, objective: str) -> Value:
    """Return the exact value of an objective. Raises BadInput."""
    tail = tail_of(check_objective(objective))
    if tail is None:
        return OBJECTIVES[objective](trace)
    return tail.value([(ttft if tail.of_first else flow_time)(request) for request in trace.requests])


def understood(objective: str) -> str:
    """Return the objective for another name, such as mean-latency; else the name."""
    name = objective.lower().replace("_", "-")
    return ALSO.get(name, name.replace("-latency", "-flow-time") if name[:1] == "p" else objective)


def check_objective(objective: str) -> str:
    """Return the objective's name, or raise BadInput with the known names."""
    if objective not in OBJECTIVES and tail_of(objective) is None:
        near = f"; is it {ALSO[objective]}?" if objective in ALSO else did_you_mean(objective, [*OBJECTIVES, *ALSO])
        if set(objective.lower().replace("_", "-").split("-")) & MEASURED:
            near = "; `kvbound compare` and `kvbound load` measure it, nothing minimises it"
        raise BadInput(f"no objective is called {objective!r}{near}; there are {', '.join((*OBJECTIVES, *TAILS))}")
    return objective


def measures(trace: Trace) -> dict[str, Any]:
    """Return all reported measures as JSON-ready values (fractions as text).

    Times are in ticks, throughput and goodput in tokens and requests per tick of makespan, waste in token-ticks.
    """
    requests = trace.requests
    end = makespan(trace)
    generated = sum(request.request.output for request in requests)
    return {
        **{name: _json(objective_value(trace, name)) for name in (*OBJECTIVES, *TAILS)},
        "requests": {request.request.id: _request_measures(request) for request in requests},
        "throughput": _json(Fraction(generated, end)),
        "goodput": _json(Fraction(len(requests) - late_requests(trace), end)),
        "batches": sum(len(run.ends) for run in trace.runs),
        "peak_memory": max(run.devices[-1] for run in trace.runs),
        **token_counts(trace),
        "waste": memory_waste(trace).parts(),
    }


def token_counts(trace: Trace) -> dict[str, int]:
    """Return the tokens processed, recomputed, swapped and (with contents) reused."""
    moves = (move for request in trace.requests for move in request.moves)
    reused = {"tokens_reused": sum(move.tokens for move in moves if move.kind == "reuse")}
    return {
        "tokens_processed": sum(run.features.tokens * len(run.ends) for run in trace.runs),
        "tokens_recomputed": sum(span.recomputed for request in trace.requests for span in request.spans),
        "tokens_swapped_out": sum(run.features.swap_out_tokens for run in trace.runs),
        "tokens_swapped_in": sum(run.features.swap_in_tokens for run in trace.runs),
        **(reused if trace.instance.contents else {}),
    }


def _request_measures(request: RequestTrace) -> dict[str, Any]:
    flow, called, output = flow_time(request), request.request.call_time, request.request.output
    time_per_token = tpot(request)
    return {
        "completion": request.completion,
        "flow_time": flow,
        "flow_time_without_calls": flow - called,
        "ttft": ttft(request),
        "tpot": None if time_per_token is None else _json(time_per_token),
        "tpot_without_calls": None if time_per_token is None else _json(time_per_token - Fraction(called, output - 1)),
        "normalized_latency": _json(normalized(request)),
        "normalized_latency_without_calls": _json(Fraction(flow - called, output)),
        "late": is_late(request),
    }


def _json(value: Value) -> int | str:
    return value if isinstance(value, int) else str(value)


def handlings(trace: Trace) -> dict[str, str]:
    """Return the handling of each call by `request/call` (calls from 1)."""
    return {
        f"{request.request.id}/{k}": call.handling
        for request in trace.requests
        for k, call in enumerate(request.calls, 1)
    }


def completions(trace: Trace) -> dict[str, int]:
    """Return the completion of each request, in ticks."""
    return {request.request.id: request.completion for request in trace.requests}


def summary(trace: Trace, window: Fraction | None = None) -> dict[str, Any]:
    """Return the measures as JSON-ready values; times in seconds, shares between 0 and 1.

    With a `window` (seconds from tick 0) the clock stops at its end: requests that have arrived count, unfinished ones
    with their wait so far. Latency, normalized latency and TTFT are then lower bounds, `unfinished` says for how many.

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
        **_attainment_by_class(requests, end),
        **_work(trace),
        "handlings": dict(sorted(Counter(handlings(trace).values()).items())),
    }


def _attainment_by_class(requests: Sequence[RequestTrace], end: int) -> dict[str, Any]:
    on_time: dict[str, list[bool]] = {}
    for request in requests:
        if (name := request.request.slo_class) is not None:
            on_time.setdefault(name, []).append(request.completion <= end and not is_late(request))
    shares = {name: sum(each) / len(each) for name, each in sorted(on_time.items())}
    return {"slo_attainment_by_class": shares} if shares else {}


def _times(requests: Sequence[RequestTrace], end: int) -> dict[str, list[tuple[int, int]]]:
    flows = [min(request.completion, end) - request.request.arrival for request in requests]
    nets = [flow - _called(request, end) for flow, request in zip(flows, requests, strict=True)]
    outputs = [request.request.output for request in requests]
    several = [request for request in requests if request.request.output > 1 and request.completion <= end]
    rests = [request.request.output - 1 for request in several]
    decodes = [request.completion - request.first_token for request in several]
    waits = [min(request.first_token, end) - request.request.arrival for request in requests]
    called = [request.request.call_time for request in several]
    return {
        "latency": [(flow, 1) for flow in flows],
        "latency_without_calls": [(net, 1) for net in nets],
        "ttft": [(wait, 1) for wait in waits],
        "tpot": [*zip(decodes, rests, strict=True)],
        "tpot_without_calls": [*zip(map(sub, decodes, called), rests, strict=True)],
        "normalized_latency": [*zip(flows, outputs, strict=True)],
        "normalized_latency_without_calls": [*zip(nets, outputs, strict=True)],
    }


def _called(request: RequestTrace, end: int) -> int:
    return sum(max(0, min(call.end, end) - call.start) for call in request.calls)


def _spread(values: Iterable[tuple[int, int]], seconds: Fraction) -> dict[str, float] | None:
    up, down = seconds.as_integer_ratio()
    ordered = sorted([ticks * up / (tokens * down) for ticks, tokens in values])  # rounded once, as a fraction is
    if not ordered:
        return None
    ranks = {f"p{p}": ordered[-(-len(ordered) * p // 100) - 1] for p in PERCENTILES}
    return {"mean": sum(ordered) / len(ordered), **ranks, "max": ordered[-1]}


def _work(trace: Trace) -> dict[str, Any]:
    tokens = token_counts(trace)
    capacity, held = (trace.instance.machine.memory or 0) * makespan(trace), memory_waste(trace).parts()
    return {
        "batches": sum(len(run.ends) for run in trace.runs),
        "busy_seconds": float(busy_time(trace) * trace.instance.tick_seconds),
        "evictions": evictions(trace),
        **tokens,
        "recomputed_share": tokens["tokens_recomputed"] / tokens["tokens_processed"],
        "waste_share": {part: ticks / capacity for part, ticks in held.items()} if capacity else None,
    }


def evictions(trace: Trace) -> int:
    """Return the number of drops and swap-outs but those between a call's start and the next work."""
    return sum(_evictions(request) for request in trace.requests if request.moves)


def _evictions(request: RequestTrace) -> int:
    worked = [span.batch for span in request.spans]
    windows = [(call.batch, worked[bisect_right(worked, call.batch)]) for call in request.calls]
    moved = [move.batch for move in request.moves if move.kind in ("drop", "swap_out")]
    return sum(not any(start < batch <= end for start, end in windows) for batch in moved)
