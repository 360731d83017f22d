"""Runs tasks in worker processes, side by side, under hard limits of time and memory."""

from __future__ import annotations

import contextlib
import math
import pickle
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from queue import Empty, Queue

from kvcore.metrics import Value
from solvers.process import Process, undisturbed
from solvers.task import GRACE, Done, Failed, Message, Stop, Task


@dataclass
class SolveWorker:
    """One worker process and how it ended; `done` is None while it runs."""

    task: Task
    process: Process
    ends: float
    """Seconds after the start of the race at which it is ended."""
    done: Done | Failed | None = None
    told: Value | None = None

    def tell(self, value: Value | None) -> None:
        """Tell it the value of the best schedule known, if it changed."""
        if value is not None and value != self.told:
            self.told = value
            with contextlib.suppress(OSError):  # it has just ended
                self.process.send(value)

    def end(self, stop: Stop) -> None:
        """Kill the process."""
        self.process.kill()
        if self.done is None:
            self.done = Done(stop, "")


def race(
    tasks: Sequence[Task],
    on_message: Callable[[Task, Message], None],
    finished: Callable[[], Stop | None],
    *,
    tick: Callable[[], None] = lambda: None,
    best_known: Callable[[], Value | None] = lambda: None,
) -> list[Done | Failed]:
    """Run all tasks side by side until each ended, or `finished()` gives a reason to stop them.

    Those with a finite delay start after it, or when nothing runs; each of the others when one before it has ended.

    `on_message` gets every message as it comes; `tick` is called several times a second; `best_known` is the value that
    all workers are told whenever it changes. Returns how each that started ended. KeyboardInterrupt stops the workers
    and is answered by their end "interrupted", even if none had started: nothing that was reported is lost.
    """
    inbox: Queue[tuple[SolveWorker, Message | None]] = Queue()
    started = time.monotonic()
    waiting, workers = list(tasks), list[SolveWorker]()
    lanes = sum(task.delay < math.inf for task in tasks)
    try:
        while True:
            reason = finished()
            now = time.monotonic() - started
            running = sum(worker.done is None for worker in workers)
            free = not running or (running < lanes <= len(workers))
            while waiting and reason is None and (free or now >= waiting[0].delay):
                task = waiting.pop(0)
                if workers and now >= task.time_limit:
                    continue
                shortened = replace(task, time_limit=max(0.1, task.time_limit - now))
                with undisturbed():
                    workers.append(_start(shortened, inbox, now + shortened.time_limit + GRACE))
                running, free = running + 1, False
            if not running:
                break
            for worker in workers:
                if worker.done is None:
                    worker.tell(best_known())
                    _limit(worker, now, reason)
            _receive(inbox, on_message)
            tick()
    except KeyboardInterrupt:
        for worker in workers:
            worker.end("interrupted")
    finally:
        for worker in workers:
            worker.process.kill()
    while not inbox.empty():
        _receive(inbox, on_message)
    return [worker.done for worker in workers if worker.done is not None] or [Done("interrupted", "")]


def _start(task: Task, inbox: Queue[tuple[SolveWorker, Message | None]], ends: float) -> SolveWorker:
    worker = SolveWorker(task, Process("solvers.worker", task.threads), ends)
    with contextlib.suppress(BrokenPipeError):  # it ended at once; the reader says so
        worker.process.send(task)
    threading.Thread(target=_read, args=(worker, inbox), daemon=True).start()
    return worker


def _read(worker: SolveWorker, inbox: Queue[tuple[SolveWorker, Message | None]]) -> None:
    """Pass on messages until the pipe closes; then None."""
    while True:
        try:
            inbox.put((worker, worker.process.receive()))
        except (EOFError, pickle.UnpicklingError, ValueError, OSError):
            inbox.put((worker, None))
            return


def _receive(inbox: Queue[tuple[SolveWorker, Message | None]], on_message: Callable[[Task, Message], None]) -> None:
    try:
        worker, message = inbox.get(timeout=0.1)
    except Empty:
        return
    if isinstance(message, Done | Failed):
        worker.done = worker.done or message
    elif message is not None:
        on_message(worker.task, message)
    elif worker.done is None:
        worker.done = _unexpected(worker)


def _unexpected(worker: SolveWorker) -> Done | Failed:
    code, how = worker.process.death()
    if hasattr(signal, "SIGXCPU") and code == -signal.SIGXCPU:
        return Done("time limit", "")
    return Failed(f"{worker.task.label}: {how}")


def _limit(worker: SolveWorker, elapsed: float, reason: Stop | None) -> None:
    if reason is not None:
        worker.end(reason)
    elif elapsed > worker.ends:
        worker.end("time limit")
    elif worker.process.memory_mib() > worker.task.memory_limit:
        worker.end("memory limit")
