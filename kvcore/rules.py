"""The rules R1 to R12 of `docs/semantics.md`, a method each: `Execution` executes a schedule batch by batch.

Of all broken rules the earliest batch counts, and in it the lowest rule. `kvcore/decode_stream.py` does the same
faster; the tests compare the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from kvcore.cost import Features
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.limits import LIMITS, Use, use_of
from kvcore.resident import Resident
from kvcore.schedule import Batch, Schedule
from kvcore.state import CALLING, DONE, READY, RequestState
from kvcore.trace import CallTrace, Move, MoveKind, Phase, Run, Span, Trace

RULES = dict(enumerate((
    "time", "readiness", "work", "residence", "budgets", "device memory", "host memory", "eviction", "handling",
    "moves", "completion", "sharing",
), 1))  # fmt: skip
"""The rules of `docs/semantics.md` by number."""
MOST_BATCHES = 10**7
"""Batches executed: a day has 8.64 million of 10 ms."""


@dataclass(eq=False)
class InvalidSchedule(Exception):
    """The schedule breaks `rule` (1 to 12) in `batch` (from 0; the number of batches for R11), at `request` if any."""

    rule: int
    batch: int
    request: str | None
    detail: str

    def __str__(self) -> str:
        who = "" if self.request is None else f", request {self.request}"
        return f"the {RULES[self.rule]} rule R{self.rule} is broken in batch {self.batch}{who}: {self.detail}"


ORDERED: dict[str, MoveKind] = {"discard": "drop", "swap": "swap_out"}
"""The move that a handling orders in the batch after the one that starts the call."""


class MoveMade(NamedTuple):
    """A move, with the KV before it."""

    kind: MoveKind
    state: RequestState
    tokens: int
    available: int

    @property
    def evicts(self) -> bool:
        """Whether it drops or swaps out any KV."""
        return self.kind != "swap_in" and min(self.tokens, self.available) > 0


class Work(NamedTuple):
    """A request's work in a batch."""

    state: RequestState
    tokens: int
    decode: bool
    blocks: int  # private device blocks during the batch


def check_count(batches: int) -> None:
    """Refuse more batches than are executed."""
    if batches > MOST_BATCHES:
        raise BadInput(f"more than {MOST_BATCHES:,} batches are not executed: coarsen the instance")


