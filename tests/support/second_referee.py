"""A second executor of schedules: the referee of `library/check.py`, and beside it plain accounts of every tick.

`library/check.py` is written from the documentation alone and shares no code with kvcore; the accounts (memory, waste,
recomputation, how a call was handled) share none with the trace and the metrics. Where both executors agree, a mistake
must have been made twice. Only the nouns are shared.

A reading that the semantics leaves open, and that only decides what a report says: a tick of a request that neither
works nor is in a call is "in transfer" in a batch that swaps KV of it if it was ready when the batch started, and
else "queued".
"""

import json
from dataclasses import dataclass, field
from fractions import Fraction

from kvcore import Batch, Instance, Request, Schedule
from library import check

KINDS = check.MOVES
PARTS = ("calls", "queued", "transfer", "recomputation")


@dataclass
class Refusal:
    """The rule broken, in which batch, and the requests of which any may be named (None: the batch as a whole)."""

    rule: int
    batch: int
    requests: set[str | None]


@dataclass
class Outcome:
    """All that a valid schedule gives."""

    objectives: dict[str, int | Fraction] = field(default_factory=dict)
    completion: dict[str, int] = field(default_factory=dict)
    ttft: dict[str, int] = field(default_factory=dict)
    tpot: dict[str, Fraction | None] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    memory: list[int] = field(default_factory=list)
    """Occupied device tokens in every tick from 0 to the end."""
    batches: list[dict[str, int]] = field(default_factory=list)
    """Of every batch: start, duration, device (during it), device_after, host."""
    states: list[dict[str, tuple[int, int, int, str]]] = field(default_factory=list)
    """At the start of every batch and at the end: known, device, host, status of every request."""
    handling: dict[str, str] = field(default_factory=dict)
    processed: int = 0
    recomputed: int = 0
    swapped_out: int = 0
    swapped_in: int = 0
    waste: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))


@dataclass
class PastCall:
    """One call: when it ends, and what became of the `kv` tokens held at its start until the next work."""

    end: int
    kv: int
    left: int
    """Tokens that are not dropped."""
    stayed: int
    """The first tokens, which were on the device all the time unless they were dropped."""
    swapped: bool = False

    def handling(self) -> str:
        if not self.swapped and self.left in (0, self.kv):
            return "preserve" if self.left else "discard"
        return "swap" if self.left == self.kv and not self.stayed else "mixed"


class Life:
    """One request while the world goes on: what the referee knows of it, and accounts."""

    def __init__(self, request: Request, state: check.State) -> None:
        self.request, self.state = request, state
        self.most = 0  # tokens of its context that were processed at any time
        self.calls: list[PastCall] = []

    known = property(lambda self: self.state.S)
    device = property(lambda self: self.state.m)
    host = property(lambda self: self.state.h)
    segment = property(lambda self: self.state.segment)
    completion = property(lambda self: self.state.done)

    @property
    def out(self) -> int:
        """Tokens generated in the segment."""
        return self.request.segments[self.segment].decode - self.state.left

    def calling(self, tick: int) -> bool:
        return bool(self.calls) and self.calls[-1].end > tick

    def status(self, tick: int) -> str:
        if self.completion is not None:
            return "done"
        if self.calling(tick):
            return "call"
        return "ready" if self.request.arrival <= tick else "waiting"

    def is_free_to_evict(self) -> bool:
        """R9, `free`: from the start of the call to the batch in which the request next works."""
        return self.state.window == "free"

    def ordered_move(self) -> tuple[str, int] | None:
        """R9, `discard` and `swap`: the move ordered in the next batch, and its tokens."""
        return None if self.state.due is None else (check.ORDERED[self.state.window], self.state.due)

    def after_moves(self, drop: int, out: int, back: int) -> tuple[int, int]:
        """Tokens on the device and on the host after the moves of a batch; what the call is to know of them."""
        m, h = self.device - max(0, drop - self.host) - out, max(0, self.host - drop) + out
        if self.state.window:
            call = self.calls[-1]
            call.left, call.swapped = m + h, call.swapped or out > 0
            call.stayed = min(call.stayed, m) if out else call.stayed
        return m + back, h - back


