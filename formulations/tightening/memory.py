"""What fits into the memory together; the order of batches and of identical requests."""

from fractions import Fraction
from itertools import pairwise, product
from typing import Any

from formulations.big_m import BigM
from formulations.big_m_letters import Letters, Rows
from formulations.tightening.tokens import makes, most_generated, outputs


def narrow_room(program: BigM) -> None:
    """R6 has M used[j] for M: an unused batch holds no KV. Implied where unused batches come last."""
    if not program.clock.may_idle:
        program.room.update(program.used)


def batches_until_the_end(program: BigM) -> Rows:
    """used[j] >= 1 - done[i,j-1]: batches are used until all is done. Implied where unused batches come last."""
    for i, j in () if program.clock.may_idle else program.every:
        yield program.used[j] >= 1 - program.done(i, j - 1)


def generation_packing(program: BigM) -> Rows:
    """Requests that generate hold their contexts: sum of u(A_q) (y[q,j] - y[q,j-1]) <= used[j], u dual feasible.

    Implied by R6.
    """
    chains, blocks = program.chains, program.machine.blocks
    tokens = [(i, q, blocks(chains[i].context[q])) for i in program.requests for q in outputs(program, i)]
    for u, j in product(packings(program), program.batches):
        yield sum(makes(program, i, q, j) * u[size] for i, q, size in tokens) <= program.active[j]


def resident_packing(program: BigM) -> Rows:
    """A request that never drops KV holds its context: sum of u(A_q) (y[q,j] - y[q+1,j]) - u_max host <= used[j].

    Implied by R6.
    """
    lasting = [i for i in program.requests if i not in program.droppable]

    def packed(i: int, u: list[float], j: int) -> Any:
        sizes = [u[program.machine.blocks(context)] for context in program.chains[i].context]
        held = sum((b - a) * program.y[i, q, j] for q, (a, b) in enumerate(pairwise(sizes), 1) if b > a)
        away = sizes[most_generated(program, i, j)] * program.host[i, j]
        return held - sizes[-1] * program.done(i, j - 1) - away

    for u, j in product(packings(program) if lasting else (), program.batches):
        yield sum(packed(i, u, j) for i in lasting) <= program.room[j]


def packings(program: Letters) -> list[list[float]]:
    """Dual feasible functions u of blocks: the u of blocks that fit into the memory together add up to <= 1.

    The share itself, and those of Fekete and Schepers: floor((k+1) x) / k, or x where (k+1) x is whole.
    """
    limit = program.machine.block_limit
    if limit is None:
        return []
    found = [[Fraction(x, limit) for x in range(limit + 1)]]
    for k in range(1, 5):
        scaled = [Fraction((k + 1) * x, limit) for x in range(limit + 1)]
        found.append([x / (k + 1) if x.denominator == 1 else Fraction(x.numerator // x.denominator, k) for x in scaled])
    return [[float(value) for value in u] for u in found]


def identical_requests_end_in_order(program: BigM) -> Rows:
    """done[i,j] >= done[i',j] for requests i before i' that differ in their id only.

    Some optimal schedule does: `ends_in_order` of `tests/reductions/exchange.py` makes one of any other.
    """
    for group in program.alike:
        for (i, other), j in product(pairwise(group), program.batches):
            yield program.done(i, j) >= program.done(other, j)
