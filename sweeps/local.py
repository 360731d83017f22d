"""Cells in worker processes on this machine."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from queue import Empty, Queue

from sweeps.cell import Cell, CellRow
from sweeps.worker import Worker


def run_locally(cells: Sequence[Cell], jobs: int) -> Generator[tuple[Cell, CellRow]]:
    """Carry out cells in `jobs` processes and yield each with its row as it ends.

    Closing the iterator (or an exception where it is used) ends the processes; what they were at has no row.
    """
    todo, done = Queue[Cell](), Queue[tuple[Cell, CellRow] | BaseException]()
    for cell in cells:
        todo.put(cell)
    workers = [Worker() for _ in range(min(jobs, len(cells)))]
    for worker in workers:
        threading.Thread(target=_drain, args=(worker, todo, done), daemon=True).start()
    try:
        for _ in cells:
            outcome = done.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield outcome
    finally:
        for worker in workers:
            worker.close()


def _drain(worker: Worker, todo: Queue[Cell], done: Queue[tuple[Cell, CellRow] | BaseException]) -> None:
    """Let a worker do cells until none is left, or it is closed; what it was at then is not reported."""
    try:
        while not worker.closed:
            cell = todo.get_nowait()
            row = worker.run(cell)
            if not worker.closed:
                done.put((cell, row))
    except Empty:
        pass
    except Exception as error:  # such as no process to be had: the sweep ends with it rather than wait for ever
        done.put(error)
