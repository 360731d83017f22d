"""KV that is not linear in tokens: windows and states."""

import random
from collections import Counter

import pytest

from heuristics import POLICIES, Unsuited, run_policy
from heuristics.engine.run import trace_policy
from kvbound.instance_text import facts_in_words
from kvcore.certificates.steps import Steps
from kvcore.features import Feature
from kvcore.instance import Instance, KvGroup, KvLayout, Machine, Node
from kvcore.referee import verify_schedule
from kvcore.rules import InvalidSchedule
from kvcore.schedule import Batch
from kvcore.stream import sizes_of
from solvers.driver import solve
from tests.fuzz.referee import agree
from tests.kvcore.test_stream import executed
from tests.support.build import instance, request, schedule
from tests.support.drawer import ANY, CROWDED, LAID, draw_instance, tiny_instance
from tests.support.few import few
from tests.support.random_schedules import fold, mutate, random_schedule

SLIDING = KvLayout(state=2, groups=(KvGroup(), KvGroup(weight=5, window=4)))
"""Two blocks, one for each block of tokens, and five for each of the last 4 tokens."""


def test_a_request_occupies_its_state_and_its_windows():
    one, two = Machine(memory=99, layout=SLIDING), Machine(memory=99, block=2, layout=SLIDING)
    assert [one.blocks(m) for m in range(7)] == [0, 8, 14, 20, 26, 27, 28]
    assert [two.blocks(m) for m in range(7)] == [0, 8, 8, 14, 14, 15, 15]
    assert [two.hosted(m) for m in (0, 1, 6)] == [0, 10, 30]
    assert [machine.longest for machine in (one, two, Machine(memory=9, block=2))] == [77, 74, 8]


def laid(memory, host=0, handling="discard"):
    return instance(request("A", 5, (1, 9, 0, handling), 2), request("B", 1, 1), memory=memory, host_memory=host,
                    layout=SLIDING)  # fmt: skip


def test_an_instance_says_its_layout():
    says = "a request occupies 2 blocks of state, 1 for each token, 5 for each token of the last 4"
    assert facts_in_words(laid(40), sizes_of(laid(40)))[2] == says


def test_rules_6_and_7_count_windows():
    tight, swaps = laid(34), laid(40, host=27, handling="swap")
    both = Batch(start=0, work={"A": 5, "B": 1})
    with pytest.raises(InvalidSchedule, match="R6 is broken in batch 0: the requests occupy 35 blocks of 1"):
        verify_schedule(tight, schedule(tight, both))
    found = verify_schedule(
        swaps,
        schedule(swaps, both, Batch(start=1, swap_out={"A": 5}), Batch(start=10, work={"A": 1}, swap_in={"A": 5}),
                 Batch(start=11, work={"A": 1})),
    )  # fmt: skip
    assert [batch.host for batch in found.batches] == [0, 27, 0, 0]
    assert [batch.device for batch in found.batches] == [35, 0, 28, 29]


@pytest.mark.parametrize(("made", "says"), [
    (KvLayout, "a layout has a state or a group"),
    (lambda: Machine(memory=9, layout=SLIDING, partial=True), "with a layout KV moves as a whole: partial is"),
    (lambda: laid(28), "its last token needs 7 tokens of KV .29 blocks of 1., memory is 28"),
    (lambda: laid(40, host=26, handling="swap"), "call 1 swaps out 27 tokens, host_memory is 26"),
    (lambda: laid(40).replace(contents=(Node(id="x", blocks=1),), requests=(request("A", 2, 1, path=("x", 1)),)),
     "contents and a layout of KV are not for one instance"),
], ids=["empty", "partial", "memory", "host", "contents"])  # fmt: skip
def test_what_does_not_go_together_is_refused(made, says):
    with pytest.raises(ValueError, match=says):
        made()


def test_the_hash_of_other_instances_has_no_layout():
    assert "layout" not in laid(40).replace(machine=Machine(memory=9)).canonical
    assert Instance.model_validate_json(laid(40).to_json()) == laid(40)


def test_referees_agree_on_windows():
    seen = Counter()
    for seed in few(range(300), 6):
        draw = random.Random(seed)
        of = draw_instance(draw, ANY.but(**LAID))
        made = random_schedule(draw, of)
        for one in (made, fold(made), *(mutate(draw, of, made) for _ in range(3))):
            seen[agree(of, one)] += 1
            assert executed(of, one, plain=True) == executed(of, one, plain=False), seed
    assert seen[0] > 3


def test_policies_keep_to_windows():
    seen, names = Counter(), [n for n, p in POLICIES.items() if Feature.LAYOUT in p.takes.features]
    assert {"vllm-v1", "vllm-v1-async", "vllm", "sarathi-ef", "infermax", "fcfs", "serial"} <= {*names}
    for seed in few(range(200), 6):
        of = draw_instance(random.Random(seed), CROWDED.but(**LAID, decode=range(1, 20), evict=(True, True, False)))
        for name in names:
            try:
                trace = trace_policy(of, POLICIES[name])
            except Unsuited:
                seen["serial"] += name == "serial"
                continue
            other = trace_policy(of, POLICIES[name], compress=False).schedule
            assert executed(of, trace.schedule, plain=False) == executed(of, other, plain=True), (seed, name)
            seen["ran"] += 1
    assert seen["ran"] > 4
    assert not seen["serial"]


def test_an_optimum_is_certified():
    result = solve(laid(34), "total-flow-time", work=30_000_000)
    assert (result.status, result.value, result.proved_by) == ("optimal", 14, "enumeration")


def test_a_policy_that_counts_tokens_declines():
    with pytest.raises(Unsuited, match="it is not made for a layout of KV"):
        run_policy(laid(40), POLICIES["infercept"])


def test_steps_count_the_blocks_of_the_machine():
    for seed in range(30):
        of = tiny_instance(seed, **LAID)
        steps, blocks = Steps(of), of.machine.blocks
        assert steps._blocks(steps.context).tolist() == [blocks(m) for m in steps.context.tolist()]
        assert all(blocks(a) + blocks(b) >= blocks(a + b) for a in range(9) for b in range(9))
