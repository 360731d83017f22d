"""Staggered starts: a few requests every so many batches, so that they do not all end at once."""

from __future__ import annotations

import re

from heuristics.engine.plan import Plan
from heuristics.engine.unified import Unified
from heuristics.engine.view import View
from heuristics.policies.mc_sf import McSf
from kvcore.errors import BadInput

NAME = re.compile(r"staggered:([1-9][0-9]{0,8}),([1-9][0-9]{0,8})")


class Staggered(McSf):
    """Groups of at most B requests, at least G batches apart, as early as memory allows; started ones go on.

    The order and the test of memory are those of mc-sf. Requests of different ages need their most memory at different
    times, so that more of them fit than if they start in waves; B weighs fuller memory against fewer prefills.

    Guarantee: nothing is known.
    Running time: that of mc-sf.
    Source: this project.
    """

    rule = "B requests every G batches, shortest output first, if memory never overflows; running ones go on"
    source = "this project"

    def __init__(self, size: int, gap: int) -> None:
        """Set B, the requests of a group, and G, the batches between two."""
        self.name = f"staggered:{size},{gap}"
        self.size, self.gap = size, gap

    @classmethod
    def named(cls, name: str) -> Staggered:
        """Return the policy of `staggered:B,G`. BadInput: it is none."""
        found = NAME.fullmatch(name)
        if found is None:
            raise BadInput(f"staggered starts are staggered:B,G (B requests every G batches), not {name!r}")
        return cls(int(found[1]), int(found[2]))

    def start(self, view: View) -> None:
        """Begin with empty queues."""
        super().start(view)
        self._next = 0  # the first batch in which requests may start

    def fill_waiting(self, plan: Plan) -> None:
        """Start the next group, if it is time and the memory allows; part of it where it does not allow all."""
        if self._batch < self._next:
            return
        later, self.waiting = self.waiting[self.size :], self.waiting[: self.size]
        before = len(self.waiting)
        super().fill_waiting(plan)
        if len(self.waiting) < before:
            self._next = self._batch + self.gap
        self.waiting += later

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches nothing starts."""
        apart = self._next - self._batch
        return min(apart, Unified.steady(self, view, plan)) if apart > 0 else super().steady(view, plan)
