"""Every clause of the rules R1 to R11: a schedule exactly at the boundary passes, one unit beyond it is refused."""

import gc
import re

import pytest

from kvcore import (
    BadInput,
    CostFunction,
    InvalidSchedule,
    decode_stream,
    handlings,
    rules,
    verify_schedule,
)
from tests.support.build import MOVES, batch, batches_of, instance, request, schedule
from tests.support.second_referee import Outcome, Refusal, execute

Row = tuple[dict[str, object], str, object]
"""What the machine has, a schedule, and what is said of it: None, handlings, or `rule batch request [words]`."""


def passes(instance, *batches):
    assert isinstance(execute(instance, schedule(instance, *batches)), Outcome)
    return verify_schedule(instance, schedule(instance, *batches))


def refused(instance, *batches, rule, at, who):
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


def a(prompt, *segments, **more):
    return request("A", prompt, *segments, **more)


def b(prompt, *segments, **more):
    return request("B", prompt, *segments, **more)


NO, EVICT, PARTIAL, PAUSE, HYBRID = {}, {"evict": True}, {"partial": True}, {"pause": False}, {"hybrid": False}
WHOLE, BOTH = {"chunked": False}, {"evict": True, "partial": True}
ABC = [request(id, 1, 1) for id in "ABC"]
HELD_ON = "0 A3 | 1 >A3 B2 | 2 <A3 | 6 -B2 A1 | 7 B3"
IN_AND_OUT = "0 A2 B2 | 1 >A2 >B2 | 3 <A2 <B2 A1 B1"
CASES = {
    "R1: the first batch starts at 0 or later": ([a(2, 1)], [
        (NO, "0 A2", None), (NO, "7 A2", None), (NO, "-1 A2", "1 0 - time starts at 0")]),
    "R1: a batch starts when the one before ends or later": ([a(3, 2)], [
        ({"cost": (CostFunction(tokens=1),)}, *row) for row in (
            ("0 A3 | 3 A1", None), ("0 A3 | 4 A1", None), ("0 A3 | 2 A1", "1 1 - ends at 3"))]),
    "R1: batches are in order": ([a(1, 1), b(1, 1)], [(NO, "1 A1 | 0 B1", "1 1 -")]),
    "R2: a request works from its arrival on": ([a(1, 1, arrival=3)], [
        (NO, "3 A1", None), (NO, "2 A1", "2 0 A it arrives at 3")]),
    "R2: a request works from the end of its call on": ([a(1, (1, 4, 0, "preserve"), 1)], [
        (NO, "0 A1 | 5 A1", None), (NO, "0 A1 | 4 A1", "2 1 A in a call until 5")]),
    "R2: a call of no time returns at once": ([a(1, (1, 0, 2, "preserve"), 1)], [(NO, "0 A1 | 1 A3", None)]),
    "R2: a request that is done works no more": ([a(1, 1), b(1, 1)], [
        (NO, "0 A1 | 1 B1", None), (NO, "0 A1 | 1 A1 B1", "2 1 A it was done at 1")]),
    "R3: work is at least one token": ([a(1, 1), b(2, 1)], [
        (NO, "0 A1 B1 | 1 B1", None), (NO, "0 A1 B0 | 1 B2", "3 0 B"), (NO, "0 A1 B-1 | 1 B2", "3 0 B")]),
    "R3: work is at most what is known and not processed": ([a(3, 2)], [
        (NO, "0 A3 | 1 A1", None), (NO, "0 A3 | 1 A2", "3 1 A"),
        (NO, "0 A4 | 1 A1", "3 0 A it processes 4 tokens, 3 are to be processed$")]),
    "R3: without chunks a prefill is whole": ([a(3, 1)], [
        (NO, "0 A2 | 1 A1", None), (WHOLE, "0 A3", None),
        (WHOLE, "0 A2 | 1 A1", "3 0 A 3 are to be processed, all of them without chunked prefills$")]),
    "R3: without chunks a refill is whole": ([a(2, (1, 1, 2, "discard"), 1)], [
        (WHOLE, "0 A2 | 2 -A2 A5", None), (WHOLE, "0 A2 | 2 -A2 A4 | 3 A1", "3 1 A")]),
    "R4: a request works only with nothing on the host": ([a(3, (1, 1, 0, "swap"), 1)], [
        (PARTIAL, f"0 A3 | 1 >A3 | {then}", said) for then, said in (
            ("2 <A3 A1", None), ("2 <A2 | 3 <A1 A1", None), ("2 <A2 A2", "4 2 A"), ("2 A4", "4 2 A"))]),
    "R4: a request does not work where its KV is evicted": ([a(2, 2)], [
        (BOTH, "0 A2 | 1 -A1 A1", "4 1 A"), (BOTH, "0 A2 | 1 >A1 A1", "4 1 A")]),
    "R4: with drop_and_work it does where its KV is dropped": ([a(2, 2), b(1, 1)], [
        *((BOTH | {"drop_and_work": True}, text, said) for text, said in (
            ("0 A2 | 1 -A1 A2 | 2 B1", None), ("0 A2 | 1 -A2 A3 B1", None), ("0 A2 | 1 -A1 A1 B1 | 2 A1", None),
            ("0 A2 | 1 >A1 A1", "4 1 A"), ("0 A2 | 1 -A1 A3", "3 1 A"))),
        ({"drop_and_work": True}, "0 A2 | 1 -A2 A3 B1", "8 1 A")]),
    "R4: others do": ([a(2, 2), b(1, 1)], [
        (BOTH, "0 A2 | 1 -A1 B1 | 2 A2", None), (BOTH, "0 A2 | 1 >A1 B1 | 2 <A1 A1", None)]),
    "R4: an eviction that is brought back at once still forbids work": ([a(2, 2)], [
        (EVICT, "0 A2 | 1 >A2 <A2 A1", "4 1 A")]),
    **{f"R4: moves that R9 allows or orders do not forbid work, {how}": ([a(2, (1, 1, 0, how), 1)], [
        (NO, text, None)]) for how, text in (
            ("discard", "0 A2 | 2 -A2 A3"), ("free", "0 A2 | 2 -A2 A3"), ("swap", "0 A2 | 2 >A2 <A2 A1"))},
    "R4: moves that R9 allows, a free swap": ([a(2, (1, 1, 0, "free"), 1)], [(NO, "0 A2 | 2 >A2 <A2 A1", None)]),
    "R5: batch_tokens": ([a(3, 1), b(2, 1)], [
        ({"batch_tokens": 5}, "0 A3 B2", None), ({"batch_tokens": 4}, "0 A3 B2", "5 0 -")]),
    "R5: prefill_tokens do not count decodes": ([a(1, 2), b(3, 1)], [
        ({"batch_tokens": 4, "prefill_tokens": most}, "0 A1 | 1 A1 B3", said) for most, said in (
            (3, None), (2, "5 1 -"))]),
    "R5: a refill is a prefill": ([a(2, (1, 0, 0, "discard"), 1)], [
        ({"prefill_tokens": 3}, "0 A2 | 1 -A2 A3", None), ({"prefill_tokens": 2}, "0 A2 | 1 -A2 A3", "5 1 -")]),
    "R5: returned tokens are prefills": ([a(2, (1, 0, 2, "preserve"), 1)], [
        ({"prefill_tokens": 3}, "0 A2 | 1 A3", None), ({"prefill_tokens": 2}, "0 A2 | 1 A3", "5 1 -")]),
    # the phase depends on the state alone: m > 0 and one token missing is a decode
    "R5: the last token of a prompt in chunks counts as a decode": ([a(3, 1), b(2, 1)], [
        ({"prefill_tokens": 2}, "0 A2 | 1 A1 B2", None), (HYBRID, "0 A2 | 1 A1 B2", "5 1 -")]),
    "R5: batch_requests": (ABC, [
        ({"batch_requests": 3}, "0 A1 B1 C1", None), ({"batch_requests": 2}, "0 A1 B1 C1", "5 0 -")]),
    "R5: without hybrid one phase only": ([a(1, 2), b(1, 2)], [
        (NO, "0 A1 | 1 A1 B1 | 2 B1", None), (HYBRID, "0 A1 B1 | 1 A1 B1", None),
        (HYBRID, "0 A1 | 1 A1 B1 | 2 B1", "5 1 -")]),
    "R5: a call that returns nothing goes on as a decode": ([a(1, (1, 0, 0, "preserve"), 1), b(1, 2)], [
        (HYBRID, "0 A1 B1 | 1 A1 B1", None)]),
    "R5: and one whose KV was dropped does not": ([a(1, (1, 0, 0, "discard"), 1), b(1, 2)], [
        (HYBRID, "0 A1 B1 | 1 -A1 A2 B1", "5 1 -")]),
    "R5: without pause who worked works on": ([a(2, 2), b(1, 1)], [
        (NO, "0 A2 | 1 B1 | 2 A1", None), (PAUSE, "0 A2 | 1 B1 | 2 A1", "5 1 A"),
        (PAUSE, "0 A1 | 1 B1 | 2 A1 | 3 A1", "5 1 A")]),
    "R5: without pause a gap in time is no pause": ([a(2, 2)], [(PAUSE, "0 A2 | 9 A1", None)]),
    "R5: without pause one whose segment ended may wait": ([a(1, (1, 0, 0, "preserve"), 2), b(1, 1)], [
        (PAUSE, "0 A1 | 1 B1 | 2 A1 | 3 A1", None)]),
    "R5: without pause one that is evicted may wait": ([a(2, 2), b(1, 2)], [
        (PAUSE | EVICT, f"0 A2 | 1 {move} B1 | 2 {last} B1", said) for move, last, said in (
            ("-A2", "A3", None), ("", "A3", "5 1 A"), (">A2", "<A2 A1", None), ("", "<A2 A1", "5 1 A"))]),
    "R5, R8, R10: a move of less than one token takes no KV": ([a(2, 2), b(1, 1)], [
        (PAUSE | PARTIAL | {"evict": evict}, f"0 A2 | 1 {move}A{tokens} {work}", f"{rule} 1 A")
        for move in "->" for tokens in (0, -1) for evict in (False, True)
        for work, rule in (("B1", 5), ("A1", 10 if evict else 8))]),
    "R6: memory is exactly full": ([a(2, 2), b(3, 2)], [
        ({"memory": 7}, "0 A2 B3 | 1 A1 B1", None), ({"memory": 6}, "0 A2 B3 | 1 A1 B1", "6 1 -")]),
    # lengths 4 and 4 fill two blocks of 4 exactly; the next token of each needs a third and a fourth
    "R6: whole blocks are counted": ([a(4, 1), b(4, 1)], [
        ({"memory": memory, "block": 4}, "0 A4 B4", None) for memory in (8, 11)]),
    "R6: a token more takes a block": ([a(4, 2), b(4, 1)], [
        ({"memory": memory, "block": 4}, "0 A4 | 1 A1 B4", said) for memory, said in ((12, None), (11, "6 1 -"))]),
    "R6: a token takes a block": (ABC, [({"memory": 8, "block": 4}, "0 A1 B1 C1", "6 0 -")]),
    # what is dropped makes room in the same batch; what a completion frees makes room only in the next
    "R6: after the moves and before the end": ([a(3, 2), b(4, 1)], [
        (EVICT | {"memory": 4}, f"0 A3 | {then}", said) for then, said in (
            ("1 -A3 B4 | 2 A4", None), ("1 A1 | 2 B4", None), ("1 A1 B1 | 2 B3", "6 1 -"))]),
    "R6: KV that is swapped in": ([a(3, (1, 5, 0, "swap"), 1), b(3, 1)], [
        (EVICT | {"memory": 5}, HELD_ON, None), (EVICT | {"memory": 4}, HELD_ON, "6 2 -")]),
    "R6: KV held in a call": ([a(3, (1, 5, 0, "preserve"), 1), b(3, 1)], [
        ({"memory": 6}, "0 A3 | 1 B3 | 6 A1", None), ({"memory": 5}, "0 A3 | 1 B3 | 6 A1", "6 1 -")]),
    "R7: host memory is exactly full": ([a(2, (1, 2, 0, "free"), 1), b(2, (1, 2, 0, "free"), 1)], [
        ({"host_memory": 4}, IN_AND_OUT, None), ({"host_memory": 3}, IN_AND_OUT, "7 1 -")]),
    # A leaves the host (brought back, or dropped there) in the batch in which B goes there
    "R7: after all moves": ([a(2, (1, 0, 0, "free"), 1), b(2, (1, 3, 0, "free"), 1)], [
        ({"host_memory": 2}, f"0 A2 | 1 >A2 B2 | 2 >B2 {then}", said) for then, said in (
            ("<A2 A1 | 5 <B2 B1", None), ("-A2 A3 | 5 <B2 B1", None), ("", "7 2 -"))]),
    "R8: an eviction outside calls needs evict": ([a(2, 2), b(1, 1)], [
        (machine, f"0 A2 | 1 {moved}", said) for moved in ("-A2 B1 | 2 A3", ">A2 B1 | 2 <A2 A1")
        for machine, said in ((EVICT, None), (NO, "8 1 A"))]),
    "R8: without partial a move takes all": ([a(3, 2), b(1, 1)], [
        *((machine, f"0 A3 | 1 {moved}", said)
          for moved, at in (("-A2 B1 | 2 A3", 1), (">A2 B1 | 2 <A2 A1", 1), (">A3 B1 | 2 <A2 | 3 <A1 A1", 2))
          for machine, said in ((BOTH, None), (EVICT, f"8 {at} A"))),
        (EVICT, "0 A3 | 1 -A3 B1 | 2 A4", None)]),
    "R8: without partial, in free calls too": ([a(3, (1, 1, 0, "free"), 1)], [
        (PARTIAL, "0 A3 | 2 -A2 A3", None), (NO, "0 A3 | 2 -A2 A3", "8 1 A")]),
    "R8: no eviction during a preserved call": ([a(2, (1, 3, 0, "preserve"), 1), b(1, 1)], [
        (machine, f"0 A2 | {tick} {move} B1 | 5 {last}", said)
        for move, last in (("-A2", "A3"), (">A2", "<A2 A1"))
        for machine, tick, said in ((EVICT, 3, "8 1 A"), (EVICT, 4, None), (NO, 4, "8 1 A"))]),
    "R8: after an ordered swap only swap in follows until the return": ([a(2, (1, 4, 0, "swap"), 1)], [
        (EVICT, f"0 A2 | 1 >A2 | 2 <A2 | {then}", said) for then, said in (
            ("5 A1", None), ("3 -A2 | 5 A1", "8 3 A"), ("3 >A2 <A2 | 5 A1", "8 3 A"))]),
    "R8: a swap is not the ordered drop": ([a(2, (1, 4, 0, "discard"), 1)], [(EVICT, "0 A2 | 1 >A2", "8 1 A")]),
    "R8: a drop is not the ordered swap": ([a(2, (1, 4, 0, "swap"), 1), b(1, 1)], [
        (EVICT, "0 A2 | 1 -A2 B1", "8 1 A")]),
    "R9: preserve": ([a(2, (1, 3, 1, "preserve"), 1)], [
        (NO, "0 A2 | 4 A2", "preserve"), (NO, "0 A2 | 1 <A1 | 4 A2", "8 1 A"),
        (PARTIAL, "0 A2 | 1 <A1 | 4 A2", "9 1 A")]),
    "R9: discard drops all in the batch after": ([a(2, (1, 3, 0, "discard"), 1), b(1, 2)], [
        (BOTH, f"0 A2 | 1 {then} B1", said) for then, said in (
            ("-A2 B1 | 4 A3", "discard"), ("B1 | 4 -A2 A3", "9 1 A"), ("-A1 B1 | 4 A2", "9 1 A"),
            ("-A3 B1 | 4 A3", "9 1 A"))]),
    "R9: swap leaves in the batch after": ([a(2, (1, 3, 0, "swap"), 1), b(1, 2)], [
        (BOTH, f"0 A2 | 1 {move} B1 | 4 <A2 A1 B1", said) for move, said in (
            (">A2", "swap"), ("", "9 1 A"), (">A1", "9 1 A"))]),
    "R9: swapped KV may come back during the call": ([a(2, (1, 9, 0, "swap"), 1)], [
        (PARTIAL, "0 A2 | 1 >A2 <A1 | 2 <A1 | 10 A1", None)]),
    # the batch after the start of the call comes when the call is over: dropped or swapped, and at work, in one
    **{f"R9: a call of {d} ticks that has returned still orders its drop": ([a(2, (1, d, 1, "discard"), 1)], [
        (EVICT, f"0 A2 | {1 + d} -A2 A4", None), (EVICT, f"0 A2 | {1 + d} A2", "9 1 A")]) for d in (0, 3)},
    **{f"R9: a call of {d} ticks that has returned still orders its swap": ([a(2, (1, d, 1, "swap"), 1)], [
        (EVICT, f"0 A2 | {1 + d} >A2 <A2 A2", "swap"), (EVICT, f"0 A2 | {1 + d} >A2 | {2 + d} <A2 A2", None),
        (EVICT, f"0 A2 | {1 + d} A2", "9 1 A")]) for d in (0, 3)},
    "R9: the batch after counts even if another request fills it": ([a(1, (1, 0, 0, "discard"), 1), b(1, 1)], [
        (NO, "0 A1 | 1 -A1 B1 | 2 A2", None), (NO, "0 A1 | 1 B1 | 2 -A1 A2", "9 1 A")]),
    # without `evict`: in the call, after it, and in the batch of the next work; not in the one after that
    "R9: free allows any move until the next work": ([a(2, (1, 3, 0, "free"), 2), b(1, 4)], [
        *((NO, "0 A2 B1 | 1 B1 | 2 B1 | 3 B1 | 6 A3 | 7 A1".replace(f"| {tick} B1", f"| {tick} -A2 B1"), "discard")
          for tick in (1, 2, 3)),
        *((NO, f"0 A2 B1 | 1 B1 | 2 B1 | 3 B1 | {tick} -A2 A3 | 7 A1", "discard") for tick in (4, 5)),
        (NO, "0 A2 B1 | 4 A1 | 5 A1 | 6 B1 | 7 B1 | 8 B1", None),
        (NO, "0 A2 B1 | 4 A1 | 5 -A3 B1 | 6 A4", "8 2 A")]),
    "R9: free handlings as reported": ([a(3, (1, 9, 0, "free"), 1)], [
        (PARTIAL, f"0 A3 | {then}", how) for then, how in (
            ("10 A1", "preserve"), ("10 -A3 A4", "discard"), ("1 >A1 | 2 >A2 | 10 <A3 A1", "swap"),
            ("1 -A1 >A2 | 10 <A2 A2", "mixed"), ("10 -A1 A2", "mixed"), ("1 >A2 | 10 <A2 A1", "mixed"),
            ("1 >A3 | 10 -A3 A4", "mixed"))]),
    "R10: a move takes a token or more, and those that are there": ([a(2, (1, 5, 0, "free"), 1), b(1, 1)], [
        *((PARTIAL, f"0 A2 | 1 {then}", None) for k in (1, 2)
          for then in (f">A{k} | 2 <A{k} | 6 A1 | 7 B1", f"-A{k} B1 | 6 A{1 + k}")),
        *((PARTIAL, f"0 A2 | 1 {then} | 6 A1", f"10 {at} A") for k in (-1, 0, 3)
          for then, at in ((f">A{k}", 1), (f"-A{k} B1", 1), (f">A2 | 2 <A{k}", 2)))]),
    "R10: a drop takes from host and device": ([a(3, (1, 5, 0, "free"), 1)], [
        (PARTIAL, f"0 A3 | 1 >A2 | 6 {then}", said) for then, said in (
            ("-A3 A4", None), ("-A2 A3", None), ("-A1 <A1 A2", None), ("-A4 A4", "10 2 A"),
            ("-A1 <A2 A2", "10 2 A"))]),
    "R10: only requests that hold KV are moved": ([a(1, 1), b(1, 1)], [
        (BOTH, "0 A1 | 1 B1", None), *((BOTH, f"0 {move}B1 A1 | 1 B1", "10 0 B") for move in "-<>")]),
    "R10: an unknown request": ([a(1, 1)], [(EVICT, f"0 {what}X1 A1", "10 0 X") for what in MOVES]),
    "R10: a batch has work or a transfer": ([a(2, 2)], [
        (EVICT, "0 A2 | 1 >A2 | 2 <A2 | 3 A1", None), (EVICT, "0 | 1 A2 | 2 A1", "10 0 -"),
        (EVICT, "0 A2 | 1 -A2 | 2 A3", "10 1 -")]),
    "R11: every request is done at the end": ([a(2, (1, 0, 0, "free"), 2)], [
        (NO, "0 A2 | 1 A1 | 2 A1", None), (NO, "0 A2 | 1 A1", "11 2 A 1 tokens"), (NO, "", "11 0 A 3 tokens")]),
    "R11: a prompt half processed is not done": ([a(1, 1), b(3, 1)], [(NO, "0 A1 B2", "11 1 B")]),
    "R11: a call at the end is not done": ([a(1, (1, 0, 0, "discard"), 1)], [(NO, "0 A1", "11 1 A")]),
    # where schedulers err
    "a prompt of one token and one output": ([a(1, 1)], [({"memory": 1, "batch_tokens": 1}, "0 A1", None)]),
    "a length that is a multiple of the block takes no extra one: the last token is not processed": ([a(4, 5)], [
        ({"memory": 8, "block": 4}, "0 A4 | 1 A1 | 2 A1 | 3 A1 | 4 A1", None)]),
    "who was evicted refills all that it knows": ([a(2, 3), b(3, 1)], [
        (EVICT | {"memory": 4}, "0 A2 | 1 A1 | 2 -A3 B3 | 3 A4", None)]),
    "who was swapped out in two parts comes back in others": ([a(4, (1, 9, 0, "free"), 1)], [
        (PARTIAL, "0 A4 | 1 >A1 | 2 >A2 | 3 <A1 | 10 <A2 A1", "mixed")]),
    "the earliest batch counts, and in it the lowest rule": ([a(2, 2), b(2, 1, arrival=9)], [
        ({"batch_tokens": 2}, text, said) for text, said in (
            ("0 -X1 A3 B2", "2 0 B"), ("-5 -X1 A3 B2", "1 0 -"), ("9 -X1 A3 B2", "3 0 A"), ("9 -X1 A2 B2", "5 0 -"),
            ("9 -X1 A2", "10 0 X"), ("0 A2 | 8 A1 B2 | 9 -X1 A3 B2", "2 1 B"))]),
}  # fmt: skip


@pytest.mark.parametrize("clause", CASES)
def test_a_clause(clause):
    requests, rows = CASES[clause]
    for machine, text, said in rows:
        made, steps = instance(*requests, **machine), batches_of(text)
        if said is None or not said[0].isdigit():
            trace = passes(made, *steps)
            assert said is None or handlings(trace) == {"A/1": said}
            continue
        rule, at, who, words = (*said.split(" ", 3), "")[:4]
        assert re.search(words, refused(made, *steps, rule=int(rule), at=int(at), who=None if who == "-" else who))


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(enabled):
    one = instance(request("A", 1, 1))
    (gc.enable if enabled else gc.disable)()
    try:
        passes(one, batch(0, A=1))
        assert gc.isenabled() == enabled
        refused(one, batch(0, A=2), rule=3, at=0, who="A")
        assert gc.isenabled() == enabled
    finally:
        gc.enable()


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
