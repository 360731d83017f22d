"""How each objective adds up along batches and waits, and the bound that belongs to it.

The cost of a state is what the past decides; when every request is done it is the value of the objective. `f` of a
state is a lower bound on the cost of every schedule through it. `docs/search.md` proves each.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kvcore.instance import Instance
from solvers.search.state import DONE, NEVER, WAITING, LocalState
from solvers.search.successors import Choices, Mask, States
from solvers.search.table import Array, Rows, StateTable


class Sum:
    """Flow times, weighted or not, and times to first token: each tick costs the sum of the rates of the unfinished."""

    timed = False
    """Whether the tick is part of a state."""

    def __init__(self, instance: Instance, table: StateTable) -> None:
        self.instance = instance
        self.machine = instance.machine
        self.functions = instance.cost.functions
        self.table = table
        self.arrivals = np.array([kind.arrival for kind in table.kinds])

    def wait(self, before: States, ticks: Array) -> Array:
        """Return the cost after `ticks` ticks without a batch."""
        state, rows = self.table.state, before.rows
        until_arrival = np.where(state["status"][rows] == WAITING, state["remaining"][rows], 0)
        present = np.maximum(0, ticks[:, None] - until_arrival)
        return np.asarray(before.cost + (state["rate"][rows] * present).sum(axis=1))

    def run(self, before: States, choices: Choices, ticks: Array, after: States) -> Array:
        """Return the cost after a batch, given its choices and the states before and after it, one row for each."""
        return self.wait(before, ticks)

    def bound(self, states: States) -> Array:
        """Return f of each state: every request goes on as if it were alone; or the busy ticks until each end."""
        state, rows = self.table.state, states.rows
        alone = state["to_go"][rows].sum(axis=1)
        if self.table.rules.slots or self.table.objective == "total-ttft":
            return np.asarray(states.cost + alone)
        rate, unfinished = state["rate"][rows], state["status"][rows] != DONE
        common = np.where(unfinished, rate, NEVER).min(axis=1)
        common = np.where(common < NEVER, common, 0)
        waits = np.where(state["status"][rows] == WAITING, state["remaining"][rows], 0)
        ends = np.maximum(np.sort(state["least"][rows], axis=1), self.busy_until(rows))
        together = common * (ends - waits).sum(axis=1)
        rest = ((rate - common[:, None]) * unfinished * (state["least"][rows] - waits)).sum(axis=1)
        return np.asarray(states.cost + np.maximum(alone, together + rest))

    def repeats(self, states: States) -> Mask:
        """Whether to look out for the same state at an earlier tick: time neither costs anything nor matters."""
        if self.table.objective != "total-ttft":
            return np.zeros(len(states), np.bool_)
        return np.asarray(self.table.state["rate"][states.rows].max(axis=1) == 0)

    # --- what all share ------------------------------------------------------------------------------------------

    def busy(self, rows: Rows) -> Array:
        """Return a lower bound on the ticks of the batches that are still needed."""
        return self._busy(rows, lambda values: values.max(axis=1), lambda values: values.sum(axis=1))

    def busy_until(self, rows: Rows) -> Array:
        """Return the same up to the first end, the second, and so on; 0 for requests that are done, which come first.

        The first k to end need at least what the k least demanding need.
        """
        return self._busy(
            rows, lambda values: np.sort(values, axis=1), lambda values: np.sort(values, axis=1).cumsum(axis=1)
        )

    def _busy(self, rows: Rows, most: Callable[[Array], Array], total: Callable[[Array], Array]) -> Array:
        state, machine = self.table.state, self.machine
        needed = state["batches"][rows]
        batches = most(needed)
        limits = (
            (needed, machine.batch_requests),
            (state["tokens"][rows], machine.batch_tokens),
            (state["area"][rows], machine.block_limit),
        )
        for amount, limit in limits:
            if limit is not None:
                batches = np.maximum(batches, -(-total(amount) // limit))
        ticks = batches
        for f, load in zip(self.functions, self.table.loads, strict=True):
            each = f.busy + min(f.any_decode, f.any_prefill)
            ticks = np.maximum(ticks, -(-(total(state[load][rows]) + batches * each) // f.divisor))
        return np.asarray(ticks)


class BusyTime(Sum):
    """The sum of the durations of the batches. Waiting is free, so arrivals and calls take no time."""

    def wait(self, before: States, ticks: Array) -> Array:
        return before.cost

    def run(self, before: States, choices: Choices, ticks: Array, after: States) -> Array:
        return before.cost + ticks

    def bound(self, states: States) -> Array:
        return states.cost + self.busy(states.rows)


class Makespan(Sum):
    """The last completion; the cost of a state is its tick."""

    def wait(self, before: States, ticks: Array) -> Array:
        return before.time + ticks

    def bound(self, states: States) -> Array:
        least = self.table.state["least"][states.rows].max(axis=1)
        return np.asarray(states.time + np.maximum(least, self.busy(states.rows)))


class MaxFlow(Sum):
    """The largest flow time."""

    timed = True

    def wait(self, before: States, ticks: Array) -> Array:
        return before.cost

    def run(self, before: States, choices: Choices, ticks: Array, after: States) -> Array:
        completes = self.table.option["completes"][choices.options] > 0
        flows = np.where(completes, after.time[:, None] - self._arrivals(before.rows), 0)
        return np.asarray(np.maximum(before.cost, flows.max(axis=1)))

    def bound(self, states: States) -> Array:
        state, rows = self.table.state, states.rows
        unfinished = state["status"][rows] != DONE
        flows = states.time[:, None] + state["least"][rows] - self._arrivals(rows)
        flows = np.where(unfinished, flows, 0).max(axis=1)
        last = np.where(unfinished, self._arrivals(rows), 0).max(axis=1)
        flows = np.maximum(flows, np.where(unfinished.any(axis=1), states.time + self.busy(rows) - last, 0))
        return np.asarray(np.maximum(states.cost, flows))

    def _arrivals(self, rows: Rows) -> Array:
        return np.asarray(self.arrivals[self.table.state["kind"][rows]])


class LateRequests(Sum):
    """The number of requests that break an SLO; counted as soon as it can no longer be kept."""

    timed = True

    def wait(self, before: States, ticks: Array) -> Array:
        return before.cost

    def run(self, before: States, choices: Choices, ticks: Array, after: States) -> Array:
        now = np.broadcast_to(after.time[:, None], after.rows.shape)
        keys = np.stack([choices.options.ravel().astype(np.int64), after.rows.ravel().astype(np.int64), now.ravel()])
        unique, inverse = np.unique(keys, axis=1, return_inverse=True)
        settled = np.array([self.settle(*key) for key in unique.T.tolist()], np.int64).reshape(-1, 2)
        settled = settled[inverse.reshape(after.rows.shape)]
        after.rows[:] = settled[..., 0]
        return np.asarray(before.cost + settled[..., 1].sum(axis=1))

    def bound(self, states: States) -> Array:
        return states.cost

    def repeats(self, states: States) -> Mask:
        table = self.table
        untimed = np.array([self._untimed(state) for state in table.states])
        return np.asarray(untimed[states.rows].all(axis=1))

    def _untimed(self, state: LocalState) -> bool:
        """Whether no deadline of the request is at a tick that is known yet."""
        if state.deadline < 0:
            return True
        kind = self.table.kinds[state.kind]
        return state.deadline >= NEVER and (kind.begun(state) or kind.first_by >= NEVER)

    def settle(self, option: int, after: int, now: int) -> tuple[int, int]:
        """Return the local state after an option that ends at `now`, and 1 if its request is late from now on."""
        table = self.table
        before, state = table.states[table.option["owner"][option]], table.states[after]
        if before.deadline < 0:
            return after, 0
        kind = table.kinds[before.kind]
        deadline = before.deadline
        begins = not kind.begun(before) and table.option["generated"][option] > 0
        if begins:
            deadline = min(deadline, now + kind.tpot_ticks)
        late = now > kind.first_by if begins else False
        if state.status == DONE:
            return after, int(late or now > deadline)
        chain = table.chains.of(state)
        late = late or now + chain.completion > deadline
        late = late or (not begins and not kind.begun(before) and now + chain.first > kind.first_by)
        deadline = -1 if late or (deadline >= NEVER and (begins or kind.begun(before))) else deadline
        return table.number(state._replace(deadline=deadline)), int(late)


OBJECTIVES: dict[str, type[Sum]] = {
    "makespan": Makespan,
    "busy-time": BusyTime,
    "total-flow-time": Sum,
    "weighted-flow-time": Sum,
    "total-ttft": Sum,
    "normalized-latency": Sum,
    "max-flow-time": MaxFlow,
    "late-requests": LateRequests,
}
"""How each objective adds up."""
