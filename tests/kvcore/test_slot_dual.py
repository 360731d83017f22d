"""Prices of slots prove no more than the optimum, whatever they are, and both checkers find the same."""

import json
import random
from itertools import product

import numpy as np
import pytest

from kvcore.certificates import Branch, InvalidCertificate, SlotDual, SlotPrices, certify, slot_dual
from kvcore.certificates.budget import Bytes, Most
from kvcore.certificates.slot_dual import PricedRequests
from kvcore.instance import Instance, Machine, Request, Segment
from kvcore.metrics import SUMS
from library import check
from tests.kvcore.test_planted_errors import LOCAL, after, asked, survivors
from tests.support.drawer import PROFILES, tiny_instance
from tests.support.exhaustive import exhaustive_optimum
from tests.support.random_proofs import random_dual
from workloads.builtin import builtin_instance

MARS = builtin_instance("mars-figure1")
FLOW = "total-flow-time"
NO_PRICES, BRANCH = SlotPrices(), Branch(request="R1", segment=0, slot=5)


def drawn(seed):
    profile = [*PROFILES.values()][seed % len(PROFILES)]
    return tiny_instance(seed, **profile | {"cost": "unit"}), SUMS[seed // len(PROFILES) % len(SUMS)]


def theirs(instance, objective, proof):
    """Return what `library/check.py` finds that the proof gives."""
    check.spent[0] = 0
    made = certify(instance, objective, proof)
    read, document = check.read_instance(json.loads(instance.to_json())), json.loads(made.to_json())
    assert check.verify_certificate(read, document)[0] == objective
    return check.slot_dual(read, check.proof(document["proof"], "proof"), objective)


def test_two_requests_by_hand():
    """Memory for one of two requests of a token; with price 1 in slot 0 each pays 2: the sum is 2 + 2 - 1."""
    one = Request(id="A", prompt=1, segments=(Segment(decode=1),))
    instance = Instance(machine=Machine(memory=1), requests=(one, one.replace(id="B")))
    proof = SlotDual(scale=1, prices=SlotPrices(device=(1,)))
    assert proof.value(instance, FLOW) == theirs(instance, FLOW, proof) == 3
    late = instance.replace(requests=(one.replace(arrival=7), one.replace(id="B", arrival=9)))
    assert proof.value(late, FLOW) == theirs(late, FLOW, proof) == 2


def test_cases_by_hand():
    """As above: A has ended by slot 0, and at the price pays 2, as B does; or has not, and takes 2, and B 1."""
    one = Request(id="A", prompt=1, segments=(Segment(decode=1),))
    instance = Instance(machine=Machine(memory=1), requests=(one, one.replace(id="B")))
    branch, priced = Branch(request="A", segment=0, slot=0), SlotPrices(device=(1,))
    for prices, bound in (((branch, priced, NO_PRICES), 3), ((branch, NO_PRICES, priced), 2), ((NO_PRICES,), 2)):
        proof = SlotDual(scale=1, prices=prices)
        assert proof.value(instance, FLOW) == theirs(instance, FLOW, proof) == bound


def test_a_case_in_which_a_request_cannot_be_counts_not():
    """Alone, R1 of Figure 1 ends its segments in slots 4 and 7."""
    alone = MARS.replace(requests=MARS.requests[:1])
    for segment, slot, least in ((0, 3, 8), (0, 5, 8), (1, 6, 8), (1, 30, 8), (2, 30, 8)):
        proof = SlotDual(scale=1, prices=(BRANCH.replace(segment=segment, slot=slot), NO_PRICES, NO_PRICES))
        assert proof.value(alone, FLOW) == theirs(alone, FLOW, proof) == least


@pytest.mark.parametrize(("evict", "flow"), [(False, 5), (True, 4)])
def test_prices_of_an_eviction_by_hand(evict, flow):
    """Three tokens, and a slot 1 in which a block costs 9: who evicts there ends in slot 3, who does not, in slot 4."""
    request = Request(id="A", prompt=2, segments=(Segment(decode=3),))
    machine = Machine(memory=4, host_memory=0, evict=evict)
    instance = Instance(machine=machine, requests=(request, request.replace(id="B")))
    proof = SlotDual(scale=1, prices=SlotPrices(device=(0, 9)))
    assert proof.value(instance, FLOW) == theirs(instance, FLOW, proof) == 2 * flow - 9 * 4


def test_a_state_is_merged_into_one_that_stands():
    """Without `pause`, a as good as b and b as good as c, both ways, leave a and c apart where c holds less."""
    question = next(each for each in asked() if each.seed == 34)
    proof = SlotDual(scale=3, prices=SlotPrices())
    merged = PricedRequests(question.instance, question.objective).local.merged
    assert (merged[merged] == merged).all()
    assert proof.value(question.instance, question.objective) == theirs(question.instance, question.objective, proof)


@pytest.mark.parametrize("rows", [1, 3000])
def test_values_are_found_in_pieces(monkeypatch, rows):
    whole = {}
    for seed, bytes_ in product(range(20), (Bytes.rows, rows)):
        monkeypatch.setattr(Bytes, "rows", bytes_)
        instance, objective = drawn(seed)
        bound = random_dual(random.Random(seed), instance, objective).value(instance, objective)
        assert whole.setdefault(seed, bound) == bound


def test_many_requests_that_are_alike_share_a_graph():
    crowd = MARS.replace(requests=tuple(MARS.requests[0].replace(id=str(i), arrival=i % 7) for i in range(500)))
    requests = PricedRequests(crowd, FLOW)
    assert len(requests.local.start) == 1
    assert len(requests.counts) == 7
    proof = SlotDual(scale=2, prices=SlotPrices(device=(3,) * 20))
    assert proof.value(crowd, FLOW) == theirs(crowd, FLOW, proof)


@pytest.mark.parametrize(
    ("proof", "message"),
    [
        (SlotDual(scale=1, prices=SlotPrices(since=1)), "the prices must be of use from the first slot on"),
        (SlotDual(scale=1, prices=SlotPrices(host=(1,))), "there are prices of what has no limit"),
        (SlotDual(scale=1, prices=SlotPrices(device=(2**50,) * 2000)), "sums could exceed 64 bits"),
        (SlotDual(scale=1, prices=(BRANCH, NO_PRICES)), "a case has no prices"),
        (SlotDual(scale=1, prices=()), "a case has no prices"),
        (SlotDual(scale=1, prices=(NO_PRICES, NO_PRICES)), "there are prices of no case"),
        (
            SlotDual(scale=1, prices=(BRANCH.replace(request="nobody"), NO_PRICES, NO_PRICES)),
            "there is no request nobody",
        ),
        (SlotDual(scale=1, prices=(*(BRANCH,) * (Most.nodes - 1), NO_PRICES)), "its cases would take too long"),
    ],
)
def test_what_is_no_proof(proof, message):
    with pytest.raises(InvalidCertificate, match=message):
        proof.value(MARS.replace(machine=MARS.machine.replace(host_memory=None)), FLOW)


def test_a_limit_that_cannot_bind_counts_where_it_is_priced():
    roomy = MARS.replace(machine=MARS.machine.replace(memory=99, host_memory=99))
    proof = SlotDual(scale=1, prices=SlotPrices(device=(1, 2), host=(0, 1), tokens=(1,)))
    assert proof.value(roomy, FLOW) == theirs(roomy, FLOW, proof)


@pytest.mark.parametrize(("objective", "message"), [("makespan", "makespan"), ("p99-ttft", "percentiles")])
def test_objectives_that_are_no_sums_are_declined(objective, message):
    with pytest.raises(InvalidCertificate, match=f"slot-dual is not proved with {message}"):
        SlotDual(scale=1, prices=SlotPrices()).value(MARS, objective)


def test_the_options_of_a_huge_request_are_counted_before_they_are_looked_at():
    huge = Instance(
        machine=Machine(memory=10**9), requests=(Request(id="A", prompt=10**8, segments=(Segment(decode=1),)),)
    )
    with pytest.raises(InvalidCertificate, match="requests have too many options"):
        SlotDual(scale=1, prices=SlotPrices(device=(1,))).value(huge, FLOW)


# --- planted errors ---------------------------------------------------------------------------------------------------


def proves_wrongly(question):
    """Whether random prices prove more than the optimum, or not what `library/check.py` finds."""
    instance, objective, optimum = question
    for seed in range(4):
        try:
            proof = random_dual(random.Random(seed), instance, objective)
            bound = proof.value(instance, objective)
            if bound > optimum or theirs(instance, objective, proof) != bound:
                return True
        except (InvalidCertificate, check.Broken):
            return True
    return False


def known(**change):
    """Return what changes what is known of requests in each case: fields of its branch, by whether it has ended."""

    def changed(each):
        update = {name: getattr(each.branch, name) + by[each.first] for name, by in change.items()}
        return each._replace(branch=each.branch.model_copy(update=update))

    return lambda cases, *_: ((prices, tuple(map(changed, those))) for prices, those in cases)


MUTANTS = LOCAL | {
    "the supply is forgotten": after(PricedRequests, "_supply", lambda supply, *_: 0),
    "a slot of the supply is forgotten": after(
        PricedRequests, "_supply",
        lambda supply, self, prices: supply - int(np.maximum(self.graphs.limits, 0) @ prices[:, 0])),
    "values": after(slot_dual, "values", lambda values, *_: values + 1),
    "time after the last slot": after(slot_dual, "after", lambda last, *_: last + 1),
    **{name: after(slot_dual, "cases_of", change) for name, change in {
        "the last case is forgotten": lambda cases, *_: [*cases][:1],
        "a slot between the cases": known(slot=(1, 0)),
        "a slot less in the first case": known(slot=(0, -1)),
        "a later segment": known(segment=(0, 1)),
    }.items()},
    "a kind counts one more": after(slot_dual, "Counter", lambda counts, *_: counts + type(counts)([min(counts)])),
    "a kind counts once": after(slot_dual, "Counter", lambda counts, *_: type(counts)([*counts])),
    "all arrive at once": after(
        slot_dual, "Counter", lambda counts, *_: type(counts)({(start, 0): n for (start, _), n in counts.items()})),
}  # fmt: skip


def test_planted_errors_are_caught(monkeypatch):
    """The last two are asked of limits that seldom bind."""
    questions = [(each.instance, each.objective, each.optimum) for each in asked()
                 if SlotDual.takes.why_not("slot-dual", each.instance, each.objective) is None]  # fmt: skip
    some = tuple(Request(id=name, prompt=3, segments=(Segment(decode=2),)) for name in "ABC")
    for limits in ({"prefill_tokens": 2}, {"batch_requests": 1}):
        instance = Instance(machine=Machine(memory=99, **limits), requests=some)
        questions.append((instance, FLOW, exhaustive_optimum(instance, FLOW)[0]))
    assert survivors(MUTANTS, proves_wrongly, monkeypatch, questions[::-1]) == []
