"""Kind `fresh` (docs/fresh.md)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate, product
from math import inf
from typing import Any, NamedTuple

from library.checker.files import MOST_TRIED, Amount, Box, Broken, NotChecked, spend
from library.checker.instance import SWAPS, blocks
from library.checker.objectives import MOST_OF, rates_of
from library.checker.work import fresh_tokens, in_turns


class KV(NamedTuple):
    """Where the KV of a request is, the tokens kept, and the most on the device."""

    place: str
    kept: int
    device: int


class Choice(NamedTuple):
    """Where KV is during a batch, and the ticks of its swaps."""

    place: str
    kept: int
    open: int
    swaps: int


class Label(NamedTuple):
    """What is known after a batch; `ends`: those of completed requests, times rates."""

    ends: int
    time: int
    tokens: tuple[int, ...]
    ready: tuple[int, ...]
    open: tuple[int, ...]
    kv: tuple[KV, ...]


Row = tuple[int, int, int, KV]


def fresh(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `fresh`: all orders of batches below the claim, each token processed once; times are ticks times divisor.

    What the file says of the search is not looked at. Of labels with the same tokens, those that another one covers
    are left out.
    """
    if not proof.memory or instance.machine.partial:
        raise Broken("fresh proves nothing without memory, or with partial: potentials prove as much")
    return best_first(Orders(instance, proof, objective), instance, proof.claim)


def best_first(search: Any, instance: Box, claim: Fraction) -> Amount:
    """The bound of the first label in which all are completed, the best label first; the claim, where none is below."""
    before = sum(rate * one.arrival for rate, one in zip(search.rates, instance.requests, strict=True))
    goal, first = (claim * search.unit + before) * search.divisor, search.first()
    waiting, known, tried = [(search.least(first), first)], {first.tokens: [first]}, 0
    while waiting and waiting[0][0] < goal:
        bound, label = heapq.heappop(waiting)
        if not search.left(label):
            return (Fraction(bound, search.divisor) - before) / search.unit
        for following in search.followers(label) if label in known[label.tokens] else ():
            tried += 1
            if tried > MOST_TRIED:
                raise NotChecked(f"more than {MOST_TRIED} batches are not tried")
            labels = known.setdefault(following.tokens, []) if following else []
            spend(100 * len(labels) + 500, "its labels")
            if not following or any(search.covers(one, following) for one in labels):
                continue
            least = max(bound, search.least(following))
            if least < goal:
                labels[:] = [one for one in labels if not search.covers(following, one)] + [following]
                heapq.heappush(waiting, (least, following))
    return claim


