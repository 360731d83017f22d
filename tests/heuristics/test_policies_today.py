"""The engines of today, batch by batch by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from pydantic import ValidationError

from heuristics import POLICIES, Plan, Unsuited, View, get_policy, run_policy, trace_policy
from heuristics.policies.sglang import SGLang
from kvcore import Call, Instance, Machine, Request, Segment, verify_schedule
from kvcore.instance import Coarsening

Moves = list[tuple[dict[str, int], dict[str, int]]]


def request(id: str, prompt: int, output: int, arrival: int = 0, **more: int) -> Request:
    return Request(id=id, arrival=arrival, prompt=prompt, segments=(Segment(decode=output),), **more)  # type: ignore[arg-type]


def serving(memory: int | None, *requests: Request, **machine: int | bool) -> Instance:
    return Instance(machine=Machine(memory=memory, **{"evict": True, **machine}), requests=requests)  # type: ignore[arg-type]


def moves(given: Instance, policy: str, count: int = 99) -> Moves:
    return [(batch.work, batch.drop) for batch in trace_policy(given, get_policy(policy)).expanded().batches[:count]]


def test_in_a_coarse_instance_the_4096_tokens_are_blocks() -> None:
    """Blocks of 1,024 tokens: 4 are assumed of each output, beside a prompt of 1. Memory for 13 holds two, not one."""
    grid = Coarsening(direction="restrict", block_tokens=1024, slot_ticks=1024, fine_tick_seconds=Fraction(1))
    fine = serving(13, request("A", 1, 2), request("B", 1, 2), request("C", 1, 2))
    assert moves(fine, "trtllm-no-evict", 1) == [({"A": 1}, {})]
    assert moves(fine.replace(coarsening=grid), "trtllm-no-evict", 1) == [({"A": 1, "B": 1}, {})]
    assert moves(fine.replace(coarsening=grid), "sglang", 1) == [({"A": 1, "B": 1}, {})]


# --- vLLM V1 -----------------------------------------------------------------------------------------------------


def test_the_gate_asks_for_the_whole_prompt() -> None:
    """C = 4, M = 10: A holds 5 after its first decode; B (6) finds 5 free, and room for its first chunk of 3."""
    given = serving(10, request("A", 4, 3), request("B", 6, 1, 1), batch_tokens=4)
    assert moves(given, "vllm-v1", 3) == [({"A": 4}, {}), ({"A": 1}, {}), ({"A": 1}, {})]
    assert moves(given, "vllm-v1-first-chunk", 3) == [({"A": 4}, {}), ({"A": 1, "B": 3}, {}), ({"A": 1}, {"B": 3})]


def test_the_last_admitted_is_preempted_to_the_front_and_none_is_admitted() -> None:
    """M = 8: A and B hold 4 each; A's token takes B's memory. C (1) waits behind B, which needs 5 of the 3 left."""
    given = serving(8, request("A", 4, 3), request("B", 4, 3), request("C", 1, 1, 1))
    assert moves(given, "vllm-v1") == [
        ({"A": 4, "B": 4}, {}), ({"A": 1}, {"B": 4}), ({"A": 1}, {}), ({"B": 5, "C": 1}, {}), ({"B": 1}, {}),
    ]  # fmt: skip


def test_freed_blocks_are_found_again_where_nobody_took_them() -> None:
    """A calls with 4 tokens of KV. B, meanwhile, takes the memory of 2: in part, or of all where KV goes whole."""
    a = Request(id="A", prompt=4, segments=(Segment(decode=1, call=Call(duration=2, returns=1)), Segment(decode=1)))
    given = serving(8, a, request("B", 6, 1, 1), partial=True)
    assert moves(given, "vllm-v1") == [({"A": 4}, {}), ({"B": 6}, {"A": 4}), ({"A": 6}, {})]
    assert moves(given, "vllm-v1-cached") == [({"A": 4}, {}), ({"B": 6}, {"A": 2}), ({"A": 4}, {})]
    whole = given.replace(machine=given.machine.replace(partial=False))
    assert moves(whole, "vllm-v1-cached") == [({"A": 4}, {}), ({"B": 6}, {"A": 4}), ({"A": 6}, {})]


def test_priority_preempts_the_least_weight_wherever_it_runs() -> None:
    """A (weight 1) and B (weight 2) hold 4 of 8: A cannot go on, and goes itself; B takes its memory in that batch."""
    given = serving(8, request("A", 4, 3), request("B", 4, 3, weight=2))
    assert moves(given, "vllm-v1", 2)[1] == ({"A": 1}, {"B": 4})
    assert moves(given, "vllm-v1-priority", 2)[1] == ({"B": 1}, {"A": 4})
    queue = serving(None, request("A", 1, 9), request("B", 1, 1), request("C", 1, 1, weight=2), batch_requests=2)
    assert set(moves(queue, "vllm-v1-priority")[0][0]) == {"C", "A"}


# --- SGLang ------------------------------------------------------------------------------------------------------


def test_a_prefill_runs_alone_and_before_decodes() -> None:
    given = serving(None, request("A", 3, 3), request("B", 4, 2, 1))
    assert moves(given, "sglang") == [({"A": 3}, {}), ({"B": 4}, {}), ({"A": 1, "B": 1}, {}), ({"A": 1}, {})]


@pytest.mark.parametrize(("memory", "joins"), [(19, False), (20, True)])
def test_admission_leaves_a_share_of_the_limits(memory: int, joins: bool) -> None:
    """A runs with 4 of 10 tokens of KV, 9 left of its limit: B needs 4 + 5 + 1 < free 16 - 0.7 x 9, so 20 in all."""
    a, b = request("A", 4, 9, max_new=10), request("B", 4, 5, 1, max_new=5)
    work, _ = moves(serving(memory + 1, a, b), "sglang")[1]
    assert (work == {"B": 4}) is joins


def test_the_fewest_outputs_are_retracted_and_the_ratio_follows() -> None:
    """Limits of 20: B joins A at M = 39, as only 0.7 of what A may yet generate is kept free; both end with 21.

    They hold 19 + 20 as A has generated 19 tokens and B 18. B goes; r is then (19 + 20) / (20 + 1), and so 1.
    """

    class Watched(SGLang):
        ratio_after = 0.0

        def decide(self, view: View, plan: Plan) -> None:
            super().decide(view, plan)
            if plan.dropped:
                self.ratio_after = self.ratio

    policy = Watched()
    given = serving(39, request("A", 2, 20, max_new=20), request("B", 2, 20, 1, max_new=20))
    trace = trace_policy(given, policy, compress=False)
    assert [batch.drop for batch in trace.schedule.batches if batch.drop] == [{"B": 19}]
    assert policy.ratio_after == 1


@pytest.mark.parametrize("compress", [True, False])
def test_the_ratio_falls_with_each_decode_repeated_or_not(compress: bool) -> None:
    """A prefills at 0 and decodes 399 times before B comes; later it would have fallen to its least."""

    class Watched(SGLang):
        def observe(self, view: View, plan: Plan) -> None:
            super().observe(view, plan)
            if view.now == 400:
                assert [job.id for job in view.arrived] == ["B"]
                self.seen = self.ratio

    policy = Watched()
    trace_policy(serving(None, request("A", 2, 1000), request("B", 2, 1, 400)), policy, compress=compress)
    assert policy.seen == pytest.approx(0.7 - 399 * (0.7 - 0.098) / 600)
    policy.lower(10**6)
    assert policy.ratio == pytest.approx(0.098)


# --- TensorRT-LLM ------------------------------------------------------------------------------------------------


def test_no_evict_reserves_prompt_and_limit() -> None:
    """A may end with 4 + 6 tokens, B with 4 + 4: both start in 18, and only A in 17."""
    requests = request("A", 4, 2, max_new=6), request("B", 4, 2, max_new=4)
    assert moves(serving(18, *requests), "trtllm-no-evict")[0][0] == {"A": 4, "B": 4}
    assert moves(serving(17, *requests), "trtllm-no-evict")[0][0] == {"A": 4}
    fixed = serving(17, *requests, evict=False)
    assert moves(fixed, "trtllm-no-evict")[0][0] == {"A": 4}
    with pytest.raises(Unsuited, match="it needs a machine with evict"):
        run_policy(fixed, get_policy("trtllm-max-utilization"))


def test_max_utilization_pauses_the_last_started_and_keeps_its_place() -> None:
    """M = 8: A and B hold 4 each; A's token pauses B, which waits before C, and comes back whole when A is done."""
    given = serving(8, request("A", 4, 3), request("B", 4, 3), request("C", 3, 1, 1))
    assert moves(given, "trtllm-max-utilization") == [
        ({"A": 4, "B": 4}, {}), ({"A": 1}, {"B": 4}), ({"A": 1}, {}), ({"B": 5, "C": 3}, {}), ({"B": 1}, {}),
    ]  # fmt: skip


