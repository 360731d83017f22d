"""One pass over the states, layer by layer: a beam of a given width; where nothing is cut, it is exhaustive."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from solvers.search.dominance import undominated
from solvers.search.guides import Guide
from solvers.search.problem import Problem
from solvers.search.state import NEVER
from solvers.search.successors import States

CHUNK = 2048
"""States that are expanded at once; fewer where they have many successors."""

MANY = 400_000
"""Batches under construction at once that call for smaller chunks; states in a layer that call for weeding it."""


@dataclass
class Pass:
    """One pass. A layer holds the states at one tick (slots), or after so many batches and waits (otherwise)."""

    problem: Problem
    guide: Guide
    best: int
    """The cost of the best schedule known; only better ones are looked for."""
    width: int
    check: Callable[[Pass], None]
    """Called between chunks; it may raise to stop."""
    path: list[States] | None = None
    """The states along the best schedule found, if any is better."""
    cut: int = NEVER
    """The least f of what was cut, times the guide's unit."""
    generated: int = 0
    chunk: int = CHUNK
    waiting: dict[int, list[States]] = field(default_factory=dict)
    current: States | None = None
    seen: dict[bytes, int] = field(default_factory=dict)
    """Costs of the states met at whose time nothing hangs (`Sum.repeats`)."""
    kept: list[States] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    """The number of the first state of each layer kept: states are numbered as they are expanded."""

    @property
    def cutoff(self) -> int:
        """The largest f of a state that may lead to a better schedule."""
        return (self.best - 1) * self.guide.unit

    @property
    def bytes(self) -> int:
        """Memory that the states take."""
        waiting = [states for parts in self.waiting.values() for states in parts]
        return sum(states.bytes for states in [*self.kept, *waiting])

    def bound(self) -> int:
        """Return a lower bound on the cost of every schedule, whether or not the pass has ended."""
        waiting = [states for parts in self.waiting.values() for states in parts]
        open_states = waiting if self.current is None else [*waiting, self.current]
        least = min([self.cut, *(int(states.f.min()) for states in open_states if len(states))])
        return min(self.best, -(-least // self.guide.unit))

    def run(self) -> None:
        """Go through the layers."""
        root = self.problem.root()
        root.f = self.guide.f(root)
        self.waiting = {0: [root]}
        while self.waiting:
            depth = min(self.waiting)
            states = States.join(self.waiting[depth])
            states = undominated(self.problem, states.take(states.f <= self.cutoff))
            self.current = states = self.narrow(self.unseen(self.take_ends(states)))
            del self.waiting[depth]
            self.expand(states, depth)
            self.current = None

    def take_ends(self, states: States) -> States:
        """Note the best of the states in which every request is done, and return the others."""
        ends = (states.rows == 0).all(axis=1)
        if not ends.any():
            return states
        best = states.take(ends)
        best = best.take(np.array([best.cost.argmin()]))
        self.best = int(best.cost[0])
        self.path = self.trace(best)
        states = states.take(~ends)
        return states.take(states.f <= self.cutoff)

    def unseen(self, states: States) -> States:
        """Return the states without those that only differ in the tick from earlier ones, where it does not matter."""
        again = np.zeros(len(states), np.bool_)
        for i in np.nonzero(self.problem.objective.repeats(states))[0].tolist():
            key = states.rows[i].tobytes()
            again[i] = self.seen.get(key, NEVER) <= states.cost[i]
            self.seen[key] = min(self.seen.get(key, NEVER), int(states.cost[i]))
        return states.take(~again)

    def narrow(self, states: States) -> States:
        """Return the most promising states, as many as the width allows."""
        if len(states) <= self.width:
            return states
        order = np.lexsort((-states.cost, states.f))
        self.cut = min(self.cut, int(states.f[order[self.width]]))
        return states.take(order[: self.width])

    def expand(self, states: States, depth: int) -> None:
        """Expand a layer, in chunks."""
        start = self.starts[-1] + len(self.kept[-1]) if self.kept else 0
        self.kept.append(states)
        self.starts.append(start)
        first = 0
        while first < len(states):
            self.check(self)
            chunk = states.take(slice(first, first + self.chunk))
            for successors in self.successors(chunk, depth):
                self.generated += len(successors)
                successors.parent = successors.parent + (start + first)
                self.place(successors, depth)
            first += len(chunk)
            self.current = states.take(slice(first, None))
            many = self.problem.successors.most > MANY
            self.chunk = max(1, self.chunk // 2) if many else min(CHUNK, self.chunk * 2)

    def successors(self, states: States, depth: int) -> list[States]:
        """Return the states that follow, after a batch and after a wait, and may lead to something better."""
        problem, guide = self.problem, self.guide
        problem.table.prepare(states.rows)
        room = self.cutoff - guide.looked_up(states)
        after, _ = problem.run(states, guide.rises(depth), room)
        self.cut = min(self.cut, self.cutoff + problem.successors.cut)
        found = []
        for successors in (after, problem.wait(states)):
            successors.rows = problem.canonical(successors.rows)
            successors.f = np.maximum(guide.f(successors), states.f[successors.parent])
            found.append(successors.take(successors.f <= self.cutoff))
        return found

    def place(self, states: States, depth: int) -> None:
        """Put states into the layers that they belong to."""
        if not len(states):
            return
        if not self.problem.by_time:
            self._place(states, depth + 1)
            return
        for time in np.unique(states.time).tolist():
            self._place(states.take(states.time == time), time)

    def _place(self, states: States, depth: int) -> None:
        parts = self.waiting.setdefault(depth, [])
        parts.append(states)
        if len(parts) > 1 and sum(map(len, parts)) > max(MANY, 2 * len(parts[0])):
            parts[:] = [undominated(self.problem, States.join(parts))]

    def trace(self, end: States) -> list[States]:
        """Return the states from the first one to `end`."""
        path = [end]
        while (number := int(path[-1].parent[0])) >= 0:
            layer = bisect_right(self.starts, number) - 1
            path.append(self.kept[layer].take(slice(number - self.starts[layer], number - self.starts[layer] + 1)))
        return path[::-1]
