"""Objectives and reported measures of a trace, all exact: integers in ticks and tokens, or fractions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from math import lcm
from typing import Any

from kvcore.errors import BadInput, did_you_mean
from kvcore.instance import Request
from kvcore.trace import RequestTrace, Trace

Value = int | Fraction


def makespan(trace: Trace) -> int:
    """Return the last completion."""
    return max(request.completion for request in trace.requests)


def busy_time(trace: Trace) -> int:
    """Return the sum of the batch durations (INFERMAX's total latency)."""
    return sum(run.ends[-1] - run.start for run in trace.runs)


def flow_time(request: RequestTrace) -> int:
    """Return completion - arrival, the end-to-end latency of one request."""
    return request.completion - request.request.arrival


def ttft(request: RequestTrace) -> int:
    """Return the end of the batch that generates the first token, minus the arrival."""
    return request.first_token - request.request.arrival


def tpot(request: RequestTrace) -> Fraction | None:
    """Return (completion - first token) / (outputs - 1), the time per output token; None for a single output."""
    if request.request.output == 1:
        return None
    return Fraction(request.completion - request.first_token, request.request.output - 1)


def normalized(request: RequestTrace) -> Fraction:
    """Return the flow time of one request over the number of tokens that it generates."""
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
    """Return the number of requests with an SLO strictly exceeded."""
    return sum(is_late(request) for request in trace.requests)


def normalized_latency(trace: Trace) -> Fraction:
    """Return the sum over requests of (completion - arrival) / (tokens generated)."""
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
"""All objectives, by the name that commands and files use; all are minimised."""

ALSO = {
    **dict.fromkeys(("latency", "mean-latency", "total-latency", "flow-time", "mean-flow-time"), "total-flow-time"),
    **dict.fromkeys(("weighted-latency", "mean-weighted-latency"), "weighted-flow-time"),
    **dict.fromkeys(("max-latency", "worst-latency"), "max-flow-time"),
    **dict.fromkeys(("ttft", "mean-ttft"), "total-ttft"),
    **dict.fromkeys(("slo", "slo-attainment", "late", "slo-violations"), "late-requests"),
    **dict.fromkeys(("mean-normalized-latency", "latency-per-token"), "normalized-latency"),
}
"""Other names for which commands take an objective: the same schedules are best."""

MEASURED = {"p50", "p90", "p95", "p99", "median", "tpot", "throughput", "goodput"}
"""Words of measures for which no optimum is sought."""

SUMS = ("total-flow-time", "weighted-flow-time", "total-ttft", "normalized-latency")
"""Objectives that are sums over requests, so that a mean makes sense."""


def weight(request: Request, objective: str) -> Fraction:
    """Return what a tick of the flow time (for total-ttft: of the TTFT) of a request adds to an objective of `SUMS`."""
    return {
        "total-flow-time": Fraction(1),
        "total-ttft": Fraction(1),
        "weighted-flow-time": Fraction(request.weight),
        "normalized-latency": Fraction(1, request.output),
    }[objective]


def scale_of(requests: Iterable[Request], objective: str) -> int:
    """Return what makes the objective whole if it is multiplied by it: for averages, the outputs' common multiple."""
    return lcm(*(request.output for request in requests)) if objective == "normalized-latency" else 1


def objective_value(trace: Trace, objective: str) -> Value:
    """Return the exact value of an objective (BadInput for a name that is none)."""
    return OBJECTIVES[check_objective(objective)](trace)


def understood(objective: str) -> str:
    """Return the objective that another name for it means, such as mean-latency; else the name as it is."""
    return ALSO.get(objective.lower().replace("_", "-"), objective)


def check_objective(objective: str) -> str:
    """Return the objective's name, or raise BadInput with the names there are."""
    if objective not in OBJECTIVES:
        near = f"; is it {ALSO[objective]}?" if objective in ALSO else did_you_mean(objective, [*OBJECTIVES, *ALSO])
        if set(objective.lower().replace("_", "-").split("-")) & MEASURED:
            near = "; `kvbound compare` and `kvbound load` measure it, nothing minimises it"
        raise BadInput(f"no objective is called {objective!r}{near}; there are {', '.join(OBJECTIVES)}")
    return objective


def measures(trace: Trace) -> dict[str, Any]:
    """Return everything that is reported about a trace, as JSON-ready values (fractions as text).

    Times are in ticks, throughput and goodput in tokens and requests per tick of makespan, waste in token-ticks.
    """
    requests = trace.requests
    end = makespan(trace)
    generated = sum(request.request.output for request in requests)
    return {
        **{name: _json(objective(trace)) for name, objective in OBJECTIVES.items()},
        "requests": {request.request.id: _request_measures(request) for request in requests},
        "throughput": _json(Fraction(generated, end)),
        "goodput": _json(Fraction(len(requests) - late_requests(trace), end)),
        "batches": sum(len(run.ends) for run in trace.runs),
        "peak_memory": max(run.devices[-1] for run in trace.runs),
        **token_counts(trace),
        "waste": trace.waste.parts(),
    }


def token_counts(trace: Trace) -> dict[str, int]:
    """Return the tokens that were processed, those of them that had been before, and those swapped."""
    return {
        "tokens_processed": sum(run.features.tokens * len(run.ends) for run in trace.runs),
        "tokens_recomputed": sum(span.recomputed for request in trace.requests for span in request.spans),
        "tokens_swapped_out": sum(run.features.swap_out_tokens for run in trace.runs),
        "tokens_swapped_in": sum(run.features.swap_in_tokens for run in trace.runs),
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
    """Return how each call was handled, by `request/call` (calls counted from 1)."""
    return {
        f"{request.request.id}/{k}": call.handling
        for request in trace.requests
        for k, call in enumerate(request.calls, 1)
    }


def completions(trace: Trace) -> dict[str, int]:
    """Return the completion of each request, in ticks."""
    return {request.request.id: request.completion for request in trace.requests}
