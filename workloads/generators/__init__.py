"""Workloads drawn from what the papers publish (`docs/data.md`)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from typing import Any

from kvcore.cost import Cost
from kvcore.csv_table import build_instance, slo_in_ticks
from kvcore.errors import BadInput, unknown
from kvcore.instance import Instance, Machine, Request
from workloads.arrivals import arrivals
from workloads.generators.kinds import KINDS, GeneratorKind
from workloads.generators.prefixes import turns_of, with_parts

__all__ = ["KINDS", "GeneratorKind", "Workload", "generate", "instance_of"]
TICK = Fraction(1, 40)
MOST = 10_000_000  # requests that a workload may have


@dataclass(frozen=True)
class Workload:
    """Requests of a kind: `n` of them, or those that arrive within `minutes`, or whichever ends first.

    Without `rate` (per second) all arrive at tick 0; with it as a Poisson process, or with Gamma gaps of coefficient of
    variation `cv`. `tick` is in seconds; objectives are seconds to the first token, and of latency per token generated.
    Requests do not depend on the arrivals.
    """

    kind: str
    n: int | None = None
    rate: Fraction | None = None
    cv: Fraction | None = None
    minutes: Fraction | None = None
    seed: int = 0
    tick: Fraction = TICK
    slo_ttft: Fraction | None = None
    slo_normalized: Fraction | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown("kind of requests", self.kind, KINDS)
        for name in self.parameters:
            if name not in KINDS[self.kind].parameters:
                takes = ", ".join(f"--{known}" for known in KINDS[self.kind].parameters) or "none of its own"
                raise BadInput(f"--{name} means nothing for {self.kind}; its options are {takes}")
        if self.n is None and self.minutes is None:
            raise BadInput("give --n, the number of requests, or --rate and --minutes")
        if self.n is not None and not 1 <= self.n <= MOST:
            raise BadInput(f"--n is from 1 to {MOST} requests, not {self.n}")
        if self.tick <= 0:
            raise BadInput(f"a tick lasts more than 0 seconds, not {self.tick}")

    @property
    def name(self) -> str:
        """The kind and all parameters given, as one word."""
        given = {
            **self.parameters, "n": self.n, "rate": self.rate, "cv": self.cv, "minutes": self.minutes,
            "slo-ttft": self.slo_ttft, "slo-normalized": self.slo_normalized, "seed": self.seed,
        }  # fmt: skip
        return f"{self.kind}:" + ",".join(f"{name}={value}" for name, value in given.items() if value is not None)

    def requests(self) -> Iterator[Request]:
        """Draw the requests in the order of arrival; the same each time. BadInput if there are none."""
        drawn = KINDS[self.kind].draw(random.Random(f"{self.seed} requests"), self.tick, self.n, **self.parameters)
        process = random.Random(f"{self.seed} arrivals")
        times = arrivals(process, self.tick, rate=self.rate, cv=self.cv, minutes=self.minutes)
        slo, some = slo_in_ticks(self.tick, ttft=self.slo_ttft, normalized_latency=self.slo_normalized), False
        for time, request in zip(islice(times, self.n), drawn, strict=False):
            some = True
            yield request.replace(arrival=time, slo=slo)
        if not some:
            raise BadInput("no request arrives within --minutes; give more minutes, or a higher --rate")


def generate(
    kind: str,
    *,
    n: int | None = None,
    rate: Fraction | None = None,
    cv: Fraction | None = None,
    minutes: Fraction | None = None,
    seed: int = 0,
    slo_ttft: Fraction | None = None,
    slo_normalized: Fraction | None = None,
    machine: Machine | None = None,
    cost: Cost = Cost.unit(),
    tick: Fraction = TICK,
    **parameters: Any,
) -> Instance:
    """Return an instance of drawn requests, every call `free`; the arguments are the fields of `Workload`.

    `parameters` belong to the kind: `share`, `prompt` and `output`, `mix`; `systems`, `examples`, `turns`. The default
    machine is InferCept's GPT-J-6B on an A100. BadInput: an argument is out of range or means nothing here, or a
    request does not fit the machine.
    """
    from costmodels import GPT_J_6B

    workload = Workload(kind, n, rate, cv, minutes, seed, tick, slo_ttft, slo_normalized, parameters)
    return instance_of(workload, machine or GPT_J_6B, cost, tuple(workload.requests()))


def instance_of(workload: Workload, machine: Machine, cost: Cost, requests: Sequence[Request]) -> Instance:
    """Return an instance of these requests of the workload; BadInput if one does not fit."""

    def share(made: Instance) -> Instance:
        return with_parts(made, turns_of(random.Random(f"{workload.seed} requests"), **workload.parameters))

    adds = share if workload.kind == "prefixes" else None
    return build_instance(workload.kind, requests, machine, workload.name, workload.tick, cost, adds)
