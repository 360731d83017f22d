"""The instance as counts of requests that stand at the same point: the proofs of `docs/search.md` (Counts).

**Theorem 1.** Some schedule of least cost consists of drops, moves and pulls. Without host memory transfers change no
KV and are left out. Change a schedule of least cost so that no rule breaks and no cost rises:

1. *Whole prefills.* Move all tokens of the chunks towards one token to the last. Before it less memory is held, in it
   the same. `tokens` and `generated` keep their sums; fewer requests work; `prefill_kv` falls to 0. The pairs
   (m + c)^2 - m^2 telescope, to the same sum if the last chunk was a prefill. If it was a decode, they rise by
   S^2 - (S - 1)^2 = 2 S - 1, and one decode request with S - 1 tokens of KV goes: the condition on `chunked`.
2. *Batches without work* are removed, which saves `busy`; their drops are made in the next batch. A request that is
   refilled there decodes instead, which costs no more: the condition on `evict`.
3. *Time.* For busy-time every batch may wait for the last arrival; for the makespan all arrive at once. QED
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import NamedTuple

from bounds.tuning import Options, option
from formulations.refills import ample_budgets
from kvcore.cost import CostFunction, Features
from kvcore.instance import Instance

MOST_REQUESTS = 30_000
"""Counts are kept in 16 bits."""


@dataclass(frozen=True)
class CountOptions(Options):
    """The search over counts of like requests: prices of the pools, and passes through layers of states."""

    most_vectors: int = option(400_000, "fillings of the memory beyond which like requests are not counted")
    many_vectors: int = option(50_000, "fillings beyond which prices get a sixth of the rounds")
    few_vectors: int = option(2_000, "fillings up to which prices begin at what points cost in full batches")
    few_batches: int = option(40, "batches, about, of the instances in which first prices are found")
    rounds: int = option(60, "evaluations of the bound in one improvement of prices", least=6)
    first_box: float = option(0.08, "how far prices may move at first, as a part of what tokens to go cost")
    precision: float = option(2000.0, "prices are good where no more than a batch's cost divided by this is promised")
    pass_parts: tuple[int, ...] = option(
        (1, 100, 30, 10, 3, 1, 1, 0),
        "how far each pass goes above the bound: a batch's cost by this (0: any)",
        least=0,
    )
    pass_widths: tuple[int, ...] = option(
        (200, 1_000, 3_000, 10_000, 30_000, 100_000, 10**12, 10**12), "states of a layer that each pass follows"
    )
    chunk: int = option(20_000, "states that are expanded at once")
    most_rows: int = option(2_000_000, "states between two steps of one chunk; beyond, the worst are cut", least=2)
    rows_by_width: int = option(30, "and so many for each state that a pass follows")


class Progress(NamedTuple):
    """Where a request stands: the tokens that it knows (S) and those that it has yet to generate."""

    known: int
    remaining: int


@dataclass(frozen=True)
class Operation:
    """What one batch may do to one more request; a batch takes the steps in order, each any number of times.

    A drop takes a request out of slot `takes` into the pool, a move works on it (from `takes` to `gives`), and a pull
    takes it out of the pool and refills it (to `gives`). -1: no slot, or no pool.
    """

    takes: int
    gives: int
    into: int
    out_of: int
    cost: int


@dataclass(frozen=True)
class CountsModel:
    """Counts instead of requests.

    A slot is a point whose requests hold the KV of all but their last token, or (the last slots) of requests that end
    in this batch; a pool is a point whose requests hold nothing.
    """

    instance: Instance
    pools: tuple[Progress, ...]
    slots: tuple[Progress, ...]
    """Points that hold KV, and then, with `remaining` 0, the ends."""
    sizes: tuple[int, ...]
    """Blocks that a request in each slot occupies."""
    memory: int
    """Blocks of the device, or what all requests need together."""
    steps: tuple[Operation, ...]
    start: tuple[int, ...]
    """Requests in each pool at the start."""
    batch: int
    """Cost of a batch besides that of its steps, at least one tick."""
    offset: int
    """What the objective counts besides batches: the arrival, for the makespan."""

    @property
    def ends(self) -> tuple[int, ...]:
        """The slots that are empty between batches."""
        return tuple(i for i, point in enumerate(self.slots) if point.remaining == 0)

    @property
    def least_batches(self) -> int:
        """The batches whose memory is enough for all tokens: to generate one with S tokens known, S are resident."""
        blocks = self.instance.machine.blocks
        volume = sum(
            count * sum(blocks(point.known + k) for k in range(point.remaining))
            for point, count in zip(self.pools, self.start, strict=True)
        )
        return -(-volume // self.memory)

    @property
    def alone(self) -> int:
        """What the steps of all requests cost at least: each refilled once, and no more."""
        pull = {self.pools[s.out_of]: s for s in self.steps if s.out_of >= 0}
        move = {self.slots[s.takes]: s for s in self.steps if s.takes >= 0 and s.gives >= 0}
        total = 0
        for pool, count in zip(self.pools, self.start, strict=True):
            if count:
                step, cost = pull[pool], pull[pool].cost
                while self.slots[step.gives].remaining:
                    step = move[self.slots[step.gives]]
                    cost += step.cost
                total += count * cost
        return total


def scaled_down(model: CountsModel, by: int) -> CountsModel:
    """Return about the same with a part of the requests, of the memory and of the cost of a batch."""
    start = tuple(-(-count // by) for count in model.start)
    return replace(model, start=start, memory=model.memory // by, batch=max(1, model.batch // by))


def count_model(instance: Instance, objective: str) -> CountsModel | None:
    """Return the model by counts, or None where it is not proved to give the optimum."""
    if not _applies(instance, objective):
        return None
    return _build(instance, instance.requests[0].arrival if objective == "makespan" else 0)


# --- where it applies ------------------------------------------------------------------------------------------------


def _applies(instance: Instance, objective: str) -> bool:
    machine, requests = instance.machine, instance.requests
    together = len({request.arrival for request in requests}) == 1
    return (
        (objective == "busy-time" or (objective == "makespan" and together))
        and all(len(request.segments) == 1 for request in requests)
        and len(requests) <= MOST_REQUESTS
        and machine.hybrid
        and machine.pause
        and not machine.partial
        and machine.host_memory == 0
        and (machine.batch_requests is None or machine.batch_requests >= len(requests))
        and ample_budgets(instance)
        and _linear(instance)
    )


def _linear(instance: Instance) -> bool:
    """Whether a batch costs a constant and what its requests cost; a prefill is best whole; and to keep KV pays."""
    if len(instance.cost.functions) != 1:
        return False
    f = instance.cost.functions[0]
    if f.divisor != 1 or f.busy == 0 or f.any_decode or f.any_prefill or f.tokens_above is not None:
        return False
    n, tokens = len(instance.requests), sum(request.peak for request in instance.requests)
    if f.value(Features(1, 1, 1, tokens, n, n, n, tokens, tokens, tokens * tokens)) * (tokens + 1) >= 2**58:
        return False  # sums could exceed 64 bits
    longest = max(request.peak for request in instance.requests)
    contexts = range(min(request.prompt for request in instance.requests), longest + 1)
    whole = all(f.prefill_pairs * (2 * S - 1) <= f.decode_requests + f.decode_kv * (S - 1) for S in contexts)
    kept = all(_decode(f, S) <= _refill(f, S) for S in contexts)
    return (whole or not instance.machine.chunked) and (kept or not instance.machine.evict)


def _decode(f: CostFunction, known: int) -> int:
    return f.tokens + f.generated + f.decode_requests + f.decode_kv * (known - 1)


def _refill(f: CostFunction, known: int) -> int:
    return f.tokens * known + f.generated + f.prefill_requests + f.prefill_pairs * known * known


# --- the model -------------------------------------------------------------------------------------------------------


def _build(instance: Instance, offset: int) -> CountsModel:
    machine, f = instance.machine, instance.cost.functions[0]
    starts = Counter(Progress(request.prompt, request.segments[0].decode) for request in instance.requests)
    later = {Progress(p.known + k, p.remaining - k) for p in starts for k in range(1, p.remaining)}
    pools = sorted({*starts, *later} if machine.evict else starts, reverse=True)
    ends = {Progress(p.known + p.remaining, 0) for p in starts}
    slots = sorted(later, reverse=True) + sorted(ends, reverse=True)
    place = {point: i for i, point in enumerate(slots)}
    pool = {point: i for i, point in enumerate(pools)}
    sizes = tuple(machine.blocks(point.known - 1) for point in slots)

    def after(point: Progress) -> int:
        return place[Progress(point.known + 1, point.remaining - 1)]

    held = slots[: len(later)]
    drops = [Operation(place[p], -1, pool[p], -1, 0) for p in held] if machine.evict else []
    moves = [Operation(place[p], after(p), -1, -1, _decode(f, p.known)) for p in held]
    pulls = [Operation(-1, after(p), -1, pool[p], _refill(f, p.known)) for p in pools]
    needed = sum(machine.blocks(request.peak) for request in instance.requests)
    limit = machine.block_limit
    return CountsModel(
        instance=instance,
        pools=tuple(pools),
        slots=tuple(slots),
        sizes=sizes,
        memory=needed if limit is None else min(limit, needed),
        steps=(*drops, *moves, *pulls),
        start=tuple(starts[p] for p in pools),
        batch=f.busy,
        offset=offset,
    )
