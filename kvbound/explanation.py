"""Where the time of a schedule and of its requests goes: exact parts that add up (docs/explain.md defines them).

**A batch** of D ticks: transfers get D less its duration without them. Of the rest, recomputation gets the share of
tokens processed before. The remainder goes to the terms of the largest function (the first of equals), in proportion to
their values, in millionths of a tick, rounded so that they add up. Where one function of the work has `busy` and
another has not (a roofline), what is not fixed in the one is memory traffic, and the other is compute throughout.

**A request** that is ready and neither works nor is swapped waits for memory if it does not fit beside the batch; else
for the budgets (tokens, requests, one phase) without room for a token of it (for all that is ahead of it, without
`chunked`); else for nothing. One that becomes ready during a batch waits for its end. KV that this batch drops counts
as kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvcore.cost import Cost, CostFunction, Features
from kvcore.limits import BUDGETS, Use, use_of
from kvcore.metrics import SUMS, Value, busy_time, makespan, objective_value, weight
from kvcore.schedule import Batch
from kvcore.trace import BatchTrace, CallTrace, RequestTrace, Step, Trace

PARTS = ("fixed", "compute", "memory traffic", "recompute", "transfers", "idle: ready", "idle: calls", "idle: arrivals")
"""Parts of the time up to the last completion."""
BOUND = ("fixed", "compute", "memory traffic", "transfers")  # a batch by what gets most of it
SPENT = ("work", "recompute", "calls", "transfers", "memory", "budgets", "batch under way", "nothing")
"""Parts of a request's time; it waits for the last four."""
SHARE = 10**6  # a tick in the parts of which batches are split
SWAPS = ("swap_out_tokens", "swap_in_tokens", "swap_outs", "swap_ins")
FIXED = ("busy", "any_decode", "any_prefill")
READ = ("decode_kv", "prefill_kv")


@dataclass(frozen=True)
class Explanation:
    """Where the time of a schedule goes, in ticks.

    `parts` of the time to the last completion, by `PARTS`; `batches` bound by each of `BOUND`; parts of the flow time
    of each of `requests`, by `SPENT`.
    """

    parts: dict[str, Fraction]
    batches: dict[str, int]
    requests: dict[str, dict[str, int]]

    @property
    def spent(self) -> dict[str, int]:
        """The parts of all requests' time; together the total flow time."""
        return {kind: sum(times[kind] for times in self.requests.values()) for kind in SPENT}


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
    recomputed = [0] * len(trace.batches)
    room = _Room(trace)
    lives = [_Life(request, room) for request in trace.requests]
    for request in trace.requests:
        for step in request.steps:
            recomputed[step.batch] += step.recomputed
    parts, bound = dict.fromkeys(PARTS, 0), dict.fromkeys(BOUND, 0)
    for batch, again in zip(trace.batches, recomputed, strict=True):
        shares = batch_parts(trace.instance.cost, batch)
        bound[max(BOUND, key=lambda part: shares[part])] += 1
        for part, share in shares.items():
            refill = 0 if part == "transfers" else share * again // (batch.features.tokens or 1)
            parts[part] += share - refill
            parts["recompute"] += refill
    ready = _covered(trace, (span for life in lives for span in life.ready))
    alive = _covered(trace, (span for life in lives for span in (*life.ready, *life.calls)))
    idle = makespan(trace) - busy_time(trace)
    ticks = (ready, alive - ready, idle - alive)
    exact = {part: Fraction(share, SHARE) for part, share in parts.items()}
    exact |= {part: Fraction(time) for part, time in zip(PARTS[-3:], ticks, strict=True)}
    return Explanation(exact, bound, {life.request.request.id: life.spent for life in lives})


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


def _covered(trace: Trace, spans: Iterable[tuple[int, int]]) -> int:
    """Return the ticks between batches in which at least one of the spans goes on."""
    gaps = zip([0, *(batch.end for batch in trace.batches)], [batch.start for batch in trace.batches], strict=False)
    events = sorted(
        (tick, change, kind)
        for kind, all_of in enumerate((spans, gaps))
        for span in all_of
        for tick, change in zip(span, (1, -1), strict=True)
    )
    open_spans, last, total = [0, 0], 0, 0
    for tick, change, kind in events:
        total += tick - last if all(open_spans) else 0
        open_spans[kind] += change
        last = tick
    return total


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
        self.other = {"decode": of["prefill_requests"] > 0, "prefill": of["decode_requests"] > 0}
        self.blocks = _left(machine.memory, np.array([batch.device for batch in batches])) // machine.block
        after = np.array([0, *(batch.device_after for batch in batches)])
        self.between = _left(machine.memory, after) // machine.block
        """Blocks free before each batch, and after the last."""


