"""Requests in a random order."""

from __future__ import annotations

import random

from heuristics.engine.job import Job
from heuristics.engine.ranked import Ranked


class RandomOrder(Ranked):
    """Figure 1's rule in a random order: one number is drawn for each request, from the seed and its id.

    Guarantee: nothing is known. It never deadlocks and never evicts.
    Running time: O(n log n + h log h) for a batch, with n requests present and h holding KV.
    Source: a reference, to see what an order is worth.
    """

    rule = "in a random order, drawn once for each request; admitted as in fcfs"
    source = "a reference"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.name = f"random:{seed}" if seed else "random"
        self._drawn: dict[str, int] = {}

    def key(self, job: Job) -> int:
        """Return the number drawn for the request."""
        number = self._drawn.get(job.id)
        if number is None:
            number = self._drawn[job.id] = random.Random(f"{self.seed}:{job.id}").getrandbits(64)
        return number
