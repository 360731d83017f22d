"""Runs our ways on open instances, and keeps what is better; a sweep's database has all tries."""

import math
import time
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from kvcore.errors import BadInput, MissingTool, unknown
from kvcore.files import read_text, write_text
from kvcore.result import Result, Stop
from library.library import OURS, TRIED, Improved, Library, origin
from solvers import solve
from solvers.source import code_version
from solvers.ways import WAYS as TABLE
from sweeps.cell import Cell
from sweeps.export import as_csv
from sweeps.run import Watch
from sweeps.store import Store

WAYS = tuple(dict.fromkeys(("improve", "auto", "bound", *(way.label for way in TABLE.values()))))
"""Policies with changes and repair, what `solve` chooses, the ladder of bounds; then each of the others."""

COLUMNS = (
    "name", "objective", "run", "seed", "value", "bound", "proved", "seconds", "error", "version", "finished",
)  # fmt: skip
SLACK = 0.9
"""A try that ends so shortly before its limit has used it."""


class Filled(NamedTuple):
    """The number of tries, and what they improved."""

    run: int
    improved: list[Improved]


def fill(
    library: Library,
    database: str | Path,
    *,
    names: Iterable[str] | None = None,
    family: str | None = None,
    objective: str | None = None,
    ways: Iterable[str] = WAYS,
    seconds: float = 60.0,
    seed: int = 0,
    largest_gap: bool = False,
    watch: Watch = lambda done, of: nullcontext(lambda: None),
) -> Filled:
    """Try each way on each open instance for `seconds`, and keep what is better.

    The smallest instance is first, or with `largest_gap` the one farthest from solved; `family` and `objective` leave
    out all others. Tries in the database, or spent by `tried.csv`, are not repeated. BadInput for an unknown way or
    name.
    """
    ways = tuple(ways)
    for way in set(ways) - set(WAYS):
        raise unknown("way", way, WAYS)
    records = [library.record(name) for name in (library.names if names is None else names)]
    wanted = [
        (-(math.inf if best.gap is None else best.gap) if largest_gap else record.requests + record.calls, record, of)
        for record in records for of, best in record.objectives.items()
        if best.status == "open" and family in (None, record.family) and objective in (None, of)
    ]  # fmt: skip
    wanted.sort(key=lambda one: one[0])
    instances = {record.name: library.instance(record) for _, record, _ in wanted}
    spent = _spent(library, seconds)
    cells = [
        Cell(record.family, record.name, instances[record.name], of, "as-given", "solver", way,
             {"way": way, "seconds": seconds, "seed": seed})
        for way in ways for _, record, of in wanted if (record.name, of, way) not in spent
    ]  # fmt: skip
    run, improved = 0, list[Improved]()
    with Store(database, resume=True) as store:
        finished = store.finished()
        try:
            with watch(sum(cell.key in finished for cell in cells), len(cells)) as advance:
                for cell in (cell for cell in cells if cell.key not in finished):
                    if library.record(cell.name).objectives[cell.objective].status == "open":
                        run += 1
                        improved += _try(library, cell, store)
                    advance()
        finally:
            _note(library, store)
    return Filled(run, improved)


def _spent(library: Library, seconds: float) -> set[tuple[str, str, str]]:
    tried = {
        (row["name"], row["objective"], row["run"]) for row in library.tried("version", "seconds")
        if row["version"] == code_version() and float(row["seconds"] or 0) >= SLACK * seconds
    }  # fmt: skip
    gained = {
        (record.name, objective, found.how.partition(":")[0])
        for record in library.records() for objective, best in record.objectives.items()
        for found in (best.schedule, best.certificate) if found is not None and found.seconds >= SLACK * seconds
    }  # fmt: skip
    return tried - gained


def _note(library: Library, store: Store) -> None:
    names, path = {record.instance_sha256: record.name for record in library.records()}, library.folder / TRIED
    rows = [row | {"name": names.get(row["instance_sha256"])} for row in store.flat_rows(store.finished())]
    head, *new = as_csv([{key: row[key] for key in COLUMNS} for row in rows if row["name"]], COLUMNS).splitlines()
    with library.locked():
        known = read_text(path).splitlines()[1:] if path.exists() else []
        write_text(path, "\n".join([head, *sorted({*known, *new})]) + "\n")


def _try(library: Library, cell: Cell, store: Store) -> list[Improved]:
    began = time.monotonic()
    try:
        result = _result(library, cell)
    except (BadInput, MissingTool) as error:
        store.add(cell, cell.failure(str(error), "declined"))
        return []
    improved = []
    for offer, by in ((result.schedule, result.found_by), (result.certificate, result.proved_by)):
        if offer is not None:
            how = cell.run if by in (None, cell.run) else f"{cell.run}: {by}"
            found = origin(OURS, how, time.monotonic() - began)
            improved += library.keep(library.record(cell.name), result.instance, offer, found)
    if result.stopped == Stop.INTERRUPTED:  # what it had found is kept, and it is tried again
        raise KeyboardInterrupt
    store.add(cell, cell.row(result.to_json()))
    return improved


def _result(library: Library, cell: Cell) -> Result:
    schedule, instance = library.schedule(library.record(cell.name), cell.objective), cell.instance
    assert instance is not None  # for mypy: the library has made it
    return solve(
        instance, cell.objective, ways=[cell.run], known={} if schedule is None else {"library": schedule},
        time_limit=cell.options["seconds"], seed=cell.options["seed"],
    )  # fmt: skip
