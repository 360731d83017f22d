"""InferCept (arXiv 2402.01869), Section 5: its baselines, its steps, its estimates of call times, and their waste."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise, takewhile
from statistics import median
from typing import Any

from benchmarks.data import MIXTURE, released
from benchmarks.fidelity import Claim, reported
from benchmarks.mixture import mixture
from costmodels import GPT_J_6B
from heuristics import get_policy, trace_policy
from kvcore import measures
from kvcore.trace import Trace

TOLD = reported("infercept")
SYNC = {"swap": "infercept-6b-sync"}
"""The paper's Swap is waited for; the other policies run under the cost in which transfers are beside the work."""
MODERATE, HIGH = Fraction(2), Fraction(3)
"""Requests a second: the rate of Section 5.2, for 30 minutes, and one that vLLM does not sustain, for 10."""
RATES = (MODERATE, Fraction(5, 2), HIGH, Fraction(4), Fraction(5), Fraction(6))
SUSTAINED = 100  # ms a token
STEPS = {"improved-discard": 24.5, "infercept-chunked-discard": 7.8, "infercept-swap": 12.7,
         "infercept-heuristic": 46.1, "infercept": 46.4}  # fmt: skip
"""The techniques, each added to the ones before, and by how many percent the paper lowers the latency."""
BEYOND = "vLLM is overloaded, and its queue grows with time"


@dataclass(frozen=True)
class PolicyMeasures:
    """What one policy did on one workload."""

    latency: float
    """Median over the requests of (latency - time in calls) / output, in ms a token."""
    waste: float
    """Share of the device memory, over the makespan, that is held without progress (docs/semantics.md)."""
    calls: float
    """The part of it that is held in calls."""
    recomputing: float
    """Share of the time of all batches, each divided among its tokens, that goes to recomputed tokens."""
    recomputed: int
    """Recomputed tokens."""
    moving: float
    """Share of the time of all batches that transfers add to the work."""


def claims() -> Iterator[Claim]:
    """Measure the claims of Sections 3.2, 4.4 and 5."""
    for rate in (MODERATE, HIGH):
        yield from baselines(rate)
    top = {name: highest(name) for name in ("vllm", "infercept")}
    ratio, shown = top["infercept"] / top["vllm"], {name: float(rate) for name, rate in top.items()}
    yield claim("sustained", ratio >= Fraction(8, 5), None, ratio=float(ratio), most=float(max(RATES)), limit=SUSTAINED,
                **shown)  # fmt: skip
    for rate in (MODERATE, HIGH):
        yield from steps(rate)
    yield from wastes(MODERATE)
    oracle, guess, profiled = (
        run(name, MODERATE).latency for name in ("infercept", "infercept-elapsed", "infercept-profiled")
    )
    yield claim("elapsed", oracle / guess > 0.9, MODERATE, percent=100 * oracle / guess,
                profiled=100 * oracle / profiled)  # fmt: skip


def baselines(rate: Fraction) -> Iterator[Claim]:
    """Section 5.1: latencies at one rate, below or above what vLLM sustains."""
    ms = {name: run(name, rate).latency for name in ("vllm", "improved-discard", "preserve", "swap", "infercept")}
    row = ", ".join(f"{value:.1f}" for value in ms.values())
    best = min(ms, key=lambda name: ms[name])
    gain, as_released = ms["vllm"] / ms["infercept"], run("infercept-as-released", rate).latency
    yield claim("gain", gain >= 1.9, rate, gain=gain, beyond="" if gain <= 5.7 else BEYOND)
    yield claim("lowest", best == "infercept", rate, row=row, released=as_released)
    second = min((name for name in ms if name != "infercept"), key=lambda name: ms[name])
    yield claim("preserve", second == "preserve", rate, row=row)


def highest(name: str) -> Fraction:
    """Return the highest of the rates up to which the median normalized latency is below the limit."""
    good = takewhile(lambda rate: run(name, rate, 10).latency < SUSTAINED, RATES)
    return max(good, default=RATES[0])


def steps(rate: Fraction) -> Iterator[Claim]:
    """Section 5.2: each technique added to the ones before."""
    ms = {name: run(name, rate).latency for name in ("vllm", *STEPS)}
    for (name, percent), (before, after) in zip(STEPS.items(), pairwise(ms.values()), strict=True):
        why = f"step-{name}" if name in ("improved-discard", "infercept") else "step"
        yield claim(why, after < before, rate, name=name, percent=percent, before=before, after=after,
                    more=-100 * (1 - after / before))  # fmt: skip


def wastes(rate: Fraction) -> Iterator[Claim]:
    """Sections 3.2 and 5.2: what is wasted."""
    discard, preserve, swap, infercept = (run(name, rate) for name in ("vllm", "preserve", "swap", "infercept"))
    least = 1 - infercept.recomputed / discard.recomputed
    waste = min(discard.waste, preserve.waste, swap.waste)
    for key, share, holds in (
        ("discard-waste", discard.recomputing, discard.recomputing > 0.3),
        ("swap-waste", swap.moving, swap.moving > 0.25),
        ("preserve-waste", preserve.calls, preserve.calls > 0.4),
        ("saved", least, least > 0.6),
        ("waste", infercept.waste, infercept.waste < waste),
    ):
        yield claim(key, holds, rate, percent=100 * share)


def claim(key: str, holds: bool, rate: Fraction | None, **measured: Any) -> Claim:
    """Return a claim on the mixture at a rate (None: ten minutes at each of several)."""
    speed = f"{float(rate):g} a second for {minutes(rate)} minutes" if rate else "10 minutes at each rate"
    setting = f"{'the released' if released(MIXTURE) else 'a generated'} mixture, {speed}, seed 0, GPT-J-6B on an A100"
    return TOLD(key, holds, setting=setting, **measured)


def minutes(rate: Fraction) -> int:
    """Return for how long requests arrive."""
    return 30 if rate == MODERATE else 10


@cache
def run(name: str, rate: Fraction, length: int | None = None) -> PolicyMeasures:
    """Run a policy on the mixture, for so many minutes; the trace is not kept."""
    length = length or minutes(rate)
    trace = trace_policy(mixture(rate, length, 0, SYNC.get(name, "infercept-6b")), get_policy(name))
    report = measures(trace)
    tick = trace.instance.tick_seconds
    latencies = [Fraction(row["normalized_latency_without_calls"]) for row in report["requests"].values()]
    held = report["makespan"] * GPT_J_6B.blocks(GPT_J_6B.memory or 0) * GPT_J_6B.block
    moved = report["tokens_swapped_out"] + report["tokens_swapped_in"]
    busy = report["busy-time"]
    return PolicyMeasures(
        latency=float(median(latencies) * tick * 1000),
        waste=report["waste"]["total"] / held,
        calls=report["waste"]["calls"] / held,
        recomputing=recomputing(trace) / busy,
        recomputed=report["tokens_recomputed"],
        moving=moved * 400 / busy if name in SYNC else 0.0,  # 0.04 ms a token, at ticks of 100 ns
    )


def recomputing(trace: Trace) -> float:
    """Return the ticks that go to recomputed tokens."""
    ticks = {}
    first = 0
    for batches in trace.runs:
        if batches.features.tokens:
            ticks[first] = (batches.ends[0] - batches.start) / batches.features.tokens
        first += len(batches.ends)
    spans = (span for request in trace.requests for span in request.spans)
    return sum(span.recomputed * ticks[span.batch] for span in spans if span.recomputed)
