"""The proof of `relax` in docs/coarsening.md as a program: a fine schedule becomes a schedule of the relaxed instance.

The coarse schedule follows the fine one at the last tick of each slot. Nothing is tried: where the proof is wrong, or
the rounding does not do what it says, an assertion here fails or the referee refuses the coarse schedule.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from kvcore import Batch, Instance, Request, Schedule, verify_schedule
from kvcore.trace import RequestTrace, Step, Trace


class Look(NamedTuple):
    """A fine request during one tick: after the moves and the growth of the batch there, if there is one."""

    segment: int  # the one that it is in; between two, the later one
    generated: int  # tokens of that segment, by the end of the tick
    worked: bool  # whether it has worked in that segment
    kept: int  # device tokens after the moves of the batch in which it first did
    device: int
    host: int
    drops: int  # how often KV of it has been dropped so far


def looks(fine: Trace, trace: RequestTrace) -> list[tuple[int, Look]]:
    """Return (tick of a batch, the look from then on), in order of time."""
    result = [(-1, Look(0, 0, False, 0, 0, 0, 0))]
    look, ended = result[0][1], False
    by_batch: dict[int, list] = {}
    for event in sorted([*trace.moves, *trace.steps], key=lambda event: (event.batch, isinstance(event, Step))):
        by_batch.setdefault(event.batch, []).append(event)
    for j, events in by_batch.items():
        if ended:
            look, ended = look._replace(segment=look.segment + 1, generated=0, worked=False, kept=0), False
        for event in events:
            if isinstance(event, Step):
                if not look.worked:
                    look = look._replace(worked=True, kept=look.device)
                generated = look.generated + event.generated
                look = look._replace(device=look.device + event.tokens, generated=generated)
                ended = generated == trace.request.segments[look.segment].decode
            elif event.kind == "drop":
                host = max(0, look.host - event.tokens)
                device = look.device + look.host - event.tokens - host
                look = look._replace(device=device, host=host, drops=look.drops + 1)
            else:
                tokens = event.tokens if event.kind == "swap_in" else -event.tokens
                look = look._replace(device=look.device + tokens, host=look.host - tokens)
        start = fine.batches[j].start
        result.append((start, look))
        if ended:  # from the next tick on it is in the call, or done
            done = look.segment + 1 == len(trace.request.segments)
            after = Look(look.segment + 1, 0, False, 0, 0 if done else look.device, 0, look.drops)
            result.append((start + 1, after))
    return result


@dataclass
class Follower:
    """A coarse request that follows a fine one; it says slot by slot what moves and work it needs."""

    fine: Request
    coarse: Request
    looks: list[tuple[int, Look]]
    completion: int
    block: int
    slot: int
    partial: bool
    segment: int = 0
    generated: int = 0
    device: int = 0  # as executed
    host: int = 0
    total: int = 0  # device and host, at most; falls until the segment's work starts
    drops: int = 0  # of the fine request, when the call started
    seen: int = 0  # of the fine request so far
    working: bool = False  # whether it has worked in its segment
    done: bool = False

    def __post_init__(self) -> None:
        self.unit = max(self.block, self.slot)
        self.kept = [k for k, segment in enumerate(self.fine.segments) if segment.decode >= self.unit]
        self.rounded_up = (
            not self.kept
            or self.coarse.prompt * self.block
            > sum(s.decode + s.call.returns for s in self.fine.segments[: self.kept[0]]) + self.fine.prompt
        )
        if not self.kept:
            late = self.completion - self.fine.arrival - self.fine.output - self.fine.call_time
            self.stand_in = self.coarse.arrival + late // self.slot

    def look(self, slot: int) -> Look:
        last_tick = slot * self.slot + self.slot - 1
        return [look for tick, look in self.looks if tick <= last_tick][-1]

    def known(self) -> int:
        """Coarse tokens known when the current segment starts."""
        past = self.coarse.segments[: self.segment]
        return self.coarse.prompt + sum(s.decode + s.call.returns for s in past)

    def aim(self, slot: int) -> tuple[int, int, int]:
        """Return where the slot leaves it: device and host tokens after the moves, and the work."""
        if self.done:
            return self.device, self.host, 0
        if not self.kept:
            return 0, 0, int(slot == self.stand_in)
        look, segment = self.look(slot), self.kept[self.segment]
        self.seen = look.drops
        if self.working:
            return self.device, 0, self.work(look, self.device)
        assert look.segment <= segment, "a kept segment was missed"
        if look.segment < segment or not look.worked:
            return *self.hold(look), 0
        self.hold(look._replace(device=look.kept, host=0))
        kept = self.device + self.host if self.handling() == "preserve" else self.total
        work = self.work(look, kept)
        return kept, 0, max(0, work)

    def handling(self) -> str:
        return self.coarse.calls[self.segment - 1].handling if self.segment else "arrival"

    def hold(self, look: Look) -> tuple[int, int]:
        """Hold no more than the fine request does, and never again what was given up."""
        handling = self.handling()
        if handling == "discard":
            self.total = 0
        if handling != "free":
            return (0, 0) if handling == "discard" else (self.device, self.host)
        if self.partial:
            self.total = min(self.total, self.blocks(look.device + look.host))
            device = min(self.total, self.blocks(look.device))
        else:  # all or nothing
            self.total = 0 if look.drops > self.drops else self.total
            device = self.total if look.device else 0
        return device, self.total - device

    def blocks(self, tokens: int) -> int:
        """Whole blocks; one more for a request whose prompt was rounded up to a token."""
        return tokens // self.block + (self.rounded_up and tokens > 0)

    def work(self, look: Look, device: int) -> int:
        """Coarse tokens to process on top of `device`."""
        segment, decode = self.kept[self.segment], self.coarse.segments[self.segment].decode
        if look.segment > segment:
            assert self.generated == decode, "the coarse segment should have ended"
        if not look.generated:
            return min(look.device // self.block, self.known() - 1) - device
        generated = min(decode, -(-look.generated // self.unit))
        assert self.generated <= generated <= self.generated + 1
        return self.known() + generated - 1 - device if generated > self.generated else 0

    def execute(self, device: int, host: int, work: int) -> None:
        """Note what a batch did."""
        self.device, self.host = device + work, host
        if not work:
            return
        self.working = True
        if self.device == self.known() + self.generated:
            self.generated += 1
            if self.generated == self.coarse.segments[self.segment].decode:
                self.segment, self.generated, self.working = self.segment + 1, 0, False
                self.total, self.drops = self.device, self.seen
                self.done = self.segment == len(self.coarse.segments)
                if self.done:
                    self.device = 0


def project(fine_schedule: Schedule, fine: Instance, coarse: Instance) -> Schedule:
    """Return the coarse schedule that the proof of `relax` makes of a fine one."""
    trace, grid = verify_schedule(fine, fine_schedule), coarse.coarsening
    if fine.machine.evict:
        return project_turns(trace, coarse)
    followers = [
        Follower(item.request, coarse.request(item.request.id), looks(trace, item), item.completion,
                 grid.block_tokens, grid.slot_ticks, fine.machine.partial)
        for item in trace.requests
    ]  # fmt: skip
    batches = []
    for slot in range(-(-max(item.completion for item in trace.requests) // grid.slot_ticks) + 2):
        aims = {follower.fine.id: follower.aim(slot) for follower in followers}
        if not any(work for _, _, work in aims.values()):
            continue
        batches.append(Batch(start=slot, **contents(followers, aims)))
        for follower in followers:
            follower.execute(*aims[follower.fine.id])
    return Schedule(instance_sha256=coarse.sha256, batches=tuple(batches))


def project_turns(fine: Trace, coarse: Instance) -> Schedule:
    """Where KV is evicted at any time: hold KV only in the slots in which a token is generated."""
    grid = coarse.coarsening
    unit = max(grid.block_tokens, grid.slot_ticks)
    held: dict[int, dict[str, int]] = defaultdict(dict)  # by slot and request: coarse tokens, after its work
    for item in fine.requests:
        small = coarse.request(item.request.id)
        ticks = iter([fine.batches[step.batch].start for step in item.steps if step.generated])
        segments = [[next(ticks) for _ in range(segment.decode)] for segment in item.request.segments]
        kept = [generated[::unit] for generated in segments if len(generated) >= unit]
        for known, segment, starts in zip(small.known, small.segments, kept, strict=False):
            for q in range(segment.decode):
                held[starts[q] // grid.slot_ticks][small.id] = known + q
        if not kept:
            late = item.completion - item.request.arrival - item.request.output - item.request.call_time
            held[small.arrival + late // grid.slot_ticks][small.id] = 1
    batches, before = [], dict[str, int]()
    for slot in sorted(held):
        work = {id: tokens - before.get(id, 0) for id, tokens in held[slot].items()}
        drop = {id: tokens for id, tokens in before.items() if id not in work and tokens < coarse.request(id).peak}
        batches.append(Batch(start=slot, work=work, drop=drop))
        before = held[slot]
    return Schedule(instance_sha256=coarse.sha256, batches=tuple(batches))


def contents(followers: list[Follower], aims: dict[str, tuple[int, int, int]]) -> dict[str, dict[str, int]]:
    """Return work and moves of the batch that takes each request from where it is to its aim."""
    made: dict[str, dict[str, int]] = {"work": {}, "drop": {}, "swap_out": {}, "swap_in": {}}
    for follower in followers:
        device, host, work = aims[id := follower.fine.id]
        drop = follower.device + follower.host - device - host
        left = follower.device + follower.host - drop - max(0, follower.host - drop)
        made["work"][id], made["drop"][id] = work, drop
        made["swap_out"][id], made["swap_in"][id] = max(0, left - device), max(0, device - left)
    return {what: {id: tokens for id, tokens in of.items() if tokens} for what, of in made.items()}
