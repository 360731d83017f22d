"""A sweep: a study's grid run into a database, here or on a cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvcore.contradiction import Contradiction
from sweeps.cell import Cell, CellRow
from sweeps.cluster import dask, run_on_cluster
from sweeps.grid import cells_of
from sweeps.store import Store
from sweeps.study import read_study
from sweeps.summary import SummaryRow, summarise
from sweeps.worker import CellWorker

Watch = Callable[[int, int], AbstractContextManager[Callable[[], Any]]]
"""Makes a progress display from the numbers of cells done and of all; its result is called for each more."""


@dataclass(frozen=True)
class Sweep:
    """The cells of a study and their rows; `flat` ones are for tables."""

    database: str
    cells: int
    run: int  # cells that were run now; the others were there
    rows: list[CellRow] = field(repr=False)
    flat: list[dict[str, Any]] = field(repr=False)

    @property
    def summary(self) -> list[SummaryRow]:
        """A line for each group of instances, objective and run."""
        return summarise(self.rows)


def sweep(
    study: str | Path,
    database: str | Path | None = None,
    *,
    jobs: int = 1,
    cluster: str | None = None,
    resume: bool = False,
    retry: bool = False,
    watch: Watch = lambda done, of: nullcontext(lambda: None),
) -> Sweep:
    """Run what a study file asks for and the database (default: STUDY.sqlite) lacks; Ctrl-C keeps what ended.

    `jobs` processes run at once, or the workers of the Dask cluster at an address. `resume`: the database exists;
    `retry`: its failed cells run again.

    Raises:
        BadInput: the study or the database cannot be used.
        MissingTool: a cluster was named, and Dask is not installed.
        Contradiction: a bound is above the value of a schedule; the cell has no row.
    """
    target = str(Path(study).with_suffix(".sqlite") if database is None else database)
    if cluster is not None:
        dask()
    cells = cells_of(read_study(study), Path(study).parent)
    keys = [cell.key for cell in cells]
    with Store(target, resume=resume) as store:
        if retry:
            store.forget_failed(keys)
        known = store.finished()
        todo = [cell for cell in cells if cell.key not in known]
        with suppress(KeyboardInterrupt):
            _carry_out(todo, store, jobs, cluster, watch, done=len(cells) - len(todo))
        rows = store.rows(keys)
        return Sweep(target, len(cells), len(rows) - len(cells) + len(todo), rows, store.flat_rows(keys))


def _carry_out(todo: Sequence[Cell], store: Store, jobs: int, cluster: str | None, watch: Watch, *, done: int) -> None:
    if not todo:
        return
    running = run_locally(todo, jobs) if cluster is None else run_on_cluster(todo, cluster)
    with closing(running) as ended, watch(done, done + len(todo)) as advance:
        for cell, row in ended:
            if row["stopped"] == "contradiction":
                raise Contradiction(row["error"])
            store.add(cell, row)
            advance()


def run_locally(cells: Sequence[Cell], jobs: int) -> Generator[tuple[Cell, CellRow]]:
    """Run cells in `jobs` processes and yield each with its row as it ends.

    Closing the iterator, or an exception, ends the processes; their cells have no row.
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
