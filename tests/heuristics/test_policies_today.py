"""The engines of today, batch by batch by hand."""

from fractions import Fraction

import pytest
from pydantic import ValidationError

from heuristics import POLICIES, SHARING, Unsuited, get_policy, run_policy, trace_policy
from heuristics.policies.sglang import SGLang
from kvcore import Call, Instance, Machine, Request, Segment, verify_schedule
from kvcore.instance import Coarsening


def request(id, prompt, output, arrival=0, **more):
    return Request(id=id, arrival=arrival, prompt=prompt, segments=(Segment(decode=output),), **more)


def serving(memory, *requests, **machine):
    return Instance(machine=Machine(memory=memory, **{"evict": True, **machine}), requests=requests)


def moves(given, policy, count=99):
    return [(batch.work, batch.drop) for batch in trace_policy(given, get_policy(policy)).expanded().batches[:count]]


def test_in_a_coarse_instance_the_4096_tokens_are_blocks():
    """Blocks of 1,024 tokens: 4 are assumed of each output, beside a prompt of 1. Memory for 13 holds two, not one."""
    grid = Coarsening(direction="restrict", block_tokens=1024, slot_ticks=1024, fine_tick_seconds=Fraction(1))
    fine = serving(13, request("A", 1, 2), request("B", 1, 2), request("C", 1, 2))
    assert moves(fine, "trtllm-no-evict", 1) == [({"A": 1}, {})]
    assert moves(fine.replace(coarsening=grid), "trtllm-no-evict", 1) == [({"A": 1, "B": 1}, {})]
    assert moves(fine.replace(coarsening=grid), "sglang", 1) == [({"A": 1, "B": 1}, {})]


# --- SGLang ------------------------------------------------------------------------------------------------------
def test_the_fewest_outputs_are_retracted_and_the_ratio_follows():
    """Limits of 20: B joins A at M = 39, as only 0.7 of what A may yet generate is kept free; both end with 21.

    They hold 19 + 20 as A has generated 19 tokens and B 18. B goes; r is then (19 + 20) / (20 + 1), and so 1.
    """

    class Watched(SGLang):
        ratio_after = 0.0

        def decide(self, view, plan):
            super().decide(view, plan)
            if plan.dropped:
                self.ratio_after = self.ratio

    policy = Watched()
    given = serving(39, request("A", 2, 20, max_new=20), request("B", 2, 20, 1, max_new=20))
    trace = trace_policy(given, policy, compress=False)
    assert [batch.drop for batch in trace.schedule.batches if batch.drop] == [{"B": 19}]
    assert policy.ratio_after == 1


@pytest.mark.parametrize("compress", [True, False])
def test_the_ratio_falls_with_each_decode_repeated_or_not(compress):
    """A prefills at 0 and decodes 399 times before B comes; later it would have fallen to its least."""

    class Watched(SGLang):
        def observe(self, view, plan):
            super().observe(view, plan)
            if view.now == 400:
                assert [job.id for job in view.arrived] == ["B"]
                self.seen = self.ratio

    policy = Watched()
    trace_policy(serving(None, request("A", 2, 1000), request("B", 2, 1, 400)), policy, compress=compress)
    assert policy.seen == pytest.approx(0.7 - 399 * (0.7 - 0.098) / 600)
    policy.lower(10**6)
    assert policy.ratio == pytest.approx(0.098)


# --- the output limit --------------------------------------------------------------------------------------------
def test_a_limit_below_the_output_is_refused():
    with pytest.raises(ValidationError, match="segment 1 decodes 5, more than its max_new"):
        request("A", 1, 5, max_new=4)


def test_an_instance_without_limits_keeps_its_hash():
    given = serving(8, request("A", 4, 3))
    assert "max_new" not in given.to_json()
    limited = given.replace(requests=(request("A", 4, 3, max_new=3),))
    assert limited.sha256 != given.sha256
    assert Instance.model_validate_json(limited.to_json()) == limited


ENGINES = [name for name in POLICIES if name.startswith(("vllm-v1", "sglang", "trtllm"))]
ENGINES += [name for name in SHARING if name.startswith("vllm")]


@pytest.mark.parametrize("name", ENGINES)
def test_they_run_with_kv_that_calls_must_keep(name):
    """Preserved KV is held through the call, by order; what waits with it may lose it where the machine evicts."""
    call = Call(duration=4, returns=1, handling="preserve")
    a = Request(id="A", prompt=3, segments=(Segment(decode=1, call=call), Segment(decode=3)))
    given = serving(8, a, a.replace(id="C", arrival=1), request("B", 5, 3, 1))
    verify_schedule(given, run_policy(given, get_policy(name)))


# --- WAIT --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("limit", "message"), [
    ({"memory": 17}, "2 of each of 1 types at every stage need 18 of memory, and the machine has 17"),
    ({"batch_tokens": 7}, "need 8 of batch_tokens, and the machine has 7; take a smaller threshold"),
    ({"prefill_tokens": 3}, "need 4 of prefill_tokens, and the machine has 3"),
    ({"batch_requests": 5}, "need 6 of batch_requests, and the machine has 5"),
])  # fmt: skip
def test_what_a_full_batch_needs_must_be_there(limit, message):
    """N = 2 of type (2, 3): 2 (2 + 3 + 4) tokens of KV; a batch of 2 (2 + 1 + 1) tokens, 4 of prompts, 6 requests."""
    pair = request("A", 2, 3), request("B", 2, 3)
    given = serving(18, *pair, batch_tokens=8, prefill_tokens=4, batch_requests=6, evict=False)
    assert len(moves(given, "wait:2,2")) == 3
    with pytest.raises(Unsuited, match=f"^policy wait:2,2 cannot run on .*: .*{message}"):
        run_policy(given.replace(machine=given.machine.replace(**limit)), get_policy("wait:2,2"))
