"""The process that carries out cells, one after another (`python -m sweeps.worker`), and its end in the parent.

A process of its own keeps a cell that crashes, hangs, or takes all memory from taking the sweep with it. Cells and rows
are pickles on its standard input and output. It ends as soon as its parent is gone, even if that was killed, and the
processes of its solver with it (`solvers.worker` does the same).
"""

from __future__ import annotations

import contextlib
import os
import pickle
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from importlib import import_module
from queue import Queue
from typing import IO

import psutil

from solvers.task import leave_signals_to_the_parent
from sweeps.cell import Cell, Row, Stop, run_cell

TICK = 0.2
"""Seconds between two looks at the limits."""


class Worker:
    """A process for cells, started when it is needed, and again after it has died. Not for two threads at once."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the worker
        self._ready = False
        self.closed = False

    def run(self, cell: Cell) -> Row:
        """Return the row of a cell; if the process dies or goes beyond a limit, that is the row."""
        process = self._started()
        stopped: Stop | None = None
        try:
            assert process.stdin is not None  # for mypy: it is a pipe, and so is the other
            assert process.stdout is not None
            if not self._ready:
                self._ready = bool(pickle.load(process.stdout))
            pickle.dump(cell, process.stdin)
            process.stdin.flush()
            stopped = _watch(process, cell)
            if stopped is None:
                row: Row = pickle.load(process.stdout)
                return row
        except (EOFError, OSError, pickle.UnpicklingError):
            stopped = "crashed"
        return self._failure(cell, process, stopped)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._errors.seek(0)
            self._errors.truncate()
            self._ready = False
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sweeps.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,  # Ctrl-C reaches the parent only, which then decides
            )
            if self.closed:
                self._process.kill()
        return self._process

    def _failure(self, cell: Cell, process: subprocess.Popen[bytes], stopped: Stop) -> Row:
        """End the process and say why."""
        if stopped != "crashed":
            process.kill()
        code = process.wait()
        if stopped == "time limit":
            return cell.failure(f"ended after {cell.limit:g} s, the limit of a cell", stopped)
        if stopped == "memory limit":
            return cell.failure(f"ended above {cell.memory_limit} MiB, the memory limit of a cell", stopped)
        self._errors.seek(0)
        lines = self._errors.read()[-2000:].decode(errors="replace").strip().splitlines()
        return cell.failure(f"its process ended with code {code}: {lines[-1] if lines else 'no message'}", stopped)

    def close(self) -> None:
        """End the process, whatever it does."""
        self.closed = True
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _watch(process: subprocess.Popen[bytes], cell: Cell) -> Stop | None:
    """Wait until there is something to read from the process, or it goes beyond a limit, which is returned."""
    ends = time.monotonic() + cell.limit
    with selectors.DefaultSelector() as selector:
        assert process.stdout is not None
        selector.register(process.stdout, selectors.EVENT_READ)
        while not selector.select(TICK):
            if time.monotonic() > ends:
                return "time limit"
            if _memory_mib(process) > cell.memory_limit:
                return "memory limit"
    return None


def _memory_mib(process: subprocess.Popen[bytes]) -> float:
    with contextlib.suppress(psutil.Error):
        return float(psutil.Process(process.pid).memory_info().rss) / 2**20
    return 0.0


def main() -> None:
    """Say that it is ready (what loading takes is no part of a cell's time), then carry out the cells that come in."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a policy or a solver prints is no row
    leave_signals_to_the_parent()
    cells: Queue[Cell] = Queue()
    threading.Thread(target=_listen, args=(cells,), daemon=True).start()
    import_module("solvers")
    _send(True, channel)
    while True:
        _send(run_cell(cells.get()), channel)


def _send(what: Row | bool, channel: IO[bytes]) -> None:
    pickle.dump(what, channel)
    channel.flush()


def _listen(cells: Queue[Cell]) -> None:
    """Pass on the cells; end the process at once when the parent is gone."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            cells.put(pickle.load(sys.stdin.buffer))
    os._exit(0)


if __name__ == "__main__":
    main()
