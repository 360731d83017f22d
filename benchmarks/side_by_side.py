"""`python -m benchmarks.side_by_side WORK [NAME ..]`: `solve` beside each single method, with the same counted work.

On 40 instances (or those whose names begin so) the bound of `solve` shall be at least 0.995 of the best method's,
and its value at most 1.005 of that of `improve`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from benchmarks.data import CONVERSATIONS, made
from kvcore.errors import BadInput
from kvcore.instance import Instance
from solvers import solve
from solvers.dual_bound import best_bound, ladder
from solvers.improve import improve
from workloads.generators.kinds import KINDS

FLOW = "total-flow-time"
COSTS = {"linear": ("infermax-7b", 100_000), "roofline": ("roofline:model=llama-3-8b,device=h100", 467_280)}
"""The cost of a batch, and the memory for KV in tokens."""
CASES = {
    f"V{take}": f"import azure {CONVERSATIONS} --take {take} --load 20 --cost infermax-7b --memory {memory}"
    for take, memory in ((8, 4000), (50, 6000))
}
for _model, (_cost, _memory) in COSTS.items():
    _machine = f"--cost {_cost} --memory {_memory}"
    CASES |= {
        f"five {kind}, {_model}, {seed}": f"generate {kind} --n 5 --rate 1 --seed {seed} {_machine}"
        for kind in KINDS
        for seed in range(3)
    }
    CASES |= {
        f"long {n}, {_model}, {seed}": f"generate fixed --n {n} --rate 1 --prompt 12000 --output 200 --seed {seed} "
        f"{_machine}"
        for n in (50, 300)
        for seed in range(2)
    }


def row(name: str, instance: Instance, work: int) -> dict[str, Any]:
    """Return the row of an instance: what `solve` has over the best of each method alone."""
    whole = solve(instance, FLOW, work=work)
    bounds = dict[str, Any]()
    for way in ladder(instance):
        try:
            bounds[way.formulation] = best_bound(instance, FLOW, method=way.formulation, work=work).bound or 0
        except BadInput:
            continue
    best = max(bounds, key=lambda method: bounds[method])
    found = improve(instance, FLOW, work=work)
    return {
        "case": name, "work": work, "bound": whole.bound, "by": whole.proved_by, "single": bounds[best],
        "method": best, "bound_ratio": _over(whole.bound, bounds[best]), "value": whole.value, "improve": found.value,
        "value_ratio": _over(whole.value, found.value), "took": round(whole.seconds, 1),
        "clock": round(whole.clock_seconds, 1),
    }  # fmt: skip


def _over(one: Any, other: Any) -> float | None:
    return None if one is None or not other else round(float(Fraction(one) / Fraction(other)), 4)


def rows(work: int, names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield a row for each case."""
    for name, source in CASES.items():
        if not names or any(name.startswith(each) for each in names):
            yield row(name, made(source, name), work)


if __name__ == "__main__":
    for each in rows(int(sys.argv[1]), sys.argv[2:]):
        print(json.dumps(each), flush=True)
