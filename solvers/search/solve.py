"""The search in a worker process."""

from __future__ import annotations

from kvcore import __version__
from kvcore.certificates import Alone, rounded
from solvers.search.search import search
from solvers.task import NEWS, Bound, Done, Found, Send, Task


def run(task: Task, send: Send) -> Done:
    """Carry out a task; schedules and bounds are sent as they come."""
    send(Bound(rounded(Alone().value(task.instance, task.objective), task.objective)))
    outcome = search(
        task.instance,
        task.objective,
        upper_bound=task.start,
        time_limit=task.time_limit,
        memory_limit_mb=task.memory_limit,
        progress=lambda value, bound: send(Bound(bound)),
        found=lambda schedule, value: send(Found(schedule, value)),
        news=lambda: NEWS.value,
    )
    send(Bound(outcome.bound))
    return Done(outcome.stopped, __version__)
