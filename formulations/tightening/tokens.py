"""Token by token: y says by which batch each token is generated, and every constant is a context."""

from itertools import accumulate, product
from typing import Any

import pyomo.environ as pyo

from formulations.big_m import BigM
from formulations.big_m_clocks import Order, Slots
from formulations.big_m_letters import Letters, Rows
from formulations.chains import least_batch
from formulations.horizon import latest_completions, latest_first_tokens

Windows = tuple[list[list[int]], list[list[int]]]

# --- when tokens can be generated ------------------------------------------------------------------------------------


def windows(program: Letters) -> Windows:
    """Return for each request and token q the first batch that can, and the last that must have generated it.

    Implied: the tokens before q take at least `chain.steps` batches each, those after it too; a schedule within the
    upper bound is done by `last_batch`; slots pass until the arrival and in calls.
    """
    firsts, lasts = [], []
    for i, chain in enumerate(program.chains):
        steps = [_wait(program, i, 0), *(chain.steps[q] + _wait(program, i, q) for q in outputs(program, i))]
        first = list(accumulate(steps))
        slack = last_batch(program, i) - first[-1]
        last = [batch + slack for batch in first]
        if program.objective_name == "total-ttft":
            last[1] = min(last[1], last_batch(program, i, first_token=True))
        firsts.append(first)
        lasts.append(last)
    return firsts, lasts


def _wait(program: Letters, i: int, q: int) -> int:
    """Least idle slots before token q (0: before any work)."""
    if not isinstance(program.clock, Slots):
        return 0
    return program.chains[i].waits[q] if q else program.chains[i].request.arrival - program.clock.origin


