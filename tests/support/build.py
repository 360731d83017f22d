"""Short names for writing small instances and schedules by hand in tests."""

import re
from typing import Any

from kvcore import Batch, Call, Cost, CostFunction, Instance, Machine, Request, Schedule, Segment, Slo

MOVES = {"": "work", "-": "drop", ">": "swap_out", "<": "swap_in"}
HANDLINGS = {name[0]: name for name in ("free", "preserve", "discard", "swap")}


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


def moves_of(text: str) -> dict[str, dict[str, int]]:
    """Read a batch: work `A2`, drops `-A2`, swaps out `>A2` and in `<A2`."""
    made: dict[str, dict[str, int]] = {name: {} for name in MOVES.values()}
    for item in text.split():
        move, id, tokens = re.fullmatch(r"([-<>]?)([A-Z])(-?\d+)", item).groups()
        made[MOVES[move]][id] = int(tokens)
    return made


def batches_of(text: str) -> list[Batch]:
    """Read batches, with `|` between them: the start, then as in `moves_of`."""
    parts = [part.split(maxsplit=1) for part in text.split("|") if part.strip()]
    return [Batch(start=int(start), **moves_of(" ".join(moves))) for start, *moves in parts]


def requests_of(text: str) -> tuple[Request, ...]:
    """Read requests, with `;` between them: as `tests/heuristics/test_by_hand.py` says."""
    return tuple(map(_request_of, text.split(";")))


def _request_of(text: str) -> Request:
    id, prompt, *items = text.split()
    segments: list[int | tuple[Any, ...]] = []
    more: dict[str, Any] = {"@": 0, "w": 1, "n": None}
    for item in items:
        if call := re.fullmatch(r"(\d+)/(\d+)(?:\+(\d+))?([fpds]?)", item):
            decode, duration, returns, how = call.groups()
            segments.append((int(decode), int(duration), int(returns or 0), HANDLINGS[how or "f"]))
        elif item.isdigit():
            segments.append(int(item))
        else:
            name, number = re.fullmatch(r"(\D+)(\d+)", item).groups()
            more[name] = int(number)
    known = {"arrival": more.pop("@"), "weight": more.pop("w"), "max_new": more.pop("n")}
    return request(id, int(prompt), *segments, slo=Slo(**more) if more else None, **known)
