"""Solves that look at another number of batches than the horizon says."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kvcore.metrics import Value
from kvcore.result import Horizon, Stop
from solvers.messages import Bound, Done, Failed, Message, SolveJob
from solvers.pool import race


def look_at(
    batches: int, monkeypatch: pytest.MonkeyPatch, until: Callable[[list[Value]], bool] = lambda bounds: False
) -> list[Value]:
    """Have solves look at so many batches, without an argument, and end at `until`; return where their bounds are."""
    bounds: list[Value] = []

    def told(
        lanes: list[list[SolveJob]], receive: Callable[[SolveJob, Message], None], *_: Any, **__: Any
    ) -> list[Done | Failed]:
        def hear(job: SolveJob, message: Message) -> None:
            if isinstance(message, Bound):
                bounds.append(message.value)
            receive(job, message)

        job = replace(lanes[0][0], batches=batches)
        receive(job, Horizon(batches, False, "so many were tried"))
        return race([[job]], hear, lambda: Stop.EARLY if bounds and until(bounds) else None)

    monkeypatch.setattr("solvers.driver.race", told)
    return bounds
