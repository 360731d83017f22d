"""Cells in worker processes on this machine."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from sweeps.cell import Cell, CellRow
from sweeps.worker import CellWorker


def run_locally(cells: Sequence[Cell], jobs: int) -> Generator[tuple[Cell, CellRow]]:
    """Carry out cells in `jobs` processes and yield each with its row as it ends.

    Closing the iterator (or an exception where it is used) ends the processes; what they were at has no row.
    """
    mine, workers = threading.local(), list[CellWorker]()

    def start() -> None:
        mine.worker = CellWorker()
        workers.append(mine.worker)

    def run(cell: Cell) -> CellRow:
        row: CellRow = mine.worker.run(cell)
        return row

    with ThreadPoolExecutor(min(jobs, len(cells)), initializer=start) as pool:
        futures = {pool.submit(run, cell): cell for cell in cells}
        try:
            for future in as_completed(list(futures)):
                yield futures.pop(future), future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.close()
