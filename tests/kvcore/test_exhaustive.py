"""The exhaustive search on cases solved by hand, and on the worked examples of the papers."""

from fractions import Fraction

import pytest

from kvcore import CostFunction, Slo
from tests.support.build import instance, request
from tests.support.drawer import fixed_handlings
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.truth import Truth
from workloads.builtin import builtin_instance


def optimum(instance, objective):
    return exhaustive_optimum(instance, objective)[0]


# --- solved by hand --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("memory", "flow"),
    [
        (2, 6),  # each holds 2 tokens in its second batch: one after the other, 2 + 4
        (3, 5),  # the prompt of one beside the second batch of the other: 2 + 3
        (4, 4),  # side by side
    ],
)
def test_two_requests_share_the_memory(memory, flow):
    assert optimum(instance(request("A", 1, 2), request("B", 1, 2), memory=memory), "total-flow-time") == flow


@pytest.mark.parametrize(("block", "makespan"), [(1, 3), (2, 4)])
def test_memory_is_counted_in_blocks(block, makespan):
    # Memory 3 as above; of blocks of 2 only one fits, and a single token takes it.
    two = instance(request("A", 1, 2), request("B", 1, 2), memory=3, block=block)
    assert optimum(two, "makespan") == makespan


def test_idling_pays_when_a_batch_is_long():
    # A alone lasts 10 ticks. Waiting for B: 100 * 1 + 12. Without: 10 + 100 * 10 at least.
    a, b = request("A", 10, 1), request("B", 1, 1, arrival=1, weight=100)
    two = instance(a, b, cost=(CostFunction(tokens=1),), chunked=False)
    value, schedule = exhaustive_optimum(two, "weighted-flow-time")
    assert value == 112
    assert [batch.start for batch in schedule.batches] == [1, 2]


@pytest.mark.parametrize(("pause", "flow"), [(True, 14), (False, 15)])
def test_pause(pause, flow):
    # One request at a time. B interrupts A, 10 * 1 + 4; or A waits for B, 10 * 1 + 5.
    two = instance(request("A", 1, 3), request("B", 1, 1, arrival=1, weight=10), batch_requests=1, pause=pause)
    assert optimum(two, "weighted-flow-time") == flow


@pytest.mark.parametrize(
    ("switches", "flow"),
    [
        ({}, 14),  # no eviction: A waits for B, 10 * 1 + 4
        ({"evict": True}, 14),  # A starts and is dropped at 1: its refill of 3 tokens takes two batches, 10 * 1 + 4
        ({"evict": True, "partial": True}, 13),  # one of A's tokens is dropped; 2 tokens end it at 3
        ({"evict": True, "host_memory": 2}, 13),  # A is swapped out at 1 and in at 2
    ],
)
def test_eviction(switches, flow):
    a, b = request("A", 2, 2), request("B", 2, 1, arrival=1, weight=10)
    two = instance(a, b, batch_tokens=2, **({"memory": 3, "host_memory": 0} | switches))
    assert optimum(two, "weighted-flow-time") == flow


@pytest.mark.parametrize(("functions", "busy"), [(1, 8), (2, 7), (3, 4)])
def test_transfers_overlap_what_is_in_other_functions(functions, busy):
    # A prompt in 1 tick; the call has returned at once, and swap out, swap in (3 tokens each) and the last token share
    # a batch: 1 + 3 + 3 in one function; max(1, 3 + 3) in two; max(1, 3, 3) in three.
    out, back = {"swap_out_tokens": 1}, {"swap_in_tokens": 1}
    cost = {
        1: (CostFunction(busy=1, **out, **back),),
        2: (CostFunction(busy=1), CostFunction(**out, **back)),
        3: (CostFunction(busy=1), CostFunction(**out), CostFunction(**back)),
    }[functions]
    assert optimum(instance(request("A", 3, (1, 0, 0, "swap"), 1), cost=cost), "busy-time") == busy


@pytest.mark.parametrize(("duration", "makespan"), [(0, 4), (2, 5), (5, 7)])
def test_swapped_kv_may_come_back_during_the_call(duration, makespan):
    # Swapping 3 tokens in takes 3 ticks, out none. The call runs from 1 on. If it has returned at once, out, in and the
    # last token share the batch [1, 4). Else out and in take [1, 4) during the call, and the last token a tick after.
    cost = (CostFunction(busy=1), CostFunction(swap_in_tokens=1))
    assert optimum(instance(request("A", 3, (1, duration, 0, "swap"), 1), cost=cost), "makespan") == makespan


def test_swapped_kv_comes_back_during_the_call_when_there_is_room():
    # As above until tick 6, but B takes 2 of 4 tokens in [1, 2), when A is swapped out. A comes back in [2, 5).
    cost = (CostFunction(busy=1), CostFunction(swap_in_tokens=1))
    a, b = request("A", 3, (1, 5, 0, "swap"), 1), request("B", 2, 1, arrival=1)
    assert optimum(instance(a, b, cost=cost, memory=4), "makespan") == 7


