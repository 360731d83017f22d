"""Kind `events` (the head of kvcore/certificates/events.py)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate
from math import ceil, inf
from typing import Any

from library.checker.files import MOST_TRIED, Amount, Box, Broken, NotChecked, spend
from library.checker.instance import but_id, limits_of, occupied, peak, prefill_budget
from library.checker.objectives import is_late
from library.checker.referee import MOVES, Execution, Option, State
from library.checker.work import Line, Tariff, Work, lines_of, ticks_of


def exhaustive(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `events`: everything that the referee takes, from the states on that may lead to less than the claim.

    What the file says of the search is not looked at.
    """
    check_size(instance, objective)
    return explore(instance, proof, Search(instance, objective))


def check_size(instance: Box, objective: str) -> None:
    """Refuse what the searches do not take."""
    if len(instance.requests) > 32:
        raise NotChecked("more than 32 requests are not searched")
    if objective == "late-requests" and any((one.slo or {}).get("tpot") is not None for one in instance.requests):
        raise NotChecked("with a TPOT, waits that only make the first token late are not searched")


def explore(instance: Box, proof: Box, search: Search) -> Amount:
    """The claim, or the optimum where that is less. Of states waiting, the one of the least bound comes next."""
    first = Execution(instance)
    least = {search.key(first): search.rank(first)}  # of states that are as good as each other, the least
    waiting, tried = [(search.rank(first), 0, first)], 0
    while waiting and waiting[0][0][0] < proof.claim:
        known, _, execution = heapq.heappop(waiting)
        if all(state.done is not None for state in execution.states.values()):
            return known[0]
        for following in search.following(execution) if known == least[search.key(execution)] else ():
            tried += 1
            if tried > MOST_TRIED:
                raise NotChecked(f"it claims {proof.claim}; so far it is known that no schedule is below {known[0]}")
            if following is not None:
                key, rank = search.key(following), search.rank(following)
                if rank[0] < proof.claim and (key not in least or rank < least[key]):
                    spend(500 * len(instance.requests), "its states")
                    least[key] = rank
                    heapq.heappush(waiting, (rank, -tried, following))
    return proof.claim


