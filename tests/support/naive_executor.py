"""A second executor of schedules, written from the semantics alone and deliberately naive.

It walks every tick, keeps the KV of a request as lists of token positions, and shares no code with the referee, the
trace or the metrics: where both agree, a mistake must have been made twice. Only the nouns are shared.

Two readings that the semantics leaves open, and that only decide which rule is named or what a report says:
a move of more than is there takes what is there (and breaks R10), so that R6 and R7 are still defined; a tick of a
request that neither works nor is in a call is "in transfer" in a batch that swaps KV of it if it was ready when
the batch started, and else "queued".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from kvcore import Batch, Instance, Request, Schedule

KINDS = ("drop", "swap_out", "swap_in")
ORDERED = {"discard": "drop", "swap": "swap_out"}
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
    """One call: who asked for what, the positions held at its start, and what became of them until the next work."""

    batch: int
    end: int
    asked: str
    kv: list[int]
    dropped: set[int] = field(default_factory=set)
    swapped: set[int] = field(default_factory=set)

    def handling(self) -> str:
        if not self.dropped and not self.swapped:
            return "preserve"
        if not self.swapped and self.dropped >= set(self.kv):
            return "discard"
        if not self.dropped and self.swapped >= set(self.kv):
            return "swap"
        return "mixed"


class Life:
    """One request while the world goes on."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.context = ["prompt"] * request.prompt
        self.device: list[int] = []
        self.host: list[int] = []
        self.ever_processed: set[int] = set()
        self.segment = 0
        self.generated_in_segment = 0
        self.calls: list[PastCall] = []
        self.calling = False
        self.worked_since_call = True
        self.first_token: int | None = None
        self.completion: int | None = None

    def status(self, tick: int) -> str:
        if self.completion is not None:
            return "done"
        if self.calling:
            return "call"
        return "ready" if self.request.arrival <= tick else "waiting"

    def is_free_to_evict(self) -> bool:
        """R9, `free`: from the start of the call to the batch in which the request next works."""
        return not self.worked_since_call and self.calls[-1].asked == "free"

    def ordered_move(self, j: int) -> str | None:
        """R9, `discard` and `swap`: the move ordered in batch j."""
        if self.calls and self.calls[-1].batch == j - 1:
            return ORDERED.get(self.calls[-1].asked)
        return None


def after_move(kind: str, device: list[int], host: list[int], k: int) -> tuple[list[int], list[int], list[int]]:
    """Device positions and host positions after a move, and the positions that it took."""
    k = max(0, k)
    if kind == "drop":
        kv = device + host
        kept, taken = kv[: max(0, len(kv) - k)], kv[max(0, len(kv) - k) :]
        return [p for p in device if p in kept], [p for p in host if p in kept], taken
    if kind == "swap_out":
        kept, taken = device[: max(0, len(device) - k)], device[max(0, len(device) - k) :]
        return kept, taken + host, taken
    return device + host[:k], host[k:], host[:k]


