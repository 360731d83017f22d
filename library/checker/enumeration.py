"""Kind `enumeration` (the head of kvcore/certificates/enumeration.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from operator import le
from typing import Any

from library.checker.events import Search, check_size, explore, options_of
from library.checker.files import Amount, Box, Broken, spend
from library.checker.instance import but_id, duration, hosted, limits_of, output
from library.checker.objectives import RATES
from library.checker.referee import MOVES, Execution, State


def enumerated(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `enumeration`: as `events`, with contents."""
    check_size(instance, objective)
    return explore(instance, proof, SharingSearch(instance, objective))


class SharingSearch(Search):
    """States with resident blocks."""

    def __init__(self, instance: Box, objective: str) -> None:
        self.machine, self.objective = instance.machine, objective
        limits = limits_of(self.machine)
        self.limits = [None, limits["tokens"], limits["requests"]]  # what paths share counts once
        self.kinds = list(map(but_id, instance.requests))
        self.least = duration(instance.cost, {"busy": 1, "tokens": 1, "generated": 1})

    def soonest(self, i: int, state: State, clock: int) -> tuple[int, int]:
        """The first and the last token, each after a batch of the least ticks."""
        if state.first is not None and state.done is not None:
            return state.first, state.done
        token = max(clock, state.ready) + self.least
        left = self.least * (output(state.one) - state.generated - 1)
        calls = sum(segment.call.duration for segment in state.one.segments[state.segment : -1])
        return token if state.first is None else state.first, token + left + calls

    def bound(self, execution: Execution) -> Amount:
        """No schedule from here on is below it: of each request alone."""
        states = [*execution.states.values()]
        if self.objective == "late-requests":
            return sum(self.is_late(i, state, execution.clock) for i, state in enumerate(states))
        ends = [self.soonest(i, state, execution.clock) for i, state in enumerate(states)]
        if self.objective == "busy-time":
            return execution.busy + self.least * max(output(state.one) - state.generated for state in states)
        if self.objective == "makespan":
            return max(end for _, end in ends)
        if self.objective == "max-flow-time":
            return max(end - state.one.arrival for (_, end), state in zip(ends, states, strict=True))
        which = self.objective != "total-ttft"
        rates = map(RATES[self.objective], (state.one for state in states))
        return sum(
            rate * (each[which] - state.one.arrival) for rate, each, state in zip(rates, ends, states, strict=True)
        )

    def key(self, execution: Execution) -> tuple[Any, ...]:
        """What decides what may follow."""
        return execution.resident, *super().key(execution)

    def following(self, execution: Execution) -> Iterator[Execution | None]:
        """What may be next: of what a batch can forget, all that leaves most."""
        events = [state.ready for state in execution.states.values() if state.ready > execution.clock]
        if events:
            waited = execution.copied()
            waited.clock = min(events)
            yield waited
        each = zip(self.rows(execution), execution.states.values(), strict=True)
        rows = sorted(each, key=lambda one: one[0])  # like requests next to each other
        choices = [(row, state.id, list(sharing(state, execution))) for row, state in rows]
        for plan in self.plans(choices, (0, 0, 0)):
            in_vain = (each[1] and each[2] and execution.states[id].due is None for id, each in plan)
            if self.machine.pause and any(each[3] for _, each in plan) and any(in_vain):
                continue  # the net move does as much
            amounts = ({id: option[k] for id, option in plan if option[k]} for k in range(5))
            yield from self.forgetting(execution, Box(zip((*MOVES, "work", "reuse"), amounts, strict=True)))

    def forgetting(self, execution: Execution, batch: Box) -> Iterator[Execution | None]:
        """What may follow a batch: it forgets more only where less breaks R6."""
        held, found = Counter[str](), list[Execution]()
        for id, state in execution.states.items():
            m = state.m - max(0, batch.drop.get(id, 0) - state.h) - batch.swap_out.get(id, 0)
            held |= Counter(node for node, _ in state.had(m, self.machine.block))
        loose = Counter(node for node, _ in execution.resident) - held
        good: list[tuple[int, ...]] = []
        for gone in sorted(product(*(range(loose[id] + 1) for id in execution.sizes)), key=sum):
            spend(100, "its forgets")
            if any(all(map(le, less, gone)) for less in good):
                continue
            forget = {id: k for id, k in zip(execution.sizes, gone, strict=True) if k}
            after, rule = execution.copied(), 0
            try:
                after.step(Box(batch, forget=forget), execution.clock)
            except Broken as broken:
                rule = broken.rule or 0
                yield None
            if not rule:
                good.append(gone)
                if not any(after.resident <= other.resident for other in found):
                    found.append(after)
                    yield after
            if not forget and rule != 6:
                return


def sharing(state: State, execution: Execution) -> Iterator[tuple[Any, tuple[int, ...]]]:
    """What a request may do in a batch, (drop, swap_out, swap_in, work, reuse), and its use of the limits."""
    block = execution.machine.block
    S, _ = state.after_call(execution.clock)
    for (drop, out, into, c), takes in options_of(state, execution):
        most = execution.machine.host_memory
        if most is not None and hosted(max(0, state.h - drop) + out - into, execution.machine) > most:
            continue
        yield (drop, out, into, c, 0), takes
        held = state.m - max(0, drop - state.h) - out + into
        for end in range(block, min(len(state.path) * block, S - 1) + 1, block) if c else ():
            left = S - end
            if end > held and (c <= left if execution.machine.chunked else c == S - held):
                work = c if execution.machine.chunked else left
                yield (drop, out, into, work, end - held), (0, work, 1)
