"""AugServe: goodput by rate and burstiness, and what its two parts do."""

from __future__ import annotations

from fractions import Fraction

from benchmarks.fidelity.claim import Claim
from benchmarks.mixture import bursts, feel, known, mixture
from heuristics import Policy
from heuristics.policies.augserve import AugServe
from heuristics.policies.augserve_batching import AugServeBatching
from kvcore.instance import Instance

PAPER = "AugServe (arXiv 2512.04013)"
MINUTES = 5
BUSY = 9
"""Requests a second at which memory is short for AugServe."""
WELL_SERVED = (
    "The other serves this load as well: chunks, and KV preserved or swapped, leave memory free here. The likely "
    "reason is the machine, which is larger for its model than the paper's."
)


def claims() -> list[Claim]:
    """Measure what AugServe reports."""
    return [*by_rate(), *by_burstiness(), first_token(), *ablation()]


def baselines() -> list[str]:
    return ["vllm", "infercept"] if known("infercept") else ["vllm"]


def by_rate() -> list[Claim]:
    """Measure at the paper's rates, and at one where memory is as short here as it was there."""
    theirs = {2: (0.22, 0.27, 0.60), 3: (0.15, 0.21, 0.57), 4: (0.11, 0.16, 0.51), BUSY: None}
    return [
        claim
        for rate, figures in theirs.items()
        for claim in goodput(
            mixture(rate, MINUTES), f"Table 3, rate {rate}" if figures else f"Table 3, at rate {BUSY}", figures,
            f"InferCept mixture, {rate} a second for {MINUTES} minutes, GPT-J-6B cost and machine, seed 1",
        )
    ]  # fmt: skip


def by_burstiness() -> list[Claim]:
    theirs = {
        (2, "1"): (0.22, 0.28, 0.87),
        (2, "2"): (0.05, 0.08, 0.47),
        (3, "1"): (0.15, 0.20, 1.16),
        (3, "2"): (0.04, 0.06, 0.35),
    }
    return [
        claim
        for (rate, cv), figures in theirs.items()
        for claim in goodput(
            bursts(rate, Fraction(cv), MINUTES), f"Table 6, rate {rate}, CV {cv}", figures,
            f"drawn after InferCept's Table 1, {rate} a second with CV {cv} for {MINUTES} minutes, GPT-J-6B cost and "
            "machine, seed 1",
        )
    ]  # fmt: skip


def goodput(instance: Instance, where: str, theirs: tuple[float, float, float] | None, setting: str) -> list[Claim]:
    """Compare with each of the two that the paper compares with."""
    ours = feel(instance, "augserve", MINUTES).goodput
    made = []
    for k, name in enumerate(baselines()):
        other = feel(instance, name, MINUTES).goodput
        made.append(
            Claim(
                paper=f"{PAPER}, {where}",
                claim=f"goodput in requests a second, {name} -> AugServe",
                theirs="rises" if theirs is None else f"{theirs[k]:.2f} -> {theirs[2]:.2f}",
                ours=f"{other:.3f} -> {ours:.3f}",
                holds=ours > other,
                setting=setting,
                why="" if ours > 1.1 * other else WELL_SERVED,
            )
        )
    return made


def first_token() -> Claim:
    instance = mixture(5, MINUTES)
    ours, vllm = (feel(instance, name, MINUTES) for name in ("augserve", "vllm"))
    return Claim(
        paper=f"{PAPER}, Section 5.2.2",
        claim="mean TTFT at 5 requests a second is far below vLLM's",
        theirs="90.5 % lower",
        ours=f"{vllm.ttft:.2f} -> {ours.ttft:.2f} s",
        holds=ours.ttft < vllm.ttft,
        setting=f"InferCept mixture, 5 a second for {MINUTES} minutes, GPT-J-6B cost and machine, seed 1",
    )


def ablation() -> list[Claim]:
    """Compare on a machine that takes twice the 384 tokens, so that the limit can grow as well as shrink."""
    instance = mixture(BUSY, MINUTES)
    instance = instance.replace(machine=instance.machine.replace(batch_tokens=768))
    one = Fraction(1)
    parts: dict[str, Policy] = {
        "fixed": AugServeBatching(target_max=384, beta_low=one, beta_high=one),
        "dynamic": AugServeBatching(target_max=384),
        "both": AugServe(target_max=384),
    }
    felt = {name: feel(instance, policy, MINUTES) for name, policy in parts.items()}
    setting = f"InferCept mixture, {BUSY} a second for {MINUTES} minutes, 384 tokens a batch, or 192 to 768"
    steps = (("fixed", "dynamic", "the dynamic token limit", "0.28 -> 0.35"), ("dynamic", "both", "the ranking", ""))
    return [
        Claim(
            paper=f"{PAPER}, Figure 10",
            claim=f"{what} raises goodput",
            theirs=theirs or "rises further",
            ours=f"{felt[before].goodput:.2f} -> {felt[after].goodput:.2f} a second, TTFT {felt[before].ttft:.1f} -> "
            f"{felt[after].ttft:.1f} s",
            holds=felt[after].goodput > felt[before].goodput,
            setting=setting,
            why="The limit follows the free memory, and memory, not the budget, is what lacks here."
            if felt[after].goodput < 1.1 * felt[before].goodput
            else "",
        )
        for before, after, what, theirs in steps
    ]
