"""The referee: executes a schedule exactly, or names the first rule that it breaks.

It speaks only the nouns: no solver, no formulation and no policy is imported here. The rules R1 to R11 are those of
`docs/semantics.md`. Of all that is broken, the earliest batch counts, and in it the lowest rule.
"""

from __future__ import annotations

import gc
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from kvcore.cost import Features
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.schedule import Batch, Schedule
from kvcore.state import CALLING, DONE, READY, RequestState, Stream
from kvcore.trace import CallTrace, Move, MoveKind, Phase, Run, Span, Trace, Waste

RULES = dict(enumerate((
    "time", "readiness", "work", "residence", "budgets", "device memory", "host memory", "eviction", "handling",
    "moves", "completion",
), 1))  # fmt: skip
"""The rules by number, as `docs/semantics.md` names them."""
MOST_BATCHES = 10**7
"""Batches that are executed: a day has 8.64 million of 10 ms."""
LONGEST = 2**20
"""Batches of one stretch, each of which takes 80 bytes until it is packed."""


@dataclass(eq=False)
class InvalidSchedule(Exception):
    """The schedule breaks `rule` (1 to 11) in `batch` (from 0; the number of batches for R11), at `request` if any."""

    rule: int
    batch: int
    request: str | None
    detail: str

    def __str__(self) -> str:
        """Return the one line that the command line prints."""
        who = "" if self.request is None else f", request {self.request}"
        return f"the {RULES[self.rule]} rule R{self.rule} is broken in batch {self.batch}{who}: {self.detail}"


def verify_schedule(instance: Instance, schedule: Schedule) -> Trace:
    """Execute `schedule` on `instance` exactly and return its trace.

    Raises:
        InvalidSchedule: the first rule broken, with the batch (from 0), the request and the numbers.
        BadInput: the schedule was made for another instance.
    """
    if schedule.instance_sha256 != instance.sha256:
        raise BadInput(
            f"the schedule is for another instance (its instance_sha256 is {schedule.instance_sha256[:12]}.., "
            f"that of {instance.name} is {instance.sha256[:12]}..)"
        )
    execution = Execution(instance)
    with garbage_collection_paused():
        for batch in schedule.batches:
            execution.execute(batch)
    return execution.trace(schedule)


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Pause the cyclic collector: an execution makes tuples by the million and no cycles; it takes half the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


_ORDERED: dict[str, MoveKind] = {"discard": "drop", "swap": "swap_out"}


class _MoveMade(NamedTuple):
    """A move, with what was there when it was made."""

    kind: MoveKind
    state: RequestState
    tokens: int
    available: int

    @property
    def evicts(self) -> bool:
        """Whether it drops, or swaps out, any KV at all (a move of less than one token takes none)."""
        return self.kind != "swap_in" and min(self.tokens, self.available) > 0


_Work = tuple[RequestState, int, bool, int]
"""Work in a batch: request, tokens, whether it decodes, blocks held during it (a plain tuple: there are millions)."""


