"""Prices in order: those of one machine that may interrupt, cutting planes in finer slots, then a tree of cases."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from math import ceil, inf, log2

import numpy as np

from bounds.bundle import Bundle, Evaluation, Vector, maximise
from bounds.clock import Units as Work
from bounds.clock import spend
from bounds.shares import most_packs
from bounds.slot_dual import machine_prices
from bounds.task import Proposal, Task
from kvcore.certificates.budget import Budget, InvalidCertificate
from kvcore.certificates.in_order import FINE, Chain, InOrder, Integers, Limited, Split, Units, after, limited
from kvcore.certificates.proof import Known
from kvcore.certificates.steps import lines
from kvcore.compiled import compiled


class Most:
    """Numbers that steer the search."""

    slots = 100  # with prices, at first
    rounds = 100  # prices tried for slots of one length
    units = 64  # of a request for which the first slots have room
    pieces = 8  # requests with cuts of their own, in a tree
    cases = 256
    turns = 25  # prices tried for a case
    trial = 15  # rounds in which lines and packs are compared


def propose_in_order(task: Task) -> Iterator[Proposal]:
    """Return prices of the time of batches."""
    tried = len(lines(task.instance.cost)) * (1 + most_packs(task.instance))
    tokens = sum(request.output for request in task.instance.requests)
    count = Budget()
    count.spend("prices in order", 20_000 * tried * tokens)
    task.begin(count)
    return _proposals(task)


def divided(task: Task) -> list[Ascent]:
    """Return first prices for each line and number of packs. Raises InvalidCertificate where no line has any."""
    found, said = list[Ascent](), InvalidCertificate("batches have no time")
    for line in range(len(lines(task.instance.cost))):
        try:
            found += [
                Ascent(task, InOrder(line=line, packs=packs, scale=1, price=()))
                for packs in range(1 + most_packs(task.instance))
            ]
        except InvalidCertificate as reason:
            said = reason
    if not found:
        raise said
    return found


def _proposals(task: Task) -> Iterator[Proposal]:
    found = divided(task)
    for tried in found:
        tried.rise(tried.worst, Most.trial)
        if task.is_over():  # the next turn goes on with it
            yield max(found, key=lambda one: one.bound).proposal()
            tried.rise(tried.worst, Most.trial)
    best = max(found, key=lambda one: one.bound)
    yield best.proposal()
    finer, reached = best, 0.0
    while not task.is_over():
        finer.rise(finer.worst, Most.rounds)
        is_cut = task.is_over()
        yield finer.proposal()
        if is_cut:
            continue
        if finer.bound < 1.0001 * reached:
            break
        best, reached = finer, finer.bound
        if best.proof.most == 1:
            break
        finer = best.halved()
    told = 1
    while len(best.cases) < Most.cases and best.split():
        if task.is_over() or len(best.cases) >= 2 * told:
            told = len(best.cases)
            yield best.proposal()
    if len(best.cases) > told:
        yield best.proposal()


@dataclass
class Case:
    """What is `known`, the best `price` so far, in parts of rates, its `value` in slots, and cuts."""

    price: Vector
    known: tuple[Known, ...] = ()
    value: float = -inf
    bundle: Bundle = field(default_factory=Bundle)


class Ascent:
    """The best prices so far for slots that have room for `proof.most` units, of one case or several."""

    def __init__(self, task: Task, proof: InOrder) -> None:
        self.task, self.nodes = task, list[Case | Split]([Case(np.zeros(0))])
        self._divide(proof)
        self._begin()

    def _divide(self, proof: InOrder) -> None:
        task, self.units = self.task, Units(self.task.instance, self.task.objective, proof.replace(scale=1))
        chains = [self.units.chain(request) for request in task.instance.requests]
        spend(Work.token * 2 * sum(request.output for request in task.instance.requests))
        rates, ends = sum(chain.rate for chain in chains) // FINE, [self._alone(chain) for chain in chains]
        self.most = 4.0 * rates  # for a price
        paid = max(float(chain.paid[-1]) for chain in chains)
        whole = self.most * paid + FINE * rates * float(len(self.worst.price) * self.units.slot + 2 * max(ends))
        self.proof = proof.replace(scale=2 ** int(np.clip(log2(2**61 / whole), 0, 20)))
        self.units = Units(task.instance, task.objective, self.proof)
        self.chains = [self.units.chain(request) for request in task.instance.requests]

    def _alone(self, chain: Chain) -> int:
        return chain.arrival + self.units.each * (len(chain.paid) - 1) + int(chain.wait.sum())

    def _begin(self) -> None:
        units, jobs = self.units, list[tuple[float, float, float]]()
        for chain in self.chains:
            start, ratio = float(chain.arrival), chain.rate / max(1.0, float(chain.paid[-1])) / self.proof.scale
            for j, wait in enumerate(chain.wait.tolist()):
                begin, end = chain.begin[j : j + 2].tolist()
                jobs.append((start, ratio, float(chain.paid[end] - chain.paid[begin]) / FINE))
                start += units.each * (end - begin) + wait
        whole = max(map(self._alone, self.chains)) + sum(volume for *_, volume in jobs)
        most = 2 ** max(0, ceil(log2(whole / (Most.slots * units.each))))
        if most > Most.units:
            raise InvalidCertificate(f"a slot would have room for {most} units, more than {Most.units}")
        slot = float(most * units.each)
        first = machine_prices(
            [(int(start // slot), ratio, volume) for start, ratio, volume in jobs], slot, 2 * Most.slots
        )
        longest = max(map(self._alone, self.chains))  # beyond it few prices matter
        zeros = 0, max(len(first) // 2, int(1.3 * longest / slot) - len(first)) + 1
        self._take(np.pad(slot * first, zeros), most)

    def _take(self, price: Vector, most: int) -> None:
        self.nodes = [Case(price)]
        self._divide(self.proof.replace(most=most))
        self.evaluate(self.worst, price)

    def halved(self) -> Ascent:
        """Return slots of half the length at the same prices."""
        finer = copy(self)
        finer._take(np.repeat(self.worst.price, 2), self.proof.most // 2)
        return finer

    @property
    def cases(self) -> list[Case]:
        """All of them."""
        return [each for each in self.nodes if isinstance(each, Case)]

    @property
    def worst(self) -> Case:
        """The case of the least value."""
        return min(self.cases, key=lambda case: case.value)

    @property
    def bound(self) -> float:
        """The value in ticks."""
        return self.worst.value * self.units.slot / self.units.divisor

    def whole(self, price: Vector) -> Integers:
        """Return whole prices."""
        return np.floor(np.clip(price, 0, self.most) * self.proof.scale).astype(np.int64)

    def limits(self, i: int, case: Case, price: Integers) -> Limited:
        """Return whole prices of a case with the limits of request i."""
        name = self.task.instance.requests[i].id
        return limited(self.chains[i], price, [each for each in case.known if each.branch.request == name])

    def evaluate(self, case: Case, price: Vector) -> Evaluation:
        """Return the bound by prices, and what each request (of many: all together) takes and pays."""
        whole, costs, taken = self.whole(price), list[int](), np.zeros((len(self.chains), len(price)))
        for i, (chain, row) in enumerate(zip(self.chains, taken, strict=True)):
            spend(len(whole) * len(chain.paid) * self.proof.most * 2 * Work.nanosecond)
            least, values, starts = self.units.least(chain, given := self.limits(i, case, whole))
            costs.append(least)
            if values is not None and least < inf:
                follow(values, starts, chain, given, self.proof.most, self.units.each, row)
        slot, x = FINE * self.units.slot, whole / self.proof.scale
        value = sum(costs) / (slot * self.proof.scale) - float(x.sum())  # in slots
        if value > case.value:
            case.value, case.price = value, x
        pieces = np.array(costs) / (slot * self.proof.scale)
        if len(pieces) > Most.pieces:
            pieces, taken = pieces.sum(keepdims=True), taken.sum(axis=0, keepdims=True)
        return Evaluation(x, value, pieces, taken / slot)

    def rise(self, case: Case, rounds: int) -> None:
        """Look for better prices near the best ones."""
        n, upper = len(case.price), inf
        if self.task.upper is not None:
            upper = float(self.task.upper * self.units.unit * self.units.divisor) / self.units.slot
        maximise(
            partial(self.evaluate, case), case.price, case.bundle, linear=-np.ones(n), low=np.zeros(n),
            high=np.full(n, self.most), scale=np.full(n, self.most / 4), size=0.05, worth=1e-5 * abs(self.worst.value),
            deadline=self.task.deadline, rounds=rounds, enough=upper, steady=True,
        )  # fmt: skip

    def split(self) -> bool:
        """Make two cases of the worst where plans of a request that share its prices differ most; say if they do."""
        case, most, found = self.worst, 1.0, None
        for i, chain in enumerate(self.chains if len(self.chains) <= Most.pieces else ()):
            plans = [(weight, self._plan(chain, slope)) for k, slope, weight in case.bundle.mixed if k == i]
            if plans:
                weights, done = np.array([weight for weight, _ in plans]), np.array([plan for _, plan in plans])
                given = self.limits(i, case, self.whole(case.price))
                mean = weights @ done / weights.sum()
                spread = weights @ (done - mean) ** 2 / weights.sum() * (given.high - given.low > 1)[1:]
                s = int(spread.argmax())
                if spread[s] > most:
                    units = int(np.clip(round(mean[s]), given.low[s + 1] + 1, given.high[s + 1] - 1))
                    most, found = spread[s], (i, Split(request=self.task.instance.requests[i].id, slot=s, units=units))
        if found is None:
            return False
        i, split = found
        cases = [self._case(case, i, Known(split, is_most)) for is_most in (True, False)]
        at = next(k for k, node in enumerate(self.nodes) if node is case)
        self.nodes[at : at + 1] = [split, *cases]
        return True

    def _plan(self, chain: Chain, slope: Vector) -> Integers:
        """Return the units done by the end of each slot, by what is paid for in slots."""
        paid = np.round(np.cumsum(slope) * (FINE * self.units.slot))
        return np.searchsorted(chain.paid, paid, side="right") - 1

    def _case(self, parent: Case, i: int, known: Known) -> Case:
        """Return a case of one, after some prices were tried."""
        split, cuts = known.branch, [dict(some) for some in parent.bundle.cuts]
        for key, (slope, _) in parent.bundle.cuts[i].items():
            done = self._plan(self.chains[i], slope)[split.slot]
            if done > split.units if known.first else done < split.units:
                del cuts[i][key]
        case = Case(parent.price, (*parent.known, known), bundle=Bundle(cuts))
        self.rise(case, Most.turns)
        return case

    def proposal(self) -> Proposal:
        """Return the proof of the best prices."""
        price = [tuple(self.whole(node.price).tolist()) if isinstance(node, Case) else node for node in self.nodes]
        return Proposal(self.proof.replace(price=tuple(price) if len(price) > 1 else price[0]))


@compiled
def follow(values, starts, chain, case, most, each, taken):  # type: ignore[no-untyped-def]
    """Add to `taken` what a request pays for in each slot on a cheapest way."""
    k = j = 0
    ready, slot, price = chain.arrival, most * each, case.price
    s = ready // slot
    room = min(most, ((s + 1) * slot - ready + each - 1) // each)
    while s < len(price) and k < len(chain.paid) - 1:
        best, units = values[s + 1, k], 0
        for g in range(1, min(room, chain.begin[j + 1] - k) + 1):
            cost = price[s] * (chain.paid[k + g] - chain.paid[k])
            cost += after(values, starts, chain, case, s, j, k + g, s * slot + g * each, each, slot, most)
            if cost < best:
                best, units = cost, g
        taken[s] += chain.paid[k + units] - chain.paid[k]
        k += units
        if units > 0 and k == chain.begin[j + 1]:
            ready = s * slot + units * each + chain.wait[j]
            j, s = j + 1, ready // slot
            room = min(most, ((s + 1) * slot - ready + each - 1) // each)
        else:
            s, room = s + 1, most
