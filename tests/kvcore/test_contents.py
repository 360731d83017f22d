"""Prefixes that requests share: one spelling, R12 and R6, measures, and the optimum of tiny instances."""

import json
import random
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from gpu_validation.plan import make_plan
from kvbound import tables
from kvbound.explanation import explain, first_difference
from kvbound.instance_text import facts_in_words, request_cells
from kvbound.option_graph import request_graph
from kvbound.trace_events import trace_events
from kvbound.units import units_of
from kvbound.waste import wasted_cells
from kvcore import (  # fmt: skip
    BadInput,
    Batch,
    CostFunction,
    Instance,
    InvalidSchedule,
    Machine,
    Trace,
    measures,
    objective_value,
    verify_schedule,
)
from kvcore.account import Waste, memory_waste
from kvcore.cost import Cost
from kvcore.metrics import OBJECTIVES
from kvcore.schedule import Schedule
from kvcore.stream import sizes_of
from library import check
from tests.support.build import instance, request, schedule
from tests.support.contents import TREE, mutate, nodes, shared, with_contents
from tests.support.drawer import PROFILES, tiny_instance
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import ALL, few
from tests.support.second_referee import World
from workloads.coarsen import coarsen

THREE = shared(
    request("R1", 7, 1, path=("tools", 1)), request("R2", 6, 2, path=("system", 2)),
    request("R3", 7, 2, arrival=3, path=("question", 1)), memory=12, block=2, evict=True, partial=True,
)  # fmt: skip


# --- one spelling ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("rows", "paths"),
    [
        (TREE[::-1], ("tools", "system", "question")),
        ((*TREE, ("unused", "tools", 3)), ("tools", "system", "question")),
        ((("system", None, 1), ("rest", "system", 1), ("tools", "rest", 1), ("question", "rest", 9)),
         ("tools", "rest", "question")),
        ((*TREE, ("next", "system", 7)), ("tools", ("next", 0), "question")),
    ],
    ids=["another order", "an unused node", "a run in parts, and too long", "a path of no block of a node"],
)  # fmt: skip
def test_each_spelling_is_read_and_one_is_kept(rows: tuple[Any, ...], paths: tuple[Any, ...]) -> None:
    size = {id: 1 if id == "question" else blocks for id, _, blocks in rows}
    ends = [(path, size[path]) if isinstance(path, str) else path for path in paths]
    requests = tuple(each.replace(path=end) for each, end in zip(THREE.requests, ends, strict=True))
    other = THREE.replace(contents=nodes(*rows), requests=requests)
    assert (other, other.sha256) == (THREE, THREE.sha256)
    assert Instance.model_validate_json(other.to_json()) == THREE
    assert [node.id for node in other.contents] == ["system", "tools", "question"]


def test_a_node_goes_on_past_the_end_of_a_path_where_no_path_branches() -> None:
    rows = ("a", None, 1), ("b", "a", 1), ("c", "b", 1)
    made = shared(request("R1", 3, 1, path=("a", 1)), request("R2", 3, 1, path=("c", 1)), tree=rows)
    assert made.contents == nodes(("a", None, 3))
    assert [each.path for each in made.requests] == [("a", 1), ("a", 3)]


def test_nothing_of_it_is_written_without_contents() -> None:
    plain = instance(request("R1", 3, 1))
    unused = plain.replace(contents=nodes(("a", None, 3)), version=2)
    assert (unused, unused.sha256, unused.version) == (plain, plain.sha256, 1)
    assert not {"contents", "path", "same_batch", "drop_and_work", "forget", "reuse"} & {
        *plain.model_dump(), *plain.model_dump()["machine"], *plain.model_dump()["requests"][0],
        *Batch(start=0).model_dump(),
    }  # fmt: skip
    assert THREE.version == 2


