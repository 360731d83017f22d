"""The referee: executes a schedule exactly, or names the first rule that it breaks.

It speaks only the nouns: no solver, no formulation and no policy is imported here. The rules R1 to R11 are those of
`docs/semantics.md`. Of all that is broken, the earliest batch counts, and in it the lowest rule.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from kvbound.cost import Features
from kvbound.errors import BadInput
from kvbound.instance import Instance, Request
from kvbound.schedule import Batch, Schedule
from kvbound.trace import BatchTrace, CallTrace, Move, MoveKind, RequestTrace, Step, Trace, Waste


@dataclass(eq=False)
class InvalidSchedule(Exception):  # noqa: N818 - the name says what it is
    """The schedule breaks `rule` (1 to 11) in `batch` (from 0; the number of batches for R11), at `request` if any."""

    rule: int
    batch: int
    request: str | None
    detail: str

    def __str__(self) -> str:
        """Return the one line that the command line prints."""
        who = "" if self.request is None else f", request {self.request}"
        return f"R{self.rule} is broken in batch {self.batch}{who}: {self.detail}"


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
    with _garbage_collection_paused():
        for batch in schedule.batches:
            execution.execute(batch)
    execution.rule_11_completion()
    return Trace(
        instance=instance,
        schedule=schedule,
        batches=execution.batches,
        requests=tuple(state.trace for state in execution.states.values()),
        waste=execution.waste,
    )


@contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """Pause the cyclic collector: an execution makes tuples by the million and no cycles; it takes half the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


_READY, _CALLING, _DONE = range(3)
_ORDERED: dict[str, MoveKind] = {"discard": "drop", "swap": "swap_out"}


class RequestState:
    """State of one request: S, m, h of the semantics, and where it stands."""

    __slots__ = ("blocks", "call", "computed", "device", "handling", "host", "known", "left", "position", "request",
                 "segment", "status", "trace", "window")  # fmt: skip

    def __init__(self, position: int, request: Request) -> None:
        self.position = position
        self.request = request
        self.trace = RequestTrace(request)
        self.known = request.prompt  # S
        self.device = 0  # m
        self.host = 0  # h
        self.blocks = 0  # device blocks
        self.computed = 0  # tokens processed at least once
        self.segment = 0
        self.left = request.segments[0].decode  # tokens left to generate in the segment
        self.status = _READY  # from its arrival on
        self.call: CallTrace | None = None  # the latest call
        self.handling = ""  # what the instance asks for the latest call
        self.window = False  # between the start of the latest call and the next work


class _MoveMade(NamedTuple):
    """A move, with what was there when it was made."""

    kind: MoveKind
    state: RequestState
    tokens: int
    available: int


_Work = tuple[RequestState, int, bool, int]
"""Work in a batch: request, tokens, whether it decodes, blocks held during it (a plain tuple: there are millions)."""