def test_the_largest_flow_time_weighs_what_is_done_against_the_time():
    # Decodes last 2 ticks, prefills 3, both together 3. A's call returns at 8, when B arrives. A alone is done at 10,
    # and B starts then: flow times 10 and 13. Side by side A is done at 11, and B's four other tokens at 19: 11 and 11.
    a, b = request("A", 1, (1, 5, 0, "preserve"), 1), request("B", 1, 5, arrival=8)
    cost = (CostFunction(any_decode=2), CostFunction(any_prefill=3))
    assert optimum(instance(a, b, cost=cost), "max-flow-time") == 11


@pytest.mark.parametrize(("returns", "handling", "makespan"), [(0, "preserve", 3), (1, "preserve", 2), (0, "free", 2)])
def test_more_to_compute_can_be_faster(returns, handling, makespan):
    # A's call returns at 1, when B arrives; prefills and decodes do not mix. What A goes on with is a decode, unless
    # something was returned or its KV was dropped: then it is a prefill, and runs beside B's prompt. So more returned
    # tokens help, and so does dropping KV although memory has no limit.
    a, b = request("A", 1, (1, 0, returns, handling), 1), request("B", 1, 1, arrival=1)
    assert optimum(instance(a, b, hybrid=False), "makespan") == makespan


def test_a_tpot_slo_needs_starts_between_events():
    """Why the search waits tick by tick with a TPOT SLO.

    B holds 3 of 6 tokens during its call and must go on at once when that returns at 8 (its latency is 9). A's last
    batch needs 4 tokens, so it comes after B's end, and ends at 10, the latency of A. A's TPOT of 3/2 allows 3 ticks
    from the first token to there: the first comes at 7 or 8, in a batch that starts when nothing arrives or returns.
    Started at 8, A ends at 11.
    """
    a = request("A", 1, (2, 0, 1, "preserve"), 1, slo=Slo(latency=10, tpot="3/2"))
    b = request("B", 3, (1, 7, 0, "preserve"), 1, slo=Slo(latency=9))
    value, schedule = exhaustive_optimum(instance(a, b, memory=6), "late-requests")
    assert value == 0
    assert schedule.batches[1].start in (6, 7)
    search = Truth(instance(a, b, memory=6), "late-requests")
    search.every_tick = False
    assert search.optimum()[0] == 1


def test_late_requests_are_those_over_an_slo():
    # One token a tick. A and B can both be done by 2 and 4 but not by 2 and 3; B's first token cannot be before 3
    # unless A is late.
    def late(slo):
        a, b = request("A", 1, 2, slo=Slo(latency=2)), request("B", 1, 2, slo=slo)
        return optimum(instance(a, b, batch_tokens=1), "late-requests")

    assert late(Slo(latency=4)) == late(Slo(ttft=3)) == late(Slo(normalized_latency=2)) == late(Slo(tpot=1)) == 0
    assert late(Slo(latency=3)) == late(Slo(ttft=2)) == late(Slo(normalized_latency=Fraction(3, 2))) == 1
    assert late(Slo(tpot=Fraction(1, 2))) == 1


def test_gives_up_with_a_clear_error():
    with pytest.raises(TooManyStates, match="more than 10 states"):
        exhaustive_optimum(builtin_instance("mars-figure1"), "makespan", max_states=10)


# --- the worked examples ---------------------------------------------------------------------------------------------

MARS_OPTIMA = {
    "makespan": (14, 11),
    "busy-time": (12, 11),
    "total-flow-time": (29, 27),
    "max-flow-time": (14, 11),
    "total-ttft": (6, 6),
    "normalized-latency": (9, Fraction(25, 3)),
}


@pytest.mark.parametrize("objective", MARS_OPTIMA)
def test_mars_figure_1(objective):
    """The published schedule of total flow time 30 is not optimal: as given 29, with the handling free 27.

    One token a tick: 6 + 2 + 3 tokens, and one more where R2 is discarded, are the least busy time; first tokens come
    at 1, 2 and 3 at the earliest.
    """
    mars = builtin_instance("mars-figure1")
    assert (optimum(mars, objective), optimum(mars.with_free_calls(), objective)) == MARS_OPTIMA[objective]


def test_mars_figure_1_needs_no_swap_and_no_discard():
    vectors = dict(fixed_handlings(builtin_instance("mars-figure1")))
    flow = {vector: optimum(fixed, "total-flow-time") for vector, fixed in vectors.items()}
    assert len(flow) == 27
    assert min(flow.values()) == flow["preserve", "preserve", "preserve"] == 27
    assert max(flow.values()) == flow["discard", "discard", "discard"] == 38


@pytest.mark.parametrize(
    ("I", "busy", "batches", "evictions", "without"),
    [
        (1, 40_918_414, 11, 4, 53_902_760),
        pytest.param(2, 46_521_305, 13, 3, 54_150_572, marks=pytest.mark.slow),
        pytest.param(4, 49_803_714, 14, 2, 54_646_328, marks=pytest.mark.slow),
    ],
)
def test_infermax_figure_15_evicts(I, busy, batches, evictions, without):  # noqa: E741
    figure = builtin_instance(f"infermax-figure15:I={I}")
    value, schedule = exhaustive_optimum(figure, "busy-time")
    assert value == busy
    assert (len(schedule.batches), sum(len(batch.drop) for batch in schedule.batches)) == (batches, evictions)
    assert optimum(figure.replace(machine=figure.machine.replace(evict=False)), "busy-time") == without
