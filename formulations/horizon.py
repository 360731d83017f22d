"""How many batches are enough: arguments that some optimal schedule has no more.

Batches after the last completion can be left out. So can, without host memory and with `pause`, transfers to no effect
(KV goes out and comes back in one batch), but for batches made for drops (`refills.py`).
"""

from __future__ import annotations

from fractions import Fraction

from formulations.chains import Chain, chains, chunks, least_batch, least_times, least_work, may_swap
from kvcore.cost import CostFunction
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.metrics import FLOWS, Value, check_objective, weight
from kvcore.result import Horizon


def sufficient_batches(instance: Instance, objective: str, upper_bound: Value) -> Horizon:
    """Return J such that some optimal schedule has at most J batches, with the argument.

    `upper_bound` is the value of a known schedule. The argument with the fewest batches wins; if none applies,
    `sufficient` is False and J a guess.

    Raises BadInput for an unknown objective, or a bound below 0.
    """
    check_objective(objective)
    if upper_bound < 0:
        raise BadInput(f"upper_bound is the value of a known schedule, so at least 0, not {upper_bound}")
    arguments = (by_busy_time, by_last_completion, by_work, by_first_tokens)
    found = [horizon for argument in arguments if (horizon := argument(instance, objective, upper_bound)) is not None]
    if found:
        return min(found, key=lambda horizon: horizon.batches)
    guess = 2 * sum(chain.batches for chain in chains(instance))
    return Horizon(
        guess, False, f"a guess: no argument bounds the batches for {objective} on a machine with these moves"
    )


def by_busy_time(instance: Instance, objective: str, upper_bound: Value) -> Horizon | None:
    """busy-time: all batches together take at most the upper bound."""
    if objective != "busy-time":
        return None
    batches, how = most_batches(instance, int(upper_bound))
    return Horizon(batches, True, f"a schedule of busy-time at most {upper_bound} has at most {batches} batches: {how}")


def by_last_completion(instance: Instance, objective: str, upper_bound: Value) -> Horizon | None:
    """Objectives of completions: all batches lie between the first arrival and the latest completion allowed."""
    latest = latest_completions(instance, objective, upper_bound)
    if latest is None:
        return None
    first, end = instance.first_arrival, max(latest)
    batches, how = most_batches(instance, max(0, end - first))
    return Horizon(
        batches,
        True,
        f"a schedule of {objective} at most {upper_bound} ends by tick {end}, and no batch starts before the first "
        f"arrival at {first}: {how}",
    )


def by_work(instance: Instance, objective: str, upper_bound: Value) -> Horizon | None:
    """No eviction: the tokens to process are bounded, and every batch that is needed processes one.

    Only calls (`discard`, `free`) lose KV, each at most once and at most the context at its start. Each piece of work
    processes a token at least, or without `chunked` generates one. Without swaps every batch has work.

    With swaps this holds for busy-time without contents: a batch that only transfers joins the next one, its moves
    first, in net amounts. Memory after the moves is that of the next batch (R6, R7). No call starts in a batch without
    work, so an ordered move stays in the first batch after its call; KV that comes back at once makes both moves there.
    Each feature is at most the sum of the two, and ceil and max are subadditive.
    """
    if instance.machine.evict:
        return None
    transfers = any(may_swap(instance, request) for request in instance.requests)
    if transfers and (objective != "busy-time" or instance.contents):
        return None
    batches = sum(most_work(chain) for chain in chains(instance))
    merged = ", and batches that only transfer can be merged into the next" if transfers else ""
    return Horizon(batches, True, f"without eviction, at most {batches} pieces of work are possible{merged}")


def by_first_tokens(instance: Instance, objective: str, upper_bound: Value) -> Horizon | None:
    """total-ttft: after the last first token, whose tick the upper bound limits, few batches are left; time is free.

    Without `evict`, pieces of work are bounded as in `by_work`, and transfers join the next batch. With `evict`, if
    chunks are allowed or each whole context fits into the budget, wait for all calls. One batch makes the swaps that
    calls order, there and back: their KV was on the device together when they started. Evict everything, and complete
    the requests one after another: each refills at most its peak, which generates a token, and then takes its least
    batches.
    """
    if objective != "total-ttft" or instance.contents:
        return None
    machine, all_chains = instance.machine, chains(instance)
    most = max(chain.request.peak for chain in all_chains)
    if not machine.evict:
        rest = sum(most_work(chain) - (chain.request.prompt if machine.chunked else 1) for chain in all_chains)
        how = f"after it at most {rest} pieces of work are possible, and batches that only transfer can be merged"
    elif machine.chunked or machine.prefill_limit is None or most <= machine.prefill_limit:
        rest = 1 + sum(chunks(machine, c.request.peak) + sum(c.steps[3:]) for c in all_chains if c.outputs > 1)
        how = f"after it the requests can be completed one after another in {rest} batches"
    else:
        return None
    first, end = instance.first_arrival, max(latest_first_tokens(instance, upper_bound))
    before = most_steps(instance, max(0, end - first))[0]
    return Horizon(before + rest, True, f"the last first token comes by tick {end}, in batch {before} or before; {how}")


