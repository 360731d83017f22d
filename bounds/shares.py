"""Shares of time: which lines of the cost to weigh, and what the fixed part of a batch is shared by."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from bounds.task import Proposal, Task
from bounds.tuning import Options, option
from kvcore.certificates.budget import Budget
from kvcore.certificates.shares import RESOURCES, UNIT, PricedSteps, Shares
from kvcore.certificates.steps import lines
from kvcore.instance import Instance
from kvcore.metrics import SUMS, Value, weight


@dataclass(frozen=True)
class SharesOptions(Options):
    """Shares of the time of batches."""

    rounds: int = option(8, "steps of Frank and Wolfe by which requests count alone, at the most")
    most_packs: int = option(12, "requests that fit together, at the most, for it to matter that they are whole")


def propose_shares(task: Task) -> Iterator[Proposal]:
    """Yield the best so far of: a line of the cost and a resource, mixtures of two, and requests taken alone.

    All of it comes again with nothing shared by memory, as from there the steps lead elsewhere. No proof is begun that
    would not be evaluated by the deadline, but for the first.
    """
    instance, objective = task.instance, task.objective
    search = _SharesSearch(instance, objective, task)
    for memory in (True,) if instance.machine.block_limit is None else (True, False):
        tried = yield from search.try_all(corners(instance, memory))
        tried += yield from search.try_all(mixtures(tried))
        best = max(tried, key=lambda pair: pair[0], default=(0, None))[1]
        if best is not None and objective in SUMS:
            yield from search.take_alone(best)


def corners(instance: Instance, memory: bool = True) -> Iterator[Shares]:
    """Yield a proof for each line of the cost and each resource that is limited; `memory` says whether memory is."""
    machine, count = instance.machine, len(lines(instance.cost))
    held = machine.block_limit if memory else None
    prefills = held if machine.prefill_limit is None else machine.prefill_limit
    limits = (held, None, machine.batch_tokens, prefills, machine.batch_requests)
    limited = [{name: UNIT} for name, limit in zip(RESOURCES, limits, strict=True) if limit is not None]
    limited += [{"packing": UNIT, "packs": packs} for packs in range(1, 1 + (_fit(instance) if memory else 0))]
    for k in range(count):
        for shared in limited or [{}]:
            yield Shares(functions=tuple(UNIT * (i == k) for i in range(count))).replace(**shared)


def _fit(instance: Instance) -> int:
    """Return how many requests fit together as they begin, 0 if so many that whole numbers of them hardly matter."""
    machine, requests = instance.machine, instance.requests
    if machine.block_limit is None:
        return 0
    ends = sum(machine.blocks(request.peak) for request in requests)
    starts = sum(machine.blocks(request.prompt) for request in requests)
    hold = machine.block_limit * len(requests)
    most = SharesOptions.given().most_packs
    return min(most, hold // starts) if hold // ends <= most else 0


def mixtures(tried: list[tuple[Value, Shares]]) -> Iterator[Shares]:
    """Yield mixtures of the best proofs, half and half and by quarters."""
    best = [proof for _, proof in sorted(tried, key=lambda pair: pair[0], reverse=True)[:3]]
    for first, second in combinations(best, 2):
        for part in (2, 1, 3):
            yield _mixture(first, second, part)


def _mixture(first: Shares, second: Shares, part: int) -> Shares:
    """Return `part` quarters of the first proof and the rest of the second."""

    def mix(a: int, b: int) -> int:
        return (part * a + (4 - part) * b) // 4

    functions = tuple(mix(a, b) for a, b in zip(first.functions, second.functions, strict=True))
    packs = first.packs if first.packing else second.packs
    parts = {name: mix(getattr(first, name), getattr(second, name)) for name in RESOURCES}
    return first.replace(functions=functions, packs=packs, **parts)


class _SharesSearch:
    """What has been tried, until the deadline."""

    def __init__(self, instance: Instance, objective: str, task: Task) -> None:
        self.instance, self.objective, self.task = instance, objective, task
        self.known: dict[Shares, Value] = {}
        self.seconds = 0.0
        """What the longest evaluation took."""

    def has_time(self) -> bool:
        """Whether there is time for one more evaluation."""
        return time.process_time() + self.seconds <= self.task.deadline

    def try_all(self, proofs: Iterable[Shares]) -> Generator[Proposal, None, list[tuple[Value, Shares]]]:
        """Evaluate proofs while there is time; yield those that are better than all before, return all with values."""
        tried = []
        for proof in proofs:
            if proof not in self.known:
                if not self.known:
                    proof.spend(self.instance, count := Budget())
                    self.task.begin(count)
                elif not self.has_time():
                    break
                before = max(self.known.values(), default=None)
                value = self.known[proof] = self._evaluate(proof)
                if before is None or value > before:
                    yield Proposal(proof, value)
            tried.append((self.known[proof], proof))
        return tried

    def _evaluate(self, proof: Shares) -> Value:
        began = time.process_time()
        value = proof.value(self.instance, self.objective)
        self.seconds = max(self.seconds, time.process_time() - began)
        return value

    def take_alone(self, proof: Shares) -> Iterator[Proposal]:
        """Let requests count alone for which that is more, step by step (a Frank-Wolfe method)."""
        weights = [weight(request, self.objective) for request in self.instance.requests]
        for k in range(SharesOptions.given().rounds):
            if time.process_time() + 2 * self.seconds > self.task.deadline:  # the flows take as long as the proof
                return
            flows, _ = PricedSteps(self.instance, proof).flows(self.objective, weights, proof.alone)
            old = proof.alone or (0,) * len(flows)
            goal = [UNIT * (alone > shared) for _, shared, alone in flows]
            proof = proof.replace(alone=tuple(a + (b - a) * 2 // (k + 2) for a, b in zip(old, goal, strict=True)))
            yield from self.try_all([proof])
