"""What each request still needs at the least, wherever it stands: what guides the exhaustive search.

Nothing here falls by more than the ticks that pass, whatever the batch: a batch with work on a request lasts
`least_work` ticks or more, and takes one step off the path to its next token; beside it, only a call runs. So a state
never looks nearer to its end than a state before it did, less the ticks between, and the first path to a state that is
followed is a best one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from kvcore.certificates.batches import BoundaryState
from kvcore.certificates.least import Needs, chunks, least_work, needs
from kvcore.instance import Instance


class Remaining:
    """Batches and ticks that requests need from a state on, were each alone; O(1) after O(all tokens) once."""

    def __init__(self, instance: Instance) -> None:
        self.machine = instance.machine
        self.requests = instance.requests
        self.needs = [needs(instance.machine, request) for request in instance.requests]
        self.least = least_work(instance)
        self.steps = [_sums_after(need.batches) for need in self.needs]
        self.waits = [_sums_after(need.wait) for need in self.needs]

    def batches(self, i: int, state: BoundaryState) -> int:
        """Return in how many batches the request still works at the least; 0 if it is done."""
        q = self._generated(self.needs[i], state)
        if q == self.needs[i].ends[-1]:
            return 0
        return self._steps(i, state, q + 1) + self.steps[i][q + 1]

    def ticks(self, i: int, state: BoundaryState) -> int:
        """Return the ticks until its end at the least; 0 if it is done."""
        q = self._generated(self.needs[i], state)
        if q == self.needs[i].ends[-1]:
            return 0
        return state.wait + self.waits[i][q + 1] + self.least * self.batches(i, state)

    def ticks_to_first_token(self, i: int, state: BoundaryState) -> int:
        """Return the ticks until its first token at the least; 0 if it has one."""
        if self._generated(self.needs[i], state):
            return 0
        return state.wait + self.least * self._steps(i, state, 1)

    def _generated(self, need: Needs, state: BoundaryState) -> int:
        return (need.ends[state.segment - 1] if state.segment else 0) + state.generated

    def _steps(self, i: int, state: BoundaryState, q: int) -> int:
        """Return the batches up to token q, its next: KV that is not there, or is to be discarded, is processed."""
        held = state.device + state.host
        if state.mark == "due" and self.requests[i].calls[state.segment - 1].handling == "discard":
            held = 0
        return chunks(self.machine, self.needs[i].context[q] - held)


def _sums_after(values: Sequence[int]) -> list[int]:
    """Return, for each place, the sum of the values after it."""
    return [0, *accumulate(values[:0:-1])][::-1]