class Orders:
    """What is the same in all labels of kind `fresh`; the place of a request's KV is `here`, `away` or `part`."""

    def __init__(self, instance: Box, proof: Box, objective: str) -> None:
        if not proof.function < len(instance.cost):
            raise Broken(f"the cost has no function {proof.function}")
        line, machine, self.given = instance.cost[proof.function], instance.machine, instance.requests
        self.machine, self.room = machine, inf if machine.memory is None else machine.memory // machine.block
        self.host = inf if machine.host_memory is None else machine.host_memory
        self.rates, self.unit = rates_of(instance, objective)
        chains = [list(fresh_tokens(one, MOST_OF.get(objective))) for one in self.given]
        self.fresh, self.chunked = [[new for new, _ in chain] for chain in chains], machine.chunked
        self.contexts, self.divisor = [list(accumulate(news)) for news in self.fresh], line.divisor
        self.wait = [[call * line.divisor for _, call in chain] for chain in chains]
        self.work_of(line)
        self.swaps_of(line, instance.cost)
        each = zip(self.wait, self.fresh, strict=True)
        tails = (map(self.later_token, calls[-2::-1], news[:0:-1]) for calls, news in each)
        self.rest = [[0, *accumulate(tail)][::-1] for tail in tails]
        ends = [accumulate(each.decode for each in one.segments) for one in self.given]
        calls = [[each.call and each.call.handling for each in one.segments] for one in self.given]
        self.discards = [
            {end for end, how in zip(*each, strict=True) if how == "discard"} for each in zip(ends, calls, strict=True)
        ]

    def work_of(self, line: Box) -> None:
        """The fixed part of a batch, what a token and a token that is generated take."""
        self.busy = line.busy + min(line.any_decode, line.any_prefill)
        self.token = min(line.decode_requests, line.prefill_requests) + line.generated
        limit = self.machine.batch_tokens if self.chunked else None
        self.C, self.b = limit or 1 + sum(map(sum, self.fresh)), line.tokens

    def swaps_of(self, line: Box, cost: list[Box]) -> None:
        """What a token takes that is swapped out or in."""
        outs, ins = ([each[name] * line.divisor // each.divisor for each in cost] for name in SWAPS[:2])
        self.out, self.into = max(zip(outs, ins, strict=True), key=sum)

    def later_token(self, call: int, new: int) -> int:
        """What a token takes after a call, in as many batches as the budget asks for."""
        return call + self.busy * (blocks(new, self.C) if self.chunked else 1) + self.b * new + self.token

    def first(self) -> Label:
        """The label of the start."""
        n, arrivals = len(self.given), tuple(one.arrival * self.divisor for one in self.given)
        return Label(0, 0, (0,) * n, arrivals, arrivals, (KV("part", 0, 0),) * n)

    def left(self, label: Label) -> list[int]:
        """Those that are not completed."""
        return [i for i, news in enumerate(self.fresh) if label.tokens[i] < len(news)]

    def followers(self, label: Label) -> Iterator[Label | None]:
        """The labels after all batches that may follow; None for one without room."""
        left = self.left(label)
        for bits in range(1, 2 ** len(left)):
            F = [i for k, i in enumerate(left) if bits >> k & 1]
            for choices in product(*(self.places(label, F, i) for i in left)):
                yield FreshBatch(self, label, F, dict(zip(left, choices, strict=True))).following()

    def restored(self, lacks: int, moves: int) -> int:
        """The least time in which `lacks` tokens are processed or swapped in, beside moves of others."""
        b, into = self.b, self.into
        return max(moves, (into * (self.busy + b * lacks) + b * moves) // (b + into) if lacks and into else 0)

    def least(self, label: Label) -> int:
        """What no schedule through a label ends below: each request alone, or next tokens in turns.

        Turns are of what all rates have in common; what they have beyond it counts for each request alone.
        """
        jobs, tails, alone, beyond, low = [], 0, 0, 0, min(self.rates)
        for i in self.left(label):
            start, new = max(label.time, label.ready[i]), self.contexts[i][label.tokens[i]] - label.kv[i].kept
            work = self.token + self.b * new - min(self.b * (new - 1) * self.chunked, start - label.open[i])
            jobs.append((start + self.busy, work))
            tails += self.rest[i][label.tokens[i]]
            end = self.alone(label, i, start, work) + self.rest[i][label.tokens[i]]
            alone += self.rates[i] * end
            beyond += (self.rates[i] - low) * end
        return label.ends + max(alone, beyond + low * (tails + in_turns(jobs)))

    def alone(self, label: Label, i: int, start: int, work: int) -> int:
        """The earliest end of the next token of a request, if its batches are of it alone."""
        (place, kept, device), context = label.kv[i], self.contexts[i][label.tokens[i]]
        end = start + self.busy + work
        if place == "part":
            return max(end, label.time + self.restored(max(0, context - device), 0))
        if place != "here":  # it comes back, or is dropped
            back = label.time + self.into * kept
            return min(max(end, back), start + self.busy + self.token + self.b * context)
        return end

    def places(self, label: Label, F: list[int], i: int) -> list[Choice]:
        """Where the KV of a request may be during a batch of F, after which moves."""
        (place, kept, _), opened, latest = label.kv[i], label.open[i], max(label.time, label.ready[i])
        stays, refilled = Choice(place, kept, opened, 0), Choice("part", 0, latest, 0)
        if place == "part" or (place == "here" and i in F):
            return [stays]
        if i in F:
            return [Choice("here", kept, opened, self.into * kept), refilled]
        other, ticks = ("away", self.out) if place == "here" else ("here", self.into)
        return [stays, Choice(other, kept, opened, ticks * kept), refilled]

    def covers(self, one: Label, other: Label) -> bool:
        """Whether one label is no later, and no further on, than another with the same tokens."""
        no_later = one.ends <= other.ends and one.time <= other.time
        return no_later and all(self.covers_request(i, one, other) for i in self.left(one))

    def covers_request(self, i: int, one: Label, other: Label) -> bool:
        """What `covers` asks for of a request."""
        latest, (place, kept, device), (its, has, at_most) = max(one.time, one.ready[i]), one.kv[i], other.kv[i]
        if latest > max(other.time, other.ready[i]):
            return False
        if place in ("here", "away") and its == "part" and has == 0 and other.open[i] >= latest:
            return True
        if one.open[i] > other.open[i] or kept < has or (place != its and (place, its) != ("part", "here")):
            return False
        return place != "part" or device >= (at_most if its == "part" else self.contexts[i][one.tokens[i]] - 1)


class FreshBatch:
    """A batch that generates tokens of the requests F after a label, with a choice for each KV.

    S, w and G are those of the page; `parts` has G(Y) and n(F - Y) of the empty set, and for each i of F of all of F
    with no larger G.
    """

    def __init__(self, search: Orders, label: Label, F: list[int], choice: dict[int, Choice]) -> None:
        self.search, self.label, self.F, self.choice = search, label, F, choice
        self.contexts = {i: search.contexts[i][label.tokens[i]] for i in choice}
        self.S = max(label.time, *(label.ready[i] for i in F))
        new = {i: self.contexts[i] - choice[i].kept for i in F}
        self.w = search.b * sum(new.values()) + search.token * len(F)
        self.G = {i: self.S - choice[i].open for i in choice}
        G, n = self.G, {i: (new[i] - 1) * search.chunked for i in F}
        self.parts = [(-inf, sum(n.values())), *((G[i], sum(n[j] for j in F if G[j] > G[i])) for i in F)]

    def following(self) -> Label | None:
        """The label after it, or None if there is no room for the KV."""
        search, label, (room, host) = self.search, self.label, self.left_by_kv()
        if room < 0 or host < 0:
            return None
        opens = {i: self.open(i) for i in self.choice if i not in self.F}
        end = max(self.time(), self.time_of_moves())
        after = {i: self.generated(i, end) if i in self.F else self.waited(i, end, opens[i], room) for i in self.choice}
        ends = label.ends + end * sum(search.rates[i] for i in self.F if label.tokens[i] + 1 == len(search.fresh[i]))
        rows = zip(*(after.get(i) or row for i, row in enumerate(zip(*label[2:], strict=True))), strict=False)
        return Label(ends, end, *map(tuple, rows))

    def left_by_kv(self) -> tuple[Any, Any]:
        """R6 and R7: the blocks and the tokens that the device and the host have left."""
        room, host = self.search.room, self.search.host
        for i, (place, kept, _, _) in self.choice.items():
            if i in self.F or place == "here":
                room -= blocks(self.contexts[i] if i in self.F else kept, self.search.machine.block)
            elif place == "away":
                host -= kept
        return room, host

    def time(self) -> int:
        """Line (1): time' = S + busy + w - min over Y of (G(Y) + b n(F - Y))."""
        return self.S + self.search.busy + self.w - min(max(G, 0) + self.search.b * n for G, n in self.parts)

    def open(self, j: int) -> int:
        """Line (3): open'_j = S + busy + w - min over Y of (G(Y + j) + b n(F - Y))."""
        return self.S + self.search.busy + self.w - min(max(G, self.G[j]) + self.search.b * n for G, n in self.parts)

    def time_of_moves(self) -> int:
        """T' - T >= moves, and (b + r) (T' - T) >= r (busy + b L) + b moves where L tokens come back."""
        lacks = 0
        for i in self.F:
            was, context = self.label.kv[i], self.contexts[i]
            if was.place == "part":
                lacks += max(0, context - was.device)
        return self.label.time + self.search.restored(lacks, sum(each.swaps for each in self.choice.values()))

    def generated(self, i: int, end: int) -> Row:
        """(tokens, ready, open, KV) of a request of F."""
        done = self.label.tokens[i] + 1
        ready = end + self.search.wait[i][done - 1]
        kv = KV("part", 0, 0) if done in self.search.discards[i] else KV("here", self.contexts[i], 0)
        return done, ready, ready, kv

    def waited(self, i: int, end: int, opened: int, room: Any) -> Row:
        """(tokens, ready, open, KV) of another; where it has less KV than by `open`, that is taken instead."""
        search, place, kept, ready = self.search, self.choice[i].place, self.choice[i].kept, self.label.ready[i]
        latest, most = max(end, ready), self.contexts[i] - 1
        opened, device = min(latest, opened), min(most, room * search.machine.block)
        limit: Any = device if search.host == 0 and place == "part" else inf
        if limit < most and latest - opened > search.b * (limit - kept):
            opened, kept = latest, limit
        return self.label.tokens[i], ready, opened, KV(place, kept, device)
