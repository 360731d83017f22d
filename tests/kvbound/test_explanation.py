"""Parts of time that add up to the whole, against the referee and the timeline."""

import json
from collections import Counter
from fractions import Fraction

import pytest

from costmodels import get_cost
from kvbound.comparison import compare
from kvbound.explanation import (  # fmt: skip
    BOUND,
    SHARE,
    SPENT,
    batch_parts,
    explain,
    explain_all,
    first_difference,
    ratio_without_calls,
)
from kvbound.tables import calls_cells, causes, differences, explained_cells
from kvbound.timeline import timeline
from kvbound.units import units_of
from kvcore import CostFunction, InvalidSchedule, verify_schedule
from kvcore.cost import Cost, Features, TokensAbove
from kvcore.metrics import busy_time, flow_time, makespan, total_flow_time
from kvcore.schedule import Batch, Schedule
from kvcore.trace import BatchTrace
from tests.support.build import batch, instance, request, schedule
from tests.support.commands import kvbound
from tests.support.contents import IDLE, called, idling, shared
from tests.support.mars_schedules import PUBLISHED, mars
from tests.support.random_schedules import random_trace
from workloads.builtin import builtin_instance

SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_parts_add_up_to_the_whole(seed):
    trace = random_trace(seed)
    found = explain(trace)
    assert sum(found.parts.values()) == makespan(trace)
    idle = sum(ticks for part, ticks in found.parts.items() if part.startswith("idle"))
    assert makespan(trace) - idle == busy_time(trace)
    assert min(found.parts.values()) >= 0
    assert sum(found.batches.values()) == len(trace.batches)
    assert sum(found.spent.values()) == total_flow_time(trace)
    for row in trace.requests:
        assert sum(found.requests[row.request.id].values()) == flow_time(row)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_request_does_is_what_the_timeline_says(seed):
    trace = random_trace(seed)
    for id, spent in explain(trace).requests.items():
        drawn = Counter()
        for interval in timeline(trace)[id]:
            drawn[interval.kind.partition("-")[0]] += interval.end - interval.start
        assert spent["work"] == drawn["prefill"] + drawn["decode"]
        assert spent["recompute"] == drawn["recompute"]
        assert spent["calls"] == drawn["call"] == sum(call.end - call.start for call in trace_of(trace, id).calls)
        assert spent["transfers"] == drawn["transfer"]
        assert sum(spent[kind] for kind in SPENT[4:]) == drawn["paused"] + drawn["swapped"] + drawn["waiting"]


def trace_of(trace, id):
    return next(row for row in trace.requests if row.request.id == id)


@pytest.mark.parametrize("seed", SEEDS)
def test_why_a_request_waits_is_what_the_referee_says_of_working(seed):
    """In every batch that it sits out, and before every one that waits to start, it is given work."""
    trace = random_trace(seed)
    for row in trace.requests:
        expected = Counter()
        for j in range(len(trace.batches)):
            expected += cause_of_batch(trace, row.request.id, j) + cause_of_gap(trace, row.request.id, j)
        spent = explain(trace).requests[row.request.id]
        assert {kind: spent[kind] for kind in SPENT[4:]} == {kind: expected[kind] for kind in SPENT[4:]}, seed


def cause_of_batch(trace, id, j):
    """The ticks of batch j for which a request is ready and does not work, with why."""
    run, row, state = trace.batches[j], trace_of(trace, id), trace.states(j)[id]
    end = Counter({"batch under way": 0})
    if state.status in ("waiting", "call"):
        came = row.request.arrival if state.status == "waiting" else call_under_way(row, run.start).end
        return Counter({"batch under way": run.end - came}) if came < run.end else end
    batch = trace.expanded().batches[j]
    if state.status == "done" or id in batch.work or id in batch.swap_out or id in batch.swap_in:
        return end
    return Counter({why_not(trace, id, j, batch, state): run.duration})


def call_under_way(row, tick):
    return next(call for call in row.calls if call.start <= tick < call.end)


def cause_of_gap(trace, id, j):
    """The ticks before batch j in which nothing runs and a request is ready, with why."""
    before, start = trace.batches[j - 1].end if j else 0, trace.batches[j].start
    row, state = trace_of(trace, id), trace.states(j)[id]
    if state.status in ("waiting", "call", "done") or before == start:
        return Counter()
    since = max([before, row.request.arrival, *(call.end for call in row.calls if call.start < start)])
    why = why_not(trace, id, j, Batch(start=start), state) if since < start else "nothing"
    return Counter({why: start - since})


