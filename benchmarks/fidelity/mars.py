"""MARS and LAMPS: latency by rate, without the scheduling, under noise, and with starvation prevention."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.fidelity import Claim
from benchmarks.mixture import feel, mixture
from heuristics.policies.mars import Mars

PAPER = "MARS (arXiv 2410.18248)"
SHORT, LONG = 5, 8
"""Minutes of arrivals."""
BUSY = 9
"""Requests a second at which memory is short for MARS."""
CROWDED = f"{BUSY} a second for {LONG} minutes, GPT-J-6B cost and machine"

WHY_CLOSE = (
    "MARS ran InferCept's released code, which at this rate, for 5 minutes, has 65.2 s beside 63.7 s of `mars`; the "
    "paper's rules, with their limit on the tokens swapped in a batch, fall behind"
)


def claims() -> list[Claim]:
    """Measure what MARS reports."""
    return [*by_rate(), order(), noise(), starvation(), handling(), released()]


def claim(where: str, what: str, theirs: str, ours: str, holds: bool, setting: str, why: str = "") -> Claim:
    """Return a claim of the paper, on the mixture."""
    return Claim(PAPER, where, what, theirs, ours, holds, f"InferCept mixture, {setting}, seed 1", why)


def by_rate() -> list[Claim]:
    rows = []
    for rate in (3, 4, 5):
        mars, vllm = (feel(mixture(rate, SHORT), name, SHORT) for name in ("mars", "vllm"))
        rows.append(
            claim(f"Figure 5, rate {rate}", "mean latency and mean TTFT are below vLLM's",
                  "multi-API: latency up to 78 %, TTFT over 89 % lower",
                  f"latency {vllm.mean:.0f} -> {mars.mean:.0f} s, TTFT {vllm.ttft:.2f} -> {mars.ttft:.2f} s",
                  mars.mean < vllm.mean and mars.ttft < vllm.ttft, f"{SHORT} minutes, GPT-J-6B on 40 GiB")
        )  # fmt: skip
    return rows


def order() -> Claim:
    mars, fcfs = (feel(mixture(BUSY, LONG), name, LONG) for name in ("mars", "mars-fcfs"))
    return claim(
        "Figure 6", "the ranking lowers mean latency and TTFT of MARS without scheduling", "across all metrics",
        f"latency {fcfs.mean:.1f} -> {mars.mean:.1f} s, TTFT {fcfs.ttft:.1f} -> {mars.ttft:.1f} s, "
        f"P99 latency {fcfs.p99:.0f} -> {mars.p99:.0f} s", mars.mean < fcfs.mean and mars.ttft < fcfs.ttft, CROWDED,
        "Memory is short here only from about 8 requests a second, where the paper's system was from 4: below, "
        "no request waits and the order does not matter.",
    )  # fmt: skip


def handling() -> Claim:
    fcfs, infercept = (feel(mixture(BUSY, LONG), name, LONG) for name in ("mars-fcfs", "infercept"))
    close = abs(fcfs.mean - infercept.mean) <= 0.2 * infercept.mean
    found = claim(
        "Figure 6", "MARS without scheduling is close to InferCept", "close, slightly worse",
        f"mean latency {infercept.mean:.1f} s of InferCept, {fcfs.mean:.1f} s", close, CROWDED,
        "" if close else WHY_CLOSE,
    )  # fmt: skip
    return replace(found, setting=f"{found.setting}; close is within 20 %")


def noise() -> Claim:
    believed = ("exact", "noise:0.05", "noise:0.1", "noise:0.3", "noise:0.5")
    felt = [feel(mixture(BUSY, LONG), "mars", LONG, each) for each in believed]
    medians, means = [one.median for one in felt], [one.mean for one in felt]
    shown = [", ".join(f"{value:.1f}" for value in values) for values in (medians, means)]
    return claim(
        "Figure 7", "the median latency rises with the error of the predictions, p = 0, 5, 10, 30, 50 %, modestly",
        "rises at 8 to 10 requests a second", f"{shown[0]} s; mean {shown[1]} s",
        medians[0] <= min(medians[1:]) and medians[-1] == max(medians), CROWDED,
        "The errors cost the long requests most: the mean rises with p, and the median hardly moves.",
    )  # fmt: skip


def starvation() -> Claim:
    with_it, without = (feel(mixture(BUSY, LONG), Mars(threshold=waits), LONG) for waits in (100, 10**9))
    return claim(
        "LAMPS Figure 9", "starvation prevention after 100 batches lowers the tail latency", "lower P99",
        f"P99 latency {without.p99:.0f} -> {with_it.p99:.0f} s, mean {without.mean:.1f} -> {with_it.mean:.1f} s",
        with_it.p99 < without.p99, CROWDED,
    )  # fmt: skip


def released() -> Claim:
    """Compare the paper's reading with the released code, in which calls never swap and the score is another."""
    names = ("mars", "mars-as-released", "infercept-as-released")
    felt = {rate: {name: feel(mixture(rate, SHORT), name, SHORT) for name in names} for rate in (2, 3, BUSY)}
    rows = {rate: ", ".join(f"{name} {one.mean:.1f} s" for name, one in row.items()) for rate, row in felt.items()}
    return claim(
        "as released", "the released code has a lower mean latency than InferCept's released code",
        "up to 78 % lower (multi-API)", "; ".join(f"{rate} a second: {row}" for rate, row in rows.items()),
        felt[BUSY]["mars-as-released"].mean < felt[BUSY]["infercept-as-released"].mean,
        f"{SHORT} minutes, GPT-J-6B on 40 GiB",
        "no call swaps in the released code (its formula put a swap above a recomputation in all of 99,360 states "
        "tried): at 9 a second InferCept's code without a host has 91.0 s. The ranking itself gains: by arrival "
        "MARS's code has 112.7 s. Its benchmark leaves out what is not done within 30 minutes",
    )  # fmt: skip
