"""Whether holding the KV of a paused request up to the break-even is at most twice as bad as the best choice."""

from collections.abc import Callable
from fractions import Fraction
from itertools import product

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.case import Held
from hypotheses.hypothesis import Predicate
from hypotheses.predicates import within
from hypotheses.small_instances import PER_TOKEN, QUADRATIC, THEORY, paused, placed
from kvcore.account import memory_waste
from kvcore.instance import Instance
from kvcore.schedule import Batch


def beside_a_clock(context: int, duration: int, quadratic: bool) -> Instance:
    """Return R1, which pauses, and R2, which decodes a token in every tick of the call; memory for both."""
    clock = (1, duration + 1)
    cost = QUADRATIC if quadratic else PER_TOKEN
    return paused(context, duration, [clock], context + duration + 2, THEORY, cost)


def held_for(case: Case, ticks: int, label: str) -> Held:
    """Return the schedule that drops the KV of the call after `ticks`."""
    first, (call,) = case.instance.requests[0], case.instance.requests[0].calls
    batches = [Batch(start=0, work={"R1": first.prompt, "R2": 1})]
    for tick in range(call.duration):
        batches.append(Batch(start=0, work={"R2": 1}, drop={"R1": first.prompt} if tick == ticks else {}))
    batches.append(Batch(start=0, work={"R1": 1 if ticks >= call.duration else first.prompt + 1}))
    return case.held(label, placed(case.instance, batches))


