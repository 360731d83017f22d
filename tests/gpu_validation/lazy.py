"""Transfers that happen as late as the waits of the plan allow: the worst that streams may do.

Where somebody waits for both directions, either may come first.
"""

from __future__ import annotations

from typing import Any

from gpu_validation.plan import Transfer
from gpu_validation.swap import ALL, Swapper


class LazySwapper(Swapper):
    """Queues transfers; each happens only when somebody waits for it, or for a later one of its direction."""

    def __init__(self, *arguments: Any, first: int) -> None:
        super().__init__(*arguments)
        self.first = first
        self.queued: tuple[list[Transfer], list[Transfer]] = ([], [])
        self.late = 0

    def start(self, transfer: Transfer, direction: int, parts: int = 1) -> None:
        self.queued[direction].append(transfer)

    def _happen(self, direction: int, number: int) -> None:
        while len(self.marks[direction]) <= number:
            transfer = self.queued[direction][len(self.marks[direction])]
            self.wait(transfer.after_out, transfer.after_in)
            if len(self.marks[direction]) <= number:
                self.mover(self.cache, transfer.pieces, direction == 0, ALL)
                self.marks[direction].append((0.0, 0.0))

    def wait(self, *numbers: int) -> None:
        self.late += any(number >= len(marks) for number, marks in zip(numbers, self.marks, strict=True))
        for direction in (self.first, 1 - self.first):
            self._happen(direction, numbers[direction])

    def wait_for_all(self) -> None:
        self.wait(*(len(queue) - 1 for queue in self.queued))
