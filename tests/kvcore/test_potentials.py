"""Potentials: below every schedule, label by label; the second checker says the same; every slip is noticed."""

import json
from contextlib import suppress
from functools import cache, partial
from itertools import product
from math import inf
from random import Random

import numpy
import pytest

from bounds import potentials as finder
from bounds.in_order import propose_in_order
from bounds.potentials import propose_potentials
from bounds.task import Proposal, Task
from bounds.traced import path
from kvcore import CostFunction, Schedule, objective_value, verify_schedule
from kvcore.certificates import (
    InOrder,
    InvalidCertificate,
    Potential,
    Potentials,
    certify,
    potential_kernels,
    potentials,
)
from kvcore.certificates import remaining as tables
from kvcore.certificates.labels import FREE, ROWS
from kvcore.certificates.potential_kernels import APART, AWAY, HERE, LOW
from kvcore.certificates.potentials import PotentialSearch
from kvcore.metrics import SUMS
from library import check
from tests.support.build import batches_of, instance, requests_of
from tests.support.drawer import FRESH, TIGHT, draw_instance
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import ALL, few
from tests.support.plain import FRONTIER, LABELS, plain
from tests.support.random_proofs import random_potentials
from tests.support.random_schedules import random_schedule

FLOW = "total-flow-time"
KERNELS = "kvcore.certificates.potential_kernels"
PROFILES = FRESH, TIGHT, TIGHT.but(partial=True), TIGHT.but(partial=True, chunked=True, requests=3)


def drawn(seed):
    return draw_instance(Random(seed), PROFILES[seed % len(PROFILES)], f"potentials-{seed}")


