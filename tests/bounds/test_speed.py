"""Prices of work over time: never above an optimum, whatever the numbers; every slip in the proof is noticed."""

import random
import sys
from functools import cache
from itertools import permutations
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

import kvbound as kv
import kvcore.certificates.speed as checker
from bounds.speed import Ascent, SpeedOptions, _division, _Needs, propose_speed
from bounds.task import Task
from kvbound.instances import load_instance
from kvcore import Cost, CostFunction, Instance, Machine
from kvcore.certificates import Alone, InvalidCertificate, PricedLine, Speed, verify_certificate
from kvcore.certificates.budget import Budget
from kvcore.certificates.certificate import rounded
from kvcore.certificates.shares import UNIT
from kvcore.certificates.speed import FINE, Cheapest, PricedWork, Tokens
from kvcore.errors import BadInput
from kvcore.metrics import SUMS
from tests.support.build import request
from tests.support.drawer import BUSY, PROFILES, draw_instance
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import ALL, few
from tests.support.optima import optima
from tests.support.random_proofs import random_speed

FLOW, LONGEST = "total-flow-time", "max-flow-time"
NEVER = float("inf")


def busy_instance(seed):
    """Up to four requests whose batches cost much, and a little for what is in them: as measured ones do."""
    return draw_instance(random.Random(seed), BUSY, f"busy-{seed}")


def busy_cases(seeds, max_states=300, objectives=SUMS):
    for seed in seeds:
        objective = objectives[seed % len(objectives)]
        try:
            optimum = exhaustive_optimum(busy_instance(seed), objective, max_states=max_states)[0]
            yield busy_instance(seed), objective, optimum
        except TooManyStates:
            continue


@cache
def all_cases(seeds, max_states=150):
    """Instances of every profile, and busy ones, with exhaustive optima."""
    drawn = [case[1:] for profile in PROFILES for case in optima(profile, seeds, list(SUMS), max_states)]
    return drawn + list(busy_cases(range(4 * seeds.start, 4 * seeds.stop), 2 * max_states))


def proofs(instance, objective, seed, count=4):
    """What is proposed, the same with errors of any size in its prices, and random numbers."""
    draw = random.Random(seed)
    *_, (best, _) = propose_speed(Task(instance, objective, NEVER))
    yield best
    yield best.replace(price=tuple(int(each * 2 * draw.random()) for each in best.price))
    half = len(best.price) // 2
    cut = tuple(line.replace(price=line.price[:half]) for line in best.lines)
    yield best.replace(price=best.price[:half], lines=cut)
    for _ in range(count):
        yield random_speed(draw, instance)


def found(cases, count=6):
    for k, (instance, objective, optimum) in enumerate(cases):
        for proof in proofs(instance, objective, k, count):
            yield instance, objective, optimum, proof, rounded(proof.value(instance, objective), objective)


@cache
def longest_cases(seeds, max_states=150):
    """The same for the largest flow time."""
    drawn = [case[1:] for profile in PROFILES for case in optima(profile, seeds, [LONGEST], max_states)]
    return drawn + list(busy_cases(range(4 * seeds.start, 4 * seeds.stop), 2 * max_states, (LONGEST,)))


def holds(proof, instance, within):
    """Whether it proves that not all requests end within so many ticks."""
    try:
        return proof.replace(within=within).value(instance, LONGEST) == within + 1
    except InvalidCertificate as reason:
        if "all requests may end within" not in str(reason):
            raise
        return False


def test_no_bound_exceeds_an_optimum():
    values = list(found(all_cases(few(range(80), 40))))
    assert [case for case in values if case[4] > case[2]] == []
    better = [case for case in values if case[4] > Alone().value(case[0], case[1])]
    assert len(better) > len(values) // 8


def test_no_bound_exceeds_a_largest_flow_time():
    """At any prices, all requests may end within the optimum; some prices prove more than each request alone."""
    better = 0
    for k, (instance, _, optimum) in enumerate(longest_cases(few(range(80), 40))):
        for proof in proofs(instance, LONGEST, k, 6):
            assert not holds(proof, instance, optimum)
            better += proof.within >= Alone().value(instance, LONGEST) and holds(proof, instance, proof.within)
    assert better > 2


