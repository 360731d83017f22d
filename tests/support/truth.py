"""The optimum of tiny instances, from the text of docs/semantics.md: every batch that the rules allow.

It shares no code with what it judges: only the nouns and `Cost.duration`. No bound guides it, and nothing is left out.
Equal states are one, and so are states in which requests that differ in their ids alone have changed places.
"""

import heapq
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, count
from math import inf, lcm
from typing import Any, NamedTuple

from kvcore.cost import Features
from kvcore.instance import Instance
from kvcore.schedule import Batch, Schedule

SUMMED = Features._fields[3:]
"""The features that are sums over requests; `busy` and the two flags follow from them."""
BITS = 48
"""The sums are packed into one integer, so many bits for each."""
LATE = (1, 0, 0)
RATES: dict[str, Any] = {
    "total-flow-time": lambda request: 1, "total-ttft": lambda request: 1,
    "weighted-flow-time": lambda request: request.weight,
    "normalized-latency": lambda request: Fraction(1, sum(segment.decode for segment in request.segments)),
}  # fmt: skip
"""What a tick adds to a sum until a request is done; for total-ttft, until its first token."""
Row = tuple[Any, ...]
Block = tuple[str, int]
"""A node of contents and a place in it."""
Used = tuple[tuple[tuple[int, ...], bool, bool], ...]
"""Of each request the blocks of its path (of an option), whether it works, and whether it reuses."""
State = tuple[int, Row, frozenset[Block]]
"""The tick, where it matters, the numbers of the requests' local states, and the resident blocks of contents."""


class TooManyStates(Exception):
    """More states than allowed."""


class Local(NamedTuple):
    """One request at a batch boundary. Times are relative, so that states of different ticks can be equal."""

    segment: int = 0
    generated: int = 0
    """In this segment."""
    device: int = 0
    host: int = 0
    wait: int = 0
    """Ticks until it arrives, or until its call returns."""
    arrived: bool = False
    due: bool = False
    """Its call orders a move in the next batch (R9)."""
    window: bool = False
    """A `free` call started, and it has not worked since (R9)."""
    worked: bool = False
    """It worked in the batch before, and its segment goes on (R5)."""
    clock: tuple[int, ...] = ()
    """For late-requests: 0, ticks since the arrival, ticks since the first token (-1: none yet); or LATE."""


