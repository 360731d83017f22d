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
