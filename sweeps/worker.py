"""The process that runs cells (`python -m sweeps.worker`), and its end in the parent.

A cell that crashes, hangs, or takes all memory ends alone.
"""

import pickle
import selectors
import time
from importlib import import_module
from queue import Queue

from solvers.process import Process, listen, to_parent
from sweeps.cell import Cell, CellRow, Stop, run_cell

TICK = 0.2  # seconds between two looks at the limits


class CellWorker:
    """A process for cells, started when needed, also after it has died. Not for two threads at once."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._ready = False
        self.closed = False

    def run(self, cell: Cell) -> CellRow:
        """Return the row of a cell, also if the process dies or exceeds a limit."""
        if self._process is None or self._process.has_ended():
            self._process, self._ready = Process("sweeps.worker"), False
            if self.closed:
                self._process.kill()
        process = self._process
        try:
            if not self._ready:
                self._ready = bool(process.receive())
            process.send(cell)
            stopped = _watch(process, cell)
            if stopped is None:
                row: CellRow = process.receive()
                return row
        except (EOFError, OSError, pickle.UnpicklingError):
            return cell.failure(process.death()[1], "crashed")
        process.kill()
        if stopped == "time limit":
            return cell.failure(f"ended after {cell.limit:g} s, the limit of a cell", stopped)
        return cell.failure(f"ended above {cell.memory_limit} MiB, the memory limit of a cell", stopped)

    def close(self) -> None:
        """Kill the process."""
        self.closed = True
        if self._process is not None:
            self._process.kill()


def _watch(process: Process, cell: Cell) -> Stop | None:
    ends = time.monotonic() + cell.limit
    with selectors.DefaultSelector() as selector:
        selector.register(process.back, selectors.EVENT_READ)
        while not selector.select(TICK):
            if time.monotonic() > ends:
                return "time limit"
            if process.memory_mib() > cell.memory_limit:
                return "memory limit"
    return None


def main() -> None:
    """Say that it is ready, then run the cells that come in."""
    send = to_parent()
    cells: Queue[Cell] = Queue()
    listen(cells.put)
    import_module("solvers")
    send(True)
    while True:
        send(run_cell(cells.get()))


if __name__ == "__main__":
    main()
