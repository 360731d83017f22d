"""All that one request may do until it is done: its states, and the options of a batch (`options.py`) in each.

There are two views. **Timeless**, states say whether a request waits, not how long, and a wait lasts until it is ready.
**By tick**, they say how many ticks are left, and a batch, or a wait between batches, lasts one.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from kvcore.certificates.budget import Budget, Work
from kvcore.certificates.options import LocalState, Option, RequestOptions
from kvcore.compiled import compiled
from kvcore.instance import Machine, Request

Array = np.ndarray[Any, np.dtype[Any]]


class RequestGraph:
    """States of all kinds of requests, as numbers; `start` has the first of each kind.

    Options of state s: `first[s]` to `first[s + 1]` - 1. Option o leads to `to[o]`, a wait to `wait[s]`.
    """

    def __init__(
        self, machine: Machine, kinds: Iterable[Request], budget: Budget | None = None, *, by_tick: bool
    ) -> None:
        """InvalidCertificate where there are too many options."""
        self.by_tick, self.budget = by_tick, budget or Budget()
        self.states, self.options = list[LocalState](), list[Option]()
        first, to, wait, start, left = [0], list[int](), list[int](), list[int](), list[int]()
        for request in kinds:
            rules, base = RequestOptions(machine, request), len(self.states)
            start.append(base)
            self.states.append(self._seen(rules.start()))
            ids = {self.states[base]: base}
            for state in islice(self.states, base, None):  # it grows
                for option, after in self._steps(rules, state):
                    number = ids.setdefault(after, len(self.states))
                    if number == len(self.states):
                        self.states.append(after)
                    if option is None:
                        wait.append(number)
                    else:
                        self.options.append(option)
                        to.append(number)
                first.append(len(self.options))
                left.append(rules.left(state))
        self.first, self.to, self.wait = np.array(first), np.array(to), np.array(wait)
        self.start, self.left = np.array(start), np.array(left)
        """`left`: tokens still to generate in each state."""
        self.begun = np.array([RequestOptions.has_first_token(state) for state in self.states])

    def _seen(self, state: LocalState) -> LocalState:
        return state._replace(wait=1) if state.wait and not self.by_tick else state

    def _steps(self, rules: RequestOptions, state: LocalState) -> Iterator[tuple[Option | None, LocalState]]:
        """An option, or none for a wait, and the state after it."""
        if not self.by_tick:
            yield None, state._replace(wait=0)
        for option in self.allowed(rules, state):
            yield option, self._seen(option.end.after(1 if self.by_tick else 0))
        if self.by_tick:
            yield None, state.after(1)

    def allowed(self, rules: RequestOptions, state: LocalState) -> Iterable[Option]:
        """Return the options that are looked at."""
        self.budget.look(rules.tries(state))
        for option in rules.options(state):
            self.budget.look(1)
            yield option

    @property
    def owner(self) -> Array:
        """The state of each option."""
        return np.repeat(np.arange(len(self.states)), np.diff(self.first))

    def least(self, steps: Array, over: Array, far: int, ends: Array | None = None, pause: int = 0) -> Array:
        """Return the least sum of `steps` to a state `over`, or through an option that `ends`, cut off at `far`.

        A wait adds `pause`. An option lowers it by at most its `steps`.
        """
        left, fell = np.append(np.where(over, 0, far), 0), True
        to = self.to if ends is None else np.where(ends, len(self.states), self.to)
        steps = np.minimum(steps, far)
        while fell:
            self.budget.spend("the least that requests need", Work.sweep * (len(self.states) + len(to)))
            fell = lower(self.first, to, self.wait, steps, pause, left)
        return left[:-1]


@compiled
def lower(first: Array, to: Array, wait: Array, steps: Array, pause: int, left: Array) -> bool:
    """Lower what is `left` by one more step; return whether any fell."""
    fell = False
    for i in range(len(wait) - 1, -1, -1):
        least = left[wait[i]] + pause
        for o in range(first[i], first[i + 1]):
            least = min(least, left[to[o]] + steps[o])
        if least < left[i]:
            left[i] = least
            fell = True
    return fell