def why_not(trace, id, j, batch, state):
    """What the referee says of the schedule that ends with this batch and this request at work in it."""
    held = state.device + state.host
    tokens = 1 if trace.instance.machine.chunked else state.known - held
    moved = {key: {k: v for k, v in getattr(batch, key).items() if k != id} for key in ("drop", "swap_out", "swap_in")}
    if state.host:
        moved["swap_in"][id] = state.host
    tried = batch.model_copy(update={**moved, "work": {**batch.work, id: tokens}})
    whole = trace.expanded()
    unlimited = {"batch_tokens": None, "prefill_tokens": None, "batch_requests": None, "hybrid": True}
    rules = {broken(trace, (*whole.batches[:j], tried), **free) for free in ({}, unlimited)}
    assert rules <= {5, 6, 11}
    return "memory" if 6 in rules else "budgets" if 5 in rules else "nothing"


def broken(trace, batches, **free):
    """The rule that these batches break (11: none but that of the end); a batch more may pause others, or move KV."""
    made = trace.instance.with_free_calls()
    made = made.replace(machine=made.machine.replace(pause=True, **free))
    try:
        verify_schedule(made, Schedule(instance_sha256=made.sha256, batches=batches))
    except InvalidSchedule as error:
        return error.rule
    return 11


def one(features, cost):
    run = BatchTrace(0, cost.duration(features), features, 0, 0, 0)
    parts = batch_parts(cost, run)
    assert sum(parts.values()) == SHARE * run.duration
    return {part: Fraction(ticks, SHARE) for part, ticks in parts.items()}


DECODES = Features(busy=1, any_decode=1, tokens=4, generated=4, decode_requests=4, decode_kv=400)


def test_a_linear_cost_is_split_by_its_terms():
    cost = Cost((CostFunction(busy=10, tokens=5, decode_kv=1, divisor=10, swap_in_tokens=10),))
    assert one(DECODES, cost) == {"fixed": 1, "compute": 2, "memory traffic": 40, "transfers": 0}
    assert one(DECODES._replace(swap_in_tokens=7), cost)["transfers"] == 7
    assert one(Features(swap_in_tokens=7), cost) == {"fixed": 0, "compute": 0, "memory traffic": 0, "transfers": 7}


NONE = {"memory traffic": 0, "transfers": 0}


def test_rounding_up_is_shared_as_the_terms_are():
    cost = Cost((CostFunction(busy=1, tokens_above=TokensAbove(knee=3, coefficient=2), divisor=2),))
    parts = one(DECODES, cost)
    assert parts == {"fixed": Fraction(666_666, SHARE), "compute": Fraction(1_333_334, SHARE), **NONE}


def test_unit_cost_is_fixed():
    assert one(DECODES, Cost.unit())["fixed"] == 1
    assert one(DECODES, Cost((CostFunction(any_prefill=1),)))["fixed"] == 1


def test_a_roofline_is_memory_traffic_or_compute():
    cost = get_cost("roofline:model=llama-3-8b,device=h100").make()
    decodes = one(DECODES, cost)
    assert decodes["compute"] == 0
    assert max(BOUND, key=lambda part: decodes[part]) == "fixed"  # the weights
    many = one(DECODES._replace(decode_kv=10**9), cost)
    assert max(BOUND, key=lambda part: many[part]) == "memory traffic"
    prefill = one(Features(busy=1, any_prefill=1, tokens=4096, prefill_requests=1, prefill_pairs=4096**2), cost)
    assert prefill["compute"] == sum(prefill.values())


def test_overlapped_transfers_count_where_they_are_longer():
    cost = Cost((CostFunction(busy=5), CostFunction(swap_out_tokens=1)))
    assert one(DECODES._replace(swap_out_tokens=4), cost)["transfers"] == 0
    assert one(DECODES._replace(swap_out_tokens=8), cost) == {
        "fixed": 5, "compute": 0, "memory traffic": 0, "transfers": 3,
    }  # fmt: skip


def test_idle_time_has_a_cause():
    made = instance(request("R1", 1, (1, 3, 0, "preserve"), 1), request("R2", 1, 1, arrival=7))
    trace = verify_schedule(made, schedule(made, batch(0, R1=1), batch(5, R1=1), batch(7, R2=1)))
    idle = {part: ticks for part, ticks in explain(trace).parts.items() if part.startswith("idle")}
    assert idle == {"idle: ready": 1, "idle: calls": 3, "idle: arrivals": 1}


def test_recomputed_tokens_take_their_share():
    found = explain(verify_schedule(mars(), PUBLISHED["SJF"].schedule(mars())))
    assert found.parts["recompute"] == 1
    assert found.spent["recompute"] == 1
    assert found.spent["budgets"] > 0


