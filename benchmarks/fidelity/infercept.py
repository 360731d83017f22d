"""InferCept (arXiv 2402.01869), Section 5: its baselines, its steps, its estimates of call times, and their waste."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from statistics import median

from benchmarks.data import MIXTURE, released
from benchmarks.fidelity import Claim
from benchmarks.mixture import mixture
from costmodels import GPT_J_6B
from heuristics import get_policy, trace_policy
from kvcore import measures
from kvcore.trace import Trace

PAPER = "InferCept"
SYNC = {"swap": "infercept-6b-sync"}
"""The paper's Swap is waited for; the other policies run under the cost in which transfers are beside the work."""
MODERATE, HIGH = Fraction(2), Fraction(3)
"""Requests a second: the rate of Section 5.2, for 30 minutes, and one that vLLM does not sustain, for 10."""
RATES = (MODERATE, Fraction(5, 2), HIGH, Fraction(4), Fraction(5), Fraction(6))
SUSTAINED = 100  # ms a token


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


def claims() -> list[Claim]:
    """Measure the claims of Sections 3.2, 4.4 and 5."""
    return [*baselines(), *sustained(), *steps(), *wastes(), elapsed()]


def baselines() -> list[Claim]:
    """Section 5.1: latencies at one rate, below and above what vLLM sustains."""
    found = []
    for rate in (MODERATE, HIGH):
        ms = {name: run(name, rate).latency for name in ("vllm", "improved-discard", "preserve", "swap", "infercept")}
        row = ", ".join(f"{name} {value:.1f}" for name, value in ms.items())
        best = min(ms, key=lambda name: ms[name])
        second = min((name for name in ms if name != "infercept"), key=lambda name: ms[name])
        gain, released = ms["vllm"] / ms["infercept"], run("infercept-as-released", rate).latency
        found += [
            claim("Section 5.1", "InferCept's normalized latency over vLLM's, at one rate", "1.9 to 5.7 times lower",
                  f"{gain:.1f} times lower", gain >= 1.9, rate, "" if gain <= 5.7 else
                  "vLLM is beyond what it sustains: its queue, and this figure, grow with the minutes"),
            claim("Section 5.1", "InferCept has the lowest median normalized latency", "yes",
                  f"{row} ms; infercept-as-released {released:.1f} ms", best == "infercept", rate),
            claim("Section 5.1", "Preserve is the best of the others", "yes", f"{row} ms", second == "preserve", rate,
                  "" if second == "preserve" else "the KV of calls fills the memory, and new requests wait for it"),
        ]  # fmt: skip
    return found


def sustained() -> list[Claim]:
    """Section 5.1: the load that each sustains."""
    top = {name: highest(name) for name in ("vllm", "infercept")}
    ratio = top["infercept"] / top["vllm"]
    return [
        claim("Section 5.1", "the rate that InferCept sustains over vLLM's", "up to 1.6 times",
              f"{float(ratio):.1f} times ({float(top['infercept']):g} of {float(max(RATES)):g} tried, and "
              f"{float(top['vllm']):g} a second below {SUSTAINED} ms a token)", ratio >= Fraction(8, 5), None,
              "a batch costs the same here however much KV it reads, which favours full batches")
    ]  # fmt: skip


def highest(name: str) -> Fraction:
    """Return the highest of the rates up to which the median normalized latency is below the limit."""
    sustained = RATES[0]
    for rate in RATES:
        if run(name, rate, 10).latency >= SUSTAINED:
            break
        sustained = rate
    return sustained


def steps() -> list[Claim]:
    """Section 5.2: each technique added to the ones before."""
    names = ("vllm", "improved-discard", "infercept-chunked-discard", "infercept-swap", "infercept-heuristic",
             "infercept")  # fmt: skip
    theirs = (24.5, 7.8, 12.7, 46.1, 46.4)
    found = []
    for rate in (MODERATE, HIGH):
        ms = [run(name, rate).latency for name in names]
        for before, after, name, percent in zip(ms[:-1], ms[1:], names[1:], theirs, strict=True):
            ours = 100 * (1 - after / before)
            found.append(
                claim("Section 5.2", f"{name}, after the step before: normalized latency", f"-{percent} %",
                      f"{before:.1f} to {after:.1f} ms ({-ours:+.1f} %)", ours > 0, rate, WHY.get((name, ours > 0), ""))
            )  # fmt: skip
    return found


WHY = {
    ("improved-discard", False): "no request waits long at this rate (0.04 s on average after a call, 7.0 s at 3 a "
    "second), so the place in the queue hardly matters",
    ("infercept", False): "within 10 minutes at 2 a second it moves 1,082 of the 1,374 calls of less than 0.1 s, of "
    "which the heuristic preserves 1,373, and discards 789 calls, not 239, where its limits take no more: 299,000 "
    "tokens are recomputed, not 72,000",
}
"""Why a step does not lower the latency."""


def wastes() -> list[Claim]:
    """Sections 3.2 and 5.2: what is wasted."""
    rate = MODERATE
    discard, preserve, swap, infercept = (run(name, rate) for name in ("vllm", "preserve", "swap", "infercept"))
    least = 1 - infercept.recomputed / discard.recomputed
    return [
        claim("Section 3.2", "share of the forward time that Discard recomputes in", "37 to 40 %",
              f"{100 * discard.recomputing:.0f} %", discard.recomputing > 0.3, rate,
              "the batch's fixed time is divided among its tokens, most of which are recomputed"),
        claim("Section 3.2", "share of the time that Swap waits for transfers", "over 25 %",
              f"{100 * swap.moving:.0f} %", swap.moving > 0.25, rate),
        claim("Section 3.2", "share of the memory that calls hold under Preserve", "nearly half, most of the time",
              f"{100 * preserve.calls:.0f} % on average", preserve.calls > 0.4, rate),
        claim("Section 5.1", "recomputation that InferCept saves of Discard's", "over 60 % of its waste",
              f"{100 * least:.0f} % of its tokens", least > 0.6, rate),
        claim("Section 5.2", "memory that InferCept wastes", "0.69 %", f"{100 * infercept.waste:.2f} %",
              infercept.waste < min(discard.waste, preserve.waste, swap.waste), rate,
              "measured as docs/semantics.md has it; the least of all here as there"),
    ]  # fmt: skip


def elapsed() -> Claim:
    """Section 4.4: the elapsed time for the duration of a call."""
    oracle, guess, profiled = (
        run(name, MODERATE).latency for name in ("infercept", "infercept-elapsed", "infercept-profiled")
    )
    return claim("Section 4.4", "performance with the elapsed time, of that with an oracle", "93 %",
                 f"{100 * oracle / guess:.0f} % (with the profile of the types {100 * oracle / profiled:.0f} %)",
                 oracle / guess > 0.9, MODERATE,
                 "above 100 %: without a known long call, none is dropped before the limit takes it")  # fmt: skip


def claim(where: str, what: str, theirs: str, ours: str, holds: bool, rate: Fraction | None, why: str = "") -> Claim:
    """Return a claim on the mixture at a rate (None: ten minutes at each of several)."""
    speed = f"{float(rate):g} requests a second for {minutes(rate)} minutes" if rate else "10 minutes at each rate"
    setting = f"{'the released' if released(MIXTURE) else 'a generated'} mixture, {speed}, seed 0, GPT-J-6B on an A100"
    return Claim(PAPER, where, what, theirs, ours, holds, setting, why)


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
