"""What LRU, longest prefix first and never idling cost where requests share prefixes."""

import random
from fractions import Fraction
from itertools import permutations
from math import isqrt

from heuristics import Job
from heuristics.engine.ranked import Ranked
from heuristics.engine.sharing import Foresight
from heuristics.policies.figure_1 import Listed, Sjf
from hypotheses import Case, Fails, Hypothesis, drawn, enumerated, listed
from hypotheses.case import Held
from hypotheses.predicates import compared, optimal, run, within
from kvcore.instance import LIMIT, Instance
from workloads.prefixes import followers, serial


class LongestPrefix(Ranked):
    """The longest resident prefix first; after SGLang's lpm."""

    name = "longest-prefix"

    def key(self, job: Job) -> tuple[int, int, int]:
        """Return its key."""
        return -job.found, job.arrival, job.index


LONGEST = LongestPrefix().sharing()
WAITING = Sjf().sharing(Foresight())


SMALL = listed("prefix-idles", "prefix-lru", "prefix-lpm", "prefix-order")
FAMILY = enumerated(
    "prompts of k k + 1 tokens, served one at a time in a memory for one: the first at tick 0, another as it ends, and "
    "a tick later k that share k k tokens with the first, k = 2 .. 16",
    lambda: (followers(root) for root in range(2, 17)),
)


def drawn_serial(draw: random.Random, name: str) -> Instance:
    rows = [
        (draw.randint(0, 12), draw.choice(("", "a", "b", "c")), draw.randint(1, 3)) for _ in range(draw.randint(3, 5))
    ]
    return serial(name, 4, draw.randint(4, 8), *sorted(rows, key=lambda row: row[0]))


def in_some_order(case: Case) -> Fails | None:
    count = len(case.instance.requests)
    found = [case.policy(Listed(order).sharing(Foresight(0.0))) for order in permutations(range(count))]
    best = min((held for held in found if held is not None), key=lambda held: held.value)
    optimum = case.optimum()
    if best.value == optimum.value:
        return None
    return Fails(f"the best order has {best.value}, the optimum {optimum.value}", (best, optimum))


def without_idling(case: Case) -> Held | None:
    rules = (case.policy("vllm-v1-prefix"), case.policy(LONGEST))
    return min((held for held in rules if held is not None), key=lambda held: held.value)


within_four = within(without_idling, 4, run(WAITING), "the better rule has {}, one that waits {}: over 4 times")


def with_the_root(case: Case) -> Fails | Fraction:
    root = isqrt(case.instance.machine.memory or 0)
    times = within(without_idling, LIMIT, run(WAITING), "")(case)
    assert isinstance(times, Fraction)
    return times / root if times >= Fraction(3, 4) * root else Fails(f"{float(times):.3f} times, the root is {root}")


HYPOTHESES = {
    "prefix-lru": Hypothesis(
        statement="First come, first served with LRU, vLLM's rule, stays within 3/2 of the least total flow time where "
        "requests share prefixes.",
        source="vLLM 0.33.0's prefix cache",
        states="refuted",
        family=SMALL,
        predicate=within(run("vllm-v1-prefix"), Fraction(3, 2), optimal(), "fcfs with LRU has {}, the optimum is {}"),
    ),
    "prefix-lpm": Hypothesis(
        statement="Longest prefix first is never worse (total flow time) than first come, first served.",
        source="SGLang's lpm",
        states="refuted",
        family=SMALL,
        predicate=compared(
            run("vllm-v1-prefix"), lambda first, longest: longest <= first, run(LONGEST),
            "first come, first served has {}, longest prefix first {}",
        ),
        note="A hit of one token goes before two requests that share three.",
    ),
    "prefix-idle": Hypothesis(
        statement="Some order, in which the machine never idles while a request waits, has the least total flow time.",
        source="engines, which never idle",
        states="refuted",
        family=SMALL,
        predicate=in_some_order,
        note="The optimum idles for a tick, so that the memory keeps a prefix for those to come.",
    ),
    "prefix-next-use": Hypothesis(
        statement="Forgetting the block that is needed last (Belady) is never worse for the total flow time than "
        "forgetting the one unused for longest (LRU).",
        source="Belady, 1966: it has the fewest misses, if the order of requests is given",
        states="no counterexample",
        family=drawn("3 to 5 prompts of 4 tokens, one at a time, memory 4 to 8", 1500, drawn_serial),
        predicate=compared(
            run("vllm-v1-prefix-belady"), lambda belady, lru: belady <= lru, run("vllm-v1-prefix"),
            "Belady's rule has {}, LRU {}",
        ),
    ),
    "prefix-unbounded": Hypothesis(
        statement="The better of first come, first served and longest prefix first stays within 4 times the least "
        "total flow time.",
        source="engines, which never idle",
        states="refuted",
        family=FAMILY,
        predicate=within_four,
        note="One idle tick keeps the prefix for its followers. The ratio grows without bound in this family.",
    ),
    "prefix-exponent": Hypothesis(
        statement="The ratio of the better of first come, first served and longest prefix first to the optimum grows "
        "with the square root of the memory at least: 3/4 of it or more on the family of prefix-unbounded.",
        source="one of our own: the exponent behind prefix-unbounded",
        states="proved",
        family=FAMILY,
        predicate=with_the_root,
        note="The number is the ratio to the rule that waits, which is no larger, over the root.",
    ),
}  # fmt: skip
