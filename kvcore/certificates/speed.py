"""Prices of work over time, where a small fast batch pays more for its work than a full slow one.

`docs/bounds.md` ("Speed has a price") says what a request pays while a batch of length D runs, and proves the bound
from V[i], the least that request i takes and pays. The lemma here bounds V[i] from below, in the symbols of that page:
lam a price, F the fixed part of a line, f of it not shared, a[i] `fees`, w[q] the work for token q.

1. *Speed.* A batch with a part theta of the work for token q has c[i] >= theta w[q] and speed x = theta / D, and
   D - f <= D (1 - f x). So the token pays each tick at least lam w[q] phi(x) with phi(x) = x / (1 - f x), and in fees
   lam (w[q] + f a[i]) x. Also x <= 1 / max(1, F, f + w[q]).
2. *Slots.* phi is convex: within a slot constant speed is cheapest. Its tangent at 1 / (1 - f x) = g is
   (g^2 f x - (g - 1)^2) / f; the tangents of g and g' meet at f x = 1 - 2 / (g + g'). So a slot has room for tokens in
   pieces at rising prices lam w g^2; the cheapest are taken first.
3. *Groups.* The first token comes by C[i] less the time that the others take. The others begin after it and count as
   sum over q of min(w[q], w) / w tokens of one work w. The n(h) tokens with more than w + h pay for h at least the n(h)
   cheapest pieces up to C[i]. Over all h: the heaviest tokens are in the cheapest pieces.
   Where it is `ordered`, V[i] is the least over cells: if the first token comes at F in [s, e), its work is paid in
   slots cut at e, that of the others in slots cut at s. So no more than a cell of time is used twice. A cell as long
   as its slot bounds all cells in it, and the others pay no less the later they begin: what cannot be better is left.
4. *Ends.* If C[i] is in slot s, time before s, or before the others can begin, is charged whole. n tokens in a part tau
   of s cost tau + lam w tau phi(n / tau), at least n times the least of (1 + lam w phi(x)) / x, where tangents meet.
   After the last slot only time costs.
5. *Largest flow time.* The least that a request pays comes from the same pieces, cut at r[i] + Z; it is 0 if that is
   after the last slot.

*A price for each line.* For more lines D >= beta[k] + sum of c[k, i] (`lines`), nothing of beta[k] shared, with prices
mu[k], request i also pays mu[k] c[k, i] / D a tick: all requests together at most mu[k].

* *Tokens after the first* pay for their last batch only, in every line with the same D: a decode on A[q] - 1, or a
  prefill from m to A[q] with m = 0 or m <= A[q] - 2, whose price is concave in m. So w[k, q] is the least of the
  decode, m = 0 and m = A[q] - 2; it is that of the decode if all KV was kept and cannot be dropped. With v[k] the least
  w[k, q] of the request, a token pays mu[k] v[k] more at any speed, and x <= 1 / (beta[k] + v[k]).
* *The first token* has batches whose c[k] add up to at least W[k]: it pays for the cheapest slots by its end, at
  x <= 1 / (beta[k] + W[k]).

All integers are unlimited: work and ticks are rounded down to units of 2^-bits, room is rounded up to `FINE` parts of a
token.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from kvcore.certificates.budget import Budget
from kvcore.certificates.proof import InvalidCertificate
from kvcore.certificates.shares import RESOURCES, UNIT, Division, PricedSteps, Proportion, Tick
from kvcore.certificates.steps import Integers
from kvcore.features import RULES, SUMS, Feature, Takes
from kvcore.instance import LIMIT, Instance, Noun, alike
from kvcore.metrics import Value, weight

ONE = 64
"""Ratios are in 64ths."""
FINE = 2**20
"""Parts of a token, or of a first token's work."""
MOST_SLOTS = 2**18
STEP = 3000
"""Work of a slot for a request, besides `PIECE` for each piece."""
PIECE = 1000
BYTES = 300
"""Memory of a piece."""
WEIGHT = 1500
"""Work of a weight of a fee."""


