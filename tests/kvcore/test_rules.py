"""Every clause of the rules R1 to R11: a schedule exactly at the boundary passes, one unit beyond it is refused."""

from __future__ import annotations

import gc

import pytest

from kvcore import (
    BadInput,
    Batch,
    CostFunction,
    Instance,
    InvalidSchedule,
    Trace,
    decode_stream,
    handlings,
    measures,
    rules,
    verify_schedule,
)  # fmt: skip
from tests.support.build import batch, instance, request, schedule
from tests.support.second_referee import Outcome, Refusal, execute


def passes(instance: Instance, *batches: Batch) -> Trace:
    assert isinstance(execute(instance, schedule(instance, *batches)), Outcome)
    return verify_schedule(instance, schedule(instance, *batches))


def refused(instance: Instance, *batches: Batch, rule: int, at: int, who: str | None) -> str:
    """Assert that exactly this rule is named, in this batch, with this request; return the line that says so."""
    named = "" if who is None else f", request {who}"
    with pytest.raises(InvalidSchedule, match=rf"^the [a-z ]+ rule R{rule} is broken in batch {at}{named}: ") as caught:
        verify_schedule(instance, schedule(instance, *batches))
    assert (caught.value.rule, caught.value.batch, caught.value.request) == (rule, at, who)
    naive = execute(instance, schedule(instance, *batches))
    assert isinstance(naive, Refusal)
    assert (naive.rule, naive.batch) == (rule, at)
    assert who in naive.requests
    return str(caught.value)


# --- R1: time ----------------------------------------------------------------------------------------------------


def test_r1_the_first_batch_starts_at_0_or_later():
    one = instance(request("A", 2, 1))
    passes(one, batch(0, A=2))
    passes(one, batch(7, A=2))
    assert "time starts at 0" in refused(one, batch(-1, A=2), rule=1, at=0, who=None)


def test_r1_a_batch_starts_when_the_one_before_ends_or_later():
    one = instance(request("A", 3, 2), cost=(CostFunction(tokens=1),))
    passes(one, batch(0, A=3), batch(3, A=1))
    passes(one, batch(0, A=3), batch(4, A=1))
    assert "ends at 3" in refused(one, batch(0, A=3), batch(2, A=1), rule=1, at=1, who=None)


def test_r1_batches_are_in_order():
    two = instance(request("A", 1, 1), request("B", 1, 1))
    refused(two, batch(1, A=1), batch(0, B=1), rule=1, at=1, who=None)


# --- R2: readiness -----------------------------------------------------------------------------------------------


def test_r2_a_request_works_from_its_arrival_on():
    late = instance(request("A", 1, 1, arrival=3))
    passes(late, batch(3, A=1))
    assert "it arrives at 3" in refused(late, batch(2, A=1), rule=2, at=0, who="A")


def test_r2_a_request_works_from_the_end_of_its_call_on():
    calling = instance(request("A", 1, (1, 4, 0, "preserve"), 1))
    passes(calling, batch(0, A=1), batch(5, A=1))
    assert "in a call until 5" in refused(calling, batch(0, A=1), batch(4, A=1), rule=2, at=1, who="A")


def test_r2_a_call_of_no_time_returns_at_once():
    calling = instance(request("A", 1, (1, 0, 2, "preserve"), 1))
    passes(calling, batch(0, A=1), batch(1, A=3))


def test_r2_a_request_that_is_done_works_no_more():
    two = instance(request("A", 1, 1), request("B", 1, 1))
    passes(two, batch(0, A=1), batch(1, B=1))
    assert "it was done at 1" in refused(two, batch(0, A=1), batch(1, A=1, B=1), rule=2, at=1, who="A")


# --- R3: work ----------------------------------------------------------------------------------------------------


def test_r3_work_is_at_least_one_token():
    two = instance(request("A", 1, 1), request("B", 2, 1))
    passes(two, batch(0, A=1, B=1), batch(1, B=1))
    refused(two, batch(0, A=1, B=0), batch(1, B=2), rule=3, at=0, who="B")
    refused(two, batch(0, A=1, B=-1), batch(1, B=2), rule=3, at=0, who="B")


def test_r3_work_is_at_most_what_is_known_and_not_processed():
    one = instance(request("A", 3, 2))
    passes(one, batch(0, A=3), batch(1, A=1))
    line = refused(one, batch(0, A=4), batch(1, A=1), rule=3, at=0, who="A")
    assert line.endswith("it processes 4 tokens, 3 are to be processed")
    refused(one, batch(0, A=3), batch(1, A=2), rule=3, at=1, who="A")