def alike(n, prompt, decode, memory, *functions, every=0, together=1, **machine):
    """Requests that differ in their ids, and arrive so many together, each so many ticks."""
    requests = tuple(request(f"R{i}", prompt, decode, arrival=i // together * every) for i in range(n))
    return Instance(machine=Machine(memory=memory, **machine), cost=Cost(functions), requests=requests)


SERIAL = alike(2, 3, 1, 3, CostFunction(tokens=10))
"""Two prompts of 30 ticks, of which the memory holds one: they end at 30 and 60."""

TOGETHER = alike(2, 3, 1, 9, CostFunction(busy=30))
"""One batch for both."""
GROWING = alike(2, 1, 4, None, CostFunction(decode_kv=10))
"""Two requests with tokens of 1, 10, 20 and 30 ticks."""
EARLY_LINES = alike(2, 1, 2, None, CostFunction(busy=1), CostFunction(tokens=10, decode_requests=20))
"""Two requests with tokens of 10 and 30 ticks in one line, which end at 40 and 80; the other is a tick a batch."""
ROOF_PRICES = Speed(functions=(UNIT, 0, 0), slot=2, scale=40, price=(0,) * 40, ordered=True,
                    lines=(PricedLine(functions=(0, UNIT, 0), price=tuple(range(79, 0, -2))),))  # fmt: skip
"""In the second line alone, falling from 2 to 0: who ends at 40 pays 60 by then; who ends at 80 pays 20."""
COARSE_PRICES = ROOF_PRICES.replace(slot=6, price=(0,) * 14, cells=2, lines=(
    PricedLine(functions=(0, UNIT, 0), price=tuple(range(77, 0, -6))),))  # fmt: skip
"""The same in slots of 6."""
STEEP_PRICES = ROOF_PRICES.replace(slot=4, price=(0,) * 15, lines=(
    PricedLine(functions=(0, UNIT, 0), price=tuple(range(87, 0, -6))),))  # fmt: skip
"""Falling faster: who begins later pays less."""
HALVES = Speed(functions=(UNIT, 0), slot=30, scale=1, price=(1,), fee=UNIT, fees=((1,),))
"""Each pays half of the batch."""


SOURCE = Path(checker.__file__).read_text(encoding="utf-8")
MUTANTS = {
    "the last price goes on for ever": ("(*proof.price, 0)", "(*proof.price, (0, *proof.price)[-1])"),
    "all of the fixed part counts twice": ("2**self.bits * (UNIT - proof.shared) / UNIT", "2**self.bits"),
    "the other tokens begin too late": ("Cheapest(self.others, ready)", "Cheapest(self.others, ready + self.rest)"),
    "the first token is early enough by a slot": (
        "last = int(tick - 1) // self.slots.slot",
        "last = int(tick - 1) // self.slots.slot - 1",
    ),
    "the slot of the first token ends too early": ("self._ticks(last, tick))", "1)"),
    "the last slot counts whole": ("self.takes(max(end * slot, ready))", "self.takes(max(end * slot + slot, ready))"),
    "time in the last slot counts twice": ("rate * piece.ticks + price", "2 * rate * piece.ticks + price"),
    "work in the last slot counts twice": ("+ price * piece.mean", "+ 2 * price * piece.mean"),
    "the dearest token for all": ("= int(np.minimum(work, each).sum()) * FINE // each if", "= FINE * len(work) if"),
    "tangents above the curve": ("(UNIT - row.fee) * ratio**2)", "(UNIT - row.fee) * ratio**3 // ONE)"),
    "pieces end too early": ("ticks = row.fixed * (", "ticks = 9 * row.fixed * ("),
    "too little room": ("ticks * FINE <<", "ticks * FINE // 2 <<"),
    "no batch is that slow": ("row.fixed + work, *", "2 * row.fixed + work, *"),
    "alone takes a tick more": ("self.takes(self.begin + self.rest)", "self.takes(self.begin + self.rest + 1)"),
    "fees add up to more": ("* each // sums[slot]", "* each // max(row)"),
    "fees of those alike count once": ("+= len(same) * each", "+= each"),
    "fees besides all that is paid by speed": ("+ (UNIT - row.fee) * ratio", "+ UNIT * ratio"),
    "slots a tick too short": ("Fraction(self.slot * prices", "Fraction((self.slot - 1) * prices"),
    "prices of other lines are free": ("self.price) + sum(sum(line.price) for line in self.lines)", "self.price)"),
    "first tokens pay twice in a line": ("int(row.work[first]), {})", "2 * int(row.work[first]), {})"),
    "other tokens pay twice in a line": ("(other.prices, ONE**2", "(other.prices, 2 * ONE**2"),
    "too early ends are none": ("close < ready + self.rest", "close < ready + 2 * self.rest"),
    "the first token comes a slot early": ("math.inf if last else close", "math.inf if last else close - slot"),
    "the others begin a slot after the first": ("turn * slot + slot * cell", "turn * slot + slot + slot * cell"),
    "the others begin a cell after the first": ("slot + slot * cell //", "slot + slot * (cell + 1) //"),
    "the first token comes a cell early": ("(-slot * (cell + 1)", "(-slot * cell"),
    "others that begin later pay twice": ("max(self.known[end], int(paid))", "9 * int(paid)"),
    "pieces that are needed are forgotten": ("self.pieces[-1][1] >= self.need", "self.pieces[-1][1] >= self.need // 2"),
    "dear pieces stay where the last slot is cheaper": ("while more and place >= 0 and", "while False and"),
}


def mutant(name, monkeypatch, mutants=MUTANTS):
    """Return the checker with one thing wrong."""
    old, new = mutants[name]
    assert SOURCE.count(old) == 1, old
    module = ModuleType("mutant_of_speed")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(SOURCE.replace(old, new), checker.__file__, "exec"), module.__dict__)
    return module.Speed


EARLY = alike(2, 1, 2, None, CostFunction(tokens=10, decode_requests=20))
"""Two requests with tokens of 10 and 30 ticks."""
LONGEST_KNOWN = [
    (SERIAL, 60, Speed(functions=(UNIT, 0), slot=30, scale=8, price=(9, 8))),
    (SERIAL, 60, Speed(functions=(UNIT, 0), slot=30, scale=8, price=(8, 8))),
    (EARLY, 80, Speed(functions=(UNIT, 0), slot=10, scale=1, price=(2, *(1,) * 7))),
]
"""With optima: there is as much room as work, or little more."""
LONGEST_MUTANTS = {
    "due a slot early": ("else due\n", "else due - slots.slot\n"),
    "due at half of the time": ("+ slots.proof.within", "+ slots.proof.within // 2"),
    "prices that are just met": ("if above <= 0:", "if above < 0:"),
    "a tick of the last slot": ("else others.by(self.due)", "else others.by(self.stop * slot + 1)"),
    "the first token at once": ("self.due) - self.after", "self.due) - (self.due - self.begin)"),
}


@pytest.mark.parametrize("name", LONGEST_MUTANTS)
def test_a_planted_error_in_due_times_is_noticed(name, monkeypatch):
    wrong = mutant(name, monkeypatch, LONGEST_MUTANTS)
    assert not any(holds(proof, instance, optimum) for instance, optimum, proof in LONGEST_KNOWN)
    assert any(holds(wrong.model_validate(proof.model_dump()), instance, optimum)
               for instance, optimum, proof in LONGEST_KNOWN)  # fmt: skip


NOTICING = (7, 31, 55, 56)
"""Places of drawn cases of which some proof notices each error; `make test-all` looks at all of them."""


@cache
def known_proofs():
    coarse = Speed(functions=(UNIT, 0), slot=60, scale=1, price=(1,))
    drawn = [(k, case) for k, case in enumerate(all_cases(range(8))) if ALL or k in NOTICING]
    made = [(SERIAL, FLOW, 90, coarse), (TOGETHER, FLOW, 60, HALVES), (EARLY_LINES, FLOW, 120, ROOF_PRICES)]
    made += [(EARLY_LINES, FLOW, 120, prices) for prices in (COARSE_PRICES, STEEP_PRICES)]
    return made + [(*case, proof) for k, case in drawn for proof in proofs(*case[:2], k, 16)]


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_error_is_noticed(name, monkeypatch):
    wrong = mutant(name, monkeypatch)
    for instance, objective, optimum, proof in known_proofs():
        if rounded(wrong.model_validate(proof.model_dump()).value(instance, objective), objective) > optimum:
            return
    pytest.fail("every bound is below the optimum")


def test_requests_one_after_another_are_exact():
    """At a price of 1 until 30, who ends by then pays 30, and the other waits: 60 + 60 - 30."""
    proof = Speed(functions=(UNIT, 0), slot=30, scale=8, price=(8,))
    assert proof.value(SERIAL, FLOW) == pytest.approx(90, abs=1e-3)
    assert kv.bound(SERIAL, FLOW, method="speed").bound == 90 == exhaustive_optimum(SERIAL, FLOW)[0]


def test_prices_of_a_second_line_count():
    """Both take and pay 100, of which 80 are taken off in all, but for the slots in which first tokens end."""
    values = [ROOF_PRICES.replace(cells=cells).value(EARLY_LINES, FLOW) for cells in (1, 2)]
    assert 118 < values[0] < values[1] <= 120 == exhaustive_optimum(EARLY_LINES, FLOW)[0]
    assert ROOF_PRICES.replace(lines=()).value(EARLY_LINES, FLOW) == 80
    with pytest.raises(InvalidCertificate, match="a line has prices in more than 3 slots"):
        ROOF_PRICES.replace(price=(0,) * 3).value(EARLY_LINES, FLOW)
    with pytest.raises(InvalidCertificate, match="there are 3 lines, not 1"):
        ROOF_PRICES.replace(lines=(PricedLine(functions=(UNIT,)),)).value(EARLY_LINES, FLOW)


def test_the_last_of_two_waits():
    """Within 59 ticks there is room for 59 of 60 ticks of work."""
    proof = Speed(functions=(UNIT, 0), slot=59, scale=8, price=(8,), within=59)
    assert proof.value(SERIAL, LONGEST) == 60 == exhaustive_optimum(SERIAL, LONGEST)[0]
    with pytest.raises(InvalidCertificate, match="all requests may end within 60 ticks"):
        proof.replace(slot=60, within=60).value(SERIAL, LONGEST)
    rung = kv.bound(SERIAL, LONGEST, method="speed")
    assert 55 < verify_certificate(SERIAL, rung.certificate) == rung.bound <= 60


@pytest.mark.parametrize(("n", "prompt", "decode", "cost", "least"), [
    (12, 8, 8, CostFunction(busy=100, tokens=5, decode_requests=3), 1850),
    (20, 2, 30, CostFunction(busy=200, tokens=2, decode_requests=1), 7600),
])  # fmt: skip
def test_first_prices_that_end_too_early_are_prolonged(n, prompt, decode, cost, least):
    """What batches cost besides their work is no part of first prices, which end with the work."""
    instance = alike(n, prompt, decode, None, cost)
    for passes in (4, 8, 16):
        with mock.patch.object(SpeedOptions, "passes", passes):
            found = list(propose_speed(Task(instance, LONGEST, NEVER, None, NEVER)))[-1]
        assert least < found.proof.value(instance, LONGEST) <= n * decode * 400


def test_halves_of_a_batch_are_exact():
    """Each pays 15 for it, and ends at 30: 45 + 45 - 30."""
    assert HALVES.value(TOGETHER, FLOW) == 60 == exhaustive_optimum(TOGETHER, FLOW)[0]
    assert HALVES.replace(fees=()).value(TOGETHER, FLOW) == 30


def test_the_heaviest_tokens_grow_in_the_cheapest_slots():
    """One token of 10 ticks fits into each slot: by the end of a slot, the best of all orders of the tokens."""
    prices, excess = (7, 3, 9, 2, 5), (40, 20, 10)
    slots = PricedWork(GROWING, Speed(functions=(UNIT, 0), slot=10, scale=1, price=prices), FLOW, Budget())
    heaviest = [sum(excess[:k]) << slots.bits for k in range(4)]
    for end in range(2, 5):
        tokens = Tokens(slots, slots.rows[0], 3 * FINE, 10 << slots.bits, {})
        orders = permutations(prices[: end + 1], 3)
        least = min(sum(price * more for price, more in zip(order, excess, strict=True)) for order in orders)
        assert Cheapest(tokens, 0).beyond(end, heaviest) == least * slots.unit
    assert Cheapest(tokens, 0).beyond(len(prices), heaviest) == 0


def test_a_small_batch_pays_more():
    """Each of two tokens has work 1 in a batch of 4 + 1 ticks, for which it pays 5; without tangents, 1."""
    instance = alike(1, 1, 2, 9, CostFunction(busy=4, tokens=1))
    plain = Speed(functions=(UNIT, 0), slot=10, scale=1, price=(1,))
    assert plain.value(instance, FLOW) == 1
    assert plain.replace(ratios=(80, 128, 320)).value(instance, FLOW) > 2.8


BAD = {
    "speed is not proved with makespan": ("makespan", {}),
    "the ratios must increase": (FLOW, {"ratios": (70, 70)}),
    "there are 2 lines, not 1": (FLOW, {"functions": (UNIT,)}),
    "add up to more than 1024": (FLOW, {"memory": UNIT, "tokens": 1}),
    "cannot be shared by requests": (FLOW, {"requests": 1}),
    "there are fees of 2 groups of requests, not of 1": (FLOW, {"fees": ((1,), (1,))}),
}


@pytest.mark.parametrize("text", BAD)
def test_a_proof_that_does_not_hold_is_refused(text):
    objective, changes = BAD[text]
    with pytest.raises(InvalidCertificate, match=text):
        Speed(functions=(UNIT, 0), slot=1, scale=1, price=(1,)).replace(**changes).value(SERIAL, objective)


def test_memory_without_a_limit_shares_nothing():
    free = SERIAL.replace(machine=Machine(memory=None))
    with pytest.raises(InvalidCertificate, match="without a limit on blocks cannot be shared by blocks"):
        Speed(functions=(UNIT, 0), memory=UNIT, slot=1, scale=1, price=()).value(free, FLOW)
    rung = kv.bound(free, FLOW, method="speed")
    assert rung.certificate.proof.memory == 0
    assert verify_certificate(free, rung.certificate) == rung.bound > 0


def test_one_huge_price_proves_little_and_nothing_false():
    huge = Speed(functions=(UNIT, 0), memory=UNIT, slot=7, scale=1, price=(0, 2**50, 0))
    assert huge.value(SERIAL, FLOW) < 0


def test_other_objectives_are_declined():
    with pytest.raises(BadInput, match=r"^speed is not proved with makespan$"):
        kv.bound(SERIAL, "makespan", method="speed")


@pytest.mark.slow
def test_crowds_are_bounded_better_than_by_shares():
    """Batches are neither full nor hold one request: shares count them as one or the other."""
    late = alike(60, 3, 9, None, CostFunction(busy=40, tokens=8), every=30)
    speed, shares = (kv.bound(late, FLOW, method=method, time_limit=NEVER).bound for method in ("speed", "shares"))
    assert speed > 1.1 * shares


@pytest.mark.parametrize("n", [1, 12])
def test_prices_rise_with_the_order_that_is_checked(n):
    """What is followed in floating point is what the checker proves, but for the speed of first tokens."""
    late = alike(n, 1, 7, 99, CostFunction(busy=40, tokens=8), every=30)
    prices = Ascent(_division((UNIT, 0), 0), _Needs(Task(late, FLOW, NEVER)), 1.2)
    prices.rise(20, NEVER)
    before = prices.value
    prices.refine(NEVER)
    assert prices.value >= before
    prices.rise(20, NEVER)
    assert prices.proof(NEVER).ordered
    assert 0.97 < prices.value / float(prices.proof(NEVER).value(late, FLOW)) < 1 + 1e-4


def test_first_tokens_have_slots_short_enough_to_wait_in():
    """Pairs of prompts of 30 ticks, a pair every 100: 30 and 60 ticks."""
    pairs = alike(40, 3, 1, 3, CostFunction(tokens=10), every=100, together=2)
    rung = kv.bound(pairs, "total-ttft", method="speed", time_limit=NEVER)
    assert 0.97 * 20 * 90 < rung.bound <= 20 * 90


def test_waits_of_short_bursts_are_seen_in_a_long_time():
    """A burst of four every 100,000 ticks, each with a prefill of 1,000: 1, 2, 3 and 4 times as long, then a decode."""
    bursts = alike(20, 100, 1, 999, CostFunction(tokens=10), every=10**5, together=4)
    rung = kv.bound(bursts, FLOW, method="speed", time_limit=NEVER)
    assert 0.95 * 5 * 10_000 < rung.bound <= 5 * 10_000


def test_first_prices_too_high_are_no_reason_for_a_line_without_work():
    pair = alike(2, 4, 6, 999, CostFunction(busy=100, any_prefill=40, tokens=20))
    rung = kv.bound(pair, FLOW, method="speed", time_limit=NEVER)
    assert rung.bound > 1.05 * Alone().value(pair, FLOW)


def test_halved_slots_prove_no_less(monkeypatch):
    """Where the order would take too long to check, they are what is left to gain."""
    late = alike(12, 1, 7, 99, CostFunction(busy=40, tokens=8), every=30)
    monkeypatch.setattr(SpeedOptions, "ordered_pairs", 0)
    prices = Ascent(_division((UNIT, 0), 0), _Needs(Task(late, FLOW, NEVER)), 1.2)
    prices.rise(20, NEVER)
    before, slots = prices.proof(NEVER), prices.slots
    prices.refine(NEVER)
    prices.rise(20, NEVER)
    after = prices.proof(NEVER)
    assert not after.ordered
    assert len(after.price) == 2 * slots
    assert after.value(late, FLOW) > before.value(late, FLOW)


def test_light_load_pays_for_speed():
    """A batch of one takes 100 times the work in it: lines of no work, and tangents at a few times, prove no delay."""
    late = alike(24, 1, 8, 99, CostFunction(busy=100, tokens=1), CostFunction(swap_out_tokens=1), every=100)
    rung = kv.bound(late, FLOW, method="speed", time_limit=NEVER)
    assert rung.bound > 1.01 * Alone().value(late, FLOW)


def test_slots_that_are_passed_by_are_counted_first():
    """Each turn passes all slots by: 300 of 64 pieces took seconds that nobody had counted."""
    instance = alike(1, 5, 200, 10**9, CostFunction(busy=100, tokens=1, divisor=100), batch_requests=4)
    proof = Speed(
        functions=(1024, 0), requests=512, slot=1, scale=1, price=tuple(range(300, 0, -1)),
        ratios=tuple(range(65, 128)), ordered=True, within=298,
    )  # fmt: skip
    with pytest.raises(InvalidCertificate, match="prices of work would take too long to check"):
        proof.prove(instance, "max-flow-time", Budget(3_020_000_000))


def test_growing_contexts_pay_by_a_level():
    """Between the least and the most work of a token: 282 s with the least, and more prices gain nothing there."""
    rung = kv.bound(load_instance("equal-I128-O1024"), FLOW, method="speed", time_limit=NEVER)
    assert rung.certificate.proof.level
    assert rung.bound >= 286_000_000_000