def test_the_first_difference():
    ours, theirs = (verify_schedule(mars(), PUBLISHED[name].schedule(mars())) for name in ("FCFS", "SJF"))
    assert first_difference(ours, ours) is None
    found = first_difference(ours, theirs)
    assert found is not None
    assert (found.batch, found.ours.work, found.theirs.work) == (0, {"R1": 1}, {"R2": 1})


def test_a_ratio_without_calls_takes_them_from_both():
    trace = verify_schedule(mars(), PUBLISHED["FCFS"].schedule(mars()))
    calls = sum(r.request.call_time for r in trace.requests)
    assert ratio_without_calls(trace, "total-flow-time", 29) == Fraction(total_flow_time(trace) - calls, 29 - calls)
    assert ratio_without_calls(trace, "makespan", 12) is None
    assert ratio_without_calls(trace, "total-flow-time", calls) is None


def test_chunks_of_512_are_told_from_chunks_without_a_limit():
    """Each batch of `sarathi-c` is so long that the requests spend twice the time at work."""
    made = builtin_instance("identical:n=16,I=1024,O=8,M=12384")
    comparison = compare(made, ["sarathi", "sarathi-c"], against=None)
    first, second = comparison.explained()
    assert first.difference is None
    time, requests = explained_cells([first, second], units_of(made))
    assert list(time.columns) == ["until the last completion, ms", "all", "fixed", "compute", "memory traffic",
                                  "batches, bound by"]  # fmt: skip
    assert requests.rows == [
        ["sarathi", "17,549.3", "6,252.53", "0", "11,296.7"],
        ["sarathi-c", "19,621.6", "12,159.2", "7,145.86", "316.539"],
    ]  # fmt: skip
    assert differences([first, second], units_of(made)) == [
        "sarathi-c beside sarathi: all requests +2,072.38 ms = -10,980.2 wait: policy, +7,145.86 wait: budgets, "
        "+5,906.72 work; the last completion -220 ms = -220 fixed",
        "  they part in batch 0: sarathi-c works on R1 (1,024), R2 (1,024), R3 (1,024), R4 (1,024), at 0 ms; "
        "sarathi works on R1 (512), at 0 ms",
    ]
    assert causes([first, second], units_of(made)) == [
        "Why sarathi-c takes 2,072.38 ms more than sarathi, all requests together:",
        "  7,145.86 ms more waiting for batches that are full (batch_tokens, prefill_tokens, batch_requests); "
        "most of all R13, 894.667 ms.",
        "  5,906.72 ms more at work, in batches that last longer; most of all R8, 563.558 ms.",
    ]
    assert "sarathi-c beside sarathi" in comparison.report().html()


def test_the_command_explains(tmp_path):
    done = kvbound(
        "compare", "mars-figure1", "--policies", "fcfs,sjf", "--no-optimum", "--explain", "--json", tmp_path / "c.json"
    )
    assert "fcfs beside sjf: all requests +4 ticks" in done.stdout
    assert "Why fcfs takes 4 ticks more than sjf" in done.stdout
    rows = json.loads((tmp_path / "c.json").read_text())["rows"]
    assert rows[0]["explained"]["first_difference"]["ours"]["work"] == {"R1": 1}
    assert rows[0]["explained"]["ratio_without_calls"] == "25/21"
    assert rows[1]["explained"]["first_difference"] is None
    assert sum(map(Fraction, rows[1]["explained"]["parts"].values())) == 14


def test_solve_explains_what_policies_do_otherwise(tmp_path):
    done = kvbound("solve", "mars-figure1", "--handling", "free", "--explain", "--schedule", tmp_path / "s.json")
    assert " for preserve: R" in done.stdout or " for discard: R" in done.stdout or " for swap: R" in done.stdout
    assert "all requests +" in done.stdout  # ... of the best policy that takes longer
    kvbound("solve", "mars-figure1", "--handling", "free", "--explain", "--json", tmp_path / "r.json")
    found = json.loads((tmp_path / "r.json").read_text())
    assert {row["policy"] for row in found["policies"]} >= {"fcfs", "serial"}
    for row in found["policies"]:
        assert row["handling"].keys() == found["handling"].keys()
        assert row["value"] >= found["value"]
        assert row["explained"]["beside"] == "optimum, free"