class Execution:
    """Executes the batches of a schedule one after another. What a rule says is in the method of its name."""

    def __init__(self, instance: Instance) -> None:
        self.machine = instance.machine
        self.duration = instance.cost.duration
        self.states = {request.id: RequestState(i, request) for i, request in enumerate(instance.requests)}
        self.running_calls: list[tuple[int, int, RequestState]] = []  # heap: end, position, request
        self.blocks = 0  # device blocks held by all requests
        self.calling_blocks = 0  # those of requests in a call
        self.host = 0  # tokens on the host
        self.end = 0  # end of the previous batch
        self.continuing: list[RequestState] = []  # worked in the previous batch, which did not end their segment
        self.due: list[RequestState] = []  # their call was started by the previous batch and orders a move
        self.batches: list[BatchTrace] = []
        self.waste = Waste()
        self.broken: list[InvalidSchedule] = []

    def fail(self, rule: int, request: str | None, detail: str) -> None:
        """Note a broken rule; the lowest of the batch is raised when the batch has been read."""
        self.broken.append(InvalidSchedule(rule, len(self.batches), request, detail))

    def execute(self, batch: Batch) -> None:
        """Execute one batch, or raise InvalidSchedule."""
        self.rule_1_time(batch)
        self.pass_idle_time(batch.start)
        self.end_calls(batch.start)
        moves = self.make_moves(batch)
        if moves or self.due:
            self.rule_8_eviction(moves)
            self.rule_9_handling(moves)
            self.rule_10_moves(moves)
        if not (batch.work or batch.swap_out or batch.swap_in):
            self.fail(10, None, "it has neither work nor a transfer")
        works = self.read_work(batch, moves)
        self.rule_5_budgets(works)
        self.rule_5_no_pause(batch)
        self.rule_6_device_memory(works)
        self.rule_7_host_memory()
        if self.broken:
            raise min(self.broken, key=lambda broken: broken.rule)
        self.run(batch.start, works, moves)

    # --- before the batch ----------------------------------------------------------------------------------------

    def rule_1_time(self, batch: Batch) -> None:
        """R1: t_1 >= 0 and t_{j+1} >= t_j + D_j."""
        if batch.start < self.end:
            earliest = f"the batch before it ends at {self.end}" if self.batches else "time starts at 0"
            self.fail(1, None, f"it starts at {batch.start}, but {earliest}")

    def pass_idle_time(self, now: int) -> None:
        """Account for the memory held from the end of the previous batch to `now`."""
        idle = (now - self.end) * self.machine.block
        self.waste.calls += self.calling_blocks * idle
        self.waste.queued += (self.blocks - self.calling_blocks) * idle

    def end_calls(self, now: int) -> None:
        """Append what the calls return that have ended by `now`."""
        while self.running_calls and self.running_calls[0][0] <= now:
            end, _, state = heappop(self.running_calls)
            state.known += state.request.calls[state.segment - 1].returns
            state.status = _READY
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
        available = {"drop": state.device + state.host, "swap_out": state.device, "swap_in": state.host}[kind]
        moved = max(0, min(tokens, available))
        from_host = {"drop": min(state.host, moved), "swap_out": -moved, "swap_in": moved}[kind]
        from_device = {"drop": moved - from_host, "swap_out": moved, "swap_in": -moved}[kind]
        state.host -= from_host
        self.host -= from_host
        state.device -= from_device
        blocks = self.machine.blocks(state.device)
        self.blocks += blocks - state.blocks
        if state.status == _CALLING:
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
        return state.window and state.call is not None and state.call.batch == len(self.batches) - 1

    def rule_8_eviction(self, moves: list[_MoveMade]) -> None:
        """R8: other evictions than those of R9 need `evict` and no running call; without `partial`, all or nothing."""
        for move in moves:
            id = move.state.request.id
            if move.kind != "swap_in" and not self.allowed_by_rule_9(move):
                if move.state.status == _CALLING:
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
            if move.kind == "swap_in" and move.state.status == _CALLING and move.state.handling == "preserve":
                self.fail(9, move.state.request.id, "swap_in during a call handled by preserve")

    def rule_10_moves(self, moves: list[_MoveMade]) -> None:
        """R10: every move takes at least one token, and no more than there are."""
        for move in moves:
            if not 1 <= move.tokens <= move.available:
                self.fail(10, move.state.request.id, f"{move.kind} of {move.tokens} tokens, there are {move.available}")

    # --- work ----------------------------------------------------------------------------------------------------

    def read_work(self, batch: Batch, moves: list[_MoveMade]) -> list[_Work]:
        """Read the work of the batch under R2 (readiness), R3 (work) and R4 (residence)."""
        evicted = {
            move.state.request.id: move for move in moves if move.kind != "swap_in" and not self.allowed_by_rule_9(move)
        }
        works: list[_Work] = []
        chunked, block = self.machine.chunked, self.machine.block
        for id, tokens in batch.work.items():
            state = self.states.get(id)
            if state is None:
                self.fail(10, id, "work: the instance has no such request")
                continue
            if state.status != _READY or state.request.arrival > batch.start:
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
        if state.status == _DONE:
            why = f"it was done at {state.trace.completion}"
        elif state.status == _CALLING:
            assert state.call is not None
            why = f"it is in a call until {state.call.end}"
        else:
            why = f"it arrives at {state.request.arrival}"
        self.fail(2, state.request.id, f"it works at {now}, but {why}")

    def rule_5_budgets(self, works: list[_Work]) -> None:
        """R5: tokens, prefill tokens and requests of a batch; one phase only without `hybrid`."""
        machine = self.machine
        tokens = sum(tokens for _, tokens, _, _ in works)
        prefill_tokens = sum(tokens for _, tokens, decode, _ in works if not decode)
        if machine.batch_tokens is not None and tokens > machine.batch_tokens:
            self.fail(5, None, f"it processes {tokens} tokens, batch_tokens is {machine.batch_tokens}")
        if machine.prefill_tokens is not None and prefill_tokens > machine.prefill_tokens:
            self.fail(5, None, f"it prefills {prefill_tokens} tokens, prefill_tokens is {machine.prefill_tokens}")
        if machine.batch_requests is not None and len(works) > machine.batch_requests:
            self.fail(5, None, f"{len(works)} requests work in it, batch_requests is {machine.batch_requests}")
        if not machine.hybrid and len({decode for _, _, decode, _ in works}) > 1:
            self.fail(5, None, "it mixes prefills and decodes, and the machine is not hybrid")

    def rule_5_no_pause(self, batch: Batch) -> None:
        """R5 without `pause`: who worked in the batch before works on, unless its segment ended or it is evicted."""
        if self.machine.pause:
            return
        for state in self.continuing:
            id = state.request.id
            if id not in batch.work and id not in batch.drop and id not in batch.swap_out:
                self.fail(5, id, "it pauses within a segment, and the machine does not pause")

    def rule_6_device_memory(self, works: list[_Work]) -> None:
        """R6: the blocks of all requests, after the moves and the growth, are at most the memory."""
        blocks = self.blocks + sum(blocks - state.blocks for state, _, _, blocks in works)
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
            if state.status != _DONE:
                left = state.left + sum(s.decode for s in state.request.segments[state.segment + 1 :])
                detail = f"it is not done at the end: {left} tokens are still to be generated"
                raise InvalidSchedule(11, len(self.batches), state.request.id, detail)

    # --- execution -----------------------------------------------------------------------------------------------

    def run(self, start: int, works: list[_Work], moves: list[_MoveMade]) -> None:
        """Let the batch run for D ticks: tokens are processed and generated, calls start, requests end."""
        j = len(self.batches)
        for move in moves:
            move.state.trace.moves.append(Move(j, move.kind, move.tokens))
        features = self.features(works, moves)
        duration = self.duration(features)
        self.end = start + duration
        waiting = self.blocks  # of requests that do not work
        refilling = 0
        for state, _, _, blocks in works:
            waiting -= state.blocks
            self.blocks += blocks - state.blocks
            state.blocks = blocks
        device = self.blocks * self.machine.block
        transferring = self.transferring(works, moves)
        self.waste.calls += self.calling_blocks * self.machine.block * duration
        self.waste.transfer += transferring * self.machine.block * duration
        self.waste.queued += (waiting - self.calling_blocks - transferring) * self.machine.block * duration

        self.due = []
        self.continuing = []
        for state, tokens, decode, blocks in works:
            resident = state.device
            state.device = grown = resident + tokens
            recomputed = 0
            if resident < state.computed:
                recomputed = min(grown, state.computed) - resident
                refilling += blocks
            if grown > state.computed:
                state.computed = grown
            state.window = False
            generated = grown == state.known
            state.trace.steps.append(
                Step(j, resident, tokens, "decode" if decode else "prefill", recomputed, generated)
            )
            if generated:
                self.generate(state)
            if state.status == _READY and not state.window:
                self.continuing.append(state)
        self.waste.recomputation += refilling * self.machine.block * duration
        self.batches.append(BatchTrace(start, duration, features, device, self.blocks * self.machine.block, self.host))

    def features(self, works: list[_Work], moves: list[_MoveMade]) -> Features:
        """Count what the cost depends on."""
        tokens = generated = decodes = decode_kv = prefill_kv = pairs = 0
        for state, count, decode, _ in works:
            resident = state.device
            tokens += count
            generated += resident + count == state.known
            if decode:
                decodes += 1
                decode_kv += resident
            else:
                prefill_kv += resident
                pairs += count * count + 2 * count * resident
        prefills = len(works) - decodes
        swaps: dict[str, list[int]] = {"drop": [], "swap_out": [], "swap_in": []}
        for move in moves:
            swaps[move.kind].append(move.tokens)
        return Features(
            busy=int(bool(works)),
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
            if move.kind != "drop" and move.state.status == _READY and move.state.position not in working
        }
        return sum(moved.values())

    def generate(self, state: RequestState) -> None:
        """Generate one token at the end of the batch; if it ends the segment, start the call or end the request."""
        state.known += 1
        state.left -= 1
        trace = state.trace
        if trace.first_token < 0:
            trace.first_token = self.end
        if state.left:
            return
        call = state.request.segments[state.segment].call
        if call is None:
            trace.completion = self.end
            state.status = _DONE
            self.blocks -= state.blocks
            state.device = state.blocks = 0
            return
        state.call = CallTrace(state.segment, len(self.batches), self.end, self.end + call.duration, state.device)
        trace.calls.append(state.call)
        state.handling = call.handling
        state.window = True
        state.status = _CALLING
        self.calling_blocks += state.blocks
        heappush(self.running_calls, (state.call.end, state.position, state))
        if call.handling in _ORDERED:
            self.due.append(state)
        state.segment += 1
        state.left = state.request.segments[state.segment].decode
