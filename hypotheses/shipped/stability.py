"""Whether the rate that memory and KV allow, M / (b E[g]), is the rate that can be served."""

from fractions import Fraction
from functools import partial

from hypotheses import Case, Fails, Hypothesis, enumerated
from hypotheses import small_instances as small
from hypotheses.hypothesis import Predicate
from kvcore.instance import Instance

EVICTING = partial(small.with_machine, evict=True, pause=True)
SOURCE = (
    "Nie, Si, Zhou (arXiv 2605.04595): unstable above mu = M / (b E[g]), stable below it but for a slack; b a batch's "
    "time, g the sum of a request's KV over its batches"
)


def batches(instance: Instance) -> Fraction:
    """Return n / mu: the KV of all requests, over their batches, in units of the memory."""
    kv = sum(one.prompt + k for one in instance.requests for k in range(one.output))
    return Fraction(kv, instance.machine.memory or 1)


def makespan(least: bool) -> Predicate:
    """Whether the optimal makespan is at least n / mu; or at most that and the longest output."""

    def judge(case: Case) -> Fails | None:
        held = case.optimum(case.instance, "makespan")
        fluid = batches(case.instance)
        if held.value >= fluid if least else held.value <= fluid + max(one.output for one in case.instance.requests):
            return None
        return Fails(f"the optimal makespan is {held.value}, n / mu {fluid}", (held,), certain=held.claimed_by is None)

    return judge


HYPOTHESES = {
    "memory-rate": Hypothesis(
        statement="No schedule serves n requests in less time than n / mu, with mu = M / (b E[g]), evictions or not.",
        source=SOURCE,
        states="proved",
        family=enumerated(
            "the theory model with evictions: 2 to 4 requests at tick 0, prompts 1 or 3, outputs 1 to 3, every memory "
            "that matters",
            lambda: map(EVICTING, small.plain_family((2, 3, 4), (1, 3), (1, 2, 3))),
        ),
        predicate=makespan(True),
        note="A batch with token q of a request holds all its KV, however often it was dropped before.",
    ),
    "memory-rate-reached": Hypothesis(
        statement="Some schedule serves n requests that come together in n / mu and the time of the longest output: "
        "every rate below mu = M / (b E[g]) is stable.",
        source=SOURCE,
        states="refuted",
        family=enumerated(
            "the theory model: 2 to 4 requests at tick 0, prompts 1 or 3, outputs 1 to 3, every memory that matters",
            lambda: small.plain_family((2, 3, 4), (1, 3), (1, 2, 3)),
        ),
        predicate=makespan(False),
        note="Whole requests do not fill the memory; hence the paper's slack, the largest peak over M.",
    ),
}  # fmt: skip