def test_calls_that_are_handled_otherwise_are_named():
    def row(label, value, *handlings):
        return {"label": label, "value": value, "handling": {f"R{i}/1": how for i, how in enumerate(handlings)}}

    best = row("optimal", 10, "preserve", "swap", "preserve")
    others = [row("a", 15, "discard", "swap", "discard"), row("b", None), row("c", 11, *best["handling"].values())]
    cells = calls_cells(best, others, units_of(mars()), "total-flow-time")
    assert [line[0] for line in cells.rows] == ["optimal", "c", "a"]
    assert [line[-2] for line in cells.rows] == [None, "10.0 %", "50.0 %"]
    said = ["preserve: R0/1, R2/1; swap: R1/1", "the same", "discard for preserve: R0/1, R2/1"]
    assert [line[-1] for line in cells.rows] == said


# --- contents ---------------------------------------------------------------------------------------------------------
def test_what_reuses_save_and_what_becomes_of_contents_in_calls():
    """A's call discards what it holds; the cache keeps it, or a part, or nothing."""
    hit = Batch(start=6, work={"B": 1}, reuse={"B": 3}, drop={"A": 4})
    kept = called(hit, Batch(start=25, work={"A": 1}, reuse={"A": 4}))
    lost = called(hit.replace(forget={"xy": 1}), Batch(start=25, work={"A": 5}, forget={"xy": 3}))
    rows = explain_all([("kept", kept), ("lost", lost)], ("kept", kept), "total-flow-time", 1)
    *_, reuses, calls = explained_cells(rows, units_of(kept.instance))
    assert reuses.columns == ["contents", "tokens reused", "work saved, ticks", "blocks forgotten"]
    assert reuses.rows == [("kept", "7", "7", "0"), ("lost", "3", "3", "4")]
    assert calls.columns[2:8] == ["handling", "keep or forget", "held", "kept", "reused by itself", "by others"]
    assert calls.rows == [
        ("kept", "A/1", "discard", "keep", "4", "4", "4", "3", "7", "70"),
        ("lost", "A/1", "discard", "forget", "4", "0", "0", "3", "3", "51"),
    ]
    said = json.loads(json.dumps(rows[0].to_json()))["contents"]
    assert said == {"reused": 7, "saved": 7, "forgotten": 0, "calls": [{
        "request": "A", "call": "A/1", "handling": "discard", "contents": "keep", "held": 4, "kept": 4,
        "retained": 70, "reused": {"B": 3, "A": 4}, "saved": 7,
    }]}  # fmt: skip


def test_nothing_is_said_of_contents_where_there_are_none():
    trace = verify_schedule(mars(), PUBLISHED["SJF"].schedule(mars()))
    rows = explain_all([("SJF", trace)], ("SJF", trace), "total-flow-time", 1)
    assert len(explained_cells(rows, units_of(trace.instance))) == 2
    assert "contents" not in rows[0].to_json()


def test_show_says_what_is_shared_and_how_it_is_used(tmp_path):
    instance, schedule = tmp_path / "idle.json", tmp_path / "schedule.json"
    instance.write_text(IDLE.to_json())
    schedule.write_text(idling().schedule.to_json())
    assert kvbound("show", instance).stdout.splitlines()[-2:] == [
        "node  goes on  blocks  requests  named  ", "xy    -             2         3  A, C, D",
    ]  # fmt: skip
    shown = kvbound("show", instance, "--schedule", schedule).stdout.splitlines()
    assert "tokens reused 4 saves 4 s of batches" in [" ".join(line.split()) for line in shown]
    assert shown[-1].split() == ["xy", "2", "1.333", "0.2222", "4", "C,", "D", "2"]
    found = json.loads(kvbound("show", instance, "--schedule", schedule, "--json", "-").stdout)["schedule"]
    assert (found["saved_seconds"], found["nodes"]) == (4.0, [
        {"node": "xy", "resident": 12, "retained": 2, "reused": {"C": 2, "D": 2}, "forgotten": 2},
    ])  # fmt: skip


def test_retained_contents_may_go_and_held_ones_are_there():
    """Memory of 4: A fills it; nobody holds its KV from 4 to 6. C's first blocks are A's, B's are its own."""
    one, other = request("A", 4, 1, path=("xy", 3)), request("C", 4, 1, path=("xy", 3))
    on = shared(one, request("B", 4, 1), other, tree=(("xy", None, 3),), memory=4, batch_requests=2)
    last = Batch(start=6, work={"B": 4}, forget={"xy": 3}), Batch(start=10, work={"C": 4})
    trace = verify_schedule(on, schedule(on, Batch(start=0, work={"A": 4}), *last))
    found = explain(trace).requests
    assert (found["B"]["memory"], found["B"]["nothing"]) == (4, 2)
    assert (found["C"]["memory"], found["C"]["nothing"]) == (4, 6)
