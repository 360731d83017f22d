"""Short names for writing small instances and schedules by hand in tests."""

from __future__ import annotations

from typing import Any

from kvcore import Batch, Call, Cost, CostFunction, Instance, Machine, Request, Schedule, Segment


def request(id: str, prompt: int, *segments: int | tuple[Any, ...], **more: Any) -> Request:
    """A request; a segment is `decode`, or `(decode, duration, returns, handling)` where a call ends it."""
    made = []
    for segment in segments:
        if isinstance(segment, int):
            made.append(Segment(decode=segment))
        else:
            decode, duration, returns, handling = segment
            made.append(Segment(decode=decode, call=Call(duration=duration, returns=returns, handling=handling)))
    return Request(id=id, prompt=prompt, segments=tuple(made), **more)


def simple(
    id: str, prompt: int, *decodes: int, duration: int = 3, returns: int = 0, handling: str = "free", **more: Any
) -> Request:
    """A request with calls that are alike between its segments."""
    return request(id, prompt, *((decode, duration, returns, handling) for decode in decodes[:-1]), decodes[-1], **more)


def instance(*requests: Request, cost: tuple[CostFunction, ...] | None = None, **machine: Any) -> Instance:
    """An instance on a machine with no limits except those given."""
    machine = {"memory": None, "host_memory": None} | machine
    return Instance(machine=Machine(**machine), cost=Cost(cost) if cost else Cost.unit(), requests=requests)


def batch(
    start: int, drop: dict | None = None, out: dict | None = None, back: dict | None = None, **work: int
) -> Batch:
    """A batch; work is given as `R1=3`; `out` and `back` are its swap_out and swap_in."""
    return Batch(start=start, work=work, drop=drop or {}, swap_out=out or {}, swap_in=back or {})


def schedule(instance: Instance, *batches: Batch) -> Schedule:
    return Schedule(instance_sha256=instance.sha256, batches=batches)
