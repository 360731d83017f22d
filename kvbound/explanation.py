"""Where the time of a schedule and of its requests goes: exact parts that add up (docs/explain.md defines them).

A batch is split by the terms of the largest function (the first of equals), in millionths of a tick, rounded so that
they add up. A request waits for budgets without room for a token of it (for all that is ahead of it, without
`chunked`). One that becomes ready during a batch waits for its end. KV that a batch drops counts as kept in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvcore.account import Kept, Period, account, forgets_of, kept_in_calls, residence, savings
from kvcore.cost import Cost, CostFunction, Features
from kvcore.limits import BUDGETS, use_of
from kvcore.metrics import SUMS, Value, busy_time, makespan, objective_value, weight
from kvcore.schedule import Batch
from kvcore.trace import BatchTrace, Trace

PARTS = ("fixed", "compute", "memory traffic", "recompute", "transfers", "idle: ready", "idle: calls", "idle: arrivals")
"""Parts of the time up to the last completion."""
BOUND = ("fixed", "compute", "memory traffic", "transfers")  # a batch by what gets most of it
SPENT = ("work", "recompute", "calls", "transfers", "memory", "budgets", "batch under way", "nothing")
"""Parts of a request's time; it waits for the last four."""
KINDS = {"call": "calls", "transfer": "transfers"}  # else as periods have them
SHARE = 10**6  # a tick in the parts of which batches are split
SWAPS = ("swap_out_tokens", "swap_in_tokens", "swap_outs", "swap_ins")
FIXED = ("busy", "any_decode", "any_prefill")
READ = ("decode_kv", "prefill_kv")


@dataclass(frozen=True)
class Explanation:
    """Where the time of a schedule goes, in ticks.

    `parts` of the time to the last completion, by `PARTS`; `batches` bound by each of `BOUND`; parts of the flow time
    of each of `requests`, by `SPENT`; `shared` with contents.
    """

    parts: dict[str, Fraction]
    batches: dict[str, int]
    requests: dict[str, dict[str, int]]
    shared: Sharing | None = None

    @property
    def spent(self) -> dict[str, int]:
        """The parts of all requests' time; together the total flow time."""
        return {kind: sum(times[kind] for times in self.requests.values()) for kind in SPENT}


class Sharing(NamedTuple):
    """Of contents: tokens reused, ticks saved, blocks forgotten."""

    reused: int
    saved: int
    forgotten: int
    calls: list[Kept]

    def to_json(self) -> dict[str, Any]:
        """Return it JSON-ready."""
        calls = [{**asdict(kept), "call": f"{kept.request}/{kept.call.segment + 1}", "handling": kept.call.handling,
                  "contents": kept.choice} for kept in self.calls]  # fmt: skip
        return {**self._asdict(), "calls": calls}


class Difference(NamedTuple):
    """The first batch that two schedules do not share, from 0; None where one has ended."""

    batch: int
    ours: Batch | None
    theirs: Batch | None

    def to_json(self) -> dict[str, Any]:
        """Return it JSON-ready."""
        both = {"ours": self.ours, "theirs": self.theirs}
        batches = {name: None if batch is None else batch.model_dump(mode="json") for name, batch in both.items()}
        return {"batch": self.batch, **batches}


def explain(trace: Trace) -> Explanation:
    """Return where the time of a schedule goes: exact parts that add up (`docs/explain.md`).

    Running time: linear in the batches and in the steps of the requests.
    """
    recomputed, room = [0] * len(trace.batches), _Room(trace)
    requests = {
        request.request.id: _Life(request.request.id, periods, room).spent for request, periods in account(trace)
    }
    for span in (span for request in trace.requests for span in request.spans if span.recomputed):
        for step in span.steps():
            recomputed[step.batch] += step.recomputed
    parts, bound = dict.fromkeys(PARTS, 0), dict.fromkeys(BOUND, 0)
    for batch, again in zip(trace.batches, recomputed, strict=True):
        shares = batch_parts(trace.instance.cost, batch)
        bound[max(BOUND, key=lambda part: shares[part])] += 1
        for part, share in shares.items():
            refill = 0 if part == "transfers" else share * again // (batch.features.tokens or 1)
            parts[part] += share - refill
            parts["recompute"] += refill
    ready, alive, idle = *room.idle(), makespan(trace) - busy_time(trace)
    ticks = (ready, alive - ready, idle - alive)
    exact = {part: Fraction(share, SHARE) for part, share in parts.items()}
    exact |= {part: Fraction(time) for part, time in zip(PARTS[-3:], ticks, strict=True)}
    return Explanation(exact, bound, requests, _sharing(trace) if trace.instance.contents else None)


def _sharing(trace: Trace) -> Sharing:
    found, gone = savings(trace), forgets_of(trace).values()
    reused, saved = sum(each.tokens for each in found), sum(each.ticks for each in found)
    return Sharing(reused, saved, sum(map(sum, (blocks.values() for blocks in gone))), kept_in_calls(trace))


