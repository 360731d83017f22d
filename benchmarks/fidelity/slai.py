"""SLAI: its median time to first token beside Sarathi-Serve's, on Azure conversations."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from statistics import mean, median

from benchmarks.data import CONVERSATIONS, released
from benchmarks.fidelity import Claim, reported
from costmodels import INFERMAX_7B, infermax_7b
from heuristics import get_policy, trace_policy
from kvcore.instance import Instance
from kvcore.metrics import tpot, ttft
from workloads.importers import read_azure

COUNT = 1_000
SECOND = Fraction(1, 10**9)
"""A tick of the cost."""


def claims() -> Iterator[Claim]:
    """Measure what SLAI reports; only where KVBOUND_DATA has the Azure conversations."""
    path = released(CONVERSATIONS)
    if path is None:
        return
    read = read_azure(path, cost=infermax_7b(), machine=INFERMAX_7B, tick=SECOND)
    instance = read.replace(requests=read.requests[:COUNT])
    (theirs, between), (ours, later) = (felt(instance, name) for name in ("sarathi-serve", "slai"))
    yield reported("slai")(
        "ttft", ours < theirs and later < 0.1, theirs=theirs, ours=ours, lower=100 - 100 * ours / theirs,
        between=1000 * between, later=1000 * later, count=COUNT,
    )  # fmt: skip


def felt(instance: Instance, name: str) -> tuple[float, float]:
    """Return the median TTFT and the mean TPOT of a policy, in seconds."""
    requests = trace_policy(instance, get_policy(name)).requests
    between = [float(each * SECOND) for request in requests if (each := tpot(request)) is not None]
    return float(median(ttft(request) for request in requests) * SECOND), mean(between)
