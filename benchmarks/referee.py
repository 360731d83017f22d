"""How fast the referee is: a million request-batch steps, with plain decoding and with calls in blocks."""

import statistics
import time
from collections.abc import Callable
from typing import Any

from kvcore import Batch, Call, Instance, Machine, Request, Schedule, Segment, verify_schedule

REQUESTS, BATCHES = 100, 10_000


def plain() -> tuple[Instance, Schedule]:
    """A hundred requests that decode side by side for ten thousand batches."""
    requests = tuple(Request(id=f"R{i}", prompt=5, segments=(Segment(decode=BATCHES),)) for i in range(REQUESTS))
    instance = Instance(name="plain", machine=Machine(memory=None), requests=requests)
    batches = tuple(Batch(start=j, work={f"R{i}": 1 if j else 5 for i in range(REQUESTS)}) for j in range(BATCHES))
    return instance, Schedule(instance_sha256=instance.sha256, batches=batches)


def with_calls() -> tuple[Instance, Schedule]:
    """The same with a preserved call of no duration after every tenth token, in blocks of 16."""
    call = Call(duration=0, returns=1, handling="preserve")
    segments = (*(Segment(decode=10, call=call) for _ in range(BATCHES // 10 - 1)), Segment(decode=10))
    requests = tuple(Request(id=f"R{i}", prompt=5, segments=segments) for i in range(REQUESTS))
    instance = Instance(name="with calls", machine=Machine(memory=None, block=16), requests=requests)
    first = [5 if j == 0 else 2 if j % 10 == 0 else 1 for j in range(BATCHES)]
    batches = tuple(Batch(start=j, work={f"R{i}": first[j] for i in range(REQUESTS)}) for j in range(BATCHES))
    return instance, Schedule(instance_sha256=instance.sha256, batches=batches)


def timed(run: Callable[[], Any], repeats: int) -> tuple[Any, dict[str, float]]:
    """Run it `repeats` times; return the last result and the least, median and largest seconds."""
    seconds = []
    result = None
    for _ in range(repeats):
        started = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - started)
    return result, {
        "seconds_min": round(min(seconds), 3),
        "seconds_median": round(statistics.median(seconds), 3),
        "seconds_max": round(max(seconds), 3),
        "repeats": repeats,
    }


def run() -> list[dict[str, Any]]:
    """Measure both cases."""
    rows = []
    for make in (plain, with_calls):
        instance, schedule = make()
        trace, seconds = timed(lambda: verify_schedule(instance, schedule), 3)  # noqa: B023
        steps = sum(len(request.steps) for request in trace.requests)
        assert steps == REQUESTS * BATCHES
        rows.append({"case": instance.name, "steps": steps, **seconds})
    return rows
