"""Small instances for the shipped hypotheses, and schedules of the theory family."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations_with_replacement, product

from hypotheses.hypothesis import possible
from kvcore.cost import Cost, CostFunction
from kvcore.decode_stream import StreamExecution
from kvcore.instance import Call, Handling, Instance, Machine, Request, Segment
from kvcore.schedule import Batch, Schedule

Ints = Sequence[int]

THEORY = Machine(memory=1, host_memory=0, chunked=False, evict=False, pause=False)
"""Machine of the theory model, but for its memory."""
INFERMAX = Machine(memory=1, host_memory=0, batch_tokens=4, prefill_tokens=4, evict=True)
"""Machine of INFERMAX's Figure 15 with a small budget, but for its memory."""
CALLS = Machine(memory=1, host_memory=0, batch_tokens=2)  # two tokens a batch, and no room on the host
CALLS_HOST = CALLS.replace(host_memory=2)  # the same with room for two tokens on the host
EVICTING = Machine(memory=1, host_memory=4, batch_tokens=4, evict=True)  # with room on the host
PER_TOKEN = Cost((CostFunction(tokens=1),))  # one tick a token
FIXED = Cost((CostFunction(busy=3, tokens=1),))  # three ticks a batch, and one a token
SWAP_COST = Cost((CostFunction(busy=1, swap_out_tokens=1, swap_in_tokens=1),))  # a tick a token moved
LINEAR = Cost((CostFunction(busy=4, tokens=1, decode_kv=1, prefill_kv=1),))  # KV that is read counts, too


def plain(
    sizes: Iterable[tuple[int, ...]], memory: int, machine: Machine = THEORY, cost: Cost | None = None
) -> Instance:
    """Return requests without calls by (prompt, output) or (prompt, output, arrival), and a memory."""
    requests = tuple(
        Request(id=f"R{i}", prompt=prompt, arrival=sum(arrival), segments=(Segment(decode=output),))
        for i, (prompt, output, *arrival) in enumerate(sizes, 1)
    )
    name = f"plain-{'-'.join('.'.join(map(str, size)) for size in sizes)}-M{memory}"
    return Instance(
        name=name[:200], machine=machine.replace(memory=memory), requests=requests, cost=cost or Cost.unit()
    )


def plain_family(
    counts: Ints, prompts: Ints, outputs: Ints, machine: Machine = THEORY, cost: Cost | None = None
) -> Iterator[Instance]:
    """Yield every multiset of requests, all at tick 0, and every possible memory below the sum of peaks."""
    for count in counts:
        for sizes in combinations_with_replacement(list(product(prompts, outputs)), count):
            peaks = [prompt + output - 1 for prompt, output in sizes]
            for memory in range(max(peaks), sum(peaks)):
                yield from possible(plain, sizes, memory, machine, cost)


def calling(
    sizes: Sequence[tuple[int, ...]], machine: Machine, handling: Handling = "free", cost: Cost | None = None
) -> Instance:
    """Return requests with one call each by (prompt, decode, duration, returns, decode after it)."""
    requests = []
    for i, (prompt, decode, duration, returns, after) in enumerate(sizes, 1):
        call = Call(duration=duration, returns=returns, handling=handling)
        segments = (Segment(decode=decode, call=call), Segment(decode=after))
        requests.append(Request(id=f"R{i}", prompt=prompt, segments=segments))
    name = f"calls-{'-'.join('.'.join(map(str, size)) for size in sizes)}-M{machine.memory}"
    return Instance(name=name[:200], machine=machine, requests=tuple(requests), cost=cost or Cost.unit())


def calling_family(
    durations: Sequence[int], machine: Machine, cost: Cost | None = None, decodes: Sequence[int] = (1, 2)
) -> Iterator[Instance]:
    """Yield every two requests with a free call each (prompts of 1 or 2, one token after the call).

    The memory goes from the largest peak to one below the sum.
    """
    kinds = [(prompt, decode, wait, 0, 1) for prompt, decode, wait in product((1, 2), decodes, durations)]
    for sizes in combinations_with_replacement(kinds, 2):
        peaks = [prompt + decode + returns + after - 1 for prompt, decode, _, returns, after in sizes]
        for memory in range(max(peaks), sum(peaks)):
            yield from possible(calling, sizes, machine.replace(memory=memory), cost=cost)


def drawn_instance(draw: random.Random, name: str, machine: Machine) -> Instance:
    """Draw three requests with a free call each, and a memory from the largest peak to the sum."""
    requests = tuple(_drawn_request(draw, f"R{i}") for i in (1, 2, 3))
    peaks = [request.peak for request in requests]
    machine = machine.replace(memory=draw.randint(max(peaks), sum(peaks)))
    return Instance(name=name, machine=machine, requests=requests)


def _drawn_request(draw: random.Random, id: str) -> Request:
    draw.randint(1, 1)  # one call: the seeds of the records were drawn with their number
    pause = Call(duration=draw.randint(0, 4), returns=draw.randint(0, 2))
    segments = tuple(Segment(decode=draw.randint(1, 3), call=call) for call in (pause, None))
    return Request(id=id, arrival=draw.choice((0, 0, 1, 2, 3)), prompt=draw.randint(1, 3), segments=segments)


