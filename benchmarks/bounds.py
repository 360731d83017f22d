"""The tables of bounds in docs/measured.md: every bound, the best schedule known, the gap between them, and seconds.

`python -m benchmarks.bounds [FAMILY ..]` runs families one after another and prints their rows as they come;
`python -m benchmarks bounds` runs all of them, which takes hours. Each bound is verified again by the checker. The best
schedule is that of the policies named, then improved by large-neighbourhood search where that applies.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import bounds
from benchmarks.data import CONVERSATIONS, LLAMA_A100, MIXTURE, trace_file
from benchmarks.record import save
from costmodels import get_cost
from heuristics import Unsuited, get_policy, trace_policy
from kvcore.certificates import Alone, verify_certificate
from kvcore.errors import BadInput
from kvcore.instance import Instance, Machine, Request, Segment
from kvcore.metrics import objective_value
from kvcore.referee import verify_schedule
from kvcore.trace import Trace
from solvers.neighbourhoods import improve, why_not
from workloads.builtin import builtin_instance
from workloads.generators import generate
from workloads.importers import read_agent_traces, read_azure, read_infercept

FLOW = "total-flow-time"
LENGTHS = (1, 16, 128, 1024)
"""Prompts and outputs of INFERMAX's equal requests."""
MIXES = ("siso+silo", "siso+liso", "siso+lilo", "silo+liso", "silo+lilo", "liso+lilo")
TOKENS_13B = 15_360
"""KV of a 13B model in 40 GiB: 0.9 x 40 GiB less the weights, at 800 KiB a token, in whole blocks of 64 tokens."""


@dataclass(frozen=True)
class Experiment:
    """An instance, what is minimised, and how long bounds and the search for schedules may take."""

    instance: Instance
    policies: tuple[str, ...]
    objective: str = FLOW
    bound_seconds: float = 60.0
    improve_seconds: float = 60.0


def theory() -> Iterator[Experiment]:
    """Peaks of at most M/16, M/8 and M/4."""
    for name in ("n=1000,M=800,P=50,seed=0", "n=1000,M=800,P=50,seed=0,T=500"):
        yield Experiment(builtin_instance(f"hindsight:{name}"), ("mc-sf", "sjf"))
    for n, memory, seed in ((100, 400, 0), (100, 400, 1), (50, 200, 0), (50, 200, 1)):
        instance = builtin_instance(f"hindsight:n={n},M={memory},P=50,seed={seed}")
        yield Experiment(instance, ("mc-sf", "sjf"), improve_seconds=30.0)


def hindsight() -> Iterator[Experiment]:
    """Memory for one or two requests."""
    for seed in range(20):
        yield Experiment(builtin_instance(f"hindsight-benchmark:seed={seed}"), ("mc-sf",), bound_seconds=120.0)


def equal() -> Iterator[Experiment]:
    """INFERMAX's equal requests: I and O from 1 to 1024."""
    for n in (32, 1024):
        for prompt in LENGTHS:
            for output in LENGTHS:
                requests = [Request(id=f"R{i}", prompt=prompt, segments=(Segment(decode=output),)) for i in range(n)]
                yield _infermax(f"equal:n={n},I={prompt},O={output}", requests)


def mixes() -> Iterator[Experiment]:
    """INFERMAX's mixed workloads of short and long inputs and outputs."""
    for mix in MIXES:
        requests = generate("infermax-mix", n=1024, seed=0, mix=mix).requests
        yield _infermax(f"infermax-mix:{mix}", requests)


def _infermax(name: str, requests: Any) -> Experiment:
    cost = get_cost("infermax-7b")
    instance = Instance(
        name=name, tick_seconds=cost.tick, machine=cost.machine, cost=cost.make(), requests=tuple(requests)
    )
    return Experiment(
        instance,
        ("vllm", "sarathi", "infermax", "sarathi-ef", "sarathi-c-ef", "staggered"),
        "busy-time",
        improve_seconds=0.0,
    )


def infercept() -> Iterator[Experiment]:
    """The InferCept mixture with all its calls, on the memory of a 13B model."""
    machine = Machine(memory=TOKENS_13B, host_memory=TOKENS_13B, batch_tokens=512)
    path = trace_file(MIXTURE)
    for n, seconds in ((50, 60.0), (397, 180.0)):
        for rate in (1, 2, 3):
            made = read_infercept(path, take=n, seed=0, rate=Fraction(rate), machine=machine)
            named = made.replace(name=f"infercept:n={n},rate={rate}")
            yield Experiment(named, ("fcfs",), bound_seconds=seconds, improve_seconds=seconds)