def follow(tiny, trace, schedule, proof):
    """Follow a schedule label by label; return how many worths it had to spare none of."""
    search = PotentialSearch(tiny, FLOW, proof.replace(labels=1000, target=None))
    p, f, at, done, exact = search.machine, search.orders, 0, 0, 0
    device, host, gone, lost = ([0] * len(tiny.requests) for _ in range(4))
    ready = [request.arrival * search.divisor for request in tiny.requests]
    for j, (batch, made_of) in enumerate(zip(schedule.batches, trace.batches, strict=True)):
        for i, id in enumerate(one.id for one in tiny.requests):
            dropped, moved = batch.drop.get(id, 0), batch.swap_out.get(id, 0) - batch.swap_in.get(id, 0)
            device[i] += min(0, host[i] - dropped) - moved + batch.work.get(id, 0)
            host[i] += moved - min(host[i], dropped)
            gone[i], lost[i] = gone[i] or dropped > 0, lost[i] and not dropped
        made = [i for i, one in enumerate(trace.requests) if any(x.batch == j and x.generated for x in one.steps)]
        if not made:
            continue
        left = sum(1 << i for i in range(len(device)) if f.token[at, i] < p.length[i])
        room = p.blocks - sum(-(-p.context[i, f.token[at, i]] // p.block) for i in made)
        new, rows = int(f.labels.count[FREE]), int(f.labels.count[ROWS])
        some = sum(1 << i for i in made)
        places = [APART if gone[i] or i in made or not left >> i & 1 or f.place[at, i] == APART
                  else HERE if device[i] else AWAY for i in range(len(device))]  # fmt: skip
        ways = range(3 ** len(device))
        assert any(potential_kernels.fits(p, f, at, left & ~some, way, room) and [*f.then] == places for way in ways)
        potential_kernels.step(p, f, at, some, left, room * p.block)
        assert f.labels.count[ROWS] == rows + 1
        at, now = new, made_of.end * search.divisor
        for i in made:
            over = f.token[at, i] == p.length[i]
            done += p.rate[i] * now * over
            ready[i] = now + p.call[i, f.token[at, i] - 1]
            device[i] *= not over
            gone[i], lost[i] = 0, not p.kept[i, f.token[at, i] - 1]  # a call discards it in the next batch
        assert f.time[at] <= now
        assert f.ends[at] <= done
        assert all(f.ready[at, i] <= ready[i] for i in range(len(ready)) if f.token[at, i] < p.length[i])
        for k, least in enumerate(f.worth[at].tolist()):
            if least == LOW:
                continue
            w = int(p.whom[k])
            worth = (p.scale - p.wait[k]) * now + (p.wait[k] * ready[w] if w >= 0 else 0)
            worth -= sum(int(p.prices[k, i] @ (device[i], host[i])) for i in range(len(device)) if not lost[i])
            assert least <= worth
            exact += k > 0 and least == worth
    assert f.labels.left[at] == 0
    value = (objective_value(trace, FLOW) + search.before) * search.divisor
    assert all(f.labels.bound[: int(f.labels.count[ROWS])] <= value)
    return exact


def test_every_schedule_is_covered_by_labels():
    """The lemmas of potentials.py on random schedules."""
    exact = 0
    for seed in few(range(3000), 12):
        tiny, draw = drawn(seed), Random(seed)
        schedule = random_schedule(draw, tiny)
        exact += follow(tiny, verify_schedule(tiny, schedule), schedule, random_potentials(draw, tiny))
    assert exact >= (1500 if ALL else 125)


MOVED = (CostFunction(busy=1, tokens=1), CostFunction(swap_in_tokens=1))


@pytest.mark.parametrize(("calls", "batches", "prices"), [
    # B loses its KV, and most of it is processed again before A, which waits, generates its next token
    ("1/100f 1", "0 A1 B40 | 45 -B40 C1 | 50 B40 | 145 A1 | 150 B1 C8", (1, 1)),
    # B is on the host where a label begins, and back on the device, where it is dearer, before A's next token
    ("1/20f 1/60f 1", "0 A1 B40 | 65 >B40 A1 | 70 <B40 | 130 A1 | 135 B1 C9", (1, 0)),
])  # fmt: skip
def test_places_are_those_of_a_moment(calls, batches, prices):
    """What each request holds while another waits is not what it held before: planted, worths were above the truth."""
    given, cost = requests_of(f"A 1 {calls}; B 40 2; C 9 1"), (CostFunction(busy=4, tokens=1), MOVED[1])
    three = instance(*given, cost=cost, memory=60, host_memory=60, evict=True, chunked=True)
    made = Schedule(instance_sha256=three.sha256, batches=tuple(batches_of(batches)))
    potential = Potential(compute=1, device=(0, prices[0], 0), host=(0, prices[1], 0))
    work = Potential(compute=2, device=(2, 2, 2), host=(2, 2, 2))
    proof = Potentials(moves=1, places=True, scale=2, potentials=(work, potential), labels=99)
    follow(three, verify_schedule(three, made), made, proof)


def test_a_label_covers_one_with_other_places_where_it_is_lower_by_the_difference():
    """B holds 4 tokens at a price of 1 on the device, of 0 on the host: 4, 0 and 0 are in its place."""
    two = instance(*requests_of("A 1 1/20f 1; B 4 2"), cost=MOVED, memory=20, host_memory=20)
    priced = Potential(compute=1, device=(0, 1), host=(0, 0))
    search = PotentialSearch(two, FLOW, Potentials(moves=1, places=True, scale=2, potentials=(priced,), labels=9))
    p, f = search.machine, search.orders
    f.token[:2], f.worth[:2, 1] = 1, 100
    for one, other, needed in ((HERE, HERE, 0), (HERE, AWAY, 4), (HERE, APART, 4), (AWAY, HERE, 0), (APART, HERE, 0)):
        f.place[0, 1], f.place[1, 1] = one, other
        for less in (0, needed - 1, needed):
            f.worth[0, 1] = 100 - less
            assert potential_kernels.covers(p, f, 0, 1) == (less >= needed), (one, other, less)


def test_the_most_that_kv_is_worth_is_no_less_than_any_amounts():
    """For two requests against all amounts on both sides, in the places, rooms and hosts that there are."""
    draw, tight = Random(1), 0
    for _ in range(400):
        price, side = numpy.array(draw.choices(range(4), k=8)).reshape(2, 2, 2), draw.choices((APART, HERE, AWAY), k=2)
        kept = [draw.randint(1, 3) if place != APART else 0 for place in side]
        size = [draw.randint(0, 3) for _ in side]
        room = sum(k for k, at in zip(kept, side, strict=True) if at == HERE) + draw.randint(0, 5)
        host = sum(k for k, at in zip(kept, side, strict=True) if at == AWAY) + draw.randint(0, 5)
        held = [[(m, h) for m in range(7) for h in range(7) if k <= m + h <= k + s
                 and (at != HERE or h == 0) and (at != AWAY or m == 0)]
                for at, k, s in zip(side, kept, size, strict=True)]  # fmt: skip
        for other in (-1, 0):
            gain = price[1] - (price[0] if other == 0 else 0)
            best = max(int((gain * (one, its)).sum()) for one, its in product(*held)
                       if one[0] + its[0] <= room and one[1] + its[1] <= host)  # fmt: skip
            arrays = (numpy.array(row) for row in ((0, 1), size, side, kept))
            found = potential_kernels.most(price, *arrays, numpy.zeros((3, 2), int), 2, other, 1, room, host)
            assert found >= best
            tight += found == best
    assert tight > 500


def test_no_bound_is_above_an_optimum():
    count = reached = 0
    for seed in few(range(600), 10):
        tiny, objective, draw = drawn(seed), SUMS[seed // 4 % len(SUMS)], Random(seed)
        try:
            optimum = exhaustive_optimum(tiny, objective, max_states=800 if ALL else 300)[0]
        except TooManyStates:
            continue
        bounds = [random_potentials(draw, tiny).replace(labels=5000).value(tiny, objective) for _ in range(4)]
        assert max(bounds) <= optimum, (seed, objective)
        count, reached = count + 1, reached + (max(bounds) == optimum)
    assert count >= 10
    assert 20 * reached >= count


def crowd(seed):
    """Two or three requests with calls, of which not all fit at the end."""
    draw, texts = Random(seed), []
    for id in "ABC"[: draw.choice([2, 3])]:
        calls = [f"/{draw.choice([0, 1, 3, 5, 12])}{draw.choice(['', '+1'])}{draw.choice('fpd')} {draw.randint(1, 5)}"
                 for _ in range(draw.choice([0, 1, 1, 2]))]  # fmt: skip
        texts.append(f"{id} {draw.choice([1, 1, 2])} {draw.randint(1, 5)}" + "".join(calls))
    requests = [each.replace(arrival=draw.choice([0, 0, 1, 4]), weight=draw.choice([1, 1, 2]))
                for each in requests_of("; ".join(texts))]  # fmt: skip
    cost = CostFunction(busy=draw.choice([1, 2, 4]), tokens=draw.choice([0, 0, 1]), generated=draw.choice([0, 0, 1]))
    peaks, block = [each.peak for each in requests], draw.choice([1, 1, 2])
    memory = -(-draw.randint(max(peaks), max(max(peaks), sum(peaks) - 1)) // block) * block
    return instance(*requests, cost=(cost,), memory=memory, block=block, host_memory=draw.choice([0, 4, 20]),
                    partial=draw.choice([True, False]))  # fmt: skip


def bounds_of_crowds(kernels, monkeypatch, most=400):
    """Yield bounds by a search and one that knows of no crowds, and their labels."""
    alone = plain(LABELS, FRONTIER, KERNELS)
    alone.crowd = lambda *_: 0
    for seed in few(range(300), 6):
        tiny, objective = crowd(seed), SUMS[seed % len(SUMS)]
        proof = Potentials(scale=1, potentials=(), labels=20000)
        if seed % 3 == 0:
            proof = random_potentials(Random(seed), tiny).replace(labels=20000, target=None)
        ends = []
        for each in (kernels, alone):
            monkeypatch.setattr(potentials, "kernels", each)
            ends.append(PotentialSearch(tiny, objective, proof).run())
        with suppress(TooManyStates):
            assert ends[0].bound <= exhaustive_optimum(tiny, objective, max_states=most)[0]
        yield ends


def test_crowds_save_labels_and_change_no_bound(monkeypatch):
    """Not above an optimum, nor above the best of all labels."""
    saved = count = 0
    for crowded, alone in bounds_of_crowds(potential_kernels, monkeypatch):
        assert crowded.is_found
        assert crowded.bound == alone.bound
        saved, count = saved + (crowded.labels < alone.labels), count + 1
    assert saved >= count / 20


SLIPS = {
    "room": lambda p, f, at, left, n, few, room: (p, f, at, left, n, few, room - p.busy - p.each - p.token),
    "all": lambda p, f, at, left, n, few, room: (p, f, at, left, n + 1, few, room),
    "calls": lambda p, f, at, left, n, few, room: (p._replace(call=50 * p.call), f, at, left, n, few, room),
}


@pytest.mark.parametrize("name", SLIPS)
def test_crowds_that_wait_for_nothing_are_noticed(name, monkeypatch):
    """Planted: a token less fits, there is one more to wait, early calls take fifty times as long."""
    wrong = plain(LABELS, FRONTIER, KERNELS)
    right, slip = wrong.together, SLIPS[name]
    wrong.together = lambda *given: right(*slip(*given))
    assert any(crowded.bound != alone.bound for crowded, alone in bounds_of_crowds(wrong, monkeypatch, most=0))


def test_the_other_checker_agrees():
    """It takes what is proved; it may prove more, as it orders what is left otherwise, but no more than an optimum."""
    count = more = known = 0
    for seed in few(range(450), 30):
        tiny, objective, draw = drawn(seed), SUMS[seed // 4 % len(SUMS)], Random(seed)
        proof = random_potentials(draw, tiny).replace(labels=5000, target=None)
        bound = proof.value(tiny, objective)
        made, box = certify(tiny, objective, proof, bound), check.read_instance(json.loads(tiny.to_json()))
        assert check.verify_certificate(box, json.loads(made.to_json())) == (objective, bound)
        with suppress(check.Broken):
            check.verify_certificate(box, json.loads(made.replace(bound=str(bound + 1)).to_json()))
            more += 1
        with suppress(TooManyStates):
            above = exhaustive_optimum(tiny, objective, max_states=200)[0] + 1
            with pytest.raises(check.Broken, match="proves"):
                check.verify_certificate(box, json.loads(made.replace(bound=str(above)).to_json()))
            known += 1
        count += 1
    assert known >= 3
    assert 4 * more <= count


TWO = instance(*requests_of("A 2 2; B 1 2"), cost=(CostFunction(busy=4, tokens=1),), memory=4, host_memory=0)
"""The example of the head of potentials.py."""
ONE = Potential(compute=1, device=(1, 0), host=(1, 0))


def test_the_example():
    search = PotentialSearch(TWO, FLOW, Potentials(scale=1, potentials=(ONE,), labels=99))
    assert search.run().bound == 29 == exhaustive_optimum(TWO, FLOW)[0]
    assert search.orders.time[1] == 7
    assert search.orders.worth[1].tolist() == [7, 5]
    assert Potentials(scale=1, potentials=(), labels=99).value(TWO, FLOW) == 27


@pytest.mark.parametrize(
    "wrong",
    [
        {"compute": 0},  # a token takes no time
        {"device": (2, 0), "host": (2, 0)},
        {"host": (2, 0)},  # nothing pays for the way out
        {"host": (0, 0)},  # ... back
        {"wait": 1, "request": 1},  # more than the whole
        {"compute": 0, "wait": 1, "device": (0, 0), "host": (0, 0)},  # for whom?
        {"compute": 0, "wait": 1, "request": 2, "device": (0, 0), "host": (0, 0)},
        {"device": (1,), "host": (1,)},
    ],
)
def test_prices_beyond_what_work_and_swaps_take_are_refused(wrong):
    proof = Potentials(scale=1, potentials=(ONE, ONE.replace(**wrong)), labels=9)
    with pytest.raises(InvalidCertificate, match="potential 2 has other prices"):
        proof.value(TWO, FLOW)
    box = check.read_instance(json.loads(TWO.to_json()))
    made = certify(TWO, FLOW, proof.replace(potentials=()), 20).replace(proof=proof)
    with pytest.raises(check.Broken):
        check.verify_certificate(box, json.loads(made.to_json()))


MUTANTS = {
    "kept": lambda m: m._replace(kept=m.kept - 1),
    "gain": lambda m: m._replace(busy=m.busy + 1), "token": lambda m: m._replace(token=m.token + 1),
    "room": lambda m: m._replace(blocks=m.blocks - 1),
    "call": lambda m: m._replace(call=2 * m.call + 1), "wait": lambda m: m._replace(wait=2 * m.wait),
    "prices": lambda m: m._replace(prices=2 * m.prices), "work": lambda m: m._replace(each=2 * m.each),
    "alike": lambda m: m._replace(alike=0 * m.alike),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_labels_that_know_less_cover_too_little(name, monkeypatch):
    """Planted: batches, calls and tokens take longer, there is less room, weights and prices are double, all alike."""
    machine = potentials._machine
    monkeypatch.setattr(potentials, "_machine", lambda *given: MUTANTS[name](machine(*given)))
    with pytest.raises(AssertionError):
        test_every_schedule_is_covered_by_labels()


def test_without_numba_the_search_is_the_same(monkeypatch):
    def found():
        return [random_potentials(Random(seed), drawn(seed)).value(drawn(seed), FLOW) for seed in range(20)]

    compiled = found()
    monkeypatch.setattr(potentials, "kernels", plain(LABELS, FRONTIER, KERNELS))
    assert found() == compiled


def test_potentials_are_found_that_prove_more():
    """Three requests with calls, of which two fit, from InferCept's data."""
    real = instance(
        *requests_of(";".join(f"{id} 1973 4/{ticks}+2f 4/{ticks}+2f 4"
                              for id, ticks in (("A", 1070944), ("B", 1032031), ("C", 535990)))),
        cost=(CostFunction(busy=100000, tokens=463), CostFunction(swap_out_tokens=400, swap_in_tokens=400)),
        memory=4096, block=64, host_memory=4096, batch_tokens=4096, partial=True,
    )  # fmt: skip
    orders = finder.orders_at_potentials(real, FLOW, 10**9, inf)
    assert len(orders) == len(set(orders)) > 1
    assert [sum(batch >> i & 1 for batch in orders[0]) for i in range(3)] == [12, 12, 12]
    assert finder.orders_at_potentials(real, FLOW, 10**9, -1) == []
    assert finder.orders_at_potentials(real.replace(machine=real.machine.replace(memory=None)), FLOW, 10**9, inf) == []
    found = [each for each in propose_potentials(Task(real, FLOW)) if isinstance(each, Proposal)]
    assert found[-1].value > 1.004 * 16_402_787  # what `fresh` proved of it while it took `partial`
    search = PotentialSearch(real, FLOW, found[-1].proof)
    assert search.run().bound == found[-1].value
    walk = finder.Grid(real).walk(search.machine, next(finder.best_orders(search)))  # of all of the grid
    rows = path(search.orders.labels, int(search.orders.labels.heap[0]))[1:]
    assert [round(time) for time in walk.times] == search.orders.time[rows].tolist()


def test_a_dive_finds_orders_and_mostly_the_best_one_where_it_is_wide():
    """Each generates all tokens. The best may be left out for one that covers it, of a label with a higher bound."""
    looked, same = 0, list[bool]()
    for seed in range(30):
        given = drawn(seed)
        proof = random_potentials(Random(seed), given).replace(labels=20_000, target=None)
        search = PotentialSearch(given, FLOW, proof)
        if not search.run().is_found:
            continue
        best = search.orders.labels.bound[search.orders.labels.heap[0]]
        for width in (2, 10**6):
            search = PotentialSearch(given, FLOW, proof)
            for order in finder.dive(search, width):
                made = [sum(batch >> i & 1 for batch, _ in order) for i in range(len(given.requests))]
                assert made == [request.output for request in given.requests]
                looked += 1
            x = search.orders.labels
            ends = x.bound[: x.count[ROWS] + 1][x.is_open[: x.count[ROWS] + 1]]
            assert ends.min() >= best
            same.append(ends.min() == best)
    assert looked > 40
    assert sum(same) > 0.8 * len(same)


def test_labels_at_which_only_tokens_that_may_be_begun_are_left_have_no_prices(monkeypatch):
    """At the first label all prompts may be; the search goes on without."""
    monkeypatch.setattr(finder.Grids, "first_labels", 1)
    tiny = instance(*requests_of("A 8 1; B 8 1; C 8 1"), cost=(CostFunction(busy=3, tokens=1),), memory=10)
    best, _ = exhaustive_optimum(tiny, FLOW)
    *_, last = (each for each in propose_potentials(Task(tiny, FLOW)) if isinstance(each, Proposal))
    assert last.proof.in_order
    assert last.proof.value(tiny, FLOW) == last.value == best


def placed(seed):
    """Two or three requests on one or two places, with calls after which little returns."""
    draw, texts = Random(seed), []
    for id in "ABC"[: draw.choice([2, 3, 3])]:
        calls = [f"/{draw.choice([0, 1, 2, 7])}{draw.choice(['', '', '+1', '+2'])}p {draw.randint(1, 3)}"
                 for _ in range(draw.choice([0, 0, 1]))]  # fmt: skip
        texts.append(f"{id} {draw.choice([1, 1, 1, 3])} {draw.randint(1, 4)}" + "".join(calls))
    requests = [each.replace(arrival=draw.choice([0, 0, 0, 2]), weight=draw.choice([1, 1, 2]))
                for each in requests_of("; ".join(texts))]  # fmt: skip
    cost = CostFunction(busy=draw.choice([1, 2, 5]), tokens=draw.choice([0, 1]), divisor=draw.choice([1, 1, 2]))
    block = max(each.peak for each in requests)
    return instance(*requests, cost=(cost,), memory=draw.choice([1, 2, 2]) * block, block=block)


CUT = instance(requests_of("A 1 1/7p 1")[0].replace(weight=3), *requests_of("B 9 1"), batch_tokens=3,
               cost=(CostFunction(busy=1, tokens=1),))  # fmt: skip
"""Half of the prompt of B is processed in the call of A, and counts for nothing when A is over."""


@cache
def priced(seed):
    """An instance, its optimum and the batches of this that generate tokens, and prices in order that are proposed."""
    tiny, objective, proofs = placed(seed) if seed != 1 else CUT, SUMS[seed % len(SUMS)], {}
    best, schedule = exhaustive_optimum(tiny, objective, max_states=1000)
    trace = verify_schedule(tiny, schedule)
    batches = [[i for i, one in enumerate(trace.requests) if any(x.batch == j and x.generated for x in one.steps)]
               for j in range(len(trace.batches))]  # fmt: skip
    for each in propose_in_order(Task(tiny, objective)):
        proofs[each.proof.line, each.proof.packs, each.proof.most] = each.proof
    return tiny, objective, best, batches, [each for each in proofs.values() if each.price]


def spared(seed, kernels):
    """Yield how much more the optimum is than each label of its way says by prices in order, in the time of labels."""
    tiny, objective, best, batches, proofs = priced(seed)
    for proof in proofs:
        search = PotentialSearch(tiny, objective, Potentials(scale=1, potentials=(), in_order=(proof,), labels=1000))
        p, f, at = search.machine, search.orders, 0
        goal, second = (best * search.unit + search.before) * search.divisor, second_of(tiny, objective, proof, search)
        for made in batches:
            there = [i for i in range(len(tiny.requests)) if f.token[at, i] < p.length[i]]
            left, those = sum(1 << i for i in there), sum(1 << i for i in made if i in there)
            if not those:
                continue
            said = int(f.ends[at] + kernels.priced(p, f, at, left))
            assert said <= second(at, there) <= goal or kernels is not potential_kernels
            yield goal - said
            new = int(f.labels.count[FREE])
            potential_kernels.step(p, f, at, those, left, p.blocks * p.block)
            at = new


def second_of(tiny, objective, proof, search):
    """Return what `library/check.py` says of a label by prices in order."""
    box, f = check.read_instance(json.loads(tiny.to_json())), search.orders
    there = check.WhatIsLeft(box, [check.proof(json.loads(proof.model_dump_json()), "")], objective, search.divisor)

    def least(at, left):
        known = check.Known(0, int(f.time[at]), tuple(f.token[at].tolist()), tuple(f.ready[at].tolist()), ())
        return int(f.ends[at]) + there.least(known, left)

    return least


def test_prices_in_order_are_below_optima_from_all_labels_of_their_ways():
    """And `library/check.py` says no less, and no more than the optimum."""
    gaps = [gap for seed in few(range(240), 10) for gap in spared(seed, potential_kernels)]
    assert min(gaps) == 0
    assert gaps.count(0) >= len(gaps) / 5


def at(time, slot):
    return -(-time // slot) * slot


class Whole(int):
    """Fresh tokens of which none may be processed."""

    __hash__ = int.__hash__

    def __eq__(self, other):
        return True


WRONG = {
    "supply": ("supplied", lambda right, x, v, time: right(x, v, at(time + 1, x.slot))),
    "room": ("least_from", lambda right, x, v, i, q, time: right(x, v, i, q, at(time, x.each))),
    "slot": ("least_from", lambda right, x, v, i, q, time: right(x, v, i, q, at(time, x.slot))),
    "call": ("least_from", lambda right, x, *rest: right(x._replace(delay=x.delay + (x.delay > 0)), *rest)),
    "paid": ("least_from", lambda right, x, *rest: right(x._replace(paid=2 * x.paid), *rest)),
    "begun": None,
}


@pytest.mark.parametrize("name", WRONG)
def test_slips_in_prices_in_order_are_noticed(name, monkeypatch):
    """Planted: no supply or room in the slot of a label, no room in a last part of a unit, a token left out takes
    longer, units pay double, a token that may be partly processed has all units to do.
    """
    wrong = plain(LABELS, FRONTIER, KERNELS)
    if WRONG[name]:
        known, slip = WRONG[name]
        monkeypatch.setattr(wrong, known, partial(slip, getattr(wrong, known)))
    else:
        chain = tables.chain_of
        monkeypatch.setattr(tables, "chain_of", lambda *given: [(Whole(new), call) for new, call in chain(*given)])
    assert any(gap < 0 for seed in range(24) for gap in spared(seed, wrong))


@pytest.mark.parametrize(
    "wrong",
    [[{"price": ()}], [{}, {"line": 1}], [{}, {"scale": 2}], [{}, {"most": 2}], [{}, {"price": (1, 1)}], [{"line": 9}]],
)
def test_prices_in_order_that_differ_in_more_or_have_no_slots_or_line_are_refused(wrong):
    one = InOrder(scale=1, price=(1,))
    proof = Potentials(scale=1, potentials=(), in_order=tuple(one.replace(**more) for more in wrong), labels=9)
    with pytest.raises(InvalidCertificate, match=r"differ in more|no slots|no line"):
        proof.value(TWO, FLOW)
    box = check.read_instance(json.loads(TWO.to_json()))
    made = certify(TWO, FLOW, proof.replace(in_order=()), 1)
    with pytest.raises(check.Broken, match=r"differ in more|no slots|no such line"):
        check.verify_certificate(box, json.loads(made.replace(proof=proof).to_json()))
