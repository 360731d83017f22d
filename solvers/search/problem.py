"""The instance as the search sees it: requests in columns, the first state, and the states that follow a state."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from formulations.refills import is_paced
from kvcore.cost import Features
from kvcore.errors import BadInput
from kvcore.instance import Instance, Request
from kvcore.metrics import SUMS, Value, check_objective, scale_of, weight
from solvers.search.guides import UNIT
from solvers.search.objectives import OBJECTIVES
from solvers.search.rules import valid_rules
from solvers.search.state import NEVER, READY, WAITING, LocalState, RequestKind
from solvers.search.successors import UNLIMITED, Choices, Mask, States, Successors
from solvers.search.table import Array, Rows, StateTable


class Problem:
    """An instance and an objective, ready to be searched. Columns are requests, those of one kind side by side."""

    def __init__(self, instance: Instance, objective: str, dominance: tuple[str, ...]) -> None:
        self.instance = instance
        self.name = check_objective(objective)
        self.rules = valid_rules(instance, objective, dominance)
        self.scale = scale_of(instance.requests, objective)
        _check_size(instance, self.scale)
        kind_of = [self._kind(request, i) for i, request in enumerate(instance.requests)]
        self.kinds = list(dict.fromkeys(kind_of))
        self.columns = sorted(range(len(kind_of)), key=lambda i: self.kinds.index(kind_of[i]))
        """The request (position in the instance) of each column at the start."""
        self.groups = self._groups([self.kinds.index(kind_of[i]) for i in self.columns])
        self.table = StateTable(instance, objective, self.rules, self.kinds)
        self.objective = OBJECTIVES[objective](instance, self.table)
        self.successors = Successors(self.table)
        self.paced = is_paced(instance, objective)
        self.by_time = self.rules.slots and objective != "busy-time"
        """Whether states are ordered by their ticks, rather than by the batches and waits that led to them."""

    def value(self, cost: int) -> Value:
        """Return the objective's value of a cost."""
        return Fraction(cost, self.scale) if self.name == "normalized-latency" else cost

    def root(self) -> States:
        """Return the state at tick 0."""
        requests = self.instance.requests
        rows = np.array([[self.table.number(self.first_state(requests[i], i)) for i in self.columns]], np.int32)
        zero = np.zeros(1, np.int64)
        return States(rows, zero, zero, zero, zero - 1)

    def first_state(self, request: Request, index: int) -> LocalState:
        """Return the local state of a request at tick 0."""
        kind = self._kind(request, index)
        arrival = 0 if self.name == "busy-time" else request.arrival
        deadline = -1 if self.name != "late-requests" or request.slo is None else kind.done_by
        status, decode = WAITING if arrival else READY, request.segments[0].decode
        return LocalState(self.kinds.index(kind), status, 0, decode, remaining=arrival, deadline=deadline)

    # --- kinds ---------------------------------------------------------------------------------------------------

    def _kind(self, request: Request, index: int) -> RequestKind:
        if self.name == "busy-time":  # the machine waits for calls at no cost
            request = request.with_calls(lambda call: call.replace(duration=0))
        first_by, done_by, tpot_ticks = _deadlines(request) if self.name == "late-requests" else (NEVER, NEVER, NEVER)
        return RequestKind(
            prompt=request.prompt,
            segments=request.segments,
            rate=int(self.scale * weight(request, self.name)) if self.name in SUMS else 0,
            arrival=request.arrival if self.name == "max-flow-time" else 0,
            first_by=first_by,
            done_by=done_by,
            tpot_ticks=tpot_ticks,
            label=0 if self.rules.symmetry else index,
        )

    @staticmethod
    def _groups(kinds: list[int]) -> list[slice]:
        """Return the columns of every kind that has several."""
        starts = [i for i, kind in enumerate(kinds) if i == 0 or kinds[i - 1] != kind]
        slices = [slice(a, b) for a, b in zip(starts, [*starts[1:], len(kinds)], strict=True)]
        return [columns for columns in slices if columns.stop - columns.start > 1]

    # --- successors ----------------------------------------------------------------------------------------------

    def run(self, states: States, rise: Array | None, room: Array) -> tuple[States, Choices]:
        """Return the states after every batch that may start now; `parent` is the position in `states`."""
        choices = self.successors.batches(states.rows, rise, room)
        ticks = self.successors.durations(choices)
        before = states.take(choices.parent)
        option = self.table.option
        if self.rules.slots:
            rows = option["next"][choices.options].astype(np.int32)
        else:
            rows = option["after"][choices.options].astype(np.int32)
            rests = option["busy"][choices.options] == 0
            rows = np.where(rests, self._passed(rows, ticks, waited=False), rows)
        after = States(rows, before.time + ticks, before.cost, before.f, choices.parent)
        after.cost = self.objective.run(before, choices, ticks, after)
        return after, choices

    def wait(self, states: States) -> States:
        """Return the states after waiting for the next arrival or return, of those that can and may wait."""
        state = self.table.state
        remaining = state["remaining"][states.rows]
        ticks = np.where(remaining > 0, remaining, NEVER).min(axis=1)
        where = np.nonzero((ticks < NEVER) & ~self._waits_in_vain(states.rows))[0]
        before, ticks = states.take(where), np.minimum(ticks[where], 1 if self.paced else NEVER)
        rows = self._passed(state["plain"][before.rows].astype(np.int32), ticks, waited=not self.paced)
        return States(rows, before.time + ticks, self.objective.wait(before, ticks), before.f, where)

    def canonical(self, rows: Rows) -> Rows:
        """Order requests of one kind by their local states."""
        for columns in self.groups:
            rows[:, columns] = np.sort(rows[:, columns], axis=1)
        return rows

    def _waits_in_vain(self, rows: Rows) -> Mask:
        """Whether a batch in place of the wait is never worse (rules `finish` and `maximal`).

        There is no such batch where an ordered swap-out, which a batch would have to make, overfills the host.
        """
        if not (self.rules.finish or self.rules.maximal) or not self.instance.machine.pause:
            return np.zeros(len(rows), np.bool_)
        option = self.table.option
        resting = self.table.state["first"][rows].astype(np.int32)
        device, host = (option[name][resting].sum(axis=1) for name in ("blocks", "host"))
        fits: Mask = host <= self.successors.host_limit
        return self.successors.could_gain(Choices(np.arange(len(rows)), resting, device, host)) & fits

    def _passed(self, rows: Rows, ticks: Array, waited: bool) -> Rows:
        """Return the rows `ticks` ticks later; local states may be new."""
        rows = rows.copy()
        where = np.nonzero(self.table.state["remaining"][rows])
        if len(where[0]):
            pairs, inverse = np.unique(np.stack([rows[where], ticks[where[0]]]), axis=1, return_inverse=True)
            later = [self.table.pass_time(number, by, waited) for number, by in pairs.T.tolist()]
            rows[where] = np.array(later, np.int32)[inverse.reshape(-1)]
        return rows