def test_chunks_end_at_a_block() -> None:
    given = serving(None, request("A", 10, 1), batch_tokens=6, block=4)
    assert [work for work, _ in moves(given, "trtllm-no-evict")] == [{"A": 4}, {"A": 6}]


# --- the output limit --------------------------------------------------------------------------------------------


def test_a_limit_below_the_output_is_refused() -> None:
    with pytest.raises(ValidationError, match="segment 1 decodes 5, more than its max_new"):
        request("A", 1, 5, max_new=4)


def test_an_instance_without_limits_keeps_its_hash() -> None:
    given = serving(8, request("A", 4, 3))
    assert "max_new" not in given.to_json()
    limited = given.replace(requests=(request("A", 4, 3, max_new=3),))
    assert limited.sha256 != given.sha256
    assert Instance.model_validate_json(limited.to_json()) == limited


@pytest.mark.parametrize("name", [name for name in POLICIES if name.startswith(("vllm-v1", "sglang", "trtllm"))])
def test_they_run_with_kv_that_calls_must_keep(name: str) -> None:
    """Preserved KV is held through the call, by order; what waits with it may lose it where the machine evicts."""
    call = Call(duration=4, returns=1, handling="preserve")
    a = Request(id="A", prompt=3, segments=(Segment(decode=1, call=call), Segment(decode=3)))
    given = serving(8, a, a.replace(id="C", arrival=1), request("B", 5, 3, 1))
    verify_schedule(given, run_policy(given, get_policy(name)))
