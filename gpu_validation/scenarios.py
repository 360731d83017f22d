"""One workload scheduled in several ways, between which the tokens must not differ.

Requests pause for calls, and within a segment after every few tokens; schedules differ in the moves of KV then.
"""

from dataclasses import dataclass
from typing import Any

from kvcore.instance import Call, Instance, Machine, Request, Segment
from kvcore.schedule import Batch, Schedule

WAYS = ("preserve", "swap", "recompute", "swap-part", "recompute-part")
"""The KV in a pause: untouched, all or half of it swapped out and in, all or half dropped."""


def workload(
    requests: int = 4, prompt: int = 12, decode: int = 5, returns: int = 3, block: int = 4, step: int = 3
) -> Instance:
    """Return requests of different lengths with two calls each, on a machine that allows every move.

    A prompt is `step` tokens longer than the one before.
    """
    calls = [Call(duration=duration, returns=returns * k, handling="free") for k, duration in enumerate((2, 0))]
    return Instance(
        name="truth",
        machine=Machine(memory=None, block=block, host_memory=None, chunked=True, evict=True, partial=True),
        requests=tuple(
            Request(
                id=f"T{i}",
                prompt=prompt + step * i,
                segments=(*(Segment(decode=decode + i % 2, call=call) for call in calls), Segment(decode=decode)),
            )
            for i in range(requests)
        ),
    )


def laid_out(
    instance: Instance, way: str = "preserve", *, chunk: int | None = None, every: int = 3, alone: bool = False
) -> Schedule:
    """Return a schedule of a workload with the KV handled in one of WAYS.

    `chunk`: the most tokens of a request in a batch; `every`: tokens after which it sits out a batch; `alone`: one
    request after another, none sits out.
    """
    states = [_RequestState(request, 0 if alone else every) for request in instance.requests]
    batches: list[Batch] = []
    tick = 0
    while any(not state.done for state in states):
        ready = [state for state in states if not state.done and state.until <= tick]
        batch: dict[str, Any] = {"start": tick, "work": {}, "drop": {}, "swap_out": {}, "swap_in": {}}
        for state in states:
            if state.leaves and not state.done:
                state.leave(way, batch, works=state in ready, drops=bool(ready))
        for state in ready[:1] if alone else ready:
            state.work(tick, batch, chunk)
        if batch["work"] or batch["swap_out"]:
            batches.append(Batch(**batch))
        tick += 1
    return Schedule(instance_sha256=instance.sha256, batches=tuple(batches))


@dataclass
class _RequestState:
    request: Request
    every: int

    def __post_init__(self) -> None:
        self.known, self.device, self.host, self.until, self.segment = self.request.prompt, 0, 0, 0, 0
        self.to_generate = self.request.segments[0].decode
        self.leaves = self.in_call = self.done = False

    def leave(self, way: str, batch: dict[str, Any], works: bool, drops: bool) -> None:
        """Move the KV away for a pause; not within a segment that is over, which only an eviction allows."""
        if works and not self.in_call:
            self.leaves = False
        elif not way.startswith("recompute") or drops:
            self.leaves = False
            tokens = -(-self.device // 2) if way.endswith("part") else self.device
            if way == "preserve":
                return
            batch["drop" if way.startswith("recompute") else "swap_out"][self.request.id] = tokens
            self.device -= tokens
            self.host += tokens if way.startswith("swap") else 0

    def work(self, tick: int, batch: dict[str, Any], chunk: int | None) -> None:
        if self.host:
            batch["swap_in"][self.request.id] = self.host
            self.device, self.host = self.device + self.host, 0
        batch["work"][self.request.id] = tokens = min(self.known - self.device, chunk or self.known)
        self.device += tokens
        self.in_call = self.leaves = False
        if self.device == self.known:
            self.known += 1
            self.to_generate -= 1
            if self.to_generate == 0:
                self._end_segment(tick)
            elif self.every and self.to_generate % self.every == 0:
                self.until, self.leaves = tick + 2, True

    def _end_segment(self, tick: int) -> None:
        call = self.request.segments[self.segment].call
        if call is None:
            self.done = True
            return
        self.segment += 1
        self.to_generate = self.request.segments[self.segment].decode
        self.until, self.leaves, self.in_call = tick + 1 + call.duration, True, True
        self.known += call.returns
