"""The on-time rule, by hand."""

import random

import pytest

from heuristics import get_policy, trace_policy
from kvcore import CostFunction
from kvcore.instance import Slo
from kvcore.metrics import objective_value
from tests.support.build import instance, request
from tests.support.few import few
from tests.support.served import work

TICKS = (CostFunction(tokens=1),)


def served(name, *requests, memory=99, cost=TICKS, **machine):
    """Return the trace of requests (arrival, prompt, decode, slo, and perhaps weight); a token takes a tick."""
    made = (
        request(f"R{i}", prompt, decode, arrival=arrival, slo=Slo(**slo), weight=weight[0] if weight else 1)
        for i, (arrival, prompt, decode, slo, *weight) in enumerate(requests)
    )
    return trace_policy(
        instance(*made, cost=cost, memory=memory, host_memory=0, evict=True, **machine), get_policy(name)
    )


def late(trace):
    return objective_value(trace, "late-requests")


def test_first_tokens_go_by_due_time_and_the_longest_is_set_aside():
    """3 + 4 + 5 ticks do not end by 8; without the 4 of R1 the others do. Each has a batch of its own."""
    requests = [(0, 5, 1, {"ttft": 8}), (0, 4, 1, {"ttft": 7}), (0, 3, 1, {"ttft": 3})]
    trace = served("on-time", *requests, batch_requests=1)
    assert work(trace) == [{"R2": 3}, {"R1": 4}, {"R0": 5}]
    assert late(trace) == 1


def test_a_weight_keeps_a_long_one():
    """Set aside is the longest for its weight: R1, not R0."""
    requests = [(0, 5, 1, {"ttft": 8}, 9), (0, 4, 1, {"ttft": 7}), (0, 3, 1, {"ttft": 3})]
    assert work(served("on-time", *requests, batch_requests=1)) == [{"R2": 3}, {"R0": 5}, {"R1": 4}]


def test_late_requests_work_when_nothing_is_on_time():
    """R0 is late even alone; R1 comes while it has not begun, and decodes alone."""
    trace = served("on-time", (0, 9, 3, {"ttft": 5}), (0, 2, 3, {"ttft": 5}), batch_tokens=4)
    assert work(trace)[:3] == [{"R1": 2}, {"R1": 1}, {"R1": 1}]
    assert late(trace) == 1


def test_prefill_leaves_the_decodes_their_time():
    """R0 has 32 ticks for 8 tokens. The others take a tick each, so a batch may last 25 ticks, less what is rounded."""
    trace = served("on-time", (0, 1, 9, {"tpot": 4}), (1, 30, 1, {"ttft": 90}))
    assert work(trace)[1:3] == [{"R0": 1, "R1": 23}, {"R0": 1}]
    assert late(trace) == 0


def test_with_a_knee_a_batch_lasts_for_most_of_the_least_pace():
    """R0 has 64 ticks for 8 tokens, a batch takes 2 at the least: 0.9 of 8 ticks, its own token and 6 of R1."""
    roofline = CostFunction(busy=2), CostFunction(tokens=1)
    trace = served("on-time", (0, 1, 9, {"tpot": 8}), (1, 30, 1, {"ttft": 90}), cost=roofline)
    assert work(trace)[1] == {"R0": 1, "R1": 6}
    assert late(trace) == 0


def test_first_tokens_wait_for_others():
    """R1 waits beside R0 for R2, until half of its 8 ticks are over, its own two included; then both go at once."""
    slos = {"tpot": 9}, {"ttft": 8}, {"ttft": 9}
    given = (0, 1, 9, slos[0]), (1, 2, 1, slos[1]), (2, 2, 1, slos[2])
    assert work(served("on-time", *given))[1] == {"R0": 1, "R1": 2}
    trace = served("on-time:wait=0.5", *given)
    assert work(trace)[:4] == [{"R0": 1}, {"R0": 1}, {"R0": 1}, {"R0": 1, "R1": 2, "R2": 2}]
    assert late(trace) == 0


def test_the_next_token_counts_from_the_first():
    """R0 is due 6 ticks after its first token at 2. At 4 it has time for the prompt of R1, and ends at 7."""
    trace = served("on-time", (0, 2, 4, {"tpot": 2}), (0, 2, 4, {"tpot": 9}), batch_requests=1)
    assert late(trace) == 0
    assert work(trace)[:5] == [{"R0": 2}, {"R0": 1}, {"R0": 1}, {"R1": 2}, {"R0": 1}]


def test_first_tokens_evict_late_requests():
    """Both have their first token at 8, which is late for R0, which pauses; R2 and R1 need 7 of 15, and 9 are held."""
    slos = {"ttft": 5}, {"latency": 90}, {"ttft": 8}
    trace = served("on-time", (0, 4, 6, slos[0]), (0, 4, 6, slos[1]), (9, 6, 1, slos[2]), memory=15)
    assert [dict(batch.drop) for batch in trace.expanded().batches if batch.drop][:1] == [{"R0": 4}]
    assert late(trace) == 1


def test_calls_take_from_the_time():
    """Both have 5 tokens to go by 40; R1's call of 20 ticks makes it the more urgent."""
    slo = Slo(latency=40)
    two = request("R0", 2, 6, slo=slo), request("R1", 2, (2, 20, 0, "free"), 4, slo=slo)
    made = instance(*two, cost=TICKS, memory=99, host_memory=0, evict=True, batch_requests=1)
    trace = trace_policy(made, get_policy("on-time"))
    assert next(iter(work(trace)[0])) == "R1"
    assert late(trace) == 0


@pytest.mark.parametrize("seed", few(range(20), 5))
def test_every_request_is_served(seed):
    """Late or not, with little memory and a knee: the referee has passed what comes out."""
    draw = random.Random(seed)
    names = ("ttft", "latency", "tpot", "normalized_latency")
    requests = [
        (draw.randint(0, 40), draw.randint(1, 15), draw.randint(1, 9),
         {name: draw.randint(1, 30) for name in names if draw.random() < 0.5}, draw.randint(1, 3))
        for _ in range(draw.randint(2, 8))
    ]  # fmt: skip
    roofline = CostFunction(busy=8, decode_kv=1), CostFunction(tokens=2)
    trace = served(
        "on-time", *requests, memory=draw.choice([24, 40]), cost=roofline, batch_tokens=draw.choice([None, 8])
    )
    assert all(request.completion for request in trace.requests)
