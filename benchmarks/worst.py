"""`python -m benchmarks.worst`: write docs/worst.md, every ratio of `worst-POLICY-OBJECTIVE:n=N` computed anew."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from heuristics import get_policy
from hypotheses.search import Claim, Optima, SearchSpace, judge, search
from kvcore.files import write_text
from workloads.builtin import WORST_OBJECTIVES, WORST_POLICIES, WORST_SIZES, builtin_instance

PAGE = Path(__file__).parents[1] / "docs" / "worst.md"
INTRODUCTION = """# The worst ratios that were found

Written by `python -m benchmarks.worst`: the value of a policy over the optimum, which is proved in each case.
[hypotheses.md](hypotheses.md#the-worst-instance-for-a-policy) says how instances are looked for, and how to read the
numbers.
"""
WHOLE = """## A small family, whole

Up to three requests at ticks 0 or 1, prompts of 1 or 2 tokens, 1 to 3 tokens decoded, no calls, memory of at most 4,
eviction allowed, every batch lasts one tick. Every member was judged; so these are the worst ratios of the family.

| policy | objective | worst ratio |
|---|---|---|"""
FOUND = """
## The worst that were found

Memory of at most 8, up to 2, 3 or 4 requests, prompts of 1 to 4 tokens, segments of 1 to 6, at most one call (up to 6
ticks, returning at most one token, handled freely, no host memory), arrivals up to tick 4, eviction allowed, every
batch lasts one tick. For each cell one search with seed 0, of 250 steps (400 for three requests); for four requests
five of 2,500 steps, with seeds 0 to 4. A cell takes over the instance on its left, or with three requests that of the
small family, if nothing worse was found. Each ratio is that of a built-in instance, such as
`worst-fcfs-total-flow-time:n=3`.

| policy | objective | n=2 | n=3 | n=4 |
|---|---|---|---|---|"""


def family(n: int) -> SearchSpace:
    """Return the family of the table: everything small, memory that few requests share, a call each at most."""
    return SearchSpace(requests=n, memory=8, prompt=4, decode=6, calls=1, duration=6, returns=1, arrival=4)


def small_family(n: int) -> SearchSpace:
    """Return a family that can be listed whole."""
    return SearchSpace(requests=n, memory=4, prompt=2, decode=3, calls=0, arrival=1)


def shipped(policy: str, objective: str, n: int) -> Claim:
    """Judge the instance that ships."""
    instance = builtin_instance(f"worst-{policy}-{objective}:n={n}")
    return judge(instance, get_policy(policy), Optima(objective)).certified()


def rows() -> Iterator[str]:
    """Yield the rows of the table of what ships."""
    for objective in WORST_OBJECTIVES:
        for policy in WORST_POLICIES:
            claims = [shipped(policy, objective, n) for n in WORST_SIZES]
            yield _row(policy, objective, claims)


def whole_rows(n: int) -> Iterator[str]:
    """Yield the rows of the worst ratios of the whole small family."""
    for objective in WORST_OBJECTIVES:
        optima = Optima(objective)
        for policy in WORST_POLICIES:
            seen = search(small_family(n), policy, objective, optima=optima)
            assert n in seen.complete, f"{policy} on {objective}: {seen.failed} failed, {seen.undecided} undecided"
            yield _row(policy, objective, [seen.claim])


def _row(policy: str, objective: str, claims: Sequence[Claim | None]) -> str:
    cells = [str(claim.ratio) if claim else "-" for claim in claims]
    return f"| {policy} | {objective} | {' | '.join(cells)} |"


def page() -> str:
    """Return the page about both tables."""
    return "\n".join([INTRODUCTION, WHOLE, *whole_rows(3), FOUND, *rows()]) + "\n"


if __name__ == "__main__":
    write_text(PAGE, page())
