"""The moves of the Big-M model: drops, swaps, the handling of calls, and what they leave of the KV."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pyomo.environ as pyo

from formulations.batch_variables import BatchVariables, Rows
from formulations.chains import may_drop, may_swap


class BatchMoves:
    """Variables and constraints of what happens to KV at the start of each batch: drop, swap_out, swap_in.

    A move that only calls order is no variable: it is 1 in the batch after the one that starts the call.
    `hold` is 1 while a request has KV anywhere; `fresh`, a work that starts from nothing, turns it to 1.
    """

    def __init__(self, program: BatchVariables) -> None:
        self.program, self.model, self.machine = program, program.model, program.machine
        self.all = list(product(program.requests, program.batches))
        requests = {i: chain.request for i, chain in enumerate(program.chains)}
        self.handlings = {i: [call.handling for call in request.calls] for i, request in requests.items()}
        self.droppable = {i for i, request in requests.items() if may_drop(self.machine, request)}
        self.swappable = {i for i, request in requests.items() if may_swap(program.instance, request)}
        self.choosing = {i for i in requests if self.machine.evict or "free" in self.handlings[i]}
        """Requests whose moves are chosen; those of the others are ordered."""
        self._variables()

    def _variables(self) -> None:
        model, program = self.model, self.program
        drops = [(i, j) for i, j in self.all if i in self.droppable]
        swaps = [(i, j) for i, j in self.all if i in self.swappable]

        def held(_: Any, i: int, j: int) -> tuple[int, int]:
            return 0, program.most_resident(i, j - 1)

        amounts = pyo.NonNegativeIntegers if self.machine.partial else pyo.NonNegativeReals
        model.hold = pyo.Var(self.all, bounds=(0, 1))
        model.drop = pyo.Var([(i, j) for i, j in drops if i in self.choosing], domain=pyo.Binary)
        model.dropped = pyo.Var(drops, domain=amounts, bounds=held)
        model.dropped_host = pyo.Var([ij for ij in drops if ij[0] in self.swappable], domain=amounts, bounds=held)
        model.swap_out = pyo.Var([(i, j) for i, j in swaps if i in self.choosing], domain=pyo.Binary)
        model.swap_in = pyo.Var(swaps, domain=pyo.Binary)
        model.swapped_out = pyo.Var(swaps, domain=amounts, bounds=held)
        model.swapped_in = pyo.Var(swaps, domain=amounts, bounds=held)
        model.h = pyo.Var(swaps, domain=pyo.NonNegativeReals, bounds=held)
        model.host = pyo.Var(swaps, domain=pyo.Binary)
        if self.machine.partial:
            model.drop_all = pyo.Var([ij for ij in drops if ij[0] in self.choosing], domain=pyo.Binary)
            model.drop_device = pyo.Var(list(model.dropped_host), domain=pyo.Binary)
        free = [(i, k) for i, hs in self.handlings.items() for k, h in enumerate(hs) if h == "free"]
        begun = [(i, k, j) for i, k in free for j in program.batches]
        model.begun = pyo.Var(begun if self.begun_is_variable else [], domain=pyo.Binary)
        full = [ij for ij in drops if not program.plain and (self.machine.chunked or self.machine.partial)]
        model.full = pyo.Var(full, bounds=(0, 1))

    @property
    def begun_is_variable(self) -> bool:
        """Without chunks, and with every token marked, a segment has begun when its first token is generated."""
        return self.machine.chunked or self.program.plain

    def constraints(self) -> list[Callable[[], Rows]]:
        """Return the constraints on moves, one method each."""
        handling = [self.segment_begins, self.eviction, self.residence, self.ordered_moves]
        amounts = [self.holding, self.drop_amounts, self.swap_amounts, self.host_balance, self.all_or_nothing]
        return [*handling, *amounts, *([] if self.program.plain else [self.fullness])]

    # --- what variables mean -------------------------------------------------------------------------------------

    def ordered(self, i: int, j: int, handling: str) -> Any:
        """1 if batch j comes after the one that started a call of this handling, which orders a move in j."""
        ended = self.program.ended
        return sum(
            ended(i, k, j - 1) - ended(i, k, j - 2) for k, h in enumerate(self.handlings[i]) if h == handling and j >= 2
        )

    def drops(self, i: int, j: int) -> Any:
        """e, x: 1 if KV of request i is dropped in batch j."""
        if i not in self.droppable:
            return 0
        return self.model.drop[i, j] if i in self.choosing else self.ordered(i, j, "discard")

    def drops_all(self, i: int, j: int) -> Any:
        """1 if all KV of request i is dropped in batch j."""
        return self.model.drop_all[i, j] if self.machine.partial and i in self.choosing else self.drops(i, j)

    def swaps_out(self, i: int, j: int) -> Any:
        """o: 1 if KV of request i is swapped out in batch j."""
        if i not in self.swappable:
            return 0
        return self.model.swap_out[i, j] if i in self.choosing else self.ordered(i, j, "swap")

    def swaps_in(self, i: int, j: int) -> Any:
        """1 if KV of request i is swapped in in batch j."""
        return self.model.swap_in[i, j] if i in self.swappable else 0

    def dropped(self, i: int, j: int) -> Any:
        """Device tokens of request i dropped in batch j."""
        return self.model.dropped[i, j] if i in self.droppable else 0

    def dropped_host(self, i: int, j: int) -> Any:
        """Host tokens of request i dropped in batch j."""
        return self.model.dropped_host[i, j] if i in self.droppable & self.swappable else 0

    def swapped_out(self, i: int, j: int) -> Any:
        """Tokens of request i swapped out in batch j."""
        return self.model.swapped_out[i, j] if i in self.swappable else 0

    def swapped_in(self, i: int, j: int) -> Any:
        """Tokens of request i swapped in in batch j."""
        return self.model.swapped_in[i, j] if i in self.swappable else 0

    def on_host(self, i: int, j: int) -> Any:
        """h: KV tokens of request i on the host after the moves of batch j, and at its end."""
        return self.model.h[i, j] if i in self.swappable and j else 0

    def remaining(self, i: int, j: int) -> Any:
        """Device tokens of request i after the drop and the swap-out of batch j."""
        return self.program.resident(i, j - 1) - self.dropped(i, j) - self.swapped_out(i, j)

    def resident(self, i: int, j: int) -> Any:
        """m': device tokens of request i after the moves of batch j."""
        return self.remaining(i, j) + self.swapped_in(i, j)

    def holds(self, i: int, j: int) -> Any:
        """1 if request i has KV anywhere after the moves of batch j, before its work."""
        return (self.model.hold[i, j - 1] if j > 1 else 0) - self.drops_all(i, j)

    def begun(self, i: int, k: int, j: int) -> Any:
        """1 if request i has worked since call k started, by the end of batch j."""
        if j < 1:
            return 0
        if self.begun_is_variable:
            return self.model.begun[i, k, j]
        return self.program.reached(i, self.program.chains[i].ends[k] + 1, j)

    def licence(self, i: int, j: int, handling: str) -> Any:
        """1 if R9 allows or orders a drop ("discard") or a swap-out ("swap") of request i in batch j."""
        windows = (
            self.program.ended(i, k, j - 1) - self.begun(i, k, j - 1)
            for k, h in enumerate(self.handlings[i])
            if h == "free"
        )
        return sum(windows) + self.ordered(i, j, handling)

    def lost(self, i: int, j: int) -> Any:
        """1 if KV of the generated tokens of request i is missing at the end of batch j, 0 before the first token."""
        program, first = self.program, self.program.reached(i, 1, j)
        if i not in self.droppable:
            return 0
        if (i, j) in self.model.full:
            return first - self.model.full[i, j]
        return first - self.model.hold[i, j] - program.done(i, j)

    def away(self, i: int, j: int) -> Any:
        """At least 1 if KV of request i is lost or on the host in batch j."""
        host = self.model.host[i, j] if i in self.swappable else 0
        return self.lost(i, j) + host

    def tokens(self, kind: str, i: int, j: int) -> int:
        """Return the tokens of a move (`drop`, `swap_out`, `swap_in`) in the values of the variables, rounded."""
        amount = {
            "drop": lambda: self.dropped(i, j) + self.dropped_host(i, j),
            "swap_out": lambda: self.swapped_out(i, j),
            "swap_in": lambda: self.swapped_in(i, j),
        }[kind]()
        return int(round(pyo.value(amount)))  # noqa: RUF046 - what Pyomo returns has no type

    def most(self, i: int, j: int) -> int:
        """Return the constant for KV that request i has when batch j starts: the tightest, or if plain a loose one."""
        return self.program.loose_tokens if self.program.plain else self.program.most_resident(i, j - 1)

    # --- handling of calls and evictions -------------------------------------------------------------------------

    def segment_begins(self) -> Rows:
        """R9, free calls: w + E[j-1] - 1 <= begun[j] <= R[j], begun[j] - begun[j-1] <= w: work ends the window."""
        for i, k, j in self.model.begun:
            begun, before = self.begun(i, k, j), self.begun(i, k, j - 1)
            yield begun >= before
            yield begun >= self.program.works(i, j) + self.program.ended(i, k, j - 1) - 1
            yield begun - before <= self.program.works(i, j)
            yield begun <= self.program.clock.returned(i, k, j)
            if not self.program.plain:
                yield begun >= self.program.reached(i, self.program.chains[i].ends[k] + 1, j)

    def eviction(self) -> Rows:
        """R8: drop, swap_out <= licence of R9 without `evict`; with it <= 1 - (E[j-1] - R[j]) + ordered."""
        for i, j in self.all:
            for handling, move in (("discard", self.drops(i, j)), ("swap", self.swaps_out(i, j))):
                if i not in self.choosing or isinstance(move, int):
                    continue
                if not self.machine.evict:
                    yield move <= self.licence(i, j, handling)
                for k, h in enumerate(self.handlings[i]):
                    if h != "free" and self.machine.evict:
                        ended = self.program.ended
                        ordered = ended(i, k, j - 1) - ended(i, k, j - 2) if h == handling and j >= 2 else 0
                        yield move <= 1 - self.program.in_call(i, k, j) + ordered

    def residence(self) -> Rows:
        """R4: w + drop <= 1 + licence of R9, the same for swap-outs; w + host <= 1."""
        for i, j in self.all:
            works = self.program.works(i, j)
            if i in self.choosing and i in self.droppable:
                yield works + self.drops(i, j) <= 1 + self.licence(i, j, "discard")
            if i in self.choosing and i in self.swappable:
                yield works + self.swaps_out(i, j) <= 1 + self.licence(i, j, "swap")
            if i in self.swappable:
                yield works + self.model.host[i, j] <= 1

    def ordered_moves(self) -> Rows:
        """R9: drop_all >= ordered; swap_out >= ordered, drop <= 1 - ordered, what remains <= m_max (1 - ordered)."""
        for i, j in self.all:
            if i in self.choosing and "discard" in self.handlings[i]:
                yield self.drops_all(i, j) >= self.ordered(i, j, "discard")
            if i in self.choosing and "swap" in self.handlings[i]:
                swaps = self.ordered(i, j, "swap")
                yield self.swaps_out(i, j) >= swaps
                yield self.drops(i, j) <= 1 - swaps
            if self.machine.partial and "swap" in self.handlings[i]:
                yield self.remaining(i, j) <= self.most(i, j) * (1 - self.ordered(i, j, "swap"))

    # --- amounts -------------------------------------------------------------------------------------------------

    def holding(self) -> Rows:
        """hold[j] = hold[j-1] - drop_all + fresh - ends: KV appears with a fresh work only, and goes by drop or end."""
        program, model = self.program, self.model
        for i, j in self.all:
            before, fresh = self.holds(i, j), model.fresh[i, j]
            ends = program.done(i, j) - program.done(i, j - 1)
            yield model.hold[i, j] == before + fresh - ends
            yield before >= 0
            yield before + fresh <= 1
            yield fresh <= program.works(i, j)
            yield program.works(i, j) - fresh <= before
            kv = self.resident(i, j) + self.on_host(i, j)
            yield kv <= self.most(i, j) * before
            if self.machine.partial:
                yield kv >= before

    def drop_amounts(self) -> Rows:
        """(1), (5), R8: drop <= dropped + dropped_host <= m_max drop; m[j-1] - dropped <= m_max (1 - drop_all)."""
        program, model = self.program, self.model
        for i, j in self.all:
            if i not in self.droppable:
                continue
            most, drop, every = self.most(i, j), self.drops(i, j), self.drops_all(i, j)
            device, host = self.dropped(i, j), self.dropped_host(i, j)
            yield device + host <= most * drop
            yield program.resident(i, j - 1) - device <= most * (1 - every)
            yield device <= program.resident(i, j - 1)
            if i in self.choosing:
                yield drop <= (model.hold[i, j - 1] if j > 1 else 0)
                yield drop <= device + host
            if i in self.swappable:
                yield host <= self.on_host(i, j - 1)
                yield self.on_host(i, j - 1) - host <= most * (1 - every)
                if self.machine.partial:
                    yield device <= most * model.drop_device[i, j]
                    yield self.on_host(i, j - 1) - host <= most * (1 - model.drop_device[i, j])
            if self.machine.partial and i in self.choosing:
                yield every <= drop

    def swap_amounts(self) -> Rows:
        """R10: swap_out <= swapped_out <= m_max swap_out, the same for swap-ins; m - dropped - swapped_out >= 0."""
        for i, j in self.all:
            if i not in self.swappable:
                continue
            out, back = self.swaps_out(i, j), self.swaps_in(i, j)
            yield out <= self.swapped_out(i, j)
            yield self.swapped_out(i, j) <= self.most(i, j) * out
            yield back <= self.swapped_in(i, j)
            yield self.swapped_in(i, j) <= self.most(i, j) * back
            yield self.remaining(i, j) >= 0

    def host_balance(self) -> Rows:
        """h[j] = h[j-1] - dropped + swapped out - swapped in; h <= h_max host."""
        for i, j in self.all:
            if i in self.swappable:
                moved = self.swapped_out(i, j) - self.swapped_in(i, j) - self.dropped_host(i, j)
                yield self.model.h[i, j] == self.on_host(i, j - 1) + moved
                yield self.model.h[i, j] <= self.most(i, j) * self.model.host[i, j]

    def all_or_nothing(self) -> Rows:
        """R8 without `partial`: the rest <= m_max (1 - swap_out), h <= m_max (1 - swap_in), m' <= m_max (1 - host)."""
        for i, j in self.all:
            if i in self.swappable and not self.machine.partial:
                yield self.remaining(i, j) <= self.most(i, j) * (1 - self.swaps_out(i, j))
                yield self.model.h[i, j] <= self.most(i, j) * (1 - self.swaps_in(i, j))
                yield self.resident(i, j) <= self.most(i, j) * (1 - self.model.host[i, j])
                yield self.model.host[i, j] <= self.holds(i, j)

    def fullness(self) -> Rows:
        """full[j] is 1 from a generation to the next drop: full >= g, full[j] >= full[j-1] - drop[j] (tightens)."""
        for i, j in self.model.full:
            full, drop = self.model.full[i, j], self.drops(i, j)
            yield full >= self.program.generates(i, j)
            yield full <= self.program.reached(i, 1, j)
            if j > 1:
                yield full >= self.model.full[i, j - 1] - drop
