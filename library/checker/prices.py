"""Kind `tree` (kvcore/certificates/old/paths.py)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import accumulate
from math import inf
from typing import Any

from library.checker.files import MOST_SLOTS, Amount, Box, Broken, NotChecked, spend
from library.checker.instance import always_one_tick, blocks, but_id, limits_of, most_prefill, output
from library.checker.objectives import RATES

Window = tuple[float, float]
Windows = dict[tuple[str, int], Window]
ANY = (0, inf)  # the first and the last slot in which a segment may end


def slot_prices(instance: Box, proof: Box, objective: str) -> Callable[[Windows], Any]:
    """Every request pays for its use of each slot, and takes its cheapest path.

    A function: the bound where segments, (request, number), end in windows of slots; infinite if none can.
    """
    machine = instance.machine
    if not always_one_tick(instance.cost) or machine.evict or machine.partial or machine.block > 1:
        raise Broken("trees are for batches of one tick, without evict, partial and larger blocks")
    T, scale, rows, total = proof.slots, proof.scale, {}, 0
    if T > MOST_SLOTS:
        raise NotChecked(f"prices of more than {MOST_SLOTS} slots are not looked at")
    spend(50 * T, "its slots")
    for name, most in limits_of(machine).items():
        if name in ("prefill_tokens", "requests"):
            continue
        if len(proof[name]) > T or (most is None and proof[name] and name != "host"):
            raise Broken(f"{name} has prices and no limit, or more prices than there are slots")
        rows[name] = ((proof[name] if most is not None else []) + [0] * T)[:T]  # a host without a limit is free
        total -= (most or 0) * sum(rows[name])
    start, kinds = min(one.arrival for one in instance.requests), [but_id(one) for one in instance.requests]

    @cache
    def paid(kind: str, windows: tuple[Window, ...]) -> Any:
        one = instance.requests[kinds.index(kind)]
        return Course(one, machine, rows, T, int(RATES[objective](one) * scale), one.arrival - start).cheapest(windows)

    def bound(windows: Windows) -> Any:
        spend(10 * sum(len(one.segments) for one in instance.requests), "its leaves")
        each = [
            paid(kind, tuple(windows.get((one.id, k), ANY) for k in range(len(one.segments))))
            for kind, one in zip(kinds, instance.requests, strict=True)
        ]
        return inf if inf in each else Fraction(total + sum(each), scale)

    return bound


def tree(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `tree`: segments end in a slot or before, or after it, and each leaf has prices."""
    prices = cache(lambda p: slot_prices(instance, proof.prices[p], objective))  # none that no leaf names
    slots = min((each.slots for each in proof.prices), default=0)
    places = {(one.id, k) for one in instance.requests for k in range(len(one.segments))}
    sides = [Windows()]  # windows of the nodes to come, the next one last
    least: Any = inf
    for node in proof.nodes:
        if not sides:
            raise Broken("there are nodes that no branch leads to")
        windows = sides.pop()
        if "request" in node:
            where, t = (node.request, node.segment), node.slot
            if where not in places or t >= slots:
                raise Broken(f"there is no segment {where}, or no slot {t} with prices")
            first, last = windows.get(where, ANY)
            spend(200 * (1 + len(windows)), "its branches")
            sides += [windows | {where: (max(first, t + 1), last)}, windows | {where: (first, min(last, t))}]
        elif node.prices >= len(proof.prices):
            raise Broken(f"there are no prices {node.prices}")
        else:
            least = min(least, prices(node.prices)(windows))
    if sides or least == inf:
        raise Broken("a branch lacks a side" if sides else "no leaf has a schedule")
    return least


