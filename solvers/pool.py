"""Jobs in worker processes, side by side, under hard limits of time and memory."""

import contextlib
import math
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from queue import Empty, Queue

from kvcore.metrics import Value
from kvcore.result import Stop
from solvers.messages import Done, Failed, Message, SolveJob, SolveOptions
from solvers.process import Process, undisturbed
from solvers.ways import way_of

RESTS = sys.platform == "linux"
"""Whether a worker may be stopped for a while: elsewhere it could outlive a parent that is killed then."""


@dataclass
class SolveWorker:
    """One worker process and its end; `done` is None while it runs."""

    job: SolveJob
    process: Process
    ends: float
    """Processor seconds of its lane at which it is ended."""
    done: Done | Failed | None = None
    used: float = 0.0
    """Its processor seconds, for each thread."""
    told: Value | None = None
    turns: int = 0
    is_told: bool = False

    def tell(self, value: Value | None) -> None:
        """Tell it the value of the best known schedule, if that changed."""
        if value is not None and value != self.told:
            self.told = value
            with contextlib.suppress(OSError):  # it has just ended
                self.process.send(value)

    def look(self) -> None:
        """Look at its processor seconds."""
        self.used = max(self.used, self.process.seconds() / self.job.threads)

    def end(self, stop: Stop) -> None:
        """Kill the process."""
        self.process.kill()
        if self.done is None:
            self.done = Done(stop)


class Lane:
    """Jobs that take turns: one runs, the others rest or have yet to start.

    While the first goes on it gets two thirds of the time, the others share the rest; one that plans its time is told
    its share.
    """

    def __init__(self, jobs: Sequence[SolveJob]) -> None:
        self.first, self.is_shared, self.options = jobs[0], len(jobs) > 1, SolveOptions.given()
        self.queue: deque[SolveJob | SolveWorker] = deque(jobs)
        self.workers: list[SolveWorker] = []
        self.running: SolveWorker | None = None
        self.until = 0.0

    def is_over(self) -> bool:
        """Whether nothing runs, and nothing is left to run."""
        return not self.queue and (self.running is None or self.running.done is not None)

    @property
    def seconds(self) -> float:
        """Its processor seconds."""
        return sum(worker.used for worker in self.workers)

    def has_searched(self, seconds: float) -> bool:
        """Whether it is over, or has searched these processor seconds or the first part of the time."""
        return self.is_over() or self.seconds >= min(seconds, self.options.first_share * self.first.time_limit)

    def go_on(self, start: Callable[[SolveJob, float], SolveWorker]) -> None:
        """Give the next job its turn, if the turn before is over."""
        last, now = self.running, self.seconds
        self.queue = deque(each for each in self.queue if self._has_time(each, now))
        if last is not None and last.done is None:
            if now < self.until or not self.queue or not RESTS:
                return
            last.process.rest()
            self.queue.append(last)
        self.running = self._begin(self.queue.popleft(), now, start) if self.queue else None

    def _begin(
        self, each: SolveJob | SolveWorker, now: float, start: Callable[[SolveJob, float], SolveWorker]
    ) -> SolveWorker:
        others = [self._is_other(one) for one in (each, *self.queue)]
        weights = [1 / (2 * sum(others)) if is_other else 1.0 for is_other in others]
        if isinstance(each, SolveWorker):
            each.process.go_on()
        else:
            left = max(0.1, each.time_limit - now)
            share = left * weights[0] / sum(weights) if way_of(each).plans else left
            ends = math.inf if each.counted else now + left + self.options.grace * (not self.is_shared)
            each = start(replace(each, time_limit=share), ends)
            self.workers.append(each)
        turn = min(self.options.first_turn, self.options.first_share * self.first.time_limit)
        self.until = now + turn * weights[0] * 2**each.turns
        each.turns += 1
        return each

    def _is_other(self, each: SolveJob | SolveWorker) -> bool:
        return (each if isinstance(each, SolveJob) else each.job).label != self.first.label

    def _has_time(self, each: SolveJob | SolveWorker, now: float) -> bool:
        if isinstance(each, SolveJob):
            return not self.workers or now < each.time_limit
        return each.done is None and now < each.ends


