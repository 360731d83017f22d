"""A rigid instance as kinds of requests, and what every tick offers them."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from bounds.configurations import schedule_of
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.rigid import kinds_of, memory_of, why_not_rigid
from kvcore.schedule import Schedule

Array = npt.NDArray[np.int64]
Jobs = list[tuple[int, int]]
"""Pairs (kind, start), one per request; ticks count from the first arrival."""


class RigidProblem:
    """A rigid instance and an objective as kinds of requests and limits per tick."""

    def __init__(self, instance: Instance, objective: str) -> None:
        """Raises BadInput, with the reason, if the instance is not rigid."""
        reason = why_not_rigid(instance, objective)
        if reason is not None:
            raise BadInput(f"start-time needs requests that run from start to end: {reason}; use --formulation search")
        self.instance, self.objective = instance, objective
        self.kinds = kinds_of(instance, objective)
        self.memory = memory_of(instance, self.kinds)

    @property
    def counts(self) -> Array:
        """Requests by kind, [kinds]."""
        return np.array([kind.count for kind in self.kinds])

    @cached_property
    def loads(self) -> Array:
        """Blocks by kind and batch, the last one repeated, [kinds, longest]."""
        longest = max(kind.length for kind in self.kinds)
        return np.array([kind.load + (kind.load[-1],) * (longest - kind.length) for kind in self.kinds])

    @cached_property
    def limits(self) -> list[tuple[int, list[Array]]]:
        """What a tick offers, and what one request of each kind takes of it in its batches.

        First memory, in blocks; then those of the budgets (requests, tokens, prefill tokens) that could bind.
        """
        machine = self.instance.machine
        memory = (self.memory, [kind.profile for kind in self.kinds])
        first, later = ([np.eye(1, k.length, dtype=np.int64)[0] for k in self.kinds],
                        [np.ones(k.length, np.int64) for k in self.kinds])  # fmt: skip
        budgets = [
            (machine.batch_requests, later),
            (machine.batch_tokens, [b + (k.prompt - 1) * a for k, a, b in zip(self.kinds, first, later, strict=True)]),
            (machine.prefill_limit, [k.prompt * a for k, a in zip(self.kinds, first, strict=True)]),
        ]
        most = [sum(k.count * int(use.max()) for k, use in zip(self.kinds, uses, strict=True)) for _, uses in budgets]
        return [memory] + [(b, uses) for (b, uses), m in zip(budgets, most, strict=True) if b is not None and b < m]

    def value(self, jobs: Jobs) -> int:
        """Return the objective of these starts."""
        return sum(self.kinds[k].cost(start) for k, start in jobs)

    def schedule(self, jobs: Jobs) -> Schedule:
        """Return the batches: at every tick, those that have started and not ended."""
        return schedule_of(self.instance, self.kinds, jobs)