def test_r3_without_chunks_a_prefill_is_whole():
    assert passes(instance(request("A", 3, 1)), batch(0, A=2), batch(1, A=1))
    whole = instance(request("A", 3, 1), chunked=False)
    passes(whole, batch(0, A=3))
    line = refused(whole, batch(0, A=2), batch(1, A=1), rule=3, at=0, who="A")
    assert line.endswith("3 are to be processed, all of them without chunked prefills")


def test_r3_without_chunks_a_refill_is_whole():
    whole = instance(request("A", 2, (1, 1, 2, "discard"), 1), chunked=False)
    first = batch(0, A=2)
    passes(whole, first, batch(2, drop={"A": 2}, A=5))
    refused(whole, first, batch(2, drop={"A": 2}, A=4), batch(3, A=1), rule=3, at=1, who="A")


# --- R4: residence -----------------------------------------------------------------------------------------------


def test_r4_a_request_works_only_with_nothing_on_the_host():
    swapped = instance(request("A", 3, (1, 1, 0, "swap"), 1), partial=True)
    begin = (batch(0, A=3), batch(1, out={"A": 3}))
    passes(swapped, *begin, batch(2, back={"A": 3}, A=1))
    passes(swapped, *begin, batch(2, back={"A": 2}), batch(3, back={"A": 1}, A=1))
    refused(swapped, *begin, batch(2, back={"A": 2}, A=2), rule=4, at=2, who="A")
    refused(swapped, *begin, batch(2, A=4), rule=4, at=2, who="A")


@pytest.mark.parametrize("move", ["drop", "out"])
def test_r4_a_request_does_not_work_where_its_kv_is_evicted(move: str):
    one = instance(request("A", 2, 2), evict=True, partial=True)
    refused(one, batch(0, A=2), batch(1, **{move: {"A": 1}}, A=1), rule=4, at=1, who="A")
    two = instance(request("A", 2, 2), request("B", 1, 1), evict=True, partial=True)
    again = {"A": 2} if move == "drop" else {"A": 1}
    passes(two, batch(0, A=2), batch(1, **{move: {"A": 1}}, B=1),
           batch(2, back={} if move == "drop" else {"A": 1}, **again))  # fmt: skip


def test_r4_an_eviction_that_is_brought_back_at_once_still_forbids_work():
    one = instance(request("A", 2, 2), evict=True)
    refused(one, batch(0, A=2), batch(1, out={"A": 2}, back={"A": 2}, A=1), rule=4, at=1, who="A")


def test_r4_moves_that_rule_9_allows_or_orders_do_not_forbid_work():
    for handling in ("discard", "free"):
        dropped = instance(request("A", 2, (1, 1, 0, handling), 1))
        passes(dropped, batch(0, A=2), batch(2, drop={"A": 2}, A=3))
    for handling in ("swap", "free"):
        swapped = instance(request("A", 2, (1, 1, 0, handling), 1))
        passes(swapped, batch(0, A=2), batch(2, out={"A": 2}, back={"A": 2}, A=1))


# --- R5: budgets -------------------------------------------------------------------------------------------------


def test_r5_batch_tokens():
    requests = request("A", 3, 1), request("B", 2, 1)
    passes(instance(*requests, batch_tokens=5), batch(0, A=3, B=2))
    refused(instance(*requests, batch_tokens=4), batch(0, A=3, B=2), rule=5, at=0, who=None)


def test_r5_prefill_tokens_do_not_count_decodes():
    requests = request("A", 1, 2), request("B", 3, 1)
    steps = batch(0, A=1), batch(1, A=1, B=3)
    passes(instance(*requests, prefill_tokens=3, batch_tokens=4), *steps)
    refused(instance(*requests, prefill_tokens=2, batch_tokens=4), *steps, rule=5, at=1, who=None)


def test_r5_a_refill_and_returned_tokens_are_prefills():
    refill = request("A", 2, (1, 0, 0, "discard"), 1)
    steps = batch(0, A=2), batch(1, drop={"A": 2}, A=3)
    passes(instance(refill, prefill_tokens=3), *steps)
    refused(instance(refill, prefill_tokens=2), *steps, rule=5, at=1, who=None)
    returned = request("A", 2, (1, 0, 2, "preserve"), 1)
    passes(instance(returned, prefill_tokens=3), batch(0, A=2), batch(1, A=3))
    refused(instance(returned, prefill_tokens=2), batch(0, A=2), batch(1, A=3), rule=5, at=1, who=None)


