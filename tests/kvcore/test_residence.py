"""What is resident of contents and for whom, what reuses save, and what becomes of contents that calls start with."""

import random
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from typing import Any

from heuristics import get_policy, trace_policy
from kvcore import Trace, verify_schedule
from kvcore.account import contents_curve, kept_in_calls, residence, savings
from kvcore.cost import Features
from kvcore.trace import Step
from tests.heuristics.test_compression import serving
from tests.kvcore.test_contents import drawn
from tests.support.contents import with_contents
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import few
from tests.support.second_referee import World
from workloads.own import own


def traces() -> list[Trace]:
    """Return tiny optimal schedules, and those of a prefix cache on the contents of each request and on shared ones."""
    found = []
    for seed in few(range(90)):
        with suppress(TooManyStates):
            on = drawn(seed)
            found.append(verify_schedule(on, exhaustive_optimum(on, "busy-time", max_states=60)[1]))
        on = own(with_contents(random.Random(seed), serving(seed)))
        on = on.replace(machine=on.machine.replace(prefill_tokens=None, same_batch=True))
        found.append(trace_policy(on, get_policy("vllm-v1-prefix")))
    return found


TRACES = traces()


def test_residence_is_that_of_the_second_referee() -> None:
    seen = Counter[str]()
    for trace in TRACES:
        rows, world, block = residence(trace), World(trace.instance), trace.instance.machine.block
        curve = {tick: held for tick, *held in contents_curve(trace)}
        for j, (batch, made) in enumerate(zip(trace.expanded().batches, trace.batches, strict=True)):
            world.step(world.execution, batch)
            now = {node: row for node, some in rows.items() for row in some if row.start <= made.start < row.end}
            assert {(node, k) for node, row in now.items() for k in range(row.blocks)} == world.execution.resident
            assert curve[made.start][0] == block * len(world.execution.resident)
            seen["together"] += sum(len(row.holders) > 1 for row in now.values())
            seen["retained"] += sum(row.retained > 0 for row in now.values())
            if j + 1 == len(trace.batches) or trace.batches[j + 1].start == made.end:
                continue
            held = {id: set(life.state.had(life.device, block)) for id, life in world.lives.items()}
            now = {node: row for node, some in rows.items() for row in some if row.start <= made.end < row.end}
            for node, row in now.items():
                assert row.holders == {id: n for id, each in held.items() if (n := sum(at == node for at, _ in each))}
                seen["gaps"] += bool(row.holders)
        assert all(curve[run.start][1] == run.retained for run in trace.runs)
        gaps = [run for run, after in pairwise(trace.runs) if after.start > run.ends[-1]]
        assert all(curve[run.ends[-1]][1] == run.retained_after for run in [*gaps, trace.runs[-1]])
        assert [row.end for some in rows.values() for row in some[-1:]] == [trace.batches[-1].end] * len(rows)
        assert all(
            a.end == b.start and (a[3:] != b[3:] or b.stayed < a.blocks)
            for some in rows.values()
            for a, b in pairwise(some)
        )
    assert min(seen[what] for what in ("gaps", "together", "retained")) > 3, seen


def features(trace: Trace, j: int, reused: dict[int, int]) -> Features:
    """Return the features of a batch in which what was reused is processed, from its steps alone."""
    count = Counter[str]()
    for i, row in enumerate(trace.requests):
        for step in (step for step in row.steps if step.batch == j):
            had = step.resident - reused.get(i, 0)
            c = step.resident + step.tokens - had
            kind = "decode" if step.phase == "decode" and not reused.get(i) else "prefill"
            count.update({f"{kind}_requests": 1, f"{kind}_kv": had, "tokens": c})
            count["prefill_pairs"] += (c * c + 2 * c * had) * (kind == "prefill")
    phases = {f"any_{kind}": int(count[f"{kind}_requests"] > 0) for kind in ("decode", "prefill")}
    return trace.batches[j].features._replace(**{**dict.fromkeys(CHANGED, 0), **count, **phases})


CHANGED = ("tokens", "decode_requests", "prefill_requests", "decode_kv", "prefill_kv", "prefill_pairs")


def test_a_saving_is_what_the_batch_would_last_longer() -> None:
    seen = Counter[str]()
    for trace in TRACES:
        by_batch: dict[int, dict[int, int]] = {}
        saved = Counter[int]()
        for saving in savings(trace):
            by_batch.setdefault(saving.batch, {})[saving.position] = saving.tokens
            saved[saving.batch] += saving.ticks
            seen["decodes"] += step_of(trace, saving.batch, saving.position).phase == "decode"
        for j, reused in by_batch.items():
            assert features(trace, j, {}) == trace.batches[j].features
            longer = trace.instance.cost.duration(features(trace, j, reused)) - trace.batches[j].duration
            assert saved[j] == longer
            seen.update(saves=longer > 0, several=len(reused) > 1)
        made = {(j, i): k for j, each in by_batch.items() for i, k in each.items()}
        moves = {(m.batch, i): m.tokens for i, row in enumerate(trace.requests) for m in row.moves if m.kind == "reuse"}
        assert made == moves
    assert min(seen[what] for what in ("decodes", "saves")) > 2, seen


def step_of(trace: Trace, j: int, i: int) -> Step:
    return next(step for step in trace.requests[i].steps if step.batch == j)


# --- calls (by hand: tests/kvbound/test_explanation.py) -------------------------------------------------------------


def test_a_call_keeps_what_no_batch_forgets() -> None:
    seen = Counter[str]()
    for trace in TRACES:
        world, stays, block = World(trace.instance), list[set[Any]](), trace.instance.machine.block
        for batch in trace.expanded().batches:
            there = sorted(world.execution.resident)
            gone = [at for node, k in batch.forget.items() for at in [at for at in there if at[0] == node][-k:]]
            stays.append({*there} - {*gone})
            world.step(world.execution, batch)
        for kept in kept_in_calls(trace):
            state = world.lives[kept.request].state
            after = min(
                s.batch for s in trace.requests[trace.instance.index[kept.request]].spans if s.batch > kept.call.batch
            )
            path = state.path[: kept.held // block]
            left = [all(at in stays[j] for j in range(kept.call.batch + 1, after + 1)) for at in path]
            assert kept.kept == block * sum(left), kept
            assert left == sorted(left, reverse=True)
            seen[kept.choice] += 1
            seen["worth"] += kept.saved > 0
    assert min(seen[what] for what in ("keep", "keep in part", "forget", "worth")) > 1, seen