class World:
    """All requests, the clock, and what has been seen so far."""

    def __init__(self, instance: Instance) -> None:
        self.instance, self.machine = instance, instance.machine
        check.spent[0] = 0
        self.execution = check.Execution(check.read_instance(json.loads(instance.to_json())))
        self.lives = {request.id: Life(request, self.execution.states[request.id]) for request in instance.requests}
        self.outcome = Outcome()
        self.tried: tuple[Batch | None, check.Execution] = None, self.execution  # what broke no rule last, and after it

    tick = property(lambda self: self.execution.clock)
    j = property(lambda self: self.execution.j)

    def must_work(self) -> list[str]:
        """Those whose segment goes on after the last batch (R5, without `pause`)."""
        return self.execution.worked

    def return_calls(self) -> None:
        execution = self.execution
        for state in map(execution.states.get, execution.calling):
            state.S, state.returns_at = state.after_call(self.tick)
        execution.calling = [id for id in execution.calling if execution.states[id].returns_at is not None]

    def occupied(self, tokens: int) -> int:
        return check.occupied(tokens, self.execution.machine) * self.machine.block

    def broken(self, batch: Batch) -> Refusal | None:
        """The lowest rule that `batch` breaks when it is the next one. Changes nothing."""
        trial = self.execution.copied()
        try:
            self.step(trial, batch)
        except check.Broken as broken:
            who = {id for rule, id, _ in trial.broken if rule == broken.rule}
            unknown = {id for what in ("work", *KINDS) for id in getattr(batch, what)} - self.lives.keys()
            if broken.rule == 10 and unknown:  # check.py names no request that there is not
                who = unknown | (who - {None} if batch.work or batch.swap_out or batch.swap_in else who)
            return Refusal(broken.rule, self.j, who)
        self.tried = batch, trial
        return None

    @staticmethod
    def step(execution: check.Execution, batch: Batch) -> None:
        check.spent[0] = 0
        execution.step(check.Box({what: dict(getattr(batch, what)) for what in check.WRITTEN}), batch.start)

    def idle_until(self, tick: int) -> None:
        held = {id: self.occupied(life.device) for id, life in self.lives.items()}
        self.account(held, {}, max(0, tick - self.tick))
        self.execution.clock = max(self.tick, tick)
        self.return_calls()

    def run(self, batch: Batch) -> None:
        """Execute a batch that breaks no rule."""
        self.note_states()
        outcome, held, part_of, after = self.outcome, {}, {}, {}
        for id, life in self.lives.items():
            m, h = life.after_moves(*(getattr(batch, kind).get(id, 0) for kind in KINDS))
            c = batch.work.get(id, 0)
            again = max(0, min(life.most, m + c) - m)
            held[id], after[id], life.most = self.occupied(m + c), (m + c, h), max(life.most, m + c)
            if c:
                part_of[id] = "recomputation" if again else "useful"
            elif (id in batch.swap_out or id in batch.swap_in) and not life.calling(self.tick):
                part_of[id] = "transfer"
            outcome.processed += c
            outcome.recomputed += again
        outcome.swapped_out += sum(batch.swap_out.values())
        outcome.swapped_in += sum(batch.swap_in.values())
        start, segments = self.tick, {id: life.segment for id, life in self.lives.items()}
        if self.tried[0] == batch:
            self.execution = self.tried[1]
            for id, life in self.lives.items():
                life.state = self.execution.states[id]
        else:
            self.step(self.execution, batch)
        self.tried = None, self.execution
        self.account(held, part_of, self.tick - start)
        for id, life in self.lives.items():
            assert (life.device, life.host) == ((0, 0) if life.completion is not None else after[id])
            if life.segment > segments[id]:
                kv = life.device
                end = self.tick + life.request.segments[segments[id]].call.duration
                life.calls.append(PastCall(end, kv, kv, kv))
        device_after = sum(self.occupied(life.device) for life in self.lives.values())
        host = self.execution.host
        outcome.batches.append({"start": start, "duration": self.tick - start, "device": sum(held.values()),
                                "device_after": device_after, "host": host})  # fmt: skip

    def account(self, held: dict[str, int], part_of: dict[str, str], ticks: int) -> None:
        """Ticks with `held` tokens of each request; `part_of` says which part of the waste, unless in a call."""
        first, waste = len(self.outcome.memory), self.outcome.waste
        self.outcome.memory += [sum(held.values())] * ticks
        for id, life in self.lives.items():
            calling = min(ticks, max(0, life.calls[-1].end - first)) if life.calls else 0
            waste["calls"] += calling * held[id]
            part = part_of.get(id, "queued")
            if part != "useful":
                waste[part] += (ticks - calling) * held[id]

    def note_states(self) -> None:
        states = {id: (x.known, x.device, x.host, x.status(self.tick)) for id, x in self.lives.items()}
        self.outcome.states.append(states)

    def finish(self) -> Outcome | Refusal:
        self.return_calls()
        self.note_states()
        undone = {id for id, life in self.lives.items() if life.completion is None}
        if undone:
            return Refusal(11, self.j, undone)
        outcome, execution, times = self.outcome, self.execution, []
        for id, life in self.lives.items():
            request, state = life.request, life.state
            first, last, output = state.first - request.arrival, state.done - request.arrival, check.output(state.one)
            times.append((first, last))
            outcome.completion[id], outcome.ttft[id] = state.done, first
            outcome.tpot[id] = Fraction(last - first, output - 1) if output > 1 else None
            if check.is_late(state.one, first, last):
                outcome.late.add(id)
            outcome.handling.update({f"{id}/{k}": call.handling() for k, call in enumerate(life.calls, 1)})
        ones = [life.state.one for life in self.lives.values()]
        outcome.objectives = check.by_objective(ones, times, execution.busy)
        return outcome


def execute(instance: Instance, schedule: Schedule) -> Outcome | Refusal:
    """Execute a schedule tick by tick."""
    world = World(instance)
    for repeated in schedule.batches:
        for k in range(repeated.repeat):
            batch = Batch(start=world.tick, work=repeated.work) if k else repeated
            refusal = world.broken(batch)
            if refusal is not None:
                return refusal
            world.idle_until(batch.start)
            world.run(batch)
    return world.finish()
