"""Prices in order: those of one machine that may interrupt, cutting planes in finer slots."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from math import ceil, inf, log2

import numpy as np

from bounds.bundle import Bundle, Evaluation, Vector, maximise
from bounds.clock import Units as Work
from bounds.clock import spend
from bounds.shares import most_packs
from bounds.slot_dual import machine_prices
from bounds.task import Proposal, Task
from kvcore.certificates.budget import Budget, InvalidCertificate
from kvcore.certificates.in_order import FINE, Chain, InOrder, Integers, Units, after
from kvcore.certificates.steps import lines
from kvcore.compiled import compiled


class Most:
    """Numbers that steer the search."""

    slots = 100  # with prices, at first
    rounds = 100  # prices tried for slots of one length
    units = 64  # of a request for which the first slots have room
    pieces = 8  # requests with cuts of their own
    trial = 15  # rounds in which lines and packs are compared
    pays = 1.0001  # what finer slots are worth


def propose_in_order(task: Task) -> Iterator[Proposal]:
    """Return prices of the time of batches."""
    tried = len(lines(task.instance.cost)) * (1 + most_packs(task.instance))
    tokens = sum(request.output for request in task.instance.requests)
    count = Budget()
    count.spend("prices in order", 20_000 * tried * tokens)
    task.begin(count)
    return (Proposal(each.in_order()) for each in ascents(task))


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


def ascents(task: Task) -> Iterator[Ascent]:
    """Yield prices in ever finer slots, until these no longer pay or time is over; then those so far, turn by turn."""
    found = divided(task)
    for tried in found:
        tried.rise(Most.trial)
        if task.is_over():  # the next turn goes on with it
            yield max(found, key=lambda one: one.bound)
            tried.rise(Most.trial)
    finer, reached = max(found, key=lambda one: one.bound), 0.0
    yield finer
    while not task.is_over():
        finer.rise(Most.rounds)
        is_cut = task.is_over()
        yield finer
        if not is_cut:
            if finer.bound < Most.pays * reached or finer.proof.most == 1:
                return
            finer, reached = finer.halved(), finer.bound


def better(best: Ascent | None, other: Ascent) -> Ascent:
    """Return the other one where it pays."""
    return other if best is None or other.bound >= Most.pays * best.bound else best


class Ascent:
    """The best `price` so far, in parts of rates, for slots with room for `proof.most` units; its `value` in slots."""

    def __init__(self, task: Task, proof: InOrder) -> None:
        self.task, self.price = task, np.zeros(0)
        self._divide(proof)
        self._begin()

    def _divide(self, proof: InOrder) -> None:
        task, self.units = self.task, Units(self.task.instance, self.task.objective, proof.replace(scale=1))
        chains = [self.units.chain(request) for request in task.instance.requests]
        spend(Work.token * 2 * sum(request.output for request in task.instance.requests))
        rates, ends = sum(chain.rate for chain in chains) // FINE, [self._alone(chain) for chain in chains]
        self.most = 4.0 * rates  # for a price
        paid = max(float(chain.paid[-1]) for chain in chains)
        whole = self.most * paid + FINE * rates * float(len(self.price) * self.units.slot + 2 * max(ends))
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
        self.price = price
        self._divide(self.proof.replace(most=most))
        self._start()

    def _start(self) -> None:
        self.value, self.bundle = -inf, Bundle()
        self.evaluate(self.price)

    def of(self, left: list[Chain], rounds: int) -> InOrder:
        """Return prices that are best for what is left of requests, as a proof."""
        state = copy(self)
        state.chains = left
        state._start()
        state.rise(rounds)
        return state.in_order()

    def halved(self) -> Ascent:
        """Return slots of half the length at the same prices."""
        finer = copy(self)
        finer._take(np.repeat(self.price, 2), self.proof.most // 2)
        return finer

    @property
    def bound(self) -> float:
        """The value in ticks."""
        return self.value * self.units.slot / self.units.divisor

    def whole(self, price: Vector) -> Integers:
        """Return whole prices."""
        return np.floor(np.clip(price, 0, self.most) * self.proof.scale).astype(np.int64)

    def evaluate(self, price: Vector) -> Evaluation:
        """Return the bound by prices, and what each request (of many: all together) takes and pays."""
        whole, costs, taken = self.whole(price), list[int](), np.zeros((len(self.chains), len(price)))
        for chain, row in zip(self.chains, taken, strict=True):
            spend(len(whole) * len(chain.paid) * chain.room * 2 * Work.nanosecond)
            cost, values, starts = self.units.least(chain, whole)
            costs.append(cost)
            if values is not None:
                follow(values, starts, chain, whole, self.units.slot, self.units.each, row)
        slot, x = FINE * self.units.slot, whole / self.proof.scale
        value = sum(costs) / (slot * self.proof.scale) - float(x.sum())
        if value > self.value:
            self.value, self.price = value, x
        pieces = np.array(costs) / (slot * self.proof.scale)
        if len(pieces) > Most.pieces:
            pieces, taken = pieces.sum(keepdims=True), taken.sum(axis=0, keepdims=True)
        return Evaluation(x, value, pieces, taken / slot)

    def rise(self, rounds: int) -> None:
        """Look for better prices near the best ones."""
        n, upper = len(self.price), inf
        if self.task.upper is not None:
            upper = float(self.task.upper * self.units.unit * self.units.divisor) / self.units.slot
        maximise(
            self.evaluate, self.price, self.bundle, linear=-np.ones(n), low=np.zeros(n), high=np.full(n, self.most),
            scale=np.full(n, self.most / 4), size=0.05, worth=1e-5 * abs(self.value), deadline=self.task.deadline,
            rounds=rounds, enough=upper, steady=True,
        )  # fmt: skip

    def in_order(self) -> InOrder:
        """Return the proof of the best prices."""
        return self.proof.replace(price=tuple(self.whole(self.price).tolist()))


@compiled
def follow(values, starts, chain, price, slot, each, taken):  # type: ignore[no-untyped-def]
    """Add to `taken` what a request pays for in each slot on a cheapest way."""
    k = j = 0
    ready = chain.arrival
    s = ready // slot
    room = min(chain.room, ((s + 1) * slot - ready + each - 1) // each)
    while s < len(price) and k < len(chain.paid) - 1:
        best, units = values[s + 1, k], 0
        for g in range(1, min(room, chain.begin[j + 1] - k) + 1):
            cost = price[s] * (chain.paid[k + g] - chain.paid[k])
            cost += after(values, starts, chain, s, j, k + g, g, slot, each)
            if cost < best:
                best, units = cost, g
        taken[s] += chain.paid[k + units] - chain.paid[k]
        k += units
        if units > 0 and k == chain.begin[j + 1]:
            ready = s * slot + units * each + chain.wait[j]
            j, s = j + 1, ready // slot
            room = min(chain.room, ((s + 1) * slot - ready + each - 1) // each)
        else:
            s, room = s + 1, chain.room
