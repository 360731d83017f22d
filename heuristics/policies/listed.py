"""Requests in an order that does not look at them: that of a list, or of a draw."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from heuristics.engine.job import Job
from heuristics.engine.ranked import Ranked


class Listed(Ranked):
    """Figure 1's rule in a given order, such as that in which a schedule completes the requests.

    Guarantee: nothing is known. It never deadlocks and never evicts.
    Running time: that of fcfs.
    Source: list scheduling; a means of local search.
    """

    name = "listed"

    def __init__(self, keys: Sequence[Any]) -> None:
        """Set the key of each request of the instance, in their order; the smallest goes first."""
        self.keys = keys

    def key(self, job: Job) -> Any:
        return self.keys[job.index]


class RandomOrder(Ranked):
    """Figure 1's rule in a random order: one number is drawn for each request, from the seed and its id.

    Guarantee: nothing is known. It never deadlocks and never evicts.
    Running time: O(n log n + c h log h) for a batch of n requests present, h holding KV, c tested for admission.
    Source: a reference, to see what an order is worth.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.name = f"random:{seed}" if seed else "random"
        self._drawn: dict[str, int] = {}

    def key(self, job: Job) -> int:
        number = self._drawn.get(job.id)
        if number is None:
            number = self._drawn[job.id] = random.Random(f"{self.seed}:{job.id}").getrandbits(64)
        return number
