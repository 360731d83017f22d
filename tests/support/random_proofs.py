"""Random prices of slots and of work, for tests: any of them must prove at most the optimum."""

from __future__ import annotations

import random
from typing import Any

from bounds.shares import corners
from kvcore import Instance
from kvcore.certificates import (
    Alone,
    Branch,
    Enumeration,
    Events,
    InOrder,
    LateTail,
    LateWindows,
    Potential,
    Potentials,
    PricedLine,
    SlotDual,
    SlotPrices,
    Slots,
    Speed,
)
from kvcore.certificates.late_windows import ONE as ONE_ROW
from kvcore.certificates.late_windows import deadlines
from kvcore.certificates.shares import UNIT
from kvcore.certificates.slot_dual import PricedRequests
from kvcore.certificates.slot_graph import LocalGraphs
from kvcore.certificates.speed import ONE, groups_of
from kvcore.certificates.steps import lines
from kvcore.certificates.tokens import swaps_of
from kvcore.limits import LIMITS
from kvcore.metrics import tail_of


def random_events(draw: random.Random) -> Events:
    """Draw how many states to look at, and what is left out of them."""
    target = draw.choice([None, 0, draw.randint(1, 60), draw.randint(1, 10**4), 2**60])
    return Events(states=draw.choice([1, 2, draw.randint(1, 50), draw.randint(50, 2000)]), target=target)


def random_enumeration(draw: random.Random) -> Enumeration:
    """Draw how many states to look at."""
    return Enumeration(states=draw.choice([1, 2, draw.randint(1, 50), draw.randint(50, 2000)]))


