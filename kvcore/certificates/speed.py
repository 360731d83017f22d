"""Prices of work over time, where a small fast batch pays more for its work than a full slow one.

`docs/bounds.md` ("Speed has a price") proves the bound from V[i], the least that request i takes and pays, and bounds
V[i] from below by lemmas (`PricedRequest`).

All integers are unlimited: work and ticks are rounded down to units of 2^-bits, room is rounded up to `FINE` parts of a
token. `math.inf` is the tick of an end after the last slot, and the payment of what is too early.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from kvcore.certificates.budget import Budget, InvalidCertificate, Most, Work
from kvcore.certificates.shares import RESOURCES, UNIT, Division, PricedSteps, Proportion, Tick
from kvcore.certificates.steps import Integers
from kvcore.features import RULES, SUMS, Feature, Takes
from kvcore.instance import LIMIT, Instance, Noun, alike
from kvcore.metrics import Value, weight

ONE = 64
"""Ratios are in 64ths."""
FINE = 2**20
"""Parts of a token, or of a first token's work."""


Weights = Annotated[tuple[Annotated[int, Field(ge=0, le=2**20)], ...], Field(max_length=Most.price_slots)]
Series = Annotated[tuple[Annotated[int, Field(ge=0, le=2**50)], ...], Field(max_length=Most.price_slots)]


class PricedLine(Noun):
    """A `price` of work in one more line of the cost, for the slots of the proof; `functions` weighs lines as there."""

    functions: Annotated[tuple[Proportion, ...], Field(min_length=1, max_length=1000)]
    price: Series = ()


