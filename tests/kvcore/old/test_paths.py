"""Cheapest paths: never above any way of a request, found by trying all that the rules allow."""

import random
from functools import cache

import numpy as np

from kvcore.certificates.old.paths import ANY_LATER, NEVER, Course, PriceRows, cheapest
from tests.support.drawer import tiny_instance
from tests.support.few import few
from tests.support.random_proofs import PRICEABLE


def cheapest_of_all(machine, request, rows, rate, ends):
    """What the cheapest way costs, slot by slot: every move, every number of tokens (rules R2 to R4, R8 to R10)."""
    slots = len(rows["device"])
    known = [request.prompt]
    for segment, call in zip(request.segments, request.calls, strict=False):
        known.append(known[-1] + segment.decode + call.returns)

    def moves(m, h, window, due, in_call):
        """Yield (m, h, whether work may follow, whether an order is still due)."""
        if due:
            yield m, h, False, True  # no batch in this slot
            if window == "discard":
                yield 0, 0, not in_call, False
            else:
                yield from ((0, m, False, False), (m, 0, not in_call, False))
            return
        yield m, h, not in_call and h == 0, False
        if h and (window != "preserve" or not in_call):
            yield m + h, 0, not in_call, False
        if window == "free":
            yield 0, 0, not in_call, False
            yield 0, m + h, False, False

    @cache
    def best(t, k, g, m, h, window, due, back):
        in_call = t < back
        limits = (machine.prefill_limit, machine.batch_tokens)
        least = float("inf")
        for now, host, works, still in moves(m, h, window, due, in_call):
            if host and machine.host_memory is not None and host > machine.host_memory:
                continue
            missing = known[k] + g - now
            most = limits[now > 0 and missing == 1]
            amounts = range(1, missing + 1) if machine.chunked else (missing,)
            work = [c for c in amounts if most is None or c <= most] if works else []
            for c in ([] if t >= slots and work and not in_call else [0]) + work:
                paid = 0
                if t < slots:
                    paid = rows["device"][t] * machine.blocks(now + c) + rows["host"][t] * host
                    paid += rows["tokens"][t] * c
                if c == 0:
                    goes_on = t < slots + 3 or (in_call and not still)
                    rest = best(t + 1, k, g, now, host, window, still, back) if goes_on else float("inf")
                elif c < missing:
                    rest = best(t + 1, k, g, now + c, 0, None, False, 0)
                elif g + 1 == request.segments[k].decode and not ends[k][0] <= t <= ends[k][1]:
                    rest = float("inf")
                elif g + 1 < request.segments[k].decode:
                    rest = best(t + 1, k, g + 1, now + c, 0, None, False, 0)
                elif k + 1 == len(request.segments):
                    rest = rate * (t + 1 - request.arrival)
                else:
                    call = request.calls[k]
                    ordered = call.handling in ("discard", "swap")
                    rest = best(t + 1, k + 1, 0, now + c, 0, call.handling, ordered, t + 1 + call.duration)
                least = min(least, paid + rest)
        return least

    return best(request.arrival, 0, 0, 0, 0, None, False, 0)


def some_ends(draw, request, slots):
    """Slots in which each segment may end: often any, else some that may be too few."""
    if draw.random() < 0.3:
        return ((0, ANY_LATER),) * len(request.segments)
    lows = [draw.choice([0, draw.randint(0, slots)]) for _ in request.segments]
    return tuple((low, draw.choice([ANY_LATER, draw.randint(0, slots - 1)])) for low in lows)


def compare(seeds):
    """Compare random prices on random requests; return how many were compared, and how many were the same."""
    compared = same = 0
    for seed in seeds:
        instance = tiny_instance(seed, **PRICEABLE)
        machine, draw = instance.machine, random.Random(seed)
        slots, rate = draw.randint(1, 16), draw.choice([1, 5, 30])
        rows = {name: [draw.choice([0, 0, 1, 7]) * draw.randint(0, 3) for _ in range(slots)]
                for name in ("device", "host", "tokens")}  # fmt: skip
        arrays = {name: np.array(row, np.int64) for name, row in rows.items()}
        if machine.host_memory is None:
            rows["host"], arrays["host"] = [0] * slots, None
        elif machine.host_memory == 0:
            rows["host"], arrays["host"] = rows["device"], arrays["device"]
        for request in instance.requests:
            course, prices, ends = Course(machine, request), PriceRows(**arrays), some_ends(draw, request, slots)
            found = cheapest(course, prices, request.arrival, rate, ends)
            least = cheapest_of_all(machine, request, rows, rate, ends)
            assert found <= least, (seed, request.id)
            compared += 1
            same += min(found, NEVER) == min(least, NEVER)
    return compared, same


def test_no_way_costs_less():
    compared, same = compare(few(range(6000), 240))
    assert same > compared / 2
