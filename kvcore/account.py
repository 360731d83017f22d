"""What each request of a trace does at every tick, and the KV that it holds: the one account of time and memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, chain, pairwise
from operator import sub
from typing import Literal, NamedTuple

from kvcore.cost import Features
from kvcore.resident import Resident
from kvcore.trace import CallTrace, Move, RequestTrace, Span, Step, StreamClock, Trace, after_moves


@dataclass(slots=True)
class Waste:
    """Memory waste in token-ticks, by cause (INFERCEPT's measure; `docs/semantics.md` defines each part)."""

    calls: int = 0
    queued: int = 0
    transfer: int = 0
    recomputation: int = 0
    retained: int | None = None  # None: the instance has no contents

    def __repr__(self) -> str:
        return f"Waste({', '.join(f'{name}={ticks}' for name, ticks in self._given().items())})"

    @property
    def total(self) -> int:
        """All parts together."""
        return sum(self._given().values())

    def parts(self) -> dict[str, int]:
        """Return each part and the total, by name."""
        return {**self._given(), "total": self.total}

    def _given(self) -> dict[str, int]:
        return {name: ticks for name, ticks in asdict(self).items() if ticks is not None}


def memory_waste(trace: Trace) -> Waste:
    """Return the memory that a schedule held without progress. Time: linear in runs, spans, moves and pauses."""
    block, blocks, held = trace.instance.machine.block, trace.instance.machine.blocks, Counter[str]()
    times = _BatchTimes(trace)
    for request in trace.requests:
        for period in () if times.wastes_nothing(request) else _Account(times, request).periods():
            held[period.kind] += blocks(period.device) * block * (period.end - period.start)
    found = Waste(held["call"], held["ready"], held["transfer"], held["recompute"])
    if trace.instance.contents:
        found.retained = sum(run.retained * (run.ends[-1] - run.start) for run in trace.runs)
        found.retained += sum(run.retained_after * (after.start - run.ends[-1]) for run, after in pairwise(trace.runs))
    return found


PeriodKind = Literal["work", "recompute", "transfer", "ready", "call"]


class Period(NamedTuple):
    """A request does one thing from tick `start` to the later tick `end`; where it works, in batches without a pause.

    `recompute` is work on tokens processed before, a `transfer` a batch that moves its KV without its work. KV is after
    the moves at the start and, where it works, after the growth of the first batch; `before` is that before the moves.
    """

    start: int
    end: int
    kind: PeriodKind
    device: int
    host: int
    before: int
    known: int  # tokens known at the start
    work: Span | None
    call: CallTrace | None


def account(trace: Trace) -> Iterator[tuple[RequestTrace, list[Period]]]:
    """Yield each request with its periods, which tile [arrival, completion]."""
    times = _BatchTimes(trace)
    return ((request, _Account(times, request).periods()) for request in trace.requests)


class _BatchTimes:
    """When the batches of a trace start and end, and what passes between two batches in a row."""

    def __init__(self, trace: Trace) -> None:
        self.start: list[int] = []
        self.end: list[int] = []
        for run in trace.runs:
            self.start += [run.start, *run.ends[:-1]]
            self.end += run.ends
        self.gaps: dict[int, list[int]] = {}
        self.idle = [0, *accumulate(map(sub, self.start[1:], self.end))]  # ticks before each batch

    def wastes_nothing(self, request: RequestTrace) -> bool:
        """Whether no KV of it moves, and no tick passes without its work from its first batch to its last."""
        first, last = request.spans[0].batch, request.spans[-1].last
        always = sum([span.length for span in request.spans]) == last - first + 1
        return always and self.idle[first] == self.idle[last] and not (request.moves or request.calls)

    def pauses(self, clock: StreamClock | None) -> list[int]:
        """Return the steps of a clock before which time passed without it."""
        if id(clock) not in self.gaps:
            stretches = [range(len(self.start))] if clock is None else clock.stretches(len(self.start))
            neighbours = enumerate(pairwise(chain.from_iterable(stretches)), 1)
            self.gaps[id(clock)] = [k for k, (before, j) in neighbours if self.start[j] > self.end[before]]
        return self.gaps[id(clock)]

    def cuts(self, span: Span) -> Sequence[int]:
        """Return where a span is cut: at pauses, and at each batch that recomputes."""
        if span.recomputed or span.length == 1:
            return range(span.length + 1)
        first = span.batch if span.clock is None else span.step
        steps = self.pauses(span.clock)
        some = steps[bisect_right(steps, first) : bisect_left(steps, first + span.length)]
        return [0, *(step - first for step in some), span.length]


class _Account:
    """One request up to `now`: its KV, and the call that it is in."""

    def __init__(self, times: _BatchTimes, trace: RequestTrace) -> None:
        self.times, self.trace = times, trace
        self.now, self.known = trace.request.arrival, trace.request.prompt
        self.device = self.host = self.before = 0
        self.call: CallTrace | None = None
        self.found: list[Period] = []

    def periods(self) -> list[Period]:
        """Go through what the request does, batch by batch."""
        calls = {call.batch: call for call in self.trace.calls}
        for batch, moves, span in self.events():
            self.wait(self.times.start[batch])
            for move in moves:
                self.device, self.host = after_moves(self.device, self.host, **{move.kind: move.tokens})
            if span is not None:
                self.work(span)
                self.call = calls.get(span.last)
            elif self.call is None and any(move.kind != "drop" for move in moves):
                self.until(self.times.end[batch], "transfer")
        return self.found

    def events(self) -> Iterator[tuple[int, list[Move], Span | None]]:
        """Yield the batches in which it moves or begins to work, in order, with moves and span."""
        moves: dict[int, list[Move]] = {}
        for move in self.trace.moves:
            moves.setdefault(move.batch, []).append(move)
        spans = {span.batch: span for span in self.trace.spans}
        for batch in sorted(moves.keys() | spans.keys()):
            yield batch, moves.get(batch, []), spans.get(batch)

    def until(self, end: int, kind: PeriodKind, work: Span | None = None, call: CallTrace | None = None) -> None:
        """Do one thing up to a tick."""
        if end > self.now:
            self.found.append(Period(self.now, end, kind, self.device, self.host, self.before, self.known, work, call))
            self.before, self.now = self.device + self.host, end

    def wait(self, end: int) -> None:
        """Do nothing up to a tick: first in the call, if it runs, then ready."""
        if self.call is not None:
            self.until(min(end, self.call.end), "call", call=self.call)
            if self.call.end > end:
                return
            self.known += self.trace.request.calls[self.call.segment].returns
            self.call = None
        self.until(end, "ready")

    def work(self, span: Span) -> None:
        """Work in the batches of a span, and wait at its pauses."""
        _, _, resident, tokens, phase, recomputed, generated, step, clock = span
        for first, last in pairwise(self.times.cuts(span)):
            batch = span.batch + first if clock is None else clock.batch(step + first)
            self.until(self.times.start[batch], "ready")
            self.device = resident + first + tokens
            part = Span(batch, last - first, resident + first, tokens, phase, recomputed, generated)
            self.until(self.times.end[batch + last - first - 1], "recompute" if recomputed else "work", part)
            self.device += last - first - 1
            self.before = self.device + self.host
            self.known += generated * (last - first)


# --- contents that requests share -------------------------------------------------------------------------------------


class Residence(NamedTuple):
    """Resident blocks of a node from `start` to `end`; those held by request."""

    start: int
    end: int
    stayed: int  # of the blocks just before
    blocks: int
    holders: Mapping[str, int]

    @property
    def retained(self) -> int:
        """Held by no request."""
        return self.blocks - max(self.holders.values(), default=0)


def residence(trace: Trace) -> dict[str, list[Residence]]:
    """Return what is resident of each node, from tick 0 on."""
    ids, end = [request.request.id for request in trace.requests], trace.batches[-1].end
    changes: dict[str, list[Residence]] = {n.id: [Residence(0, end, 0, 0, {})] for n in trace.instance.contents}
    for tick, stayed, contents in _contents(trace):
        for node, some in stayed.items():
            last, holders = changes[node][-1], {ids[i]: blocks for i, blocks in contents.holders[node].items()}
            now = Residence(tick, end, some, contents.blocks[node], holders)
            if tick < end and (now.blocks != last.blocks or holders != last.holders or some < last.blocks):
                changes[node][-1:] = [last._replace(end=tick), now] if tick > last.start else [now]
    return changes


def contents_curve(trace: Trace) -> list[tuple[int, int, int]]:
    """Return (tick, resident tokens from then on, of them retained)."""
    block = trace.instance.machine.block
    return [
        (tick, block * sum(contents.blocks.values()), block * contents.retained)
        for tick, _, contents in _contents(trace)
    ]


def _contents(trace: Trace) -> Iterator[tuple[int, dict[str, int], Resident]]:
    # in each batch, and after it if time passes: the tick, what stays of the nodes that change, the contents
    parts, block = trace.instance.parts, trace.instance.machine.block
    contents, forgets, stayed = Resident(trace.instance), forgets_of(trace), dict[str, int]()
    held: defaultdict[int, dict[int, int]] = defaultdict(dict)
    done: defaultdict[int, list[int]] = defaultdict(list)
    for i, request in enumerate(trace.requests):
        for level in request.levels() if parts[i] else ():
            held[level.event.batch][i] = level.device // block
        done[request.spans[-1].last].append(i)
    for j, (batch, after) in enumerate(pairwise([*trace.batches, None])):
        assert batch is not None
        for node, blocks in forgets.get(j, {}).items():
            contents.forget(node, blocks)
        nodes = stayed.keys() | forgets.get(j, {}).keys() | {part.node for i in held[j] for part in parts[i]}
        stayed = {node: contents.blocks[node] for node in nodes}
        for i, blocks in held[j].items():
            contents.hold(i, blocks)
        contents.add(contents.with_blocks(held[j].items()))
        yield batch.start, stayed, contents
        for i in done[j]:
            contents.hold(i, 0)
        stayed = {part.node: contents.blocks[part.node] for i in done[j] for part in parts[i]}
        if after is None or after.start > batch.end:
            yield batch.end, stayed, contents


def forgets_of(trace: Trace) -> dict[int, dict[str, int]]:
    """Return the blocks forgotten, by batch."""
    batches = trace.schedule.batches
    first = accumulate((batch.repeat for batch in batches), initial=0)
    return {j: batch.forget for j, batch in zip(first, batches, strict=False) if batch.forget}


class NodeUse(NamedTuple):
    """Of a node: token-ticks, tokens reused by request, blocks forgotten."""

    node: str
    resident: int
    retained: int
    reused: dict[str, int]
    forgotten: int


def node_uses(trace: Trace) -> list[NodeUse]:
    """Return how nodes are used."""
    block, parts = trace.instance.machine.block, trace.instance.parts
    reused, forgotten = {node.id: Counter[str]() for node in trace.instance.contents}, Counter[str]()
    for saving in savings(trace):
        ends = saving.resident // block, (saving.resident + saving.tokens) // block
        for part in parts[saving.position]:
            if tokens := block * (part.of(ends[1]) - part.of(ends[0])):
                reused[part.node][trace.requests[saving.position].request.id] += tokens
    for gone in forgets_of(trace).values():
        forgotten.update(gone)
    return [
        NodeUse(
            node, sum(block * row.blocks * (row.end - row.start) for row in rows),
            sum(block * row.retained * (row.end - row.start) for row in rows), dict(reused[node]), forgotten[node],
        )
        for node, rows in residence(trace).items()
    ]  # fmt: skip


class Saving(NamedTuple):
    """A reuse; its batch would last `ticks` longer with these tokens as work."""

    batch: int
    position: int
    resident: int  # tokens that it had
    tokens: int
    ticks: int


def savings(trace: Trace) -> list[Saving]:
    """Return reuses by batch, taken back one by one there: ticks add up."""
    moves = sorted((move.batch, i, move.tokens) for i, request in enumerate(trace.requests)
                   for move in request.moves if move.kind == "reuse")  # fmt: skip
    steps = {(step.batch, i): step for i in {i for _, i, _ in moves} for step in trace.requests[i].steps}
    features, found = {j: trace.batches[j].features for j, *_ in moves}, []
    for j, i, tokens in moves:
        before, features[j] = features[j], _computed(features[j], steps[j, i], tokens)
        ticks = trace.instance.cost.duration(features[j]) - trace.instance.cost.duration(before)
        found.append(Saving(j, i, steps[j, i].resident - tokens, tokens, ticks))
    return found


def _computed(features: Features, step: Step, tokens: int) -> Features:
    hit, resident, work = step.phase == "decode", step.resident - tokens, step.tokens + tokens
    decodes, prefilled = features.decode_requests - hit, 0 if hit else step.tokens
    return features._replace(
        any_decode=int(decodes > 0), any_prefill=1, tokens=features.tokens + tokens,
        decode_requests=decodes, decode_kv=features.decode_kv - hit * step.resident,
        prefill_requests=features.prefill_requests + hit,
        prefill_kv=features.prefill_kv + resident - (not hit) * step.resident,
        prefill_pairs=features.prefill_pairs + work * (work + 2 * resident)
        - prefilled * (prefilled + 2 * step.resident),
    )  # fmt: skip


@dataclass
class Kept:
    """Tokens of contents held as a call starts, up to the next work."""

    request: str
    call: CallTrace
    held: int
    kept: int  # the first of them, resident all the time
    retained: int  # token-ticks for which no request holds them
    reused: dict[str, int]  # by request, in reuses that begin with tokens kept so far
    saved: int  # ticks, by these reuses

    @property
    def choice(self) -> Literal["keep", "forget", "keep in part"]:
        """Their fate."""
        return "keep" if self.kept == self.held else "keep in part" if self.kept else "forget"


def kept_in_calls(trace: Trace) -> list[Kept]:
    """Return calls that start with contents."""
    made = _Keeping(trace)
    block, found = trace.instance.machine.block, list[Kept]()
    for i, request in enumerate(trace.requests):
        length = sum(part.blocks for part in trace.instance.parts[i])
        for call in request.calls:
            if held := min(call.held // block, length):
                found.append(made.kept(i, call, held))
    return found


class _Keeping:
    def __init__(self, trace: Trace) -> None:
        self.trace, self.block, self.parts = trace, trace.instance.machine.block, trace.instance.parts
        self.rows, self.savings = residence(trace), savings(trace)
        self.starts = {node: [row.start for row in rows] for node, rows in self.rows.items()}

    def kept(self, i: int, call: CallTrace, held: int) -> Kept:
        request = self.trace.requests[i]
        batch = min(span.batch for span in request.spans if span.batch > call.batch)
        until, kept, whole = self.trace.batches[batch].start, 0, True
        found = Kept(request.request.id, call, held * self.block, 0, 0, {}, 0)
        for part in self.parts[i]:
            for row in self.between(part.node, call.start, until):
                ticks = min(row.end, until) - max(row.start, call.start)
                free = min(row.blocks, part.of(held)) - row.blocks + row.retained
                found.retained += self.block * ticks * max(0, free)
            if whole:
                kept += min(part.of(held), least := self.least(part.node, call, until))
                whole = least >= part.blocks
        found.kept = kept * self.block
        first, last = (bisect_left(self.savings, (j + 1,)) for j in (call.batch, batch))
        for saving in self.savings[first:last]:
            if self.takes(saving, i, call, held):
                id = self.trace.requests[saving.position].request.id
                found.reused[id] = found.reused.get(id, 0) + saving.tokens
                found.saved += saving.ticks
        return found

    def between(self, node: str, start: int, end: int) -> list[Residence]:
        first = bisect_right(self.starts[node], start) - 1
        return self.rows[node][first : bisect_left(self.starts[node], end)]

    def least(self, node: str, call: CallTrace, tick: int) -> int:
        # resident from the start of the call up to the forgets at the tick
        first, *rows = self.between(node, call.start - 1, tick + 1)
        return min([first.blocks, *(row.stayed for row in rows)])

    def takes(self, saving: Saving, i: int, call: CallTrace, held: int) -> bool:
        # whether the reuse begins with a block of these that stayed
        at = saving.resident // self.block
        for part, other in zip(self.parts[i], self.parts[saving.position], strict=False):
            if part.node == other.node and part.before <= at < part.before + min(part.of(held), other.blocks):
                return at - part.before < self.least(part.node, call, self.trace.batches[saving.batch].start)
        return False
