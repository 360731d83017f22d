"""InferCept's policies: equations and budgets worked by hand, and what the paper says of them."""

from fractions import Fraction

import pytest

from costmodels import GPT_J_6B, get_cost
from heuristics import get_policy, run_policy, trace_policy
from heuristics.policies.infercept import InferceptProfiled, forward, hidden
from heuristics.policies.infercept_as_released import InferceptAsReleased
from heuristics.registry import FAMILIES
from kvcore import Cost, CostFunction, Features, Instance, Machine, measures
from kvcore.metrics import completions, handlings
from tests.heuristics.test_compression import serving
from tests.support.build import request
from tests.support.few import ALL, few
from workloads.generators import generate

WORK = {"busy": 4, "tokens": 1}
BESIDE = Cost((CostFunction(**WORK), CostFunction(swap_out_tokens=2, swap_in_tokens=2)))


def free(id, prompt, decode, duration, *more, returns=0, arrival=0):
    """A request that decodes, calls, and decodes `more` (or 1)."""
    return request(id, prompt, (decode, duration, returns, "free"), *(more or (1,)), arrival=arrival)


def instance(*requests, cost=BESIDE, **machine):
    """Eight tokens a batch (the saturation point), no host, and all that a scheduler may do, unless given."""
    given = {"memory": None, "host_memory": 0, "batch_tokens": 8, "evict": True, "partial": True} | machine
    return Instance(machine=Machine(**given), cost=cost, requests=requests)


def batches(name, of):
    return trace_policy(of, get_policy(name)).expanded().batches


def two(duration, **more):
    """A's call starts at 24, at 10 tokens, as B, of 6, has its first token.

    A's prompt of 10 takes a batch of 8, of F(8) = 12 ticks, and 2 in the next; B's prompt of 6 is beside them: 24.
    """
    return instance(free("A", 10, 1, duration), request("B", 6, 60), **more)


# --- the wastes, equations (2), (4), (5) -----------------------------------------------------------------------------
def test_the_profile_is_the_mean_of_the_calls_that_have_returned():
    """chat-1 calls for 40 ticks, as A above. The call of the second, of as many tokens, starts at 110.

    B has 6 tokens and 13 more then: discard wastes 120 + 14 * 19 = 386, less than 10 * 40. Of math nothing is known:
    10 * 5 k exceeds 120 + 14 (19 + k) from k = 11 on, and the call lasts 26 ticks.
    """

    def second(id):
        policy = InferceptProfiled()
        of = instance(free("chat-1", 10, 1, 40), request("B", 6, 60), free(id, 10, 1, 26, arrival=90))
        run = trace_policy(of, policy).expanded().batches
        return [b.start for b in run if id in b.drop], policy.profile

    assert second("chat-2") == ([110], {"chat": (2, 40 + 30)})  # its end at 136 is seen at 140
    assert second("math-2") == ([], {"chat": (1, 40), "math": (1, 30)})


def test_what_it_believes_of_calls_decides():
    """A call of 21 that is believed to last 20 is preserved."""
    true, believed = two(21), two(20)
    assert any(batch.drop for batch in run_policy(true, get_policy("infercept")).batches)
    assert not any(batch.drop for batch in run_policy(true, get_policy("infercept"), predictions=believed).batches)


# --- swaps within the budget, Section 4.1 ----------------------------------------------------------------------------
def test_as_many_tokens_are_swapped_as_the_batch_hides():
    """B's decode takes 5 ticks, which hide 2 tokens of 2 ticks: A's 10 take five batches out, and five back."""
    of = two(60, host_memory=None)
    trace = trace_policy(of, get_policy("infercept"))
    run = trace.expanded().batches
    assert [(b.start, b.swap_out) for b in run if b.swap_out] == [(24 + 5 * k, {"A": 2}) for k in range(5)]
    back = [b for b in run if b.swap_in]  # the call ends at 84, a boundary
    assert [b.start for b in back] == [84 + 5 * k for k in range(5)]
    assert [b.swap_in for b in back] == [{"A": 2}] * 5
    assert [b.work for b in back] == [{"B": 1}] * 4 + [{"B": 1, "A": 1}]  # it works in the batch that completes it
    assert handlings(trace) == {"A/1": "swap"}
    assert all(b.duration == 4 + b.features.tokens for b in trace.batches)  # no transfer was waited for


