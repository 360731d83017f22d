"""A schedule as the life of each request: what it does in each slot. A batch lasts one tick, which is a slot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from formulations.timing import batches_of
from kvcore import Instance, Request, Schedule, verify_schedule
from kvcore.certificates.slot_graph import LocalGraphs
from kvcore.trace import after_moves
from tests.reductions.parts import MOVES, is_licensed

Life = dict[int, dict[str, int]]
"""By slot from the first arrival: `work`, the moves, and `evict`, a drop outside calls. A drop that a call orders, or
of the KV of a free call, may be in a slot that is no batch: it joins the next one."""


class Work(NamedTuple):
    """Work in a slot on top of `device` tokens; it generates a token if it processes all that are `missing`."""

    slot: int
    device: int
    tokens: int
    missing: int

    @property
    def generated(self) -> bool:
        return self.tokens == self.missing


def lives(instance: Instance, schedule: Schedule) -> dict[str, Life]:
    """Return the life of each request; drops in the batch after the one that starts their call come at once."""
    trace, found = verify_schedule(instance, schedule), dict[str, Life]()
    for request in trace.requests:
        life = found[request.request.id] = Life()
        for move in request.moves:
            kind, tick = move.kind, trace.batches[move.batch].start
            if kind == "drop" and is_licensed(request, move.batch):
                tick = next((call.start for call in request.calls if call.batch == move.batch - 1), tick)
            elif kind == "drop":
                kind = "evict"
            life.setdefault(tick - instance.first_arrival, {})[kind] = move.tokens
        for step in request.steps:
            slot = trace.batches[step.batch].start - instance.first_arrival
            life.setdefault(slot, {})["work"] = step.tokens
    return found


def schedule_of_lives(instance: Instance, found: dict[str, Life]) -> Schedule:
    """Return the schedule with all lives; an eviction with no batch before the next work is left out."""
    order = ("work", "evict", *MOVES)
    events = {id: [(t, kind, life[t][kind]) for t in life for kind in order if life[t].get(kind)]
              for id, life in found.items()}  # fmt: skip
    slots, batches = batches_of(events.items())
    started = (b.model_copy(update={"start": instance.first_arrival + t}) for t, b in zip(slots, batches, strict=True))
    return Schedule(instance_sha256=instance.sha256, batches=tuple(started))


def held(life: Life, slots: range) -> Iterator[tuple[int, int, int]]:
    """Yield what it processes, and holds on the device and on the host, in each slot."""
    device = host = 0
    for t in slots:
        does = life.get(t, {})
        drop = does.get("drop", 0) + does.get("evict", 0)
        device, host = after_moves(device, host, drop, does.get("swap_out", 0), does.get("swap_in", 0))
        device += does.get("work", 0)
        yield does.get("work", 0), device, host


def works(request: Request, life: Life) -> list[list[Work]]:
    """Return the work towards each token in turn."""
    known = (request.known[k] + g for k, segment in enumerate(request.segments) for g in range(segment.decode))
    found, towards, missing = list[list[Work]](), list[Work](), next(known)
    for t, (tokens, device, _) in enumerate(held(life, range(max(life) + 1))):
        if tokens:
            towards.append(Work(t, device - tokens, tokens, missing - device + tokens))
            if towards[-1].generated:
                found, towards, missing = [*found, towards], [], next(known, 0)
    return found


def is_path(local: LocalGraphs, kind: int, life: Life) -> bool:
    """Whether the graph of a kind of requests has a path that does in each slot, as a batch, what the life does."""
    reached = {local.start[kind]}
    for t in range(max(life) + 1):
        does = life.get(t, {})
        drop = does.get("drop", 0) + does.get("evict", 0)
        wanted = (drop, *(does.get(name, 0) for name in ("swap_out", "swap_in", "work")))
        options = (o for i in reached for o in range(local.graphs.first[i], local.graphs.first[i + 1]))
        reached = {int(local.graphs.next[o]) for o in options if local.options[o][:4] == wanted}
    return any(local.graphs.done[i] for i in reached)