def first_difference(ours: Trace, theirs: Trace) -> Difference | None:
    """Return the first batch that differs in start, work or moves (None: none does)."""
    mine, other = ours.expanded().batches, theirs.expanded().batches
    for j, (a, b) in enumerate(zip(mine, other, strict=False)):
        if a != b:
            return Difference(j, a, b)
    if len(mine) == len(other):
        return None
    j = min(len(mine), len(other))
    return Difference(j, next(iter(mine[j:]), None), next(iter(other[j:]), None))


def ratio_without_calls(trace: Trace, objective: str, bound: Value) -> Fraction | None:
    """Return value / bound, both without the time of all calls.

    None for other objectives than sums of flow times, and where nothing is left of the bound.
    """
    if objective not in SUMS:
        return None
    first = objective == "total-ttft"  # no call comes before the first token
    calls = sum(0 if first else weight(r.request, objective) * r.request.call_time for r in trace.requests)
    left = Fraction(bound) - calls
    return (Fraction(objective_value(trace, objective)) - calls) / left if left > 0 else None


class Explained(NamedTuple):
    """A schedule beside another one: parts of its time, the first difference, and the ratio without calls."""

    label: str
    found: Explanation
    beside: str
    other: Explanation
    difference: Difference | None
    ratio: Fraction | None

    def to_json(self) -> dict[str, Any]:
        """Return it JSON-ready: ticks, fractions as text."""
        difference = None if self.difference is None else self.difference.to_json()
        return {
            "parts": {part: str(ticks) for part, ticks in self.found.parts.items()},
            "batches": self.found.batches,
            "spent": self.found.spent,
            "beside": self.beside,
            "first_difference": difference,
            "ratio_without_calls": None if self.ratio is None else str(self.ratio),
            **({} if self.found.shared is None else {"contents": self.found.shared.to_json()}),
        }


def explain_all(
    schedules: Sequence[tuple[str, Trace]], reference: tuple[str, Trace], objective: str, bound: Value
) -> list[Explained]:
    """Explain labelled schedules beside a reference; the ratio is to `bound`."""
    label, other = reference
    theirs = explain(other)
    return [
        Explained(
            mine, explain(trace), label, theirs, first_difference(trace, other),
            ratio_without_calls(trace, objective, bound),
        )
        for mine, trace in schedules
    ]  # fmt: skip


def batch_parts(cost: Cost, batch: BatchTrace) -> dict[str, int]:
    """Return the time of a batch by `BOUND`, in millionths of a tick; together its duration."""
    features = batch.features._replace(**dict.fromkeys(SWAPS, 0))
    work = cost.duration(features) if features.tokens else 0
    parts = dict.fromkeys(BOUND, 0) | {"transfers": SHARE * (batch.duration - work)}
    function = max(cost.functions, key=lambda function: Fraction(function.value(features), function.divisor))
    terms = list(_terms(cost, function, features))
    total = sum(value for _, value in terms)
    so_far = 0
    for part, value in terms if total else [("fixed", 1)]:
        parts[part] += SHARE * work * (so_far + value) // (total or 1) - SHARE * work * so_far // (total or 1)
        so_far += value
    return parts


def _terms(cost: Cost, function: CostFunction, features: Features) -> Iterator[tuple[str, int]]:
    works = [f for f in cost.functions if any(Features._fields[k] not in SWAPS for k, _ in f.terms) or f.tokens_above]
    roofline = len({f.busy > 0 for f in works}) == 2
    rest = "memory traffic" if roofline and function.busy else "compute"
    for k, coefficient in function.terms:
        name = Features._fields[k]
        part = "fixed" if name in FIXED else "memory traffic" if name in READ else rest
        yield "compute" if roofline and not function.busy else part, coefficient * features[k]
    if function.tokens_above is not None:
        yield rest, function.value(features) - sum(c * features[k] for k, c in function.terms)


Ints = NDArray[np.int64]


