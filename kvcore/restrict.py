"""Rounding against the schedule: every schedule of the coarse instance is carried out on the fine one.

Each coarse token of a request stands for its own run of one to `block` fine tokens, so that KV, moves and budgets are
rounded up; within its slot, a coarse batch is carried out tick by tick. This is the proof of Theorem 1 of
`docs/coarsening.md`, in its symbols: a primed letter is coarse; blocks of b tokens, slots of s ticks, headroom h.

Let F(m') be the fine tokens in the first m' blocks of a request. A coarse move moves the fine tokens of its blocks;
coarse work of c' on m' processes F(m' + c') - F(m') fine tokens in its slot. If it generates a token, these are a
*bulk* and then a *run*: the last known token and the generated ones of the last block, one a tick. A run ends with the
slot (if it completes the request without bulk, it begins with it). Bulk fills the first s - h ticks in order, as the
budgets allow. Each tick with work is a fine batch; the first makes all moves.

*Invariant.* At the start of each coarse batch m = F(m') and the host holds F(m' + h') - F(m'), in the same segment; if
the next token is known, m = S - 1 exactly when m' = S' - 1. Each batch keeps this: a run generates the rest of its last
block and one token more, which begins the next block or ends the segment. Dropped blocks are known whole. A refill ends
in a block that was known when the call returned, or, with `evict`, in one of at most 1 + h generated tokens: a run
after bulk has at most 1 + h tokens.

* R1, R2: a run fits: min(b, s) tokens without bulk, 1 + h <= s with it. r' <= j gives j s >= r. A call ends at
  s t' + a <= s (t' + a'); an earlier return forbids nothing.
* R3, R4, R10, R11: a block has at least one token, so nothing is empty.
* R6, R7: a request holds at most F(m' + c') <= b (m' + c'). Machine blocks that divide b are whole; of g b tokens,
  ceil(F / (g b)) <= ceil(m' / g). The sum is at most b M' <= M; the host likewise.
* R8: a coarse eviction is of a ready request without work; so is the fine one, and all coarse KV is all fine KV.
* R9: the batch that starts a call is the last of its slot; the next fine batch is the first of the next coarse batch
  and makes its moves.
* R5: a request works once in a tick, so B' = B. Let D requests of the coarse batch be runs without bulk; the others
  process at most C' - D coarse tokens, so their bulk and first run tokens are at most b (C' - D). Each of the first
  s - h ticks leaves C - D places. They are enough: if b >= s - h, b (C' - D) <= C (s - h) - b D <= (C - D) (s - h); if
  b < s - h, C' <= C. Runs after bulk start in the last of these ticks or later, their first token is counted, and in
  the last h ticks at most C' <= C requests run. The same count with P' holds for prefill tokens: a run decodes after
  its first token, and where P is limited, a coarse decode is a fine one.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from kvcore.cost import Cost
from kvcore.errors import BadInput
from kvcore.instance import Call, Coarsening, Instance, Machine, Request, Segment
from kvcore.referee import verify_schedule
from kvcore.schedule import Batch, Schedule
from kvcore.trace import MoveKind, RequestTrace, Step


class Block(NamedTuple):
    """The fine tokens that one coarse token stands for; the last `generated` of them are generated in its slot."""

    tokens: int
    generated: int


class _Grid(NamedTuple):
    """The sizes of the rounding.

    `decodes`: the most tokens that a slot decodes; `phases`: whether prefills and decodes must not be mistaken for one
    another.
    """

    block: int
    slot: int
    headroom: int
    decodes: int
    phases: bool


def headroom(machine: Machine, block: int, slot: int) -> int:
    """Return the ticks of a slot that prefills leave to decodes where nothing is said.

    That is none, or, where KV may have to be computed again before a decode, all but an eighth of the slot (more if the
    budgets need more for one block).
    """
    if not machine.evict:
        return 0
    tokens = min(limit for limit in (machine.batch_tokens, machine.prefill_tokens, block) if limit is not None)
    return max(0, min(slot - max(-(-slot // 8), -(-block // tokens)), block - 1))


def restrict(instance: Instance, block: int, slot: int, headroom: int) -> Instance:
    """Return the coarse instance (`kvcore.coarsen` has checked its arguments)."""
    machine = instance.machine
    for switch in ("chunked", "hybrid", "pause"):
        if not getattr(machine, switch):
            raise BadInput(f"{instance.name}: restrict is proved only for a machine with {switch}; set it to true")
    grid = _grid(machine, block, slot, headroom)
    return Instance(
        name=instance.name,
        tick_seconds=instance.tick_seconds * slot,
        machine=_machine(instance.name, machine, grid),
        cost=Cost.unit(),
        requests=tuple(_request(request, grid) for request in instance.requests),
        coarsening=Coarsening(
            direction="restrict",
            block_tokens=block,
            slot_ticks=slot,
            headroom_ticks=headroom,
            fine_tick_seconds=instance.tick_seconds,
        ),
    )


def _grid(machine: Machine, block: int, slot: int, headroom: int) -> _Grid:
    prefill, batch = machine.prefill_tokens, machine.batch_tokens
    return _Grid(
        block, slot, headroom,
        decodes=min(block, slot, 1 + headroom if machine.evict else slot),
        phases=prefill is not None and (batch is None or prefill < batch),
    )  # fmt: skip


def _machine(name: str, fine: Machine, grid: _Grid) -> Machine:
    """Round every limit down."""
    if fine.block % grid.block and grid.block % fine.block:
        raise BadInput(
            f"{name}: the machine's block of {fine.block} tokens neither divides {grid.block} nor is a multiple of it"
        )
    memory = None if fine.memory is None else fine.memory // grid.block
    if memory == 0:
        raise BadInput(f"{name}: memory of {fine.memory} tokens is less than one block of {grid.block}")
    for limit in ("batch_tokens", "prefill_tokens"):
        if _budget(getattr(fine, limit), grid) == 0:
            raise BadInput(f"{name}: {limit} of {getattr(fine, limit)} is less than one block of {grid.block} per slot")
    return fine.replace(
        memory=memory,
        block=max(1, fine.block // grid.block),
        host_memory=None if fine.host_memory is None else fine.host_memory // grid.block,
        batch_tokens=_budget(fine.batch_tokens, grid),
        prefill_tokens=_budget(fine.prefill_tokens, grid),
    )


def _budget(tokens: int | None, grid: _Grid) -> int | None:
    """Coarse tokens that fit into a slot without its headroom; at most one per token that a tick processes."""
    return None if tokens is None else min(tokens, tokens * (grid.slot - grid.headroom) // grid.block)


def _request(fine: Request, grid: _Grid) -> Request:
    """Return the coarse request: its lengths are the numbers of its blocks."""
    prefills, decodes = zip(*_segments(fine, grid), strict=True)
    segments = [
        Segment(
            decode=1 + len(decodes[k]),
            call=segment.call
            and Call(
                duration=-(-segment.call.duration // grid.slot),
                returns=len(prefills[k + 1]) - 1,
                handling=segment.call.handling,
            ),
        )
        for k, segment in enumerate(fine.segments)
    ]
    arrival = -(-fine.arrival // grid.slot)
    limit = fine.max_new  # rounded as the decodes are: a run of the headroom, then of `decodes` tokens each
    if limit is not None:
        limit = 1 - min(0, grid.headroom + 1 - limit) // grid.decodes
    return fine.replace(arrival=arrival, prompt=len(prefills[0]), max_new=limit, segments=tuple(segments))


def _segments(fine: Request, grid: _Grid) -> list[tuple[list[Block], list[Block]]]:
    """Return the blocks of each segment: of what is known when it starts, and of what it generates.

    Known is the prompt; later the last token generated, never processed before, and what the call returned. The last
    token of the request is never processed and in no block.
    """
    blocks = []
    known = fine.prompt
    for segment in fine.segments:
        free = min(grid.headroom, segment.decode - 1)
        last = 1 + free if grid.phases else min(known + free, grid.block)
        prefill = [Block(tokens, 0) for tokens in _split(known + free - last, grid.block)] + [Block(last, free)]
        rest = _split(segment.decode - 1 - free, grid.decodes)
        blocks.append((prefill, [Block(tokens, tokens - 1) for tokens in rest]))
        known = 1 + (segment.call.returns if segment.call else 0)
    return blocks


def _split(tokens: int, most: int) -> list[int]:
    """Split into parts of `most` tokens and a rest."""
    return [min(most, tokens - start) for start in range(0, tokens, most)]


# --- carrying out a coarse schedule ----------------------------------------------------------------------------------


class _TokenRun(NamedTuple):
    """One token a tick, from tick `start` of the slot on: the last known token, then those that it leads to."""

    start: int
    length: int
    prefill: bool


@dataclass
class _Slot:
    """What the slot of a coarse batch has to do, in fine tokens, by request."""

    bulk: dict[str, int] = field(default_factory=dict)
    runs: dict[str, _TokenRun] = field(default_factory=dict)
    moves: dict[MoveKind, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))


def schedule_on_fine(schedule: Schedule, fine: Instance, coarse: Instance) -> Schedule:
    """Return the fine schedule (`kvcore.coarsen.lift` has checked that the instances belong together)."""
    trace = verify_schedule(coarse, schedule)
    made = coarse.coarsening
    assert made is not None
    grid = _grid(fine.machine, made.block_tokens, made.slot_ticks, made.headroom_ticks)
    slots = [_Slot() for _ in trace.batches]
    for request in trace.requests:
        segments = _segments(fine.request(request.request.id), grid)
        _fill(slots, request, [block for parts in segments for part in parts for block in part], grid)
    batches: list[Batch] = []
    for slot, batch in zip(slots, trace.batches, strict=True):
        batches += _batches(slot, batch.start * grid.slot, fine.machine, grid)
    return Schedule(instance_sha256=fine.sha256, batches=tuple(batches))


def _fill(slots: list[_Slot], trace: RequestTrace, blocks: list[Block], grid: _Grid) -> None:
    """Enter the moves and the work of one request, block by block."""
    edges = [0, *accumulate(block.tokens for block in blocks)]
    for event, device, host in trace.levels():
        if isinstance(event, Step):
            _enter_work(slots[event.batch], trace, event, blocks, edges, grid)
            continue
        first = {"swap_in": device - event.tokens, "swap_out": device, "drop": device + host}[event.kind]
        moved = edges[first + event.tokens] - edges[first]
        slots[event.batch].moves[event.kind][trace.request.id] = moved


def _enter_work(
    slot: _Slot, trace: RequestTrace, step: Step, blocks: list[Block], edges: list[int], grid: _Grid
) -> None:
    """Split work into bulk, for any tick before the headroom, and the run that ends with a coarse token generated."""
    id, end = trace.request.id, step.resident + step.tokens
    tokens = edges[end] - edges[step.resident]
    if not step.generated:
        slot.bulk[id] = tokens
        return
    length = 1 + blocks[end - 1].generated
    if tokens > length:
        slot.bulk[id] = tokens - length
    early = step is trace.steps[-1] and tokens == length  # it completes the request: nothing waits for the slot's end
    slot.runs[id] = _TokenRun(0 if early else grid.slot - length, length, step.phase == "prefill")


def _batches(slot: _Slot, start: int, machine: Machine, grid: _Grid) -> list[Batch]:
    """Carry out one slot tick by tick; all moves are made at its first tick with work."""
    work: dict[int, dict[str, int]] = defaultdict(dict)
    prefills: dict[int, int] = defaultdict(int)
    for id, run in slot.runs.items():
        prefills[run.start] += run.prefill
        for tick in range(run.start, run.start + run.length):
            work[tick][id] = 1
    _place_bulk(slot.bulk, work, prefills, machine, grid)
    first = min(work, default=0)
    moves = Batch(start=start, drop=slot.moves["drop"], swap_out=slot.moves["swap_out"], swap_in=slot.moves["swap_in"])
    if not work:
        return [moves]
    return [
        moves.model_copy(update={"start": start + tick, "work": work[tick]}) if tick == first
        else Batch(start=start + tick, work=work[tick])
        for tick in sorted(work)
    ]  # fmt: skip


def _place_bulk(
    bulk: dict[str, int], work: dict[int, dict[str, int]], prefills: dict[int, int], machine: Machine, grid: _Grid
) -> None:
    """Fill the ticks before the headroom, in order, with what the budgets leave beside the runs."""
    remaining = dict(bulk)
    for tick in range(grid.slot - grid.headroom):
        if not remaining:
            return
        room = sum(remaining.values())
        if machine.batch_tokens is not None:
            room = min(room, machine.batch_tokens - sum(work[tick].values()) if tick in work else machine.batch_tokens)
        if machine.prefill_tokens is not None:
            room = min(room, machine.prefill_tokens - prefills.get(tick, 0))
        for id in list(remaining):
            taken = min(room, remaining[id])
            if taken:
                work[tick][id] = work[tick].get(id, 0) + taken
                room -= taken
                remaining[id] -= taken
            if not remaining[id]:
                del remaining[id]
