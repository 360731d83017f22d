"""Evictions that a log does not name: what a request's work shows when it starts again from its whole context."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kvcore.instance import Handling, Instance, Request
from workloads.importers.run_log import LoggedBatch


class _Reading(NamedTuple):
    """What a reading of a request's work has come to: what it takes on trust, and where KV was dropped."""

    cuts: int
    """Times that it had more tokens than were to be processed."""
    drops: int
    places: tuple[Any, ...] = ()
    """The batches after which it was dropped, as a linked list: the last one, and the list before it."""


def restarts(request: Request, steps: list[tuple[int, int]]) -> tuple[list[int], bool]:
    """Return the batches after whose work all KV of a request was dropped, from its work (batch, tokens) in order.

    Only where it sat out a batch or more, or in a call that leaves the handling free, can it have been. Of all readings
    it is the one with the fewest tokens that cannot be, then the most generated, then the fewest evictions. The second
    is whether it is done in the end.
    """
    known, handlings = _contexts(request)
    readings = {(0, 0, False): _Reading(0, 0)}  # by tokens generated, KV held, and whether the latest work generated
    for k, (batch, tokens) in enumerate(steps):
        before = steps[k - 1][0] if k else batch
        following: dict[tuple[int, int, bool], _Reading] = {}
        for (generated, device, fresh), reading in readings.items():
            done = generated == request.output
            handling = handlings.get(generated) if fresh else None
            for start, dropped in _starts(device, handling, batch > before + 1 and not done):
                missing = 0 if done else known[generated] - start
                count = min(tokens, missing)
                places = (before, reading.places) if dropped else reading.places
                made = _Reading(reading.cuts + (count < tokens), reading.drops + dropped, places)
                generates = count == missing and not done
                key = (generated + generates, start + count, generates)
                if key not in following or made[:2] < following[key][:2]:
                    following[key] = made
        readings = following
    (generated, _, _), best = min(readings.items(), key=lambda found: (found[1].cuts, -found[0][0], found[1].drops))
    dropped_after, places = [], best.places
    while places:
        batch, places = places
        dropped_after.append(batch)
    return dropped_after[::-1], generated == request.output


def _contexts(request: Request) -> tuple[list[int], dict[int, Handling]]:
    """Return S by the number of tokens generated, what calls return included, and the handlings of those calls."""
    known, handlings = [request.prompt], dict[int, Handling]()
    for segment in request.segments:
        known += [known[-1] + k for k in range(1, segment.decode + 1)]
        if segment.call is not None:
            known[-1] += segment.call.returns
            handlings[len(known) - 1] = segment.call.handling
    return known, handlings


def _starts(device: int, handling: str | None, sat_out: bool) -> Iterator[tuple[int, bool]]:
    """Yield the KV that a request may start from, and whether some was dropped for it that no call has ordered."""
    if handling == "discard":
        yield 0, False
        return
    yield device, False
    if device and (sat_out or handling == "free"):
        yield 0, True


class Restarts(NamedTuple):
    """What a log without evictions shows of them."""

    drops: dict[int, list[str]]
    """Whose KV was dropped, by the first batch in which that can have been."""
    left: dict[str, int]
    """The last batch of each that works and is not done at the end."""


def find_restarts(instance: Instance, batches: tuple[LoggedBatch, ...]) -> Restarts:
    """Return what the work of all requests shows."""
    steps: dict[str, list[tuple[int, int]]] = {request.id: [] for request in instance.requests}
    for j, batch in enumerate(batches):
        for id, tokens in batch.work.items():
            steps[id].append((j, tokens))
    found = Restarts({}, {})
    for request in instance.requests:
        dropped_after, done = restarts(request, steps[request.id])
        for last in dropped_after:
            found.drops.setdefault(last + 1, []).append(request.id)
        if steps[request.id] and not done:
            found.left[request.id] = steps[request.id][-1][0]
    return found
