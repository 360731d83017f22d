"""What a method of bounding is given."""

from __future__ import annotations

from dataclasses import dataclass

from kvcore.instance import Instance
from kvcore.metrics import Value


@dataclass(frozen=True)
class Task:
    """The instance, the objective, and when to stop (by `time.monotonic`).

    `upper` is the value of a schedule, if one is known: it only says where a proof may stop.
    """

    instance: Instance
    objective: str
    deadline: float
    upper: Value | None = None