def test_r5_the_last_token_of_a_prompt_in_chunks_counts_as_a_decode():
    """The phase depends on the state alone: m > 0 and one token missing is a decode."""
    requests = request("A", 3, 1), request("B", 2, 1)
    steps = batch(0, A=2), batch(1, A=1, B=2)
    passes(instance(*requests, prefill_tokens=2), *steps)
    refused(instance(*requests, hybrid=False), *steps, rule=5, at=1, who=None)


def test_r5_batch_requests():
    requests = [request(id, 1, 1) for id in "ABC"]
    passes(instance(*requests, batch_requests=3), batch(0, A=1, B=1, C=1))
    refused(instance(*requests, batch_requests=2), batch(0, A=1, B=1, C=1), rule=5, at=0, who=None)


def test_r5_without_hybrid_one_phase_only():
    requests = request("A", 1, 2), request("B", 1, 2)
    pure = batch(0, A=1, B=1), batch(1, A=1, B=1)
    mixed = batch(0, A=1), batch(1, A=1, B=1), batch(2, B=1)
    passes(instance(*requests), *mixed)
    passes(instance(*requests, hybrid=False), *pure)
    refused(instance(*requests, hybrid=False), *mixed, rule=5, at=1, who=None)


def test_r5_a_call_that_returns_nothing_goes_on_as_a_decode():
    requests = request("A", 1, (1, 0, 0, "preserve"), 1), request("B", 1, 2)
    passes(instance(*requests, hybrid=False), batch(0, A=1, B=1), batch(1, A=1, B=1))
    dropped = request("A", 1, (1, 0, 0, "discard"), 1), request("B", 1, 2)
    refused(instance(*dropped, hybrid=False), batch(0, A=1, B=1), batch(1, drop={"A": 1}, A=2, B=1), rule=5, at=1,
            who=None)  # fmt: skip


def test_r5_without_pause_who_worked_works_on():
    requests = request("A", 2, 2), request("B", 1, 1)
    steps = batch(0, A=2), batch(1, B=1), batch(2, A=1)
    passes(instance(*requests), *steps)
    refused(instance(*requests, pause=False), *steps, rule=5, at=1, who="A")
    chunks = batch(0, A=1), batch(1, B=1), batch(2, A=1), batch(3, A=1)
    refused(instance(*requests, pause=False), *chunks, rule=5, at=1, who="A")


def test_r5_without_pause_a_gap_in_time_is_no_pause():
    passes(instance(request("A", 2, 2), pause=False), batch(0, A=2), batch(9, A=1))


def test_r5_without_pause_one_whose_segment_ended_may_wait():
    requests = request("A", 1, (1, 0, 0, "preserve"), 2), request("B", 1, 1)
    steps = batch(0, A=1), batch(1, B=1), batch(2, A=1)
    passes(instance(*requests, pause=False), *steps, batch(3, A=1))


@pytest.mark.parametrize("move", ["drop", "out"])
def test_r5_without_pause_one_that_is_evicted_may_wait(move: str):
    requests = request("A", 2, 2), request("B", 1, 2)
    last = batch(2, A=3, B=1) if move == "drop" else batch(2, back={"A": 2}, A=1, B=1)
    evicting = instance(*requests, pause=False, evict=True)
    passes(evicting, batch(0, A=2), batch(1, **{move: {"A": 2}}, B=1), last)
    refused(evicting, batch(0, A=2), batch(1, B=1), last, rule=5, at=1, who="A")


@pytest.mark.parametrize("move", ["drop", "out"])
@pytest.mark.parametrize("tokens", [0, -1])
def test_a_move_of_less_than_one_token_takes_no_kv(move: str, tokens: int):
    two = [request("A", 2, 2), request("B", 1, 1)]
    nothing = {move: {"A": tokens}}
    for evict in (False, True):
        machine = {"pause": False, "evict": evict, "partial": True}
        refused(instance(*two, **machine), batch(0, A=2), batch(1, B=1, **nothing), rule=5, at=1, who="A")
        rule = 10 if evict else 8
        refused(instance(*two, **machine), batch(0, A=2), batch(1, A=1, **nothing), rule=rule, at=1, who="A")


# --- R6: device memory -------------------------------------------------------------------------------------------


def test_r6_memory_is_exactly_full():
    requests = request("A", 2, 2), request("B", 3, 2)
    steps = batch(0, A=2, B=3), batch(1, A=1, B=1)
    passes(instance(*requests, memory=7), *steps)
    refused(instance(*requests, memory=6), *steps, rule=6, at=1, who=None)


