"""Lower bounds on the cost of a batch, token by token: its phases, its reads and its pairs."""

from itertools import product

from formulations.big_m import BigM
from formulations.big_m_letters import Rows
from formulations.chains import apart, least_batch
from formulations.tightening.tokens import makes, milestones, most_known, outputs


def narrow_durations(program: BigM) -> None:
    """A batch lasts what the cheapest one does. Implied by the cost: `least_batch` is the least of all contents."""
    program.cost.shortest = least_batch(program.instance)


def narrow_batches(program: BigM) -> None:
    """Budgets and packings have busy[j] for used[j]: a batch without work takes nothing. Implied by R10."""
    program.active.update(program.cost.busy)


def narrow_digits(program: BigM) -> None:
    """Give digits of c to prefills on resident KV alone, and no more than c can have.

    Implied: other prefills have the pairs of a context (`pairs_of_fresh_prefills`).
    """
    extending = [(i, j) for i, j in program.cost.prefill_pairs if program.may_extend(i)]
    program.cost.add_digits({ij: program.most_c[ij] for ij in extending})
    for (i, j, _), pairs in program.cost.digit_pairs.items():
        pairs.setub(2 * program.most_S[i, j])


def prefills_fit(program: BigM) -> Rows:
    """Sum of c over prefills <= most any_prefill[j], the most that fits into memory and budget. Implied by R5, R6."""
    machine = program.machine
    limits = [limit for limit in (machine.memory, machine.prefill_limit) if limit is not None]
    for j, any_prefill in program.cost.any_prefill.items() if limits else ():
        tokens = sum(program.c[i, j] - program.decodes(i, j) for i in program.requests)
        yield tokens <= min(limits) * any_prefill


def prefill_batches(program: BigM) -> Rows:
    """Sum over j of any_prefill[j] >= the number of `apart` requests: no two can have their last prefill in one batch.

    Implied: two of these cannot share that batch (`docs/formulation.md`).
    """
    if program.cost.any_prefill:
        yield sum(program.cost.any_prefill.values()) >= len(apart(program.instance, program.chains))


def some_phase(program: BigM) -> Rows:
    """used[j] <= busy[j] + transfers and <= any_decode[j] + any_prefill[j] + transfers. Implied by R10."""
    cost = program.cost
    for j in program.batches:
        transfers = sum(program.swaps_out(i, j) + program.swap_in[i, j] for i in program.requests)
        if cost.has("busy"):
            yield program.used[j] <= cost.busy[j] + transfers
        if cost.has("any_prefill") and cost.has("any_decode"):
            yield program.used[j] <= cost.any_decode[j] + cost.any_prefill[j] + transfers


def kv_read_by_decodes(program: BigM) -> Rows:
    """decode_kv >= sum of (A_q - 1) (y[q,j] - y[q,j-1]) - A_max (g - d). Implied: a decode of q reads A_q - 1."""
    for (i, j), read in program.cost.decode_kv.items():
        context = program.chains[i].context
        needed = sum((context[q] - 1) * makes(program, i, q, j) for q in outputs(program, i))
        most = most_known(program, i, j) - 1
        yield read >= needed - most * (program.g[i, j] - program.decodes(i, j))


def pairs_of_fresh_prefills(program: BigM) -> Rows:
    """prefill_pairs >= sum of A_q**2 (y[q,j] - y[q,j-1]) - A_max**2 (1 - fresh); without chunks, (g - fresh).

    Implied: what generates q from nothing has processed its context in this batch.
    """
    for (i, j), pairs in program.cost.prefill_pairs.items():
        context, most = program.chains[i].context, most_known(program, i, j) ** 2
        needed = sum(context[q] ** 2 * makes(program, i, q, j) for q in outputs(program, i))
        other = (1 if program.machine.chunked else program.g[i, j]) - program.fresh[i, j]
        yield pairs >= needed - most * other


def pairs_by_token(program: BigM) -> Rows:
    """Sum of prefill_pairs up to batch j >= sum over q of the pairs that token q needs, times y[i,q,j]. Implied."""
    priced = program.cost.has("prefill_pairs")
    for i, j in product(program.requests, milestones(program) if priced else ()):
        least = program.chains[i].least_pairs
        needed = sum(least[q] * program.y[i, q, j] for q in outputs(program, i) if least[q])
        yield sum(program.cost.prefill_pairs[i, b] for b in range(1, j + 1)) >= needed