def wastes_at_most_twice(case: Case) -> Fails | Fraction:
    duration, context = case.instance.requests[0].calls[0].duration, case.instance.requests[0].prompt
    kept, dropped = held_for(case, duration, "preserve"), held_for(case, 0, "discard")
    patient = held_for(case, memory_waste(dropped.trace).total // context, "break-even")
    least = min(kept, dropped, key=lambda held: memory_waste(held.trace).total)
    lost, best = memory_waste(patient.trace).total, memory_waste(least.trace).total
    wasted = Fraction(lost, best)
    if wasted <= 2:
        return wasted
    return Fails(f"{lost} token-ticks instead of {best}", (patient, least))


def before_others(context: int, others: int) -> Instance:
    """Return R1, whose call lasts one tick beyond the break-even, and short requests that come as it begins.

    None fits beside the KV of R1; all fit without it.
    """
    duration = (context + 1) ** 2 // context + 1
    return paused(context, duration, [(2, 1, context)] * others, context + 1, THEORY, PER_TOKEN)


def held_until(case: Case, tick: int, label: str) -> Held:
    """Return the schedule that drops the KV of R1 at a tick in its call, or never, and serves the others next."""
    first, *others = case.instance.requests
    begin, back = first.prompt, first.prompt + first.calls[0].duration
    short = {other.id: other.prompt for other in others}
    batches = [Batch(start=0, work={first.id: first.prompt})]
    if tick >= back:
        batches += [Batch(start=back, work={first.id: 1}), Batch(start=back, work=short)]
    else:
        batches += [Batch(start=max(begin, tick), work=short, drop={first.id: first.prompt})]
        batches += [Batch(start=back, work={first.id: first.prompt + 1})]
    return case.held(label, placed(case.instance, batches))


def takes_at_most_twice(case: Case) -> Fails | Fraction:
    context, duration = case.instance.requests[0].prompt, case.instance.requests[0].calls[0].duration
    kept, dropped = held_until(case, context + duration, "preserve"), held_until(case, context, "discard")
    patient = held_until(case, context + (context + 1) ** 2 // context, "break-even")
    least = min(kept, dropped, key=lambda held: held.value)
    why = f"the break-even has {{}}, {least.label} {{}}: over twice"
    return within(lambda _: patient, 2, lambda _: least, why)(case)


def beside_a_runner(context: int, duration: int, others: int) -> Instance:
    """Return R1, which calls, R2, which decodes throughout, and short requests that come as the call begins.

    R1 and R2 hold both blocks.
    """
    block = context + duration + 2
    machine = THEORY.replace(chunked=True, evict=True, pause=True, block=block)
    sizes = [(1, duration + 1), *[(1, 1, context + 1)] * others]
    return paused(context, duration, sizes, 2 * block, machine, PER_TOKEN)


def engine_within(limit: Callable[[int], Fraction]) -> Predicate:
    """Whether vllm-v1 with a TTL of the recomputation's ticks is within `limit(others)` times the better without."""

    def judge(case: Case) -> Fails | Fraction:
        context, others = case.instance.requests[0].prompt, len(case.instance.requests) - 2
        names = {"break-even": f":ttl={context + 1}", "discard": "", "preserve": f":ttl={10**6}"}
        found = [case.policy(f"vllm-v1{ttl}", label=label) for label, ttl in names.items()]
        patient, *rest = [held for held in found if held is not None]
        least = min(rest, key=lambda held: held.value)
        why = f"the TTL has {{}}, {least.label} {{}}: over the limit, with {others} that wait"
        return within(lambda _: patient, limit(others), lambda _: least, why)(case)

    return judge


HYPOTHESES = {
    "break-even-alone": Hypothesis(
        statement="For one paused request alone, holding the KV until that wastes as much as recomputing it, and "
        "dropping it then, wastes at most twice what the better of always preserving and always discarding does "
        "(token-ticks).",
        source="rent or buy, for the pauses of agents: a time-to-live for KV",
        states="proved",
        family=enumerated(
            "a request with 1 to 6 tokens of KV and a call of 1 to 60 ticks, recomputed in a tick per token or in the "
            "square of them, beside one that decodes in every tick of the call; memory for both",
            lambda: (beside_a_clock(*kind) for kind in product(range(1, 7), range(1, 61), (False, True))),
        ),
        predicate=wastes_at_most_twice,
        note="A drop is made at the start of a batch, so a second request makes one in every tick. Waste is what the "
        "referee counts: KV held in the call, and ticks of the recomputation times the KV recomputed.",
    ),
    "break-even-contention": Hypothesis(
        statement="Where others wait for its memory too, holding the KV of a call until that wastes as much as "
        "recomputing it, and dropping it then, has at most twice the total flow time of the better of preserving and "
        "discarding.",
        source="rent or buy, for the pauses of agents: a time-to-live for KV",
        states="refuted",
        family=enumerated(
            "a request with 4 to 64 tokens of KV that calls for one tick beyond the break-even, and 1 to 8 short ones "
            "that come as its call begins and do not fit beside it, one tick a token",
            lambda: (
                before_others(context, others)
                for context in (4, 8, 16, 32, 64)
                for others in range(1, 9)
                if 2 * others <= context + 1
            ),
        ),
        predicate=takes_at_most_twice,
        note="With c tokens of KV and n short ones the ratio tends to 1 + n / 3 as c grows: no constant bounds it.",
    ),
    "ttl-of-an-engine": Hypothesis(
        statement="In vLLM's scheduler, a TTL as long as the recomputation has at most twice the total flow time of "
        "the better of no TTL and an endless one.",
        source="rent or buy, for the pauses of agents: a time-to-live for KV",
        states="refuted",
        family=enumerated(
            "a request with 8 to 64 tokens of KV that calls for one tick beyond the TTL, one that decodes meanwhile, "
            "and 1 to 8 short ones that come as the call begins, memory for two, one tick a token",
            lambda: (
                beside_a_runner(context, context + 2, others) for context in (8, 16, 32, 64) for others in range(1, 9)
            ),
        ),
        predicate=engine_within(lambda others: Fraction(2)),
        note="`vllm-v1:ttl=SECONDS`; where none runs, the KV gives way at once, and nothing is lost.",
    ),
    "ttl-of-an-engine-by-waiting": Hypothesis(
        statement="In vLLM's scheduler, with n requests that wait for the memory, a TTL as long as the recomputation "
        "has at most 1 + n / 6 (or 7 / 5) times the total flow time of the better of no TTL and an endless one.",
        source="what refutes ttl-of-an-engine, for fewer that wait",
        states="proved",
        family=enumerated(
            "a request with 1 to 16 tokens of KV that calls for 1 to 40 ticks, one that decodes meanwhile, and 1 to 4 "
            "short ones that come as the call begins, memory for two, one tick a token",
            lambda: (beside_a_runner(*kind) for kind in product(range(1, 17), range(1, 41), range(1, 5))),
        ),
        predicate=engine_within(lambda others: max(Fraction(7, 5), 1 + Fraction(others, 6))),
        note="As the context grows, both are approached: with 4096 tokens the largest is 1.3998 for n = 1, and 2.328 "
        "for n = 8.",
    ),
}
