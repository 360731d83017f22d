"""The earliest starts of given batches, and the models' unit of time."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain, repeat

from formulations.chains import least_work
from kvcore.instance import Instance
from kvcore.metrics import Value
from kvcore.referee import verify_schedule
from kvcore.rules import ORDERED, Execution
from kvcore.schedule import Batch, Schedule
from kvcore.trace import Trace

MOVES = ("drop", "swap_out", "swap_in")
Event = tuple[int, str, int]
"""A slot, `work` or the kind of a move (or `evict`: a drop that rule R9 neither allows nor orders), and tokens."""


def time_scale(instance: Instance) -> int:
    """Return the ticks in the models' unit of time: a power of ten where batches last a thousand ticks or more."""
    step = least_work(instance)
    return 10 ** int(math.log10(step)) if step >= 1000 else 1


def objective_bound(dual_bound: float, units: int, denominator: int) -> Value:
    """Turn a solver's dual bound into the objective's unit, rounded up: objectives are integers in it.

    A millionth, and a millionth of the model's unit (of `units`), is taken off first: the solvers' tolerance.
    """
    bound = math.ceil((dual_bound - 1e-6 * (1 + abs(dual_bound))) * units)
    return bound if denominator == 1 else Fraction(bound, denominator)


def batches_of(done: Iterable[tuple[str, Iterable[Event]]]) -> tuple[list[int], list[Batch]]:
    """Return the slots that are batches, and these without starts, from each request's id and events.

    Drops in a slot that is no batch join the next one. An eviction that would so join work is none: its KV stays.
    """
    slots: dict[int, dict[str, dict[str, int]]] = {}
    for id, events in done:
        for t, kind, tokens in events:
            slots.setdefault(t, {}).setdefault(kind, {})[id] = tokens
    batches: dict[int, Batch] = {}
    dropped: Counter[str] = Counter()
    evicted: Counter[str] = Counter()
    for t in sorted(slots):
        dropped += Counter(slots[t].pop("drop", {}))
        evicted += Counter(slots[t].pop("evict", {}))
        if slots[t]:
            work = slots[t].get("work", {})
            for id in [id for id, tokens in work.items() if tokens > evicted[id] > 0]:
                work[id] -= evicted.pop(id)
            batches[t] = Batch.model_validate({"start": 0, **slots[t], "drop": dict(dropped + evicted)})
            dropped, evicted = Counter(), Counter()
    return list(batches), list(batches.values())


def end_at(instance: Instance, batches: Sequence[Batch], ends: Sequence[int]) -> Trace:
    """End each batch at the given tick, or as early after it as possible.

    Raises InvalidSchedule if the batches break a rule whatever their starts.
    """
    durations = [batch.duration for batch in start_early(instance, batches).batches]
    earliest = [end - duration for end, duration in zip(ends, durations, strict=True)]
    return start_early(instance, batches, earliest)


def start_early(instance: Instance, batches: Iterable[Batch], earliest: Sequence[int] = ()) -> Trace:
    """Start the batches as early as their order and contents allow, and return the referee's trace.

    Given starts are ignored; `earliest` may put off each batch. Without it no event comes later than with any other
    valid starts, so no objective that grows with completions and first tokens is larger.

    Raises InvalidSchedule as `end_at`.
    """
    execution = Execution(instance)
    started: list[Batch] = []
    for batch, least in zip(batches, chain(earliest, repeat(0)), strict=False):
        started.append(batch.model_copy(update={"start": max(least, *_waits(execution, batch))}))
        execution.execute(started[-1])
    return verify_schedule(instance, Schedule(instance_sha256=instance.sha256, batches=tuple(started)))


def _waits(execution: Execution, batch: Batch) -> Iterator[int]:
    """The ends of the batch before, arrivals, and calls that a batch waits for.

    A request that works, or whose KV is moved, waits for its call, unless its handling allows or orders the move (R2,
    R8, R9).
    """
    yield execution.end
    for id in batch.work:
        state = execution.states[id]
        yield state.request.arrival
        if state.call is not None:
            yield state.call.end
    for kind, moved in (("drop", batch.drop), ("swap_out", batch.swap_out)):
        for state in (execution.states[id] for id in moved):
            if state.call is None or state.handling == "free":
                continue
            if not (execution.in_ordered_batch(state) and ORDERED.get(state.handling) == kind):
                yield state.call.end
