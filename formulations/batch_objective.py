"""The objectives of the Big-M model, and what its dual bound says about them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pyomo.environ as pyo

from formulations.batch_clock import Starts
from formulations.batch_variables import BatchVariables, Rows
from kvcore.metrics import scale_of, weight


class BatchObjective:
    """What is minimised. Times are in the model's unit, counted from the clock's origin.

    `denominator`: normalized-latency is multiplied by the least common multiple of the outputs.
    """

    def __init__(self, program: BatchVariables) -> None:
        self.program, self.model, self.name = program, program.model, program.objective_name
        self.requests = [chain.request for chain in program.chains]
        self.denominator = scale_of(self.requests, self.name)
        self.limits = [request.slo_ticks for request in self.requests] if self.name == "late-requests" else []
        model = self.model
        longest = program.clock.latest if isinstance(program.clock, Starts) else program.clock.batches
        model.longest_flow = pyo.Var([0] if self.name == "max-flow-time" else [], bounds=(0, longest))
        watched = [i for i, limits in enumerate(self.limits) if limits != (None, None, None)]
        model.late = pyo.Var(watched, domain=pyo.Binary)
        paced = [i for i in watched if isinstance(program.clock, Starts) and self.limits[i][2] is not None]
        model.first_at = pyo.Var(paced, bounds=(0, longest))

    def constraints(self) -> list[Callable[[], Rows]]:
        """Return the constraints that the objective needs, one method each."""
        return [self.longest_flow_time, self.first_token_at, self.late_first_token, self.late_end, self.late_pace]

    def flow(self, i: int, q: int | None = None) -> Any:
        """Return the time from the arrival to token q (the last one unless given)."""
        program = self.program
        token = program.chains[i].outputs if q is None else q
        return program.times.time_of(i, token) + (program.clock.origin - self.requests[i].arrival) / program.scale

    def longest_flow_time(self) -> Rows:
        """longest_flow >= at[i,O] - a_i; tightened: longest_flow >= (last end) - (last arrival)."""
        program = self.program
        for longest in self.model.longest_flow.values():
            for i in program.requests:
                yield longest >= self.flow(i)
            if not program.plain and isinstance(program.clock, Starts):
                last_arrival = max(request.arrival for request in self.requests)
                yield longest >= program.times.end() + (program.clock.origin - last_arrival) / program.scale

    # --- late requests -------------------------------------------------------------------------------------------

    def first_token_at(self) -> Rows:
        """first_at <= t[j] + D[j] + T (1 - y[i,1,j]): no later than the batch that generates the first token ends."""
        for i, j in product(self.model.first_at, self.program.batches):
            clock = self.program.clock
            assert isinstance(clock, Starts)
            slack = clock.latest * (1 - self.program.reached(i, 1, j))
            yield self.model.first_at[i] <= clock.finish(j) + slack

    def late_first_token(self) -> Rows:
        """at[i,1] - a_i <= limit + (T - limit) late[i] (SLO on TTFT)."""
        return self._within(0, lambda i: self.flow(i, 1))

    def late_end(self) -> Rows:
        """at[i,O] - a_i <= limit + (T - limit) late[i] (SLO on latency, or normalized latency times the output)."""
        return self._within(1, self.flow)

    def late_pace(self) -> Rows:
        """at[i,O] - first_at[i] <= limit + (T - limit) late[i] (SLO on TPOT, times one token less than the output)."""

        def between(i: int) -> Any:
            first = self.model.first_at[i] if i in self.model.first_at else self.program.times.time_of(i, 1)
            return self.program.times.time_of(i, self.program.chains[i].outputs) - first

        return self._within(2, between)

    def _within(self, kind: int, time: Callable[[int], Any]) -> Rows:
        clock = self.program.clock
        longest = clock.latest if isinstance(clock, Starts) else clock.batches
        for i in self.model.late:
            limit = self.limits[i][kind]
            if limit is not None:
                within = limit / self.program.scale
                yield time(i) <= within + max(0.0, longest - within) * self.model.late[i]

    # --- value ---------------------------------------------------------------------------------------------------

    def expression(self) -> Any:
        """Return what is minimised."""
        program = self.program
        if self.name == "busy-time":
            return sum(program.duration(j) for j in program.batches)
        if self.name == "makespan":
            return program.times.end() + program.clock.origin / program.scale
        if self.name == "max-flow-time":
            return self.model.longest_flow[0]
        if self.name == "late-requests":
            return sum(self.model.late.values()) + 0 * self.model.used[1]
        if self.name == "total-ttft":
            return sum(self.flow(i, 1) for i in program.requests)
        return sum(self.weight(i) * self.flow(i) for i in program.requests)

    def weight(self, i: int) -> int:
        """Return what a unit of the flow time of request i adds to the sum."""
        return int(self.denominator * weight(self.requests[i], self.name))
