"""`by_work`: without `evict`, batches that only transfer are joined to the next with work."""

from kvcore import Instance, Schedule
from kvcore.trace import RequestTrace, after_moves
from tests.reductions.parts import MOVES, Mutable, kv, late, mutable, schedule_of


def joined(instance: Instance, schedule: Schedule, after: int = -1) -> Schedule:
    """Return a schedule in which every batch after number `after` works. For machines without `evict`.

    A batch makes its own moves and those of the batches without work before it, in net amounts; only an ordered swap
    goes out and comes back. Each feature is at most the sum of those joined, so their ticks add up to no more. These
    batches start late, when no call is left to wait for: no batch up to `after` changes.
    """
    trace, batches = mutable(instance, schedule)
    kept, begin = batches[: after + 1], after + 1
    for j in range(begin, len(batches)):
        if batches[j]["work"]:
            for request in trace.requests:
                join(request, batches[j], begin, j)
            kept.append({**batches[j], "start": late(len(kept))})
            begin = j + 1
    return schedule_of(instance, kept)


def join(request: RequestTrace, batch: Mutable, begin: int, j: int) -> None:
    """Let the batch make the moves of batches `begin` to `j`, in net amounts."""
    before, (device, host) = kv(request, begin, False), kv(request, j, True)
    id, drop = request.request.id, sum(before) - device - host
    left, _ = after_moves(*before, drop)
    ordered = [c for c in request.calls if c.batch == begin - 1 and request.request.calls[c.segment].handling == "swap"]
    out = left if ordered else max(0, left - device)
    for kind, tokens in zip(MOVES, (drop, out, device - left + out), strict=True):
        batch[kind][id] = tokens
