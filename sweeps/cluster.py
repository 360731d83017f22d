"""Cells on a Dask cluster, whose workers have kvbound."""

import logging
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from kvcore.errors import BadInput, needed
from solvers.source import code_version
from sweeps.cell import Cell, CellRow
from sweeps.worker import CellWorker

CONNECT = 10.0  # seconds in which the scheduler has to answer
_PER_THREAD = threading.local()


def dask() -> Any:
    """Return the module `distributed`. MissingTool says how to install it."""
    return needed("distributed", "--cluster needs Dask", "'kvbound[cluster]'")


def run_on_cluster(cells: Sequence[Cell], address: str) -> Generator[tuple[Cell, CellRow]]:
    """Run cells on the cluster at `address` and yield each with its row as it ends.

    A cell whose worker dies goes to another one; a cell that takes several workers with it fails.

    Raises:
        BadInput: no scheduler answers, its workers have another kvbound, or the cluster is gone.
        MissingTool: Dask is not installed.
    """
    distributed = dask()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what is lost is said once, below
    with _client(distributed, address) as client:
        _check_versions(client, address)
        futures = {client.submit(run_on_worker, cell, key=f"kvbound-{cell.key}", pure=False): cell for cell in cells}
        for future in distributed.as_completed(list(futures), loop=client.loop):
            if future.status == "lost":  # its worker died with the row: another one computes it again
                with suppress(CancelledError):
                    future.exception()  # it waits
            if future.status in ("cancelled", "lost"):
                raise BadInput(f"the cluster at {address} is gone; --resume goes on with what is left")
            cell = futures.pop(future)
            failed = future.status == "error"
            yield cell, cell.failure(f"its Dask worker: {future.exception()}", "crashed") if failed else future.result()


def run_on_worker(cell: Cell) -> CellRow:
    """Run a cell in a process beside the Dask worker, one for each of its threads."""
    if not hasattr(_PER_THREAD, "worker"):
        _PER_THREAD.worker = CellWorker()
    row: CellRow = _PER_THREAD.worker.run(cell)
    return row


def _client(distributed: Any, address: str) -> Any:
    try:
        return distributed.Client(address, timeout=CONNECT, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise BadInput(f"--cluster {address}: no Dask scheduler answers there ({error})") from None


def _check_versions(client: Any, address: str) -> None:
    try:
        versions = set(client.run(code_version).values())
    except ImportError as error:
        raise BadInput(f"--cluster {address}: kvbound is not installed on its workers ({error})") from None
    if versions - {code_version()}:
        raise BadInput(f"--cluster {address}: its workers have kvbound {versions}, this is {code_version()}")