class Execution:
    """Executes the batches of a schedule one after another. What a rule says is in the method of its name."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.machine = instance.machine
        self.cost = instance.cost
        self.states = {request.id: RequestState(i, request) for i, request in enumerate(instance.requests)}
        self.running_calls: list[tuple[int, int, RequestState]] = []  # heap: end, position, request
        self.blocks = 0  # device blocks held by all requests
        self.calling_blocks = 0  # those of requests in a call
        self.host = 0  # tokens on the host
        self.end = 0  # end of the previous batch
        self.passed = 0  # the memory held is accounted for up to here
        self.stream = Stream(self.machine.block)
        self.streams = False  # the stream works in this batch
        self.unfinished: list[RequestState] = []  # worked in the previous batch, and have not processed all
        self.due: list[RequestState] = []  # their call was started by the previous batch and orders a move
        self.ended: list[RequestState] = []  # the previous batch ended their segment
        self.count = 0  # batches executed
        self.runs: list[Run] = []
        self.waste = Waste()
        self.broken: list[InvalidSchedule] = []

    def fail(self, rule: int, request: str | None, detail: str) -> None:
        """Note a broken rule; the lowest of the batch is raised when the batch has been read."""
        self.broken.append(InvalidSchedule(rule, self.count, request, detail))

    @property
    def continuing(self) -> list[RequestState]:
        """Those that worked in the previous batch and did not end their segment, on a machine without `pause`."""
        return [*self.stream.members.values(), *self.unfinished]

    def execute(self, batch: Batch) -> None:
        """Execute a batch, as often as it is repeated, or raise InvalidSchedule."""
        self.execute_once(batch)
        repeats = batch.repeat - 1
        while repeats:
            done = self.stretch(batch.work, repeats)
            if not done:
                self.execute_once(batch.again(self.end))
            repeats -= done or 1

    def execute_once(self, batch: Batch) -> None:
        """Execute one batch, or raise InvalidSchedule (BadInput: `MOST_BATCHES` were before it)."""
        if self.count >= MOST_BATCHES:
            raise BadInput(f"more than {MOST_BATCHES:,} batches are not executed: coarsen the instance")
        continuing = [] if self.machine.pause else self.continuing
        self.rule_1_time(batch)
        self.pass_time(batch.start)
        moves = self.make_moves(batch)
        if moves or self.due:
            self.rule_8_eviction(moves)
            self.rule_9_handling(moves)
            self.rule_10_moves(moves)
        if not (batch.work or batch.swap_out or batch.swap_in):
            self.fail(10, None, "it has neither work nor a transfer")
        works = self.read_work(batch, moves)
        self.rule_5_budgets(works)
        self.rule_5_no_pause(batch, moves, continuing)
        self.rule_6_device_memory(works)
        self.rule_7_host_memory()
        if self.broken:
            raise min(self.broken, key=lambda broken: broken.rule)
        self.run(batch.start, works, moves)

    def trace(self, schedule: Schedule) -> Trace:
        """Return the trace of the schedule that has been executed; InvalidSchedule if a request is not done."""
        self.rule_11_completion()
        requests = tuple(state.trace for state in self.states.values())
        return Trace(self.instance, schedule, self.runs, requests, self.waste)

    # --- before the batch ----------------------------------------------------------------------------------------

    def rule_1_time(self, batch: Batch) -> None:
        """R1: t_1 >= 0 and t_{j+1} >= t_j + D_j."""
        if batch.start < self.end:
            earliest = f"the batch before it ends at {self.end}" if self.count else "time starts at 0"
            self.fail(1, None, f"it starts at {batch.start}, but {earliest}")

    def pass_time(self, now: int) -> None:
        """Idle up to `now`: account for the memory held, and end the calls that have ended."""
        idle = max(0, now - self.passed) * self.machine.block
        self.passed = max(now, self.passed)
        self.waste.calls += self.calling_blocks * idle
        self.waste.queued += (self.blocks - self.calling_blocks) * idle
        self.end_calls(now)

    def end_calls(self, now: int) -> None:
        """Append what the calls return that have ended by `now`."""
        while self.running_calls and self.running_calls[0][0] <= now:
            end, _, state = heappop(self.running_calls)
            state.known += state.request.calls[state.segment - 1].returns
            state.status = READY
            self.calling_blocks -= state.blocks
            overtime = state.blocks * self.machine.block * (now - end)  # accounted for as in the call until `now`
            self.waste.calls -= overtime
            self.waste.queued += overtime

    # --- moves ---------------------------------------------------------------------------------------------------

    def make_moves(self, batch: Batch) -> list[_MoveMade]:
        """Make the moves in their order: drop, swap_out, swap_in; of more than is there, all that is there."""
        moves: list[_MoveMade] = []
        asked: tuple[tuple[MoveKind, dict[str, int]], ...] = (
            ("drop", batch.drop),
            ("swap_out", batch.swap_out),
            ("swap_in", batch.swap_in),
        )
        for kind, tokens_of in asked:
            for id, tokens in tokens_of.items():
                state = self.states.get(id)
                if state is None:
                    self.fail(10, id, f"{kind}: the instance has no such request")
                else:
                    moves.append(self.make_move(kind, state, tokens))
        return moves

    def make_move(self, kind: MoveKind, state: RequestState, tokens: int) -> _MoveMade:
        """Make one move; KV stays a prefix: [0, m) on the device, [m, m + h) on the host."""
        if state.joined >= 0:
            self.stream.leave(state)
        available = {"drop": state.device + state.host, "swap_out": state.device, "swap_in": state.host}[kind]
        moved = max(0, min(tokens, available))
        from_host = {"drop": min(state.host, moved), "swap_out": -moved, "swap_in": moved}[kind]
        from_device = {"drop": moved - from_host, "swap_out": moved, "swap_in": -moved}[kind]
        state.host -= from_host
        self.host -= from_host
        state.device -= from_device
        blocks = self.machine.blocks(state.device)
        self.blocks += blocks - state.blocks
        if state.status == CALLING:
            self.calling_blocks += blocks - state.blocks
        state.blocks = blocks
        if state.window:
            self.note_handling(kind, state)
        return _MoveMade(kind, state, tokens, available)

    def note_handling(self, kind: MoveKind, state: RequestState) -> None:
        """Note what a move between the start of a call and the next work does to its KV."""
        call = state.call
        assert call is not None
        if kind == "drop":
            call.dropped = True
            call.all_dropped |= state.device + state.host == 0
        elif kind == "swap_out":
            call.swapped = True
            call.all_swapped |= state.host == call.held

    def allowed_by_rule_9(self, move: _MoveMade) -> bool:
        """Whether R9 allows or orders a drop or swap_out, and with it everything that R8 and R4 forbid."""
        state = move.state
        if not state.window:
            return False
        if state.handling == "free":
            return True
        return self.in_ordered_batch(state) and move.kind == _ORDERED.get(state.handling)

    def in_ordered_batch(self, state: RequestState) -> bool:
        """Whether this is the batch after the one that started the latest call."""
        return state.window and state.call is not None and state.call.batch == self.count - 1

    def rule_8_eviction(self, moves: list[_MoveMade]) -> None:
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

    def rule_9_handling(self, moves: list[_MoveMade]) -> None:
        """R9: what each handling of a call orders and allows."""
        for state in self.due:
            kind = _ORDERED[state.handling]
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

    def rule_10_moves(self, moves: list[_MoveMade]) -> None:
        """R10: every move takes at least one token, and no more than there are."""
        for move in moves:
            if not 1 <= move.tokens <= move.available:
                self.fail(10, move.state.request.id, f"{move.kind} of {move.tokens} tokens, there are {move.available}")

    # --- work ----------------------------------------------------------------------------------------------------

    def read_work(self, batch: Batch, moves: list[_MoveMade]) -> list[_Work]:
        """Read the work of the batch under R2 (readiness), R3 (work) and R4 (residence), but for the stream.

        One in the stream has a single token to process, and is ready; one that does anything else leaves it, unless
        all of them pause.
        """
        members = self.stream.members
        others = {id: tokens for id, tokens in batch.work.items() if tokens != 1 or id not in members}
        self.streams = len(others) < len(batch.work)
        if len(batch.work) < len(others) + len(members):
            for id in [id for id in members if id in others or (self.streams and id not in batch.work)]:
                self.stream.leave(members[id])
        evicted = {move.state.request.id: move for move in moves if move.evicts and not self.allowed_by_rule_9(move)}
        works: list[_Work] = []
        chunked, block = self.machine.chunked, self.machine.block
        for id, tokens in others.items():
            state = self.states.get(id)
            if state is None:
                self.fail(10, id, "work: the instance has no such request")
                continue
            if state.status != READY or state.request.arrival > batch.start:
                self.rule_2_readiness(state, batch.start)
                continue
            missing = state.known - state.device
            if tokens < 1 or tokens > missing or (tokens < missing and not chunked):
                whole = "" if chunked else ", all of them without chunked prefills"
                self.fail(3, id, f"it processes {tokens} tokens, {missing} are to be processed{whole}")
                continue
            if state.host:
                self.fail(4, id, f"it works while {state.host} tokens of its KV are on the host")
            if id in evicted:
                self.fail(4, id, f"it works although a {evicted[id].kind} takes KV of it in the same batch")
            decode = missing == 1 and state.device > 0
            works.append((state, tokens, decode, -(-(state.device + tokens) // block)))
        return works

    def rule_2_readiness(self, state: RequestState, now: int) -> None:
        """R2: a request works only if it has arrived, is not in a call and is not done."""
        if state.status == DONE:
            why = f"it was done at {state.trace.completion}"
        elif state.status == CALLING:
            assert state.call is not None
            why = f"it is in a call until {state.call.end}"
        else:
            why = f"it arrives at {state.request.arrival}"
        self.fail(2, state.request.id, f"it works at {now}, but {why}")

    def rule_5_budgets(self, works: list[_Work]) -> None:
        """R5: tokens, prefill tokens and requests of a batch; one phase only without `hybrid`."""
        machine, stream = self.machine, len(self.stream) if self.streams else 0
        tokens = stream + sum(tokens for _, tokens, _, _ in works)
        prefill_tokens = sum(tokens for _, tokens, decode, _ in works if not decode)
        if machine.batch_tokens is not None and tokens > machine.batch_tokens:
            self.fail(5, None, f"it processes {tokens} tokens, batch_tokens is {machine.batch_tokens}")
        if machine.prefill_tokens is not None and prefill_tokens > machine.prefill_tokens:
            self.fail(5, None, f"it prefills {prefill_tokens} tokens, prefill_tokens is {machine.prefill_tokens}")
        requests = stream + len(works)
        if machine.batch_requests is not None and requests > machine.batch_requests:
            self.fail(5, None, f"{requests} requests work in it, batch_requests is {machine.batch_requests}")
        decodes = {decode for _, _, decode, _ in works}
        if not machine.hybrid and False in decodes and (stream or True in decodes):
            self.fail(5, None, "it mixes prefills and decodes, and the machine is not hybrid")

    def rule_5_no_pause(self, batch: Batch, moves: list[_MoveMade], continuing: list[RequestState]) -> None:
        """R5 without `pause`: what worked in the batch before works on, unless its segment ended or it is evicted."""
        evicted = {move.state.request.id for move in moves if move.evicts}
        for state in continuing:
            id = state.request.id
            if id not in batch.work and id not in evicted:
                self.fail(5, id, "it pauses within a segment, and the machine does not pause")

    def rule_6_device_memory(self, works: list[_Work]) -> None:
        """R6: the blocks of all requests, after the moves and the growth, are at most the memory."""
        growth = self.stream.growth() if self.streams else 0
        growth += sum(blocks - state.blocks for state, _, _, blocks in works)
        blocks = self.blocks + growth
        memory, block = self.machine.memory, self.machine.block
        if memory is not None and blocks * block > memory:
            self.fail(6, None, f"the requests occupy {blocks} blocks of {block} = {blocks * block}, memory is {memory}")

    def rule_7_host_memory(self) -> None:
        """R7: the tokens on the host, after the moves, are at most its memory."""
        if self.machine.host_memory is not None and self.host > self.machine.host_memory:
            self.fail(7, None, f"the host holds {self.host} tokens, host_memory is {self.machine.host_memory}")

    def rule_11_completion(self) -> None:
        """R11: every request is done at the end."""
        for state in self.states.values():
            if state.status != DONE:
                if state.joined >= 0:
                    self.stream.leave(state)
                tokens = state.to_generate + sum(s.decode for s in state.request.segments[state.segment + 1 :])
                detail = f"it is not done at the end: {tokens} tokens are still to be generated"
                raise InvalidSchedule(11, self.count, state.request.id, detail)

    # --- execution -----------------------------------------------------------------------------------------------

    def run(self, start: int, works: list[_Work], moves: list[_MoveMade]) -> None:
        """Let the batch run for D ticks: tokens are processed and generated, calls start, requests end."""
        j, block = self.count, self.machine.block
        for move in moves:
            move.state.trace.moves.append(Move(j, move.kind, move.tokens))
        features = self.features(works, moves)
        duration = self.cost.duration(features)
        self.end = self.passed = start + duration
        idle = self.blocks  # of requests that do not work
        refilling = 0
        if self.streams:
            idle -= self.stream.blocks
            growth = self.stream.growth()
            self.stream.advance(1, growth, j)
            self.blocks += growth
        for state, _, _, blocks in works:
            idle -= state.blocks
            self.blocks += blocks - state.blocks
            state.blocks = blocks
            if state.device < state.computed:
                refilling += blocks
        device = self.blocks * block
        transferring = self.transferring(works, moves)
        self.waste.calls += self.calling_blocks * block * duration
        self.waste.transfer += transferring * block * duration
        self.waste.queued += (idle - self.calling_blocks - transferring) * block * duration
        self.waste.recomputation += refilling * block * duration

        self.due = []
        self.ended = []
        self.unfinished = []
        for state in self.stream.ended() if self.streams else ():
            self.end_segment(state)
        joining = [state for state, tokens, decode, _ in works if self.work(state, tokens, decode)]
        self.count += 1
        for state in joining:
            self.stream.join(state)
        self.runs.append(Run(start, (self.end,), features, (device,), self.blocks * block, self.host))

    def work(self, state: RequestState, tokens: int, decode: bool) -> bool:
        """Let a request process tokens in this batch; return whether it decodes on after it."""
        resident = state.device
        state.device = grown = resident + tokens
        recomputed = max(0, min(grown, state.computed) - resident)
        state.computed = max(state.computed, grown)
        state.window = False
        generated = grown == state.known
        phase: Phase = "decode" if decode else "prefill"
        state.trace.spans.append(Span(self.count, 1, resident, tokens, phase, recomputed, generated))
        if not generated:
            self.unfinished.append(state)
            return False
        state.known += 1
        state.to_generate -= 1
        if state.trace.first_token < 0:
            state.trace.first_token = self.end
        if not state.to_generate:
            self.end_segment(state)
            return False
        return True

    def stretch(self, work: dict[str, int], most: int, until: int | None = None) -> int:
        """Repeat the batch before, of this work, up to `most` times; return how often.

        Only decodes that go on are repeated, so that nothing but memory can break a rule. It ends with the first batch
        that ends a segment, before one that lacks memory, and with the first that ends at `until` or later.
        """
        stream, block = self.stream, self.machine.block
        if (
            self.due
            or self.unfinished
            or not self.streams
            or work.keys() != stream.members.keys()
            or set(work.values()) != {1}
        ):
            return 0
        features = self.features([], [])
        most = min(most, stream.until_end(), MOST_BATCHES - self.count, LONGEST)
        start, blocks, limit = self.end, self.blocks, self.machine.block_limit
        ends: list[int] = []
        devices: list[int] = []
        for step, duration in zip(range(most), self.cost.durations(features), strict=False):
            blocks += stream.growth(step)
            if limit is not None and blocks > limit:
                break
            self.end += duration
            ends.append(self.end)
            devices.append(blocks * block)
            if until is not None and self.end >= until:
                break
        if not ends:
            return 0
        self.passed = self.end
        idle = self.blocks - stream.blocks
        self.waste.calls += self.calling_blocks * block * (self.end - start)
        self.waste.queued += (idle - self.calling_blocks) * block * (self.end - start)
        grown = devices[-1] // block - self.blocks
        stream.advance(len(ends), grown, self.count)
        self.blocks += grown
        self.count += len(ends) - 1
        self.ended = []
        for state in stream.ended():
            self.end_segment(state)
        self.count += 1
        self.runs.append(Run(start, _packed(ends), features, _packed(devices), self.blocks * block, self.host))
        return len(ends)

    def features(self, works: list[_Work], moves: list[_MoveMade]) -> Features:
        """Count what the cost depends on."""
        tokens = generated = decodes = len(self.stream) if self.streams else 0
        decode_kv = self.stream.kv if self.streams else 0
        prefill_kv = pairs = prefills = 0
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
        swaps: dict[str, list[int]] = {"drop": [], "swap_out": [], "swap_in": []}
        for move in moves:
            swaps[move.kind].append(move.tokens)
        return Features(
            busy=int(decodes + prefills > 0),
            any_decode=int(decodes > 0),
            any_prefill=int(prefills > 0),
            tokens=tokens,
            generated=generated,
            decode_requests=decodes,
            prefill_requests=prefills,
            decode_kv=decode_kv,
            prefill_kv=prefill_kv,
            prefill_pairs=pairs,
            swap_out_tokens=sum(swaps["swap_out"]),
            swap_in_tokens=sum(swaps["swap_in"]),
            swap_outs=len(swaps["swap_out"]),
            swap_ins=len(swaps["swap_in"]),
        )

    @staticmethod
    def transferring(works: list[_Work], moves: list[_MoveMade]) -> int:
        """Blocks of requests that are ready but only transfer in this batch."""
        if not moves:
            return 0
        working = {state.position for state, _, _, _ in works}
        moved = {
            move.state.position: move.state.blocks
            for move in moves
            if move.kind != "drop" and move.state.status == READY and move.state.position not in working
        }
        return sum(moved.values())

    def end_segment(self, state: RequestState) -> None:
        """Start the call that ends the segment in this batch, or end the request."""
        trace = state.trace
        self.ended.append(state)
        call = state.request.segments[state.segment].call
        if call is None:
            trace.completion = self.end
            state.status = DONE
            self.blocks -= state.blocks
            state.device = state.blocks = 0
            return
        state.call = CallTrace(state.segment, self.count, self.end, self.end + call.duration, state.device)
        trace.calls.append(state.call)
        state.handling = call.handling
        state.window = True
        state.status = CALLING
        self.calling_blocks += state.blocks
        heappush(self.running_calls, (state.call.end, state.position, state))
        if call.handling in _ORDERED:
            self.due.append(state)
        state.segment += 1
        state.to_generate = state.request.segments[state.segment].decode


def _packed(numbers: list[int]) -> Sequence[int]:
    """Return the numbers in a quarter of the memory, where they fit into 64 bits."""
    return array("q", numbers) if len(numbers) > 1 and numbers[-1] < 2**63 else numbers