def test_r6_counts_whole_blocks():
    """Lengths 4 and 4 fill two blocks of 4 exactly; the next token of each needs a third and a fourth."""
    requests = request("A", 4, 1), request("B", 4, 1)
    passes(instance(*requests, memory=8, block=4), batch(0, A=4, B=4))
    passes(instance(*requests, memory=11, block=4), batch(0, A=4, B=4))
    longer = request("A", 4, 2), request("B", 4, 1)
    steps = batch(0, A=4), batch(1, A=1, B=4)
    passes(instance(*longer, memory=12, block=4), *steps)
    refused(instance(*longer, memory=11, block=4), *steps, rule=6, at=1, who=None)
    refused(instance(request("A", 1, 1), request("B", 1, 1), request("C", 1, 1), memory=8, block=4),
            batch(0, A=1, B=1, C=1), rule=6, at=0, who=None)  # fmt: skip


def test_r6_counts_after_the_moves_and_before_the_end():
    """What is dropped makes room in the same batch; what a completion frees makes room only in the next."""
    requests = request("A", 3, 2), request("B", 4, 1)
    evicting = instance(*requests, memory=4, evict=True)
    passes(evicting, batch(0, A=3), batch(1, drop={"A": 3}, B=4), batch(2, A=4))
    passes(evicting, batch(0, A=3), batch(1, A=1), batch(2, B=4))
    refused(evicting, batch(0, A=3), batch(1, A=1, B=1), batch(2, B=3), rule=6, at=1, who=None)


def test_r6_counts_kv_held_in_a_call_and_kv_swapped_in():
    requests = request("A", 3, (1, 5, 0, "swap"), 1), request("B", 3, 1)
    steps = batch(0, A=3), batch(1, out={"A": 3}, B=2)
    steps = *steps, batch(2, back={"A": 3}), batch(6, drop={"B": 2}, A=1), batch(7, B=3)
    passes(instance(*requests, memory=5, evict=True), *steps)
    refused(instance(*requests, memory=4, evict=True), *steps, rule=6, at=2, who=None)
    held = request("A", 3, (1, 5, 0, "preserve"), 1), request("B", 3, 1)
    passes(instance(*held, memory=6), batch(0, A=3), batch(1, B=3), batch(6, A=1))
    refused(instance(*held, memory=5), batch(0, A=3), batch(1, B=3), batch(6, A=1), rule=6, at=1, who=None)


# --- R7: host memory ---------------------------------------------------------------------------------------------


def test_r7_host_memory_is_exactly_full():
    requests = [request(id, 2, (1, 2, 0, "free"), 1) for id in "AB"]
    steps = batch(0, A=2, B=2), batch(1, out={"A": 2, "B": 2}), batch(3, back={"A": 2, "B": 2}, A=1, B=1)
    passes(instance(*requests, host_memory=4), *steps)
    refused(instance(*requests, host_memory=3), *steps, rule=7, at=1, who=None)


def test_r7_counts_after_all_moves():
    """A leaves the host (brought back, or dropped there) in the batch in which B goes there."""
    requests = request("A", 2, (1, 0, 0, "free"), 1), request("B", 2, (1, 3, 0, "free"), 1)
    one_host = instance(*requests, host_memory=2)
    begin = batch(0, A=2), batch(1, out={"A": 2}, B=2)
    passes(one_host, *begin, batch(2, out={"B": 2}, back={"A": 2}, A=1), batch(5, back={"B": 2}, B=1))
    passes(one_host, *begin, batch(2, drop={"A": 2}, out={"B": 2}, A=3), batch(5, back={"B": 2}, B=1))
    refused(one_host, *begin, batch(2, out={"B": 2}), rule=7, at=2, who=None)


# --- R8: eviction ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("move", ["drop", "out"])
def test_r8_an_eviction_outside_calls_needs_evict(move: str):
    requests = request("A", 2, 2), request("B", 1, 1)
    last = batch(2, A=3) if move == "drop" else batch(2, back={"A": 2}, A=1)
    steps = batch(0, A=2), batch(1, **{move: {"A": 2}}, B=1), last
    passes(instance(*requests, evict=True), *steps)
    refused(instance(*requests), *steps, rule=8, at=1, who="A")


def test_r8_without_partial_a_drop_takes_all():
    requests = request("A", 3, 2), request("B", 1, 1)
    some = batch(0, A=3), batch(1, drop={"A": 2}, B=1), batch(2, A=3)
    passes(instance(*requests, evict=True, partial=True), *some)
    refused(instance(*requests, evict=True), *some, rule=8, at=1, who="A")
    passes(instance(*requests, evict=True), batch(0, A=3), batch(1, drop={"A": 3}, B=1), batch(2, A=4))


