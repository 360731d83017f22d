"""One machine that may interrupt: exact optima behind bounds by shares of time."""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple


class WorkPiece(NamedTuple):
    """Work possible from `release` on; the lowest released `rank` goes first."""

    release: int
    rank: int
    work: int
    owner: int


def run(pieces: Sequence[WorkPiece]) -> Iterator[tuple[WorkPiece, int, int]]:
    """Yield (piece, start, end) for every stretch of work. O(n log n)."""
    waiting = sorted(pieces)
    ready: list[tuple[int, int, int]] = []
    now = position = 0
    while ready or position < len(waiting):
        if not ready:
            now = max(now, waiting[position].release)
        while position < len(waiting) and waiting[position].release <= now:
            heappush(ready, (waiting[position].rank, position, waiting[position].work))
            position += 1
        rank, chosen, remaining = heappop(ready)
        until = now + remaining
        if position < len(waiting):
            until = min(until, max(now, waiting[position].release))
        if until > now:
            yield waiting[chosen], now, until
        if remaining > until - now:
            heappush(ready, (rank, chosen, remaining - (until - now)))
        now = until


def largest(pieces: Sequence[WorkPiece]) -> int:
    """Return the least largest (end - rank): ranks are tails, negated (Jackson)."""
    return max((end - piece.rank for piece, _, end in run(pieces)), default=0)


def moments(pieces: Sequence[WorkPiece], owners: int) -> list[int]:
    """Return, by owner, the sum over its pieces of work times (twice) the mean time at which it is done.

    Their weighted sum is the least of any schedule if ranks order the weights, the largest first (Goemans: such means
    obey the inequalities of a polymatroid, for which the greedy order is optimal).
    """
    totals = [0] * owners
    for piece, start, end in run(pieces):
        totals[piece.owner] += end * end - start * start
    return totals
