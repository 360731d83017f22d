"""Values, bounds and seconds on 30 instances of the library: whether a change made any of them worse.

`python -m benchmarks library` keeps its rows; `python -m benchmarks.library BEFORE.jsonl AFTER.jsonl [PROFILE.svg]`
compares two such files. A value is over the better of the two, a bound is what the better one is over it.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from kvbound.cli.common import people_console, table
from kvbound.plots import plot_profile
from kvcore.instance import Instance
from kvcore.result import Result, number
from library import Library
from library.policies import over
from solvers import solve
from solvers.dual_bound import best_bound
from solvers.improve import improve

SECONDS = 4.0  # for each way on each instance
CHOSEN = (
    "mars-like-n10-seed0", "mars-like-n20-seed0", "mars-like-n50-seed0",
    "infercept-3-s0-6b", "infercept-10-s1-unit", "infercept-50-r2-m15k-6b", "infercept-50-r4-m15k-unit",
    "infercept-sample-k4-evict0", "infercept-ve-k3-chunked1", "infercept-slice-k10-seed0-evict1",
    "math-2", "chat-3", "qa-3",
    "infermax-figure15-I32", "identical-n32-I32-O8-M256", "equal-I16-O128",
    "mix-siso-lilo-32", "mix-silo-liso-32", "mix-liso-lilo-256",
    "hindsight-benchmark-seed2", "hindsight-benchmark-seed7",
    "hindsight-n20-M30-seed0", "hindsight-n100-M400-P50-seed0", "hindsight-n200-M800-P50-T200-seed1",
    "azure-conv-7b-0-100", "azure-code-70b-1000-100",
    "agents-4-m150k-s0", "worst-mars-makespan-n4-v3", "slo-toolbench-r4", "slo-mixed-r8",
)  # fmt: skip
WAYS: dict[str, Callable[[Instance, str], Result]] = {
    "auto": lambda instance, objective: solve(instance, objective, time_limit=SECONDS),
    "improve": lambda instance, objective: improve(instance, objective, seconds=SECONDS),
    "bound": lambda instance, objective: best_bound(instance, objective, time_limit=SECONDS),
}


def run() -> list[dict[str, Any]]:
    """Return a row for each way on each instance, for its first objective."""
    return list(_rows(Library()))


def _rows(library: Library) -> Iterator[dict[str, Any]]:
    for name in CHOSEN:
        record = library.record(name)
        instance, (objective, best) = library.instance(record), next(iter(record.objectives.items()))
        for way, compute in WAYS.items():
            began = time.monotonic()
            result = compute(instance, objective)
            found = (number(known, objective) for known in (result.value, result.bound))
            value, bound = found
            yield {
                "case": name, "objective": objective, "way": way, "value": value, "bound": bound,
                "status": result.status, "over_best": over(value, best.value), "below_bound": over(best.bound, bound),
                "seconds": round(time.monotonic() - began, 1),
            }  # fmt: skip


def compared(
    before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> dict[str, list[tuple[str, Fraction, Fraction]]]:
    """Return for values, bounds and seconds what each case has before and after, over the better of the two."""
    keyed = [{(row["case"], row["objective"], row["way"]): row for row in rows} for rows in (before, after)]
    found: dict[str, list[tuple[str, Fraction, Fraction]]] = {"value": [], "bound": [], "seconds": []}
    for key in keyed[0].keys() & keyed[1].keys():
        for what, pairs in found.items():
            known = [rows[key][what] for rows in keyed]
            if None in known or min(map(Fraction, known)) <= 0:
                continue
            first, second = map(Fraction, known)
            best = max(first, second) if what == "bound" else min(first, second)
            ratios = (best / first, best / second) if what == "bound" else (first / best, second / best)
            pairs.append((" ".join(key), *ratios))
    return found


def main(arguments: list[str]) -> None:
    """Print what became better and worse; draw the profile of values."""
    before, after = ([json.loads(line) for line in Path(name).read_text().splitlines()] for name in arguments[:2])
    found, console = compared(before, after), people_console()
    rows = [(what, len(pairs), sum(b > a for _, b, a in pairs), sum(a > b for _, b, a in pairs))
            for what, pairs in found.items()]  # fmt: skip
    console.print(table(("what", "cases", "better", "worse"), rows, right=(1, 2, 3)))
    worse = sorted(
        ((a, what, case) for what in ("value", "bound") for case, b, a in found[what] if a > b), reverse=True
    )
    console.print(table(("worse", "case", "times"), [(what, case, f"{float(a):.4f}") for a, what, case in worse]))
    if len(arguments) > 2:
        sides = {"before": 1, "after": 2}
        plot_profile(
            [
                {"policy": side, "ratios": sorted(float(pair[k]) for pair in found["value"])}
                for side, k in sides.items()
            ],
            path=arguments[2],
        )


if __name__ == "__main__":
    main(sys.argv[1:])