class Search:
    """States of the referee between batches: what may follow one, and a lower bound from there."""

    def __init__(self, instance: Box, objective: str) -> None:
        self.machine, self.objective, self.whole = instance.machine, objective, takes_whole(instance, objective)
        self.limits = [limits_of(self.machine)[name] for name in ("device", "tokens", "requests")]
        self.kinds, self.lines = list(map(but_id, instance.requests)), list(lines_of(instance.cost))
        self.ticks, self.need = ticks_of(instance), cache(self.needs)
        self.works = [Work(one, self.machine, self.ticks, self.ticks) for one in instance.requests]
        prices: list[Line] = [{"batch": 1}, {"prefill": 1}, *(line | {"prefill": 0} for line in self.lines)]
        tariffs = [Tariff(self.machine, each) for each in prices]
        tariffs += [Tariff(self.machine, {"packed": 1}, packs) for packs in (1, 2, 3, 64) if self.machine.memory]
        self.measures = [tariff.least for tariff in tariffs]

    def needs(self, i: int, generated: int, kept: int) -> tuple[int, int, list[Amount]]:
        """What a request with so much KV needs: ticks for its next token, ticks after it, and in all of `measures`.

        These are batches, prefills, prices by line, and parts of the memory by `packs`.
        """
        token, *others = self.works[i].tokens[generated:]
        token = token._replace(own=kept, low=0, wait=0, free=None)
        needs: list[Amount] = [sum(map(least, [token, *others])) for least in self.measures]
        return self.ticks(token), self.works[i].tail[generated], needs

    def together(self, needs: list[list[Amount]]) -> Iterator[int]:
        """Lower bounds of the ticks to come until one request is done, until two are, ..

        When the k-th is done, k of them have had all that they need: as many batches and prefills as one of them needs
        that needs no less than k - 1 others, the work of the k cheapest, and batches for what they hold as their
        tokens come, where what fits together is at most one batch (docs/bounds.md, Sharing what is fixed).
        """
        batches, prefills, *sums = map(sorted, zip(*needs, strict=True))
        sums = [list(accumulate(column)) for column in sums]
        prices, packed = sums[: len(self.lines)], sums[len(self.lines) :]
        for k, (most, filled) in enumerate(zip(batches, prefills, strict=True)):
            most = max([most, *(ceil(column[k]) for column in packed)])
            each = zip(prices, self.lines, strict=True)
            yield max(ceil(column[k] + line["base"] * most + line["prefill"] * filled) for column, line in each)

    def bound(self, execution: Execution) -> Amount:
        """No schedule from here on is below it: of each request alone, and of all together."""
        if self.objective == "late-requests":
            return sum(self.is_late(i, state, execution.clock) for i, state in enumerate(execution.states.values()))
        flows, ends, needs, clock, makespan = [], [], [], execution.clock, 0
        for i, state in enumerate(execution.states.values()):
            _, end = self.soonest(i, state, clock)
            if state.done is None:
                ends.append(end)
                needs.append(self.need(i, state.generated, state.m + state.h)[2])
            makespan = max(makespan, end)
            flows.append(end - state.one.arrival)
        busy = list(self.together(needs)) if needs else [0]
        if self.objective == "total-flow-time":
            return sum(flows) + sum(max(0, clock + least - end) for least, end in zip(busy, sorted(ends), strict=False))
        return {
            "busy-time": execution.busy + busy[-1],
            "makespan": max(makespan, clock + busy[-1]),
            "max-flow-time": max(flows),
        }[self.objective]

    def soonest(self, i: int, state: State, clock: int) -> tuple[int, int]:
        """The first and the last token of a request, at the earliest."""
        if state.first is not None and state.done is not None:
            return state.first, state.done
        ticks, tail, _ = self.need(i, state.generated, state.m + state.h)
        token = max(clock, state.ready) + ticks
        return token if state.first is None else state.first, token + tail

    def is_late(self, i: int, state: State, clock: int) -> bool:
        """Whether a request is late whatever follows."""
        return is_late(state.one, *(tick - state.one.arrival for tick in self.soonest(i, state, clock)))

    def rows(self, execution: Execution) -> list[tuple[Any, ...]]:
        """By request what decides its options, and whether it is late for good, where that counts."""
        late, clock = self.objective == "late-requests", execution.clock
        each = enumerate(zip(self.kinds, execution.states.values(), strict=True))
        return [(kind, *row_of(state, execution), late and self.is_late(i, state, clock)) for i, (kind, state) in each]

    def key(self, execution: Execution) -> tuple[Any, ...]:
        """What decides what may follow. Of two states with the same key, the one of the lower rank is as good.

        For what follows one may follow the other, as much later or earlier, and then both cost as much more than their
        bounds, or the earlier no more; but for max-flow-time they are compared at the same tick.
        """
        return (execution.clock if self.objective == "max-flow-time" else 0), *sorted(self.rows(execution))

    def rank(self, execution: Execution) -> tuple[Amount, int]:
        """The bound; of as many late requests, the earlier state."""
        return self.bound(execution), execution.clock if self.objective == "late-requests" else 0

    def following(self, execution: Execution) -> Iterator[Execution | None]:
        """What may be next: after a wait for the next arrival or return, or a batch at once (None if it breaks a rule).

        No other start is needed: each batch of a schedule may start as soon as the one before has ended, the requests
        that it works on have arrived, and the calls have returned that had, of requests that it works on or moves.
        """
        events = (state.ready for state in execution.states.values())
        later = min((tick for tick in events if tick > execution.clock), default=None)
        if later is not None:
            waited = execution.copied()
            waited.clock = later
            yield waited
        choices: list[Any] = []  # like requests next to each other
        each = zip(self.rows(execution), execution.states.values(), strict=True)
        for row, state in sorted(each, key=lambda one: one[0]):
            alike = choices and choices[-1][0] == row
            options = choices[-1][2] if alike else list(options_of(state, execution, self.whole))
            choices.append((row, state.id, options))
        for plan in self.plans(choices, (0, 0, 0)):
            amounts = ({id: option[k] for id, option in plan if option[k]} for k in range(4))
            following = execution.copied()
            try:
                following.step(Box(zip((*MOVES, "work"), amounts, strict=True)), execution.clock)
                yield following
            except Broken:
                yield None

    def plans(self, choices: list[Any], taken: tuple[int, ...], first: int = 0) -> Iterator[list[tuple[str, Option]]]:
        """What requests may do in a batch in which others have taken so much: (id, option) for each.

        Of like requests none takes an option before that of its neighbour. The referee knows the other rules.
        """
        if not choices:
            yield []
            return
        (row, id, options), *others = choices
        for k, (option, takes) in enumerate(options[first:], first):
            spend(10, "its batches")
            amounts = tuple(map(sum, zip(taken, takes, strict=True)))
            if all(most is None or amount <= most for amount, most in zip(amounts, self.limits, strict=True)):
                for plan in self.plans(others, amounts, k if others and others[0][0] == row else 0):
                    yield [(id, option), *plan]


