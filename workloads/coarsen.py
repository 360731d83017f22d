"""Rounding an instance to blocks of tokens and slots of ticks.

A coarse token stands for one to `block_tokens` tokens of a request, a coarse tick for `slot_ticks` ticks, in which a
request generates at most one coarse token. Lengths are rounded up and limits down: a coarse machine does no more.
"""

from typing import NamedTuple

from pydantic import ValidationError

from kvcore.cost import Cost
from kvcore.errors import BadInput
from kvcore.files import first_error
from kvcore.instance import Call, Coarsening, Instance, Machine, Request, Segment


class _Grid(NamedTuple):
    """A slot decodes at most `decodes` tokens; `phases`: prefills and decodes must be told apart."""

    block: int
    slot: int
    headroom: int
    decodes: int
    phases: bool


def coarsen(instance: Instance, *, block_tokens: int, slot_ticks: int, headroom_ticks: int | None = None) -> Instance:
    """Return `instance` in coarse tokens of `block_tokens` tokens and coarse ticks of `slot_ticks` ticks.

    Sharpest where both are equal; on a machine that evicts, where a block is 7/8 of a slot. Prefills leave
    `headroom_ticks` of a slot free for decodes after them (default 0; on a machine that evicts about 7/8 of the slot).
    BadInput: a size is out of range, or such an instance has no coarse form.
    """
    if headroom_ticks is None:
        headroom_ticks = _headroom(instance.machine, block_tokens, slot_ticks)
    _check(instance, block_tokens, slot_ticks, headroom_ticks)
    grid = _grid(instance.machine, block_tokens, slot_ticks, headroom_ticks)
    try:
        return Instance(
            name=instance.name,
            tick_seconds=instance.tick_seconds * slot_ticks,
            machine=_machine(instance.name, instance.machine, grid),
            cost=Cost.unit(),
            requests=tuple(_request(request, grid) for request in instance.requests),
            coarsening=Coarsening(
                direction="restrict",
                block_tokens=block_tokens,
                slot_ticks=slot_ticks,
                headroom_ticks=headroom_ticks,
                fine_tick_seconds=instance.tick_seconds,
            ),
        )
    except ValidationError as error:
        raise BadInput(f"{instance.name}, coarsened to blocks of {block_tokens}: {first_error(error)}") from None


def _check(instance: Instance, block: int, slot: int, headroom: int) -> None:
    for name, value in (("block_tokens", block), ("slot_ticks", slot)):
        if not 1 <= value <= 10**9:
            raise BadInput(f"{name} is from 1 to 10^9, not {value}")
    most = min(block, slot) - 1
    if not 0 <= headroom <= most:
        raise BadInput(f"headroom_ticks is from 0 to {most} (below block_tokens and slot_ticks), not {headroom}")
    if instance.coarsening is not None:
        raise BadInput(f"{instance.name} is coarse already; coarsen the instance that it was made from")
    if instance.contents:
        raise BadInput(f"{instance.name}: requests share contents in blocks, which have no coarse form")
    if instance.machine.layout is not None:
        raise BadInput(f"{instance.name}: a layout of KV has no coarse form")
    if not instance.cost.always_one_tick:
        raise BadInput(f"{instance.name}: only instances whose batches all last one tick (unit cost) can be coarsened")
    for request in instance.requests:
        if request.slo is not None:
            raise BadInput(f"{instance.name}: request {request.id} has SLOs, which have no coarse form; remove them")
    for switch in ("chunked", "hybrid", "pause"):
        if not getattr(instance.machine, switch):
            raise BadInput(f"{instance.name}: only a machine with {switch} is coarsened; set it to true")
    if instance.machine.drop_and_work:
        raise BadInput(f"{instance.name}: only a machine without drop_and_work is coarsened; set it to false")


def _headroom(machine: Machine, block: int, slot: int) -> int:
    if not machine.evict or block < 1:
        return 0
    tokens = min(limit for limit in (machine.batch_tokens, machine.prefill_tokens, block) if limit is not None)
    return max(0, min(slot - max(-(-slot // 8), -(-block // tokens)), block - 1))


def _grid(machine: Machine, block: int, slot: int, headroom: int) -> _Grid:
    prefill, batch = machine.prefill_tokens, machine.batch_tokens
    return _Grid(
        block, slot, headroom,
        decodes=min(block, slot, 1 + headroom if machine.evict else slot),
        phases=prefill is not None and (batch is None or prefill < batch),
    )  # fmt: skip


def _machine(name: str, fine: Machine, grid: _Grid) -> Machine:
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
    return None if tokens is None else min(tokens, tokens * (grid.slot - grid.headroom) // grid.block)


def _request(fine: Request, grid: _Grid) -> Request:
    known = [fine.prompt, *(1 + call.returns for call in fine.calls)]
    blocks = [_blocks(tokens, segment.decode, grid) for tokens, segment in zip(known, fine.segments, strict=True)]
    segments = [
        Segment(
            decode=1 + blocks[k][1],
            call=segment.call
            and Call(
                duration=-(-segment.call.duration // grid.slot),
                returns=blocks[k + 1][0] - 1,
                handling=segment.call.handling,
            ),
        )
        for k, segment in enumerate(fine.segments)
    ]
    arrival = -(-fine.arrival // grid.slot)
    limit = fine.max_new  # rounded as the decodes are: a run of the headroom, then of `decodes` tokens each
    if limit is not None:
        limit = 1 - min(0, grid.headroom + 1 - limit) // grid.decodes
    return fine.replace(arrival=arrival, prompt=blocks[0][0], max_new=limit, segments=tuple(segments))


def _blocks(known: int, decode: int, grid: _Grid) -> tuple[int, int]:
    """Blocks of the tokens known when a segment starts, and of those that it generates.

    Known is the prompt; later the last token generated, never processed before, and what the call returned. The last of
    these blocks holds the first tokens generated, those of the headroom. The last token generated begins the next
    segment; in the last one it is never processed.
    """
    free = min(grid.headroom, decode - 1)
    last = 1 + free if grid.phases else min(known + free, grid.block)
    return 1 - (last - known - free) // grid.block, -((1 + free - decode) // grid.decodes)