def test_the_limit_of_the_6b_model():
    """A full batch takes 10 + 384 * 0.0463 = 27.78 ms, in which 694 tokens of 0.04 ms move; one decode: 251."""
    cost = get_cost("infercept-6b").make()
    assert hidden(cost, forward(384, 50)) == 694
    assert hidden(cost, forward(1, 1)) == 251
    assert hidden(get_cost("infercept-6b-sync").make(), forward(384, 50)) == 0
    assert forward(8, 3) == Features(
        busy=1, any_decode=1, any_prefill=1, tokens=8, generated=3, decode_requests=3, prefill_requests=1
    )


# --- the steps of Section 5.2 ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(("id", "handling"), [("chat-1", "discard"), ("ve-1", "preserve"), ("x", "preserve")])
def test_long_running_types_discard(id, handling):
    of = instance(free(id, 10, 1, 5), request("B", 6, 60))
    assert handlings(trace_policy(of, get_policy("infercept-heuristic"))) == {f"{id}/1": handling}


# --- as released -----------------------------------------------------------------------------------------------------
def test_the_released_budgets():
    """6B: 0.00462 * 384 + 108.99 = 110.76 tokens come back for nothing, 494.76 go out."""
    policy = InferceptAsReleased()
    assert (round(float(policy.base_in), 2), round(float(policy.base_out), 2)) == (110.76, 494.76)


# --- what the paper says of them -------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def mixture():
    model, minutes = get_cost("infercept-6b"), Fraction(3 if ALL else 1)
    arrivals = {"rate": Fraction(3), "minutes": minutes, "seed": 1}
    return generate("infercept", **arrivals, machine=GPT_J_6B, cost=model.make(), tick=model.tick)


@pytest.mark.slow
def test_infercept_wastes_least(mixture):
    """InferCept has less of the memory wasted than each of what it is compared with (Sections 5.1 and 5.2)."""
    waste = {
        name: measures(trace_policy(mixture, get_policy(name)))["waste"]["total"]
        for name in ("vllm", "improved-discard", "preserve", "swap", "infercept", "infercept-elapsed")
    }
    assert max(waste["infercept"], waste["infercept-elapsed"]) * 5 < min(
        waste[name] for name in ("vllm", "improved-discard", "preserve", "swap")
    )


def test_no_work_waits_for_a_swap_of_infercept(mixture):
    """Swaps are hidden (Section 4.1): a batch with work lasts as long as without its moves."""
    trace = trace_policy(mixture, get_policy("infercept"))
    work = mixture.cost.functions[0]
    busy = [b for b in trace.batches if b.features.busy]
    assert sum(b.features.swap_out_tokens + b.features.swap_in_tokens > 0 for b in busy) > (1000 if ALL else 200)
    assert all(b.duration == -(-work.value(b.features) // work.divisor) for b in busy)


@pytest.mark.parametrize("name", [policy.name for policy in FAMILIES["InferCept"]])
def test_each_runs_where_types_differ_and_predictions_are_wrong(name):
    """The instances of the tests of repetition, with the types of the mixture and calls believed twice as long."""
    for seed in few(range(25)):
        of = serving(seed)
        typed = tuple(r.replace(id=r.id.replace("a-", "chat-").replace("b-", "math-")) for r in of.requests)
        of = of.replace(requests=typed)
        believed = of.with_calls(lambda call: call.replace(duration=2 * call.duration))
        trace = trace_policy(of, get_policy(name), predictions=believed)
        assert len(completions(trace)) == len(typed)