def last_batch(program: Letters, i: int, first_token: bool = False) -> int:
    """Return the last batch that can complete request i (or generate its first token) within the upper bound."""
    batches, instance = program.clock.batches, program.instance
    if program.upper_bound is None or isinstance(program.clock, Order):
        return batches
    if first_token:
        latest: list[int] | None = latest_first_tokens(instance, program.upper_bound)
    else:
        latest = latest_completions(instance, program.objective_name, program.upper_bound)
    return batches if latest is None else min(batches, (latest[i] - program.clock.origin) // least_batch(instance))


def count_by_token(program: BigM) -> None:
    """Let y count all tokens, each in its window; g and the tokens generated become sums of y.

    Implied: a token stays generated, one is made a batch (`token_order`), and the windows end with all generated.
    """
    first, last = windows(program)
    every = [(i, q, j) for i, j in program.every for q in range(1, program.chains[i].outputs + 1)]
    program.y = program.binary("y", [(i, q, j) for i, q, j in every if first[i][q] <= j < last[i][q]])
    program.y |= {(i, q, j): 1 for i, q, j in every if max(first[i][q], last[i][q]) <= j}
    for i, j in program.every:
        made = sum(program.y[i, q, j] for q in range(1, program.chains[i].outputs + 1))
        program.generated[i, j] = made
        program.g[i, j] = made - program.generated[i, j - 1]
    program.letter("generated", ())
    program.model.del_component("g")
    program.model.g = pyo.Expression(program.every, rule=lambda _, i, j: program.g[i, j])
    for rows in ("termination", "non_decreasing_length", "segment_ends"):
        del program.rows[rows]


def reached(program: Letters, i: int, q: int, j: int) -> Any:
    """1 if request i has generated token q by the end of batch j."""
    return program.y[i, q, j] if q else 1


def makes(program: Letters, i: int, q: int, j: int) -> Any:
    """1 if request i generates token q in batch j."""
    return program.y[i, q, j] - program.y[i, q, j - 1]


def outputs(program: Letters, i: int) -> range:
    """Return the tokens of request i."""
    return range(1, program.chains[i].outputs + 1)


def token_order(program: BigM) -> Rows:
    """y[i,q,j-1] <= y[i,q,j] and y[i,q+1,j] <= y[i,q,j-1]: a token stays generated, one is made a batch. Implied."""
    first, last = windows(program)
    for i, j in program.every:
        for q in outputs(program, i):
            yield program.y[i, q, j - 1] <= program.y[i, q, j]
            if q > 1:
                yield program.y[i, q, j] <= program.y[i, q - 1, j - 1]
    for i in program.requests:
        for q in outputs(program, i):
            yield first[i][q] <= last[i][q]


def call_before_next_token(program: BigM) -> Rows:
    """y[i,q+1,j] <= R[i,k,j] where token q starts call k. Implied by R2: work waits for the return."""
    for i, j in program.every:
        for k, end in enumerate(program.chains[i].ends[:-1]):
            yield program.y[i, end + 1, j] <= program.clock.returned(i, k, j)


def no_pause_by_token(program: BigM) -> Rows:
    """R5 without `pause` and eviction: y[i,q+1,j] = y[i,q,j-1] inside a segment (no idle batches). Implied."""
    machine = program.machine
    if machine.pause or machine.evict or machine.chunked or program.clock.may_idle:
        return
    for i, j in product(program.requests, program.batches[1:]):
        for q in outputs(program, i)[1:]:
            if q - 1 not in program.chains[i].ends:
                yield program.y[i, q, j] >= program.y[i, q - 1, j - 1]


# --- constants -------------------------------------------------------------------------------------------------------


def most_generated(program: Letters, i: int, j: int) -> int:
    """Return the most tokens that request i can have generated by batch j."""
    return max((q for q in outputs(program, i) if (i, q, j) in program.y), default=0)


def most_known(program: Letters, i: int, j: int) -> int:
    """Return the most tokens that request i can have to process by batch j: the context of its next token."""
    chain = program.chains[i]
    return chain.context[min(most_generated(program, i, j - 1) + 1, chain.outputs)]


def most_resident(program: Letters, i: int, j: int) -> int:
    """Return the most KV of request i at the end of batch j."""
    limit = program.machine.prefill_limit
    known = most_known(program, i, j) if j else 0
    return known if limit is None else min(known, j * limit)


def narrow_constants(program: BigM) -> None:
    """Lower M to the most tokens that i can have to process in j, or can hold by then; bound the variables by it.

    Implied: only known tokens are processed, at most the budget a batch, and only processed tokens are held.
    """
    limit, model = program.machine.prefill_limit, program.model
    for i, j in program.every:
        known = most_known(program, i, j)
        program.most_S[i, j] = known
        program.most_c[i, j] = known if limit is None else min(limit, known)
        program.most_m[i, j] = most_resident(program, i, j - 1)
        program.c[i, j].setub(program.most_c[i, j])
        program.m[i, j].setub(most_resident(program, i, j))
    for letter in (model.dropped, model.dropped_host, model.swapped_out, model.swapped_in, model.h):
        for index, variable in letter.items():
            variable.setub(program.most_m[index])


# --- tokens processed and held ---------------------------------------------------------------------------------------


def token_generation(program: BigM) -> Rows:
    """(3): m' + c >= sum of A_q (y[q,j] - y[q,j-1]). Implied: what generates token q has processed its context."""
    for i, j in program.every:
        context = program.chains[i].context
        needed = sum(context[q] * makes(program, i, q, j) for q in outputs(program, i))
        yield program.processed(i, j) >= needed


def phase_tokens(program: BigM) -> Rows:
    """Work c >= g + extends; a fresh prefill that generates takes the prompt: c >= I (fresh + g - 1).

    Implied: a prefill on resident KV has two tokens to process if it generates, one from nothing all of them.
    """
    chunked = program.machine.chunked
    for i, j in program.every:
        tokens, fresh, g, prompt = program.c[i, j], program.fresh[i, j], program.g[i, j], program.chains[i].context[1]
        yield tokens >= g + program.extends[i, j] + (0 if chunked else (prompt - 1) * fresh)
        if chunked and prompt > program.most_c[i, j]:
            yield fresh + g <= 1
        elif chunked:
            yield tokens >= prompt * (fresh + g - 1)


def milestones(program: Letters) -> range:
    """Return the batches up to which totals are bounded: for busy-time the last alone."""
    return program.batches[-1:] if isinstance(program.clock, Order) else program.batches


def tokens_by_token(program: BigM) -> Rows:
    """Sum of c up to batch j >= sum over q of the tokens that token q needs, times y[i,q,j]. Implied, in order."""
    for i, j in product(program.requests, milestones(program)):
        tokens = program.chains[i].least_tokens
        needed = sum(tokens[q] * program.y[i, q, j] for q in outputs(program, i))
        yield sum(program.c[i, b] for b in range(1, j + 1)) >= needed
