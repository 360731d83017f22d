"""Which requests have waited for too many batches."""

from __future__ import annotations

from heapq import heappop, heappush

from kvcore.instance import LIMIT


class StarvationTimers:
    """Requests (by index) with the number of the batch from which each counts as starving; O(log n) an operation.

    Batches are numbered, not counted as they are decided: those that are repeated unasked count as well.
    """

    def __init__(self) -> None:
        self._due: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []

    def start(self, index: int, due: int) -> None:
        """Let a request starve from batch `due` on; it replaces what was set before."""
        self._due[index] = due
        heappush(self._heap, (due, index))

    def cancel(self, index: int) -> None:
        """Forget a request."""
        self._due.pop(index, None)

    def expired(self, batch: int) -> list[int]:
        """Take out, and return, those that starve from `batch` on."""
        ended = []
        while self.next_expiry() <= batch:
            index = heappop(self._heap)[1]
            del self._due[index]
            ended.append(index)
        return ended

    def next_expiry(self) -> int:
        """Return the next batch from which a request starves (LIMIT: none)."""
        heap, due = self._heap, self._due
        while heap and due.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else LIMIT
