"""When batches start: the three clocks of the Big-M model, of which the objective and the cost choose one.

`Slots`: every batch lasts one tick, so batch j is the slot of time [j-1, j) after the first arrival. `Order`: busy-time
counts no waiting, so only the order of the batches matters. `Starts`: start times are variables. Slots may idle, and a
move that a call orders then falls on the next slot; with `evict` and ordered swaps this would lose schedules (a batch
may consist of an ordered swap and an eviction), and `Starts` is used.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import pyomo.environ as pyo

from formulations.batch_variables import BatchClock, BatchVariables, Rows, TickClock
from formulations.chains import least_batch, least_times, least_work, longest_batch
from formulations.horizon import latest_completions

LONG_WAITS = 10
"""Slots are used up to this many for each batch; with longer waits, start times are the smaller model."""


def make_clock(program: BatchVariables, batches: int) -> BatchClock:
    """Choose the clock that fits."""
    if program.objective_name == "busy-time":
        return Order(program, batches)
    slots = latest_end(program, batches) - program.instance.first_arrival
    orders = any(call.handling == "swap" for request in program.instance.requests for call in request.calls)
    if program.instance.cost.always_one_tick and not (orders and program.machine.evict):
        return Slots(program, slots) if slots <= LONG_WAITS * batches else Starts(program, batches)
    return Starts(program, batches)


def latest_end(program: BatchVariables, batches: int) -> int:
    """Return a tick by which every schedule ends that is worth finding, started as early as it can be.

    Until its end, such a schedule waits only for arrivals and calls: it ends by the last arrival, plus all calls, plus
    all batches. The upper bound may say more; where rows of one's own may want to wait, it is all there is.
    """
    requests = program.instance.requests
    calls = sum(request.call_time for request in requests)
    end = max(request.arrival for request in requests) + calls + batches * longest_batch(program.instance)
    if program.upper_bound is None:
        return end
    known = latest_completions(program.instance, program.objective_name, program.upper_bound)
    return end if known is None else max(known) if program.as_is else min(end, max(known))


class Order(BatchClock):
    """busy-time: a batch waits for whatever it needs, at no cost, so every call has returned by the next batch."""

    def returned(self, i: int, k: int, j: int) -> Any:
        """R[j] = E[j-1]."""
        return self.program.ended(i, k, j - 1)

    def milestones(self) -> range:
        """Return the last batch: busy-time depends on totals only."""
        return self.program.batches[-1:]


class Slots(TickClock):
    """Batch j is slot j: calls and arrivals are shifts of the index, and times are counts of slots."""

    least = 1

    def __init__(self, program: BatchVariables, batches: int) -> None:
        super().__init__(program, batches)
        requests = program.instance.requests
        waits = any(request.calls or request.arrival > self.origin for request in requests)
        self.may_idle = waits or program.as_is

    def wait(self, i: int, q: int) -> int:
        """Return the slots until the arrival (q = 0), or of the call before token q."""
        chain = self.program.chains[i]
        return chain.waits[q] if q else chain.request.arrival - self.origin

    def variables(self) -> None:
        """Add what must continue across idle slots, where the machine does not pause."""
        program = self.program
        active = product(program.requests, program.batches) if self.may_idle and not program.machine.pause else ()
        self.model.unfinished = pyo.Var(list(active), bounds=(0, 1))
        if program.objective_name == "makespan":
            self.model.last_end = pyo.Var(bounds=(0, self.batches))

    def constraints(self) -> list[Callable[[], Rows]]:
        """Return the constraints of the clock."""
        return [self.arrival, self.active_across_idle_slots, self.last_completion]

    def arrival(self) -> Rows:
        """R2: w = 0 in slots before the arrival."""
        for i, j in product(self.program.requests, self.program.batches):
            if j <= self.program.instance.requests[i].arrival - self.origin:
                yield self.program.works(i, j) <= 0

    def active_across_idle_slots(self) -> Rows:
        """active[j] >= w[j-1] - ended[j-1]; active[j] >= active[j-1] - used[j-1] (R5 without `pause`)."""
        for i, j in self.model.unfinished:
            if j > 1:
                yield self.model.unfinished[i, j] >= super().must_continue(i, j)
                yield self.model.unfinished[i, j] >= self.model.unfinished[i, j - 1] - self.model.used[j - 1]

    def last_completion(self) -> Rows:
        """last_end >= at[i,O] for every request (makespan)."""
        if self.program.objective_name == "makespan":
            for i in self.program.requests:
                yield self.model.last_end >= self.time_of(i, self.program.chains[i].outputs)

    def returned(self, i: int, k: int, j: int) -> Any:
        """R[j] = E[j-1-duration]: the call starts when its slot ends."""
        before = j - 1 - self.program.chains[i].request.calls[k].duration
        return self.program.ended(i, k, before) if before > 0 else 0

    def must_continue(self, i: int, j: int) -> Any:
        """1 if request i worked in the last slot in use before j, its segment goes on, and j is in use."""
        if (i, j) not in self.model.unfinished:
            return super().must_continue(i, j)
        return self.model.unfinished[i, j] + self.model.used[j] - 1

    def time_of(self, i: int, q: int) -> Any:
        """1 + the slots at whose end token q is not generated."""
        return 1 + sum(1 - self.program.reached(i, q, j) for j in self.program.batches)

    def end(self) -> Any:
        """Return the variable above all completions."""
        return self.model.last_end

    def end_tick(self, j: int) -> int:
        """Slot j ends j ticks after the first arrival."""
        return self.origin + j


class Starts(TickClock):
    """Batch j starts at t[j] and lasts D[j]; whether a call has returned by then is a variable R."""

    def __init__(self, program: BatchVariables, batches: int) -> None:
        super().__init__(program, batches)
        self.latest = (latest_end(program, batches) - self.origin) / program.scale
        self.least = least_batch(program.instance)

    def variables(self) -> None:
        """Add start times, returns, and the times that the objective needs."""
        program, batches = self.program, self.program.batches
        calls = [(i, k) for i in program.requests for k in range(len(program.chains[i].request.calls))]
        self.model.t = pyo.Var(batches, bounds=(0, self.latest))
        self.model.R = pyo.Var([(i, k, j) for (i, k), j in product(calls, batches)], domain=pyo.Binary)
        self.earliest = [
            [(chain.request.arrival - self.origin + ticks) / program.scale for ticks in times]
            for chain, times in zip(
                program.chains, (least_times(program.instance, chain) for chain in program.chains), strict=True
            )
        ]
        self.watched = self._watched()
        self.model.at = pyo.Var(self.watched, bounds=lambda _, i, q: (self.earliest[i][q], self.latest))
        spans = [] if program.plain else [(i, q, j) for (i, q), j in product(self.watched, batches)]
        self.model.span = pyo.Var(spans, bounds=(0, self.latest))

    def _watched(self) -> list[tuple[int, int]]:
        """Return the tokens whose times count: the first, the last, or those with an SLO."""
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
        rows = [self.sequence, self.arrival, self.call_starts, self.call_interval, self.time_of_token]
        tight = [self.time_is_spent, self.progress_takes_time, self.rest_takes_time]
        return rows if self.program.plain else [*rows, *tight]

    def sequence(self) -> Rows:
        """R1: t[j+1] >= t[j] + D[j]; the last batch ends by the latest end."""
        for j in self.program.batches:
            following = self.model.t[j + 1] if j < self.batches else self.latest
            yield following >= self.finish(j)

    def finish(self, j: int) -> Any:
        """The end of batch j."""
        return self.model.t[j] + self.program.duration(j)

    def arrival(self) -> Rows:
        """R2: t[j] >= a_i w[i,j]; tightened: t[j] >= a_i y[i,1,j]."""
        for i, j in product(self.program.requests, self.program.batches):
            arrival = (self.program.instance.requests[i].arrival - self.origin) / self.program.scale
            if arrival:
                yield self.model.t[j] >= arrival * self.program.works(i, j)
                if not self.program.plain:
                    yield self.model.t[j] >= arrival * self.program.reached(i, 1, j)

    def call_starts(self) -> Rows:
        """R[j] <= E[j-1], and a call that has returned stays so: R[j-1] <= R[j]."""
        for i, k, j in self.model.R:
            yield self.model.R[i, k, j] <= self.program.ended(i, k, j - 1)
            if j > 1:
                yield self.model.R[i, k, j - 1] <= self.model.R[i, k, j]

    def call_interval(self) -> Rows:
        """t[j] >= t[j'] + D[j'] + duration (R[j] - E[j'-1]) for j' < j: with the sequence no larger constant is needed.

        Plain: t[j] >= t[j'] + D[j'] + duration - T (1 - R[j]) - T E[j'-1].
        """
        for i, k, j in self.model.R:
            duration = self.program.chains[i].request.calls[k].duration / self.program.scale
            for before in range(self.program.first[i][self.program.chains[i].ends[k]], j) if duration else ():
                ended, returned = self.program.ended(i, k, before - 1), self.model.R[i, k, j]
                wait = duration * (returned - ended)
                if self.program.plain:
                    wait = duration - (self.latest + duration) * (1 - returned + ended)
                yield self.model.t[j] >= self.finish(before) + wait

    def time_of_token(self) -> Rows:
        """at[i,q] >= t[j] + D[j] - T y[i,q,j-1]: the batch that generates token q does not end later."""
        for (i, q), j in product(self.watched, self.program.batches):
            yield self.model.at[i, q] >= self.finish(j) - self.latest * self.program.reached(i, q, j - 1)

    def time_is_spent(self) -> Rows:
        """at[i,q] >= t[1] + sum of span[j]; span[j], the time from batch j that passes before token q (tightens).

        span[j] >= step (1 - y[j-1]), >= D[j] - T y[j-1], >= t[j+1] - t[j] - T y[j].
        """
        for i, q in self.watched:
            yield self.model.at[i, q] >= self.model.t[1] + sum(self.model.span[i, q, j] for j in self.program.batches)
            for j in self.program.batches:
                span, before = self.model.span[i, q, j], self.program.reached(i, q, j - 1)
                yield span >= self.least / self.program.scale * (1 - before)
                yield span >= self.program.duration(j) - self.latest * before
                if j < self.batches:
                    gap = self.model.t[j + 1] - self.model.t[j]
                    yield span >= gap - self.latest * self.program.reached(i, q, j)

    def progress_takes_time(self) -> Rows:
        """t[j] + D[j] >= sum over q of (L_q - L_{q-1}) y[i,q,j], L_q the earliest end of a batch that generates q."""
        for i, j in product(self.program.requests, self.program.batches):
            least = [0.0, *self.earliest[i][1:]]
            steps = [(q, b - a) for q, (a, b) in enumerate(pairwise(least), 1)]
            yield self.finish(j) >= sum(step * self.program.reached(i, q, j) for q, step in steps)

    def rest_takes_time(self) -> Rows:
        """at[i,q] >= t[j] + D[j] + rest[i,j] - T y[i,q,j-1], for the last token; makespan: end >= t[j] + D[j] + rest.

        The rest is what the tokens after the next take at least, and one batch for the next, of which chunks and the
        call may lie behind.
        """
        for i, j in product(self.program.requests, self.program.batches):
            last = self.program.chains[i].outputs
            if (i, last) in self.watched:
                late = self.latest * self.program.reached(i, last, j - 1)
                yield self.model.at[i, last] >= self.finish(j) + self.rest(i, j) - late
            elif self.program.objective_name == "makespan":
                yield self.end() >= self.finish(j) + self.rest(i, j)

    def rest(self, i: int, j: int) -> Any:
        """Time from the end of batch j to the end of request i, at the least."""
        reached, least = self.program.reached, self.earliest[i]
        terms = []
        for q in range(1, self.program.chains[i].outputs + 1):
            step = least_work(self.program.instance) / self.program.scale
            terms.append(step * (reached(i, q - 1, j) - reached(i, q, j)))
            terms.append((least[q] - least[q - 1]) * (1 - reached(i, q - 1, j)))
        return sum(terms)

    def returned(self, i: int, k: int, j: int) -> Any:
        """R[i,k,j]."""
        return self.model.R[i, k, j]

    def time_of(self, i: int, q: int) -> Any:
        """at[i,q]."""
        return self.model.at[i, q]

    def end(self) -> Any:
        """The end of the last batch; unused batches take no time."""
        return self.finish(self.batches)

    def end_tick(self, j: int) -> int:
        """t[j] + D[j], rounded."""
        return self.origin + int(round(self.program.scale * pyo.value(self.finish(j))))  # noqa: RUF046 - untyped
