"""Prices on memory and budgets, slot by slot, and the bound that they give every state (Lagrangian relaxation).

If each request pays the prices for what it takes of every slot, and otherwise ignores the others, then the sum of
their cheapest paths, less the prices of all there is, is a lower bound; it is looked up, request by request.
`docs/search.md` has the proof. Any non-negative prices are valid; all arithmetic that counts is in integers.
"""

from __future__ import annotations

import numpy as np

from bounds.ascent import Floats, ascend
from formulations.refills import ample_budgets
from solvers.search.guides import UNIT, Guide
from solvers.search.objectives import Sum
from solvers.search.state import WAITING
from solvers.search.successors import States
from solvers.search.table import Array, Rows, StateTable

MOST_LOCAL_STATES = 30_000
MOST_ENTRIES = 8_000_000
"""Beyond these sizes, the table of cheapest paths costs more than it is worth."""


class Economy:
    """What each option takes of the resources, as arrays, for all local states that can be reached."""

    def __init__(self, table: StateTable, horizon: int) -> None:
        self.table = table
        self.horizon = horizon
        option, state = table.option, table.state
        self.states, self.options = len(table.states), option.length
        owner = np.concatenate([option["owner"][: self.options], np.arange(self.states)])
        order = np.argsort(owner, kind="stable")
        owner = owner[order]
        self.first = np.searchsorted(owner, np.arange(self.states))
        self.last = np.searchsorted(owner, np.arange(self.states), side="right")
        idle = [table.pass_time(number, 1) for number in range(self.states)]
        self.next = np.concatenate([option["next"][: self.options], idle])[order]
        self.cost = np.where(state["status"][owner] == WAITING, 0, state["rate"][owner]) * UNIT
        self.end = state["to_go"][: self.states] * UNIT
        self.resources = _resources(table)
        self.use = np.array([self._use(name)[order] for name in self.resources], np.int64).reshape(-1, len(order))
        most = len(table.instance.requests) * self.use.max(axis=1, initial=1)
        self.limits = np.minimum(np.array(list(self.resources.values()), np.int64), most)
        self.dearest = 2**58 // (max(1, len(most)) * horizon * most)
        """Prices at which all that is there, and so all that is taken, costs at most 2^58 in the slots together."""

    def _use(self, name: str) -> Array:
        """Return what every option takes of a resource, and every local state while the machine is idle."""
        block = self.table.instance.machine.block
        held = {
            "blocks": [-(-s.device // block) for s in self.table.states],
            "host": [s.host for s in self.table.states],
        }
        idle = np.array(held.get(name, [0] * self.states))
        return np.concatenate([self.table.option[name][: self.options], idle])

    def cheapest(self, prices: Array) -> Array:
        """Return, for every slot and local state, the cost of the cheapest path to the end under `prices`."""
        values = np.empty((self.horizon + 1, self.states), np.int64)
        values[-1] = self.end
        for t in range(self.horizon - 1, -1, -1):
            total = self.cost + values[t + 1][self.next]
            for r in np.nonzero(prices[t])[0]:
                total += prices[t, r] * self.use[r]
            values[t] = np.minimum.reduceat(total, self.first)
        return values

    def demand(self, rows: Rows, values: Array, prices: Array) -> Array:
        """Return what the cheapest paths from tick 0 take of every slot."""
        demand = np.zeros((self.horizon, len(self.limits)), np.int64)
        states = [int(number) for number in rows if number]
        for t in range(self.horizon):
            for i, number in enumerate(states):
                options = slice(self.first[number], self.last[number])
                total = values[t + 1][self.next[options]] + prices[t] @ self.use[:, options]
                best = self.first[number] + int(total.argmin())
                demand[t] += self.use[:, best]
                states[i] = int(self.next[best])
            states = [number for number in states if number]
        return demand


class PricedGuide(Guide):
    """The bound under given prices (slots x resources), or the chain bound where that is larger."""

    unit = UNIT

    def __init__(self, objective: Sum, economy: Economy, prices: Array) -> None:
        super().__init__(objective, economy.table)
        self.economy = economy
        self.prices = prices
        self.values = economy.cheapest(prices)
        self.paid = np.append(np.cumsum((prices @ economy.limits)[::-1])[::-1], 0)

    def f(self, states: States) -> Array:
        return np.maximum(UNIT * self.objective.bound(states), self.looked_up(states))

    def looked_up(self, states: States) -> Array:
        t = np.minimum(states.time, self.economy.horizon)
        rows = self.table.state["plain"][states.rows]
        return np.asarray(UNIT * states.cost + self.values[t[:, None], rows].sum(axis=1) - self.paid[t])

    def rises(self, time: int) -> Array:
        option, plain = self.table.option, self.table.state["plain"]
        owner = self.owners()
        now, then = (min(t, self.economy.horizon) for t in (time, time + 1))
        values = self.values[then][plain[option["next"][: len(owner)]]] - self.values[now][plain[owner]]
        rises = UNIT * self.tick_costs(owner) + values
        if now < then:
            for price, name in zip(self.prices[now].tolist(), self.economy.resources, strict=True):
                if price:
                    rises = rises + price * option[name][: len(owner)]
        return self.or_instead(rises)


def priced(
    objective: Sum, table: StateTable, root: States, horizon: int, target: int, rounds: int
) -> PricedGuide | None:
    """Return the best guide found in some rounds of a subgradient method, or None where prices do not apply.

    `target` is the value of a known schedule; `horizon` the slots that get prices.
    """
    if type(objective) is not Sum or not table.rules.slots or not _close(table, horizon):
        return None
    economy = Economy(table, horizon)

    def evaluate(prices: Floats) -> tuple[int, Floats]:
        guide = PricedGuide(objective, economy, np.rint(prices).astype(np.int64))
        demand = economy.demand(root.rows[0], guide.values, guide.prices)
        return int(guide.looked_up(root)[0]), (demand - economy.limits).astype(float)

    start = np.zeros((horizon, len(economy.limits)))
    _, prices = ascend(
        evaluate, start, target * UNIT, rounds=rounds, high=economy.dearest, shrink=0.5, smallest=0.01,
        go_on=lambda best: best < target * UNIT,
    )  # fmt: skip
    return PricedGuide(objective, economy, np.rint(prices).astype(np.int64))


def _resources(table: StateTable) -> dict[str, int]:
    """Return the option columns that batches compete for, with their limits."""
    machine, n = table.instance.machine, table.instance.requests
    limits: dict[str, int | None] = {"blocks": machine.block_limit, "host": machine.host_memory}
    if not ample_budgets(table.instance):
        limits |= {"tokens": machine.batch_tokens, "prefill_work": machine.prefill_tokens}
    if machine.batch_requests is not None and machine.batch_requests < len(n):
        limits["busy"] = machine.batch_requests
    if not machine.host_memory:
        limits["host"] = None
    return {name: limit for name, limit in limits.items() if limit is not None}


def _close(table: StateTable, horizon: int) -> bool:
    """Make all local states that can be reached, and their options; whether they are few enough."""
    done = 0
    while done < len(table.states):
        upto = len(table.states)
        if upto > MOST_LOCAL_STATES or upto * horizon > MOST_ENTRIES:
            return False
        table.prepare(np.arange(done, upto))
        for number in range(done, upto):
            table.pass_time(number, 1)
        done = upto
    return True
