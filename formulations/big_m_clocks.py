"""When batches start: the three clocks of the Big-M program (`docs/formulation.md`)."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pyomo.environ as pyo

from formulations.big_m_letters import Clock, Letters, Rows
from formulations.chains import longest_batch
from formulations.horizon import latest_completions

LONG_WAITS = 10
"""Most slots for each batch; with longer waits, `Starts` is the smaller model."""


def make_clock(program: Letters, batches: int) -> Clock:
    """Choose the clock."""
    if program.objective_name == "busy-time":
        return Order(program, batches)
    slots = latest_end(program, batches) - program.instance.first_arrival
    orders = any("swap" in handlings for handlings in program.handlings)
    if program.is_one_tick and not (orders and program.machine.evict) and slots <= LONG_WAITS * batches:
        return Slots(program, slots)
    return Starts(program, batches)


def latest_end(program: Letters, batches: int) -> int:
    """Return a tick by which every schedule worth finding ends, started early.

    Until its end, it waits only for arrivals and calls: it ends by the last arrival, plus all calls, plus all batches.
    So does one whose gaps are closed, where an early first token may be worse (`closed` of
    `tests/reductions/early.py`). The upper bound may give an earlier tick; with `as_is`, whose rows may want to wait,
    it alone decides.
    """
    requests = program.instance.requests
    calls = sum(request.call_time for request in requests)
    end = max(request.arrival for request in requests) + calls + batches * longest_batch(program.instance)
    if program.upper_bound is None:
        return end
    known = latest_completions(program.instance, program.objective_name, program.upper_bound)
    return end if known is None else max(known) if program.as_is else min(end, max(known))


class Order(Clock):
    """busy-time: a batch waits at no cost, so every call has returned by the next batch."""

    def returned(self, i: int, k: int, j: int) -> Any:
        """R[j] = E[j-1]."""
        return self.program.ended(i, k, j - 1)


class Slots(Clock):
    """Batches of one tick: batch j is the slot [j-1, j) after the first arrival, and may idle.

    Calls and arrivals shift the index, and times count slots.
    """

    def __init__(self, program: Letters, batches: int) -> None:
        super().__init__(program, batches)
        requests = program.instance.requests
        waits = any(request.calls or request.arrival > self.origin for request in requests)
        self.may_idle, self.latest = waits or program.as_is, batches

    def add_letters(self) -> None:
        """Add what must continue across idle slots, and the last end."""
        program = self.program
        carries = self.may_idle and not program.machine.pause
        self.unfinished = program.letter("unfinished", program.every if carries else ())
        self.last_end = program.letter("last_end", [0] if program.objective_name == "makespan" else (), self.batches)

    def constraints(self) -> list[Callable[[], Rows]]:
        """Return the constraints of the clock."""
        return [self.arrival, self.active_across_idle_slots, self.last_completion]

    def arrival(self) -> Rows:
        """R2: w = 0 in slots before the arrival."""
        for i, j in self.program.every:
            if j <= self.program.instance.requests[i].arrival - self.origin:
                yield self.program.w[i, j] <= 0

    def active_across_idle_slots(self) -> Rows:
        """active[j] >= w[j-1] - ended[j-1]; active[j] >= active[j-1] - used[j-1] (R5 without `pause`)."""
        for (i, j), unfinished in self.unfinished.items():
            if j > 1:
                yield unfinished >= super().must_continue(i, j)
                yield unfinished >= self.unfinished[i, j - 1] - self.program.used[j - 1]

    def last_completion(self) -> Rows:
        """last_end >= at[i,O] for every request (makespan)."""
        for i, end in product(self.program.requests, self.last_end.values()):
            yield end >= self.time_of(i, self.program.chains[i].outputs)

    def returned(self, i: int, k: int, j: int) -> Any:
        """R[j] = E[j-1-duration]: the call starts when its slot ends."""
        return self.program.ended(i, k, j - 1 - self.program.chains[i].request.calls[k].duration)

    def must_continue(self, i: int, j: int) -> Any:
        """1 if request i worked in the last slot in use before j, its segment goes on, and j is in use."""
        if not self.unfinished:
            return super().must_continue(i, j)
        return self.unfinished[i, j] + self.program.used[j] - 1

    def time_of(self, i: int, q: int) -> Any:
        """1 + the slots at whose end token q is not generated."""
        return 1 + sum(1 - self.program.y[i, q, j] for j in self.program.batches)

    def end(self) -> Any:
        """Return the variable above all completions."""
        return self.last_end[0]

    def end_tick(self, j: int) -> int:
        """The tick at which slot j ends."""
        return self.origin + j


class Starts(Clock):
    """Batch j starts at t[j] and lasts D[j]; whether a call has returned by then is a variable R."""

    def __init__(self, program: Letters, batches: int) -> None:
        super().__init__(program, batches)
        self.latest = (latest_end(program, batches) - self.origin) / program.scale
        self.calls = [(i, k) for i in program.requests for k in range(len(program.handlings[i]))]
        self.durations = {(i, k): program.chains[i].request.calls[k].duration / program.scale for i, k in self.calls}
        self.most_wait = {call: self.latest + duration for call, duration in self.durations.items()}
        """Switches `call_interval` off."""
        self.first_end = dict.fromkeys(self.calls, 1)
        """The first batch that can start the call."""

    def add_letters(self) -> None:
        """Add starts, returns, and the times of tokens in the objective."""
        program, batches = self.program, self.program.batches
        self.t = program.letter("t", batches, self.latest)
        self.R = program.binary("R", [(i, k, j) for (i, k), j in product(self.calls, batches)])
        self.at = program.letter("at", self._watched(), self.latest)

    def _watched(self) -> list[tuple[int, int]]:
        program, objective = self.program, self.program.objective_name
        if objective == "makespan":
            return []
        if objective != "late-requests":
            return [(i, 1 if objective == "total-ttft" else program.chains[i].outputs) for i in program.requests]
        slos = [(i, program.instance.requests[i].slo) for i in program.requests]
        first = {(i, 1) for i, slo in slos if slo is not None and slo.ttft is not None}
        return sorted(first | {(i, program.chains[i].outputs) for i, slo in slos if slo is not None})

    def constraints(self) -> list[Callable[[], Rows]]:
        """Return the constraints of the clock."""
        return [self.sequence, self.arrival, self.call_starts, self.call_interval, self.time_of_token]

    def sequence(self) -> Rows:
        """R1: t[j+1] >= t[j] + D[j]; the last batch ends by the latest end."""
        for j in self.program.batches:
            yield (self.t[j + 1] if j < self.batches else self.latest) >= self.finish(j)

    def finish(self, j: int) -> Any:
        """The end of batch j."""
        return self.t[j] + self.program.duration(j)

    def arrival(self) -> Rows:
        """R2: t[j] >= a_i w[i,j]."""
        for i, j in self.program.every:
            if arrival := self.program.instance.requests[i].arrival - self.origin:
                yield self.t[j] >= arrival / self.program.scale * self.program.w[i, j]

    def call_starts(self) -> Rows:
        """R[j] <= E[j-1], and a call that has returned stays so: R[j-1] <= R[j]."""
        for (i, k, j), returned in self.R.items():
            yield returned <= self.program.ended(i, k, j - 1)
            if j > 1:
                yield self.R[i, k, j - 1] <= returned

    def call_interval(self) -> Rows:
        """t[j] >= t[j'] + D[j'] + L - M (1 - R[j] + E[j'-1]) for j' < j: a call of L ticks starts as its batch ends."""
        for (i, k, j), returned in self.R.items():
            duration, most = self.durations[i, k], self.most_wait[i, k]
            for before in range(self.first_end[i, k], j) if duration else ():
                off = 1 - returned + self.program.ended(i, k, before - 1)
                yield self.t[j] >= self.finish(before) + duration - most * off

    def time_of_token(self) -> Rows:
        """at[i,q] >= t[j] + D[j] - T y[i,q,j-1]: the batch that generates token q does not end later."""
        for ((i, q), at), j in product(self.at.items(), self.program.batches):
            yield at >= self.finish(j) - self.latest * self.program.y[i, q, j - 1]

    def returned(self, i: int, k: int, j: int) -> Any:
        """R[i,k,j]."""
        return self.R[i, k, j]

    def time_of(self, i: int, q: int) -> Any:
        """at[i,q]."""
        return self.at[i, q]

    def end(self) -> Any:
        """The end of the last batch; unused batches take no time."""
        return self.finish(self.batches)

    def end_tick(self, j: int) -> int:
        """t[j] + D[j], rounded."""
        return self.origin + int(round(self.program.scale * pyo.value(self.finish(j))))  # noqa: RUF046 - untyped


TickClock = Slots | Starts
"""A clock that times tokens and batches, from the origin, in the model's unit of time."""
