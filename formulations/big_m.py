"""INFERMAX's program (its Section 5) extended to arrivals, calls, swaps and every switch, as a Pyomo model.

A method is a constraint: its name is that of its rows, its docstring the inequality, with the rules (R1, ..) and the
paper's equations, (1) to (5). Proofs: `docs/formulation.md`.
"""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pyomo.environ as pyo

from formulations.big_m_clocks import Starts, TickClock, make_clock
from formulations.big_m_contents import Contents
from formulations.big_m_cost import BatchCost
from formulations.big_m_letters import Letters, Rows
from formulations.big_m_values import schedule_of, set_values
from formulations.timing import objective_bound, start_early
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.limits import BUDGETS, Limit
from kvcore.metrics import OBJECTIVES, Value, scale_of, weight
from kvcore.schedule import Schedule
from kvcore.trace import Trace


class BigM(Letters):
    """At most `batches` batches, or slots of time enough for them.

    `model` is a linear mixed-integer Pyomo model, minimised; `write` gives it the constraints of `rows`, by name. No
    schedule of at most `upper_bound`, a known value, is cut off. With `as_is`, for rows of one's own, batches start
    when the model says.

    Raises BadInput for an objective that is not in OBJECTIVES.
    """

    OBJECTIVES = tuple(OBJECTIVES)

    def __init__(
        self, instance: Instance, objective: str, batches: int, *, upper_bound: Value | None = None, as_is: bool = False
    ) -> None:
        if objective not in self.OBJECTIVES:
            raise BadInput(f"{self.name} has no objective {objective!r}; it has {', '.join(self.OBJECTIVES)}")
        if batches < 1:
            raise BadInput(f"{self.name} needs at least 1 batch, not {batches}")
        super().__init__(instance, objective, upper_bound, as_is)
        self.add_letters(make_clock(self, batches))
        self.clock.add_letters()
        self.cost, self.contents = BatchCost(self), Contents(self)
        self._add_objective()
        parts = (self.clock, self.cost, self.contents)
        self.rows = self.constraints() | _named(*(rows for part in parts for rows in part.constraints()))

    def constraints(self) -> dict[str, Callable[[], Rows]]:
        """Return the constraints by name, without those of clock and cost."""
        work = _named(
            self.termination, self.non_decreasing_length, self.segment_ends,
            self.memory_management, self.tokens_to_process, self.token_generation, self.work_takes_tokens,
            self.readiness, self.decode_phase, self.extension_phase, self.no_pause,
            self.batch_order, self.batch_is_not_empty,
        )  # fmt: skip
        budgets = {limit.key: partial(self.budget, limit) for limit in BUDGETS}
        return work | budgets | _named(
            self.one_phase, self.blocks, self.device_memory, self.host_memory,
            self.segment_begins, self.eviction, self.residence, self.ordered_moves,
            self.holding, self.drop_amounts, self.swap_amounts, self.host_balance, self.all_or_nothing,
            self.longest_flow_time, self.first_token_at, self.late_first_token, self.late_end, self.late_pace,
        )  # fmt: skip

    def write(self) -> None:
        """Add the constraints, the objective, and the paper's S as an expression."""
        for name, rows in self.rows.items():
            written = pyo.ConstraintList()
            self.model.add_component(name, written)
            for row in rows():
                if row is False:  # no schedule has so few batches: say it in a row, as the solver expects
                    written.add(self.used[1] >= 2)
                elif row is not True:
                    written.add(row)
        self.model.S = pyo.Expression(self.every, rule=lambda _, i, j: self.known(i, j))
        self.model.objective = pyo.Objective(expr=self.value())

    # --- progress of a request -----------------------------------------------------------------------------------

    def termination(self) -> Rows:
        """Sum over j of g[i,j] = O_i (INFERMAX's termination)."""
        for i in self.requests:
            yield sum(self.g[i, j] for j in self.batches) == self.chains[i].outputs

    def non_decreasing_length(self) -> Rows:
        """S grows by g: generated[i,j] = generated[i,j-1] + g[i,j] (so in INFERMAX)."""
        for i, j in self.every:
            yield self.generated[i, j] == self.generated[i, j - 1] + self.g[i, j]

    def segment_ends(self) -> Rows:
        """y[i,q,j] = 1 exactly if generated[i,j] >= q, for the first token and the last of each segment."""
        for (i, q, j), reached in self.y.items():
            yield self.generated[i, j] >= q * reached
            yield self.generated[i, j] <= q - 1 + (self.chains[i].outputs - q + 1) * reached

    # --- work of a request ---------------------------------------------------------------------------------------

    def memory_management(self) -> Rows:
        """(1): m[i,j] = m'[i,j] + c[i,j], with m' the KV after the moves; 0 from the end of the request on."""
        for i, j in self.every:
            freed = self.peak(i) * (self.done(i, j) - self.done(i, j - 1))
            yield self.m[i, j] == self.processed(i, j) - freed

    def tokens_to_process(self) -> Rows:
        """(2): c[i,j] <= S - m', and one less if the request works but generates no token."""
        for i, j in self.every:
            idle = self.w[i, j] - self.g[i, j] if self.machine.chunked else 0
            yield self.processed(i, j) <= self.known(i, j) - idle

    def token_generation(self) -> Rows:
        """(3): c >= S - m' - M (1 - g)."""
        for i, j in self.every:
            yield self.processed(i, j) >= self.known(i, j) - self.most_S[i, j] * (1 - self.g[i, j])

    def work_takes_tokens(self) -> Rows:
        """R3: work takes tokens, w <= c <= M w; only work generates, g <= w."""
        for i, j in self.every:
            yield self.w[i, j] <= self.c[i, j]
            yield self.c[i, j] <= self.most_c[i, j] * self.w[i, j]
            if self.machine.chunked:
                yield self.g[i, j] <= self.w[i, j]

    def readiness(self) -> Rows:
        """R2: w <= 1 - (E - R) for each call, w <= 1 - done; arrivals are in the clock."""
        for i, j in self.every:
            yield self.w[i, j] <= 1 - self.done(i, j - 1)
            for k in range(len(self.handlings[i])):
                yield self.w[i, j] <= 1 - self.in_call(i, k, j)

    def decode_phase(self) -> Rows:
        """A decode (d = w - fresh - extends) generates a token and processes one: d <= g, c <= d + M (w - d)."""
        for i, j in self.every if self.phases_matter else ():
            decodes = self.decodes(i, j)
            if self.machine.chunked:
                yield decodes <= self.g[i, j]
            yield decodes >= 0
            yield self.c[i, j] <= decodes + self.most_c[i, j] * self.prefills(i, j)

    def extension_phase(self) -> Rows:
        """A prefill on resident KV has at least two tokens to process: S - m' >= 2 extends."""
        for (i, j), extends in self.extends.items():
            yield self.known(i, j) - self.resident(i, j) >= 2 * extends

    def no_pause(self) -> Rows:
        """R5 without `pause`: active <= w + drop + swap_out, where active = w[j-1] - ended[j-1]."""
        for i, j in () if self.machine.pause else product(self.requests, self.batches[1:]):
            yield self.clock.must_continue(i, j) <= self.w[i, j] + self.drops(i, j) + self.swaps_out(i, j)

    # --- batches -------------------------------------------------------------------------------------------------

    def batch_order(self) -> Rows:
        """used[j] >= used[j+1]. Not where batches are slots that may idle."""
        for j in () if self.clock.may_idle else self.batches[:-1]:
            yield self.used[j] >= self.used[j + 1]

    def batch_is_not_empty(self) -> Rows:
        """R10: w, swap_out, swap_in, drop <= used[j]; used[j] <= sum of w, swap_out and swap_in.

        Where slots may idle, moves that a call orders, and drops that R9 allows, may fall on idle slots.
        """
        for j in self.batches:
            acts = [self.w[i, j] for i in self.requests] + [self.swap_in[i, j] for i in self.swappable]
            acts += [
                self.swaps_out(i, j) - (self.ordered(i, j, "swap") if self.clock.may_idle else 0)
                for i in self.swappable
            ]
            for act in acts:
                yield act <= self.used[j]
            yield self.used[j] <= sum(acts)
            for i in self.droppable:
                allowed = self.licence(i, j, "discard") if self.clock.may_idle else 0
                yield self.drops(i, j) <= self.used[j] + allowed

    def budget(self, limit: Limit) -> Rows:
        """(4), R5, rows of each limit: sum of c <= C, sum of c - d <= P (d processes one token), sum of w <= most."""
        for j in self.batches if self.binds(limit) else ():
            yield sum(self.takes(limit, i, j) for i in self.requests) <= self.active[j] * limit.of(self.machine)

    def one_phase(self) -> Rows:
        """R5 without `hybrid`: d <= phase[j], fresh + extends <= used[j] - phase[j]."""
        for i, (j, phase) in product(self.requests, self.phase.items()):
            yield self.decodes(i, j) <= phase
            yield self.prefills(i, j) <= self.used[j] - phase

    def blocks(self) -> Rows:
        """R6: b times the blocks held >= m' + c."""
        for (i, j), blocks in self.blocks_held.items():
            yield self.machine.block * blocks >= self.processed(i, j)

    def device_memory(self) -> Rows:
        """(4), R6: sum of (m' + c) <= M, or sum of the blocks held <= floor(M / b); blocks of contents count once."""
        limit = self.machine.block_limit
        if limit is None:
            return
        for j in self.batches:
            if self.machine.block > 1:
                held = sum(self.blocks_held[i, j] for i in self.requests)
            else:
                held = sum(self.processed(i, j) for i in self.requests)
            shared = self.contents.resident(j) - sum(self.contents.private(i, j) for i in self.requests)
            yield held + shared <= limit * self.room[j]

    def host_memory(self) -> Rows:
        """R7: sum of h <= H; not in idle slots, on which an ordered swap may fall before it is made."""
        limit = self.machine.host_memory
        early = sum(self.peak(i) for i in self.requests if "swap" in self.handlings[i])
        for j in () if limit is None else self.batches:
            slack = early * (1 - self.used[j]) if self.clock.may_idle else 0
            yield sum(self.h[i, j] for i in self.requests) - slack <= limit

    # --- handling of calls and evictions -------------------------------------------------------------------------

    def segment_begins(self) -> Rows:
        """R9, free calls: w + E[j-1] - 1 <= begun[j] <= R[j], begun[j] - begun[j-1] <= w: work ends the window."""
        for (i, k, j), begun in self.begun.items():
            before = self.begun[i, k, j - 1]
            yield begun >= before
            yield begun >= self.w[i, j] + self.ended(i, k, j - 1) - 1
            yield begun - before <= self.w[i, j]
            yield begun <= self.clock.returned(i, k, j)

    def eviction(self) -> Rows:
        """R8: drop, swap_out <= licence of R9 without `evict`; with it <= 1 - (E[j-1] - R[j]) + ordered."""
        for handling, chosen in (("discard", self.drop), ("swap", self.swap_out)):
            for (i, j), move in chosen.items():
                if not self.machine.evict:
                    yield move <= self.licence(i, j, handling)
                for k, given in enumerate(self.handlings[i]):
                    if given != "free" and self.machine.evict:
                        ordered = self.ends(i, k, j - 1) if given == handling else 0
                        yield move <= 1 - self.in_call(i, k, j) + ordered

    def residence(self) -> Rows:
        """R4: w + drop <= 1 + licence of R9, the same for swap-outs; w + host <= 1."""
        for handling, chosen in (("discard", self.drop), ("swap", self.swap_out)):
            for (i, j), move in chosen.items():
                yield self.w[i, j] + move <= 1 + self.licence(i, j, handling)
        for (i, j), host in self.host.items():
            yield self.w[i, j] + host <= 1

    def ordered_moves(self) -> Rows:
        """R9: drop_all >= ordered; swap_out >= ordered, drop <= 1 - ordered, what remains <= M (1 - ordered)."""
        for i, j in self.every:
            swaps = self.ordered(i, j, "swap")
            if i in self.choosing and "discard" in self.handlings[i]:
                yield self.drops_all(i, j) >= self.ordered(i, j, "discard")
            if i in self.choosing and "swap" in self.handlings[i]:
                yield self.swaps_out(i, j) >= swaps
                yield self.drops(i, j) <= 1 - swaps
            if self.machine.partial and "swap" in self.handlings[i]:
                yield self.remaining(i, j) <= self.most_m[i, j] * (1 - swaps)

    # --- KV that moves -------------------------------------------------------------------------------------------

    def holding(self) -> Rows:
        """hold[j] = hold[j-1] - drop_all + fresh + begins - ends: KV appears by work or reuse, goes by drop or end."""
        for i, j in self.every:
            before, fresh, works = self.holds(i, j), self.fresh[i, j], self.w[i, j]
            begins = self.contents.begins[i, j]
            yield self.hold[i, j] == before + fresh + begins - (self.done(i, j) - self.done(i, j - 1))
            yield before >= 0
            yield before + fresh + begins <= 1
            yield fresh <= works
            yield works - fresh - begins <= before
            kv = self.resident(i, j) - self.reused[i, j] + self.h[i, j]
            yield kv <= self.most_m[i, j] * before
            if self.machine.partial:
                yield kv >= before

    def drop_amounts(self) -> Rows:
        """(1), (5), R8: drop <= dropped + dropped_host <= M drop; m[j-1] - dropped <= M (1 - drop_all)."""
        for i, j in product(self.droppable, self.batches):
            most, drop, every = self.most_m[i, j], self.drops(i, j), self.drops_all(i, j)
            device, host, offloaded = self.dropped[i, j], self.dropped_host[i, j], self.h[i, j - 1]
            yield device + host <= most * drop
            yield self.m[i, j - 1] - device <= most * (1 - every)
            yield device <= self.m[i, j - 1]
            if i in self.choosing:
                yield drop <= self.hold[i, j - 1]
                yield drop <= device + host
            if i in self.swappable:
                yield host <= offloaded
                yield offloaded - host <= most * (1 - every)
            if (i, j) in self.drop_device:
                yield device <= most * self.drop_device[i, j]
                yield offloaded - host <= most * (1 - self.drop_device[i, j])
            if (i, j) in self.drop_all:
                yield every <= drop

    def swap_amounts(self) -> Rows:
        """R10: swap_out <= swapped_out <= M swap_out, the same for swap-ins; m - dropped - swapped_out >= 0."""
        for i, j in product(self.swappable, self.batches):
            for move, tokens in ((self.swaps_out(i, j), self.swapped_out), (self.swap_in[i, j], self.swapped_in)):
                yield move <= tokens[i, j]
                yield tokens[i, j] <= self.most_m[i, j] * move
            yield self.remaining(i, j) >= 0

    def host_balance(self) -> Rows:
        """h[j] = h[j-1] - dropped + swapped out - swapped in; h <= M host."""
        for (i, j), offloaded in self.h.items():
            moved = self.swapped_out[i, j] - self.swapped_in[i, j] - self.dropped_host[i, j]
            yield offloaded == self.h[i, j - 1] + moved
            yield offloaded <= self.most_m[i, j] * self.host[i, j]

    def all_or_nothing(self) -> Rows:
        """R8 without `partial`: the rest <= M (1 - swap_out), h <= M (1 - swap_in), m' <= M (1 - host)."""
        for i, j in () if self.machine.partial else product(self.swappable, self.batches):
            most, host = self.most_m[i, j], self.host[i, j]
            yield self.remaining(i, j) <= most * (1 - self.swaps_out(i, j))
            yield self.h[i, j] <= most * (1 - self.swap_in[i, j])
            yield self.resident(i, j) <= most * (1 - host)
            yield host <= self.holds(i, j)

    # --- objectives ----------------------------------------------------------------------------------------------

    def _add_objective(self) -> None:
        name, requests = self.objective_name, self.instance.requests
        self.denominator = scale_of(requests, name)
        """The least common multiple of the outputs, for normalized-latency."""
        self.limits = [request.slo_ticks for request in requests] if name == "late-requests" else []
        watched = [i for i, limits in enumerate(self.limits) if limits != (None, None, None)]
        paced = [i for i in watched if isinstance(self.clock, Starts) and self.limits[i][2] is not None]
        longest = 0 if name == "busy-time" else self.times.latest
        self.longest_flow = self.letter("longest_flow", [0] if name == "max-flow-time" else [], longest)
        self.late = self.binary("late", watched)
        self.first_at = self.letter("first_at", paced, longest)

    @property
    def times(self) -> TickClock:
        """The clock of an objective of time."""
        assert isinstance(self.clock, TickClock)
        return self.clock

    def flow(self, i: int, q: int | None = None) -> Any:
        """Return the time from the arrival to token q (default: the last)."""
        token, arrival = self.chains[i].outputs if q is None else q, self.instance.requests[i].arrival
        return self.times.time_of(i, token) + (self.clock.origin - arrival) / self.scale

    def longest_flow_time(self) -> Rows:
        """longest_flow >= at[i,O] - a_i."""
        for longest, i in product(self.longest_flow.values(), self.requests):
            yield longest >= self.flow(i)

    def first_token_at(self) -> Rows:
        """first_at <= t[j] + D[j] + T (1 - y[i,1,j]): no later than the batch that generates the first token ends."""
        for (i, first_at), j in product(self.first_at.items(), self.batches):
            assert isinstance(self.clock, Starts)
            yield first_at <= self.clock.finish(j) + self.clock.latest * (1 - self.y[i, 1, j])

    def late_first_token(self) -> Rows:
        """at[i,1] - a_i <= limit + (T - limit) late[i] (SLO on TTFT)."""
        return self._within(0, lambda i: self.flow(i, 1))

    def late_end(self) -> Rows:
        """at[i,O] - a_i <= limit + (T - limit) late[i] (SLO on latency, or normalized latency times the output)."""
        return self._within(1, self.flow)

    def late_pace(self) -> Rows:
        """at[i,O] - first_at[i] <= limit + (T - limit) late[i] (SLO on TPOT, times one token less than the output)."""

        def between(i: int) -> Any:
            first = self.first_at[i] if i in self.first_at else self.times.time_of(i, 1)
            return self.times.time_of(i, self.chains[i].outputs) - first

        return self._within(2, between)

    def _within(self, kind: int, time: Callable[[int], Any]) -> Rows:
        for i, late in self.late.items():
            limit = self.limits[i][kind]
            if limit is not None:
                within = limit / self.scale
                yield time(i) <= within + max(0.0, self.times.latest - within) * late

    def value(self) -> Any:
        """Return the objective, in the model's unit of time."""
        name = self.objective_name
        if name == "busy-time":
            return sum(self.duration(j) for j in self.batches)
        if name == "makespan":
            return self.times.end() + self.clock.origin / self.scale
        if name == "max-flow-time":
            return self.longest_flow[0]
        if name == "late-requests":
            return sum(self.late.values()) + 0 * self.used[1]
        if name == "total-ttft":
            return sum(self.flow(i, 1) for i in self.requests)
        shares = [int(self.denominator * weight(request, name)) for request in self.instance.requests]
        return sum(shares[i] * self.flow(i) for i in self.requests)

    # --- results -------------------------------------------------------------------------------------------------

    def objective_bound(self, dual_bound: float) -> Value:
        """Turn a solver's dual bound into the objective's unit, rounded up (`timing.objective_bound`)."""
        units = 1 if self.objective_name == "late-requests" else self.scale
        return objective_bound(dual_bound, units, self.denominator)

    def warm_start(self, trace: Trace) -> bool:
        """Give every variable its value in a refereed schedule; False if the model does not contain it.

        It is started early (but for TPOT), and identical requests end in order (not with `as_is`).
        """
        early = trace if self.paced else start_early(self.instance, trace.schedule.batches)
        return set_values(self, early)

    def schedule(self) -> Schedule:
        """Return the schedule that the variables describe, started early (but for TPOT).

        Raises InvalidSchedule if rounding gives none.
        """
        return schedule_of(self, self.contents.there)


def _named(*rows: Callable[[], Rows]) -> dict[str, Callable[[], Rows]]:
    return {each.__name__: each for each in rows}