def row_of(state: State, execution: Execution) -> tuple[Any, ...]:
    """What decides the options of a request: those that are alike and have the same row may change places."""
    wait, worked = max(0, state.ready - execution.clock), not execution.machine.pause and state.id in execution.worked
    return state.generated, state.m, state.h, wait, state.window, state.due or 0, worked


def options_of(state: State, execution: Execution, whole: bool = False) -> Iterator[tuple[Option, tuple[int, ...]]]:
    """What a request may do in a batch, (drop, swap_out, swap_in, work), and its use of the limits."""
    machine = execution.machine
    S, _ = state.after_call(execution.clock)
    works = state.ready <= execution.clock and state.done is None
    free = state.window == "free" or state.due is not None  # whether KV may leave in a batch in which it works

    def some(most: int) -> Iterable[int]:
        return range(most + 1) if machine.partial else {0, most}

    for drop in some(state.m + state.h) if free or machine.evict else [0]:
        h = max(0, state.h - drop)
        m = state.m + state.h - drop - h
        for out in some(m) if free or machine.evict else [0]:
            for into in some(h + out):
                held = m - out + into
                left = S - held if works and h + out == into and (free or not drop + out) else 0
                parts = range(left + 1) if machine.chunked else {0, left}
                if whole and left > 1:
                    parts = {0, left - 1, left, *([] if held else [1])}
                for c in parts:
                    spend(1000, "what a request may do")
                    yield (drop, out, into, c), (occupied(held + c, machine), c, c > 0)


def takes_whole(instance: Box, objective: str) -> bool:
    """Whether all or all but one of the tokens that a request lacks, or one on no KV, are the only parts to be tried.

    kvcore/certificates/splits.py says when.
    """
    machine, peaks = instance.machine, [peak(one) for one in instance.requests]
    cost, k = instance.cost[0], 1 if machine.partial else max(peaks)
    swaps = cost.swap_outs + cost.swap_ins + k * (cost.swap_out_tokens + cost.swap_in_tokens)
    enough = min(sum(peaks), machine.memory or inf)
    simple = (
        len(instance.cost) == 1 and not cost.tokens_above and all(len(one.segments) == 1 for one in instance.requests)
    )
    dear = cost.busy >= max(1, swaps) and cost.prefill_kv >= cost.divisor - 1
    ample = all(most is None or most >= enough for most in (machine.batch_tokens, prefill_budget(machine)))
    stays = not machine.evict or (machine.pause and machine.host_memory == 0)
    at_once = objective == "busy-time" or len({one.arrival for one in instance.requests}) == 1
    return machine.chunked and simple and dear and ample and stays and at_once
