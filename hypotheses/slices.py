"""Seeded slices of real traces: small ones with proved optima, and longer ones for policies alone.

Small ones have memory for one and a half of the largest request, the mixture half of it on the host; sessions have 2 to
8 answers, and at most 340,000 tokens.
"""

import os
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache, partial
from pathlib import Path

from costmodels.registry import get_cost
from hypotheses.hypothesis import DATA, Family
from hypotheses.small_instances import with_machine
from kvcore.instance import Instance, Machine, Request
from workloads.coarsen import coarsen
from workloads.importers import infercept_slice, read_agent_traces, read_azure, read_infercept

COUNT = 200
ROOMY = Machine(memory=None, host_memory=None, batch_tokens=512)
EVICTING = Machine(memory=None, block=16, host_memory=0, batch_tokens=512, evict=True)  # that of the long ones
SESSION_TOKENS = 340_000  # of a session in a small slice: one and a half times that is processed within a slot
MIXTURE, CONVERSATIONS, AGENTS = (
    "infercept/merged_exp_uniform_lengths.csv", "azure2023/AzureLLMInferenceTrace_conv.csv",
    "agent_traces/agent_requests.csv",
)  # fmt: skip


def _file(name: str) -> Path:
    return Path(os.environ[DATA]) / name


@cache
def _trace(name: str, memory: int | None = None) -> Instance:
    read, model = read_azure if name == CONVERSATIONS else read_agent_traces, get_cost("infermax-7b")
    if memory is None:
        return read(_file(name), machine=ROOMY)
    return read(_file(name), tick=model.tick, cost=model.make(), machine=EVICTING.replace(memory=memory))


def _conversations(trace: Instance, seed: int, count: int) -> tuple[Request, ...]:
    first = random.Random(seed).randrange(len(trace.requests) - count)
    row = trace.requests[first : first + count]
    return tuple(request.replace(arrival=request.arrival - row[0].arrival) for request in row)


def _sessions(trace: Instance, seed: int, count: int, least: int = 1) -> tuple[Request, ...]:
    few = [r for r in trace.requests if least <= len(r.segments) <= 8 and r.peak <= SESSION_TOKENS]
    return tuple(request.replace(arrival=0) for request in random.Random(seed).sample(few, count))


def _coarse(name: str, trace: str, pick: Callable[[Instance], tuple[Request, ...]], size: int) -> Instance:
    fine = _trace(trace).replace(name=name, requests=pick(_trace(trace)))
    coarse = coarsen(fine, block_tokens=size, slot_ticks=size)
    largest = max(request.peak for request in coarse.requests)
    return with_machine(coarse, memory=-(-3 * largest // 2), host_memory=0).replace(name=name)


def _long_mixture(seed: int) -> Instance:
    model, machine = get_cost("infercept-6b"), EVICTING.replace(memory=8192)
    return read_infercept(
        _file(MIXTURE), take=32, seed=seed, rate=Fraction(2), tick=model.tick, cost=model.make(), machine=machine
    )


def _long_conversations(seed: int) -> Instance:
    trace = _trace(CONVERSATIONS, 16_384)
    return trace.replace(name=f"conversations-32-{seed}", requests=_conversations(trace, seed, 32))


def _long_sessions(seed: int) -> Instance:
    trace = _trace(AGENTS, 1_000_000)
    return with_machine(trace.replace(name=f"agents-4-{seed}", requests=_sessions(trace, seed, 4)), memory=400_000)


Kind = dict[str, tuple[str, Callable[[int], Instance]]]
SMALL: Kind = {
    "mixture": ("4 requests of the InferCept mixture, blocks of 64 tokens, slots of 1.6 s",
                lambda seed: infercept_slice(_file(MIXTURE), 4, seed)),
    "conversations": ("6 Azure conversations in a row, blocks of 64 tokens, slots of 1.6 s", lambda seed: _coarse(
        f"conversations-{seed}", CONVERSATIONS, partial(_conversations, seed=seed, count=6), 64)),
    "agents": ("3 sessions of coding agents, blocks of 1,024 tokens, slots of 25.6 s", lambda seed: _coarse(
        f"agents-{seed}", AGENTS, partial(_sessions, seed=seed, count=3, least=2), 1024)),
}  # fmt: skip
LONG: Kind = {
    "mixture": ("32 requests of the InferCept mixture, 2 a second, memory 8,192", _long_mixture),
    "conversations": ("32 Azure conversations in a row, memory 16,384", _long_conversations),
    "agents": ("4 sessions of coding agents, memory 400,000", _long_sessions),
}


def one_by_one(kind: Kind, trace: str) -> Family:
    """Return the slices of a trace, each a case."""
    what, make = kind[trace]
    return Family(f"{what}; {COUNT} drawn with seeds 0 to {COUNT - 1}", lambda: _slices(make), data=True)


def together(kind: Kind, trace: str, count: int = COUNT) -> Family:
    """Return the first slices of a trace as one case, by seed."""
    what, make = kind[trace]
    named = f"{what}; the {count} of seeds 0 to {count - 1}"
    return Family(named, lambda: [_slices(make)[:count]], complete=True, data=True)


@cache
def _slices(make: Callable[[int], Instance]) -> tuple[Instance, ...]:
    return tuple(make(seed) for seed in range(COUNT))