Weights = Annotated[tuple[Annotated[int, Field(ge=0, le=2**20)], ...], Field(max_length=MOST_SLOTS)]
Series = Annotated[tuple[Annotated[int, Field(ge=0, le=2**50)], ...], Field(max_length=MOST_SLOTS)]


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
    of their first, in the slots from the arrival on, each request's weight.

    For max-flow-time, `within` is a flow time in ticks with which all requests together would pay more than there is.

    `lines` are more lines of the cost with prices of their own, for work alone. With any, all but first tokens pay for
    their last batch only.
    """

    kind: Literal["speed"] = "speed"
    takes: ClassVar = Takes(RULES | SUMS | {Feature.LONGEST})
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
            row.check(instance)
            row.spend(instance, budget)
        if any(len(line.price) > len(self.price) for line in self.lines):
            raise InvalidCertificate(f"a line has prices in more than {len(self.price)} slots")
        groups = alike(instance.requests)
        if len(self.fees) not in (0, len(groups)):
            raise InvalidCertificate(f"there are fees of {len(self.fees)} groups of requests, not of {len(groups)}")
        budget.spend("fees", WEIGHT * sum(map(len, self.fees)))
        slots = PricedWork(instance, self, objective, budget)
        paid = slots.fees(groups)
        total = sum(len(same) * slots.least(same[0], fees) for same, fees in zip(groups, paid, strict=True))
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
        self.prices = (*proof.price, 0)
        fixed = int(self.steps.mixed[0] * 2**self.bits * (UNIT - proof.shared) / UNIT)
        self.rows = [CostLine(self.prices, works[0], whole[0], fixed, proof.fee, (ONE, *proof.ratios))]
        for line, work, base in zip(proof.lines, works[1:], whole[1:], strict=True):
            prices = line.price + (0,) * (len(self.prices) - len(line.price))
            self.rows.append(CostLine(prices, work, base, base, UNIT, (ONE,)))
        self.origin = instance.first_arrival
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
                   for slot, each in begun if each and slot < len(self.prices)}  # fmt: skip

    def least(self, i: int, fees: Fees) -> int:
        """Return the least that request i takes and pays, in parts of 1/scale; for max-flow-time, pays `within` it."""
        request, done, span = self.instance.requests[i], self.steps.done, self.steps.steps.first[i : i + 2]
        first, slot, free = int(span[0]), self.proof.slot, len(self.prices) - 1
        last = first if self.objective == "total-ttft" else int(span[1]) - 1
        arrival, alone, begin = request.arrival - self.origin, int(done[last]), 0
        rate, stop, spare = 0, free, 0
        if self.objective in SUMS:
            rate = int(weight(request, self.objective) * self.proof.scale)
        elif (due := arrival + self.proof.within) <= free * slot:
            stop, spare = (due - 1) // slot, -due % slot
        main, *lines = self.rows
        heaviest, need, each, after = [0], FINE, int(main.work[first]), alone - int(done[first])
        others, besides = last > first, list[tuple[CostLine, int]]()
        before = [Tokens(self, main, need, each, arrival, fees)] if others else []
        before += [Tokens(self, row, need, int(row.work[first]), arrival, {}) for row in lines]
        if others:
            begin, decodes = int(done[first]), main.work[first + 1 : last + 1]
            low, high = int(decodes.min()), int(decodes.max())
            each = low + (high - low) * self.proof.level // UNIT
            whole = int(np.minimum(decodes, each).sum())
            heaviest += np.cumsum(-np.sort(each - decodes[decodes > each])).tolist()
            need = whole * FINE // each if each else (last - first) * FINE
            besides = [(row, int(row.work[first + 1 : last + 1].min())) for row in lines]
        start, rest, least = arrival + begin, alone - begin, rate * alone * self.unit
        work = int(main.work[first + self.proof.ordered : last + 1].sum()) * FINE * ONE**2 * UNIT
        best: int | None = None
        later, ordered = 0, others and self.proof.ordered
        known = [0] * (stop + 1)  # what the others pay at the least, by the slot of the end

        def total(turn: int, cell: int, cells: int) -> int | None:
            """With the first token in this cell of the slot `turn` (None: too early)."""
            close, ready, early = turn * slot - (-slot * (cell + 1) // cells), start, 0
            if ordered:
                ready = max(start, turn * slot + slot * cell // cells)
                by = all_by(before, turn, (turn + 1) * slot - close)
                if by is None or (turn < free and close <= start):
                    return None
                early = by
            tokens = Tokens(self, main, need, each, ready, fees, besides)
            beyond = Tokens(self, main, FINE * (len(heaviest) - 1), each, ready, {})
            found: int | None = None
            for end in range(min(ready // slot, free) if self.objective in SUMS else stop, stop + 1):
                taken = rate * (max(end * slot, ready) - arrival) * self.unit + early
                least = min((each for each in (best, found) if each is not None), default=None)
                if least is not None and taken + later >= least:
                    break
                if end < free and (end + 1) * slot < ready + rest:
                    continue
                if least is not None and taken + known[end] >= least:
                    continue
                paid = tokens.ending(end, rate) if self.objective in SUMS else tokens.by(end, spare)
                by = 0 if ordered else all_by(before, end, after + spare)
                if paid is None or by is None:
                    continue
                known[end] = max(known[end], paid)
                paid += taken + by
                if heaviest[1:] and (least is None or paid < least):
                    paid += beyond.beyond(end, heaviest)
                if found is None or paid < found:
                    self.budget.spend("prices of work", 20 * len(self.prices))
                    found = paid
            return found

        for turn in range(min(start // slot, free), (stop if ordered else min(start // slot, free)) + 1):
            if best is not None and rate * (max(start, turn * slot * ordered) + rest - arrival) * self.unit >= best:
                break
            cells = self.proof.cells if ordered and turn < free else 1
            for cell, many in [(0, 1), *((cell, cells) for cell in range(cells if cells > 1 else 0))]:
                found = total(turn, cell, many)
                if found is None or (best is not None and found >= best):
                    if cell == 0 and many == 1:
                        break
                elif many == cells:
                    best, far = found, (arrival + found // max(1, rate * self.unit)) // slot
                    later = work * min(self.prices[arrival // slot : far + 2], default=0) if rate else 0
        return max(best or 0, least)


class Tokens:
    """Parts of tokens of a request, none begun before `begin`: the cheapest speeds for them.

    Each has at least `work` in one row, and in others that of `besides`.
    """

    def __init__(
        self, slots: PricedWork, row: CostLine, need: int, work: int, begin: int, fees: Fees,
        besides: list[tuple[CostLine, int]] | None = None,
    ) -> None:  # fmt: skip
        self.slots, self.row, self.work, self.begin, self.fees = slots, row, work, begin, fees
        self.besides = [(other.prices, ONE**2 * UNIT * more) for other, more in besides or ()]
        self.cheapest = Cheapest(need)
        self.done = min(begin // slots.proof.slot, len(slots.prices) - 1)
        """Slots before it have been offered."""
        fastest = max(1 << slots.bits, row.whole, row.fixed + work)
        fastest = max(fastest, *(other.whole + more for other, more in besides or ((row, 0),)))
        self.ticks: list[int] = []
        """Of a token at the end of each piece, in units of 2^-bits."""
        self.means: list[int] = []
        """Its payment there at a price of 1, in parts of a tick."""
        self.squares: list[int] = []
        """Payment of each piece for a token there, without the fee."""
        for ratio, after in zip(row.ratios, [*row.ratios[1:], 0], strict=True):
            ticks = row.fixed * (ratio + after) // (ratio + after - 2 * ONE) if after else 0
            slowest = max(ticks + 1, fastest)
            off = -(-work * (ratio - ONE) ** 2 * slowest // row.fixed) if ratio > ONE else 0
            fee = row.fee
            square = work * (fee * ONE**2 + (UNIT - fee) * ratio**2)
            self.ticks.append(max(ticks, fastest))
            self.squares.append(square)
            self.means.append(square - (UNIT - fee) * off)
            if ticks <= fastest:
                break
        self.rooms: dict[int, list[int]] = {}

    def _spend(self, each: int = PIECE) -> None:
        new, known = len(self.ticks), len(self.cheapest.pieces)
        work = STEP + PIECE * (new + len(self.besides)) + each * known
        self.slots.budget.spend("prices of work", work, BYTES * (new + known))

    def _room(self, ticks: int) -> list[int]:
        if ticks not in self.rooms:
            ends = [-(-(ticks * FINE << self.slots.bits) // each) for each in self.ticks]
            self.rooms[ticks] = [after - before for before, after in pairwise([0, *ends])]
        return self.rooms[ticks]

    def _left(self, slot: int) -> int:
        return min(self.slots.proof.slot, (slot + 1) * self.slots.proof.slot - self.begin)

    def _fee(self, slot: int) -> int:
        return self.fees.get(slot, 0) + sum(prices[slot] * each for prices, each in self.besides)

    def _offer(self, slot: int, ticks: int) -> Iterator[tuple[int, int]]:
        price, fee = self.row.prices[slot], self._fee(slot)
        for each, room in zip(self.squares, self._room(ticks), strict=True):
            yield price * each + fee, room

    def _pass(self, slot: int) -> None:
        while self.done < slot:
            self._spend(len(self.ticks))
            self.cheapest.add(self._offer(self.done, self._left(self.done)))
            self.done += 1

    def by(self, end: int, rest: int) -> int | None:
        """Return the payment if done `rest` ticks before slot `end` is over (None: too early)."""
        slot = self.slots.proof.slot
        last = end - rest // slot
        if end == len(self.slots.prices) - 1:
            return 0
        if last < self.begin // slot:
            return None
        self._pass(last)
        self._spend()
        return self.cheapest.least(self._offer(last, max(0, self._left(last) - rest % slot)))

    def ending(self, end: int, rate: int) -> int | None:
        """Return the payment if the last is done in slot `end`, whose ticks before that cost `rate`."""
        self._pass(end)
        self._spend()
        price, rate = self.row.prices[end], rate * ONE**2 * UNIT
        least = min(rate * ticks + price * mean for ticks, mean in zip(self.ticks, self.means, strict=True))
        least += self._fee(end)
        room = self.cheapest.need if end == len(self.slots.prices) - 1 else sum(self._room(self._left(end)))
        return self.cheapest.least([(least, room)])

    def beyond(self, end: int, heaviest: list[int]) -> int:
        """Return what work beyond `work` pays by the end of a slot, in the cheapest pieces.

        `heaviest` are its sums over the heaviest tokens.
        """
        if end == len(self.slots.prices) - 1 or not self.work:
            return 0
        self._pass(end + 1)
        self._spend()
        paid = n = before = 0
        for price, room in self.cheapest.pieces:
            n = min(n + room, self.cheapest.need)
            upto = heaviest[-(-n // FINE)]
            paid, before = paid + price * (upto - before), upto
        return paid * FINE // self.work


def all_by(tokens: list[Tokens], end: int, rest: int) -> int | None:
    """Return the sum of `Tokens.by`."""
    paid = [each.by(end, rest) for each in tokens]
    return None if None in paid else sum(filter(None, paid))


class Cheapest:
    """The cheapest pieces (price, room) with room for what is needed."""

    def __init__(self, need: int) -> None:
        self.need, self.room, self.paid = need, 0, 0
        self.pieces: list[tuple[int, int]] = []

    def add(self, pieces: Iterable[tuple[int, int]]) -> None:
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

    def least(self, others: Iterable[tuple[int, int]]) -> int | None:
        """Return the least payment with `others`, of increasing prices, besides (None: too little room)."""
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
        return None if short else paid
