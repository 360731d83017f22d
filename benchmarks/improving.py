"""How much `improve` takes off the total flow time of the policies that papers and engines have, each as it is."""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time
from typing import Any

from benchmarks.data import DRAWN, HOUR, made
from benchmarks.simulate import TRACES
from heuristics import PolicyError, Unsuited, get_policy, trace_policy
from kvcore.instance import Instance
from kvcore.metrics import total_flow_time
from solvers.improve import improve

POLICIES = (
    "vllm", "vllm-v1", "sglang", "trtllm-max-utilization", "sarathi-serve", "infermax", "infercept", "mars", "lamps",
    "augserve",
)  # fmt: skip
ROUNDS = 60
"""Policies that `improve` runs, the same from every start."""


WORKLOADS = {
    "InferCept mixture, 64 at 8/s": f"{DRAWN} --take 64 --rate 8 --cost infercept-6b",
    "INFERMAX mixture, 128": "generate infermax-mix --n 128 --mix siso+lilo --cost infermax-7b --memory 20000",
    "Azure conversations, first 200": f"{HOUR} infermax-7b --take 200",
    "agents, 6 sessions": TRACES["agents"],
}


def run() -> list[dict[str, Any]]:
    """Return a row for each policy and workload: slices of the traces and of a mixture."""
    return [row for name, source in WORKLOADS.items() for row in improved(workload(name, source))]


def workload(name: str, source: str) -> Instance:
    """Return a workload; of the agents the first six sessions of up to 1,500 tokens."""
    instance = made(source, name)
    if name.startswith("agents"):
        short = [request for request in instance.requests if request.output <= 1500][:6]
        instance = instance.replace(requests=tuple(short))
    return instance


def improved(instance: Instance) -> Iterator[dict[str, Any]]:
    """Yield what each policy has, and how much less what is found has."""
    began, tick = process_time(), float(instance.tick_seconds)
    found = improve(instance, rounds=ROUNDS)
    shown = {"workload": instance.name, "improved": round(int(found.value) * tick, 2), "by": found.policy or "steps"}
    shown["cpu_seconds"] = round(process_time() - began, 1)
    for policy in POLICIES:
        try:
            value = int(total_flow_time(trace_policy(instance, get_policy(policy))))
        except (PolicyError, Unsuited) as error:
            yield {**shown, "policy": policy, "error": str(error)}
        else:
            less = round(100 - 100 * int(found.value) / value, 1)
            yield {**shown, "policy": policy, "value": round(value * tick, 2), "percent_less": less}
