"""Whether orders of requests, and online policies, stay within a constant factor of the optimum."""

from collections.abc import Callable
from fractions import Fraction
from math import isqrt

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.case import ratio
from hypotheses.predicates import run, within
from hypotheses.small_instances import THEORY, plain, starting_at
from kvcore.instance import Instance, Machine

K = 8
POLICIES = ("fcfs", "mc-sf", "sarathi")
ALLOWED = THEORY.replace(batch_tokens=10**6, chunked=True, evict=True, pause=True)  # more than they use


def one_large(k: int, *arrival: int, machine: Machine = THEORY) -> Instance:
    """Return a request that fills a memory of k k after k ticks, and k short ones that do not fit beside it."""
    return plain([(k * k - k + 1, k)] + [(k, 1, *arrival)] * k, k * k, machine)


def mixed(k: int) -> Instance:
    """Return 2 k requests that fill a memory of k k for one tick, and k k small ones that run for two."""
    return plain([(k * k, 1)] * 2 * k + [(1, 2)] * (k * k // 2), k * k)


def over_three(case: Case) -> Fails | Fraction:
    start = case.instance.requests[1].arrival - 1
    policy = case.held("best-online", starting_at(case.instance, [start] + [start + K] * K))
    optimum = case.optimum()
    if ratio(policy, optimum) > 3:
        return ratio(optimum, policy)
    return Fails(f"started at {start}: {policy.value}, the optimum is {optimum.value}", (policy, optimum))


def one_within_three(case: Case) -> Fails | Fraction:
    optimum = case.optimum()
    found = [held for held in map(case.policy, POLICIES) if held is not None]
    best = min(found, key=lambda held: held.value)
    if ratio(best, optimum) <= 3:
        return ratio(best, optimum)
    values = ", ".join(f"{held.label} {held.value}" for held in found)
    return Fails(f"{values}; the optimum is {optimum.value}", (*found, optimum))


def exponent(
    of: str, words: str, share: Fraction, make: Callable[[int], Instance], end: int, policies: tuple[str, str]
) -> Hypothesis:
    """Claim that a ratio is at least `share` times the root of the memory, in the family of another."""

    def judge(case: Case) -> Fails | Fraction:
        root = isqrt(case.instance.machine.memory or 0)
        found = [held for held in map(case.policy, policies) if held is not None]
        if ratio(*found) >= share * root:
            return ratio(*found) / root
        return Fails(f"{policies[0]} is {float(ratio(*found)):.3f} times {policies[1]}, the root is {root}", found)

    return Hypothesis(
        statement=f"The ratio of {words} to the optimum grows with the square root of the memory at least: {share} of "
        f"it or more on the family of {of}.",
        source=f"one of our own: the exponent behind {of}",
        states="proved",
        family=enumerated(f"the family of {of}", lambda: (make(k) for k in range(2, end))),
        predicate=judge,
        note=f"The number is the ratio to {policies[1]}, which is no larger, over the root. A larger exponent is open.",
    )


HYPOTHESES = {
    "fcfs-exponent": exponent(
        "fcfs-unbounded", "first come, first served", Fraction(1, 2), one_large, 31, ("fcfs", "sjf")
    ),
    "shortest-output-exponent": exponent(
        "shortest-output-unbounded", "shortest output first", Fraction(1, 4), mixed, 17, ("mc-sf", "memory-area")
    ),
    "fcfs-unbounded": Hypothesis(
        statement="First come, first served stays within 4 times the least total flow time.",
        source="a habit of serving systems",
        states="refuted",
        family=enumerated(
            "a request that fills a memory of k k after k ticks ahead of k of prompt k and output 1, k = 2 .. 30",
            lambda: (one_large(k) for k in range(2, 31)),
        ),
        predicate=within(run("fcfs"), 4, run("sjf"), "fcfs has {}, shortest first {}: over 4 times"),
        note="The ratio grows without bound in this family.",
    ),
    "shortest-output-unbounded": Hypothesis(
        statement="With mixed prompts, shortest output first (MC-SF) stays within twice the least total flow time.",
        source="MC-SF's constant factor is for one prompt length: Jaillet et al. (arXiv 2502.07115)",
        states="refuted",
        family=enumerated(
            "2 k requests of prompt k k and output 1 beside k k / 2 of prompt 1 and output 2, memory k k, k = 2 .. 16",
            lambda: (mixed(k) for k in range(2, 17)),
        ),
        predicate=within(
            run("mc-sf"), 2, run("memory-area"), "mc-sf has {}, smallest volume first {}: over 2 times"
        ),
        note="The ratio grows without bound in this family, as the square root of the memory does.",
    ),
    "online-adversary": Hypothesis(
        statement="In the theory model, no deterministic online policy stays within 3 times the least total flow time.",
        source="no deterministic online policy has a constant ratio; this is what a script decides of it",
        states="proved",
        family=enumerated(
            f"a request at tick 0 that fills a memory of {K * K} after {K} ticks, and {K} short ones of prompt {K} "
            f"that come a tick after a policy starts it, at tick 0 to {2 * K}",
            lambda: (one_large(K, start + 1) for start in range(2 * K + 1)),
        ),
        predicate=over_three,
        note=f"Alone, the request takes a policy over 3 times the optimum if it starts after tick {2 * K}; else the "
        "short ones come as soon as it has started, and none of them fits beside it: the family is all that a policy "
        "can do. The number is the optimum over the policy's best. A larger memory gives any ratio by the same "
        "argument, which no script checks here; policies that may drop KV are not meant.",
    ),
    "online-bait": Hypothesis(
        statement="The best of fcfs, mc-sf and sarathi stays within 3 times the least total flow time.",
        source="one of our own: what defeats every policy that drops no KV, tried on three",
        states="refuted",
        family=enumerated(
            "a request at tick 0 that fills a memory of k k after k ticks, and k of prompt k and output 1 at tick 1 "
            "that do not fit beside it, everything allowed, k = 2 .. 12",
            lambda: (one_large(k, 1, machine=ALLOWED) for k in range(2, 13)),
        ),
        predicate=one_within_three,
        note="All three start the first request at once and let it end. The ratio, k (k + 1) to 2 k + 1, grows without "
        "bound in this family; the optimum drops the first request for a tick, which an online policy could do too.",
    ),
}  # fmt: skip
