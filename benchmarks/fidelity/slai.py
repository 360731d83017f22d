"""SLAI: its median time to first token beside Sarathi-Serve's, on Azure conversations."""

from __future__ import annotations

from fractions import Fraction
from statistics import mean, median

from benchmarks.data import CONVERSATIONS, released
from benchmarks.fidelity import Claim
from costmodels import INFERMAX_7B, infermax_7b
from heuristics import get_policy, trace_policy
from kvcore.instance import Instance
from kvcore.metrics import tpot, ttft
from workloads.importers import read_azure

COUNT = 1_000
SECOND = Fraction(1, 10**9)
"""A tick of the cost."""


def claims() -> list[Claim]:
    """Measure what SLAI reports; only where KVBOUND_DATA has the Azure conversations."""
    path = released(CONVERSATIONS)
    if path is None:
        return []
    read = read_azure(path, cost=infermax_7b(), machine=INFERMAX_7B, tick=SECOND)
    instance = read.replace(requests=read.requests[:COUNT])
    (theirs, between), (ours, later) = (felt(instance, name) for name in ("sarathi-serve", "slai"))
    return [
        Claim(
            paper="SLAI (arXiv 2508.01002)",
            where="abstract",
            claim="median TTFT, Sarathi-Serve -> SLAI, with tokens in time (0.1 s)",
            theirs="53 % lower",
            ours=f"{theirs:.3f} -> {ours:.3f} s ({100 - 100 * ours / theirs:.0f} % lower); mean TPOT "
            f"{1000 * between:.0f} -> {1000 * later:.0f} ms",
            holds=ours < theirs and later < 0.1,
            setting=f"the first {COUNT:,} Azure conversations (2023), M 100,000, infermax-7b; the paper has ShareGPT "
            "on Mistral-7B",
        )
    ]


def felt(instance: Instance, name: str) -> tuple[float, float]:
    """Return the median TTFT and the mean TPOT of a policy, in seconds."""
    requests = trace_policy(instance, get_policy(name)).requests
    between = [float(each * SECOND) for request in requests if (each := tpot(request)) is not None]
    return float(median(ttft(request) for request in requests) * SECOND), mean(between)
