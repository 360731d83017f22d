"""The families of the library: which instances each has, and what makes them.

`python -m library.families` adds what the folder of records does not have yet; what is made of traces needs
KVBOUND_DATA (docs/data.md).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from kvcore.errors import BadInput
from kvcore.files import parse
from kvcore.instance import Instance
from library.library import Library
from workloads.builtin import WORST_OBJECTIVES, WORST_POLICIES, builtin_instance, is_builtin
from workloads.generators.kinds import MIXES

FLOW = ("total-flow-time",)
MIT = "MIT, as kvbound"
INFERCEPT = "import infercept infercept/merged_exp_uniform_lengths.csv"
AZURE = "import azure azure2023/AzureLLMInferenceTrace"
AGENTS = "import agent-traces agent_traces/agent_requests.csv --drop-too-long --batch-tokens 2048"
REAL = {"unit": "", "6b": " --cost infercept-6b"}
"""Every batch lasts 25 ms, or what InferCept measured for GPT-J-6B on an A100."""
LENGTHS = (1, 16, 128, 1024)
"""Prompts and outputs of INFERMAX's equal requests."""


class Case(NamedTuple):
    """An instance: its name, what makes it (a built-in name or a command), and the objectives that count."""

    name: str
    source: str
    objectives: tuple[str, ...] = FLOW


class Family(NamedTuple):
    """Instances of one kind, and what they are from."""

    what: str
    origin: str
    cases: list[Case]
    licence: str = MIT


def builtin(source: str, *objectives: str) -> Case:
    """Return a built-in instance, named after its parameters."""
    return Case(re.sub("[^A-Za-z0-9]+", "-", source.replace("=", "")), source, objectives or FLOW)


def _mars() -> Iterator[Case]:
    yield builtin("mars-figure1")
    for n, seed in product((4, 6, 8, 10, 12, 15, 20, 30, 50), (0, 1)):
        yield builtin(f"mars-like:n={n},seed={seed}")


def _infercept() -> Iterator[Case]:
    for (cost, option), take, seed in product(REAL.items(), (3, 5, 10, 20), (0, 1)):
        given = " --memory 4096 --host-memory 2048 --block-size 16"
        yield Case(f"infercept-{take}-s{seed}-{cost}", f"{INFERCEPT} --take {take} --seed {seed}{given}{option}")
    for take, rate, memory, (cost, option) in product((50, 397), (1, 2, 3, 4), (15_360, 57_856), REAL.items()):
        if take == 50 or (rate in (2, 4) and memory == 57_856):
            given = f" --rate {rate} --memory {memory} --host-memory {memory} --block-size 64 --batch-tokens 384"
            name = f"infercept-{take}-r{rate}-m{memory // 1024}k-{cost}"
            yield Case(name, f"{INFERCEPT} --take {take} --seed 0{given} --partial{option}")


def _slots() -> Iterator[Case]:
    for k, evict in product((3, 4, 5, 6), (0, 1)):
        yield builtin(f"infercept-sample:k={k},evict={evict}")
    for k, chunked in product((3, 4), (0, 1)):
        yield builtin(f"infercept-ve:k={k},chunked={chunked}")
    for k, evict in product((7, 8, 10, 12, 16, 24), (0, 1)):
        yield builtin(f"infercept-slice:k={k},seed=0,evict={evict}")
    yield builtin("infercept-slice:k=16,seed=2,evict=0")


def _kinds() -> Iterator[Case]:
    for kind, take in product(("math", "qa", "ve", "chat", "image", "tts"), (2, 3)):
        given = "--seed 1 --cost infercept-6b --memory 4096 --host-memory 4096 --batch-tokens 4096"
        yield Case(f"{kind}-{take}", f"{INFERCEPT} --kind {kind} --take {take} {given}")


def _infermax() -> Iterator[Case]:
    for power in range(11):
        yield builtin(f"infermax-figure15:I={2**power}", "busy-time", "total-flow-time")
    for given in ("n=16,I=32,O=8,M=128", "n=32,I=32,O=8,M=256", "n=16,I=8,O=32,M=128", "n=64,I=64,O=16,M=640"):
        yield builtin(f"identical:{given}", "busy-time", "total-flow-time")
    for prompt, output in product(LENGTHS, LENGTHS):
        given = f"--n 32 --prompt {prompt} --output {output} --cost infermax-7b --memory 16384"
        yield Case(f"equal-I{prompt}-O{output}", f"generate fixed {given}", ("busy-time", "total-flow-time"))


def _mixes() -> Iterator[Case]:
    for mix, n in product(MIXES, (32, 256)):
        command = f"generate infermax-mix --n {n} --mix {mix} --cost infermax-7b --memory {512 * n}"
        yield Case(f"mix-{mix.replace('+', '-')}-{n}", command, ("busy-time", "total-flow-time"))


def _theory() -> Iterator[Case]:
    small = ("n=14,M=30,seed=14", "n=20,M=30,seed=0", "n=25,M=30,seed=0", "n=30,M=30,seed=0", "n=50,M=50,seed=0")
    for given in (*small, "n=400,M=1600,P=50,seed=0", "n=1000,M=800,P=50,seed=0", "n=1000,M=800,P=50,T=500,seed=0"):
        yield builtin(f"hindsight:{given}")
    for (n, memory), arrivals, seed in product(((60, 100), (80, 200), (100, 400), (200, 800)), ("", ",T={n}"), (0, 1)):
        yield builtin(f"hindsight:n={n},M={memory},P=50{arrivals.format(n=n)},seed={seed}")