def random_potentials(draw: random.Random, instance: Instance) -> Potentials:
    """Draw weights and prices up to their limits, each limit reached often."""
    functions, requests = instance.cost.functions, range(len(instance.requests))
    function, moves, scale = draw.randrange(len(functions)), draw.randrange(len(functions)), draw.choice([1, 2, 12, 60])
    out, back = swaps_of(instance, function, moves)

    def part(most: int) -> int:
        return draw.choice([0, most // 2, most, most, draw.randint(0, most)])

    def potential() -> Potential:
        compute = part(scale)
        wait = draw.choice([0, part(scale - compute)])
        left, device, host = scale - compute - wait, list[int](), list[int]()
        for _ in requests:
            price = part(compute * functions[function].tokens) * (draw.random() < 0.7)
            least = max(0, price - left * back)
            device.append(price)
            host.append(least + part(price + left * out - least))
        request = draw.choice(requests) if wait else None
        return Potential(compute=compute, wait=wait, request=request, device=tuple(device), host=tuple(host))

    events, many = random_events(draw), draw.choice([0, 1, 3, 8, 25])
    proof = Potentials(
        function=function, moves=moves, scale=scale, potentials=tuple(potential() for _ in range(many)),
        labels=events.states, target=None if events.target is None else min(events.target, 2**58),
    )  # fmt: skip
    proof = with_in_order(draw, instance, proof) if draw.random() < 0.5 else proof
    return proof.replace(places=not instance.machine.partial and draw.random() < 0.5)


def with_in_order(draw: random.Random, instance: Instance, proof: Potentials) -> Potentials:
    """Return the proof with one to three prices in order of a line with time, of as many slots, often falling."""
    found, one, slots = lines(instance.cost), random_in_order(draw, instance), draw.choice([1, 2, draw.randint(1, 40)])
    line = draw.choice([k for k, each in enumerate(found) if each.base + each.prices.tokens])

    def falling() -> tuple[int, ...]:
        top = draw.random() * 1.5 * one.scale * len(instance.requests)
        return tuple(round(top * (1 - s / slots)) for s in range(slots))

    shapes = falling, lambda: random_prices(draw, one.scale, slots)
    vectors = [draw.choice(shapes)() for _ in range(draw.choice([1, 2, 3]))]
    return proof.replace(in_order=tuple(one.replace(line=line, price=price) for price in vectors))


def random_in_order(draw: random.Random, instance: Instance) -> InOrder:
    """Draw a line, slots of any length, and prices of any shape and size."""
    scale, longest = draw.choice([1, 64, 1024]), draw.choice([0, 1, 2, draw.randint(1, 40)])
    price = random_prices(draw, scale, max(0, longest - draw.choice([0, 0, 1])))
    return InOrder(
        line=draw.randrange(len(lines(instance.cost))), packs=draw.choice([0, 1, 2, 2, 3, 4]),
        most=draw.choice([1, 1, 2, 3, 4, 7]), scale=scale, price=price,
    )  # fmt: skip


def random_prices(draw: random.Random, scale: int, slots: int) -> tuple[int, ...]:
    """Draw prices of any shape and size."""
    top = draw.choice([1, 2, 4])
    shapes = (
        [int(scale * top * (1 - i / max(1, slots))) for i in range(slots)],
        [int(draw.random() * scale * top) for _ in range(slots)],
        [draw.choice([0, 0, scale, 10**9]) * (draw.random() < 0.3) for _ in range(slots)],
        [scale * top * (i < slots // 2) for i in range(slots)],
    )
    return tuple(draw.choice(shapes))


def random_division(draw: random.Random, instance: Instance) -> dict[str, Any]:
    """Draw weights of lines, and parts of what is fixed in a batch."""
    parts = [draw.random() ** draw.choice([1, 6]) for _ in lines(instance.cost)]
    machine, left, shared = instance.machine, UNIT, {}
    limits = {"memory": machine.memory, "packing": machine.memory, "tokens": machine.batch_tokens,
              "prefill_tokens": 1, "requests": machine.batch_requests}  # fmt: skip
    names = [name for name, limit in limits.items() if limit is not None]
    for name in draw.sample(names, draw.choice([0, 1, 1, 2]) if len(names) > 1 else 1):
        shared[name] = draw.choice([left, draw.randint(0, left)])
        left -= shared[name]
    functions = tuple(int(UNIT * part / sum(parts)) for part in parts)
    return {"functions": functions, "packs": draw.randint(1, 3), **shared}


def random_late_windows(draw: random.Random, instance: Instance) -> LateWindows:
    """Draw windows from near an arrival to near a due time, with weights near 1, small or large, for any division."""
    dues = [tick for request in instance.requests for tick in deadlines(request) if tick is not None] or [9]
    starts = [request.arrival for request in instance.requests]

    def row() -> tuple[int, int, int, int]:
        start = max(0, draw.choice(starts) + draw.choice([0, 0, 0, -1, 1]))
        weights = [draw.choice([0, 1, ONE_ROW, draw.randint(0, 2 * ONE_ROW), 2**30]) for _ in range(2)]
        return start, max(start, draw.choice(dues) + draw.choice([0, 0, 0, -1, 1])), *weights

    division = draw.choice([corner.model_dump(exclude={"kind", "alone", "windows"}) for corner in corners(instance)])
    division = draw.choice([division, random_division(draw, instance)])
    return LateWindows(**division, rows=tuple(row() for _ in range(draw.choice([0, 1, 1, 2, 3, 8]))))


def random_tail(draw: random.Random, instance: Instance, objective: str) -> LateTail:
    """Draw a time near that of a request alone, and windows for it."""
    within = max(0, int(Alone().value(instance, objective) * draw.choice([0.5, 1, 1.5, 2, 3])) + draw.randint(-1, 1))
    tail = tail_of(objective)
    assert tail is not None
    return LateTail(within=within, proof=random_late_windows(draw, tail.due(instance, within)))


def random_speed(draw: random.Random, instance: Instance) -> Speed:
    """Draw prices of work of any shape and size, slots of any length, and any division of the time of a batch."""
    scale, slots, top = draw.choice([1, 64, 1024]), draw.randint(0, 12), draw.choice([0.5, 1, 2, 4])
    shapes = (
        [int(scale * top * (1 - i / max(1, slots))) for i in range(slots)],
        [int(draw.random() * scale * top) for _ in range(slots)],
        [draw.choice([0, 0, scale, 10**9]) * (draw.random() < 0.3) for _ in range(slots)],
    )
    return Speed(
        **random_division(draw, instance),
        slot=draw.choice([1, 1, 2, 3, 5, 9, 20, 60]), scale=scale, price=tuple(draw.choice(shapes)),
        level=draw.choice([0, UNIT, draw.randint(0, UNIT)]),
        ratios=tuple(sorted(draw.sample(range(ONE + 1, 400), draw.randint(0, 6)))),
        ordered=draw.random() < 0.5, cells=draw.choice([1, 1, 2, 3, 7]),
        fee=draw.choice([0, UNIT, draw.randint(0, UNIT)]),
        fees=tuple(tuple(draw.randint(0, 9) for _ in range(draw.randint(0, slots + 1)))
                   for _ in groups_of(instance)) if draw.random() < 0.7 else (),
    )  # fmt: skip


def with_lines(draw: random.Random, instance: Instance, proof: Speed) -> Speed:
    """Return the proof with one to three more lines, or mixtures of lines, with prices like its own."""
    count, price = len(lines(instance.cost)), proof.price
    weights = [tuple(UNIT * (i == k) for i in range(count)) for k in range(count)]
    shapes = price, [int(each * draw.random() * 2) for each in price], price[: len(price) // 2], (0,) * len(price)
    more = [PricedLine(functions=draw.choice([random_division(draw, instance)["functions"], *weights]),
                       price=tuple(draw.choice(shapes))) for _ in range(draw.choice([1, 1, 2, 3]))]  # fmt: skip
    most = draw.choice([*shapes[:2], shapes[3]])
    return proof.replace(lines=tuple(more), price=(*most, *(0,) * draw.choice([0, 0, len(price)])))


def random_slots(draw: random.Random, instance: Instance, objective: str, target: int, strict: bool) -> Slots:
    """Draw one to four vectors of prices for the search below a target, of any size, and from and to any slot."""
    local = LocalGraphs(instance, objective)
    slots = max(1, *local.deadlines(target))

    def row(limit: int) -> tuple[int, ...]:
        length = draw.randint(0, slots + draw.choice([0, 3])) if limit >= 0 else 0
        return tuple(draw.choice([0, 0, draw.randint(0, 6)]) for _ in range(length))

    def vector(since: int) -> SlotPrices:
        rows = {limit.name: row(int(most)) for limit, most in zip(LIMITS, local.limits, strict=True)}
        return SlotPrices(since=since, **rows)

    later = [vector(draw.randint(0, slots + draw.choice([0, 3]))) for _ in range(draw.choice([0, 0, 1, 3]))]
    scale = draw.choice([1, 4, 16, 64])
    return Slots(
        target=target, scale=scale, strict=strict, prices=(vector(0), *later), states=100_000, tries=10_000_000
    )


def random_dual(draw: random.Random, instance: Instance, objective: str) -> SlotDual:
    """Draw prices of the limits that can bind, of some size, for some slots; now and then of up to 16 cases."""
    scale, slots = draw.choice([1, 3, 16]), draw.randint(1, 25)
    most = draw.choice([1, 2, scale, 3 * scale])
    limits = PricedRequests(instance, objective).graphs.limits.tolist()

    def row(limit: int) -> tuple[int, ...]:
        share = draw.random() * draw.choice([0, 1, 1])
        return () if limit < 0 else tuple(draw.randint(0, most) * (draw.random() < share) for _ in range(slots))

    def prices() -> SlotPrices:
        return SlotPrices(**{limit.name: row(there) for limit, there in zip(LIMITS, limits, strict=True)})

    def cases(depth: int) -> list[Branch | SlotPrices]:
        if depth == 0 or draw.random() < 0.1:
            return [prices()]
        request = draw.choice(instance.requests)
        segment, slot = draw.randrange(len(request.segments)), draw.randrange(draw.choice([3, slots + 3]))
        return [Branch(request=request.id, segment=segment, slot=slot), *cases(depth - 1), *cases(depth - 1)]

    one = prices()
    return SlotDual(scale=scale, prices=tuple(cases(draw.randint(1, 4))) if draw.random() < 0.5 else one)
