"""Whether every online policy that drops no KV is over 3 times the optimum somewhere: whatever it does, a case."""

from __future__ import annotations

from fractions import Fraction

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses.case import ratio
from hypotheses.instances import plain, starting_at
from kvcore.instance import Instance

K = 8


def answer(start: int) -> Instance:
    """Return a request that fills a memory of K K after K ticks, and K short ones that come a tick after `start`."""
    return plain([(K * K - K + 1, K)] + [(K, 1, start + 1)] * K, K * K)


def over_three(case: Case) -> Fails | Fraction:
    start = case.instance.requests[1].arrival - 1
    policy = case.held("best-online", starting_at(case.instance, [start] + [start + K] * K))
    optimum = case.optimum()
    if ratio(policy, optimum) > 3:
        return ratio(optimum, policy)
    return Fails(f"started at {start}: {policy.value}, the optimum is {optimum.value}", (policy, optimum))


HYPOTHESIS = Hypothesis(
    statement="In the theory model, no deterministic online policy stays within 3 times the least total flow time.",
    source="no deterministic online policy has a constant ratio; this is what a script decides of it",
    states="proved",
    family=enumerated(
        f"a request at tick 0 that fills a memory of {K * K} after {K} ticks, and {K} short ones of prompt {K} that "
        f"come a tick after a policy starts it, at tick 0 to {2 * K}",
        lambda: (answer(start) for start in range(2 * K + 1)),
    ),
    predicate=over_three,
    note=f"Alone, the request takes a policy over 3 times the optimum if it starts after tick {2 * K}; else the short "
    "ones come as soon as it has started, and none of them fits beside it: the family is all that a policy can do. The "
    "number is the optimum over the policy's best. A larger memory gives any ratio by the same argument, which no "
    "script checks here; policies that may drop KV are not meant.",
)
