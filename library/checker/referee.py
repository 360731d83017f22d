"""The referee (docs/semantics.md)."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from math import inf
from typing import Any

from library.checker.files import Amount, Bad, Box, Broken, check, headed, integer, shaped, spend, spent, text
from library.checker.instance import BATCH, COEFFICIENTS, duration, hosted, occupied, sha256
from library.checker.objectives import TAILS, by_objective, percentile

amounts = {str: check(lambda value: type(value) is int, "an integer")}
MOVES = ("drop", "swap_out", "swap_in")
Option = tuple[int, int, int, int]  # what a batch drops, swaps out, swaps in and processes of a request
WRITTEN = (*MOVES, "forget", "reuse", "work")
batch = {"start": integer(-inf, 10**60), "repeat": (integer(1), 1), **dict.fromkeys(WRITTEN, (amounts, {}))}
schedule_file = headed("schedule") | {"instance_sha256": text, "batches": [batch]}
ORDERED = {"discard": "drop", "swap": "swap_out"}


class State:
    """Where a request is: S tokens known, m on the device, h on the host; its segment; its call."""

    def __init__(self, one: Box) -> None:
        self.one, self.id, self.S, self.m, self.h = one, one.id, one.prompt, 0, 0
        self.segment, self.left, self.generated = 0, one.segments[0].decode, 0
        self.returns_at: int | None = None  # the tick at which the call ends, while it runs
        self.window = ""  # the handling of the last call, until the request next works
        self.due: int | None = None  # after a call that orders a move: the tokens that the next batch is to move
        self.first: int | None = None
        self.done: int | None = None
        self.path = [(node, k) for node, blocks in one.get("parts", ()) for k in range(blocks)]

    def had(self, m: int, block: int) -> list[tuple[str, int]]:
        """The blocks of its path that it holds with m tokens."""
        return self.path[: m // block]

    def private(self, m: int, machine: Box) -> int:
        """How many other blocks it holds with m tokens."""
        return occupied(m, machine) - len(self.had(m, machine.block))

    @property
    def ready(self) -> int:
        """The tick of its arrival, or of the end of its last call."""
        return max(self.one.arrival, self.returns_at or 0)

    def after_call(self, tick: int) -> tuple[int, int | None]:
        """S and the end of the call, None once it has ended, as they are at a tick."""
        if self.returns_at is None or self.returns_at > tick:
            return self.S, self.returns_at
        return self.S + self.one.segments[self.segment - 1].call.returns, None


Amounts = dict[State, int]


class Execution:
    """The machine while a schedule runs; `breach` notes a broken rule, and the batch ends with the lowest of them."""

    def __init__(self, instance: Box) -> None:
        self.cost, self.machine = instance.cost, instance.machine
        for one in instance.requests if instance.contents else ():
            spend(10 * sum(blocks for _, blocks in one.get("parts", ())), "the blocks of paths")
        self.sizes = {node.id: node.blocks for node in instance.contents}
        self.resident: frozenset[tuple[str, int]] = frozenset()  # nodes, and places in them
        self.states = {one.id: State(one) for one in instance.requests}
        self.j = self.clock = self.busy = self.blocks = self.host = 0  # blocks and tokens that all requests hold
        self.joined = False  # whether requests that are not among these may act in its batches, too
        self.calling: list[str] = []  # ids; `due`: of ordered moves, `worked`: of work to go on with
        self.due: list[str] = []
        self.worked: list[str] = []
        self.broken: list[tuple[int, str | None, str]] = []

    def copied(self) -> Execution:
        """One that goes on apart from this one."""
        other = copy(self)
        other.states = {id: copy(state) for id, state in self.states.items()}
        return other  # the lists of ids are replaced in each step before they grow

    def those(self, ids: Iterable[str]) -> list[State]:
        """The states of requests."""
        return [self.states[id] for id in ids]

    def run(self, batches: list[Box]) -> None:
        """Execute batches, until all requests are done."""
        for written in batches:
            each = 1 + len(self.cost) + sum(len(written[what]) for what in ("work", *MOVES))
            spend(50 * written.repeat * each, "its batches")
            self.step(written, written.start)
            for _ in range(written.repeat - 1):
                self.step(Box({what: {} for what in WRITTEN}, work=written.work), self.clock)
        for state in self.states.values():
            if state.done is None:
                raise Broken("it is not done at the end", 11, self.j, state.id)

    def breach(self, rule: int, state: State | None, detail: str) -> None:
        """Note a broken rule."""
        self.broken.append((rule, state.id if state else None, detail))

    def step(self, written: Box, start: int) -> None:
        """Execute one batch."""
        self.broken = []
        spend(len(self.calling) + len(self.due) + len(self.worked), "its batches")
        if start < self.clock:
            self.breach(1, None, f"it starts at {start}, before {self.clock}")
        for state in self.those(self.calling):
            state.S, state.returns_at = state.after_call(start)
        self.calling = [id for id in self.calling if self.states[id].returns_at is not None]
        reuse, forget = written.get("reuse", {}), written.get("forget", {})
        named = (written.work, reuse, *(written[what] for what in MOVES))
        for id in (id for each in named for id in each if id not in self.states):
            self.breach(10, None, f"there is no request {id!r}")
        for id in forget.keys() - self.sizes:
            self.breach(10, None, f"there is no node {id!r}")
        if not (written.work or written.swap_out or written.swap_in or self.joined):
            self.breach(10, None, "it has no work and no transfer")
        work = {self.states[id]: c for id, c in written.work.items() if id in self.states}
        spend(10 * sum(len(state.path) for state in work), "its batches")
        taken, evicted = self.move(written)
        self.reuse({self.states[id]: k for id, k in reuse.items() if id in self.states}, work)
        features = self.work(work, start, taken, evicted)
        if self.broken:
            rule, id, detail = min(self.broken, key=lambda item: item[0])
            raise Broken(detail, rule, self.j, id)
        ticks = duration(self.cost, features)
        self.clock, self.busy, self.j = start + ticks, self.busy + ticks, self.j + 1
        for state in self.those(self.due):
            state.due = None
        self.due, self.worked = [], []
        for state, c in work.items():
            self.grow(state, c)

    def hold(self, state: State, m: int, h: int) -> None:
        """Let a request hold so much KV on the device and on the host."""
        self.blocks += state.private(m, self.machine) - state.private(state.m, self.machine)
        self.host += hosted(h, self.machine) - hosted(state.h, self.machine)
        state.m, state.h = m, h

    def move(self, written: Box) -> tuple[dict[str, Amounts], set[State]]:
        """Make the moves (R8, R9, R10): what each took, by kind and request, and who was evicted."""
        taken: dict[str, Amounts] = {kind: {} for kind in MOVES}
        evicted = set()
        for kind, id in ((what, id) for what in MOVES for id in self.before(what, written) if id in self.states):
            state, asked = self.states[id], written[kind][id]
            there = {"drop": state.m + state.h, "swap_out": state.m, "swap_in": state.h}[kind]
            k = max(0, min(asked, there))
            if asked != k or k < 1:
                self.breach(10, state, f"{kind} of {asked} tokens, there are {there}")
            in_call = state.returns_at is not None
            if kind == "swap_in" and in_call and state.window == "preserve":
                self.breach(9, state, "swap_in during a call that preserves")
            ordered = state.due is not None and ORDERED.get(state.window) == kind
            if kind != "swap_in" and state.window != "free" and not ordered:
                if k and not (kind == "drop" and self.machine.drop_and_work):
                    evicted.add(state)
                if in_call or not self.machine.evict:
                    self.breach(8, state, f"{kind} that neither a call nor evict allows")
            if asked != there and not self.machine.partial:
                self.breach(8, state, f"{kind} of {asked} of {there} tokens without partial")
            if kind == "drop":
                self.hold(state, state.m - max(0, k - state.h), max(0, state.h - k))
            else:
                out = k if kind == "swap_out" else -k
                self.hold(state, state.m - out, state.h + out)
            if kind == "swap_in":
                self.resident |= {*state.had(state.m, self.machine.block)}
            if k:
                taken[kind][state] = k
        for state in self.those(self.due):
            kind = ORDERED[state.window]
            if written[kind].get(state.id) != state.due:
                self.breach(9, state, f"its call orders a {kind} of all {state.due} tokens in this batch")
        return taken, evicted

    def before(self, kind: str, written: Box) -> dict[str, int]:
        """The moves of a kind; the forgets come before the swap_ins."""
        if kind == "swap_in":
            self.forget({id: k for id, k in written.get("forget", {}).items() if id in self.sizes})
        moves: dict[str, int] = written[kind]
        return moves

    def forget(self, moves: dict[str, int]) -> None:
        """R12: what goes is resident and not held, and what stays has the block before it."""
        if not moves:
            return
        spend(10 * (len(self.states) + len(self.resident)), "its forgets")
        for node, k in moves.items():
            there = sorted(block for block in self.resident if block[0] == node)
            if not 1 <= k <= len(there):
                self.breach(12, None, f"forget of {k} blocks of node {node}, there are {len(there)}")
            self.resident -= {*there[max(0, len(there) - max(0, k)) :]}
        for state in self.states.values():
            if not self.resident.issuperset(state.had(state.m, self.machine.block)):
                self.breach(12, None, f"forget of what {state.id} holds")
            stays = [block in self.resident for block in state.path]
            if stays != sorted(stays, reverse=True):
                self.breach(12, None, f"a block on the path of {state.id} stays without the one before it")

    def reuse(self, moves: Amounts, work: Amounts) -> None:
        """R12: whole blocks of the path of one that works, which are there or completed by work."""
        block = self.machine.block
        for state, k in moves.items():
            self.hold(state, state.m + max(0, k), state.h)
        made = {each for state, c in work.items() for each in state.path[state.m // block : (state.m + c) // block]}
        there = self.resident | (made if self.machine.same_batch and moves else set())
        for state, k in moves.items():
            most = min(len(state.path) * block, state.S - 1)
            if state not in work or k < 1 or state.m % block or state.m > most:
                self.breach(12, state, f"reuse of {k} tokens up to {state.m}, of {most} at most")
            elif not there.issuperset(state.had(state.m, block)):
                self.breach(12, state, f"reuse up to {state.m} of what is not there")

    def work(self, work: Amounts, start: int, taken: dict[str, Amounts], evicted: set[State]) -> dict[str, int]:
        """The features of a batch; R2 to R7."""
        machine, block, prefilled, held = self.machine, self.machine.block, 0, self.blocks
        features = dict.fromkeys(COEFFICIENTS, 0)
        for state, c in work.items():
            if state.done is not None or state.returns_at is not None or start < state.one.arrival:
                self.breach(2, state, "it works, but it is done, in a call or has not arrived")
            if not 1 <= c <= state.S - state.m or (c < state.S - state.m and not machine.chunked):
                self.breach(3, state, f"it processes {c} of {state.S - state.m} tokens")
            if state.h or state in evicted:
                self.breach(4, state, "it works, but KV of it is on the host or is evicted in this batch")
            phase = "decode" if state.m > 0 and state.S - state.m == 1 else "prefill"
            features["busy"] = features["any_" + phase] = 1
            features["tokens"] += c
            features["generated"] += state.m + c == state.S
            features[phase + "_requests"] += 1
            features[phase + "_kv"] += state.m
            if phase == "prefill":
                features["prefill_pairs"] += c * c + 2 * c * state.m
                prefilled += c
            held += state.private(state.m + c, machine) - state.private(state.m, machine)
        shared = {each for state, c in work.items() if state.path for each in state.had(state.m + c, block)}
        held += len(self.resident | shared)
        for kind in ("swap_out", "swap_in"):
            features[kind + "_tokens"], features[kind + "s"] = sum(taken[kind].values()), len(taken[kind])
        for name, total in zip(BATCH.values(), (features["tokens"], prefilled, len(work)), strict=True):
            if machine[name] is not None and total > machine[name]:
                self.breach(5, None, f"{total} is above {name} = {machine[name]}")
        if not machine.hybrid and features["any_decode"] and features["any_prefill"]:
            self.breach(5, None, "prefills and decodes share the batch")
        for state in self.those(self.worked if not machine.pause else ()):
            if state not in work and state not in taken["drop"] and state not in taken["swap_out"]:
                self.breach(5, state, "it worked in the batch before and sits out")
        if machine.memory is not None and held > machine.memory // block:
            self.breach(6, None, f"the requests occupy {held} blocks of {block}")
        if machine.host_memory is not None and self.host > machine.host_memory:
            self.breach(7, None, f"the host holds {self.host} tokens")
        return features

    def grow(self, state: State, c: int) -> None:
        """The end of the batch for a request that works."""
        self.hold(state, state.m + c, state.h)
        if state.path:
            self.resident |= {*state.had(state.m, self.machine.block)}
        state.window = ""
        if token := state.m == state.S:
            state.S, state.left, state.generated = state.S + 1, state.left - 1, state.generated + 1
            state.first = self.clock if state.first is None else state.first
        if not token or state.left:
            self.worked.append(state.id)
            return
        after = state.one.segments[state.segment].call
        if after is None:
            state.done = self.clock
            self.hold(state, 0, 0)
            return
        state.segment += 1
        state.left = state.one.segments[state.segment].decode
        state.returns_at, state.window = self.clock + after.duration, after.handling
        self.calling.append(state.id)
        if after.handling in ORDERED:
            state.due = state.m
            self.due.append(state.id)


def verify_schedule(instance: Box, data: Any) -> dict[str, Amount]:
    """The values of a schedule by objective; Broken names the first rule that it breaks."""
    schedule = shaped(data, schedule_file, "schedule")
    if schedule.instance_sha256 != sha256(instance):
        raise Bad("the schedule is for another instance")
    spent[0], execution = 0, Execution(instance)
    execution.run(schedule.batches)
    times = [(state.first - state.one.arrival, state.done - state.one.arrival) for state in execution.states.values()]
    return by_objective(instance.requests, times, execution.busy) | {name: percentile(name, times) for name in TAILS}