def azure() -> Iterator[Experiment]:
    """Azure conversations: the first 1,000 requests and the whole hour."""
    path = trace_file(CONVERSATIONS)
    for which in ("7b", "70b"):
        cost = get_cost(f"infermax-{which}")
        for take, seconds in ((1000, 60.0), (None, 240.0)):
            made = read_azure(path, take=take, tick=cost.tick, machine=LLAMA_A100, cost=cost.make())
            named = made.replace(name=f"azure:{take or 'all'},{which}")
            for objective in ("makespan", "busy-time", FLOW):
                yield Experiment(named, ("vllm", "sarathi", "infermax"), objective, seconds, 0.0)
            if take:
                policies = ("infermax", "deadline:flow=17.8,token=0.02", "deadline:flow=100,token=0.1")
                yield Experiment(named, policies, "max-flow-time", 3 * seconds, 0.0)


def calls() -> Iterator[Experiment]:
    """The InferCept mixture with its own A100 cost, and 300 sessions of coding agents under a roofline."""
    own, model = get_cost("infercept-6b"), get_cost("roofline:model=llama-3-8b,device=h100,host=1000")
    for rate in (2, 3):
        made = read_infercept(
            trace_file(MIXTURE), take=397, rate=Fraction(rate), tick=own.tick, machine=own.machine, cost=own.make()
        )
        for objective in (FLOW, "total-ttft"):
            named = made.replace(name=f"infercept:own,rate={rate}")
            yield Experiment(named, ("trtllm-max-utilization-cached", "index", "mars"), objective, 120.0, 0.0)
    path = trace_file("agent_traces/agent_requests.csv")
    agents = read_agent_traces(
        path, take=300, tick=model.tick, machine=model.machine, cost=model.make(), drop_too_long=True
    )
    for objective, policies in ((FLOW, ("lamps", "mars")), ("total-ttft", ("first-tokens",))):
        yield Experiment(agents.replace(name="agents:n=300"), policies, objective, 150.0, 0.0)


FAMILIES: dict[str, Callable[[], Iterator[Experiment]]] = {
    family.__name__: family for family in (theory, hindsight, equal, mixes, infercept, azure, calls)
}


def run() -> list[dict[str, Any]]:
    """Return the rows of all families."""
    return [measured(case) for family in FAMILIES.values() for case in family()]


def measured(case: Experiment) -> dict[str, Any]:
    """Return the row of one case."""
    instance, objective = case.instance, case.objective
    began = time.monotonic()
    first, name, others = best_policy(case)
    simulated = time.monotonic() - began
    value, improved = objective_value(first, objective), 0.0
    if case.improve_seconds and why_not(instance, objective) is None:
        began = time.monotonic()
        found = improve(instance, objective, first.expanded(), seconds=case.improve_seconds, seed=0)
        value = min(value, objective_value(verify_schedule(instance, found), objective))
        improved = time.monotonic() - began
    rungs = list(bounds.climb(instance, objective, time_limit=case.bound_seconds, upper=value))
    best = max((rung for rung in rungs if rung.certificate), key=lambda rung: rung.bound)
    began = time.monotonic()
    assert verify_certificate(instance, best.certificate) == best.bound <= value
    alone = Alone().value(instance, objective)
    return {
        "case": instance.name, "objective": objective, "policy": name, "policies": others, "value": int(value),
        "bound": int(best.bound), "by": best.method, "gap_percent": _percent(value - best.bound, best.bound),
        "delay_gap_percent": _percent(value - best.bound, best.bound - alone),
        "calls": sum(request.call_time for request in instance.requests),
        "ladder": {rung.method: None if rung.bound is None else int(rung.bound) for rung in rungs},
        "seconds": {rung.method: round(rung.seconds, 1) for rung in rungs},
        "seconds_policies": round(simulated, 1), "seconds_improve": round(improved, 1),
        "seconds_check": round(time.monotonic() - began, 1),
    }  # fmt: skip


def best_policy(case: Experiment) -> tuple[Trace, str, dict[str, int]]:
    """Return the best policy's trace, its name, and the values of all."""
    traces: dict[str, Trace] = {}
    for name in case.policies:
        try:
            traces[name] = trace_policy(case.instance, get_policy(name))
        except (BadInput, Unsuited):
            continue
    values = {name: int(objective_value(trace, case.objective)) for name, trace in traces.items()}
    best = min(values, key=lambda name: values[name])
    return traces[best], best, values


def _percent(part: Any, whole: Any) -> float | None:
    return round(100 * float(Fraction(part) / Fraction(whole)), 2) if whole > 0 else None


if __name__ == "__main__":
    for family in sys.argv[1:] or list(FAMILIES):
        rows = []
        for case in FAMILIES[family]():
            rows.append(measured(case))
            print(rows[-1], flush=True)
        save(f"bounds-{family}", rows)