def most_work(chain: Chain) -> int:
    """Return the most pieces of work of one request without `evict`."""
    return chain.most_tokens if chain.machine.chunked else chain.outputs


def most_batches(instance: Instance, ticks: int) -> tuple[int, str]:
    """Return the most batches of a complete schedule that take at most `ticks` altogether, and why.

    For each function f / d let v be its `fixed_part` and V its `least_total`. As the sum of ceil(f / d) is at most
    `ticks`, V + v batches <= sum of f <= d ticks. A batch made for drops has one with work after it: `most_steps`
    counts pairs, and this number is doubled.
    """
    limits = [most_steps(instance, ticks)]
    times = 2 if drops_make_batches(instance) else 1
    for function in instance.cost.functions:
        fixed, total = fixed_part(instance, function), least_total(instance, function)
        if fixed:
            batches = times * max(0, (function.divisor * ticks - total) // fixed)
            why = f"of at most {ticks} ticks the tokens alone take {total / function.divisor:.6g}, a batch at least "
            twice = ", and as many at most that are made for drops" if times == 2 else ""
            limits.append((batches, why + f"{fixed / function.divisor:.6g} besides{twice}"))
    return min(limits)


def most_steps(instance: Instance, ticks: int) -> tuple[int, str]:
    """Return the most batches that fit one after another into `ticks`, by the least ticks of each, and why."""
    work = least_work(instance) if transfers_make_drops(instance) else least_batch(instance)
    why = f"a batch lasts at least {work} ticks and together they take at most {ticks}"
    if not drops_make_batches(instance):
        return ticks // work, why
    drops = least_batch(instance)
    pairs, rest = divmod(ticks, drops + work)
    return 2 * pairs + (rest >= work), f"{why}; of every two, one that is made for drops lasts at least {drops}"


def transfers_make_drops(instance: Instance) -> bool:
    """Whether transfers serve only to make batches of drops (`chains.may_swap`)."""
    return instance.machine.pause and instance.machine.host_memory == 0


def drops_make_batches(instance: Instance) -> bool:
    """Whether such batches may exist: one without work is then followed by one with work."""
    return transfers_make_drops(instance) and any(may_swap(instance, request) for request in instance.requests)


def fixed_part(instance: Instance, function: CostFunction) -> int:
    """Return the least f of a batch that `most_batches` counts, without tokens and requests."""
    parts = [function.busy + min(function.any_decode, function.any_prefill)]
    if not transfers_make_drops(instance) and any(may_swap(instance, request) for request in instance.requests):
        parts += [function.swap_outs + function.swap_out_tokens, function.swap_ins + function.swap_in_tokens]
    return min(parts)


def least_total(instance: Instance, function: CostFunction) -> int:
    """Return the least that tokens and requests add to f, over a complete schedule.

    Each request processes its least tokens, generates its outputs and, without a path, prefills once, with at least
    (prompt - 1)^2 pairs (its last token may be a decode). Another token with context A comes from a decode that reads
    A - 1, or from a prefill of c >= 2 tokens with A^2 - (A - c)^2 >= 2A - 1 pairs. These are different pieces of work,
    so they add up.
    """
    total = 0
    for chain in chains(instance):
        total += function.tokens * chain.tokens + function.generated * chain.outputs
        if not chain.reusable:
            total += function.prefill_requests + function.prefill_pairs * max(1, (chain.request.prompt - 1) ** 2)
        for context in chain.context[1 if chain.reusable else 2 :]:
            decode = function.decode_requests + function.decode_kv * (context - 1)
            total += min(decode, function.prefill_requests + function.prefill_pairs * (2 * context - 1))
    return total


def latest_completions(instance: Instance, objective: str, upper_bound: Value) -> list[int] | None:
    """Return the tick by which each request is done in every schedule of at most `upper_bound`, or None."""
    if objective == "makespan":
        return [int(upper_bound)] * len(instance.requests)
    if objective == "max-flow-time":
        return [request.arrival + int(upper_bound) for request in instance.requests]
    if objective in FLOWS:
        return _latest(instance, objective, upper_bound, [least_times(instance, c)[-1] for c in chains(instance)])
    return None


def latest_first_tokens(instance: Instance, upper_bound: Value) -> list[int]:
    """Return the tick by which each first token comes in every schedule of total-ttft at most `upper_bound`."""
    return _latest(instance, "total-ttft", upper_bound, [least_times(instance, c)[1] for c in chains(instance)])


def _latest(instance: Instance, objective: str, upper_bound: Value, least: list[int]) -> list[int]:
    shares = [weight(request, objective) for request in instance.requests]
    slack = Fraction(upper_bound) - sum(share * time for share, time in zip(shares, least, strict=True))
    return [
        request.arrival + int((slack + share * time) / share)
        for request, share, time in zip(instance.requests, shares, least, strict=True)
    ]