def _deadlines(request: Request) -> tuple[int, int, int]:
    """Return the last ticks at which the first token and the end are on time, and the ticks allowed between them."""
    first, last, between = (NEVER if ticks is None else ticks for ticks in request.slo_ticks)
    return min(NEVER, request.arrival + first), min(NEVER, request.arrival + last), between


def _check_size(instance: Instance, scale: int) -> None:
    """Raise where a number of the search might not fit into 64 bits."""
    requests, n = instance.requests, len(instance.requests)
    tokens = sum(r.peak for r in requests)
    batches = sum(r.peak * len(r.segments) for r in requests)
    most = Features(1, 1, 1, tokens, n, n, n, tokens, tokens, tokens * tokens, tokens, tokens, n, n)
    largest = max(f.value(most) for f in instance.cost.functions)
    longest = instance.cost.duration(most)
    ticks = max(r.arrival for r in requests) + sum(r.call_time for r in requests) + (batches + 1) * longest
    weight = max(scale, sum(r.weight for r in requests))
    if max(ticks * weight * n * UNIT, largest * (batches + 1)) >= UNLIMITED:
        raise BadInput(
            f"{instance.name}: its numbers are too large for the exact search (a schedule may last {ticks} ticks); "
            "use a longer tick or smaller cost coefficients"
        )
