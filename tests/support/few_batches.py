"""Solves that look at another number of batches than the horizon says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kvcore.metrics import Value
from kvcore.result import Horizon
from solvers.pool import race
from solvers.task import Bound, Done, Failed, Message, Task


def look_at(
    batches: int, monkeypatch: pytest.MonkeyPatch, until: Callable[[list[Value]], bool] = lambda bounds: False
) -> list[Value]:
    """Have solves look at so many batches, without an argument, and end at `until`; return where their bounds are."""
    bounds: list[Value] = []

    def told(
        lanes: list[list[Task]], receive: Callable[[Task, Message], None], *_: Any, **__: Any
    ) -> list[Done | Failed]:
        def hear(task: Task, message: Message) -> None:
            if isinstance(message, Bound):
                bounds.append(message.value)
            receive(task, message)

        task = replace(lanes[0][0], batches=batches)
        receive(task, Horizon(batches, False, "so many were tried"))
        return race([[task]], hear, lambda: "stopped early" if bounds and until(bounds) else None)

    monkeypatch.setattr("solvers.driver.race", told)
    return bounds