def drawn_plain(draw: random.Random, count: int, upto: int) -> Instance:
    """Draw requests of the theory model, at tick 0, and a memory of one to two times the largest peak."""
    sizes = sorted((draw.randint(1, upto), draw.randint(1, upto)) for _ in range(count))
    peak = max(prompt + output - 1 for prompt, output in sizes)
    return plain(sizes, draw.randint(peak, 2 * peak))


def with_machine(instance: Instance, **changes: object) -> Instance:
    """Return the instance on another machine."""
    return instance.replace(machine=instance.machine.replace(**changes))


def starting_at(instance: Instance, starts: Sequence[int]) -> Schedule:
    """Return the schedule of the theory model with these starts."""
    work: dict[int, dict[str, int]] = {}
    for request, start in zip(instance.requests, starts, strict=True):
        for q in range(request.output):
            work.setdefault(start + q, {})[request.id] = request.prompt if q == 0 else 1
    batches = tuple(Batch(start=tick, work=work[tick]) for tick in sorted(work))
    return Schedule(instance_sha256=instance.sha256, batches=batches)


def earliest_starts(instance: Instance, order: Sequence[int], *, in_order: bool = False) -> list[int]:
    """Return starts in the theory model: each request in turn at its earliest fit; `in_order`: none before the last."""
    used: dict[int, int] = {}
    starts = [0] * len(order)
    last = 0
    for i in order:
        request = instance.requests[i]
        start = max(request.arrival, last if in_order else 0)
        while not _fits(used, instance, request, start):
            start += 1
        for q in range(request.output):
            used[start + q] = used.get(start + q, 0) + request.prompt + q
        starts[i] = last = start
    return starts


def _fits(used: dict[int, int], instance: Instance, request: Request, start: int) -> bool:
    memory = instance.machine.memory
    assert memory is not None
    return all(used.get(start + q, 0) + request.prompt + q <= memory for q in range(request.output))


def flow_time(instance: Instance, starts: Sequence[int]) -> int:
    """Return the total flow time of starts in the theory model."""
    return sum(
        start + request.output - request.arrival for request, start in zip(instance.requests, starts, strict=True)
    )


def best_starts_in_order(instance: Instance) -> tuple[int, ...]:
    """Return the best starts of the theory model (all at tick 0) in the order of the requests.

    All are tried, the least sum first. The memory is fullest when some request ends.
    """
    requests = instance.requests
    ticks = range(sum(request.output for request in requests))

    def held(starts: tuple[int, ...], tick: int) -> int:
        running = zip(starts, requests, strict=True)
        return sum(r.prompt + tick - start for start, r in running if start <= tick < start + r.output)

    for starts in sorted(combinations_with_replacement(ticks, len(requests)), key=sum):
        ends = (start + request.output - 1 for start, request in zip(starts, requests, strict=True))
        if all(held(starts, end) <= (instance.machine.memory or 0) for end in ends):
            return starts
    raise AssertionError("one after another, all requests fit")


def fixed_handlings(instance: Instance) -> Iterator[Instance]:
    """Yield the instance with every possible vector of handlings."""
    calls = sum(len(request.calls) for request in instance.requests)
    choices: tuple[Handling, ...] = ("preserve", "discard", "swap")
    for vector in product(choices, repeat=calls):
        handlings = iter(vector)
        yield from possible(instance.with_calls, lambda call: call.replace(handling=next(handlings)))  # noqa: B023


def with_faster_call(instance: Instance) -> Instance:
    """Return the instance with its first call that takes time one tick shorter."""
    faster = iter([1])
    return instance.with_calls(
        lambda call: call.replace(duration=call.duration - next(faster, 0)) if call.duration else call
    )


def with_shorter_output(instance: Instance, i: int) -> Instance | None:
    """Return the instance with one token less in the last segment of request i (None: it has one)."""
    request = instance.requests[i]
    *first, last = request.segments
    if last.decode == 1:
        return None
    changed = request.replace(segments=(*first, last.replace(decode=last.decode - 1)))
    return instance.replace(requests=(*instance.requests[:i], changed, *instance.requests[i + 1 :]))


QUADRATIC = Cost((CostFunction(prefill_pairs=1),))  # the square of the tokens from empty KV, else one tick


def pausing(instance: Instance, duration: int, handlings: Mapping[str, Handling]) -> Instance:
    """Return the instance with a call between the two tokens of each request named."""

    def segments(handling: Handling) -> tuple[Segment, ...]:
        return Segment(decode=1, call=Call(duration=duration, returns=0, handling=handling)), Segment(decode=1)

    requests = (
        one.replace(segments=segments(handlings[one.id])) if one.id in handlings else one for one in instance.requests
    )
    return instance.replace(requests=tuple(requests))


def paused(
    context: int, duration: int, others: Iterable[tuple[int, ...]], memory: int, machine: Machine, cost: Cost
) -> Instance:
    """Return R1, which calls with `context` tokens of KV, then generates one token, and others as in `plain`."""
    instance = plain([(context, 2), *others], memory, machine, cost)
    return pausing(instance, duration, {"R1": "free"}).replace(
        name=f"paused-{context}-{duration}-{instance.name}"[:200]
    )


def placed(instance: Instance, batches: Iterable[Batch]) -> Schedule:
    """Return the batches at their own starts, or later at the end of the one before."""
    execution, done = StreamExecution(instance), []
    for batch in batches:
        done.append(batch.model_copy(update={"start": max(batch.start, execution.end)}))
        execution.execute(done[-1])
    return Schedule(instance_sha256=instance.sha256, batches=tuple(done))