def _azure() -> Iterator[Case]:
    for trace, model, (skip, take) in product(
        ("conv", "code"), ("7b", "70b"), ((0, 100), (1000, 100), (4000, 100), (0, 1000))
    ):
        command = f"{AZURE}_{trace}.csv --skip {skip} --take {take} --cost infermax-{model} --drop-too-long"
        yield Case(f"azure-{trace}-{model}-{skip}-{take}", command)
    for model in ("7b", "70b"):
        yield Case(f"azure-conv-{model}-hour", f"{AZURE}_conv.csv --cost infermax-{model} --drop-too-long")


def _agents() -> Iterator[Case]:
    for take, memory, seed in product((2, 4, 8), (150_000, 300_000), (0, 1)):
        command = f"{AGENTS} --memory {memory} --take {take} --seed {seed} --block-size 16"
        yield Case(f"agents-{take}-m{memory // 1000}k-s{seed}", command)


def _slo() -> Iterator[Case]:
    for kind, rate in product(("toolbench", "mixed", "infercept"), (2, 4, 8)):
        slo = "--slo-ttft 1 --slo-normalized 1/5 --cost infercept-6b --memory 15360"
        command = f"generate {kind} --n 40 --rate {rate} {slo}"
        yield Case(f"slo-{kind}-r{rate}", command, ("late-requests", "total-flow-time"))


MIXTURE = "real lengths and calls of InferCept's mixture (WukLab/InferCept, ICML 2024)"
WORSE = {
    ("augserve", "makespan"), ("augserve", "total-flow-time"), ("fcfs", "max-flow-time"),
    ("infercept", "total-flow-time"), ("infermax", "max-flow-time"), ("mars", "makespan"), ("mars", "max-flow-time"),
}  # fmt: skip
"""Policies and objectives for which later searches found worse instances than the second version's."""
FAMILIES: dict[str, Family] = {
    "mars": Family(
        "the worked example of MARS, and requests like it", "MARS, Figure 1; LAMPS, Figure 3", [*_mars()]
    ),
    "infercept": Family(
        "3 to 397 requests with calls, at once or at 1 to 4 a second, two memories, two costs", MIXTURE,
        [*_infercept()], "Apache-2.0",
    ),
    "slots": Family("the same in blocks of 64 tokens and slots of 1.6 s", MIXTURE, [*_slots()], "Apache-2.0"),
    "kinds": Family(
        "two or three requests of one augmentation, real costs, memory for one of them", MIXTURE, [*_kinds()],
        "Apache-2.0",
    ),
    "infermax": Family(
        "like requests: Figure 15, equal lengths, and a fixed cost that dominates", "INFERMAX, Sections 4 and 5.1",
        [*_infermax()],
    ),
    "mixes": Family("short and long prompts and outputs", "INFERMAX, Section 4.6", [*_mixes()]),
    "benchmark": Family(
        "the theory family as published: memory for one or two requests", "Jaillet et al., arXiv 2502.07115",
        [builtin(f"hindsight-benchmark:seed={seed}") for seed in range(20)],
    ),
    "theory": Family(
        "the theory family with memory for 1 to 32 requests, at once and over time", "Jaillet et al., arXiv 2502.07115",
        [*_theory()],
    ),
    "azure": Family(
        "windows of 100 and 1,000 requests of the hours of conversation and code, and the hour",
        "Azure LLM inference traces 2023 (Azure/AzurePublicDataset), Splitwise, ISCA 2024", [*_azure()], "CC-BY-4.0",
    ),
    "agents": Family(
        "sessions of coding agents: long contexts, many calls", "recordings of callanjfox/kv-cache-tester",
        [*_agents()], "Apache-2.0",
    ),
    "worst": Family(
        "where a policy is far from the best", "found by `kvbound search`",
        [
            Case(f"worst-{p}-{o}-n4-v{3 if (p, o) in WORSE else 2}", f"worst-{p}-{o}:n=4", (o,))
            for p, o in product(WORST_POLICIES, WORST_OBJECTIVES)
        ],
    ),
    "slo": Family(
        "requests with service-level objectives", "moments published by InferCept, MARS and LAMPS", [*_slo()]
    ),
}  # fmt: skip
"""Every family, by its name."""


def make(source: str) -> Instance:
    """Return what a built-in name or a command makes; commands run in the folder KVBOUND_DATA."""
    if is_builtin(source):
        return builtin_instance(source)
    command = [sys.executable, "-m", "kvbound", *source.split(), "--out", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=os.environ.get("KVBOUND_DATA"))
    if done.returncode:
        raise BadInput(f"kvbound {source}: {done.stderr.strip()}")
    return parse(Instance, done.stdout, source)


def main() -> None:
    """Add what is missing."""
    library = Library()
    for family, (_, origin, cases, licence) in FAMILIES.items():
        for name, source, objectives in cases:
            if name not in library.names:
                about = {"name": name, "family": family, "source": source, "origin": origin, "licence": licence}
                library.add(make(source), objectives, **about)
                print(f"{family}/{name}")


if __name__ == "__main__":
    main()
