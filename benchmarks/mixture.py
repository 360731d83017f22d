"""What the claims about augmented requests share: the mixture of InferCept at a rate, and what its users feel."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from statistics import mean, median, quantiles

from costmodels import GPT_J_6B, get_cost
from heuristics import POLICIES, Policy, get_policy, predictions, trace_policy
from kvcore.instance import Instance
from kvcore.metrics import flow_time, normalized, ttft
from workloads.generators import generate
from workloads.importers import read_infercept

MIXTURE = Path("infercept") / "merged_exp_uniform_lengths.csv"
COST = "infercept-6b"
ITERATION = Fraction(2778, 100_000)
"""Seconds of a batch of 384 tokens: 10 ms and 0.0463 ms a token."""


@dataclass(frozen=True)
class Felt:
    """What the users of a run felt, in seconds."""

    mean: float
    median: float
    p99: float
    ttft: float
    goodput: float
    """Requests a second of arrivals that had their first token within 1 s, and 10 iterations a token or less."""


@cache
def mixture(rate: int, minutes: int, seed: int = 1) -> Instance:
    """Return requests of the InferCept mixture at a rate, on GPT-J-6B and an A100.

    They are the published ones where KVBOUND_DATA has them, and otherwise drawn after InferCept's Table 1.
    """
    model, window = get_cost(COST), Fraction(minutes)
    data = os.environ.get("KVBOUND_DATA")
    if data is None:
        return generate("infercept", rate=Fraction(rate), minutes=window, seed=seed, cost=model.make(), tick=model.tick)
    return read_infercept(
        Path(data) / MIXTURE, rate=Fraction(rate), minutes=window, seed=seed, tick=model.tick, cost=model.make(),
        machine=GPT_J_6B,
    )  # fmt: skip


@cache
def bursts(rate: int, cv: Fraction, minutes: int, seed: int = 1) -> Instance:
    """Return requests drawn after InferCept's Table 1, arriving with Gamma gaps."""
    model = get_cost(COST)
    return generate(
        "infercept", rate=Fraction(rate), cv=cv, minutes=Fraction(minutes), seed=seed, cost=model.make(),
        tick=model.tick,
    )  # fmt: skip


def feel(instance: Instance, policy: Policy | str, minutes: int, believed: str = "exact") -> Felt:
    """Run a policy and return what its users felt."""
    policy = get_policy(policy) if isinstance(policy, str) else policy
    trace = trace_policy(instance, policy, predictions(believed, instance))
    tick = instance.tick_seconds
    flows = [float(flow_time(request) * tick) for request in trace.requests]
    good = sum(ttft(request) * tick <= 1 and normalized(request) * tick <= 10 * ITERATION for request in trace.requests)
    first = mean(float(ttft(request) * tick) for request in trace.requests)
    return Felt(mean(flows), median(flows), quantiles(flows, n=100)[98], first, good / (60 * minutes))


def known(name: str) -> bool:
    """Whether there is a policy of that name."""
    return name in POLICIES
