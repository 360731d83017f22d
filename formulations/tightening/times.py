"""Start times as variables: what lies between two tokens takes its time."""

from itertools import pairwise, product
from typing import Any

from formulations.big_m import BigM
from formulations.big_m_clocks import Starts
from formulations.big_m_letters import Letter, Rows
from formulations.chains import least_batch, least_times, least_work
from formulations.tightening.tokens import outputs, reached, windows


def earliest(program: BigM) -> list[list[float]]:
    """Return the earliest end of the batch that generates each token of each request, from the origin."""
    chains = program.chains
    least = [least_times(program.instance, chain) for chain in chains]
    arrivals = [chain.request.arrival - program.clock.origin for chain in chains]
    return [[(arrivals[i] + ticks) / program.scale for ticks in least[i]] for i in program.requests]


def narrow_waits(program: BigM) -> None:
    """Give `call_interval` the call's own time L for M, from the first end of its segment (`docs/formulation.md`).

    Implied, as is that no token comes before its request can generate it.
    """
    if isinstance(program.clock, Starts):
        first, _ = windows(program)
        program.clock.most_wait = program.clock.durations
        program.clock.first_end = {(i, k): first[i][program.chains[i].ends[k]] for i, k in program.clock.calls}
        least = earliest(program)
        for (i, q), at in program.clock.at.items():
            at.setlb(least[i][q])


def add_spans(program: BigM) -> None:
    """Add span[i,q,j], the time from batch j to the start of the next that passes before token q. Implied: a name."""
    if isinstance(program.clock, Starts):
        at = [(i, q, j) for (i, q), j in product(program.clock.at, program.batches)]
        program.letter("span", at, program.clock.latest)


def time_is_spent(program: BigM) -> Rows:
    """at[i,q] >= t[1] + sum of span[j]; span[j], the time from batch j that passes before token q.

    span[j] >= step (1 - y[j-1]), >= D[j] - T y[j-1], >= t[j+1] - t[j] - T y[j]. Implied by R1.
    """
    clock = program.clock
    if not isinstance(clock, Starts):
        return
    spans, step = Letter(program.model.span), least_batch(program.instance) / program.scale
    for (i, q), at in clock.at.items():
        yield at >= clock.t[1] + sum(spans[i, q, j] for j in program.batches)
        for j in program.batches:
            span, before = spans[i, q, j], program.y[i, q, j - 1]
            yield span >= step * (1 - before)
            yield span >= program.duration(j) - clock.latest * before
            if j < clock.batches:
                yield span >= clock.t[j + 1] - clock.t[j] - clock.latest * program.y[i, q, j]


def progress_takes_time(program: BigM) -> Rows:
    """t[j] + D[j] >= sum over q of (L_q - L_{q-1}) y[i,q,j], L_q the earliest end of a batch that generates q.

    Implied: the tokens before take `least_times`.
    """
    if isinstance(program.clock, Starts):
        least = earliest(program)
        for i, j in program.every:
            steps = [b - a for a, b in pairwise([0.0, *least[i][1:]])]
            taken = sum(step * program.y[i, q, j] for q, step in enumerate(steps, 1))
            yield program.clock.finish(j) >= taken


def rest_takes_time(program: BigM) -> Rows:
    """at[i,q] >= t[j] + D[j] + rest[i,j] - T y[i,q,j-1], for the last token; makespan: end >= t[j] + D[j] + rest.

    The rest: what the tokens after the next take at least, and one batch for the next (its chunks and its call may lie
    behind). Implied.
    """
    clock = program.clock
    if not isinstance(clock, Starts):
        return
    least, step = earliest(program), least_work(program.instance) / program.scale

    def rest(i: int, j: int) -> Any:
        before = [reached(program, i, q - 1, j) for q in outputs(program, i)]
        steps = [b - a for a, b in pairwise(least[i])]
        return sum(
            step * (before[q - 1] - program.y[i, q, j]) + steps[q - 1] * (1 - before[q - 1])
            for q in outputs(program, i)
        )

    for i, j in program.every:
        last = program.chains[i].outputs
        if (i, last) in clock.at:
            late = clock.latest * program.y[i, last, j - 1]
            yield clock.at[i, last] >= clock.finish(j) + rest(i, j) - late
        elif program.objective_name == "makespan":
            yield clock.end() >= clock.finish(j) + rest(i, j)


def longest_flow_of_the_last(program: BigM) -> Rows:
    """longest_flow >= (last end) - (last arrival). Implied: the request that ends last did not arrive later."""
    if isinstance(program.clock, Starts):
        last = max(request.arrival for request in program.instance.requests)
        for longest in program.longest_flow.values():
            yield longest >= program.clock.end() + (program.clock.origin - last) / program.scale