class Option(NamedTuple):
    """What one request does in a batch, what it holds and adds to the features, and what comes of it."""

    after: Local
    moves: tuple[int, int, int]
    """drop, swap_out, swap_in"""
    work: int
    prefill: int
    """Tokens processed in the prefill phase."""
    phase: int
    """1: it decodes, 2: it prefills, 0: it does not work."""
    blocks: int
    """But those of its path."""
    acts: bool
    """It works or is swapped: without one such there is no batch."""
    sums: int
    path: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Blocks of its path that it holds after drops and swap_outs, after swap_ins, after the reuse, and at the end."""
    reuse: int = 0
    idle: tuple[int, int, int] | None = None
    """Other moves of the same effects, with which it does not act: a swap there and back may only make the batch."""


class Truth:
    """The search for the optimum of one instance and objective.

    Batches start when the batch before ends, or where a request arrives or a call returns: with earlier starts the
    same batches lose nothing (`tests/reductions/early.py`). With `every_tick`, and under SLOs on TPOT, at any tick.
    """

    def __init__(self, instance: Instance, objective: str, every_tick: bool = False) -> None:
        self.instance, self.machine, self.objective = instance, instance.machine, objective
        self.requests = sorted(instance.requests, key=lambda r: (repr(r.shape), r.id))
        self.kind = [[r.shape for r in self.requests].index(r.shape) for r in self.requests]
        self.groups = [(k, k + self.kind.count(k)) for k in sorted(set(self.kind))]
        self.some_alike = len(self.groups) < len(self.kind)
        self.waiting = (None,) * len(self.kind)
        self.late = objective == "late-requests"
        self.every_tick = every_tick or (self.late and any(r.slo is not None and r.slo.tpot for r in self.requests))
        rates = [Fraction(RATES[objective](r) if objective in RATES else 0) for r in self.requests]
        self.scale = lcm(*(rate.denominator for rate in rates))
        self.rates = [int(self.scale * rate) for rate in rates]
        asked = {k - 3 for function in instance.cost.functions for k, _ in function.terms}
        asked |= {0} if any(f.tokens_above for f in instance.cost.functions) else set()
        self.asked = sorted(k for k in asked | {2, 3} if k >= 0)
        self.above = {node.id: node.parent for node in instance.contents}
        self.size = {node.id: node.blocks for node in instance.contents}
        self.paths = [self.path(r.path) for r in self.requests]
        self.numbers: dict[Local, int] = {}
        self.locals: list[Local] = []
        self.options = cache(self._options)
        self.effect = cache(self._effect)
        self.duration = cache(self._duration)
        self.kept = cache(self._kept)

    # --- the search: a state has the number of a local state for each request ------------------------------------

    def number(self, local: Local) -> int:
        if local not in self.numbers:
            self.numbers[local] = len(self.locals)
            self.locals.append(local)
        return self.numbers[local]

    def optimum(self, max_states: float = inf) -> tuple[int | Fraction, Schedule]:
        """Return the least value, and a schedule of that value with few batches. Raises TooManyStates."""
        clock = (0, 0, -1) if self.late else ()
        first = (Local(wait=r.arrival, arrived=r.arrival == 0, clock=clock) for r in self.requests)
        start = (0, tuple(map(self.number, first)), frozenset[Block]())
        timed = self.objective == "max-flow-time"  # the only one for which no two ticks are alike
        best: dict[State, tuple[int, int, int]] = {start: (0, 0, 0)}
        parents: dict[State, Any] = {}
        order = count()
        heap: list[Any] = [((0, 0, 0), 0, start, None)]
        while heap:
            (value, _, batches), _, state, came = heapq.heappop(heap)
            if state in parents:
                continue
            parents[state] = came
            if len(parents) > max_states:
                raise TooManyStates(f"more than {max_states} states")
            tick, row, resident = state
            left = [i for i, n in enumerate(row) if not self.done(i, self.locals[n])]
            if not left:
                return Fraction(value, self.scale) if self.scale > 1 else value, self.schedule(parents, state)
            age = tick - min(self.requests[i].arrival for i in left)
            for batch, ticks, (after, adds, to_go), left_there in self.steps(row, resident):
                following = (tick + ticks if timed else 0, self.in_order(after), left_there)
                if following not in parents:
                    found = (max(value, age + ticks) if timed else value + adds, to_go, batches + (batch is not None))
                    if following not in best or found < best[following]:
                        best[following] = found
                        heapq.heappush(heap, (found, next(order), following, (state, batch, ticks)))
        raise AssertionError("there is no schedule")

    def steps(
        self, row: Row, resident: frozenset[Block]
    ) -> Iterator[tuple[Row | None, int, tuple[Row, int, int], frozenset[Block]]]:
        """Yield the waits (None) and the batches that may follow: options, ticks, what `run` says, resident blocks."""
        waits = [self.locals[n].wait for n in row if self.locals[n].wait]
        if waits or self.every_tick:
            ticks = 1 if self.every_tick else min(waits)
            yield None, ticks, self.run(row, None, ticks), resident
        for batch, sums in self.batches(row):
            ticks = self.duration(sums)
            ran = self.run(row, batch, ticks)
            for after in self.shared(row, batch, resident) if self.above else (resident,):
                yield batch, ticks, ran, after

    def run(self, row: Row, batch: Row | None, ticks: int) -> tuple[Row, int, int]:
        """Return the row after a wait or a batch, what it adds to the value, and the tokens still to be generated.

        Of equal values, the one with the fewest such tokens comes first.
        """
        total = ticks if self.objective == "makespan" or (self.objective == "busy-time" and batch) else 0
        after, to_go = [], 0
        for kind, n, k in zip(self.kind, row, batch or self.waiting, strict=True):
            number, adds, left = self.effect(kind, n, k, ticks)
            after.append(number)
            total += adds
            to_go += left
        return tuple(after), total, to_go

    def _effect(self, i: int, n: int, k: int | None, ticks: int) -> tuple[int, int, int]:
        """Return the local state after an option (None: a wait) of so many ticks, what it adds, and what is left."""
        old = self.locals[n]
        new = self.passed(i, old, old if k is None else self.options(i, n)[k].after, ticks)
        left = sum(s.decode for s in self.requests[i].segments[new.segment :]) - new.generated
        if self.late:
            return self.number(new), int(new.clock == LATE != old.clock), left
        counted = old.segment or old.generated if self.objective == "total-ttft" else self.done(i, old)
        rate = 0 if counted else self.rates[i]
        return self.number(new), rate * max(0, ticks - (0 if old.arrived else old.wait)), left

    def done(self, i: int, local: Local) -> bool:
        return local.segment == len(self.requests[i].segments)

    def places(self, row: Row) -> list[int]:
        """Return which request comes to which place: like requests stand in the order of their states."""
        return sorted(range(len(row)), key=lambda i: (self.kind[i], row[i]))

    def in_order(self, row: Row) -> Row:
        if len(self.groups) == 1:
            return tuple(sorted(row))
        return tuple([n for first, end in self.groups for n in sorted(row[first:end])]) if self.some_alike else row

    def schedule(self, parents: dict[State, Any], state: State) -> Schedule:
        """Return the schedule that leads to a state."""
        steps = []
        while parents[state] is not None:
            after = state[2]
            state, batch, ticks = parents[state]
            steps.append((state, after, batch, ticks))
        who, tick, batches = list(range(len(self.requests))), 0, []
        for (_, row, resident), after, batch, ticks in reversed(steps):
            if batch is not None:
                did = {self.requests[who[i]].id: self.options(self.kind[i], row[i])[k] for i, k in enumerate(batch)}
                work = {id: option.work for id, option in did.items() if option.work}
                idle = [id for id, option in did.items() if option.idle is not None]
                if any(option.acts and option.idle is None for option in did.values()):
                    idle.insert(0, "")  # none of them has to act
                made = {id: option.idle if id in idle[1:] else option.moves for id, option in did.items()}
                moves = {kind: {id: each[k] for id, each in made.items() if each[k]}
                         for k, kind in enumerate(("drop", "swap_out", "swap_in"))}  # fmt: skip
                gone = self.shared(row, batch, resident)[after]
                moves["forget"] = {node: sum(block[0] == node for block in gone) for node, _ in gone}
                moves["reuse"] = {id: option.reuse for id, option in did.items() if option.reuse}
                batches.append(Batch(start=tick, work=work, **moves))
            who, tick = [who[i] for i in self.places(self.run(row, batch, ticks)[0])], tick + ticks
        return Schedule(instance_sha256=self.instance.sha256, batches=tuple(batches))

    # --- contents ------------------------------------------------------------------------------------------------

    def path(self, path: tuple[str, int] | None) -> list[Block]:
        if path is None:
            return []
        node, blocks = path
        above = self.above[node]
        return self.path(above and (above, self.size[above])) + [(node, k) for k in range(blocks)]

    def closed(self, blocks: frozenset[Block]) -> bool:
        """Whether the block before each of these is among them."""
        before = (self.path((node, k + 1))[:-1] for node, k in blocks)
        return all(set(path) <= blocks for path in before)

    def shared(self, row: Row, batch: Row, resident: frozenset[Block]) -> dict[frozenset[Block], frozenset[Block]]:
        """Return what may be resident after a batch by R6 and R12: each set with what is forgotten for it."""
        if not self.above:
            return {resident: resident}
        did = [self.options(kind, n)[k] for kind, n, k in zip(self.kind, row, batch, strict=True)]
        used = tuple([(o.path, o.work > 0, o.reuse > 0) for o in did])
        return self.kept(used, sum([o.blocks for o in did]), resident)

    def _kept(self, used: Used, private: int, resident: frozenset[Block]) -> dict[frozenset[Block], frozenset[Block]]:
        """Return the same for what the requests do with their paths, and whether they work and reuse."""
        did = list(zip(self.paths, used, strict=True))
        held, back = ({block for path, (to, *_) in did for block in path[: to[k]]} for k in (0, 1))
        made = {block for path, (to, works, _) in did if works for block in path[to[2] : to[3]]}
        reused = {block for path, (to, _, reuses) in did if reuses for block in path[: to[2]]}
        limit = inf if self.machine.memory is None else self.machine.memory // self.machine.block
        loose, found = sorted(resident - held), dict[frozenset[Block], frozenset[Block]]()
        for size in range(len(loose) + 1):
            for gone in map(frozenset, combinations(loose, size)):
                kept = resident - gone
                source = kept | back | (made if self.machine.same_batch else set())
                after = kept | back | made
                if self.closed(kept) and reused <= source and private + len(after) <= limit:
                    found.setdefault(after, gone)
        return found

    # --- batches -------------------------------------------------------------------------------------------------

    def batches(self, row: Row) -> list[tuple[Row, int]]:
        """Return every batch that R5 to R7 and R10 allow: an option of each request, and the sums of their features."""
        m = self.machine
        limits = (m.memory and m.memory // m.block, m.host_memory, m.batch_tokens, m.prefill_tokens, m.batch_requests)
        parts: list[Any] = [((), 0, 0, False, *(inf if limit is None else limit for limit in limits))]
        for i, (kind, n) in enumerate(zip(self.kind, row, strict=True)):
            options = list(enumerate(self.options(kind, n)))
            alike = i > 0 and kind == self.kind[i - 1] and n == row[i - 1]
            longer = []
            for chosen, sums, shown, acts, device, host, tokens, prefill, works in parts:
                for k, o in options[chosen[-1] :] if alike else options:
                    phases, hosted = shown | o.phase, self.occupied(o.after.host, 1)
                    if (
                        o.blocks <= device and hosted <= host and o.work <= tokens and o.prefill <= prefill
                        and (works > 0 or not o.work) and (phases < 3 or m.hybrid)
                    ):  # fmt: skip
                        longer.append((
                            (*chosen, k), sums + o.sums, phases, acts or o.acts, device - o.blocks, host - hosted,
                            tokens - o.work, prefill - o.prefill, works - (o.work > 0),
                        ))  # fmt: skip
            parts = longer
        return [(part[0], part[1]) for part in parts if part[3]]

    def _duration(self, sums: int) -> int:
        summed = [0] * len(SUMMED)
        for place, k in enumerate(self.asked):
            summed[k] = (sums >> (BITS * place)) & (2**BITS - 1)
        decodes, prefills = summed[2] > 0, summed[3] > 0
        return self.instance.cost.duration(Features(int(decodes or prefills), int(decodes), int(prefills), *summed))

    # --- one request ---------------------------------------------------------------------------------------------

    def _options(self, i: int, n: int) -> list[Option]:
        """Return all that R2 to R5 and R8 to R10 allow a request; of options with the same effects, one."""
        local = self.locals[n]
        if self.done(i, local) or not local.arrived:
            return [Option(local, (0, 0, 0), 0, 0, 0, 0, False, 0)]
        found: dict[Any, Option] = {}
        request, chunked = self.requests[i], self.machine.chunked
        known = request.prompt + local.generated + sum(
            s.decode + (s.call.returns if s.call else 0) for s in request.segments[: local.segment])  # fmt: skip
        for moves, licensed in self.moves(i, local):
            device, host = moved(local.device, local.host, *moves)
            block, length = self.machine.block, len(self.paths[i])
            kept = moved(local.device, local.host, *moves[:2], 0)[0]
            evicted = moves[0] + moves[1] > 0
            options = []
            if self.machine.pause or not local.worked or evicted:
                options.append((local._replace(device=device, host=host, due=False, worked=False), 0, 0))
            licensed |= self.machine.drop_and_work and not moves[1]
            if host == 0 and not local.wait and (licensed or not evicted):
                ends = (end for end in range(block, min(block * length, known - 1) + 1, block) if end > device)
                for reuse in (0, *(end - device for end in ends)):
                    missing = known - device - reuse
                    for work in range(1 if chunked else missing, missing + 1):
                        after = self.after_work(i, local, device + reuse + work, work == missing)
                        options.append((after, work, reuse))
            for after, work, reuse in options:
                option = self.option(after, moves, work, device + reuse, known - device - reuse)
                held = (kept, device, device + reuse, device + reuse + work)
                path = [min(tokens // block, length) for tokens in held]
                option = option._replace(path=tuple(path), blocks=option.blocks - path[3], reuse=reuse)
                same = option._replace(moves=(0, 0, 0), acts=False)
                other = found.setdefault(same, option)
                if option.acts and not other.acts:
                    found[same] = option._replace(idle=other.moves)
        return list(found.values())

    def moves(self, i: int, local: Local) -> Iterator[tuple[tuple[int, int, int], bool]]:
        """Yield (drop, swap_out, swap_in), and whether R9 allows or orders what is dropped and swapped out."""
        call = self.requests[i].segments[local.segment - 1].call if local.segment else None
        handling = call and call.handling
        preserved = handling == "preserve" and local.wait > 0

        def some(tokens: int, allowed: bool = True) -> Sequence[int]:
            return (
                range(tokens + 1) if allowed and self.machine.partial else (0, tokens) if allowed and tokens else (0,)
            )

        if local.due:
            drop, out = (local.device, 0) if handling == "discard" else (0, local.device)
            yield from (((drop, out, back), True) for back in some(out))
            return
        may_evict = local.window or (self.machine.evict and not local.wait)
        for drop in some(local.device + local.host, may_evict):
            device, host = moved(local.device, local.host, drop, 0, 0)
            for out in some(device, may_evict):
                yield from (((drop, out, back), local.window) for back in some(host + out, not preserved))

    def after_work(self, i: int, local: Local, device: int, generates: bool) -> Local:
        """Return the request at the end of a batch in which it works."""
        generated = local.generated + generates
        after = local._replace(generated=generated, device=device, host=0, due=False, window=False, worked=True)
        segment = self.requests[i].segments[local.segment]
        if generated < segment.decode:
            return after
        after = after._replace(segment=local.segment + 1, generated=0, worked=False)
        if segment.call is None:
            return after._replace(device=0)
        handling = segment.call.handling
        return after._replace(
            wait=segment.call.duration, window=handling == "free", due=handling in ("discard", "swap")
        )

    def option(self, after: Local, moves: tuple[int, int, int], work: int, device: int, missing: int) -> Option:
        prefill = work > 0 and (device == 0 or missing > 1)
        decode = work > 0 and not prefill
        features = (
            work, 0 < work == missing, decode, prefill, decode * device, prefill * device,
            prefill * (work * work + 2 * work * device), moves[1], moves[2], moves[1] > 0, moves[2] > 0,
        )  # fmt: skip
        sums = sum(int(features[k]) << (BITS * place) for place, k in enumerate(self.asked))
        blocks = self.occupied(device + work, self.machine.block)
        acts = work + moves[1] + moves[2] > 0
        return Option(after, moves, work, work * prefill, 2 * prefill + decode, blocks, acts, sums)

    def occupied(self, tokens: int, block: int) -> int:
        """R6 of a request, in blocks; R7 in blocks of one token."""
        layout = self.machine.layout
        if tokens == 0 or layout is None:
            return -(-tokens // block)
        windows = [(g.weight, min(tokens, g.window or tokens)) for g in layout.groups]
        state = layout.state if block > 1 else layout.state * self.machine.block
        return state + sum(weight * -(-held // block) for weight, held in windows)

    def passed(self, i: int, before: Local, after: Local, ticks: int) -> Local:
        """Return the request `after` what it did, which took so many ticks from where it was `before`.

        What no rule asks for any more is forgotten: with `pause` that it worked, and the window where nothing is held.
        """
        held = after.device + after.host > 0
        after = after._replace(worked=after.worked and not self.machine.pause, window=after.window and held)
        waits = after.wait > 0 and after.segment == before.segment  # else its call starts at the end
        if waits:
            wait = max(0, after.wait - ticks)
            after = after._replace(wait=wait, arrived=after.arrived or wait == 0)
        if self.late and not self.done(i, before):
            return after._replace(clock=self.clock(i, before, after, ticks))
        return after

    def clock(self, i: int, before: Local, after: Local, ticks: int) -> tuple[int, ...]:
        """Return what the SLOs of a request ask for, so many ticks later: nothing more once one is exceeded."""
        slo = self.requests[i].slo
        if before.clock == LATE or slo is None:
            return before.clock
        _, age, since = before.clock
        age += max(0, ticks - (0 if before.arrived else before.wait))
        first = since < 0 and (after.segment > 0 or after.generated > 0)
        outputs = sum(segment.decode for segment in self.requests[i].segments)
        since = 0 if first else since + ticks if since >= 0 else since
        late = (
            (slo.ttft is not None and (since < 0 or first) and age > slo.ttft)
            or (slo.latency is not None and age > slo.latency)
            or (slo.tpot is not None and outputs > 1 and since > slo.tpot * (outputs - 1))
            or (slo.normalized_latency is not None and age > slo.normalized_latency * outputs)
        )
        if late:
            return LATE
        if self.done(i, after):
            return (0, 0, -1)
        lasting = slo.latency is not None or slo.normalized_latency is not None or (since < 0 and slo.ttft is not None)
        return (0, age if lasting else 0, since if since < 0 or slo.tpot is not None else 0)


def moved(device: int, host: int, drop: int, out: int, back: int) -> tuple[int, int]:
    """Return the tokens on the device and on the host after the moves: a drop forgets the host part first."""
    from_host = min(host, drop)
    return device - (drop - from_host) - out + back, host - from_host + out - back