class Course:
    """The cheapest path of a request; after slot T all is free but time.

    What follows a leg is a list: the least cost from there on, by slot; beyond its end only time counts.
    """

    def __init__(self, one: Box, machine: Box, rows: dict[str, list[int]], T: int, rate: int, arrival: int) -> None:
        self.one, self.machine, self.rows, self.T, self.rate = one, machine, rows, T, rate
        self.arrival, self.P = arrival, most_prefill(machine)
        self.paid = [*accumulate(rows["device"] + [0] * output(one), initial=0)]

    def between(self, paid: list[int], first: int, last: int) -> int:
        """Of running sums, the sum over slots first .. last - 1."""
        return paid[max(0, min(self.T, last))] - paid[max(0, min(self.T, first))]

    def cheapest(self, windows: tuple[Window, ...]) -> float:
        """The least that the request pays if its segments end in windows."""
        legs: list[Any] = []
        A, m, earliest, before = self.one.prompt, 0, self.arrival, None
        for segment in self.one.segments:
            ways = [(0, "discard")] if before is None or before.handling == "discard" else [(m, before.handling)]
            if before and before.handling == "free":
                ways.append((0, "discard"))
            wait, kept = before.duration if before else 0, ways[0][0]
            legs.append((A, segment.decode, wait, earliest + wait, ways))
            earliest += wait + (blocks(A - kept, self.P) if self.P else 1) + segment.decode - 1
            m, before = A + segment.decode - 1, segment.call
            A = m + 1 + (before.returns if before else 0)
        after: list[float] = [self.rate * (c - self.arrival) for c in range(self.T + 2)]
        for leg, (first, last) in zip(reversed(legs), reversed(windows), strict=True):
            after = self.leg(leg, [cost if first < c <= last + 1 else inf for c, cost in enumerate(after)])
        return self.at(after, self.arrival)

    def at(self, after: list[float], c: int) -> float:
        """What follows from slot c on."""
        return after[c] if c < len(after) else after[-1] + self.rate * (c - len(after) + 1)

    def leg(self, leg: Any, after: list[float]) -> list[float]:
        """By slot c after the segment before: the least from there on; `ways` are (KV kept in a call, how)."""
        A, d, wait, earliest, ways = leg
        slots, best = range(self.T + 2), []
        spend(20 * self.T * len(ways), "its slots")
        for m, how in ways:
            hold = [0, *accumulate(self.holding(z, m, how) for z in range(self.T))]
            work = self.tokens(A, m, d, earliest, after, how)
            best.append([work(c + wait) + self.between(hold, c, c + wait) for c in slots])
        return [min(each) for each in zip(*best, strict=True)]

    def tokens(self, A: int, m: int, d: int, earliest: int, after: list[float], how: str) -> Callable[[int], float]:
        """The least from slot c on, a function of c, if then the work for d tokens may begin.

        The first of them comes with A resident; m tokens are held until its work begins.
        """
        T, P, n = self.T, self.P, blocks(A - m, self.P) if self.P else 1
        spend((T + 1) * (20 + d + min(n, T)), "its slots")
        hold = [0, *accumulate(self.holding(z, m, how) for z in range(T))]
        least = [0] * min(earliest, T) + list(accumulate(self.rows["tokens"][earliest:], min))  # the least price so far
        cost: list[float] = []  # by f, the slot of the first token (T: any later one), with what is held from slot 0 on
        for f in range(T):
            paid: float = hold[max(0, f - n + 1)] + self.decodes(f, A, d) + self.at(after, f + d)
            paid += sum(self.holding(f - j, A - j * P, "preserve") for j in range(1, min(n, f + 1)) if P)
            cost.append(paid + (A - m) * least[f] + sum(least[f + 1 : f + d]))
        cost.append(hold[T] + self.at(after, T + d))
        cost = list(accumulate(reversed(cost), min))[::-1]

        def since(c: int) -> float:
            f = c + n - 1
            return (cost[f] if f <= T else hold[T] + self.at(after, f + d)) - hold[min(T, c)]

        return since

    def holding(self, z: int, m: int, how: str) -> int:
        """What m tokens of KV pay in slot z: on the device, or on the host where that is cheaper and allowed."""
        if how == "discard" or z >= self.T:
            return 0
        device = self.rows["device"][z]
        return m * (device if how == "preserve" else min(device, self.rows["host"][z]))

    def decodes(self, f: int, A: int, d: int) -> int:
        """What d tokens, the first in slot f with A resident, pay for the device."""
        return (A + d - 1) * self.paid[f + d] - A * self.paid[f] - sum(self.paid[f + 1 : f + d])