def race(
    lanes: Sequence[Sequence[SolveJob]],
    on_message: Callable[[SolveJob, Message], None],
    finished: Callable[[], Stop | None],
    *,
    tick: Callable[[float], None] = lambda busiest: None,
    told: Callable[..., None] = lambda **event: None,
    best_known: Callable[[], Value | None] = lambda: None,
    head_start: float = 0.0,
) -> list[Done | Failed]:
    """Run lanes of jobs side by side until each job ended, or `finished()` gives a reason to stop.

    The first lane has a head start, in processor seconds of its search, unless it is over before. `on_message` gets
    every message; `tick` is called several times a second with the processor seconds of the busiest lane, `told` with
    the start and end of each job; all workers are told each new `best_known`, unless work is counted. Return how each
    started job ended. KeyboardInterrupt stops the workers; their end is "interrupted".
    """
    inbox: Queue[tuple[SolveWorker, Message | None]] = Queue()
    running = [Lane(jobs) for jobs in lanes]

    def workers() -> list[SolveWorker]:
        return [worker for lane in running for worker in lane.workers]

    try:
        while True:
            reason = finished()
            for worker in workers():
                if worker.done is None:
                    worker.look()
            for lane in running if reason is None else ():
                if lane is running[0] or lane.workers or running[0].has_searched(head_start):
                    with undisturbed():
                        lane.go_on(lambda job, ends: _start(job, inbox, ends, told))
            is_over = reason is not None or all(lane.is_over() for lane in running)
            if is_over and all(worker.done is not None for worker in workers()):
                break
            for lane in running:
                for worker in lane.workers:
                    if worker.done is None:
                        if lane.running is worker and not worker.job.counted:
                            worker.tell(best_known())
                        _limit(worker, lane.seconds, reason)
            _receive(inbox, on_message)
            for worker in workers():
                if worker.done is not None and not worker.is_told:
                    worker.is_told = True
                    how = worker.done.message if isinstance(worker.done, Failed) else worker.done.stop
                    told(event="end", way=worker.job.label, how=how)
            tick(max(lane.seconds for lane in running))
    except KeyboardInterrupt:
        for worker in workers():
            worker.end(Stop.INTERRUPTED)
    finally:
        for worker in workers():
            worker.process.kill()
    while not inbox.empty():
        _receive(inbox, on_message)
    return [worker.done for worker in workers() if worker.done is not None] or [Done(Stop.INTERRUPTED)]


def _start(
    job: SolveJob, inbox: Queue[tuple[SolveWorker, Message | None]], ends: float, told: Callable[..., None]
) -> SolveWorker:
    told(event="start", way=job.label, limit=round(job.time_limit, 3))
    worker = SolveWorker(job, Process("solvers.worker", job.threads), ends)
    with contextlib.suppress(BrokenPipeError):  # it ended at once; the reader says so
        worker.process.send(job)
    threading.Thread(target=_read, args=(worker, inbox), daemon=True).start()
    return worker


def _read(worker: SolveWorker, inbox: Queue[tuple[SolveWorker, Message | None]]) -> None:
    while True:
        try:
            inbox.put((worker, worker.process.receive()))
        except (EOFError, pickle.UnpicklingError, ValueError, OSError):
            inbox.put((worker, None))
            return


def _receive(inbox: Queue[tuple[SolveWorker, Message | None]], on_message: Callable[[SolveJob, Message], None]) -> None:
    try:
        worker, message = inbox.get(timeout=0.1)
    except Empty:
        return
    if isinstance(message, Done | Failed):
        worker.done = worker.done or message
    elif message is not None:
        on_message(worker.job, message)
    elif worker.done is None:
        worker.done = _unexpected(worker)


def _unexpected(worker: SolveWorker) -> Done | Failed:
    code, how = worker.process.death()
    if hasattr(signal, "SIGXCPU") and code == -signal.SIGXCPU:
        return Done(Stop.TIME_LIMIT)
    return Failed(f"{worker.job.label}: {how}")


def _limit(worker: SolveWorker, elapsed: float, reason: Stop | None) -> None:
    if reason is not None:
        worker.end(reason)
    elif elapsed > worker.ends:
        worker.end(Stop.TIME_LIMIT)
    elif worker.process.memory_mib() > worker.job.memory_limit:
        worker.end(Stop.MEMORY_LIMIT)
