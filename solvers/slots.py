"""The search over slots in a worker process: it leaves a certificate, or a schedule below the target."""

from __future__ import annotations

import time

from bounds.slot_search import climb
from kvcore import __version__
from kvcore.certificates import certify
from kvcore.schedule import Schedule
from solvers.task import Bound, Done, Found, Send, Task


def run(task: Task, send: Send) -> Done:
    """Carry out a task; schedules and bounds with their certificates are sent as they come."""
    deadline = time.monotonic() + task.time_limit
    for found in climb(task.instance, task.objective, lambda: deadline, task.upper_bound, seed=task.seed):
        if isinstance(found, Schedule):
            send(Found(found, None))
        else:
            certificate = certify(task.instance, task.objective, *found)
            send(Bound(certificate.value, "certificate", certificate))
    return Done("proved" if time.monotonic() < deadline else "time limit", __version__)
