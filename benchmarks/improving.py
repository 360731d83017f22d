"""How much `improve` takes off the total flow time of the policies that papers and engines have, each as it is."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from time import process_time
from typing import Any

from benchmarks.data import CONVERSATIONS, LLAMA_A100, MIXTURE, trace_file
from benchmarks.simulate import trace
from costmodels import get_cost
from kvcore.instance import Instance
from solvers.improve import improve
from workloads.generators import generate
from workloads.importers import read_azure, read_infercept

POLICIES = (
    "vllm", "vllm-v1", "sglang", "trtllm-max-utilization", "sarathi-serve", "infermax", "infercept", "mars", "lamps",
    "augserve",
)  # fmt: skip
ROUNDS = 60
"""Policies that are run from each start."""


def run() -> list[dict[str, Any]]:
    """Return a row for each policy and workload."""
    return [improved(instance, policy) for instance in workloads() for policy in POLICIES]


def workloads() -> Iterator[Instance]:
    """Yield slices of the traces and of a mixture."""
    calls, plain = get_cost("infercept-6b"), get_cost("infermax-7b")
    given = {"tick": calls.tick, "machine": calls.machine, "cost": calls.make()}
    mixture = read_infercept(trace_file(MIXTURE), take=32, seed=0, rate=Fraction(3), **given)
    yield mixture.replace(name="InferCept mixture, 32 at 3/s")
    drawn = generate("infermax-mix", n=128, seed=0, mix="siso+lilo").requests
    machine = plain.machine.replace(memory=20_000)
    yield Instance(
        name="INFERMAX mixture, 128", tick_seconds=plain.tick, machine=machine, cost=plain.make(), requests=drawn
    )
    path = trace_file(CONVERSATIONS)
    talks = read_azure(path, take=200, tick=plain.tick, machine=LLAMA_A100, cost=plain.make())
    yield talks.replace(name="Azure conversations, first 200")
    agents = trace("agents")
    short = [request for request in agents.requests if request.output <= 4000][:12]
    yield agents.replace(name="agents, 12 sessions", requests=tuple(short))


def improved(instance: Instance, policy: str) -> dict[str, Any]:
    """Return what a policy has, what was found from there, and the seconds of both together."""
    began = process_time()
    found = improve(instance, start=policy, rounds=ROUNDS)
    first, seconds = int(found.extra["start"]["value"]), float(instance.tick_seconds)
    return {
        "workload": instance.name, "policy": policy, "value": round(first * seconds, 2),
        "improved": round(int(found.value) * seconds, 2),
        "percent_less": round(100 - 100 * int(found.value) / first, 1),
        "by": found.policy or "changed priorities", "cpu_seconds": round(process_time() - began, 1),
    }  # fmt: skip
