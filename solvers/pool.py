"""Runs tasks in worker processes, side by side, under hard limits of time and memory."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from queue import Empty, Queue
from typing import IO

import psutil

from kvcore.metrics import Value
from solvers.task import GRACE, Done, Failed, Message, Stop, Task


@dataclass
class Worker:
    """One worker process and how it ended; `done` is None while it runs."""

    task: Task
    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    ends: float
    """Seconds after the start of the race at which it is ended."""
    done: Done | Failed | None = None
    told: Value | None = None
    reader: threading.Thread = field(init=False)

    def peak_memory_mib(self) -> float:
        """Return the resident memory of the process, in MiB."""
        try:
            return float(psutil.Process(self.process.pid).memory_info().rss) / 2**20
        except psutil.Error:
            return 0.0

    def tell(self, value: Value | None) -> None:
        """Tell it the value of the best schedule known, if it changed."""
        if value is None or value == self.told or self.process.stdin is None:
            return
        self.told = value
        with contextlib.suppress(OSError):  # it has just ended
            pickle.dump(value, self.process.stdin)
            self.process.stdin.flush()

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

    `on_message` gets every message as it comes; `tick` is called several times a second; `best_known` is the value that
    all workers are told whenever it changes. Returns how each that started ended. KeyboardInterrupt stops the workers
    and is answered by their end "interrupted": nothing that was reported is lost.
    """
    inbox: Queue[tuple[Worker, Message | None]] = Queue()
    started = time.monotonic()
    waiting, workers = list(tasks), list[Worker]()
    try:
        while True:
            reason = finished()
            now = time.monotonic() - started
            idle = all(worker.done is not None for worker in workers)
            while waiting and reason is None and (idle or now >= waiting[0].delay):
                task = waiting.pop(0)
                if workers and now >= task.time_limit:
                    continue
                left = replace(task, time_limit=max(0.1, task.time_limit - now))
                workers.append(_start(left, inbox, now + left.time_limit + GRACE))
                idle = False
            if idle:
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
            worker.process.wait()
    while not inbox.empty():
        _receive(inbox, on_message)
    return [worker.done for worker in workers if worker.done is not None]


def _start(task: Task, inbox: Queue[tuple[Worker, Message | None]], ends: float) -> Worker:
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
    process = subprocess.Popen(
        [sys.executable, "-m", "solvers.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**os.environ, "OMP_NUM_THREADS": str(task.threads), "OPENBLAS_NUM_THREADS": str(task.threads)},
        start_new_session=True,  # Ctrl-C reaches the parent only, which then decides
    )
    worker = Worker(task, process, errors, ends)
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it ended at once; the reader says so
        pickle.dump(task, process.stdin)
        process.stdin.flush()
    worker.reader = threading.Thread(target=_read, args=(worker, inbox), daemon=True)
    worker.reader.start()
    return worker


def _read(worker: Worker, inbox: Queue[tuple[Worker, Message | None]]) -> None:
    """Pass on messages until the pipe closes; then None."""
    assert worker.process.stdout is not None
    while True:
        try:
            inbox.put((worker, pickle.load(worker.process.stdout)))
        except (EOFError, pickle.UnpicklingError, ValueError, OSError):
            inbox.put((worker, None))
            return


def _receive(inbox: Queue[tuple[Worker, Message | None]], on_message: Callable[[Task, Message], None]) -> None:
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


def _unexpected(worker: Worker) -> Done | Failed:
    code = worker.process.wait()
    if hasattr(signal, "SIGXCPU") and code == -signal.SIGXCPU:
        return Done("time limit", "")
    worker.errors.seek(0)
    lines = worker.errors.read()[-2000:].decode(errors="replace").strip().splitlines()
    why = lines[-1] if lines else "it left no message"
    return Failed(f"{worker.task.label}: its process ended with code {code}: {why}")


def _limit(worker: Worker, elapsed: float, reason: Stop | None) -> None:
    if reason is not None:
        worker.end(reason)
    elif elapsed > worker.ends:
        worker.end("time limit")
    elif worker.peak_memory_mib() > worker.task.memory_limit:
        worker.end("memory limit")
