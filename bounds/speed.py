"""Prices of work over time: those of one machine that may interrupt, then adjusted to use."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bounds.clock import Units, now, spend
from bounds.shares import corners
from bounds.speed_kernels import Fees, RequestWork, Shape, pay
from bounds.task import Proposal, Task
from bounds.tuning import Options, option
from kvcore.certificates.budget import Budget, InvalidCertificate
from kvcore.certificates.one_machine import WorkPiece, run
from kvcore.certificates.shares import UNIT, PricedSteps
from kvcore.certificates.speed import ONE, PricedLine, Speed, groups_of
from kvcore.certificates.steps import Integers, lines
from kvcore.metrics import SUMS, weight

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SpeedOptions(Options):
    """A projected subgradient ascent with momentum, from the prices of one machine."""

    step: float = option(0.1, "the first step: how much prices change where nothing is taken")
    momentum: float = option(0.9, "of the direction before, what goes into the next", least=0, most=0.999)
    slots: tuple[float, float, float] = option((0.5, 60.0, 1000.0), "slots with prices: for a request, least, most")
    cells: int = option(4, "parts of a slot, in one of which the first token comes", most=64)
    lines: int = option(3, "lines of the cost with prices besides the first, at the most", least=0)

    patience = (10, 20)  # rounds without a better bound before steps shrink: sums, maximum
    shrink = (4.0, 2.0)  # by this steps are divided then: sums, maximum
    rounds = 2000  # rounds, at the most
    # 64ths of D / (D - f) at which tangents touch
    ratios = (65, 66, 67, 68, 69, 70, 72, 75, 80, 90, 110, 160, 320, 640, 1280, 2560, 5120, 10240)
    most_slots = 20_000  # slots with prices from which on they are not halved
    finer = 4  # so many times shorter slots are tried for first prices
    gains = 1.01  # other slots, lines or levels are taken if they prove so many times as much
    levels = (UNIT // 2, UNIT // 4)  # between the least and the most work of a token
    scale = 2**24  # prices of the certificate are whole multiples of one part in so many
    ordered_pairs = 8 * 10**6  # pairs of a cell and a slot up to which first tokens are ordered
    check_rounds = 20.0  # rounds that the check of the proof takes as long as
    unordered = 2 / 3  # part of the time before first tokens are ordered
    trial_rounds = 60  # rounds in which two divisions are compared, at the most
    trial_parts = 6.0  # each of the two takes the time divided by this
    passes = 8  # max-flow-time: looks for the flow time that prices prove, at the most
    tolerance = 1e-4  # max-flow-time: how near that is then, as a part of it
    fees = (0.5, 0.9)  # parts of prices paid as fees, of which one is chosen
    smooth = 9  # slots over which the first parts of requests are means
    line_prices = (0.3, 0.8)  # parts of first prices for several lines: first, others


def propose_speed(task: Task) -> Iterator[Proposal]:
    """Return prices of work for slots of time."""
    return _propose(task)


def _propose(task: Task) -> Iterator[Proposal]:
    found = _Search(task)
    try:
        found.begin()
        found.ascend()
    finally:  # on KeyboardInterrupt too
        if found.best is not None:
            yield _held(task, found.best.proof(task.deadline))


def _held(task: Task, proof: Speed) -> Proposal:
    """For max-flow-time, with the longest of a few flow times that holds exactly."""
    # up to six flow times are checked exactly
    for k in range(0 if task.objective in SUMS else 6):
        try:
            return Proposal(proof, proof.value(task.instance, task.objective))
        except InvalidCertificate:
            proof = proof.replace(within=proof.within * (200 - 2**k) // 200)
    return Proposal(proof)


class _Search:
    def __init__(self, task: Task) -> None:
        self.task, self.needs, self.options = task, _Needs(task), SpeedOptions.given()
        self.best: Ascent | None = None

    def begin(self) -> None:
        """For each line of the cost, then for parts of the fixed time shared by memory.

        From half or nothing, whichever is better, parts are tried in each direction as long as they gain.
        """
        half = 0 if self.task.instance.machine.memory is None else UNIT // 2
        for k, line in enumerate(dict.fromkeys(corner.functions for corner in corners(self.task.instance))):
            for part in sorted({half, 0}, reverse=True):
                self._try(_division(line, part), 1.0, self.options.gains if k else 1.0)
        line, begun = (self.best.division.functions, self.best.division.memory) if self.best else ((), 0)
        for step in (UNIT // 8, -UNIT // 8):
            part = begun + step
            while half and 0 <= part <= UNIT and self._try(_division(line, part), 1.0):
                part += step
        if self.best is not None:
            for level in self.options.levels:
                self._try(self.best.division.replace(level=level, slot=1), 1.0, self.options.gains)
        self._divide()
        self._inflate()

    def ascend(self) -> None:
        """Those for nothing shared, if higher."""
        best, end = self.best, self.task.deadline
        several = None if best is None else self._several()
        if best is not None and several is not None:
            each = max(0.0, end - now()) / self.options.trial_parts
            for one, rounds in ((best, 2 * self.options.trial_rounds), (several, self.options.rounds)):
                one.rise(rounds, now() + each)  # several begin lower
            if several.value > best.value:
                self.best = several
                several.rise_finer(end)
                return
        if best is not None and best.division.memory:
            each = max(0.0, end - now()) / self.options.trial_parts
            best.rise(self.options.trial_rounds, now() + each)
            self.best = None
            self._try(best.division.replace(memory=0, slot=1), best.inflated)
            self._inflate()
            if self.best is not None:
                self.best.rise(self.options.trial_rounds, now() + each)
            if self.best is None or self.best.value < best.value:
                self.best = best
        if self.best is not None:
            self._compare(self.best)
            left = max(0.0, end - now())
            self.best.rise(self.options.rounds, end - (1 - self.options.unordered) * left)
            self.best.refine(end)
            self.best.rise(self.options.rounds, end - self.options.check_rounds * self.best.seconds)

    def _several(self) -> Ascent | None:
        count, rows = len(lines(self.task.instance.cost)), list[tuple[float, float, tuple[int, ...]]]()
        for k in range(count if self.needs.sums else 0):
            functions = tuple(UNIT * (i == k) for i in range(count))
            _, fixed, totals = self.needs.divided(_division(functions, 0))
            rows.append((fixed, float(self.needs.requests @ totals[0]), functions))
        most = max((work for _, work, _ in rows), default=0.0)
        # a line with less than a twentieth of the work of another has no prices
        rows = [row for row in rows if row[1] > 0.05 * most]
        rows = sorted(rows, key=lambda row: -row[0])[: 1 + self.options.lines]
        if len(rows) < 2 or now() > self.task.deadline:
            return None
        more = tuple(PricedLine(functions=functions) for *_, functions in rows[1:])
        return Ascent(_division(rows[0][2], 0).replace(lines=more), self.needs, 1.0)

    def _compare(self, best: Ascent) -> None:
        rivals = [best, *(Ascent(best.division.replace(slot=1, level=level), self.needs, best.inflated)
                          for level in sorted({best.division.level, 0}, reverse=True))]  # fmt: skip
        rivals[1].fee = self.options.fees[1]
        each = max(0.0, self.task.deadline - now()) / self.options.trial_parts
        for one in rivals:  # the larger part is behind at first
            one.rise(2 * self.options.trial_rounds, now() + each)
        self.best = max(rivals, key=lambda one: one.value)

    def _divide(self) -> None:
        tried, slots, begun = self.best, self.needs.slots, now()
        late = begun + (1 - self.options.unordered) * (self.task.deadline - begun)
        while tried is not None and self.options.finer * self.needs.slots <= self.options.most_slots:
            # slots of less than a 32nd of the mean time alone are not tried
            if tried.shape.slot * 32 < self.options.finer * tried.work.alone.mean():
                break
            self.needs.slots *= self.options.finer
            tried = Ascent(tried.division, self.needs, tried.inflated)
            if not tried.ordered_by(late):
                break
            if self.best is not None and tried.value > self.options.gains * self.best.value:
                self.best, slots = tried, self.needs.slots
        self.needs.slots = slots

    def _inflate(self) -> None:
        # first prices are for a little more work, or less
        for factor in (change**sign for change in (1.05, 1.01) for sign in (1, -1)):
            while self.best is not None and self._try(self.best.division, self.best.inflated * factor):
                pass

    def _try(self, division: Speed, inflated: float, gains: float = 1.0) -> bool:
        if self.best is not None and now() > self.task.deadline:
            return False
        tried = Ascent(division, self.needs, inflated)
        if better := self.best is None or tried.value > gains * self.best.value:
            self.best = tried
        return better


class Ascent:
    """Prices and fees for one division of a batch, and the best of them."""

    def __init__(self, division: Speed, needs: _Needs, inflated: float) -> None:
        self.options = SpeedOptions.given()
        self.inflated, self.fee = inflated, self.options.fees[0]
        self.work, fixed, totals = needs.divided(division)
        self.within: float | None = None if needs.sums else float(self.work.alone.max())
        first = first_prices if self.within is None else window_prices
        slot, self.price = first(self.work, totals, inflated, needs.slots)
        self.division = division.replace(slot=slot)
        ratios = np.array([1.0, *(ratio / ONE for ratio in self.options.ratios)])
        self.shape = Shape(float(slot), fixed, ratios, False, self.options.cells if self.within is None else 1)
        self.slope, kind = 0.0, int(not needs.sums)
        self.patience, self.smaller = self.options.patience[kind], self.options.shrink[kind]
        if division.lines:
            options = self.options
            self.price *= np.array([options.line_prices[k > 0] for k in range(len(self.price))])[:, None]
            longer = int(0.6 * self.slots)  # with several lines more slots have prices
            # ... and all of them are a little higher
            self.price = np.pad(self.price, ((0, 0), (0, longer))) + 0.02 * self.work.rate.min()
            # rounds without a better bound before steps shrink, and by what
            self.patience, self.smaller = 8, 1.6
            self.shape = self.shape._replace(ordered=True)
        self.rows, self.round, self.pull = Rows(self.work, self.shape, self.slots), 0, np.zeros(0)
        self.best = self.price, self.rows.parts
        self._begin()
        alone = self.work.requests @ (self.work.rate * self.work.alone)
        # first prices that prove less than none become a quarter
        for _ in range(6 * bool(self.within is None and self.price.any())):
            if self.value <= alone:
                self.best = self.price / 4, self.rows.parts
                self._begin()
        if self.within is not None and self.ordered_by(math.inf):
            self.refine(math.inf)
        if division.lines and not self.ordered_by(math.inf):
            self.shape = self.shape._replace(ordered=False)
            self._begin()

    @property
    def slots(self) -> int:
        """Number of slots with prices."""
        return int(self.price.shape[1])

    def _begin(self) -> None:
        self.price, self.rows.parts = self.best
        self.drift, self.pull = 0 * self.price, 0 * self.pull
        self.round *= int(self.rows.parts.any())  # without parts there are none to turn
        self.value, self.gained = -np.inf, self.round
        self._evaluate()
        # the first step changes all prices by three tenths of the bound, at the most
        risk = 0.3 * self.value / max(1.0, self.shape.slot * self.price.sum())
        least, step = 0.01, self.options.step
        self.step = step / 2 if self.within else float(np.clip(risk, least, step))

    def refine(self, deadline: float) -> None:
        """Order first tokens, if the check stays short; else halve the slots."""
        if self.shape.ordered:
            return
        if self.ordered_by(deadline):
            self.shape = self.shape._replace(ordered=True)
            self._begin()
        elif self.slots < self.options.most_slots and self.division.slot > 1:
            self._halve()

    def rise_finer(self, deadline: float) -> None:
        """Raise prices, and halve the slots when they stall."""
        before, options = 0.0, self.options
        while True:
            end = deadline - options.check_rounds * self.seconds
            self.rise(options.rounds, end)
            most = 2 * self.slots > options.most_slots
            stop = self.division.slot == 1 or most or self.value < 1.003 * before
            if stop or now() + options.finer * options.check_rounds * self.seconds > end:
                return
            if self.shape.ordered and not self.ordered_by(deadline, options.finer):
                return
            before = self.value
            self._halve()

    def _halve(self) -> None:
        slot = self.division.slot // 2
        self.division, self.shape = self.division.replace(slot=slot), self.shape._replace(slot=float(slot))
        self._divided(np.repeat(self.best[0], 2, axis=1), 2)

    def _prolong(self) -> None:
        more = int(self.spare / self.shape.slot / self.price.mean())
        if more and self.value > self.shape.slot * (self.slots - 1):
            self._divided(np.pad(self.price, ((0, 0), (0, more)), "mean"), 1)

    def _divided(self, price: Floats, finer: int) -> None:
        parts, rows, step = self.best[1], self.rows, self.step
        self.rows = Rows(self.work, self.shape, price.shape[1])
        place = rows.first[self.rows.owner] + self.rows.slot // finer - rows.start[self.rows.owner]
        self.rows.parts = parts[np.clip(place, rows.first[self.rows.owner], rows.first[self.rows.owner + 1] - 1)]
        if self.rows.parts.any():
            self.rows.turn(0 * self.rows.parts)
        self.best, self.pull = (price, self.rows.parts), np.zeros(len(self.rows.parts))
        self._begin()
        self.step = step

    def ordered_by(self, deadline: float, times: int = 1) -> bool:
        """Whether a check of `times` the work ends by the deadline."""
        paid = self.value + self.shape.slot * self.best[0].sum()
        slots = paid / (self.work.rate @ self.work.requests) / self.shape.slot  # no request looks at more, in the mean
        slots = slots if self.within is None else self.value / self.shape.slot
        pairs = times * self.shape.cells * len(self.work.arrival) * slots**2 / 2
        in_time = 4e4 * (deadline - now())  # pairs that the check looks at in a second
        return bool(pairs <= min(self.options.ordered_pairs, in_time))

    def _evaluate(self) -> None:
        began = now()
        value, usage = self._above() if self.within is None else self._latest()
        momentum, taken = self.options.momentum, np.clip(usage / self.shape.slot, -1, 1)
        self.drift = momentum * self.drift + (1 - momentum) * taken
        if value > self.value:
            self.value, self.best, self.gained = value, (self.price, self.rows.parts), self.round
        self.seconds = now() - began

    def _above(self) -> tuple[float, Floats]:
        fees = self.rows.fees(self.fee * (self.round > 0))
        return evaluate(self.work, self.shape, self.price, fees, self.within)

    def _latest(self) -> tuple[float, Floats]:
        """About the longest flow time with which all pay more than there is, and a subgradient.

        What they pay falls as it grows, at the end of a slot in jumps: secants, and halves where those leave the room.
        """
        low, high = float(self.work.alone.max()), self.shape.slot * self.slots  # nobody pays after the last slot
        assert self.within is not None
        known, proved, self.spare = None, None, 0.0
        for _ in range(self.options.passes):
            (above, usage), now = self._above(), self.within
            if above > 0:
                low, proved, self.spare = now, (now, usage), above
            else:
                high = now
            if known is not None:
                self.slope = (known[1] - above) / (now - known[0])
            if self.slope <= 0:
                self.slope = self.shape.slot * self.price.sum() / now
            known = now, above
            then = now + float(np.clip(above / self.slope, -now / 4, now / 4))
            self.within = then if low <= then < high else (low + high) / 2
            if abs(self.within - now) <= self.options.tolerance * now:
                break
        return proved or (now + above / self.slope, usage)

    def rise(self, rounds: int, deadline: float) -> None:
        """Let prices follow the use, and fees the users, in ever smaller steps."""
        reached = -np.inf
        for k in range(rounds):
            if k % 50 == 0:
                before, reached = reached, self.value
            # it ends where the bound grew by a smaller part in 50 rounds
            if now() > deadline or reached - before < 2e-4 * abs(reached):
                return
            if self.round == 0:
                self.rows.begin()
                self.pull = np.zeros(len(self.rows.parts))
            if self.round > self.gained + self.patience and self.best[1].any():  # go back to the best, in smaller steps
                self.price, self.rows.parts = self.best
                self.drift, self.pull, self.gained = 0 * self.drift, 0 * self.pull, self.round
                self.step /= self.smaller
                self._evaluate()
            step = self.step / (1 + self.round / 100)  # half as long after 100 rounds
            self.pull = self.options.momentum * self.pull + (1 - self.options.momentum) * self.rows.pull()
            self.price = self.price * np.exp(step * self.drift)
            self.rows.turn(10 * step * self.pull)  # parts of requests move faster than prices
            self.round += 1
            self._evaluate()
            if self.within is not None and self.gained == self.round:
                self._prolong()

    def proof(self, deadline: float) -> Speed:
        """Return the best prices as a proof."""
        price, self.rows.parts = self.best
        whole, *others = (tuple(int(each) for each in row) for row in np.floor(price * self.options.scale))
        lines = [one.replace(price=row) for one, row in zip(self.division.lines, others, strict=True)]
        proof = self.division.replace(
            price=whole, lines=tuple(lines), ordered=self.shape.ordered or self.ordered_by(deadline),
            cells=self.shape.cells,
        )  # fmt: skip
        if self.within is not None:
            self.price, self.within, less = np.array([whole]) / self.options.scale, self.value, self.options.tolerance
            # a hundred thousandth of all prices is left over
            while self._above()[0] <= 1e-5 * self.shape.slot * self.price.sum() and self.within > 1:
                self.within, less = self.within * (1 - less), min(0.5, 2 * less)
            proof = proof.replace(within=int(self.within))
        if not self.rows.parts.any():
            return proof
        return proof.replace(fee=int(self.fee * UNIT), fees=self.rows.whole())


def _division(functions: tuple[int, ...], shared: int) -> Speed:
    options = SpeedOptions.given()
    return Speed(functions=functions, memory=shared, slot=1, scale=options.scale, price=(), ratios=options.ratios)


class _Needs:
    def __init__(self, task: Task) -> None:
        instance, self.objective, self.sums = task.instance, task.objective, task.objective in SUMS
        division = _division((UNIT,) + (0,) * (len(lines(instance.cost)) - 1), 0)
        division.spend(instance, count := Budget())
        task.begin(count)
        self.steps = PricedSteps(instance, division)
        same = groups_of(instance)
        self.one = np.array([places[0] for places in same])
        chosen = [instance.requests[i] for i in self.one]
        self.requests = np.array([len(places) for places in same], float)
        options = SpeedOptions.given()
        each, least, most = (20.0, 60.0, 20e3) if self.objective == "total-ttft" else options.slots
        self.slots = int(np.clip(each * self.requests.sum(), least, most))
        self.arrival = np.array([request.arrival - instance.first_arrival for request in chosen], float)
        self.rate = np.array([float(weight(request, self.objective)) if self.sums else 1.0 for request in chosen])

    def divided(self, division: Speed) -> tuple[RequestWork, float, Floats]:
        """The needs, the fixed part of a batch, and all work in each line [lines, n]."""
        steps, first = self.steps.divided(division), self.steps.steps.first
        rows = [self.steps.divided(division.row(line)) for line in division.lines]
        shares = [row.shares(last=bool(rows)) for row in (steps, *rows)]
        work, *others = [np.asarray(numbers * 0.5**bits, float) for numbers, bits in shares]
        bases = np.array([float(row.mixed[0]) for row in rows]).reshape(-1, 1)
        each_line = [self._line(row, first) for row in others]
        heads, besides, all_work = np.array(each_line).reshape(-1, 3, len(self.one)).transpose(1, 0, 2)
        start, stop = first[:-1][self.one], first[1:][self.one]
        begun, count = steps.done[start].astype(float), stop - start - 1
        alone, before = steps.done[stop - 1].astype(float), work[first[:-1]]
        sums = np.add.reduceat(work, first[:-1])[self.one]
        if self.objective == "total-ttft":
            alone, count, sums = begun, 0 * count, before[self.one]
        work[first[:-1]] = work[np.minimum(first[:-1] + 1, first[1:] - 1)]
        low, high = np.minimum.reduceat(work, first[:-1]), np.maximum.reduceat(work, first[:-1])
        level = low + (high - low) * division.level / UNIT
        parts = np.minimum(work, np.repeat(level, np.diff(first)))
        parts = np.add.reduceat(parts, first[:-1]) - parts[first[:-1]]
        heavy = np.maximum(1, np.add.reduceat(work > np.repeat(level, np.diff(first)), first[:-1])[self.one])
        each, parts = np.where(count > 0, level[self.one], before[self.one]), parts[self.one]
        more, before = count > 0, before[self.one]
        whole = float(steps.mixed[0])
        fixed = whole * (UNIT - division.shared) / UNIT

        if self.objective == "total-ttft":
            besides, all_work = np.zeros_like(besides), heads
        least = np.max(bases + besides, axis=0, initial=max(1.0, whole))

        def fastest(work: Floats) -> Floats:
            return np.maximum(max(1.0, whole), fixed + work)

        needs = RequestWork(
            requests=self.requests, arrival=self.arrival, alone=alone, rate=self.rate,
            first=np.where(more, before, 0.0), time=fastest(before), after=np.where(more, alone - begun, 0.0),
            count=np.where(more & (each > 0), parts / np.maximum(each, 1e-300), np.maximum(count, 1)),
            begin=self.arrival + np.where(more, begun, 0.0), each=each,
            least=np.maximum(fastest(each), np.where(more, least, 0.0)),
            extra=np.where(more, sums - before - parts, 0.0), heavy=heavy.astype(float),
            heads=heads, quick=np.maximum(1.0, bases + heads), besides=np.where(more, besides, 0.0),
        )  # fmt: skip
        return needs, fixed, np.vstack((sums, all_work))

    def _line(self, work: Floats, first: Integers) -> tuple[Floats, Floats, Floats]:
        heads, sums = work[first[:-1]], np.add.reduceat(work, first[:-1])
        others = work.copy()
        others[first[:-1]] = np.inf
        return heads[self.one], np.minimum.reduceat(others, first[:-1])[self.one], sums[self.one]


def first_prices(work: RequestWork, totals: Floats, inflated: float, slots: int) -> tuple[int, Floats]:
    """Return the ticks of each of `slots`, and prices: the duals of least mean busy times with interruptions.

    Each line serves the largest weight for its work. While it serves j, which ends at e, the price falls by weight /
    work a tick, down to what is served next if that has waited at e, and else to 0.
    """
    rows = [_served(work, np.maximum(each * inflated, 1e-3)) for each in totals]
    last = max(end for served, _ in rows for *_, end in served)
    slot = 1 + last // (UNIT * slots)
    return slot, np.array([_line_prices(*row, slot, last // (UNIT * slot) + 1) for row in rows])


Served = tuple[WorkPiece, int, int]


def _served(work: RequestWork, size: Floats) -> tuple[list[Served], Floats]:
    falls = work.rate / size
    rank = np.argsort(np.argsort(-falls, kind="stable"))
    columns = (work.arrival * UNIT, rank, size * work.requests * UNIT, range(len(size)))
    pieces = [WorkPiece(int(a), int(r), max(1, int(w)), i) for a, r, w, i in zip(*columns, strict=True)]
    return list(run(pieces)), falls


def _line_prices(served: list[Served], falls: Floats, slot: int, slots: int) -> Floats:
    price, tops = np.zeros(slots), dict[int, float]()
    after: tuple[WorkPiece, int] | None = None
    for piece, start, end in reversed(served):
        begin, stop, fall = start / UNIT, end / UNIT, falls[piece.owner]
        if piece.owner not in tops:  # `tops` are the prices that their lines have at tick 0
            level = 0.0
            if after is not None and after[1] == end and after[0].release < end:
                level = max(0.0, tops[after[0].owner] - falls[after[0].owner] * stop)
            tops[piece.owner] = level + fall * stop
        for k in range(int(begin // slot), min(int(stop // slot) + 1, len(price))):
            low, high = max(begin, k * slot), min(stop, (k + 1) * slot)
            price[k] += max(0.0, high - low) / slot * max(0.0, tops[piece.owner] - fall * (low + high) / 2)
        after = piece, start
    return price


class Rows:
    """The part of each request in the fixed part of batches, by slot from its arrival on; 1 in sum over a slot."""

    def __init__(self, work: RequestWork, shape: Shape, slots: int) -> None:
        self.work, self.shape, self.options = work, shape, SpeedOptions.given()
        self.start = np.minimum(work.arrival // shape.slot, slots - 1).astype(np.int64)
        count = np.minimum(128, slots - self.start)  # fees are in the first slots from the arrival on
        self.first = np.concatenate(([0], np.cumsum(count)))
        self.owner = np.repeat(np.arange(len(count)), count)
        self.slot = np.arange(len(self.owner)) - np.repeat(self.first[:-1] - self.start, count)
        self.parts, self.taken = np.zeros(len(self.owner)), np.zeros(len(self.owner))

    def fees(self, part: float) -> Fees:
        """Return the fees of these parts."""
        self.taken[:] = 0
        return Fees(part, self.first, self.start, self.shape.fixed * self.parts, self.taken)

    def begin(self) -> None:
        """Set the parts to the use, smoothed."""
        smooth = np.convolve(self.taken, np.ones(self.options.smooth) / self.options.smooth)[
            self.options.smooth // 2 :
        ][: len(self.taken)]
        self.parts = smooth + 1e-4 * self.taken.max(initial=1.0)
        self.turn(0 * self.parts)

    def turn(self, pull: Floats) -> None:
        """Let parts grow with their pull; in shorter slots all may have been 0."""
        self.parts = np.maximum(self.parts, 1e-99) * np.exp(np.minimum(pull, 100))
        self.parts /= np.bincount(self.slot, self.work.requests[self.owner] * self.parts)[self.slot]

    def pull(self) -> Floats:
        """Return the use of each, where 1 is the mean."""
        mean = float((self.parts * self.taken).sum()) / (1 + self.slot.max())
        each: Floats = self.taken / self.work.requests[self.owner] / max(mean, 1e-9)
        return each

    def whole(self) -> tuple[tuple[int, ...], ...]:
        """Return the parts as whole weights."""
        rows = np.split(np.rint(self.parts * 2**13).astype(int), self.first[1:-1])
        return tuple(tuple(np.trim_zeros(row, "b").tolist()) for row in rows)


def window_prices(work: RequestWork, totals: Floats, inflated: float, slots: int) -> tuple[int, Floats]:
    """Return the ticks of each of `slots`, and prices: 1 where the last of a window waits longest, as they come.

    Elsewhere they are the option `outside`.
    """
    begun = end = longest = 0.0
    window = 0.0, 1.0
    for i in np.argsort(work.arrival, kind="stable"):
        if work.arrival[i] > end:
            begun = end = float(work.arrival[i])
        end += float(totals[0, i] * inflated * work.requests[i])
        if end - work.arrival[i] > longest:
            longest, window = end - float(work.arrival[i]), (begun, end)
    slot = 1 + int(max(end, (work.arrival + work.alone).max())) // slots
    start = slot * np.arange(slots + 1)
    inside = (np.minimum(start + slot, window[1]) - np.maximum(start, window[0])) / slot
    return slot, np.maximum(0.01, inside)[None]


def evaluate(
    work: RequestWork, shape: Shape, price: Floats, fees: Fees | None = None, within: float | None = None
) -> tuple[float, Floats]:
    """Return what requests take and pay (`within` a flow time: pay) above the prices, and a subgradient."""
    free, none = np.pad(price, ((0, 0), (0, 1))), np.zeros(len(work.arrival) + 1, np.int64)
    fees, usage = fees or Fees(0.0, none, none, np.zeros(0), np.zeros(0)), 0 * free
    paid, steps = pay(work, shape, fees, free, usage, -1.0 if within is None else within)
    spend(Units.speed_step * steps)
    return paid - shape.slot * price.sum(), usage[:, :-1] - shape.slot