class Execution:
    """Executes a schedule batch by batch. Each rule is in the method of its name."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.machine = instance.machine
        self.cost = instance.cost
        self.shares, self.resident = bool(instance.contents), Resident(instance)
        self.states = {
            request.id: RequestState(i, request, self.resident.length(i) if self.shares else 0)
            for i, request in enumerate(instance.requests)
        }
        self.running_calls: list[tuple[int, int, RequestState]] = []  # heap: end, position, request
        self.blocks = 0  # device blocks: private ones of all requests, and resident ones of contents
        self.host = 0  # tokens on the host
        self.end = 0  # end of the previous batch
        self.unfinished: list[RequestState] = []  # worked in the previous batch, which did not end their segment
        self.due: list[RequestState] = []  # their call was started by the previous batch and orders a move
        self.count = 0  # batches executed
        self.runs: list[Run] = []
        self.limits = [(Use._fields.index(limit.column), most, limit) for limit in LIMITS
                       if (most := limit.of(self.machine)) is not None]  # fmt: skip
        self.broken: list[InvalidSchedule] = []

    def fail(self, rule: int, request: str | None, detail: str) -> None:
        """Note a broken rule; the batch's lowest is raised."""
        self.broken.append(InvalidSchedule(rule, self.count, request, detail))

    @property
    def continuing(self) -> list[RequestState]:
        """Those that worked in the previous batch and did not end their segment."""
        return self.unfinished

    def execute(self, batch: Batch) -> None:
        """Execute a batch with its repetitions, or raise InvalidSchedule."""
        self.execute_once(batch)
        for _ in range(batch.repeat - 1):
            self.execute_once(batch.again(self.end))

    def execute_once(self, batch: Batch) -> None:
        """Execute a batch once, or raise InvalidSchedule (BadInput: after `MOST_BATCHES`)."""
        if self.count >= MOST_BATCHES:
            check_count(self.count + 1)
        continuing = [] if self.machine.pause else self.continuing
        self.rule_1_time(batch)
        self.end_calls(batch.start)
        moves = self.make_moves(batch)
        if moves or self.due:
            self.rule_8_eviction(moves)
            self.rule_9_handling(moves)
            self.rule_10_moves(moves)
        if not (batch.work or batch.swap_out or batch.swap_in):
            self.fail(10, None, "it has neither work nor a transfer")
        reuses = self.make_moves_of("reuse", batch.reuse) if batch.reuse else []
        works = self.read_work(batch.start, batch.work)  # R2, R3
        self.rule_4_residence(works, moves)
        features = self.features(works, moves)
        completed = self.completed(works) if self.shares else {}
        blocks = self.blocks - self.held(works) + self.needed(works)
        if completed:
            blocks += self.resident.more(completed)
        use = use_of(features.tokens, features.decode_requests, features.prefill_requests, blocks, self.host)
        self.rules_5_to_7_limits(use)
        self.rule_5_one_phase(use)
        if continuing:
            self.rule_5_no_pause(batch, moves, continuing)
        if reuses:
            self.rule_12_reuse(reuses, works)
        if self.broken:
            raise min(self.broken, key=lambda broken: broken.rule)
        if self.shares:
            self.share(works, completed)
        self.run(batch.start, works, moves + reuses, features, blocks)

    def trace(self, schedule: Schedule) -> Trace:
        """Return the trace of the executed schedule; InvalidSchedule if a request is not done."""
        self.rule_11_completion()
        requests = tuple(state.trace for state in self.states.values())
        return Trace(self.instance, schedule, self.runs, requests)

    # --- before the batch ----------------------------------------------------------------------------------------

    def rule_1_time(self, batch: Batch) -> None:
        """R1: t_1 >= 0 and t_{j+1} >= t_j + D_j."""
        if batch.start < self.end:
            earliest = f"the batch before it ends at {self.end}" if self.count else "time starts at 0"
            self.fail(1, None, f"it starts at {batch.start}, but {earliest}")

    def end_calls(self, now: int) -> None:
        """Append the returns of calls that have ended by `now`."""
        while self.running_calls and self.running_calls[0][0] <= now:
            state = heappop(self.running_calls)[2]
            state.known += state.request.calls[state.segment - 1].returns
            state.status = READY

    # --- moves ---------------------------------------------------------------------------------------------------

    def make_moves(self, batch: Batch) -> list[MoveMade]:
        """Make the moves in order: drop, swap_out, forget, swap_in; of too many tokens, all there are."""
        moves = self.make_moves_of("drop", batch.drop) if batch.drop else []
        if batch.swap_out:
            moves += self.make_moves_of("swap_out", batch.swap_out)
        if batch.forget:
            self.forget(batch.forget)
        return moves + self.make_moves_of("swap_in", batch.swap_in) if batch.swap_in else moves

    def make_moves_of(self, kind: MoveKind, tokens_of: dict[str, int]) -> list[MoveMade]:
        """Make all moves of a kind."""
        moves: list[MoveMade] = []
        for id, tokens in tokens_of.items():
            state = self.states.get(id)
            if state is None:
                self.fail(10, id, f"{kind}: the instance has no such request")
            else:
                moves.append(self.make_move(kind, state, tokens))
        return moves

    def make_move(self, kind: MoveKind, state: RequestState, tokens: int) -> MoveMade:
        """Make one move; KV stays a prefix: [0, m) on the device, [m, m + h) on the host."""
        available = {
            "drop": state.device + state.host, "swap_out": state.device, "swap_in": state.host, "reuse": tokens
        }[kind]  # fmt: skip
        moved = max(0, min(tokens, available))
        from_host = {"drop": min(state.host, moved), "swap_out": -moved, "swap_in": moved, "reuse": 0}[kind]
        from_device = {"drop": moved - from_host, "swap_out": moved, "swap_in": -moved, "reuse": -moved}[kind]
        if kind == "reuse":
            state.skip(moved)
        before = self.machine.hosted(state.host)
        state.host -= from_host
        self.host += self.machine.hosted(state.host) - before
        state.device -= from_device
        blocks = self.private(state, state.device)
        self.blocks += blocks - state.blocks
        state.blocks = blocks
        if state.path:
            self.hold(state, makes_resident=kind == "swap_in")
        if state.window:
            self.note_handling(kind, state)
        return MoveMade(kind, state, tokens, available)

    def hold(self, state: RequestState, *, makes_resident: bool) -> None:
        """Let a request hold the blocks of its path."""
        blocks = state.device // self.machine.block
        self.resident.hold(state.position, blocks)
        if makes_resident:
            found = self.resident.with_blocks([(state.position, blocks)])
            self.blocks += self.resident.more(found)
            self.resident.add(found)

    def forget(self, blocks_of: dict[str, int]) -> None:
        """R12: a forget takes resident blocks that nobody holds; each left has the one before it."""
        known = [node for node in blocks_of if node in self.resident.blocks]
        for node in blocks_of.keys() - known:
            self.fail(10, None, f"forget: the instance has no node {node}")
        for node in known:
            asked, there = blocks_of[node], self.resident.blocks[node]
            if not 1 <= asked <= there:
                self.fail(12, None, f"forget of {asked} blocks of node {node}, {there} are resident")
            gone = max(0, min(asked, there))
            self.resident.forget(node, gone)
            self.blocks -= gone
        for node in known:
            if why := self.resident.why_not_forget(node):
                self.fail(12, None, why)

    def note_handling(self, kind: MoveKind, state: RequestState) -> None:
        """Note how a move between the start of a call and the next work handles its KV."""
        call = state.call
        assert call is not None
        if kind == "drop":
            call.dropped = True
            call.all_dropped |= state.device + state.host == 0
        elif kind == "swap_out":
            call.swapped = True
            call.all_swapped |= state.host == call.held

    def allowed_by_rule_9(self, move: MoveMade) -> bool:
        """Whether R9 allows or orders a drop or swap_out, and with it everything that R8 and R4 forbid."""
        state = move.state
        if not state.window:
            return False
        if state.handling == "free":
            return True
        return self.in_ordered_batch(state) and move.kind == ORDERED.get(state.handling)

    def in_ordered_batch(self, state: RequestState) -> bool:
        """Whether this batch follows the one that started the latest call."""
        return state.window and state.call is not None and state.call.batch == self.count - 1

    def rule_8_eviction(self, moves: list[MoveMade]) -> None:
        """R8: other evictions than those of R9 need `evict` and no running call; without `partial`, all or nothing."""
        for move in moves:
            id = move.state.request.id
            if move.kind != "swap_in" and not self.allowed_by_rule_9(move):
                if move.state.status == CALLING:
                    self.fail(8, id, f"{move.kind} during a call handled by {move.state.handling}")
                elif not self.machine.evict:
                    self.fail(8, id, f"{move.kind} outside a call, and the machine does not evict")
            if not self.machine.partial and move.tokens != move.available:
                self.fail(8, id, f"{move.kind} of {move.tokens} of {move.available} tokens without partial moves")

    def rule_9_handling(self, moves: list[MoveMade]) -> None:
        """R9: what each handling of a call orders and allows."""
        for state in sorted(self.due, key=lambda state: state.position):
            kind = ORDERED[state.handling]
            held = state.call.held if state.call is not None else 0
            made = [move.tokens for move in moves if move.state is state and move.kind == kind]
            if made != [held]:
                did = f"{kind} of {made[0]}" if made else f"no {kind}"
                self.fail(
                    9, state.request.id, f"its call orders a {kind} of all {held} tokens in this batch, it has {did}"
                )
        for move in moves:
            if move.kind == "swap_in" and move.state.status == CALLING and move.state.handling == "preserve":
                self.fail(9, move.state.request.id, "swap_in during a call handled by preserve")

    def rule_10_moves(self, moves: list[MoveMade]) -> None:
        """R10: every move takes at least one token, and no more than there are."""
        for move in moves:
            if not 1 <= move.tokens <= move.available:
                self.fail(10, move.state.request.id, f"{move.kind} of {move.tokens} tokens, there are {move.available}")

    # --- work ----------------------------------------------------------------------------------------------------

    def read_work(self, start: int, work: dict[str, int]) -> list[Work]:
        """Return the batch's work that R2 and R3 allow."""
        works: list[Work] = []
        for id, tokens in work.items():
            state = self.states.get(id)
            if state is None:
                self.fail(10, id, "work: the instance has no such request")
            elif self.rule_2_readiness(state, start) and self.rule_3_work(state, tokens):
                decode = state.known - state.device == 1 and state.device > 0
                works.append(Work(state, tokens, decode, self.private(state, state.device + tokens)))
        return works

    def private(self, state: RequestState, tokens: int) -> int:
        """Return the blocks of a request's first `tokens` beyond its path."""
        blocks = self.machine.blocks(tokens)
        return blocks - min(tokens // self.machine.block, state.path) if state.path else blocks

    def completed(self, works: list[Work]) -> dict[str, int]:
        """Return the nodes that gain blocks, and their number."""
        return self.resident.with_blocks((w.state.position, self.on_path(w, w.tokens)) for w in works)

    def on_path(self, work: Work, tokens: int) -> int:
        """Return the full blocks of a request in work, `tokens` later."""
        return (work.state.device + tokens) // self.machine.block

    def rule_2_readiness(self, state: RequestState, now: int) -> bool:
        """R2: a request works only if it has arrived, is not in a call and is not done."""
        if state.status == READY and state.request.arrival <= now:
            return True
        if state.status == DONE:
            why = f"it was done at {state.trace.completion}"
        elif state.status == CALLING:
            assert state.call is not None
            why = f"it is in a call until {state.call.end}"
        else:
            why = f"it arrives at {state.request.arrival}"
        self.fail(2, state.request.id, f"it works at {now}, but {why}")
        return False

    def rule_3_work(self, state: RequestState, tokens: int) -> bool:
        """R3: 1 <= c <= S - m; without `chunked`, c = S - m."""
        missing = state.known - state.device
        if 1 <= tokens <= missing and (tokens == missing or self.machine.chunked):
            return True
        whole = "" if self.machine.chunked else ", all of them without chunked prefills"
        self.fail(3, state.request.id, f"it processes {tokens} tokens, {missing} are to be processed{whole}")
        return False

    def rule_4_residence(self, works: list[Work], moves: list[MoveMade]) -> None:
        """R4: what works has no KV on the host, and loses none in this batch but by R9 (or a drop, `drop_and_work`)."""
        if not (self.host or moves):
            return
        free = "drop" if self.machine.drop_and_work else None
        taken = [move for move in moves if move.evicts and move.kind != free and not self.allowed_by_rule_9(move)]
        evicted = {move.state.request.id: move for move in taken}
        for state, *_ in works:
            id = state.request.id
            if state.host:
                self.fail(4, id, f"it works while {state.host} tokens of its KV are on the host")
            if id in evicted:
                self.fail(4, id, f"it works although a {evicted[id].kind} takes KV of it in the same batch")

    def rules_5_to_7_limits(self, use: Use) -> None:
        """R5 to R7: a batch takes at most what there is of each of `LIMITS`."""
        for column, most, limit in self.limits:
            if use[column] > most:
                self.fail(limit.rule, None, limit.exceeded(self.machine, use[column]))

    def rule_5_one_phase(self, use: Use) -> None:
        """R5 without `hybrid`: prefills and decodes share no batch."""
        if not self.machine.hybrid and use.decode_requests and use.prefill_requests:
            self.fail(5, None, "it mixes prefills and decodes, and the machine is not hybrid")

    def rule_5_no_pause(self, batch: Batch, moves: list[MoveMade], continuing: list[RequestState]) -> None:
        """R5 without `pause`: what worked in the batch before works on, unless its segment ended or it is evicted."""
        evicted = {move.state.request.id for move in moves if move.evicts}
        pausing = [s for s in continuing if s.request.id not in batch.work and s.request.id not in evicted]
        for state in sorted(pausing, key=lambda state: state.position):
            self.fail(5, state.request.id, "it pauses within a segment, and the machine does not pause")

    def rule_12_reuse(self, reuses: list[MoveMade], works: list[Work]) -> None:
        """R12: a request in work reuses full blocks, resident or (`same_batch`) completed by work."""
        block, working = self.machine.block, {work.state for work in works}
        made = [(w.state.position, self.on_path(w, 0), self.on_path(w, w.tokens)) for w in works]
        for _, state, tokens, _ in reuses:
            id, most = state.request.id, min(state.path * block, state.known - 1)
            if state not in working:
                self.fail(12, id, "reuse without work")
            elif tokens < 1 or state.device % block or state.device > most:
                ends = f"it ends at a multiple of {block} up to {most}"
                self.fail(12, id, f"reuse of {tokens} tokens up to token {state.device}; {ends}")
            elif node := self.resident.lacks(state.position, state.device // block, made):
                self.fail(12, id, f"reuse up to token {state.device}, for which blocks of node {node} are not resident")

    def rule_11_completion(self) -> None:
        """R11: every request is done at the end."""
        for state in self.states.values():
            if state.status != DONE:
                tokens = state.to_generate + sum(s.decode for s in state.request.segments[state.segment + 1 :])
                detail = f"it is not done at the end: {tokens} tokens are still to be generated"
                raise InvalidSchedule(11, self.count, state.request.id, detail)

    # --- execution -----------------------------------------------------------------------------------------------

    def share(self, works: list[Work], completed: dict[str, int]) -> None:
        """Let completed blocks be resident and held."""
        self.resident.add(completed)
        for work in works:
            self.resident.hold(work.state.position, self.on_path(work, work.tokens))

    def run(self, start: int, works: list[Work], moves: list[MoveMade], features: Features, blocks: int) -> None:
        """Run the batch: tokens are processed, calls start, requests end."""
        for move in moves:
            move.state.trace.moves.append(Move(self.count, move.kind, move.tokens))
        self.end = start + self.cost.duration(features)
        self.due, self.blocks = [], blocks
        block, retained = self.machine.block, self.resident.retained
        self.process(works)
        self.count += 1
        self.runs.append(Run(start, (self.end,), features, (blocks * block,), self.blocks * block, self.host,
                             retained * block, self.resident.retained * block))  # fmt: skip

    def held(self, works: list[Work]) -> int:
        """Return the working requests' device blocks before the batch."""
        return sum([work.state.blocks for work in works])

    def needed(self, works: list[Work]) -> int:
        """Return the working requests' device blocks during the batch."""
        return sum([work.blocks for work in works])

    def process(self, works: list[Work]) -> None:
        """Process all work."""
        self.unfinished = [work.state for work in works if self.work(*work)]

    def work(self, state: RequestState, tokens: int, decode: bool, blocks: int) -> bool:
        """Process a request's tokens; return whether its segment goes on."""
        resident, grown = state.device, state.device + tokens
        state.blocks = blocks
        recomputed = state.again(tokens)
        state.window = False
        state.device = grown
        generated = grown == state.known
        phase: Phase = "decode" if decode else "prefill"
        state.trace.spans.append(Span(self.count, 1, resident, tokens, phase, recomputed, generated))
        if not generated:
            return True
        state.known += 1
        state.to_generate -= 1
        if state.trace.first_token < 0:
            state.trace.first_token = self.end
        if state.to_generate:
            return True
        self.end_segment(state)
        return False

    def features(self, works: list[Work], moves: list[MoveMade], decodes: int = 0, decode_kv: int = 0) -> Features:
        """Count the features of the cost, with `decodes` more decodes that hold `decode_kv` tokens."""
        tokens = generated = decodes
        prefills = prefill_kv = pairs = 0
        for state, count, decode, _ in works:
            resident = state.device
            tokens += count
            generated += resident + count == state.known
            if decode:
                decodes += 1
                decode_kv += resident
            else:
                prefills += 1
                prefill_kv += resident
                pairs += count * count + 2 * count * resident
        any_decode, any_prefill = int(decodes > 0), int(prefills > 0)
        counts = (any_decode | any_prefill, any_decode, any_prefill, tokens, generated, decodes, prefills, decode_kv,
                  prefill_kv, pairs)  # fmt: skip
        if not moves:
            return Features(*counts)
        out = [move.tokens for move in moves if move.kind == "swap_out"]
        back = [move.tokens for move in moves if move.kind == "swap_in"]
        return Features(*counts, sum(out), sum(back), len(out), len(back))

    def end_segment(self, state: RequestState) -> None:
        """Start the call after the segment, or end the request."""
        trace = state.trace
        call = state.request.segments[state.segment].call
        if call is None:
            trace.completion = self.end
            state.status = DONE
            self.blocks -= state.blocks
            state.device = state.blocks = 0
            if state.path:
                self.resident.hold(state.position, 0)
            return
        state.call = CallTrace(state.segment, self.count, self.end, self.end + call.duration, state.device)
        trace.calls.append(state.call)
        state.handling = call.handling
        state.window = True
        state.status = CALLING
        heappush(self.running_calls, (state.call.end, state.position, state))
        if call.handling in ORDERED:
            self.due.append(state)
        state.segment += 1
        state.to_generate = state.request.segments[state.segment].decode