def test_r8_without_partial_a_swap_takes_all():
    requests = request("A", 3, 2), request("B", 1, 1)
    out = batch(0, A=3), batch(1, out={"A": 2}, B=1), batch(2, back={"A": 2}, A=1)
    back = batch(0, A=3), batch(1, out={"A": 3}, B=1), batch(2, back={"A": 2}), batch(3, back={"A": 1}, A=1)
    for steps, at in ((out, 1), (back, 2)):
        passes(instance(*requests, evict=True, partial=True), *steps)
        refused(instance(*requests, evict=True), *steps, rule=8, at=at, who="A")


def test_r8_without_partial_holds_for_free_calls_too():
    calling = request("A", 3, (1, 1, 0, "free"), 1)
    steps = batch(0, A=3), batch(2, drop={"A": 2}, A=3)
    passes(instance(calling, partial=True), *steps)
    refused(instance(calling), *steps, rule=8, at=1, who="A")


@pytest.mark.parametrize("move", ["drop", "out"])
def test_r8_no_eviction_during_a_preserved_call(move: str):
    requests = request("A", 2, (1, 3, 0, "preserve"), 1), request("B", 1, 1)
    evicting = instance(*requests, evict=True)
    last = batch(5, A=3) if move == "drop" else batch(5, back={"A": 2}, A=1)
    refused(evicting, batch(0, A=2), batch(3, **{move: {"A": 2}}, B=1), last, rule=8, at=1, who="A")
    passes(evicting, batch(0, A=2), batch(4, **{move: {"A": 2}}, B=1), last)
    refused(instance(*requests), batch(0, A=2), batch(4, **{move: {"A": 2}}, B=1), last, rule=8, at=1, who="A")


@pytest.mark.parametrize("move", ["drop", "out"])
def test_r8_after_an_ordered_swap_only_swap_in_follows_until_the_return(move: str):
    swapped = instance(request("A", 2, (1, 4, 0, "swap"), 1), evict=True)
    begin = batch(0, A=2), batch(1, out={"A": 2}), batch(2, back={"A": 2})
    passes(swapped, *begin, batch(5, A=1))
    again = batch(3, **{move: {"A": 2}}, back={"A": 2} if move == "out" else {})
    refused(swapped, *begin, again, batch(5, A=1), rule=8, at=3, who="A")


def test_r8_the_other_kind_of_move_is_not_the_ordered_one():
    discard = instance(request("A", 2, (1, 4, 0, "discard"), 1), evict=True)
    refused(discard, batch(0, A=2), batch(1, out={"A": 2}), rule=8, at=1, who="A")
    swap = instance(request("A", 2, (1, 4, 0, "swap"), 1), request("B", 1, 1), evict=True)
    refused(swap, batch(0, A=2), batch(1, drop={"A": 2}, B=1), rule=8, at=1, who="A")


# --- R9: handling of a call --------------------------------------------------------------------------------------


def test_r9_preserve():
    calling = instance(request("A", 2, (1, 3, 1, "preserve"), 1))
    trace = passes(calling, batch(0, A=2), batch(4, A=2))
    assert handlings(trace) == {"A/1": "preserve"}
    refused(calling, batch(0, A=2), batch(1, back={"A": 1}), batch(4, A=2), rule=8, at=1, who="A")
    partial = instance(request("A", 2, (1, 3, 1, "preserve"), 1), partial=True)
    refused(partial, batch(0, A=2), batch(1, back={"A": 1}), batch(4, A=2), rule=9, at=1, who="A")


def test_r9_discard_drops_all_in_the_batch_after():
    requests = request("A", 2, (1, 3, 0, "discard"), 1), request("B", 1, 2)
    discard = instance(*requests, partial=True, evict=True)
    first = batch(0, A=2)
    trace = passes(discard, first, batch(1, drop={"A": 2}, B=1), batch(4, A=3, B=1))
    assert handlings(trace) == {"A/1": "discard"}
    refused(discard, first, batch(1, B=1), batch(4, drop={"A": 2}, A=3, B=1), rule=9, at=1, who="A")
    refused(discard, first, batch(1, drop={"A": 1}, B=1), batch(4, A=2, B=1), rule=9, at=1, who="A")
    refused(discard, first, batch(1, drop={"A": 3}, B=1), batch(4, A=3, B=1), rule=9, at=1, who="A")


def test_r9_swap_leaves_in_the_batch_after():
    requests = request("A", 2, (1, 3, 0, "swap"), 1), request("B", 1, 2)
    swap = instance(*requests, partial=True, evict=True)
    first, last = batch(0, A=2), batch(4, back={"A": 2}, A=1, B=1)
    trace = passes(swap, first, batch(1, out={"A": 2}, B=1), last)
    assert handlings(trace) == {"A/1": "swap"}
    refused(swap, first, batch(1, B=1), last, rule=9, at=1, who="A")
    refused(swap, first, batch(1, out={"A": 1}, B=1), last, rule=9, at=1, who="A")