@pytest.mark.parametrize(("rows", "path", "error"), [
    ((("a", None, 1), ("a", None, 2)), ("a", 1), "two nodes of contents have the id a"),
    ((("a", "b", 1), ("b", "a", 1)), ("a", 1), "the parents of node a form a circle"),
    ((("a", "b", 1),), ("a", 1), "node a: no node has the id b of its parent"),
    ((("a", None, 1),), ("b", 1), "request R1: its path ends in node b, which contents lack"),
    ((("a", None, 1),), ("a", 2), "request R1: its path takes 2 blocks of node a, which has 1"),
    ((("a", None, 9),), ("a", 4), "request R1: its path has 8 tokens, more than its peak of 7; a path takes at"),
])  # fmt: skip
def test_what_is_wrong_with_contents(rows: tuple[Any, ...], path: tuple[str, int], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        shared(request("R1", 7, 1, path=path), tree=rows, block=2)


def test_same_batch_takes_contents() -> None:
    with pytest.raises(ValueError, match="same_batch is false, which takes contents on the path of a request"):
        Instance(machine=Machine(memory=None, same_batch=False), cost=Cost.unit(), requests=(request("R1", 3, 1),))


# --- R6 and R12 ------------------------------------------------------------------------------------------------------
def verdict(on: Instance, *batches: Batch) -> Trace:
    trace = verify_schedule(on, schedule(on, *batches))
    assert verify_schedule(on, schedule(on, *batches), plain=True).runs == trace.runs or on is not THREE
    return trace


FIRST = Batch(start=0, work={"R1": 7})
SECOND = Batch(start=7, work={"R3": 3, "R2": 2}, reuse={"R3": 4, "R2": 4})
LAST = Batch(start=12, work={"R3": 1, "R2": 1}, forget={"tools": 1})


def test_three_requests_on_a_tree() -> None:
    trace = verdict(THREE, FIRST, SECOND, LAST)
    assert [(batch.device, batch.device_after) for batch in trace.batches] == [(8, 6), (12, 12), (12, 6)]
    assert objective_value(trace, "makespan") == 14
    found = measures(trace)
    assert (found["tokens_processed"], found["tokens_reused"], found["tokens_recomputed"]) == (14, 8, 0)
    # tools, 2 tokens, are retained in the second batch
    assert memory_waste(trace) == Waste(retained=2 * 5)
    assert found["waste"] == {"calls": 0, "queued": 0, "transfer": 0, "recomputation": 0, "retained": 10, "total": 10}
    later = verdict(THREE, FIRST, SECOND.replace(start=10), LAST.replace(start=15))
    assert memory_waste(later).retained == 2 * 5 + 6 * 3
    assert "retained=28" in repr(memory_waste(later))


def test_memory_counts_a_shared_block_once() -> None:
    refused(THREE, FIRST, SECOND, LAST.replace(forget={}), rule=6, at=2, says="occupy 7 blocks of 2 = 14, memory is 12")


def refused(on: Instance, *batches: Batch, rule: int, at: int, says: str) -> None:
    for plain in (False, True):
        with pytest.raises(InvalidSchedule, match=says) as caught:
            verify_schedule(on, schedule(on, *batches), plain=plain)
        assert (caught.value.rule, caught.value.batch) == (rule, at)


@pytest.mark.parametrize(("forgotten", "says"), [
    ({"tools": 2}, "forget of 2 blocks of node tools, 1 are resident"),
    ({"tools": 0}, "forget of 0 blocks of node tools, 1 are resident"),
    ({"question": 1}, "forget leaves 0 blocks of node question, requests hold 1"),
    ({"system": 1}, "forget leaves 1 blocks of node system, requests hold 2"),
    ({"tools": 1, "system": 1}, "forget leaves 1 blocks of node system, requests hold 2"),
])  # fmt: skip
def test_r12_forget(forgotten: dict[str, int], says: str) -> None:
    roomy = THREE.replace(machine=THREE.machine.replace(memory=14))
    refused(roomy, FIRST, SECOND, LAST.replace(forget=forgotten), rule=12, at=2, says=says)


def test_r12_all_forgets_are_one_move_and_none_leaves_a_gap() -> None:
    again = Batch(start=7, work={"R3": 7}), Batch(start=14, work={"R3": 1, "R2": 2}, reuse={"R2": 4})
    end = Batch(start=17, work={"R2": 1})
    verdict(THREE, FIRST, again[0].replace(forget={"system": 2, "tools": 1}), again[1], end)
    says = "forget leaves 1 of 2 blocks of node system, and node tools is resident"
    refused(THREE, FIRST, again[0].replace(forget={"system": 1}), *again[1:], rule=12, at=1, says=says)


def test_unknown_nodes_and_a_batch_of_forgets_alone_break_r10() -> None:
    refused(THREE, FIRST, SECOND.replace(forget={"essay": 1}), rule=10, at=1, says="the instance has no node essay")
    alone = Batch(start=7, forget={"tools": 1})
    refused(THREE, FIRST, alone, rule=10, at=1, says="neither work nor a transfer")
    nobody = SECOND.replace(reuse={"R9": 4})
    refused(THREE, FIRST, nobody, rule=10, at=1, says="reuse: the instance has no such request")


@pytest.mark.parametrize(("work", "reuse", "says"), [
    ({"R2": 2}, {"R3": 4, "R2": 4}, "request R3: reuse without work"),
    ({"R3": 1}, {"R3": 6}, "reuse up to token 6, for which blocks of node question are not resident"),
    ({"R3": 4}, {"R3": 3}, "reuse of 3 tokens up to token 3; it ends at a multiple of 2 up to 6"),
    ({"R3": 7}, {"R3": 0}, "reuse of 0 tokens up to token 0; it ends at a multiple of 2 up to 6"),
    ({"R2": 1}, {"R2": 6}, "reuse of 6 tokens up to token 6; it ends at a multiple of 2 up to 4"),
])  # fmt: skip
def test_r12_reuse(work: dict[str, int], reuse: dict[str, int], says: str) -> None:
    lazy = THREE.replace(requests=(*THREE.requests[:1], request("R2", 7, 1, path=("system", 2)), THREE.requests[2]))
    refused(lazy, FIRST, Batch(start=7, work=work, reuse=reuse), rule=12, at=1, says=says)


def test_r12_the_token_that_generates_is_processed() -> None:
    pair = shared(*(request(id, 2, 1, path=("a", 2)) for id in ("A", "B")), tree=(("a", None, 2),))
    first = Batch(start=0, work={"A": 2})
    verdict(pair, first, Batch(start=2, work={"B": 1}, reuse={"B": 1}))  # a decode
    refused(pair, first, Batch(start=2, work={"B": 1}, reuse={"B": 2}), rule=3, at=1, says="0 are to be processed")


def test_blocks_of_the_same_batch_are_reused_only_where_the_machine_says_so() -> None:
    chain = shared(*(request(f"R{k}", k + 3, 1, path=("a", k + 2)) for k in range(3)), tree=(("a", None, 9),))
    once = Batch(start=0, work={"R0": 3, "R1": 2, "R2": 2}, reuse={"R1": 2, "R2": 3})
    assert verdict(chain, once).batches[0].device == 4 + 3  # the path of R2, and the last token of each
    apart = chain.replace(machine=chain.machine.replace(same_batch=False))
    refused(apart, once, rule=12, at=0, says="request R1: reuse up to token 2, for which blocks of node a are not")
    # nobody computes what two would reuse from each other
    none = Batch(start=0, work={"R1": 2, "R2": 3}, reuse={"R1": 2, "R2": 2})
    refused(chain, none, rule=12, at=0, says="reuse up to token 2, for which blocks of node a are not resident")


def test_two_that_compute_a_block_both_pay_and_memory_counts_it_once() -> None:
    pair = shared(*(request(id, 3, 1, path=("a", 2)) for id in ("A", "B")), tree=(("a", None, 2),), memory=4)
    trace = verdict(pair, Batch(start=0, work={"A": 3, "B": 3}))
    assert (trace.batches[0].duration, trace.batches[0].device, trace.batches[0].device_after) == (6, 4, 2)


def test_what_a_swap_in_completes_can_be_reused_in_its_batch() -> None:
    on = shared(
        request("R0", 3, (1, 10, 0, "swap"), 1, path=("a", 2)), request("R1", 3, 1, arrival=16, path=("a", 2)),
        request("R2", 6, 1, arrival=7), tree=(("a", None, 2),), memory=6, host_memory=8, chunked=False,
        cost=(CostFunction(busy=3, tokens=1),),
    )  # fmt: skip
    best, found = exhaustive_optimum(on, "total-flow-time")
    assert best == 35
    assert found.batches[-1].swap_in == {"R0": 3}
    assert found.batches[-1].reuse == {"R1": 2}


def test_reuse_needs_work_even_where_a_swap_would_gain() -> None:
    on = shared(
        request("R0", 4, 1, path=("a", 3)), request("R1", 4, 3, path=("a", 3)), request("R2", 6, 1),
        tree=(("a", None, 3),), memory=6, host_memory=6, batch_requests=1, chunked=False, evict=True,
        cost=(CostFunction(busy=5, tokens=2),),
    )  # fmt: skip
    assert exhaustive_optimum(on, "total-flow-time")[0] == 98  # 94 if R1 could take the prefix to the host


def test_a_request_that_forgot_to_dodge_a_hit() -> None:
    """A decode on 3 tokens costs more than a prefill of 2 on 2: R1 drops a block, so that R0 computes it."""
    requests = request("R0", 2, (1, 1, 1, "preserve"), 1, path=("a", 3)), request("R1", 4, 2, path=("a", 3))
    on = shared(*requests, tree=(("a", None, 3),), memory=8, evict=True, partial=True,
                cost=(CostFunction(tokens=1, decode_kv=1),))  # fmt: skip
    assert exhaustive_optimum(on, "total-flow-time")[0] == 14


def test_an_optimum_idles_to_keep_a_prefix() -> None:
    """At 3, A is done and B waits: to run it would cost C and D the prefix."""
    on = shared(
        request("A", 3, 1, path=("xy", 2)), request("B", 3, 1, arrival=3),
        request("C", 3, 1, arrival=4, path=("xy", 2)), request("D", 3, 1, arrival=5, path=("xy", 2)),
        tree=(("xy", None, 2),), memory=3, batch_requests=1,
    )  # fmt: skip
    best, found = exhaustive_optimum(on, "total-flow-time")
    assert (best, [batch.start for batch in found.batches]) == (11, [0, 4, 5, 6])


def test_a_discarded_call_reuses_its_own_blocks_and_an_eviction_does_not_in_its_batch() -> None:
    calls = shared(request("R0", 3, (1, 0, 1, "discard"), 1, path=("a", 4)), tree=(("a", None, 4),), evict=True)
    first = Batch(start=0, work={"R0": 3})
    trace = verdict(calls, first, Batch(start=3, drop={"R0": 3}, work={"R0": 2}, reuse={"R0": 3}))
    assert (trace.requests[0].calls[0].handling, objective_value(trace, "makespan")) == ("discard", 5)
    assert measures(trace)["tokens_recomputed"] == 0
    evicted = shared(request("R0", 3, 2, path=("a", 3)), request("R1", 1, 1), tree=(("a", None, 3),), evict=True)
    again = Batch(start=3, drop={"R0": 3}, work={"R0": 1}, reuse={"R0": 3})
    refused(evicted, first, again, rule=4, at=1, says="a drop takes KV of it in the same batch")
    verdict(evicted, first, Batch(start=3, drop={"R0": 3}, work={"R1": 1}), again.replace(start=4, drop={}))


def test_tokens_that_a_request_reused_and_then_computes_are_not_recomputed() -> None:
    on = shared(request("R0", 2, 1, path=("a", 2)), request("R1", 4, 2, path=("a", 2)), request("R2", 5, 1),
                tree=(("a", None, 2),), memory=5, evict=True)  # fmt: skip
    start = Batch(start=0, work={"R0": 2}), Batch(start=2, work={"R1": 1}, reuse={"R1": 2})
    all_goes = Batch(start=3, drop={"R1": 3}, forget={"a": 2}, work={"R2": 5})
    trace = verdict(on, *start, all_goes, Batch(start=9, work={"R1": 4}), Batch(start=13, work={"R1": 1}))
    assert [step.recomputed for step in trace.requests[1].steps] == [0, 1, 0]  # the third token alone


def test_dropping_half_a_shared_block_takes_memory() -> None:
    on = shared(request("R0", 4, 1, path=("a", 2)), request("R1", 1, 1), tree=(("a", None, 2),), block=2, evict=True,
                partial=True, memory=6)  # fmt: skip
    trace = verdict(on, Batch(start=0, work={"R0": 3}), Batch(start=3, drop={"R0": 2}, work={"R1": 1}),
                    Batch(start=4, work={"R0": 3}))  # fmt: skip
    assert [batch.device for batch in trace.batches] == [4, 6, 4]  # block 0 twice: resident, and half of it private


# --- random tiny instances -------------------------------------------------------------------------------------------
def drawn(seed: int) -> Instance:
    profile = [*PROFILES.values()][seed % len(PROFILES)] | {"requests": 2, "memory": ("largest", "largest", "between")}
    return with_contents(random.Random(seed), tiny_instance(seed, **profile))


def test_optima_share_and_the_referee_agrees_with_itself() -> None:
    """The optimum is no worse than without contents (P2), and than without `same_batch` (P5)."""
    seen: Counter[str] = Counter()
    for seed in few(range(300), 10):
        on, objective = drawn(seed), [*OBJECTIVES][seed % len(OBJECTIVES)]
        if not on.contents:
            continue
        alone = on.replace(contents=(), machine=on.machine.replace(same_batch=True),
                           requests=tuple(each.replace(path=None) for each in on.requests))  # fmt: skip
        with suppress(TooManyStates):
            best, found = exhaustive_optimum(on, objective, max_states=200)
            without = exhaustive_optimum(alone, objective, max_states=200)[0]
            other = on.replace(machine=on.machine.replace(same_batch=not on.machine.same_batch))
            beside = exhaustive_optimum(other, objective, max_states=200)[0]
            assert best <= without
            assert best <= beside if on.machine.same_batch else best >= beside
            seen.update(tried=1, better=best < without, same_batch=best != beside)
            seen.update(forgets=any(b.forget for b in found.batches), reuses=any(b.reuse for b in found.batches))
            seen.update(swaps=any(b.swap_out for b in found.batches))
            compare(seen, random.Random(seed), on, found)
    rules = [f"R{k}" for k in range(1, 13) if k != 7] if ALL else ["R1", "R3", "R12"]  # R7 sees no contents
    missed = [what for what in ("better", "same_batch", "forgets", "reuses", "valid", *rules) if not seen[what]]
    assert not missed, (missed, seen)


def compare(seen: Counter[str], draw: random.Random, on: Instance, found: Schedule) -> None:
    """The referee, its faster twin and `library/check.py` say the same of an optimum and mutants of it."""
    for mutant in (found, *(mutate(draw, on, found) for _ in range(6))):
        said = [judged(on, mutant, plain) for plain in (False, True)]
        assert said[0] == said[1], (said, mutant)
        assert witnessed(on, mutant) == said[0][:2], (said, mutant)
        seen[said[0][0]] += 1


def judged(on: Instance, mutant: Schedule, plain: bool) -> tuple[Any, ...]:
    try:
        trace = verify_schedule(on, mutant, plain=plain)
    except InvalidSchedule as broken:
        return f"R{broken.rule}", broken.batch
    return "valid", [str(objective_value(trace, name)) for name in OBJECTIVES], trace.batches, measures(trace)


def witnessed(on: Instance, mutant: Schedule) -> tuple[str, Any]:
    try:
        values = check.verify_schedule(read(on), json.loads(mutant.to_json()))
    except check.Broken as broken:
        return f"R{broken.rule}", broken.batch
    return "valid", [str(values[name]) for name in OBJECTIVES]


def read(on: Instance, **changes: Any) -> check.Box:
    return check.read_instance(json.loads(on.to_json()) | changes)


def test_retained_blocks_are_those_of_the_second_referee_that_no_request_holds() -> None:
    seen: set[int] = set()
    for seed in range(40):
        on = drawn(seed)
        with suppress(TooManyStates):
            trace = verify_schedule(on, exhaustive_optimum(on, "total-flow-time", max_states=60)[1])
            world, block = World(on), on.machine.block
            for batch, run in zip(trace.schedule.batches, trace.runs, strict=True):
                world.step(world.execution, batch)
                lives = world.lives.values()
                held = {each for life in lives for each in life.state.had(life.device, block)}
                private = sum(life.state.private(life.device, world.execution.machine) for life in lives)
                free = len(world.execution.resident - held) * block
                assert (run.retained_after, run.device_after) == (free, free + (len(held) + private) * block)
                seen.add(free)
    assert len(seen) > 2


def test_the_second_referee_reads_the_one_spelling_and_declines_most_proofs() -> None:
    assert check.sha256(read(THREE)) == THREE.sha256
    backwards = json.loads(THREE.to_json())["contents"][::-1]
    with pytest.raises(check.Bad, match="contents are not in their one spelling, in which kvbound writes them"):
        read(THREE, contents=backwards)
    with pytest.raises(check.Bad, match="R1: its path takes no 1 blocks of node 'tools'"):
        read(THREE, contents=backwards[:1])
    claim = {"format": "kvbound-certificate", "version": 1, "instance_sha256": THREE.sha256, "bound": "0",
             "objective": "total-flow-time", "proof": {"kind": "pairs"}}  # fmt: skip
    with pytest.raises(check.NotChecked, match="a proof of kind pairs is not checked here with contents"):
        check.verify_certificate(read(THREE), claim)


# --- who does not take them ------------------------------------------------------------------------------------------
def test_what_would_lose_contents_declines_them() -> None:
    unit = shared(request("R1", 7, 1, path=("a", 1)), tree=(("a", None, 1),), cost=None)
    with pytest.raises(BadInput, match="requests share contents in blocks, which have no coarse form"):
        coarsen(unit, block_tokens=2, slot_ticks=2)
    with pytest.raises(BadInput, match="what a request may do depends on the contents that it shares with others"):
        request_graph(unit, "R1")
    with pytest.raises(BadInput, match="requests share contents, which the engine keeps apart; it replays none"):
        make_plan(unit, schedule(unit, Batch(start=0, work={"R1": 7})))


# --- what users see --------------------------------------------------------------------------------------------------
def test_what_is_shared_is_shown() -> None:
    trace = verdict(THREE, FIRST, SECOND, LAST)
    rows = {row[0]: row[1] for row in wasted_cells(trace).rows}
    assert (rows["tokens reused"], rows["KV kept for reuse, tokens x s"]) == ("8", "10")
    says = "contents of 4 blocks in 3 nodes, on the paths of 3 requests; reuse in the batch that computes a block"
    assert facts_in_words(THREE, sizes_of(THREE))[-1] == says
    assert request_cells(THREE, 9)[0].rows[0][-1] == "tools, 1"
    moves = [event["name"] for event in trace_events("a", trace) if event.get("cat") == "move"]
    assert moves == ["reuse", "reuse", "forget"]


def test_a_difference_in_what_is_reused_is_explained() -> None:
    ours = verdict(THREE, FIRST, SECOND, LAST)
    roomy = FIRST, SECOND.replace(work={"R3": 7}, reuse={}), Batch(start=14, work={"R3": 1, "R2": 2}, reuse={"R2": 4})
    theirs = verdict(THREE, *roomy, Batch(start=17, work={"R2": 1}))
    assert sum(explain(ours).spent.values()) == objective_value(ours, "total-flow-time")
    assert sum(explain(theirs).spent.values()) == objective_value(theirs, "total-flow-time")
    found = first_difference(ours, theirs)
    assert found is not None
    said = tables._batch(found.ours, found.theirs, units_of(THREE))
    assert said == "works on R3 (3), R2 (2), reuses for R3 (4), R2 (4), at 7 ticks"
