"""Transfers that happen as late as the waits of the plan allow: the worst that streams may do.

Where somebody waits for both directions, either may come first.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from gpu_validation import swap


class LazySwapper(swap.Swapper):
    """Queues the transfers of a batch; each happens only when somebody waits for it."""

    def __init__(self, *arguments: Any, first: bool) -> None:
        super().__init__(*arguments)
        self.first = first  # the direction that happens first where both are waited for
        self.queued: dict[bool, Callable[[], None]] = {}
        self.late = 0

    def start(self, pieces: Any, out: bool, after_out: bool = False, parts: int = 1) -> None:
        self.queued[out] = partial(self.happen, pieces, out, after_out)

    def happen(self, pieces: Any, out: bool, after_out: bool) -> None:
        self.wait(out=after_out)
        swap.move(self.cache, pieces, out)

    def wait(self, *, out: bool = False, back: bool = False) -> None:
        for direction in (self.first, not self.first):
            if (out if direction else back) and direction in self.queued:
                self.late += 1
                self.queued.pop(direction)()

    def end_batch(self) -> None:
        self.wait(out=True, back=True)
