"""From pieces to a schedule, and back."""

from collections.abc import Iterator

import numpy as np

from formulations.timing import Event, batches_of, start_early
from kvcore.instance import Instance
from kvcore.schedule import Schedule
from kvcore.trace import Move, RequestTrace, Step, Trace
from solvers.neighbourhoods.arrays import Array, InstanceArrays
from solvers.neighbourhoods.insertion import DECODE, DISCARD, FIRST, FREE, HELD, HOSTED, PREFILL, PRESERVE, SWAP

PieceRow = tuple[int, int, int, int, int]
"""A piece: kind, first slot, slot after the last, resident tokens, tokens processed in each slot."""


def schedule_of(instance: Instance, arrays: InstanceArrays, plan: Array, count: Array) -> Schedule:
    """Return the schedule in which request i does the first count[i] pieces of plan[i], started early."""
    done: list[tuple[str, Iterator[Event]]] = []
    for i, request in enumerate(instance.requests):
        segments = arrays.segments[arrays.first[i] : arrays.first[i + 1]].tolist()
        done.append((request.id, events(plan[i, : count[i]].tolist(), segments)))
    return start_early(instance, batches_of(done)[1]).schedule


def events(pieces: list[PieceRow], segments: list[PieceRow]) -> Iterator[Event]:
    """Yield the events of one request: its work, and the moves that its pieces imply."""
    k, held, is_hosted, called, in_window, last = 0, 0, False, False, False, 0
    for kind, begin, end, resident, tokens in pieces:
        works = kind in (PREFILL, DECODE)
        if held and works and resident == tokens:
            yield last, "drop" if in_window and segments[k][4] in (DISCARD, FREE) else "evict", held
            held, is_hosted = 0, False
        elif called and segments[k][4] == SWAP:
            yield last, "swap_out", held
            is_hosted = True
        if is_hosted != (kind == HOSTED):
            is_hosted = not is_hosted
            yield begin, "swap_out" if is_hosted else "swap_in", held
        called, last = False, end
        if works:
            in_window = False
            yield from ((t, "work", tokens) for t in range(begin, end))
            held = resident + end - begin - 1
            if held == segments[k][0] + segments[k][1] - 1:
                k, called, in_window = k + 1, True, True


def read_pieces(trace: Trace, arrays: InstanceArrays) -> tuple[Array, Array]:
    """Return the plan of every request in a schedule whose batches last one tick, and the counts."""
    starts = [batch.start - arrays.origin for batch in trace.batches]
    rows = [
        _pieces(request, starts, _ends(arrays.segments[arrays.first[i] : arrays.first[i + 1]].tolist()))
        for i, request in enumerate(trace.requests)
    ]
    plan = np.zeros((len(rows), max(arrays.pieces, *map(len, rows), 1), 5), np.int64)
    for i, each in enumerate(rows):
        plan[i, : len(each)] = each
    return plan, np.array([len(each) for each in rows])


def _ends(segments: list[PieceRow]) -> dict[int, int]:
    handlings = [handling for *_, handling in segments[1:]]
    return {row[0] + row[1] - 1: handling for row, handling in zip(segments, [*handlings, FIRST], strict=True)}


def _pieces(request: RequestTrace, starts: list[int], ends: dict[int, int]) -> list[PieceRow]:
    """Return the pieces of one request; KV that lies somewhere until it is moved is a piece too.

    A call's move comes right after the batch before it, so that ordered ones follow the start of the call; an eviction,
    with its batch.
    """
    rows: list[PieceRow] = []
    device = host = now = 0
    for event, *kv in request.levels():
        is_work = isinstance(event, Step)
        handling = ends.get(device + host, PRESERVE)
        is_early = isinstance(event, Move) and handling != PRESERVE and (handling != SWAP or event.kind != "drop")
        t = starts[event.batch - 1] + 1 if is_early else starts[event.batch]
        if device + host and t > now:
            rows.append((HOSTED if host else HELD, now, t, device + host, 0))
        now = t + is_work
        device, host = kv
        if isinstance(event, Step):
            kind = DECODE if event.phase == "decode" else PREFILL
            _work(rows, kind, t, device, event.tokens, goes_on=device - 1 not in ends)
    return rows


def _work(rows: list[PieceRow], kind: int, t: int, resident: int, tokens: int, goes_on: bool) -> None:
    if goes_on and rows and rows[-1][0] == kind == DECODE and rows[-1][2] == t:
        rows[-1] = (*rows[-1][:2], t + 1, *rows[-1][3:])
    else:
        rows.append((kind, t, t + 1, resident, tokens))
