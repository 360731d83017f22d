"""Rounding in the schedule's favour: every schedule of the fine instance becomes one of the coarse instance.

The proof is in `docs/coarsening.md`. In short: the coarse schedule follows the fine one at the last tick of each slot.
A segment of at least a slot is resident at one such tick or more; a shorter one may fall between two of them, so it
becomes part of the call beside it (or of the time before the first, or after the last, segment that is kept). Where KV
may be evicted outside calls, requests that work in one slot may take turns on the device: there the memory is what they
can hold together within a slot, and refills cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from kvcore.cost import Cost
from kvcore.instance import Call, Coarsening, Handling, Instance, Machine, Request, Segment


@dataclass(frozen=True)
class _Relaxed:
    """A coarse request, and the fine ticks that its completion in slots leaves out."""

    request: Request
    completion_offset: int
    extra_token: bool
    """Whether its prompt had to be rounded up to one token, so that it may hold one token too many."""
    merged: bool
    """Whether a segment became part of a call, or of the time before or after."""


def relax(instance: Instance, block: int, slot: int) -> Instance:
    """Return the coarse instance (`kvcore.coarsen` has checked its arguments)."""
    if instance.machine.evict:  # what is held in a call says nothing of what was held before: all handlings are free
        instance = instance.with_free_calls()
    relaxed = [_request(request, block, slot) for request in instance.requests]
    return Instance(
        name=instance.name,
        tick_seconds=instance.tick_seconds * slot,
        machine=_machine(instance.machine, relaxed, block, slot),
        cost=Cost.unit(),
        requests=tuple(item.request for item in relaxed),
        coarsening=Coarsening(
            direction="relax",
            block_tokens=block,
            slot_ticks=slot,
            fine_tick_seconds=instance.tick_seconds,
            completion_offset={item.request.id: item.completion_offset for item in relaxed},
            flow_offset={
                fine.id: item.completion_offset + slot * item.request.arrival - fine.arrival
                for fine, item in zip(instance.requests, relaxed, strict=True)
            },
        ),
    )


# --- requests --------------------------------------------------------------------------------------------------------


def _request(fine: Request, block: int, slot: int) -> _Relaxed:
    """Keep the segments of at least a slot (and a block); the time of all others goes into calls and offsets."""
    unit = max(block, slot)
    kept = [k for k, segment in enumerate(fine.segments) if segment.decode >= unit]
    if not kept:
        return _without_segments(fine, unit, slot)
    first, last = kept[0], kept[-1]
    prompt = known = max(1, fine.known[first] // block)
    segments = []
    for k, after in pairwise(kept):
        decode = fine.segments[k].decode // unit
        returns = max(0, fine.known[after] // block - known - decode)
        known += decode + returns
        ticks = fine.segments[k].decode % unit + _ticks(fine, k, after) - fine.segments[k].decode
        handling = _handling(fine.calls[k:after])
        segments.append(Segment(decode=decode, call=Call(duration=ticks // slot, returns=returns, handling=handling)))
    segments.append(Segment(decode=fine.segments[last].decode // unit))
    arrival = (fine.arrival + _ticks(fine, 0, first)) // slot
    return _Relaxed(
        request=fine.replace(arrival=arrival, prompt=prompt, max_new=_limit(fine, unit), segments=tuple(segments)),
        completion_offset=_ticks(fine, last, len(fine.segments)) - unit * segments[-1].decode,
        extra_token=prompt * block > fine.known[first],
        merged=len(kept) < len(fine.segments),
    )


def _without_segments(fine: Request, unit: int, slot: int) -> _Relaxed:
    """Stand in for a request that keeps no segment: one token in one slot, when it can be done at the earliest."""
    earliest = fine.arrival + _ticks(fine, 0, len(fine.segments))
    arrival = max(0, earliest // slot - 1)
    request = fine.replace(arrival=arrival, prompt=1, max_new=_limit(fine, unit), segments=(Segment(decode=1),))
    return _Relaxed(request, earliest - slot * (arrival + 1), extra_token=True, merged=True)


def _limit(fine: Request, unit: int) -> int | None:
    """Return the limit of the output, rounded as the output is."""
    return None if fine.max_new is None else max(1, fine.max_new // unit)


def _ticks(fine: Request, start: int, stop: int) -> int:
    """Ticks that segments `start` to `stop - 1` and their calls last at the least."""
    return sum(s.decode + (s.call.duration if s.call else 0) for s in fine.segments[start:stop])


def _handling(calls: Sequence[Call]) -> Handling:
    """Return the handling of the one call that stands for `calls` and the short segments between them."""
    if all(call.handling == "preserve" for call in calls):
        return "preserve"
    return "discard" if calls[-1].handling == "discard" else "free"


# --- machine ---------------------------------------------------------------------------------------------------------


def _machine(fine: Machine, relaxed: Sequence[_Relaxed], block: int, slot: int) -> Machine:
    """Round every limit up by what the roundings of the requests may add to it."""
    extra = sum(item.extra_token for item in relaxed)
    batch_tokens, prefill_tokens, batch_requests = _budgets(fine, relaxed, block, slot)
    if fine.evict:
        most = _most_in_turns(fine, slot)
        memory = None if most is None else most // block + extra
        return Machine(memory=memory, batch_requests=batch_requests, evict=True, partial=fine.partial)
    page = fine.block // block if fine.block % block == 0 else 1
    return Machine(
        memory=None if fine.memory is None else fine.memory // block + extra * page,
        block=page,
        host_memory=_host_memory(fine, len(relaxed), extra, block),
        batch_tokens=batch_tokens,
        prefill_tokens=prefill_tokens,
        batch_requests=batch_requests,
        partial=fine.partial,
    )


def _most_in_turns(fine: Machine, slot: int) -> int | None:
    """Return the tokens that the requests which work in a slot hold together, each when it last works (None: any).

    They are on the device or on the host at its first tick, or processed in one of the others.
    """
    if slot == 1 or fine.memory is None:
        return fine.memory
    if fine.host_memory is None or fine.batch_tokens is None:
        return None
    return fine.memory + fine.host_memory + fine.batch_tokens * (slot - 1)


def _host_memory(fine: Machine, requests: int, extra: int, block: int) -> int | None:
    """With `partial`, each request may hold a part of a block on the host that counts as a whole one."""
    if not fine.host_memory:
        return fine.host_memory
    parts = requests * (block - 1) if fine.partial else 0
    return (fine.host_memory + parts) // block + extra


def _budgets(
    fine: Machine, relaxed: Sequence[_Relaxed], block: int, slot: int
) -> tuple[int | None, int | None, int | None]:
    """Return batch_tokens, prefill_tokens and batch_requests: what a slot does, and what rounding adds per request.

    None where the coarse schedule may have to process in one slot what the fine one did long before: after a merged
    segment, and with slots longer than blocks.
    """
    if slot > block or any(item.merged for item in relaxed):
        return None, None, None
    requests = len(relaxed)
    tokens, prefill, most = fine.batch_tokens, fine.prefill_tokens, fine.batch_requests
    batch_tokens = None if tokens is None else (tokens * slot + requests * 3 * (block - 1)) // block
    prefill_tokens = None if prefill is None else (prefill * slot + requests * (3 * block - 2)) // block
    if batch_tokens is not None and prefill_tokens is not None:
        prefill_tokens = min(batch_tokens, prefill_tokens)
    return batch_tokens, prefill_tokens, None if most is None else most * slot  # requests may take turns
