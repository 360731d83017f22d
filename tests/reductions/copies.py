"""C: copies beside work that last several batches become parts of swaps, each beside a batch.

An engine's copy moves all KV of a request between device and host, in a queue for each direction, at `q` ticks a token,
while batches go on. A copy to the host frees its blocks at its end, one back takes them at its start; meanwhile the
request rests. The program swaps in each batch the tokens whose copy ends in it. So memory never holds more, and a batch
lasts at most q - 1 ticks longer: the part of a token that was copied before.
"""

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Literal, NamedTuple

from kvcore import Batch, Instance, Request, Schedule
from kvcore.cost import Features
from tests.support.drawer import Profile, draw_instance

BESIDE = Profile(
    requests=(2, 3, 4), prompt=range(1, 9), decode=range(1, 9), calls=(0,), weight=(1,), slo=(False,),
    arrival=(0, 0, 3, 9), block=(1, 1, 2, 3), memory=("near", "double"), host_memory=("no limit",), hybrid=(True,),
    batch_tokens=(None,), prefill_tokens=(None,), batch_requests=(None,), chunked=(True,), evict=(True,),
    partial=(True,), pause=(True,), cost=tuple(
        ({"busy": range(2, 9), "tokens": (0, 1), "decode_kv": (0, 1)},
         {"swap_out_tokens": (q,)}, {"swap_in_tokens": (q,)})
        for q in (1, 2, 3, 5)
    ),
)  # fmt: skip


class Ran(NamedTuple):
    """What the engine did, as schedules with swaps in parts and as a whole, and the memory that copies take longer."""

    instance: Instance
    parts: Schedule
    whole: Schedule
    completion: dict[str, int]
    slack: int
    """(q - 1) for each batch with a copy."""
    extra: float
    """Share of the memory, over time, that copies hold and the parts do not."""
    spans: int
    """Most batches of a copy."""


@dataclass
class Copy:
    kind: Literal["swap_out", "swap_in"]
    tokens: int
    served: int = 0
    moved: int = 0
    batches: int = 0


@dataclass
class Life:
    request: Request
    known: int
    left: int
    device: int = 0
    host: int = 0
    copy: Copy | None = None
    work: int = 0

    @property
    def held(self) -> int:
        """Device tokens that it holds in a batch."""
        return self.copy.tokens if self.copy else self.device + self.work


