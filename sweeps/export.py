"""Exports of the flat columns of results: CSV, or Parquet with pyarrow."""

import csv
import io
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from kvcore.errors import BadInput, needed
from kvcore.files import write_bytes, write_text
from sweeps.cell import CellRow
from sweeps.store import FLAT

EXACT = ("value", "bound")  # columns of exact numbers: 64-bit integers if all are, else text
INTEGERS = ("seed", "proved")
FLOATS = ("gap", "seconds")


def check_export(target: str | None) -> None:
    """Refuse an impossible export before anything is run."""
    if target is not None and Path(target).suffix not in (".csv", ".parquet"):
        raise BadInput(f"--export {target}: give a name that ends in .csv or .parquet")
    if target is not None and Path(target).suffix == ".parquet":
        _arrow()


def export(rows: Sequence[CellRow], target: str) -> None:
    """Write flat rows to a `.csv` or `.parquet` file."""
    if Path(target).suffix == ".csv":
        write_text(target, as_csv(rows))
    else:
        _write_parquet(rows, target)


def as_csv(rows: Sequence[CellRow], columns: Sequence[str] = FLAT) -> str:
    """Return the rows as CSV with a header; unknown values are empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _write_parquet(rows: Sequence[CellRow], target: str) -> None:
    arrow = _arrow()
    columns = {name: [row[name] for row in rows] for name in FLAT}
    types = {name: arrow.int64() for name in INTEGERS} | {name: arrow.float64() for name in FLOATS}
    for name in EXACT:
        whole = all(value is None or isinstance(value, int) for value in columns[name])
        types[name] = arrow.int64() if whole else arrow.string()
        columns[name] = columns[name] if whole else [None if v is None else str(v) for v in columns[name]]
    schema = arrow.schema([(name, types.get(name, arrow.string())) for name in FLAT])
    data = io.BytesIO()
    import_module("pyarrow.parquet").write_table(arrow.table(columns, schema=schema), data)
    write_bytes(target, data.getvalue())


def _arrow() -> Any:
    return needed("pyarrow", "Parquet needs pyarrow", "'kvbound[sweep]'")
