"""INFERMAX's claims: Sections 4.2 to 4.6, Figure 15, and Section 6 on the Azure conversations."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.data import CONVERSATIONS, released
from benchmarks.fidelity import Claim, reported
from costmodels import INFERMAX_70B, infermax_7b, infermax_70b
from heuristics import get_policy, trace_policy
from kvcore import Instance, Machine, Request, Segment
from kvcore.metrics import makespan, tpot, ttft
from kvcore.trace import Trace
from solvers import solve
from workloads.builtin import builtin_instance
from workloads.generators.kinds import GROUPS
from workloads.importers import read_azure

claim = reported("infermax")
TABLE_1 = ("vllm", "sarathi", "sarathi-c", "sarathi-nocp", "vllm-hy", "sarathi-nohy")
PAIRS = ("vllm", "sarathi", "sarathi-c")
LENGTHS = (1, 8, 32, 128, 512, 1024)
RANKS = ("rank-org-as-released", "rank-i-as-released", "rank-o-as-released")
DEPLOYABLE = ("vllm", "sarathi-serve", "sarathi-c")
RESERVING = ("vllm-ef", "sarathi-serve-ef", "sarathi-c-ef")
SORTING = ("infermax", "infermax-histogram")
SECOND = Fraction(1, 10**9)
"""A tick of these costs."""
MIXES = ("SISO+SILO", "LILO+SISO", "SILO+LISO", "LISO+SISO", "LILO+SILO", "LILO+LISO")


class Times(NamedTuple):
    """Total latency, mean time to first token and mean time per output token, in seconds, and evictions."""

    latency: float
    ttft: float
    tpot: float
    evictions: int

    @property
    def tpot_ms(self) -> float:
        """The time per output token in ms."""
        return 1000 * self.tpot


def times(trace: Trace) -> Times:
    """Return the times of a run."""
    second, requests = float(trace.instance.tick_seconds), trace.requests
    first, later = (sum(float(of(request) or 0) for request in requests) / len(requests) for of in (ttft, tpot))
    evictions = sum(len(batch.drop) for batch in trace.schedule.batches)
    return Times(float(makespan(trace)) * second, first * second, later * second, evictions)


def workload(lengths: Iterable[tuple[int, int]], memory: int | None = 100_000) -> Instance:
    """Return requests of these prompts and outputs, all there at tick 0, on the 7B model with C = 4096."""
    requests = tuple(
        Request(id=f"R{i}", prompt=prompt, segments=(Segment(decode=output),))
        for i, (prompt, output) in enumerate(lengths, start=1)
    )
    machine = Machine(memory=memory, batch_tokens=4096, evict=True)
    return Instance(machine=machine, cost=infermax_7b(), tick_seconds=SECOND, requests=requests)


@cache
def uniform(policy: str, prompt: int, output: int, count: int, memory: int = 100_000) -> Times:
    """Return the times of a policy on `count` requests of this prompt and output."""
    return times(trace_policy(workload([(prompt, output)] * count, memory), get_policy(policy)))


def largest(
    measure: str, of: str, over: str, output: int, count: int = 1024, prompts: Iterable[int] = LENGTHS,
    memory: int = 100_000,
) -> float:  # fmt: skip
    """Return the most times that a measure of one policy is that of another, for prompts of these lengths."""
    pairs = ([uniform(policy, prompt, output, count, memory) for policy in (of, over)] for prompt in prompts)
    return max(float(getattr(one, measure) / getattr(other, measure)) for one, other in pairs)


def claims() -> list[Claim]:
    """Measure all claims; those on the Azure trace only where KVBOUND_DATA has it."""
    found = [*low_contention(), *high_contention(), *eviction_free(), *memory(), *ranking(), *figure_15()]
    path = released(CONVERSATIONS)
    return found if path is None else [*found, *section_6(path)]


def low_contention() -> Iterator[Claim]:
    """Section 4.2, Figure 4."""
    grid = [(prompt, output) for output in (32, 1024) for prompt in LENGTHS]
    evicted = sum(uniform(policy, prompt, output, 32).evictions for policy in TABLE_1 for prompt, output in grid)
    yield claim("none-evicted", evicted == 0, evicted=evicted)
    worst = max(
        uniform("vllm", prompt, output, 32).latency / min(uniform(p, prompt, output, 32).latency for p in TABLE_1)
        for prompt, output in grid
    )
    yield claim("vllm-least", worst < 1.01, worst=worst)
    sarathi, vllm = uniform("sarathi", 1024, 32, 32), uniform("vllm", 1024, 32, 32)
    holds = sarathi.latency > vllm.latency and sarathi.tpot < vllm.tpot
    yield claim("sarathi-tpot", holds, sarathi=sarathi, vllm=vllm)
    few, many = (largest("latency", "sarathi-nohy", "vllm", 1024, 32, [prompt]) for prompt in (8, 1024))
    yield claim("no-hybrid", many > 1.2 > few, few=few, many=many)


def high_contention() -> Iterator[Claim]:
    """Section 4.3, Figure 5."""
    more = largest("latency", "sarathi", "vllm", 32)
    yield claim("sarathi-latency", more > 1, percent=100 * more - 100)
    less = max(largest("tpot", "vllm", "sarathi", output) for output in (32, 1024))
    yield claim("sarathi-lower-tpot", less > 1.5, less=less)
    first, long = ([uniform(p, prompt, 32, 1024).ttft for p in ("vllm", "sarathi")] for prompt in (32, 1024))
    yield claim("vllm-ttft", first[0] < first[1], first=first, long=long)
    by_output = [uniform("vllm", 32, output, 1024).evictions for output in (32, 1024)]
    by_prompt = [uniform("vllm", prompt, 1024, 1024).evictions for prompt in (32, 1024)]
    holds = by_output[0] < by_output[1] and by_prompt[0] > by_prompt[1]
    yield claim("evictions", holds, by_output=by_output, by_prompt=by_prompt)


def eviction_free() -> Iterator[Claim]:
    """Section 4.4, Figure 8."""
    rates = [largest("latency", p, f"{p}-ef", 1024) for p in PAIRS]
    yield claim("eviction-free", min(rates) > 1.02, percents=[100 * rate - 100 for rate in rates])
    later = [largest("ttft", f"{p}-ef", p, 1024) for p in PAIRS]
    yield claim("eviction-free-ttft", later[0] > 10 and later[2] > 10, later=later)
    lower = [largest("tpot", p, f"{p}-ef", 1024) for p in PAIRS]
    yield claim("eviction-free-tpot", min(lower) > 2, lower=lower)


def memory() -> Iterator[Claim]:
    """Section 4.5, Figure 9."""
    for memory, last in ((100, 64), (1_000, 512)):
        prompts = [2**k for k in range(last.bit_length())]
        gains = [largest("latency", f"{p}-ef", p, 32, 1024, prompts, memory) for p in ("vllm", "sarathi")]
        yield claim(f"memory-{memory}", min(gains) > 1.02, gains=gains)
    loss = max(largest("latency", p, f"{p}-ef", 32, memory=10_000) for p in PAIRS)
    yield claim("memory-10000", loss > 1.05, loss=loss)


@cache
def mixed(policy: str, mix: str, count: int) -> Times:
    """Return the times of a policy on a shuffled mix of two groups, half of the requests each."""
    draw = random.Random(f"{mix}:{count}:0")
    lengths = []
    for group in mix.split("+"):
        prompts, outputs = GROUPS[group.lower()]
        lengths += [(draw.choice(prompts), draw.choice(outputs)) for _ in range(count // 2)]
    draw.shuffle(lengths)
    return times(trace_policy(workload(lengths), get_policy(policy)))


def ranking() -> Iterator[Claim]:
    """Section 4.6, Figures 10 to 12."""
    org, prompts, outputs = RANKS
    cases = {mix: {p: mixed(p, mix, 1024) for p in RANKS} for mix in MIXES}
    lilo, text = cases["LILO+SISO"], [mixed(p.removesuffix("-as-released"), "LILO+SISO", 1024) for p in RANKS]
    gain = max(lilo[p].latency for p in (org, outputs)) / lilo[prompts].latency
    holds = lilo[prompts].latency <= min(row.latency for row in lilo.values()) and gain > 1.02
    yield claim("rank-latency", holds, lilo=[lilo[p] for p in RANKS], gain=gain, text=text)
    best = {mix: max(row[p].ttft for p in RANKS) / row[prompts].ttft for mix, row in cases.items()}
    del best["LILO+LISO"]
    behind = [mix for mix in best if cases[mix][prompts].ttft > min(r.ttft for r in cases[mix].values()) * 1.01]
    yield claim("rank-ttft", not behind, inside=len(best) - len(behind), of=len(best), most=max(best.values()),
                behind=" and ".join(behind))  # fmt: skip
    long = [mix for mix in MIXES if "LILO" in mix]
    tpot = max(max(cases[mix][p].tpot for p in (org, outputs)) / cases[mix][prompts].tpot for mix in long)
    yield claim("rank-tpot", tpot > 1.02, tpot=tpot)
    output = max(cases[mix][prompts].tpot / cases[mix][outputs].tpot for mix in MIXES if mix not in long)
    yield claim("rank-output", output > 1.02, output=output)


def figure_15() -> Iterator[Claim]:
    """Section 5.1: vLLM and its eviction-free variant beside the optimum."""
    rows = {}
    for prompt in (2**k for k in range(11)):
        instance = builtin_instance(f"infermax-figure15:I={prompt}")
        best = solve(instance, "busy-time")
        assert best.status in ("optimal", "claimed")
        assert best.value is not None
        policies = [trace_policy(instance, get_policy(p)) for p in ("vllm", "vllm-ef")]
        rows[prompt] = [times(trace).latency * 10**9 / float(best.value) for trace in policies]
    for mine, key in enumerate(("figure-15-short", "figure-15-long")):
        part = [row for prompt, row in rows.items() if (prompt > 32) == mine]
        near, far = max(row[mine] for row in part), max(row[1 - mine] for row in part)
        yield claim(key, near < 1.1 and far > near, near=100 * near - 100, far=100 * far - 100)


def as_generated(path: Path) -> Instance:
    """Return the Azure conversations as the released generator makes them: lengths shuffled, the first time skipped."""
    instance = read_azure(path, cost=infermax_70b(), machine=INFERMAX_70B, tick=SECOND)
    rows = instance.requests
    order = np.random.RandomState(42).permutation(len(rows))  # what pandas draws for this seed
    requests = [rows[i].replace(id=later.id, arrival=later.arrival) for later, i in zip(rows[1:], order, strict=False)]
    return instance.replace(requests=tuple(requests))


def section_6(path: Path) -> Iterator[Claim]:
    """Section 6, Figure 16: the Azure conversations on the 70B model."""
    instance = as_generated(path)
    unlimited = instance.replace(machine=INFERMAX_70B.replace(memory=None, host_memory=None))
    bound = times(trace_policy(unlimited, get_policy("vllm"))).latency
    rows = {name: times(trace_policy(instance, get_policy(name))) for name in DEPLOYABLE + RESERVING + SORTING}
    least = {names: min(rows[name].latency for name in names) for names in (DEPLOYABLE, RESERVING, SORTING)}
    shown = {
        names: {"count": len(instance.requests),
                "makespans": ", ".join(f"{name} {rows[name].latency:,.0f} s" for name in names)}
        for names in least
    }  # fmt: skip
    yield claim("deployable", least[DEPLOYABLE] > 1.1 * bound, bound=bound, **shown[DEPLOYABLE])
    slowest = max(rows[name].latency for name in DEPLOYABLE[:2])
    parts = [(top - least[SORTING]) / (top - bound) for top in (slowest, least[DEPLOYABLE])]
    yield claim("sorting", least[SORTING] < least[DEPLOYABLE], parts=parts, **shown[SORTING])
    yield claim("reserving", 1.01 * least[SORTING] < least[RESERVING], **shown[RESERVING])
