"""The search over slots in a worker process: it leaves a certificate, or a schedule below the target."""

from __future__ import annotations

import time
from dataclasses import replace

from bounds.slot_search import SlotSolver, climb
from kvcore import __version__
from kvcore.certificates import certify
from kvcore.metrics import objective_value
from kvcore.referee import InvalidSchedule, verify_schedule
from kvcore.schedule import Schedule
from solvers.task import Bound, Done, Found, Send, Task


def run(task: Task, send: Send) -> Done:
    """Carry out a task; schedules and bounds with their certificates are sent as they come.

    Where a schedule rests on a batch of drops alone, which is none, the search begins anew without such batches.
    """
    began = time.monotonic()
    deadline = began + task.time_limit
    solver = SlotSolver(task.instance, task.objective, lambda: deadline, seed=task.seed)
    for found in climb(solver, task.upper_bound):
        if not isinstance(found, Schedule):
            certificate = certify(task.instance, task.objective, *found)
            send(Bound(certificate.value, "certificate", certificate))
            continue
        try:
            send(Found(found, objective_value(verify_schedule(task.instance, found), task.objective)))
        except InvalidSchedule:
            if solver.local.strict:
                raise
            strict = SlotSolver(task.instance, task.objective, lambda: deadline, seed=task.seed, strict=True)
            left = replace(task, time_limit=deadline - time.monotonic())
            return _run(strict, left, send)
    return Done("proved" if time.monotonic() < deadline else "time limit", __version__)