def _left(limit: int | None, used: Ints) -> Ints:
    return (np.iinfo(np.int64).max if limit is None else limit) - used


class _Life:
    """`spent` by `SPENT`, and when a request was in calls, and ready between batches."""

    def __init__(self, request: RequestTrace, room: _Room) -> None:
        self.request = request
        self.room = room
        self.spent = dict.fromkeys(SPENT, 0)
        self.calls = [(call.start, call.end) for call in request.calls]
        self.ready: list[tuple[int, int]] = []
        self.known, self.device, self.host = request.request.prompt, 0, 0
        self.now = self.since = request.request.arrival  # accounted up to now; ready since then
        calls = {call.batch: call for call in request.calls}
        for j, group in groupby(request.levels(), key=lambda level: level.event.batch):
            self._until(j)
            events, devices, hosts = zip(*group, strict=True)
            if isinstance(events[-1], Step):
                self._work(events[-1], calls.get(j))
            elif self.since <= self.now and any(move.kind != "drop" for move in events):
                self.spent["transfers"] += int(room.ends[j]) - self.now
                self.now = int(room.ends[j])
            elif self.since <= self.now:
                self._wait(j, j + 1, self.device - devices[-1])
            self.device, self.host = devices[-1], hosts[-1]

    def _work(self, step: Step, call: CallTrace | None) -> None:
        end = int(self.room.ends[step.batch])
        self.spent["recompute" if step.recomputed else "work"] += end - self.now
        self.known += step.generated
        self.now = self.since = end
        if call is not None:
            self.since = call.end
            self.known += self.request.request.calls[call.segment].returns

    def _until(self, j: int) -> None:
        """Count the time up to the start of batch j: the call, the batch under way, and the rest."""
        room, start = self.room, int(self.room.starts[j])
        if self.since > self.now:
            self.spent["calls"] += min(start, self.since) - self.now
            self.now = min(start, self.since)
        if self.now == start:
            return
        k = int(np.searchsorted(room.starts, self.now))
        if k and room.ends[k - 1] > self.now:
            end = int(room.ends[k - 1])
            self.spent["batch under way"] += end - self.now
            self.now = end
        self._wait(k, j, 0)
        if self.now < start:
            self._idle(j, np.array([self.now]), np.array([start]))
            self.now = start

    def _wait(self, first: int, last: int, dropped: int) -> None:
        """Count waiting in batches from `first` up to `last`, and in the gaps before each."""
        if first == last:
            return
        room, batches = self.room, slice(first, last)
        need, use, phase = self._need()
        lacks = np.any([left[batches] < getattr(use, column) for column, left in room.left.items()], axis=0)
        if not room.machine.hybrid:
            lacks |= room.other[phase][batches]
        none = need > room.blocks[batches] + room.machine.blocks(self.device - dropped)
        self._count(room.ends[batches] - room.starts[batches], none, lacks)
        befores = np.concatenate(([self.now], room.ends[first : last - 1]))
        self._idle(first, befores, room.starts[batches])
        self.now = int(room.ends[last - 1])

    def _idle(self, first: int, starts: Ints, ends: Ints) -> None:
        need, use, _ = self._need()
        machine = self.room.machine
        none = need > self.room.between[first : first + len(starts)] + machine.blocks(self.device)
        lacks = any((most := limit.of(machine)) is not None and getattr(use, limit.column) > most for limit in BUDGETS)
        self._count(ends - starts, none, np.full(len(starts), lacks))
        self.ready += [(int(a), int(b)) for a, b in zip(starts, ends, strict=True) if a < b]

    def _count(self, ticks: Ints, none: NDArray[np.bool_], lacks: NDArray[np.bool_]) -> None:
        memory, budgets = int(ticks[none].sum()), int(ticks[lacks & ~none].sum())
        self.spent["memory"] += memory
        self.spent["budgets"] += budgets
        self.spent["nothing"] += int(ticks.sum()) - memory - budgets

    def _need(self) -> tuple[int, Use, str]:
        """Return the blocks with which it could work, its use of budgets, and the phase."""
        held = self.device + self.host
        left = self.known - held
        phase = "decode" if held and left == 1 else "prefill"
        tokens = 1 if self.room.machine.chunked else left
        use = use_of(tokens, phase == "decode", phase == "prefill")
        return self.room.machine.blocks(held + tokens), use, phase