class _Room:
    def __init__(self, trace: Trace) -> None:
        machine, batches = trace.instance.machine, trace.batches
        self.machine = machine
        self.starts: Ints = np.array([batch.start for batch in batches], dtype=np.int64)
        self.ends: Ints = np.array([batch.end for batch in batches], dtype=np.int64)
        features = np.array([batch.features for batch in batches], dtype=np.int64).T
        of = dict(zip(Features._fields, features, strict=True))
        use = use_of(of["tokens"], of["decode_requests"], of["prefill_requests"])
        self.left = {limit.column: _left(limit.of(machine), getattr(use, limit.column)) for limit in BUDGETS}
        nothing = np.zeros(len(batches) + 1, dtype=np.int64)
        self.unused = {limit.column: _left(limit.of(machine), nothing) for limit in BUDGETS}
        self.other = {"decode": of["prefill_requests"] > 0, "prefill": of["decode_requests"] > 0}
        retained = np.array([run.retained for run in trace.runs for _ in run.ends])  # may go
        self.blocks = _left(machine.memory, np.array([batch.device for batch in batches]) - retained) // machine.block
        left = [[run.retained] * (len(run.ends) - 1) + [run.retained_after] for run in trace.runs]
        after = np.array([0, *(batch.device_after for batch in batches)]) - np.array([0, *chain.from_iterable(left)])
        self.between = _left(machine.memory, after) // machine.block
        """Blocks free before each batch, and after the last."""
        self.gaps: Ints = np.array([0, *self.ends[:-1]])
        self.since = {kind: self.starts.copy() for kind in ("ready", "call")}
        """From when on, in the gap before each batch, a request is ready or in a call."""
        self.parts = dict(zip(trace.instance.index, trace.instance.parts, strict=True))
        self.held = {  # ticks, and the blocks that requests hold of a node from then on
            node: np.array([(row.start, row.blocks - row.retained) for row in rows]).T
            for node, rows in (residence(trace) if trace.instance.contents else {}).items()
        }

    def shared(self, id: str, ticks: Ints) -> Ints:
        # leading blocks of the request's path that requests hold
        found, whole = np.zeros_like(ticks), np.ones(len(ticks), dtype=bool)
        for part in self.parts[id]:
            starts, blocks = self.held[part.node]
            there = np.minimum(blocks[np.searchsorted(starts, ticks, "right") - 1], part.blocks)
            found += there * whole
            whole &= there == part.blocks
        return found

    def note(self, period: Period) -> None:
        first, last = (int(k) for k in np.searchsorted(self.starts, (period.start, period.end)))
        since = self.since[period.kind][first : last + 1]
        np.minimum(since, np.maximum(self.gaps[first : last + 1], period.start), out=since)

    def idle(self) -> tuple[int, int]:
        ready, call = self.since.values()
        return int((self.starts - ready).sum()), int((self.starts - np.minimum(ready, call)).sum())


def _left(limit: int | None, used: Ints) -> Ints:
    return (np.iinfo(np.int64).max if limit is None else limit) - used


class _Life:
    def __init__(self, id: str, periods: Iterable[Period], room: _Room) -> None:
        self.id, self.room, self.spent = id, room, dict.fromkeys(SPENT, 0)
        self.path = sum(part.blocks for part in room.parts[id])
        for period in periods:
            if period.kind in room.since:
                room.note(period)
            if period.kind == "ready":
                self._wait(period)
            else:
                self.spent[KINDS.get(period.kind, period.kind)] += period.end - period.start

    def _wait(self, period: Period) -> None:
        room, now, held = self.room, period.start, period.device + period.host
        first, last = (int(k) for k in np.searchsorted(room.starts, (period.start, period.end)))
        if first and room.ends[first - 1] > now:
            now = int(room.ends[first - 1])
            self.spent["batch under way"] += now - period.start
        kept = first < last and period.before != held  # KV that the first batch drops counts
        for batches, kv in ((slice(first, first + kept), period.before), (slice(first + kept, last), held)):
            if batches.start < batches.stop:
                free = room.blocks[batches] + self._there(room.starts[batches], kv, period)
                self._count(room.ends[batches] - room.starts[batches], free, room.left, batches, kv, period)
        befores, afters = np.array([now, *room.ends[first:last]]), np.array([*room.starts[first:last], period.end])
        gaps = slice(first, last + 1)
        self._count(
            afters - befores, room.between[gaps] + self._there(befores, held, period), room.unused, gaps, held, period
        )

    def _there(self, ticks: Ints, held: int, period: Period) -> Ints:
        # blocks of its context that are in memory: its own, and those of its path that others hold
        block, device = self.room.machine.block, period.device
        own = self.room.machine.blocks(device) - min(device // block, self.path)
        tokens = 1 if self.room.machine.chunked else period.known - held
        return own + np.minimum(self.room.shared(self.id, ticks), (held + tokens) // block)

    def _count(self, ticks: Ints, blocks: Ints, left: dict[str, Ints], which: slice, held: int, period: Period) -> None:
        """Count ticks by the blocks that are free and the budgets that are left; `held` is the KV that counts."""
        room, missing = self.room, period.known - held
        decodes = held > 0 and missing == 1
        tokens = 1 if room.machine.chunked else missing
        use = use_of(tokens, decodes, not decodes)
        lacks = np.any([budget[which] < getattr(use, column) for column, budget in left.items()], axis=0)
        if not room.machine.hybrid and left is room.left:  # beside a batch
            lacks |= room.other["decode" if decodes else "prefill"][which]
        none = room.machine.blocks(held + tokens) > blocks
        memory, budgets = int(ticks[none].sum()), int(ticks[lacks & ~none].sum())
        self.spent["memory"] += memory
        self.spent["budgets"] += budgets
        self.spent["nothing"] += int(ticks.sum()) - memory - budgets
