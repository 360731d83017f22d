"""The banker's test: all holders of a resource can still get what they claim, one after another."""

from collections.abc import Iterable
from typing import NamedTuple

Holding = tuple[int, int]  # what a request holds, and its claim, up to which that may grow before all comes back


def is_safe(capacity: int, holdings: Iterable[Holding]) -> bool:
    """Whether all holders can reach their claims one after another. O(n log n)."""
    needs = sorted((claim - held, held) for held, claim in holdings)
    free = capacity - sum(held for _, held in needs)
    for need, held in needs:
        if need > free:
            return False
        free += held
    return free >= 0


class Banker:
    """A safe state of one resource, and the test whether a growth keeps it safe. A test is O(n log n)."""

    def __init__(self, capacity: int, holdings: dict[int, Holding]) -> None:
        self._capacity, self._holdings = capacity, holdings

    def admits(self, i: int, growth: int, claim: int) -> bool:
        """Whether the state stays safe if `i` grows by `growth` towards `claim`."""
        held = self._holdings.get(i, (0, claim))[0]
        return growth <= 0 or is_safe(self._capacity, (self._holdings | {i: (held + growth, claim)}).values())

    def grow(self, i: int, growth: int, claim: int) -> None:
        """Let `i` grow (or shrink) towards `claim`."""
        held = self._holdings.pop(i, (0, claim))[0] + growth
        if held:
            self._holdings[i] = (held, claim)


class RunningRequest(NamedTuple):
    """A request that goes on to the end of its segment, in blocks and in batches from the one being decided."""

    tokens: int  # tokens that it holds in this batch
    steps: int  # batches to the end of its segment, at one token each; -1 if its prefill goes on after this one
    end: int  # blocks that it holds when the segment ends; while it prefills, it counts with them throughout
    kept: int  # blocks that it keeps after that: `end`, or 0 if it releases them
    claim: int  # blocks that it claims until it next releases them

    def blocks(self, step: int, block: int) -> int:
        """Return the blocks that it holds `step` batches from now, unless it prefills."""
        return self.kept if step > self.steps else -(-(self.tokens + step) // block)


class NonPreemptiveBanker:
    """A safe state: the runners can go on together, and what is held after that is safe in the banker's sense.

    Memory peaks where a segment ends. A test is O(runners), and O(h log h) with h holders once that passes; after each
    addition O(runners^2) once.
    """

    def __init__(self, capacity: int, block: int, holdings: dict[int, Holding]) -> None:
        self._capacity = capacity
        self._block = block
        self._waiting = dict(holdings)  # of those that hold blocks and are no runners
        self._runners: list[RunningRequest] = []
        self._prefilling = 0  # blocks of the runners that prefill
        self._kept: list[Holding] = []  # what the runners keep
        self._peaks: dict[int, int] | None = None  # step: blocks of all runners; None: to be computed anew

    def add(self, i: int, runner: RunningRequest) -> None:
        """Let one more run."""
        self._waiting.pop(i, None)
        if runner.steps < 0:
            self._prefilling += runner.end
        else:
            self._runners.append(runner)
        if runner.kept:
            self._kept.append((runner.kept, runner.claim))
        self._peaks = None

    def admits(self, i: int, runner: RunningRequest) -> bool:
        """Whether the state stays safe if one more runs."""
        held = self._waiting.get(i, (0, 0))[0]
        free = self._capacity + held - sum(blocks for blocks, _ in self._waiting.values())
        if not self._fits(runner, free):
            return False
        waiting = [holding for j, holding in self._waiting.items() if j != i]
        kept = [(runner.kept, runner.claim)] if runner.kept else []
        return is_safe(self._capacity, [*waiting, *self._kept, *kept])

    def _fits(self, runner: RunningRequest, free: int) -> bool:
        if self._peaks is None:
            self._peaks = {step: self._blocks(step) for step in {0, *(runner.steps for runner in self._runners)}}
        if runner.steps < 0:
            return all(held + runner.end <= free for held in self._peaks.values())
        if self._blocks(runner.steps) + runner.end > free:
            return False
        return all(held + runner.blocks(step, self._block) <= free for step, held in self._peaks.items())

    def _blocks(self, step: int) -> int:
        """Return the blocks of all runners `step` batches from now."""
        return self._prefilling + sum(runner.blocks(step, self._block) for runner in self._runners)
