"""What the claims about augmented requests share: the mixture of InferCept at a rate, and what its users feel."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from random import Random
from statistics import mean, median, quantiles
from typing import Any

from benchmarks.data import MIXTURE, released
from costmodels import DEVICES, GPT_J_6B, MODELS, VICUNA_13B, get_cost
from costmodels.machines import kv_capacity
from heuristics import Policy, get_policy, predictions, trace_policy
from kvcore.instance import Instance, Machine
from kvcore.metrics import flow_time, normalized, ttft
from workloads.arrivals import arrivals
from workloads.generators import generate
from workloads.importers import read_infercept

ITERATION = Fraction(2778, 100_000)
"""Seconds of a batch of 384 tokens: 10 ms and 0.0463 ms a token."""
OPT_13B = VICUNA_13B.replace(memory=kv_capacity(MODELS["opt-13b"], DEVICES["h100"].memory, 64))
"""OPT-13B on 80 GiB: 62,976 tokens."""
ITERATION_13B = Fraction(261_136, 10_000_000)
"""Seconds of a batch of 384 tokens: 15.4 ms and 0.0279 ms a token."""


@dataclass(frozen=True)
class Felt:
    """What the users of a run felt, in seconds."""

    mean: float
    median: float
    p99: float
    ttft: float
    goodput: float
    """Requests a second of arrivals that had their first token within 1 s, and 10 iterations a token or less."""
    share: float
    """The part of all requests that these are."""


@cache
def mixture(rate: Fraction | int, minutes: int, seed: int = 1, cost: str = "infercept-6b") -> Instance:
    """Return requests of the InferCept mixture at a rate, on GPT-J-6B and an A100."""
    return _drawn(cost, GPT_J_6B, Fraction(rate), Fraction(minutes), seed)


@cache
def opt_13b(rate: int, count: int, cv: Fraction | None = None) -> Instance:
    """Return so many requests of the mixture, on OPT-13B and 80 GiB, arriving at a rate; with `cv`, with Gamma gaps."""
    drawn = _drawn("infercept-13b", OPT_13B, Fraction(rate), Fraction(count, 50 * rate), 1)
    times = arrivals(Random(1), drawn.tick_seconds, rate=Fraction(rate), cv=cv)  # which have no end
    requests = [request.replace(arrival=time) for request, time in zip(drawn.requests[:count], times, strict=False)]
    return drawn.replace(requests=tuple(requests))


def _drawn(cost: str, machine: Machine, rate: Fraction, minutes: Fraction, seed: int) -> Instance:
    """Draw from the published requests where KVBOUND_DATA has them, and otherwise after InferCept's Table 1."""
    model, path = get_cost(cost), released(MIXTURE)
    given: dict[str, Any] = {"rate": rate, "minutes": minutes, "seed": seed, "tick": model.tick, "cost": model.make()}
    if path is None:
        return generate("infercept", machine=machine, **given)
    return read_infercept(path, machine=machine, **given)


def feel(
    instance: Instance, policy: Policy | str, minutes: int, believed: str = "exact", iteration: Fraction = ITERATION
) -> Felt:
    """Run a policy and return what its users felt."""
    policy = get_policy(policy) if isinstance(policy, str) else policy
    trace = trace_policy(instance, policy, predictions(believed, instance))
    tick = instance.tick_seconds
    flows = [float(flow_time(request) * tick) for request in trace.requests]
    good = sum(ttft(request) * tick <= 1 and normalized(request) * tick <= 10 * iteration for request in trace.requests)
    first = mean(float(ttft(request) * tick) for request in trace.requests)
    share = good / len(flows)
    return Felt(mean(flows), median(flows), quantiles(flows, n=100)[98], first, good / (60 * minutes), share)
