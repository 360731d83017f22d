"""What engines lose where requests share prefixes: by LRU, by longest prefix first, and as they never idle."""

import random
from fractions import Fraction
from itertools import permutations
from math import isqrt

from heuristics import Job
from heuristics.engine.ranked import Ranked
from heuristics.engine.sharing import Foresight
from heuristics.policies.figure_1 import Listed, Sjf
from hypotheses import Case, Fails, Hypothesis, drawn, enumerated
from hypotheses.case import Held
from hypotheses.predicates import compared, optimal, run, within
from hypotheses.small_instances import PER_TOKEN
from kvcore.instance import LIMIT, Instance, Machine, Node, Request, Segment

ONE = Machine(memory=1, batch_requests=1, evict=True)
Rows = tuple[tuple[int, str | None, int], ...]


class LongestPrefix(Ranked):
    """The longest resident prefix first, then the first to come.

    Guarantee: that of `Ranked`. Running time: as fcfs. Source: SGLang's lpm.
    """

    name = "longest-prefix"

    def key(self, job: Job) -> tuple[int, int, int]:
        """Return the key of a ready request."""
        return -job.found, job.arrival, job.index


LONGEST = LongestPrefix().sharing()
WAITING = Sjf().sharing(Foresight())


def serial(name: str, prompt: int, memory: int, rows: Rows) -> Instance:
    """Return requests served one at a time, a tick a token, by (arrival, prefix, shared tokens)."""
    shared = {node: max(tokens for _, of, tokens in rows if of == node) for _, node, _ in rows if node is not None}
    requests = tuple(
        Request(
            id=f"R{i}", arrival=arrival, prompt=prompt, segments=(Segment(decode=1),),
            path=None if node is None else (node, tokens),
        )
        for i, (arrival, node, tokens) in enumerate(rows, 1)
    )  # fmt: skip
    return Instance(
        name=name, machine=ONE.replace(memory=memory), cost=PER_TOKEN, requests=requests,
        contents=tuple(Node(id=node, parent=None, blocks=tokens) for node, tokens in shared.items()),
    )  # fmt: skip


def followers(root: int) -> Instance:
    """Return a prefix of root * root tokens, another request, and `root` followers of the first a tick later."""
    prefix = root * root
    late = ((prefix + 2, "prefix", prefix),) * root
    return serial(f"followers-{root}", prefix + 1, prefix + 1, ((0, "prefix", prefix), (prefix + 1, None, 0), *late))


IDLES = serial("prefix-idles", 3, 3, ((0, "xy", 2), (3, None, 0), (4, "xy", 2), (5, "xy", 2)))
LOSES = serial("prefix-lru", 3, 3, ((0, "xy", 2), (3, "z", 1), (3, "xy", 2), (5, "z", 1)))
PAIR = serial("prefix-pair", 4, 9, ((2, "a", 1), (4, "bcd", 3), (4, "bcd", 3), (6, "a", 1)))
FORESEES = serial("prefix-foresees", 4, 4, ((0, "abc", 3), (0, None, 0), (7, "abc", 3)))

SMALL = enumerated(
    "three of 4 requests and one of 3, served one at a time; 3 or 4 tokens a prompt, a tick each",
    lambda: (IDLES, LOSES, PAIR, FORESEES),
)
FAMILY = enumerated(
    "prompts of k k + 1 tokens, served one at a time in a memory for one: the first at tick 0, another as it ends, and "
    "a tick later k that share k k tokens with the first, k = 2 .. 16",
    lambda: (followers(root) for root in range(2, 17)),
)


def drawn_serial(draw: random.Random, name: str) -> Instance:
    """Draw 3 to 5 requests with prompts of 4 and a memory of 4 to 8."""
    rows = [
        (draw.randint(0, 12), draw.choice((None, "a", "b", "c")), draw.randint(1, 3)) for _ in range(draw.randint(3, 5))
    ]
    return serial(name, 4, draw.randint(4, 8), tuple(sorted(rows, key=lambda row: row[0])))


def in_some_order(case: Case) -> Fails | None:
    """Whether some order without idling is optimal; what is asked for last goes first."""
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