def test_r9_swap_may_come_back_during_the_call():
    swap = instance(request("A", 2, (1, 9, 0, "swap"), 1), partial=True)
    passes(swap, batch(0, A=2), batch(1, out={"A": 2}, back={"A": 1}), batch(2, back={"A": 1}), batch(10, A=1))


@pytest.mark.parametrize("duration", [0, 3])
def test_r9_a_call_that_has_returned_still_orders_its_move(duration: int):
    """The batch after the start of the call comes when the call is over: dropped or swapped, and at work, in one."""
    start = 1 + duration
    discard = instance(request("A", 2, (1, duration, 1, "discard"), 1), evict=True)
    passes(discard, batch(0, A=2), batch(start, drop={"A": 2}, A=4))
    refused(discard, batch(0, A=2), batch(start, A=2), rule=9, at=1, who="A")
    swap = instance(request("A", 2, (1, duration, 1, "swap"), 1), evict=True)
    trace = passes(swap, batch(0, A=2), batch(start, out={"A": 2}, back={"A": 2}, A=2))
    assert handlings(trace) == {"A/1": "swap"}
    passes(swap, batch(0, A=2), batch(start, out={"A": 2}), batch(start + 1, back={"A": 2}, A=2))
    refused(swap, batch(0, A=2), batch(start, A=2), rule=9, at=1, who="A")


def test_r9_the_batch_after_counts_even_if_another_request_fills_it():
    requests = request("A", 1, (1, 0, 0, "discard"), 1), request("B", 1, 1)
    discard = instance(*requests)
    passes(discard, batch(0, A=1), batch(1, drop={"A": 1}, B=1), batch(2, A=2))
    refused(discard, batch(0, A=1), batch(1, B=1), batch(2, drop={"A": 1}, A=2), rule=9, at=1, who="A")


def test_r9_free_allows_any_move_until_the_next_work():
    """Without `evict`: in the call, after it, and in the batch of the next work; not in the one after that."""
    requests = request("A", 2, (1, 3, 0, "free"), 2), request("B", 1, 4)
    free = instance(*requests)
    for tick in range(1, 6):
        steps = [batch(0, A=2, B=1), *(batch(t, B=1) for t in range(1, 4)), batch(6, A=3), batch(7, A=1)]
        if tick < 4:
            steps[tick] = batch(tick, drop={"A": 2}, B=1)
        else:
            steps[4] = batch(tick, drop={"A": 2}, A=3)
        assert handlings(passes(free, *steps)) == {"A/1": "discard"}
    begin = batch(0, A=2, B=1), batch(4, A=1)
    passes(free, *begin, batch(5, A=1), batch(6, B=1), batch(7, B=1), batch(8, B=1))
    refused(free, *begin, batch(5, drop={"A": 3}, B=1), batch(6, A=4), rule=8, at=2, who="A")


def test_r9_free_handlings_as_reported():
    calling = instance(request("A", 3, (1, 9, 0, "free"), 1), partial=True)
    first = batch(0, A=3)
    cases = {
        "preserve": (batch(10, A=1),),
        "discard": (batch(10, drop={"A": 3}, A=4),),
        "swap": (batch(1, out={"A": 1}), batch(2, out={"A": 2}), batch(10, back={"A": 3}, A=1)),
        "mixed": (batch(1, drop={"A": 1}, out={"A": 2}), batch(10, back={"A": 2}, A=2)),
    }
    for handling, steps in cases.items():
        assert handlings(passes(calling, first, *steps)) == {"A/1": handling}
    some_dropped = batch(10, drop={"A": 1}, A=2)
    some_swapped = batch(1, out={"A": 2}), batch(10, back={"A": 2}, A=1)
    swapped_then_dropped = batch(1, out={"A": 3}), batch(10, drop={"A": 3}, A=4)
    for steps in ((some_dropped,), some_swapped, swapped_then_dropped):
        assert handlings(passes(calling, first, *steps)) == {"A/1": "mixed"}


# --- R10: moves --------------------------------------------------------------------------------------------------