class World:
    """All requests, the clock, and what has been seen so far."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.machine = instance.machine
        self.lives = {request.id: Life(request) for request in instance.requests}
        self.tick = 0
        self.j = 0
        self.must_work: set[str] = set()
        self.outcome = Outcome()

    # --- the clock -----------------------------------------------------------------------------------------------

    def occupied(self, tokens: int) -> int:
        whole = 0
        while whole < tokens:
            whole += self.machine.block
        return whole

    def return_calls(self) -> None:
        for life in self.lives.values():
            if life.calling and life.calls[-1].end <= self.tick:
                life.calling = False
                life.context += ["returned"] * life.request.segments[life.segment - 1].call.returns

    def live_through_tick(self, held: dict[str, int], part_of: dict[str, str]) -> None:
        """One tick: `held` tokens of each request; `part_of` says which part of the waste it is, unless in a call."""
        self.return_calls()
        self.outcome.memory.append(sum(held.values()))
        for id, life in self.lives.items():
            part = "calls" if life.calling else part_of.get(id, "queued")
            if part != "useful":
                self.outcome.waste[part] += held[id]
        self.tick += 1

    def idle_until(self, tick: int) -> None:
        while self.tick < tick:
            self.live_through_tick({id: self.occupied(len(life.device)) for id, life in self.lives.items()}, {})
        self.return_calls()

    def note_states(self) -> None:
        self.outcome.states.append(
            {
                id: (len(life.context), len(life.device), len(life.host), life.status(self.tick))
                for id, life in self.lives.items()
            }
        )

    # --- the rules: each yields the requests (or None) that break it ---------------------------------------------

    def broken(self, batch: Batch) -> Refusal | None:
        """The lowest rule that `batch` breaks when it is the next one. Changes nothing."""
        rules = (self.r2, self.r3, self.r4, self.r5, self.r6, self.r7, self.r8, self.r9, self.r10)
        for number, rule in enumerate(rules, 2):
            who = set(rule(batch))
            if who:
                return Refusal(number, self.j, who)
        return None

    def moves(self, batch: Batch) -> Iterator[tuple[str, str, int]]:
        for kind in KINDS:
            for id, k in getattr(batch, kind).items():
                if id in self.lives:
                    yield kind, id, k

    def kv_after(self, batch: Batch, id: str, before: str = "") -> tuple[list[int], list[int]]:
        """KV of a request after the moves of the batch (up to those of kind `before`)."""
        device, host = self.lives[id].device, self.lives[id].host
        for kind in KINDS:
            if kind == before:
                break
            if id in getattr(batch, kind):
                device, host, _ = after_move(kind, device, host, getattr(batch, kind)[id])
        return device, host

    def there(self, batch: Batch, kind: str, id: str) -> int:
        """Tokens that a move could take at most."""
        device, host = self.kv_after(batch, id, before=kind)
        return {"drop": len(device) + len(host), "swap_out": len(device), "swap_in": len(host)}[kind]

    def takes_kv(self, batch: Batch, kind: str, id: str) -> bool:
        """Whether the batch drops, or swaps out, KV of the request (not: whether it lists such a move)."""
        k = getattr(batch, kind).get(id, 0)
        return bool(after_move(kind, *self.kv_after(batch, id, before=kind), k)[2])

    def r9_has_it(self, kind: str, id: str) -> bool:
        """Whether R9 allows or orders this drop or swap_out."""
        return self.lives[id].is_free_to_evict() or self.lives[id].ordered_move(self.j) == kind

    def workers(self, batch: Batch) -> list[tuple[Life, int, str]]:
        """Request, tokens and phase of each piece of work."""
        result = []
        for id, c in batch.work.items():
            if id in self.lives:
                m = len(self.kv_after(batch, id)[0])
                missing = len(self.lives[id].context) - m
                result.append((self.lives[id], c, "decode" if m > 0 and missing == 1 else "prefill"))
        return result

    def r2(self, batch: Batch) -> Iterator[str | None]:
        for life, _, _ in self.workers(batch):
            if life.status(batch.start) != "ready":
                yield life.request.id

    def r3(self, batch: Batch) -> Iterator[str | None]:
        for life, c, _ in self.workers(batch):
            missing = len(life.context) - len(self.kv_after(batch, life.request.id)[0])
            if c < 1 or c > missing or (not self.machine.chunked and c != missing):
                yield life.request.id

    def r4(self, batch: Batch) -> Iterator[str | None]:
        for life, _, _ in self.workers(batch):
            id = life.request.id
            evicted = any(self.takes_kv(batch, kind, id) and not self.r9_has_it(kind, id) for kind in KINDS[:2])
            if self.kv_after(batch, id)[1] or evicted:
                yield id

    def r5(self, batch: Batch) -> Iterator[str | None]:
        machine, workers = self.machine, self.workers(batch)
        if machine.batch_tokens is not None and sum(c for _, c, _ in workers) > machine.batch_tokens:
            yield None
        prefill = sum(c for _, c, phase in workers if phase == "prefill")
        if machine.prefill_tokens is not None and prefill > machine.prefill_tokens:
            yield None
        if machine.batch_requests is not None and len(workers) > machine.batch_requests:
            yield None
        if not machine.hybrid and len({phase for _, _, phase in workers}) == 2:
            yield None
        if not machine.pause:
            idle = sorted(self.must_work - set(batch.work))
            yield from (id for id in idle if not any(self.takes_kv(batch, kind, id) for kind in KINDS[:2]))

    def held_during(self, batch: Batch) -> dict[str, int]:
        """Occupied device tokens of every request, after the moves and the growth."""
        return {
            id: self.occupied(len(self.kv_after(batch, id)[0]) + max(0, batch.work.get(id, 0))) for id in self.lives
        }

    def r6(self, batch: Batch) -> Iterator[str | None]:
        if self.machine.memory is not None and sum(self.held_during(batch).values()) > self.machine.memory:
            yield None

    def r7(self, batch: Batch) -> Iterator[str | None]:
        on_host = sum(len(self.kv_after(batch, id)[1]) for id in self.lives)
        if self.machine.host_memory is not None and on_host > self.machine.host_memory:
            yield None

    def r8(self, batch: Batch) -> Iterator[str | None]:
        for kind, id, k in self.moves(batch):
            if (
                kind != "swap_in"
                and not self.r9_has_it(kind, id)
                and (self.lives[id].calling or not self.machine.evict)
            ):
                yield id
            if not self.machine.partial and k != self.there(batch, kind, id):
                yield id

    def r9(self, batch: Batch) -> Iterator[str | None]:
        for id, life in self.lives.items():
            ordered = life.ordered_move(self.j)
            if ordered is not None and getattr(batch, ordered).get(id) != len(life.calls[-1].kv):
                yield id
            preserved = life.calling and life.calls[-1].asked == "preserve"
            if preserved and any(id in getattr(batch, kind) for kind in KINDS):
                yield id

    def r10(self, batch: Batch) -> Iterator[str | None]:
        if not batch.work and not batch.swap_out and not batch.swap_in:
            yield None
        for what in ("work", *KINDS):
            yield from (id for id in getattr(batch, what) if id not in self.lives)
        for kind, id, k in self.moves(batch):
            if not 1 <= k <= self.there(batch, kind, id):
                yield id

    # --- execution -----------------------------------------------------------------------------------------------

    def duration(self, batch: Batch) -> int:
        """D_j = the largest of 1 and ceil(f/q)."""
        workers = [(len(self.kv_after(batch, x.request.id)[0]), len(x.context), c, ph) for x, c, ph in
                   self.workers(batch)]  # fmt: skip
        decodes = [w for w in workers if w[3] == "decode"]
        prefills = [w for w in workers if w[3] == "prefill"]
        tokens = sum(c for _, _, c, _ in workers)
        feature = {
            "busy": 1 if workers else 0,
            "any_decode": 1 if decodes else 0,
            "any_prefill": 1 if prefills else 0,
            "tokens": tokens,
            "generated": len([1 for m, known, c, _ in workers if m + c == known]),
            "decode_requests": len(decodes),
            "prefill_requests": len(prefills),
            "decode_kv": sum(m for m, _, _, _ in decodes),
            "prefill_kv": sum(m for m, _, _, _ in prefills),
            "prefill_pairs": sum(c * c + 2 * c * m for m, _, c, _ in prefills),
            "swap_out_tokens": sum(batch.swap_out.values()),
            "swap_in_tokens": sum(batch.swap_in.values()),
            "swap_outs": len(batch.swap_out),
            "swap_ins": len(batch.swap_in),
        }
        ticks = [1]
        for function in self.instance.cost.functions:
            f = sum(getattr(function, name) * value for name, value in feature.items())
            above = function.tokens_above
            if above is not None and tokens > above.knee:
                f += above.coefficient * (tokens - above.knee)
            quotient = Fraction(f, function.divisor)
            ticks.append(int(quotient) if quotient.denominator == 1 else int(quotient) + 1)
        return max(ticks)

    def run(self, batch: Batch) -> None:
        """Execute a batch that breaks no rule."""
        self.note_states()
        duration, held = self.duration(batch), self.held_during(batch)
        self.make_moves(batch)
        part_of = self.parts_of_waste(batch)
        start = self.tick
        for _ in range(duration):
            self.live_through_tick(held, part_of)
        self.must_work = {id for id, c in batch.work.items() if self.work_ends(self.lives[id], c)}
        self.outcome.batches.append(
            {
                "start": start,
                "duration": duration,
                "device": sum(held.values()),
                "device_after": sum(self.occupied(len(life.device)) for life in self.lives.values()),
                "host": sum(len(life.host) for life in self.lives.values()),
            }
        )
        self.j += 1

    def make_moves(self, batch: Batch) -> None:
        for kind, id, k in list(self.moves(batch)):
            life = self.lives[id]
            life.device, life.host, taken = after_move(kind, life.device, life.host, k)
            assert life.device + life.host == list(range(len(life.device) + len(life.host)))
            if not life.worked_since_call and kind != "swap_in":
                (life.calls[-1].dropped if kind == "drop" else life.calls[-1].swapped).update(taken)
            self.outcome.swapped_out += len(taken) if kind == "swap_out" else 0
            self.outcome.swapped_in += len(taken) if kind == "swap_in" else 0

    def parts_of_waste(self, batch: Batch) -> dict[str, str]:
        part_of = {id: "transfer" for id in {**batch.swap_out, **batch.swap_in} if not self.lives[id].calling}
        for id, c in batch.work.items():
            life = self.lives[id]
            now = range(len(life.device), len(life.device) + c)
            part_of[id] = "recomputation" if any(p in life.ever_processed for p in now) else "useful"
        return part_of

    def work_ends(self, life: Life, c: int) -> bool:
        """The end of a piece of work, at the end of the batch. Whether the segment goes on."""
        life.worked_since_call = True
        for _ in range(c):
            position = len(life.device)
            self.outcome.processed += 1
            self.outcome.recomputed += position in life.ever_processed
            life.ever_processed.add(position)
            life.device.append(position)
        if len(life.device) < len(life.context):
            return True
        life.context.append("generated")
        life.generated_in_segment += 1
        if life.first_token is None:
            life.first_token = self.tick
        segment = life.request.segments[life.segment]
        if life.generated_in_segment < segment.decode:
            return True
        if segment.call is None:
            life.completion = self.tick
            life.device = []
        else:
            end = self.tick + segment.call.duration
            life.calls.append(PastCall(self.j, end, segment.call.handling, list(life.device)))
            life.calling, life.worked_since_call = True, False
            life.segment, life.generated_in_segment = life.segment + 1, 0
        return False

    # --- the end -------------------------------------------------------------------------------------------------

    def finish(self) -> Outcome | Refusal:
        self.return_calls()
        self.note_states()
        undone = {id for id, life in self.lives.items() if life.completion is None}
        if undone:
            return Refusal(11, self.j, undone)
        outcome = self.outcome
        flows, weighted, normalized = [], [], []
        for id, life in self.lives.items():
            request, output = life.request, sum(segment.decode for segment in life.request.segments)
            flow = life.completion - request.arrival
            flows.append(flow)
            weighted.append(request.weight * flow)
            normalized.append(Fraction(flow, output))
            outcome.completion[id] = life.completion
            outcome.ttft[id] = life.first_token - request.arrival
            outcome.tpot[id] = Fraction(life.completion - life.first_token, output - 1) if output > 1 else None
            if self.is_late(request, flow, outcome.ttft[id], outcome.tpot[id], normalized[-1]):
                outcome.late.add(id)
            for k, call in enumerate(life.calls, 1):
                outcome.handling[f"{id}/{k}"] = call.handling()
        outcome.objectives = {
            "makespan": max(outcome.completion.values()),
            "busy-time": sum(batch["duration"] for batch in outcome.batches),
            "total-flow-time": sum(flows),
            "weighted-flow-time": sum(weighted),
            "max-flow-time": max(flows),
            "total-ttft": sum(outcome.ttft.values()),
            "late-requests": len(outcome.late),
            "normalized-latency": sum(normalized),
        }
        return outcome

    @staticmethod
    def is_late(request: Request, flow: int, ttft: int, tpot: Fraction | None, normalized: Fraction) -> bool:
        slo = request.slo
        if slo is None:
            return False
        pairs = [
            (ttft, slo.ttft),
            (flow, slo.latency),
            (tpot, slo.tpot),
            (normalized, slo.normalized_latency),
        ]
        return any(value is not None and limit is not None and value > limit for value, limit in pairs)


def naive_verify(instance: Instance, schedule: Schedule) -> Outcome | Refusal:
    """Execute a schedule tick by tick."""
    world = World(instance)
    for repeated in schedule.batches:
        for k in range(repeated.repeat):
            batch = Batch(start=world.tick, work=repeated.work) if k else repeated
            if batch.start < world.tick:
                return Refusal(1, world.j, {None})
            world.idle_until(batch.start)
            refusal = world.broken(batch)
            if refusal is not None:
                return refusal
            world.run(batch)
    return world.finish()
