"""The tables of bounds in docs/measured.md: every bound, the best schedule known, the gap between them, and seconds.

`python -m benchmarks.bounds [FAMILY ..]` runs families one after another and prints their rows as they come;
`python -m benchmarks bounds` runs all of them, which takes hours. Each bound is verified again by the checker. The best
schedule is that of the policies named, then improved by large-neighbourhood search where that applies.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from fractions import Fraction
from itertools import pairwise, product
from typing import Any, NamedTuple

from benchmarks.data import AGENTS, DRAWN, HOUR, made
from benchmarks.record import save
from heuristics import Unsuited, get_policy, trace_policy
from kvcore.certificates import Alone, verify_certificate
from kvcore.errors import BadInput
from kvcore.metrics import objective_value
from kvcore.referee import verify_schedule
from kvcore.trace import Trace
from solvers.ladder import climb
from solvers.neighbourhoods import improve, why_not
from workloads.generators.kinds import MIXES

FLOW = "total-flow-time"
LENGTHS = (1, 16, 128, 1024)
"""Prompts and outputs of INFERMAX's equal requests."""
INFERMAX = "vllm sarathi infermax sarathi-ef sarathi-c-ef staggered"
ON_13B = "--seed 0 --memory 15360 --host-memory 15360 --batch-tokens 512 --no-evict"
"""KV of a 13B model in 40 GiB: 0.9 x 40 GiB less the weights, at 800 KiB a token, in whole blocks of 64 tokens."""
DEADLINES = "infermax deadline:flow=17.8,token=0.02 deadline:flow=100,token=0.1"
H100 = "--take 300 --drop-too-long --memory 467280 --cost roofline:model=llama-3-8b,device=h100,host=1000"


class Case(NamedTuple):
    """An instance, the policies to try, what is minimised, and how long bounds and searches may take."""

    name: str
    source: str
    policies: str
    objective: str = FLOW
    bound_seconds: float = 60.0
    improve_seconds: float = 0.0


FAMILIES: dict[str, list[Case]] = {
    "theory": [  # peaks of at most M/16, M/8 and M/4
        Case(name, name, "mc-sf sjf", improve_seconds=seconds)
        for given, seconds in (
            ("n=1000,M=800,P=50,seed=0", 60), ("n=1000,M=800,P=50,seed=0,T=500", 60), ("n=100,M=400,P=50,seed=0", 30),
            ("n=100,M=400,P=50,seed=1", 30), ("n=50,M=200,P=50,seed=0", 30), ("n=50,M=200,P=50,seed=1", 30),
        )
        for name in [f"hindsight:{given}"]
    ],
    "hindsight": [  # memory for one or two requests
        Case(name, name, "mc-sf", FLOW, 120.0, 60.0)
        for name in (f"hindsight-benchmark:seed={seed}" for seed in range(20))
    ],
    "equal": [  # INFERMAX's equal requests: I and O from 1 to 1024
        Case(f"equal:n={n},I={prompt},O={output}",
             f"generate fixed --n {n} --prompt {prompt} --output {output} --cost infermax-7b", INFERMAX, "busy-time")
        for n, prompt, output in product((32, 1024), LENGTHS, LENGTHS)
    ],
    "mixes": [  # INFERMAX's mixed workloads of short and long inputs and outputs
        Case(f"infermax-mix:{mix}", f"generate infermax-mix --n 1024 --mix {mix} --cost infermax-7b", INFERMAX,
             "busy-time")
        for mix in MIXES
    ],
    "infercept": [  # the InferCept mixture with all its calls, on the memory of a 13B model
        Case(f"infercept:n={n},rate={rate}", f"{DRAWN} --take {n} --rate {rate} {ON_13B}", "fcfs", FLOW, *2 * [seconds])
        for (n, seconds), rate in product(((50, 60.0), (397, 180.0)), (1, 2, 3))
    ],
    "azure": [  # Azure conversations: the first 1,000 requests and the whole hour
        Case(f"azure:{first},{model}", f"{HOUR} infermax-{model}{take}", *asked)
        for model in ("7b", "70b")
        for first, take, seconds in (("1000", " --take 1000", 60.0), ("all", "", 240.0))
        for asked in (
            *(("vllm sarathi infermax", objective, seconds) for objective in ("makespan", "busy-time", FLOW)),
            *([(DEADLINES, "max-flow-time", 3 * seconds)] if take else []),
        )
    ],
    "calls": [  # the InferCept mixture with its own A100 cost, and 300 sessions of coding agents under a roofline
        *(Case(f"infercept:own,rate={rate}", f"{DRAWN} --take 397 --rate {rate} --cost infercept-6b",
               "trtllm-max-utilization-cached index mars", objective, 120.0)
          for rate, objective in product((2, 3), (FLOW, "total-ttft"))),
        Case("agents:n=300", f"{AGENTS} {H100}", "lamps mars", FLOW, 150.0),
        Case("agents:n=300", f"{AGENTS} {H100}", "first-tokens", "total-ttft", 150.0),
    ],
}  # fmt: skip


def run() -> list[dict[str, Any]]:
    """Return the rows of all families."""
    return [measured(case) for family in FAMILIES.values() for case in family]


def measured(case: Case) -> dict[str, Any]:
    """Return the row of one case."""
    instance, objective, clock = made(case.source, case.name), case.objective, [time.monotonic()]
    traces: dict[str, Trace] = {}
    for policy in case.policies.split():
        with suppress(BadInput, Unsuited):
            traces[policy] = trace_policy(instance, get_policy(policy))
    values = {policy: objective_value(trace, objective) for policy, trace in traces.items()}
    best = min(values, key=lambda policy: values[policy])
    value = values[best]
    clock.append(time.monotonic())
    if case.improve_seconds and why_not(instance, objective) is None:
        found = improve(instance, objective, traces[best].expanded(), seconds=case.improve_seconds, seed=0)
        value = min(value, objective_value(verify_schedule(instance, found), objective))
    clock.append(time.monotonic())
    proved = climb(instance, objective, time_limit=case.bound_seconds, upper=value)
    clock.append(time.monotonic())
    assert proved.certificate is not None and proved.bound is not None  # noqa: PT018
    assert verify_certificate(instance, proved.certificate) == proved.bound <= value
    clock.append(time.monotonic())
    simulated, improved, _, checked = (round(end - begin, 1) for begin, end in pairwise(clock))
    rungs, alone = proved.extra["ladder"], Alone().value(instance, objective)
    return {
        "case": instance.name, "objective": objective, "policy": best,
        "policies": {policy: int(other) for policy, other in values.items()}, "value": int(value),
        "bound": int(proved.bound), "by": proved.proved_by,
        "gap_percent": _percent(value - proved.bound, proved.bound),
        "delay_gap_percent": _percent(value - proved.bound, proved.bound - alone),
        "calls": sum(request.call_time for request in instance.requests),
        "ladder": {rung["method"]: rung["bound"] for rung in rungs},
        "seconds": {rung["method"]: round(rung["seconds"], 1) for rung in rungs},
        "seconds_policies": simulated, "seconds_improve": improved, "seconds_check": checked,
    }  # fmt: skip


def _percent(part: Any, whole: Any) -> float | None:
    return round(100 * float(Fraction(part) / Fraction(whole)), 2) if whole > 0 else None


if __name__ == "__main__":
    for family in sys.argv[1:] or list(FAMILIES):
        rows = []
        for case in FAMILIES[family]:
            rows.append(measured(case))
            print(rows[-1], flush=True)
        save(f"bounds-{family}", rows)
