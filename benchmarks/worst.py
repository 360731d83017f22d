"""Hunt for the worst instances that ship as `worst-POLICY-OBJECTIVE:n=N`, and print the tables about them.

`python -m benchmarks.worst POLICY OBJECTIVE N [SEED]` hunts, and writes the instance to workloads/samples/worst: the
worst of what it found, what lay there, and the instances of fewer requests.
`python -m benchmarks.worst` prints the table of `docs/counterexamples.md`, every ratio computed anew; with `--whole` it
prints that of the small family.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from heuristics import get_policy
from hypotheses.counterexamples import Claim, Family, Optima, hunt, judge
from kvcore.files import read_instance, write_text
from workloads.builtin import WORST_OBJECTIVES, WORST_POLICIES, WORST_SIZES

FOLDER = Path(__file__).parents[1] / "workloads" / "samples" / "worst"
STEPS = {2: 250, 3: 400, 4: 250}


def family(n: int) -> Family:
    """Return the family of the table: everything small, memory that few requests share, a call each at most."""
    return Family(requests=n, memory=8, prompt=4, decode=6, calls=1, duration=6, returns=1, arrival=4)


def small_family(n: int) -> Family:
    """Return a family that can be listed whole."""
    return Family(requests=n, memory=4, prompt=2, decode=3, calls=0, arrival=1)


def shipped(policy: str, objective: str, n: int, optima: Optima | None = None) -> Claim | None:
    """Judge the instance that is in the repository (None: there is none)."""
    path = FOLDER / f"{policy}-{objective}-{n}.json"
    return judge(read_instance(path), get_policy(policy), optima or Optima(objective)) if path.exists() else None


def improve(policy: str, objective: str, n: int, seed: int) -> None:
    """Hunt, and keep the worst of what is found and what is known."""
    found = hunt(family(n), policy, objective, steps=STEPS[n], seed=seed)
    whole = [hunt(small_family(n), policy, objective).claim] if n == 3 else []
    claims = [found.claim, *whole, *(shipped(policy, objective, k) for k in WORST_SIZES if k <= n)]
    worst = max((claim for claim in claims if claim and claim.proved), key=lambda claim: claim.at_least)
    named = worst.instance.replace(name=f"worst-{policy}-{objective}:n={n}")
    write_text(FOLDER / f"{policy}-{objective}-{n}.json", named.to_json())
    print(policy, objective, n, "found", found.claim and found.claim.at_least, "keeps", worst.ratio, found.looked)


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
            seen = hunt(small_family(n), policy, objective, optima=optima)
            assert n in seen.complete, f"{policy} on {objective}: {seen.failed} failed, {seen.undecided} undecided"
            yield _row(policy, objective, [seen.claim])


def _row(policy: str, objective: str, claims: list[Claim | None]) -> str:
    cells = [str(claim.ratio) if claim else "-" for claim in claims]
    return f"| {policy} | {objective} | {' | '.join(cells)} |"


if __name__ == "__main__":
    if len(sys.argv) > 2:
        improve(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 0)
    else:
        for row in whole_rows(3) if "--whole" in sys.argv else rows():
            print(row, flush=True)