class Speed(Division):
    """A `price` of work for each slot of `slot` ticks from the first arrival on, in units of 1/`scale`; none later.

    All but the first token of a request count as tokens with a work at this `level` between their least and their most
    (in 1024ths); work beyond pays for the cheapest speeds alone. Where `ordered`, they begin after the first token,
    which comes in one of the `cells` of a slot, all of the same length; else after its least time. `ratios` are those D
    / (D - f) at which tangents bound the payment by speed, in 64ths and increasing.

    The 1024ths `fee` of every price are not paid by speed: a request pays for its work, and in each batch for its part
    of the fixed part. `fees` weigh these parts: for each group of requests that differ in their ids only, in the order
    of their first (with contents: each request), in the slots from the arrival on, each request's weight.

    For max-flow-time, `within` is a flow time in ticks with which all requests together would pay more than there is.

    `lines` are more lines of the cost with prices of their own, for work alone. With any, all but first tokens pay for
    their last batch only.
    """

    kind: Literal["speed"] = "speed"
    takes: ClassVar = Takes(RULES | SUMS | {Feature.LONGEST, Feature.SHARED, Feature.LAYOUT})
    slot: Annotated[int, Field(ge=1, le=LIMIT)]
    scale: Annotated[int, Field(ge=1, le=2**40)]
    price: Series
    level: Proportion = 0
    ratios: Annotated[tuple[Annotated[int, Field(gt=ONE, le=2**20)], ...], Field(max_length=64)] = ()
    ordered: bool = False
    fee: Proportion = 0
    fees: Annotated[tuple[Weights, ...], Field(max_length=1_000_000)] = ()
    within: Tick = 0
    lines: Annotated[tuple[PricedLine, ...], Field(max_length=16)] = ()
    cells: Annotated[int, Field(ge=1, le=64)] = 1

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return the least that all requests take and pay, less all prices times their slots' length.

        For max-flow-time, return `within` + 1 if that is above 0.
        """
        if any(a >= b for a, b in pairwise(self.ratios)):
            raise InvalidCertificate("the ratios must increase")
        for row in (self, *map(self.row, self.lines)):
            row.spend(instance, budget)
        if any(len(line.price) > len(self.price) for line in self.lines):
            raise InvalidCertificate(f"a line has prices in more than {len(self.price)} slots")
        groups = groups_of(instance)
        if len(self.fees) not in (0, len(groups)):
            raise InvalidCertificate(f"there are fees of {len(self.fees)} groups of requests, not of {len(groups)}")
        budget.spend("fees", Work.weight * sum(map(len, self.fees)))
        slots = PricedWork(instance, self, objective, budget)
        pairs = zip(groups, slots.fees(groups), strict=True)
        total = sum(len(same) * PricedRequest(slots, same[0], fees).least() for same, fees in pairs)
        prices = sum(self.price) + sum(sum(line.price) for line in self.lines)
        above = Fraction(total, self.scale * slots.unit) - Fraction(self.slot * prices, self.scale)
        if objective in SUMS:
            return above
        if above <= 0:
            raise InvalidCertificate(f"at these prices all requests may end within {self.within} ticks")
        return self.within + 1

    def row(self, line: PricedLine) -> Speed:
        """Return the division by one of `lines`, nothing of its fixed part shared."""
        return self.replace(functions=line.functions, **dict.fromkeys(RESOURCES, 0))

    @property
    def why(self) -> str:
        """The argument."""
        if self.within:
            return f"requests that all end within {self.within} ticks pay more for their work than all prices together"
        return f"at these prices of work in {len(self.price)} slots, no request finds a cheaper speed"


def groups_of(instance: Instance) -> list[list[int]]:
    """Return the requests of the same work; with contents each is apart."""
    return [[i] for i in range(len(instance.requests))] if instance.contents else alike(instance.requests)


Fees = dict[int, int]
"""What a token pays besides for its work, by slot."""


class CostLine(NamedTuple):
    """One line of the cost: prices, the share of each step, the fixed part of a batch, and what is not shared of it.

    Shares and fixed parts are in units of 2^-bits ticks; the 1024ths `fee` of prices are not paid by speed.
    """

    prices: tuple[int, ...]
    work: Integers
    whole: int
    fixed: int
    fee: int
    ratios: tuple[int, ...]


class PricedWork:
    """The least that each request of an instance takes and pays."""

    def __init__(self, instance: Instance, proof: Speed, objective: str, budget: Budget) -> None:
        self.instance, self.proof, self.objective, self.budget = instance, proof, objective, budget
        self.steps = PricedSteps(instance, proof)
        divided = [self.steps, *(self.steps.divided(proof.row(line)) for line in proof.lines)]
        shares = [steps.shares(last=len(divided) > 1) for steps in divided]
        self.bits = min(bits for _, bits in shares)
        whole = [int(steps.mixed[0] * 2**self.bits) for steps in divided]
        works = [work >> (bits - self.bits) for work, bits in shares]
        self.prices, self.free = (*proof.price, 0), len(proof.price)
        fixed = int(self.steps.mixed[0] * 2**self.bits * (UNIT - proof.shared) / UNIT)
        self.rows = [CostLine(self.prices, works[0], whole[0], fixed, proof.fee, (ONE, *proof.ratios))]
        for line, work, base in zip(proof.lines, works[1:], whole[1:], strict=True):
            prices = line.price + (0,) * (len(self.prices) - len(line.price))
            self.rows.append(CostLine(prices, work, base, base, UNIT, (ONE,)))
        self.origin, self.slot = instance.first_arrival, proof.slot
        self.unit = FINE * ONE**2 * UNIT << self.bits
        """Unit of payments: parts of 1/scale, times ticks."""

    def fees(self, groups: list[list[int]]) -> Iterator[Fees]:
        """Yield what each request of a group pays for a part of a token by slot, besides for its work."""
        arrivals = [self.instance.requests[same[0]].arrival - self.origin for same in groups]
        weights = self.proof.fees or ((),) * len(groups)
        sums: Counter[int] = Counter()
        for same, arrival, row in zip(groups, arrivals, weights, strict=True):
            for slot, each in enumerate(row, arrival // self.proof.slot):
                sums[slot] += len(same) * each
        fixed = self.proof.fee * ONE**2 * self.rows[0].fixed
        for arrival, row in zip(arrivals, weights, strict=True):
            begun = enumerate(row, arrival // self.proof.slot)
            yield {slot: self.prices[slot] * fixed * each // sums[slot]
                   for slot, each in begun if each and slot < self.free}  # fmt: skip


class PricedRequest:
    """V[i]: the least that request i takes and pays, in parts of 1/scale; for max-flow-time, pays `within` it."""

    def __init__(self, slots: PricedWork, i: int, fees: Fees) -> None:
        self.slots, request, done = slots, slots.instance.requests[i], slots.steps.done
        first, stop = slots.steps.steps.first[i : i + 2].tolist()
        last = first if slots.objective == "total-ttft" else stop - 1
        others = min(first + 1, last)
        self.arrival, self.sums = request.arrival - slots.origin, slots.objective in SUMS
        self.after = int(done[last] - done[first])
        self.rest = self.after if others > first else int(done[last])
        self.begin = self.arrival + int(done[last]) - self.rest
        """When the others may begin: `rest` ticks before the end, or more; the first token comes `after` before it."""
        self.ordered = others > first and slots.proof.ordered
        self.rate = int(weight(request, slots.objective) * slots.proof.scale) if self.sums else 0
        due = self.arrival + slots.proof.within
        self.due = math.inf if self.sums or due > slots.free * slots.slot else due
        self.stop = slots.free if self.due == math.inf else (due - 1) // slots.slot
        main, *lines = slots.rows
        heads = [Tokens(slots, main, FINE, int(main.work[first]), fees)] if others > first else []
        heads += [Tokens(slots, row, FINE, int(row.work[first]), {}) for row in lines]
        self.heads = [Cheapest(tokens, self.arrival) for tokens in heads]
        besides = [(row, int(row.work[others : last + 1].min())) for row in lines if others > first]
        self.others, self.heavier, self.heaviest = level(slots, main.work[others : last + 1], fees, besides)
        self.best = math.inf
        self.known = [0] * (self.stop + 1)
        """What the others pay, by the slot of the end: no less where they begin later."""

    def takes(self, tick: int) -> int:
        """Return what the time up to a tick costs."""
        return self.rate * (tick - self.arrival) * self.slots.unit

    def heads_by(self, tick: float) -> float:
        """Return what first tokens pay if done by a tick."""
        return sum(each.by(tick) for each in self.heads)

    def least(self) -> int:
        """Lemma (order): return the least over the cells of the first token, or what the request takes alone."""
        slot, free = self.slots.slot, self.slots.free
        start = min(self.begin // slot, free)
        for turn in range(start, (self.stop if self.ordered else start) + 1):
            if self.takes(max(self.begin, turn * slot * self.ordered) + self.rest) >= self.best:
                break
            cells = self.slots.proof.cells if self.ordered and turn < free else 1
            if (found := self.by_cell(turn, 0, 1)) < self.best:
                for cell in range(cells):
                    self.best = min(self.best, self.by_cell(turn, cell, cells) if cells > 1 else found)
        return int(max(self.best if self.best < math.inf else 0, self.takes(self.begin + self.rest)))

    def by_cell(self, turn: int, cell: int, cells: int) -> float:
        """Return the least with the first token in this of the `cells` of slot `turn`."""
        if not self.ordered:
            return self.by_ends(self.begin, None)
        slot, last = self.slots.slot, turn == self.slots.free
        since, close = turn * slot + slot * cell // cells, turn * slot - (-slot * (cell + 1) // cells)
        if self.takes(max(self.begin, since) + self.rest) >= self.best:
            return math.inf
        early = self.heads_by(math.inf if last else close)
        if early == math.inf or (close <= self.begin and not last):
            return math.inf
        return self.by_ends(max(self.begin, since), early)

    def by_ends(self, ready: int, early: float | None) -> float:
        """Lemma (ends): the least if the others begin at `ready` and first tokens pay `early`, or (None) by the end."""
        others, heavier, found = Cheapest(self.others, ready), Cheapest(self.heavier, ready), math.inf
        slot, free = self.slots.slot, self.slots.free
        for end in range(min(ready // slot, free) if self.sums else self.stop, self.stop + 1):
            least, taken = min(self.best, found), self.takes(max(end * slot, ready)) + (early or 0)
            if taken >= least:
                break
            close = (end + 1) * slot if end < free else math.inf
            if close < ready + self.rest or taken + self.known[end] >= least:
                continue
            paid = others.ending(end, self.rate) if self.sums else others.by(self.due)
            heads = self.heads_by(min(close, self.due) - self.after) if early is None else 0
            if paid + heads == math.inf:
                continue
            self.known[end] = max(self.known[end], int(paid))
            paid += taken + heads
            if self.heaviest[1:] and paid < least:
                paid += heavier.beyond(end, self.heaviest)
            found = min(found, paid)
        return found


def level(
    slots: PricedWork, work: Integers, fees: Fees, besides: Sequence[tuple[CostLine, int]]
) -> tuple[Tokens, Tokens, list[int]]:
    """Lemma (groups): tokens of one work, those with more work, and the sums of what the heaviest have more."""
    low, high, row = int(work.min()), int(work.max()), slots.rows[0]
    each = low + (high - low) * slots.proof.level // UNIT
    need = int(np.minimum(work, each).sum()) * FINE // each if each else len(work) * FINE
    heaviest = [0, *np.cumsum(-np.sort(each - work[work > each])).tolist()]
    more = Tokens(slots, row, FINE * (len(heaviest) - 1), each, {})
    return Tokens(slots, row, need, each, fees, besides), more, heaviest


class Tokens:
    """`need` parts of tokens of a request with this `work` in a row, and in others with that of `besides`."""

    def __init__(
        self, slots: PricedWork, row: CostLine, need: int, work: int, fees: Fees,
        besides: Sequence[tuple[CostLine, int]] = (),
    ) -> None:  # fmt: skip
        self.slots, self.row, self.need, self.work, self.fees = slots, row, need, work, fees
        self.besides = [(other.prices, ONE**2 * UNIT * more) for other, more in besides]
        fastest = max(1 << slots.bits, row.whole, row.fixed + work, *(other.whole + more for other, more in besides))
        self.pieces = list(pieces(row, work, fastest))
        self.rooms: dict[int, list[int]] = {}

    def room(self, ticks: int) -> list[int]:
        """Return how many tokens these ticks have room for, by piece."""
        if ticks not in self.rooms:
            ends = [-(-(ticks * FINE << self.slots.bits) // piece.ticks) for piece in self.pieces]
            self.rooms[ticks] = [after - before for before, after in pairwise([0, *ends])]
        return self.rooms[ticks]

    def fee(self, slot: int) -> int:
        """Return what a token pays in a slot besides for its work in the row."""
        return self.fees.get(slot, 0) + sum(prices[slot] * each for prices, each in self.besides)


class Piece(NamedTuple):
    """A piece of the speeds of a token: up to one at which it takes `ticks`, in units of 2^-bits.

    At a price of 1 a token pays `square` in the piece alone, and `mean` if it has that speed all the time.
    """

    ticks: int
    square: int
    mean: int


def pieces(row: CostLine, work: int, fastest: int) -> Iterator[Piece]:
    """Lemma (slots): yield the pieces in which the tangents of the `ratios` are highest, the slowest first."""
    for ratio, after in zip(row.ratios, [*row.ratios[1:], 0], strict=True):
        ticks = row.fixed * (ratio + after) // (ratio + after - 2 * ONE) if after else 0
        slowest = max(ticks + 1, fastest)
        off = -(-work * (ratio - ONE) ** 2 * slowest // row.fixed) if ratio > ONE else 0
        square = work * (row.fee * ONE**2 + (UNIT - row.fee) * ratio**2)
        yield Piece(max(ticks, fastest), square, square - (UNIT - row.fee) * off)
        if ticks <= fastest:
            return


class Cheapest:
    """The cheapest pieces (price, room) for tokens, none begun before `begin`, in the slots before `done`."""

    def __init__(self, tokens: Tokens, begin: int) -> None:
        self.tokens, self.slots, self.need, self.begin = tokens, tokens.slots, tokens.need, begin
        self.done, self.room, self.paid = min(begin // self.slots.slot, self.slots.free), 0, 0
        self.pieces: list[tuple[int, int]] = []

    def by(self, tick: float) -> float:
        """Return the payment if done by a tick."""
        if tick > self.slots.free * self.slots.slot:
            return 0
        last = int(tick - 1) // self.slots.slot
        if last < self.begin // self.slots.slot:
            return math.inf
        self._pass(last)
        return self._least(self._offer(last, self._ticks(last, tick)))

    def ending(self, end: int, rate: int) -> float:
        """Return the payment if the last is done in slot `end`, whose ticks before that cost `rate`."""
        self._pass(end)
        price, rate = self.tokens.row.prices[end], rate * ONE**2 * UNIT
        least = min(rate * piece.ticks + price * piece.mean for piece in self.tokens.pieces) + self.tokens.fee(end)
        room = self.need if end == self.slots.free else sum(self.tokens.room(self._ticks(end)))
        return self._least([(least, room)])

    def beyond(self, end: int, heaviest: list[int]) -> int:
        """Return what work beyond theirs pays by the end of a slot: `heaviest` are its sums over the heaviest."""
        if end == self.slots.free or not self.tokens.work:
            return 0
        self._pass(end + 1)
        paid = n = before = 0
        for price, room in self.pieces:
            n = min(n + room, self.need)
            upto = heaviest[-(-n // FINE)]
            paid, before = paid + price * (upto - before), upto
        return paid * FINE // self.tokens.work

    def _spend(self, each: int = Work.piece) -> None:
        new, known = len(self.tokens.pieces), len(self.pieces)
        work = Work.price_slot + Work.piece * (new + len(self.tokens.besides)) + each * known
        self.slots.budget.spend("prices of work", work, 300 * (new + known))

    def _ticks(self, slot: int, tick: float = math.inf) -> int:
        """Return the ticks for them in a slot, up to a tick."""
        return max(0, int(min(tick, (slot + 1) * self.slots.slot)) - max(self.begin, slot * self.slots.slot))

    def _offer(self, slot: int, ticks: int) -> Iterator[tuple[int, int]]:
        price, fee = self.tokens.row.prices[slot], self.tokens.fee(slot)
        for piece, room in zip(self.tokens.pieces, self.tokens.room(ticks), strict=True):
            yield price * piece.square + fee, room

    def _pass(self, slot: int) -> None:
        while self.done < slot:
            self._spend(len(self.tokens.pieces))
            self._add(self._offer(self.done, self._ticks(self.done)))
            self.done += 1
        self._spend()

    def _add(self, pieces: Iterable[tuple[int, int]]) -> None:
        """Take in pieces of increasing prices, and forget what is not needed."""
        for price, room in pieces:
            if self.room >= self.need and price >= self.pieces[-1][0]:
                return
            insort(self.pieces, (price, room))
            self.room += room
            self.paid += price * room
            while self.room - self.pieces[-1][1] >= self.need:
                last, room = self.pieces.pop()
                self.room -= room
                self.paid -= last * room

    def _least(self, others: Iterable[tuple[int, int]]) -> float:
        """Return the least payment with `others`, of increasing prices, besides."""
        short, paid, place = self.need - self.room, self.paid, len(self.pieces) - 1
        price, room = self.pieces[place] if self.pieces else (0, 0)
        if short < 0:
            paid, room, short = paid + short * price, room + short, 0
        for other, more in others:
            taken = min(short, more)
            short, more, paid = short - taken, more - taken, paid + taken * other
            while more and place >= 0 and price > other:
                moved = min(more, room)
                paid, more, room = paid - moved * (price - other), more - moved, room - moved
                if not room:
                    place -= 1
                    price, room = self.pieces[place] if place >= 0 else (0, 0)
        return math.inf if short else paid
