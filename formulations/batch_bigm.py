"""INFERMAX's program (its Section 5) extended to arrivals, calls, swaps and every switch, as a Pyomo model.

Each constraint is a method; its name is the constraint's name in the model and in `docs/formulation.md`, where the
proofs are; equations (1) to (5) are the paper's. The letters are those of `batch_variables`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, product
from typing import Any

import pyomo.environ as pyo

from formulations.batch_clock import make_clock
from formulations.batch_cost import BatchCost
from formulations.batch_moves import BatchMoves
from formulations.batch_objective import BatchObjective
from formulations.batch_start import BatchStart
from formulations.batch_variables import BatchVariables, Rows
from formulations.timing import end_at, objective_bound, start_early
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.metrics import OBJECTIVES, Value
from kvcore.schedule import Batch, Schedule
from kvcore.trace import Trace


class BatchBigM(BatchVariables):
    """At most `batches` batches (where batches are slots of time: slots enough for them); see the module's text.

    `model` is a linear mixed-integer Pyomo model, minimised. `upper_bound` is the value of a known schedule: it
    tightens the model and cuts off no schedule of at most that value. `plain` leaves out everything that only tightens.
    `as_is` is for rows of one's own: requests that are alike are not exchanged, and batches start when the model says.

    Raises BadInput for an objective that is not in OBJECTIVES.
    """

    name = "batch-bigm"
    OBJECTIVES = tuple(OBJECTIVES)

    def __init__(
        self,
        instance: Instance,
        objective: str,
        batches: int,
        *,
        upper_bound: Value | None = None,
        plain: bool = False,
        as_is: bool = False,
    ) -> None:
        if objective not in self.OBJECTIVES:
            raise BadInput(f"{self.name} has no objective {objective!r}; it has {', '.join(self.OBJECTIVES)}")
        if batches < 1:
            raise BadInput(f"{self.name} needs at least 1 batch, not {batches}")
        super().__init__(instance, objective, upper_bound, plain, as_is)
        self.clock = make_clock(self, batches)
        self.add_variables()
        self.moves = BatchMoves(self)
        self.clock.variables()
        self.cost = BatchCost(self, self.moves)
        self.objective = BatchObjective(self)
        for constraint in self.constraints():
            self._add(constraint)
        self.model.objective = pyo.Objective(expr=self.objective.expression())

    def constraints(self) -> list[Callable[[], Rows]]:
        """Return the constraints of the model, one method each."""
        progress = (
            [self.termination, self.non_decreasing_length, self.segment_ends]
            if self.plain
            else [self.token_order, self.call_before_next_token, self.no_pause_by_token]
        )
        work = [
            self.memory_management, self.tokens_to_process, self.token_generation, self.work_takes_tokens,
            self.readiness, self.decode_phase, self.extension_phase, self.no_pause,
        ]  # fmt: skip
        batch = [
            self.batch_order, self.batch_is_not_empty, self.batch_tokens, self.prefill_tokens, self.batch_requests,
            self.one_phase, self.blocks, self.device_memory, self.host_memory,
        ]  # fmt: skip
        tight = [
            self.phase_tokens, self.tokens_by_token, self.kept_tokens, self.generation_packing, self.resident_packing,
            self.identical_requests_end_in_order,
        ]  # fmt: skip
        return [
            *progress, *work, *batch, *([] if self.plain else tight), *self.moves.constraints(),
            *self.clock.constraints(), *self.cost.constraints(), *self.objective.constraints(),
        ]  # fmt: skip

    def _add(self, constraint: Callable[[], Rows]) -> None:
        rows = pyo.ConstraintList()
        self.model.add_component(constraint.__name__, rows)
        for row in constraint():
            if row is False:  # no schedule has so few batches: say it in a row, as the solver expects
                rows.add(self.model.used[1] >= 2)
            elif row is not True:
                rows.add(row)

    def name_as_the_paper(self) -> None:
        """Let the model have INFERMAX's letters: S and g as expressions where they are no variables, as m and c are."""
        every = list(product(self.requests, self.batches))
        self.model.S = pyo.Expression(every, rule=lambda _, i, j: self.known(i, j))
        if not self.plain:
            self.model.g = pyo.Expression(every, rule=lambda _, i, j: self.generates(i, j))

    def at_work(self, j: int) -> Any:
        """1 if any request works in batch j, at least; a batch that only transfers is used, and need not count."""
        busy = not self.plain and not self.is_one_tick and self.cost.has("busy")
        return self.model.busy[j] if busy else self.model.used[j]

    # --- progress of a request -----------------------------------------------------------------------------------

    def termination(self) -> Rows:
        """Sum over j of g[i,j] = O_i (plain; INFERMAX's termination)."""
        for i in self.requests:
            yield sum(self.generates(i, j) for j in self.batches) == self.chains[i].outputs

    def non_decreasing_length(self) -> Rows:
        """S grows by g: generated[i,j] = generated[i,j-1] + g[i,j] (plain; so in INFERMAX)."""
        for i, j in product(self.requests, self.batches):
            yield self.generated(i, j) == self.generated(i, j - 1) + self.generates(i, j)

    def segment_ends(self) -> Rows:
        """y[i,q,j] = 1 exactly if generated[i,j] >= q, for the marks q (plain)."""
        marks = [(i, q) for i in self.requests for q in self.marks(i)]
        for (i, q), j in product(marks, self.batches):
            most = self.chains[i].outputs
            yield self.generated(i, j) >= q * self.reached(i, q, j)
            yield self.generated(i, j) <= q - 1 + (most - q + 1) * self.reached(i, q, j)

    def token_order(self) -> Rows:
        """y[i,q,j-1] <= y[i,q,j] and y[i,q+1,j] <= y[i,q,j-1]: a token stays generated, one is made a batch."""
        for i, j in product(self.requests, self.batches):
            for q in self.marks(i):
                yield self.reached(i, q, j - 1) <= self.reached(i, q, j)
                if q > 1:
                    yield self.reached(i, q, j) <= self.reached(i, q - 1, j - 1)
        for i in self.requests:
            for q in self.marks(i):
                yield self.first[i][q] <= self.last[i][q]

    def call_before_next_token(self) -> Rows:
        """y[i,q+1,j] <= R[i,k,j] where token q starts call k."""
        for i, j in product(self.requests, self.batches):
            for k, end in enumerate(self.chains[i].ends[:-1]):
                yield self.reached(i, end + 1, j) <= self.clock.returned(i, k, j)

    # --- work of a request ---------------------------------------------------------------------------------------

    def memory_management(self) -> Rows:
        """(1): m[i,j] = m'[i,j] + c[i,j], with m' the KV after the moves; 0 from the end of the request on."""
        for i, j in product(self.requests, self.batches):
            freed = self.chains[i].request.peak * (self.done(i, j) - self.done(i, j - 1))
            yield self.model.m[i, j] == self.moves.resident(i, j) + self.model.c[i, j] - freed

    def tokens_to_process(self) -> Rows:
        """(2): c[i,j] <= S - m', and one less if the request works but generates no token."""
        for i, j in product(self.requests, self.batches):
            idle = self.works(i, j) - self.generates(i, j) if self.machine.chunked else 0
            yield self.moves.resident(i, j) + self.model.c[i, j] <= self.known(i, j) - idle

    def token_generation(self) -> Rows:
        """(3): m' + c >= A_q where token q is generated; plain: c >= S - m' - M (1 - g)."""
        for i, j in product(self.requests, self.batches):
            processed = self.moves.resident(i, j) + self.model.c[i, j]
            if self.plain:
                yield processed >= self.known(i, j) - self.loose_tokens * (1 - self.generates(i, j))
            else:
                context = self.chains[i].context
                yield processed >= sum(context[q] * self.makes(i, q, j) for q in self.marks(i))

    def work_takes_tokens(self) -> Rows:
        """R3: work takes tokens, w <= c <= c_max w; only work generates, g <= w."""
        for i, j in product(self.requests, self.batches):
            tokens, works = self.model.c[i, j], self.works(i, j)
            yield works <= tokens
            yield tokens <= (self.loose_tokens if self.plain else self.most_tokens(i, j)) * works
            if self.machine.chunked:
                yield self.generates(i, j) <= works

    def readiness(self) -> Rows:
        """R2: w <= 1 - (E - R) for each call, w <= 1 - done; arrivals are in the clock."""
        for i, j in product(self.requests, self.batches):
            yield self.works(i, j) <= 1 - self.done(i, j - 1)
            for k in range(len(self.chains[i].request.calls)):
                yield self.works(i, j) <= 1 - self.in_call(i, k, j)

    def decode_phase(self) -> Rows:
        """A decode (d = w - fresh - extends) generates a token and processes one: d <= g, c <= d + c_max (w - d)."""
        for i, j in product(self.requests, self.batches):
            if self.phases_matter:
                most = self.loose_tokens if self.plain else self.most_tokens(i, j)
                prefills = self.model.fresh[i, j] + self.extends(i, j)
                if self.machine.chunked:
                    yield self.decodes(i, j) <= self.generates(i, j)
                yield self.decodes(i, j) >= 0
                yield self.model.c[i, j] <= self.decodes(i, j) + most * prefills

    def extension_phase(self) -> Rows:
        """A prefill on resident KV has two tokens to process at least: S - m' >= 2 extends."""
        for i, j in self.model.extends:
            yield self.known(i, j) - self.moves.resident(i, j) >= 2 * self.model.extends[i, j]

    def no_pause(self) -> Rows:
        """R5 without `pause`: active <= w + drop + swap_out, where active = w[j-1] - ended[j-1]."""
        if self.machine.pause:
            return
        for i, j in product(self.requests, self.batches[1:]):
            active = self.clock.must_continue(i, j)
            yield active <= self.works(i, j) + self.moves.drops(i, j) + self.moves.swaps_out(i, j)

    def no_pause_by_token(self) -> Rows:
        """R5 without `pause` and eviction: y[i,q+1,j] = y[i,q,j-1] inside a segment (tightens; no idle batches)."""
        if self.machine.pause or self.machine.evict or self.machine.chunked or self.clock.may_idle:
            return
        for i, j in product(self.requests, self.batches[1:]):
            for q in self.marks(i)[1:]:
                if q - 1 not in self.chains[i].ends:
                    yield self.reached(i, q, j) >= self.reached(i, q - 1, j - 1)

    # --- batches -------------------------------------------------------------------------------------------------

    def batch_order(self) -> Rows:
        """used[j] >= used[j+1]; tightened: used[j] >= 1 - done[i,j-1]. Not where batches are slots that may idle."""
        if self.clock.may_idle:
            return
        for j in self.batches:
            if j + 1 in self.batches:
                yield self.model.used[j] >= self.model.used[j + 1]
            for i in () if self.plain else self.requests:
                yield self.model.used[j] >= 1 - self.done(i, j - 1)

    def batch_is_not_empty(self) -> Rows:
        """R10: w, swap_out, swap_in, drop <= used[j]; used[j] <= sum of w, swap_out and swap_in.

        Where slots may idle, moves that a call orders, and drops that R9 allows, may fall on idle slots.
        """
        for j in self.batches:
            acts = []
            for i in self.requests:
                ordered = self.moves.ordered(i, j, "swap") if self.clock.may_idle else 0
                acts += [self.works(i, j), self.moves.swaps_out(i, j) - ordered, self.moves.swaps_in(i, j)]
                allowed = self.moves.licence(i, j, "discard") if self.clock.may_idle else 0
                yield self.moves.drops(i, j) <= self.model.used[j] + allowed
            for act in acts:
                yield act <= self.model.used[j]
            yield self.model.used[j] <= sum(acts)

    def batch_tokens(self) -> Rows:
        """(4), R5: sum of c <= C."""
        limit = self.machine.batch_tokens
        if limit is None:
            return
        for j in self.batches:
            yield sum(self.model.c[i, j] for i in self.requests) <= limit * self.at_work(j)

    def prefill_tokens(self) -> Rows:
        """R5: sum of c over prefills <= P; a decode processes one token, so c - d is what counts."""
        limit = self.machine.prefill_tokens
        if limit is not None and limit != self.machine.batch_tokens:
            for j in self.batches:
                tokens = sum(self.model.c[i, j] - self.decodes(i, j) for i in self.requests)
                yield tokens <= limit * self.at_work(j)

    def batch_requests(self) -> Rows:
        """R5: sum of w <= batch_requests."""
        limit = self.machine.batch_requests
        if limit is None:
            return
        for j in self.batches:
            yield sum(self.works(i, j) for i in self.requests) <= limit * self.at_work(j)

    def one_phase(self) -> Rows:
        """R5 without `hybrid`: d <= phase[j], fresh + extends <= used[j] - phase[j]."""
        if not self.machine.hybrid:
            for i, j in product(self.requests, self.batches):
                yield self.decodes(i, j) <= self.model.phase[j]
                yield self.model.fresh[i, j] + self.extends(i, j) <= self.model.used[j] - self.model.phase[j]

    def blocks(self) -> Rows:
        """R6: b times the blocks held >= m' + c."""
        if hasattr(self.model, "blocks_held"):
            for i, j in product(self.requests, self.batches):
                processed = self.moves.resident(i, j) + self.model.c[i, j]
                yield self.machine.block * self.model.blocks_held[i, j] >= processed

    def device_memory(self) -> Rows:
        """(4), R6: sum of (m' + c) <= M, or sum of the blocks held <= floor(M / b)."""
        limit = self.machine.block_limit
        if limit is None:
            return
        for j in self.batches:
            if self.machine.block > 1:
                held = sum(self.model.blocks_held[i, j] for i in self.requests)
            else:
                held = sum(self.moves.resident(i, j) + self.model.c[i, j] for i in self.requests)
            yield held <= limit * (1 if self.clock.may_idle or self.plain else self.model.used[j])

    def host_memory(self) -> Rows:
        """R7: sum of h <= H; not in idle slots, on which an ordered swap may fall before it is made."""
        limit = self.machine.host_memory
        if limit is None:
            return
        for j in self.batches:
            early = sum(
                self.chains[i].request.peak
                for i in self.requests
                if any(call.handling == "swap" for call in self.chains[i].request.calls)
            )
            slack = early * (1 - self.model.used[j]) if self.clock.may_idle else 0
            yield sum(self.moves.on_host(i, j) for i in self.requests) <= limit + slack

    # --- tightening ----------------------------------------------------------------------------------------------

    def phase_tokens(self) -> Rows:
        """Work c >= g + extends; a fresh prefill that generates takes the prompt: c >= I (fresh + g - 1)."""
        for i, j in product(self.requests, self.batches):
            tokens, fresh, prompt = self.model.c[i, j], self.model.fresh[i, j], self.chains[i].request.prompt
            generates, chunked = self.generates(i, j), self.machine.chunked
            yield tokens >= generates + self.extends(i, j) + (0 if chunked else (prompt - 1) * fresh)
            if chunked and prompt > self.most_tokens(i, j):
                yield fresh + generates <= 1
            elif chunked:
                yield tokens >= prompt * (fresh + generates - 1)

    def tokens_by_token(self) -> Rows:
        """Sum of c up to batch j >= sum over q of the tokens that token q needs, times y[i,q,j]."""
        for i, j in product(self.requests, self.clock.milestones()):
            tokens = self.chains[i].least_tokens
            needed = sum(tokens[q] * self.reached(i, q, j) for q in self.marks(i))
            yield sum(self.model.c[i, b] for b in range(1, j + 1)) >= needed

    def kept_tokens(self) -> Rows:
        """KV that is not lost is held: m' + c + h >= sum of (A_q - A_{q-1}) y_q - A_O done - A_max lost."""
        for i, j in product(self.requests, self.batches):
            chain = self.chains[i]
            steps = sum((b - a) * self.reached(i, q, j) for q, (a, b) in enumerate(pairwise(chain.context), 1))
            lost = chain.context[self.most_generated(i, j)] * self.moves.lost(i, j)
            held = self.moves.resident(i, j) + self.model.c[i, j] + self.moves.on_host(i, j)
            yield held >= steps - chain.request.peak * self.done(i, j - 1) - lost

    def generation_packing(self) -> Rows:
        """Requests that generate hold their contexts: sum of u(A_q) (y[q,j] - y[q,j-1]) <= used[j], u dual feasible."""
        tokens = [(i, q, self.machine.blocks(self.chains[i].context[q])) for i in self.requests for q in self.marks(i)]
        for u, j in product(self.packings, self.batches):
            yield sum(self.makes(i, q, j) * u[blocks] for i, q, blocks in tokens) <= self.at_work(j)

    def resident_packing(self) -> Rows:
        """A request that lost nothing holds its context: sum of u(A_q) (y[q,j] - y[q+1,j]) - u_max away <= used[j]."""
        for u, j in product(self.packings, self.batches):
            packed = sum(self._packed(i, u, j) for i in self.requests)
            yield packed <= (1 if self.clock.may_idle else self.model.used[j])

    def _packed(self, i: int, u: list[float], j: int) -> Any:
        """At most u(blocks held) of request i in batch j."""
        sizes = [u[self.machine.blocks(context)] for context in self.chains[i].context]
        held = sum((b - a) * self.reached(i, q, j) for q, (a, b) in enumerate(pairwise(sizes), 1) if b > a)
        most = sizes[self.most_generated(i, j)]
        return held - sizes[-1] * self.done(i, j - 1) - most * self.moves.away(i, j)

    @cached_property
    def packings(self) -> list[list[float]]:
        """Dual feasible functions u of blocks: wherever numbers of blocks fit into the memory, their u add up to <= 1.

        The share itself, and those of Fekete and Schepers: floor((k+1) x) / k, or x where (k+1) x is whole.
        """
        limit = self.machine.block_limit
        if limit is None:
            return []
        found = [[Fraction(x, limit) for x in range(limit + 1)]]
        for k in range(1, 5):
            scaled = [Fraction((k + 1) * x, limit) for x in range(limit + 1)]
            u = [x / (k + 1) if x.denominator == 1 else Fraction(x.numerator // x.denominator, k) for x in scaled]
            found.append(u)
        return [[float(value) for value in u] for u in found]

    def identical_requests_end_in_order(self) -> Rows:
        """done[i,j] >= done[i',j] for requests i before i' that differ in their id only."""
        for alike in self.alike:
            for (i, other), j in product(pairwise(alike), self.batches):
                yield self.done(i, j) >= self.done(other, j)

    # --- results -------------------------------------------------------------------------------------------------

    def objective_bound(self, dual_bound: float) -> Value:
        """Turn a solver's dual bound into the objective's unit, rounded up (`timing.objective_bound`)."""
        units = 1 if self.objective_name == "late-requests" else self.scale
        return objective_bound(dual_bound, units, self.objective.denominator)

    def warm_start(self, trace: Trace) -> bool:
        """Give every variable its value in a refereed schedule; False if the model does not contain it.

        The schedule is started as early as it can be (but for TPOT), and identical requests are exchanged until they
        end in order.
        """
        early = trace if self.paced else start_early(self.instance, trace.schedule.batches)
        return BatchStart(self, self.moves, self.objective, early).set()

    def schedule(self) -> Schedule:
        """Return the schedule that the values of the variables describe, started as early as possible (but for TPOT).

        Raises InvalidSchedule if rounding the values gives none.
        """
        ids = [chain.request.id for chain in self.chains]
        batches: list[Batch] = []
        ends: list[int] = []
        early: dict[str, Counter[str]] = {"drop": Counter(), "swap_out": Counter(), "swap_in": Counter()}
        for j in self.batches:
            work = {ids[i]: n for i in self.requests if (n := round(pyo.value(self.model.c[i, j])))}
            moves = {
                kind: early[kind] + Counter({ids[i]: self.moves.tokens(kind, i, j) for i in self.requests})
                for kind in early
            }
            if self.clock.may_idle and round(pyo.value(self.model.used[j])) == 0:
                early = moves
            elif work or moves["swap_out"] or moves["swap_in"]:
                made = {kind: dict(amounts) for kind, amounts in moves.items()}
                batches.append(Batch.model_validate({"start": 0, "work": work, **made}))
                ends += [self.times.end_tick(j)] if self.paced else []
                early = {kind: Counter() for kind in early}
        if self.paced:
            return end_at(self.instance, batches, ends).schedule
        return start_early(self.instance, batches).schedule
