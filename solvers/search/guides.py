"""What tells the search where to look and where not: f of states, and a lower bound on what each option adds to it."""

from __future__ import annotations

import numpy as np

from solvers.search.objectives import Sum
from solvers.search.state import WAITING
from solvers.search.successors import States
from solvers.search.table import Array, StateTable

UNIT = 64
"""Prices are whole numbers of 1/UNIT of the objective's unit."""


class Guide:
    """The chain bound of the objective: every request goes on as if it were alone."""

    unit = 1
    """What f is multiplied by."""

    def __init__(self, objective: Sum, table: StateTable) -> None:
        self.objective = objective
        self.table = table
        self.adds_up = type(objective) is Sum and table.rules.slots

    def f(self, states: States) -> Array:
        """Return f of each state, times `unit`."""
        return self.objective.bound(states)

    def looked_up(self, states: States) -> Array:
        """Return the part of f that rises by `rises` from batch to batch."""
        return self.objective.bound(states)

    def rises(self, time: int) -> Array | None:
        """Return a lower bound, for each option of a batch at `time`, on what it adds to f (None: nothing is known)."""
        if not self.adds_up:
            return None
        option, state = self.table.option, self.table.state
        owner = self.owners()
        to_go = state["to_go"]
        rises = self.tick_costs(owner) + to_go[option["next"][: len(owner)]] - to_go[owner]
        return self.or_instead(rises)

    # --- what guides share ---------------------------------------------------------------------------------------

    def owners(self) -> Array:
        """Return the local state that each option belongs to."""
        return self.table.option["owner"][: self.table.option.length]

    def tick_costs(self, owner: Array) -> Array:
        """Return what the next tick costs in each of these local states."""
        state = self.table.state
        return np.where(state["status"][owner] == WAITING, 0, state["rate"][owner])

    def or_instead(self, rises: Array) -> Array:
        """Let the options that others may replace where memory is short take the least of them all."""
        least = rises.copy()
        np.minimum.at(least, self.table.option["base"][: len(rises)], rises)
        return least
