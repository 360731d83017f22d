"""Load: the same requests, arriving faster or slower, under several policies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from typing import Any

from heuristics.engine.run import PolicyError, Unsuited, trace_policy
from heuristics.registry import get_policy
from kvcore.errors import BadInput
from kvcore.instance import LIMIT, Instance
from kvcore.summary import summary


def scaled(instance: Instance, factor: Fraction) -> Instance:
    """Return the instance with its load multiplied by `factor`: arrivals at 1/factor of their ticks, rounded down.

    Everything else is as it was, so that a Poisson process stays one, and loads are compared on the same requests.

    Raises:
        BadInput: the factor is not above 0, or an arrival would be beyond what an instance may hold.
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
    """Return the arrivals per second: requests over the time up to the last arrival; None if all arrive at once."""
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

    `jobs` processes run at once. `window` is what `kvcore.summary` takes.
    """
    cases = [(instance, factor, policy, window) for factor in factors for policy in policies]
    if jobs == 1:
        yield from map(_row, cases)
        return
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        yield from pool.map(_row, cases)


def _row(case: tuple[Instance, Fraction, str, Fraction | None]) -> dict[str, Any]:
    instance, factor, name, window = case
    loaded, policy = scaled(instance, factor), get_policy(name)
    arrivals = rate(loaded)
    row = {"factor": str(factor), "rate": None if arrivals is None else float(arrivals), "policy": policy.name}
    try:
        return row | {"measures": summary(trace_policy(loaded, policy), window)}
    except (PolicyError, Unsuited) as error:
        return row | {"error": str(error)}