def test_r10_a_move_takes_at_least_one_token_and_no_more_than_are_there():
    requests = request("A", 2, (1, 5, 0, "free"), 1), request("B", 1, 1)
    free = instance(*requests, partial=True)
    first, last = batch(0, A=2), batch(6, A=1)
    for k in (1, 2):
        passes(free, first, batch(1, out={"A": k}), batch(2, back={"A": k}), last, batch(7, B=1))
        passes(free, first, batch(1, drop={"A": k}, B=1), batch(6, A=1 + k))
    for k in (-1, 0, 3):
        refused(free, first, batch(1, out={"A": k}), last, rule=10, at=1, who="A")
        refused(free, first, batch(1, drop={"A": k}, B=1), last, rule=10, at=1, who="A")
        refused(free, first, batch(1, out={"A": 2}), batch(2, back={"A": k}), last, rule=10, at=2, who="A")


def test_r10_a_drop_takes_from_host_and_device():
    free = instance(request("A", 3, (1, 5, 0, "free"), 1), partial=True)
    begin = batch(0, A=3), batch(1, out={"A": 2})
    passes(free, *begin, batch(6, drop={"A": 3}, A=4))
    passes(free, *begin, batch(6, drop={"A": 2}, A=3))
    passes(free, *begin, batch(6, drop={"A": 1}, back={"A": 1}, A=2))
    refused(free, *begin, batch(6, drop={"A": 4}, A=4), rule=10, at=2, who="A")
    refused(free, *begin, batch(6, drop={"A": 1}, back={"A": 2}, A=2), rule=10, at=2, who="A")


@pytest.mark.parametrize("move", ["drop", "out", "back"])
def test_r10_only_requests_that_hold_kv_are_moved(move: str):
    two = instance(request("A", 1, 1), request("B", 1, 1), evict=True, partial=True)
    passes(two, batch(0, A=1), batch(1, B=1))
    refused(two, batch(0, **{move: {"B": 1}}, A=1), batch(1, B=1), rule=10, at=0, who="B")


@pytest.mark.parametrize("what", ["drop", "out", "back", "work"])
def test_r10_an_unknown_request(what: str):
    one = instance(request("A", 1, 1), evict=True)
    bad = batch(0, A=1, X=1) if what == "work" else batch(0, **{what: {"X": 1}}, A=1)
    refused(one, bad, rule=10, at=0, who="X")


def test_r10_a_batch_has_work_or_a_transfer():
    one = instance(request("A", 2, 2), evict=True)
    passes(one, batch(0, A=2), batch(1, out={"A": 2}), batch(2, back={"A": 2}), batch(3, A=1))
    refused(one, batch(0), batch(1, A=2), batch(2, A=1), rule=10, at=0, who=None)
    refused(one, batch(0, A=2), batch(1, drop={"A": 2}), batch(2, A=3), rule=10, at=1, who=None)


# --- R11: completion ---------------------------------------------------------------------------------------------


def test_r11_every_request_is_done_at_the_end():
    one = instance(request("A", 2, (1, 0, 0, "free"), 2))
    steps = batch(0, A=2), batch(1, A=1), batch(2, A=1)
    passes(one, *steps)
    assert "1 tokens" in refused(one, *steps[:2], rule=11, at=2, who="A")
    assert "3 tokens" in refused(one, rule=11, at=0, who="A")


def test_r11_a_prompt_half_processed_is_not_done():
    two = instance(request("A", 1, 1), request("B", 3, 1))
    refused(two, batch(0, A=1, B=2), rule=11, at=1, who="B")


def test_r11_a_call_at_the_end_is_not_done():
    discard = instance(request("A", 1, (1, 0, 0, "discard"), 1))
    refused(discard, batch(0, A=1), rule=11, at=1, who="A")


# --- which rule is named -----------------------------------------------------------------------------------------


def test_the_earliest_batch_counts_and_in_it_the_lowest_rule():
    requests = request("A", 2, 2), request("B", 2, 1, arrival=9)
    tight = instance(*requests, batch_tokens=2)
    several = {"drop": {"X": 1}, "A": 3, "B": 2}  # rules 2 (B), 3 (A), 5 and 10 (X)
    refused(tight, batch(0, **several), rule=2, at=0, who="B")
    refused(tight, batch(-5, **several), rule=1, at=0, who=None)
    refused(tight, batch(9, **several), rule=3, at=0, who="A")
    refused(tight, batch(9, **several | {"A": 2}), rule=5, at=0, who=None)
    refused(tight, batch(9, drop={"X": 1}, A=2), rule=10, at=0, who="X")
    refused(tight, batch(0, A=2), batch(8, A=1, B=2), batch(9, **several), rule=2, at=1, who="B")


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(enabled: bool):
    one = instance(request("A", 1, 1))
    (gc.enable if enabled else gc.disable)()
    try:
        passes(one, batch(0, A=1))
        assert gc.isenabled() == enabled
        refused(one, batch(0, A=2), rule=3, at=0, who="A")
        assert gc.isenabled() == enabled
    finally:
        gc.enable()