@dataclass
class Engine:
    """Decides at random."""

    draw: Random
    instance: Instance
    now: int = 0
    completion: dict[str, int] = field(default_factory=dict)
    batches: dict[str, list[Batch]] = field(default_factory=lambda: {"parts": [], "whole": []})
    ends: Counter[str] = field(default_factory=Counter)
    slack: int = 0
    extra: int = 0
    spans: int = 0

    def __post_init__(self) -> None:
        self.q = self.instance.cost.functions[1].swap_out_tokens
        self.lives = {r.id: Life(r, r.prompt, r.output) for r in self.instance.requests}
        self.queue: list[tuple[str, Copy]] = []

    def run(self) -> Ran:
        limit = self.instance.machine.block_limit or 1
        while len(self.completion) < len(self.lives):
            self.decide(limit)
            if self.queue or any(life.work for life in self.lives.values()):
                self.batch()
            else:
                self.now += 1
        parts, whole = (
            Schedule(instance_sha256=self.instance.sha256, batches=tuple(each)) for each in self.batches.values()
        )
        return Ran(
            self.instance, parts, whole, self.completion, self.slack, self.extra / (limit * self.now), self.spans
        )

    def used(self) -> int:
        return sum(self.instance.machine.blocks(life.held) for life in self.lives.values())

    def decide(self, limit: int) -> None:
        """Start copies and work while blocks are left."""
        blocks = self.instance.machine.blocks
        for id, life in self.draw.sample([*self.lives.items()], len(self.lives)):
            if life.copy or life.request.arrival > self.now or id in self.completion:
                continue
            if life.host:
                if self.used() + blocks(life.host) <= limit and self.draw.random() < 0.6:
                    self.start(id, life, "swap_in", life.host)
            elif life.device and self.draw.random() < 0.2:
                self.start(id, life, "swap_out", life.device)
            else:
                missing = life.known - life.device
                tokens = self.draw.choice((missing, missing, self.draw.randint(1, missing)))
                if self.used() - blocks(life.device) + blocks(life.device + tokens) <= limit:
                    life.work = tokens

    def start(self, id: str, life: Life, kind: Literal["swap_out", "swap_in"], tokens: int) -> None:
        life.copy = Copy(kind, tokens)
        self.queue.append((id, life.copy))

    def batch(self) -> None:
        """Run one batch, or without work up to the end of a copy, and copy meanwhile."""
        work = {id: life.work for id, life in self.lives.items() if life.work}
        features = self.features(work)
        firsts = [next((copy for _, copy in self.queue if copy.kind == kind), None) for kind in ("swap_out", "swap_in")]
        ticks = self.instance.cost.duration(features) if work else min(
            copy.tokens * self.q - copy.served for copy in firsts if copy)  # fmt: skip
        parts: dict[str, dict[str, int]] = {"swap_out": {}, "swap_in": {}}
        wholes: dict[str, dict[str, int]] = {"swap_out": {}, "swap_in": {}}
        left = dict.fromkeys(parts, ticks)
        before = self.used()
        for id, copy in self.queue:
            if not copy.batches:
                wholes[copy.kind][id] = copy.tokens
            copy.batches += 1
            served = min(left[copy.kind], copy.tokens * self.q - copy.served)
            left[copy.kind] -= served
            copy.served += served
            if tokens := copy.served // self.q - copy.moved:
                parts[copy.kind][id] = tokens
                copy.moved += tokens
        self.slack += self.q - 1 if self.queue else 0
        self.write("parts", work, features, parts)
        self.write("whole", work, features, wholes)
        self.extra += ticks * (before - self.split())
        self.now += ticks
        self.finish()

    def split(self) -> int:
        """Return the blocks that the schedule in parts holds."""
        blocks = self.instance.machine.blocks
        return sum(
            blocks(life.held) if not (copy := life.copy)
            else blocks(copy.tokens - copy.moved if copy.kind == "swap_out" else copy.moved)
            for life in self.lives.values()
        )  # fmt: skip

    def features(self, work: dict[str, int]) -> Features:
        """Return what costs in these batches."""
        decodes = [self.lives[id].device for id in work if 0 < self.lives[id].device == self.lives[id].known - 1]
        return Features(busy=int(bool(work)), tokens=sum(work.values()), decode_kv=sum(decodes))

    def write(self, name: str, work: dict[str, int], features: Features, moves: dict[str, dict[str, int]]) -> None:
        if work or any(moves.values()):
            start = max(self.now, self.ends[name])
            self.batches[name].append(Batch(start=start, work=work, **moves))
            moved = {f"{kind}_tokens": sum(each.values()) for kind, each in moves.items()}
            self.ends[name] = start + self.instance.cost.duration(features._replace(**moved))

    def finish(self) -> None:
        """End the batch."""
        for id, life in self.lives.items():
            if life.work:
                life.device, life.work = life.device + life.work, 0
                if life.device == life.known:
                    life.known, life.left = life.known + 1, life.left - 1
                if not life.left:
                    life.device, self.completion[id] = 0, self.now
            elif (copy := life.copy) and copy.served == copy.tokens * self.q:
                life.device, life.host = (0, copy.tokens) if copy.kind == "swap_out" else (copy.tokens, 0)
                life.copy, self.spans = None, max(self.spans, copy.batches)
        self.queue = [(id, copy) for id, copy in self.queue if copy.served < copy.tokens * self.q]


def copied(draw: Random) -> Ran:
    """Run a random engine on a random instance."""
    return Engine(draw, draw_instance(draw, BESIDE)).run()
