"""The results of a sweep: one SQLite file, a row for each finished cell."""

import fcntl
import json
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from kvcore.errors import BadInput
from kvcore.files import check_database, first_error
from solvers.source import code_version
from sweeps.cell import Cell, CellRow

COLUMNS = {
    "key": "TEXT PRIMARY KEY", "label": "TEXT", "instance": "TEXT", "instance_sha256": "TEXT", "objective": "TEXT",
    "handling": "TEXT", "kind": "TEXT", "run": "TEXT", "predictions": "TEXT", "seed": "INTEGER", "status": "TEXT",
    "value": "", "bound": "", "gap": "REAL", "proved": "INTEGER", "stopped": "TEXT", "seconds": "REAL", "error": "TEXT",
    "version": "TEXT", "finished": "TEXT", "row": "TEXT NOT NULL",
}  # fmt: skip
"""Columns of the table `cells`. `value` and `bound` are integers, or text for fractions and long ones.

`proved`: whether `bound` holds for schedules of any number of batches. `row` is the whole result as JSON.
"""
FLAT = tuple(name for name in COLUMNS if name != "row")


def _number_in_text(value: str | int) -> str | int:
    if isinstance(value, str) and not re.fullmatch(r"-?[0-9]{1,4000}(/0*[1-9][0-9]{0,3999})?", value):
        raise ValueError("neither a whole number nor a fraction in text")
    return value


Exact = Annotated[int | str, AfterValidator(_number_in_text)]  # a value or a bound: an integer, or a fraction in text


class StoredHorizon(BaseModel):
    """What is read of the horizon of a stored row."""

    sufficient: bool


class Stored(BaseModel):
    """What a summary reads of a stored row."""

    model_config = ConfigDict(strict=True)

    label: str
    objective: str
    run: str
    handling_mode: str
    options: dict[str, Any]
    status: str
    stopped: str
    instance_sha256: str | None
    value: Exact | None
    bound: Exact | None
    horizon: StoredHorizon | None = None


class Store:
    """A database of results, held by one sweep at a time; others may read it meanwhile.

    A row is on the disk when `add` returns.
    """

    def __init__(self, path: str | Path, *, resume: bool) -> None:
        self.path = Path(os.path.realpath(path))  # one lock, whatever link names it
        lock = f"{self.path}.lock"
        check_database(path, lock)
        if self.path.exists() and not resume:
            raise BadInput(f"{path} is there already: go on with it with --resume, or give another --out")
        try:
            self._lock = os.open(lock, os.O_CREAT | os.O_WRONLY)
        except OSError as error:
            raise BadInput(f"{lock}: cannot be written: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with self._clearly("cannot be opened as a database of results"):
                self._database = self._open()
        except BlockingIOError:
            raise BadInput(f"{path}: another sweep is writing to it") from None

    def _open(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, isolation_level=None)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        database.execute(f"CREATE TABLE IF NOT EXISTS cells ({columns})")
        database.execute(f"SELECT {', '.join(COLUMNS)} FROM cells LIMIT 0")
        return database

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(sqlite3.Error):
            self._database.close()
        os.close(self._lock)

    @contextmanager
    def _clearly(self, what: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, OverflowError) as error:  # a number of more than 64 bits
            raise BadInput(f"{self.path}: {what}: {error}") from None

    def _select(self, what: str) -> list[tuple[Any, ...]]:
        with self._clearly("cannot be read, it is damaged"):
            return self._database.execute(f"SELECT {what} FROM cells").fetchall()

    def finished(self) -> set[str]:
        """Return the keys of the cells with a row."""
        return {key for (key,) in self._select("key")}

    def add(self, cell: Cell, row: CellRow) -> None:
        """Write the row of a cell, for good."""
        flat = _flat(cell, row)
        marks = ", ".join("?" * len(COLUMNS))
        with self._clearly("cannot be written, but keeps what is finished; --resume goes on with it"):
            self._database.execute(f"INSERT INTO cells ({', '.join(flat)}) VALUES ({marks})", list(flat.values()))

    def forget_failed(self, keys: Iterable[str]) -> None:
        """Delete the rows of failed ones among these cells."""
        delete = "DELETE FROM cells WHERE error IS NOT NULL AND key = ?"
        with self._clearly("cannot be written"):
            self._database.executemany(delete, [(key,) for key in keys])

    def rows(self, keys: Iterable[str]) -> list[CellRow]:
        """Return the rows of finished ones among these cells, in this order."""
        found = dict(self._select("key, row"))
        return [self._checked(key, found[key]) for key in keys if key in found]

    def _checked(self, key: str, row: Any) -> CellRow:
        try:
            Stored.model_validate_json(row)
            read: CellRow = json.loads(row)
        except ValidationError as error:
            raise BadInput(f"{self.path}: the row of cell {key} is no result: {first_error(error)}") from None
        except (TypeError, ValueError, RecursionError) as error:
            raise BadInput(f"{self.path}: the row of cell {key} is no result: {error}") from None
        return read

    def flat_rows(self, keys: Iterable[str]) -> list[CellRow]:
        """Return the same without the column `row`, as in the table."""
        found = {row[0]: dict(zip(FLAT, row, strict=True)) for row in self._select(", ".join(FLAT))}
        return [found[key] for key in keys if key in found]


def proved(row: CellRow) -> bool:
    """Whether the bound of a row holds for schedules of any number of batches."""
    return row["bound"] is not None and bool((row.get("horizon") or {}).get("sufficient"))


def _flat(cell: Cell, row: CellRow) -> dict[str, Any]:
    taken = {name: row.get(name) for name in FLAT}
    return taken | {
        "key": cell.key, "handling": cell.handling, "predictions": cell.options.get("predictions"),
        "seed": cell.options.get("seed"), "value": _number(row["value"]), "bound": _number(row["bound"]),
        "proved": int(proved(row)), "version": code_version(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"), "row": json.dumps(row, ensure_ascii=False),
    }  # fmt: skip


def _number(value: int | str | None) -> int | str | None:
    return str(value) if isinstance(value, int) and abs(value) >= 2**63 else value