# --- boundaries where schedulers err -----------------------------------------------------------------------------


def test_a_prompt_of_one_token_and_one_output():
    trace = passes(instance(request("A", 1, 1), memory=1, batch_tokens=1), batch(0, A=1))
    assert trace.requests[0].completion == 1
    assert trace.batches[0].device_after == 0


def test_a_length_that_is_a_multiple_of_the_block_takes_no_extra_block():
    """Prompt 4 and output 5 end with m = 8: two blocks of 4, never a third (the last token is not processed)."""
    steps = batch(0, A=4), *(batch(t, A=1) for t in range(1, 5))
    trace = passes(instance(request("A", 4, 5), memory=8, block=4), *steps)
    assert [b.device for b in trace.batches] == [4, 8, 8, 8, 8]


def test_evicted_then_resumed():
    """A is dropped with 3 tokens and refills 4: 3 of them for the second time."""
    requests = request("A", 2, 3), request("B", 3, 1)
    steps = batch(0, A=2), batch(1, A=1), batch(2, drop={"A": 3}, B=3), batch(3, A=4)
    trace = passes(instance(*requests, memory=4, evict=True), *steps)
    assert [(s.resident, s.tokens, s.recomputed, s.phase) for s in trace.requests[0].steps] == [
        (0, 2, 0, "prefill"), (2, 1, 0, "decode"), (0, 4, 3, "prefill")]  # fmt: skip
    assert measures(trace)["tokens_recomputed"] == 3


def test_partly_evicted_then_resumed():
    """Blocks of 2: dropping one token of 4 frees nothing, dropping two frees a block; the refill is of 2 + 1."""
    requests = request("A", 4, 2), request("B", 1, 1)
    machine = {"memory": 6, "block": 2, "evict": True, "partial": True}
    steps = batch(0, A=4), batch(1, drop={"A": 2}, B=1), batch(2, A=3)
    trace = passes(instance(*requests, **machine), *steps)
    assert [b.device for b in trace.batches] == [4, 4, 6]
    last = trace.requests[0].steps[-1]
    assert (last.resident, last.tokens, last.recomputed) == (2, 3, 2)
    one = batch(0, A=4), batch(1, drop={"A": 1}, B=1), batch(2, A=2)
    assert [b.device for b in passes(instance(*requests, **machine), *one).batches] == [4, 6, 6]


def test_a_refill_of_one_token_on_top_of_others_is_a_decode():
    """All but the last position evicted and refilled: one missing token with m > 0 is the decode phase."""
    requests = request("A", 3, 2), request("B", 1, 1)
    steps = batch(0, A=2), batch(1, drop={"A": 1}, B=1), batch(2, A=1), batch(3, A=1), batch(4, A=1)
    trace = passes(instance(*requests, evict=True, partial=True), *steps)
    assert [(s.phase, s.recomputed) for s in trace.requests[0].steps] == [
        ("prefill", 0), ("prefill", 1), ("decode", 0), ("decode", 0)]  # fmt: skip


def test_a_request_swapped_out_on_two_levels_comes_back_from_the_front():
    """[0, m) stays on the device and [m, m + h) on the host: what was swapped out last comes back first."""
    swapping = instance(request("A", 4, (1, 9, 0, "free"), 1), partial=True)
    out = batch(0, A=4), batch(1, out={"A": 1}), batch(2, out={"A": 2})
    steps = *out, batch(3, back={"A": 1}), batch(10, back={"A": 2}, A=1)
    trace = passes(swapping, *steps)
    assert [trace.states(j)["A"][1:3] for j in range(1, 6)] == [(4, 0), (3, 1), (1, 3), (2, 2), (0, 0)]


def test_more_batches_than_a_day_has_are_refused(monkeypatch):
    monkeypatch.setattr(rules, "MOST_BATCHES", 100)
    monkeypatch.setattr(decode_stream, "MOST_BATCHES", 100)
    monkeypatch.setattr(decode_stream, "LONGEST", 40)
    alone = instance(request("R1", 1, 100))
    verify_schedule(alone, schedule(alone, batch(0, R1=1).replace(repeat=100)))
    longer = instance(request("R1", 1, 101))
    with pytest.raises(BadInput, match="more than 100 batches are not executed: coarsen the instance"):
        verify_schedule(longer, schedule(longer, batch(0, R1=1).replace(repeat=101)))
    with pytest.raises(BadInput, match="more than 100 batches are not executed"):  # before the first of them
        verify_schedule(longer, schedule(longer, batch(0, R2=1).replace(repeat=101)))
