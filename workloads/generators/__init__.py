"""Workloads drawn from what the papers publish of theirs; `docs/data.md` says where from."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from kvcore.cost import Cost
from kvcore.csv_table import build_instance
from kvcore.instance import Instance, Machine, Request
from workloads.generators.kinds import KINDS, GeneratorKind
from workloads.generators.workload import TICK, Workload

__all__ = ["KINDS", "GeneratorKind", "Workload", "generate", "instance_of"]


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
    """Return an instance of drawn requests, every call of them `free`; the arguments are the fields of `Workload`.

    `parameters` belong to the kind: `share`, `prompt` and `output`, `mix`. Unless given, the machine is GPT-J-6B on an
    A100, which InferCept measured.

    Raises:
        BadInput: an argument is out of range or means nothing here, or a request does not fit the machine.
    """
    from costmodels import GPT_J_6B

    workload = Workload(kind, n, rate, cv, minutes, seed, tick, slo_ttft, slo_normalized, parameters)
    return instance_of(workload, machine or GPT_J_6B, cost, tuple(workload.requests()))


def instance_of(workload: Workload, machine: Machine, cost: Cost, requests: Sequence[Request]) -> Instance:
    """Return an instance of the workload with these of its requests; BadInput if one does not fit."""
    return build_instance(workload.kind, requests, machine, name=workload.name, tick_seconds=workload.tick, cost=cost)
