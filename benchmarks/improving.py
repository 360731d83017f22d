"""How much `improve` takes off the total flow time of the policies that papers and engines have, each as it is."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from time import process_time
from typing import Any

from benchmarks.data import CONVERSATIONS, LLAMA_A100, MIXTURE, trace_file
from benchmarks.simulate import trace
from costmodels import get_cost
from heuristics import PolicyError, Unsuited, get_policy, trace_policy
from kvcore.instance import Instance
from kvcore.metrics import total_flow_time
from solvers.improve import improve
from workloads.generators import generate
from workloads.importers import read_azure, read_infercept

POLICIES = (
    "vllm", "vllm-v1", "sglang", "trtllm-max-utilization", "sarathi-serve", "infermax", "infercept", "mars", "lamps",
    "augserve",
)  # fmt: skip
ROUNDS = 60
"""Policies that `improve` runs, the same from every start."""


def run() -> list[dict[str, Any]]:
    """Return a row for each policy and workload."""
    return [row for instance in workloads() for row in improved(instance)]


def workloads() -> Iterator[Instance]:
    """Yield slices of the traces and of a mixture."""
    calls, plain = get_cost("infercept-6b"), get_cost("infermax-7b")
    given = {"tick": calls.tick, "machine": calls.machine, "cost": calls.make()}
    mixture = read_infercept(trace_file(MIXTURE), take=64, seed=0, rate=Fraction(8), **given)
    yield mixture.replace(name="InferCept mixture, 64 at 8/s")
    drawn = generate("infermax-mix", n=128, seed=0, mix="siso+lilo").requests
    machine = plain.machine.replace(memory=20_000)
    yield Instance(
        name="INFERMAX mixture, 128", tick_seconds=plain.tick, machine=machine, cost=plain.make(), requests=drawn
    )
    path = trace_file(CONVERSATIONS)
    talks = read_azure(path, take=200, tick=plain.tick, machine=LLAMA_A100, cost=plain.make())
    yield talks.replace(name="Azure conversations, first 200")
    agents = trace("agents")
    short = [request for request in agents.requests if request.output <= 1500][:6]
    yield agents.replace(name="agents, 6 sessions", requests=tuple(short))


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
