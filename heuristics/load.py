"""Load: the same requests, arriving faster or slower, under several policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from itertools import pairwise
from typing import Any

from heuristics.engine.run import PolicyError, Unsuited, trace_policy
from heuristics.registry import get_policy
from kvcore.errors import BadInput
from kvcore.instance import LIMIT, Instance
from kvcore.metrics import summary
from kvcore.trace import Trace

WINDOWS, WARM_UP = 10, 2
ENOUGH = 50
"""Fewest requests for which `queue_grows` answers."""
SIGNIFICANCE = 0.01
HALVINGS = 5
"""Of the gap between a load with enough requests on time and one without."""


def scaled(instance: Instance, factor: Fraction) -> Instance:
    """Return the instance with its load multiplied by `factor`: arrivals at 1/factor of their ticks, rounded down.

    A Poisson process stays one.

    Raises:
        BadInput: the factor is not above 0, or an arrival would be beyond the limit of an instance.
    """
    if factor <= 0:
        raise BadInput(f"a load is multiplied by a number above 0, not {factor}")
    if any(request.arrival / factor > LIMIT for request in instance.requests):
        raise BadInput(f"{factor} puts arrivals beyond tick {LIMIT}")
    if factor == 1:
        return instance
    requests = tuple(request.replace(arrival=int(request.arrival / factor)) for request in instance.requests)
    return instance.replace(name=f"{instance.name}, load x {factor}", requests=requests)


def rate(instance: Instance) -> Fraction | None:
    """Return the arrivals per second up to the last arrival; None if all arrive at once."""
    last = max(request.arrival for request in instance.requests)
    return len(instance.requests) / (last * instance.tick_seconds) if last else None


def load_rows(
    instance: Instance,
    policies: Sequence[str],
    factors: Iterable[Fraction],
    *,
    window: Fraction | None = None,
    jobs: int = 1,
) -> Iterator[dict[str, Any]]:
    """Yield a row for each load and policy, in that order: `factor`, `rate`, `policy`, and `measures` or `error`.

    With measures comes `stationary`: False where `queue_grows`, None for too few requests. `jobs` processes run at
    once; `kvcore.metrics.summary` takes `window`.
    """
    cases = [(instance, factor, policy, window) for factor in factors for policy in policies]
    if jobs == 1:
        yield from map(_row, cases)
        return
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        yield from pool.map(_row, cases)


def last_kept(
    rows: Sequence[Mapping[str, Any]], share: float, run: Callable[[Fraction], dict[str, Any]]
) -> Iterator[Any]:
    """Yield rows between the last load at which so large a share is on time and the next, by bisection.

    All rows are of one policy, or of the bound; `run` makes one. There is none if all keep the share, or none does.
    """
    low = max((Fraction(row["factor"]) for row in rows if keeps(row, share)), default=Fraction(0))
    high = min((Fraction(row["factor"]) for row in rows if Fraction(row["factor"]) > low), default=low)
    for _ in range(HALVINGS if 0 < low < high else 0):
        row = run(middle := (low + high) / 2)
        low, high = (middle, high) if keeps(row, share) else (low, middle)
        yield row


def keeps(row: Mapping[str, Any], share: float) -> bool:
    """Whether at least this share is on time."""
    return (row.get("measures", {}).get("slo_attainment") or 0.0) >= share


def queue_grows(trace: Trace, window: Fraction | None = None) -> bool | None:
    """Return whether the requests that want the device become more over the run, so that its percentiles mean nothing.

    The time from the first arrival to the last (or to the end of the `window`, seconds) is cut into ten equal parts,
    without the first two, in which an empty system fills. The mean number of requests that have arrived, are not done
    and are in no call has to rise by the test of Mann and Kendall (one-sided, 1 %), and to more than twice as many.
    None for fewer than 50 requests, or if all arrive at once.
    """
    from scipy.stats import kendalltau  # loading it takes a while

    arrivals = [request.request.arrival for request in trace.requests]
    first, last = min(arrivals), max(arrivals)
    if window is not None:
        last = min(last, int(window / trace.instance.tick_seconds))
    if sum(arrival <= last for arrival in arrivals) < ENOUGH or first == last:
        return None
    edges = [first + Fraction((last - first) * k, WINDOWS) for k in range(WARM_UP, WINDOWS + 1)]
    there = [(request.request.arrival, request.completion) for request in trace.requests]
    called = [(call.start, call.end) for request in trace.requests for call in request.calls]
    sums = [_overlap(there, start, end) - _overlap(called, start, end) for start, end in pairwise(edges)]
    rises = kendalltau(range(len(sums)), sums, alternative="greater").pvalue < SIGNIFICANCE
    return bool(rises and sums[-1] > 2 * sums[0])


def _overlap(spans: Iterable[tuple[int, int]], start: Fraction, end: Fraction) -> Fraction:
    within = (min(end, Fraction(b)) - max(start, Fraction(a)) for a, b in spans)
    return sum((ticks for ticks in within if ticks > 0), Fraction(0))


def _row(case: tuple[Instance, Fraction, str, Fraction | None]) -> dict[str, Any]:
    instance, factor, name, window = case
    loaded, policy = scaled(instance, factor), get_policy(name)
    arrivals = rate(loaded)
    row = {"factor": str(factor), "rate": None if arrivals is None else float(arrivals), "policy": policy.name}
    try:
        trace = trace_policy(loaded, policy)
        grows = queue_grows(trace, window)
        return row | {"measures": summary(trace, window), "stationary": None if grows is None else not grows}
    except (PolicyError, Unsuited) as error:
        return row | {"error": str(error)}
