"""The banker's test where the machine does not pause: who has started a segment goes on to its end, with all others."""

from __future__ import annotations

from typing import NamedTuple

from heuristics.bank import Holding, is_safe


class Runner(NamedTuple):
    """A request that goes on to the end of its segment, in blocks and in batches from the one being decided."""

    tokens: int
    """Tokens that it holds in this batch."""
    steps: int
    """Batches to the end of its segment, at one token a batch; -1 if its prefill does not end with this batch."""
    end: int
    """Blocks that it holds when the segment ends; while it prefills, it counts with them throughout."""
    kept: int
    """Blocks that it keeps after that: `end`, or 0 if it releases them."""
    claim: int
    """Blocks that it claims until it next releases them."""


class Lockstep:
    """A safe state: the runners can go on together, and what is held after that is safe in the banker's sense.

    Memory peaks where a segment ends. A test is O(runners), and O(h log h) with h holders once that passes; after each
    addition O(runners^2) once.
    """

    def __init__(self, capacity: int, block: int, holdings: dict[int, Holding]) -> None:
        self._capacity = capacity
        self._block = block
        self._waiting = dict(holdings)  # of those that hold blocks and are no runners
        self._runners: list[Runner] = []
        self._prefilling = 0  # blocks of the runners that prefill
        self._left: list[Holding] = []  # what the runners keep
        self._peaks: dict[int, int] | None = None  # step: blocks of all runners; None: to be computed anew

    def add(self, i: int, runner: Runner) -> None:
        """Let one more run."""
        self._waiting.pop(i, None)
        if runner.steps < 0:
            self._prefilling += runner.end
        else:
            self._runners.append(runner)
        if runner.kept:
            self._left.append((runner.kept, runner.claim))
        self._peaks = None

    def admits(self, i: int, runner: Runner) -> bool:
        """Whether the state stays safe if one more runs."""
        own = self._waiting.get(i, (0, 0))[0]
        free = self._capacity + own - sum(held for held, _ in self._waiting.values())
        if not self._fits(runner, free):
            return False
        waiting = [holding for j, holding in self._waiting.items() if j != i]
        kept = [(runner.kept, runner.claim)] if runner.kept else []
        return is_safe(self._capacity, [*waiting, *self._left, *kept])

    def _fits(self, runner: Runner, free: int) -> bool:
        if self._peaks is None:
            self._peaks = {step: self._blocks(step) for step in {0, *(runner.steps for runner in self._runners)}}
        tokens, steps, end, kept, _ = runner
        if steps < 0:
            return all(held + end <= free for held in self._peaks.values())
        if self._blocks(steps) + end > free:
            return False
        block = self._block
        return all(
            held + (kept if step > steps else -(-(tokens + step) // block)) <= free
            for step, held in self._peaks.items()
        )

    def _blocks(self, step: int) -> int:
        """Return the blocks of all runners `step` batches from now."""
        block, total = self._block, self._prefilling
        for tokens, steps, _, kept, _ in self._runners:
            total += kept if step > steps else -(-(tokens + step) // block)
        return total
