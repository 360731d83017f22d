"""The worker process: one task in, messages out (`python -m solvers.worker`; the parent is `solvers.pool`).

A process of its own gives hard limits on time and memory, survives a solver that crashes, and keeps apart libraries
that cannot be loaded together. Messages are pickles on what was standard output; whatever a solver prints goes to
standard error.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

from kvcore import __version__
from kvcore.errors import BadInput, MissingTool
from kvcore.metrics import Value
from solvers.registry import WITHOUT_HORIZON, missing
from solvers.task import GRACE, NEWS, Bound, Done, Failed, Found, Message, Send, Task, leave_signals_to_the_parent


def main() -> None:
    """Read a task from standard input, carry it out, and send its messages."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    leave_signals_to_the_parent()
    task: Task = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_listen, daemon=True).start()

    def send(message: Message) -> None:
        pickle.dump(message, channel)
        channel.flush()

    try:
        _limit_cpu(task)
        send(_runner(task)(_with_horizon(task, send), send))
    except BadInput as error:
        send(Failed(str(error), "bad input"))
    except MissingTool as error:
        send(Failed(str(error), "missing tool"))
    except ImportError as error:
        send(Failed(str(missing(task.solver, error)), "missing tool"))
    except MemoryError:
        send(Done("memory limit", ""))
    channel.close()
    sys.stderr.flush()
    os._exit(0)  # solver libraries may hang or complain while they are unloaded


def _listen() -> None:
    """Take in the values of schedules that others find; end at once when the parent is gone, even if it was killed."""
    with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
        while True:
            NEWS.value = pickle.load(sys.stdin.buffer)
    os._exit(1)


def _limit_cpu(task: Task) -> None:
    """Let the kernel end the process where neither it nor its parent does."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # no such limits on this system
        import resource

        seconds = int(time.process_time() + task.threads * task.time_limit + GRACE) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _with_horizon(task: Task, send: Send) -> Task:
    """Return the task with the number of batches to look at, where it needs one; it is reported."""
    if task.batches is not None or task.upper_bound is None or task.label in WITHOUT_HORIZON:
        return task
    from formulations.horizon import sufficient_batches

    horizon = sufficient_batches(task.instance, task.objective, task.upper_bound)
    send(horizon)
    return replace(task, batches=horizon.batches)


def _runner(task: Task) -> Callable[[Task, Send], Done]:
    if task.formulation == "search":
        return _search
    if task.formulation == "start-time":
        return _start_time
    module = {"cp-sat": "cp_sat", "lagrange": "lagrange.solve", "repair": "lagrange.solve"}.get(task.solver, "milp")
    name = "repair" if task.solver == "repair" else "run"
    runner: Callable[[Task, Send], Done] = getattr(import_module(f"solvers.{module}"), name)
    return runner


def _search(task: Task, send: Send) -> Done:
    from kvcore.certificates import Alone, rounded
    from solvers.search import search

    def progress(incumbent: Value | None, bound: Value | None) -> None:
        if bound is not None:
            send(Bound(bound))

    send(Bound(rounded(Alone().value(task.instance, task.objective), task.objective)))
    outcome = search(
        task.instance,
        task.objective,
        upper_bound=task.start,
        time_limit=task.time_limit,
        memory_limit_mb=task.memory_limit,
        progress=progress,
        found=lambda schedule, value: send(Found(schedule, value)),
        news=lambda: NEWS.value,
    )
    send(Bound(outcome.bound))
    return Done(outcome.stopped, __version__)


def _start_time(task: Task, send: Send) -> Done:
    from solvers.highs import version
    from solvers.start_time.solve import StartTimeSolver

    solver = StartTimeSolver(
        task.instance,
        task.objective,
        time_limit=task.time_limit,
        memory_limit=task.memory_limit,
        seed=task.seed,
        found=lambda schedule, value: send(Found(schedule, value)),
        bounded=lambda bound, by_solver: send(Bound(bound, "solver" if by_solver else "exhaustive")),
        certified=lambda certificate: send(Bound(certificate.value, "certificate", certificate)),
    )
    return Done(solver.run().stopped, version())


if __name__ == "__main__":
    main()
