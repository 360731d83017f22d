"""A frame of pandas, polars or Arrow as a table."""

from collections.abc import Iterator, Sequence
from typing import Any

from kvcore.csv_table import Row, Table, check_header
from kvcore.errors import needed

SOURCE = "the frame"
MISSING = ("nan", "NaT", "<NA>", "None")


def is_frame(thing: object) -> bool:
    """Whether it is a frame, no name of a file."""
    return any(hasattr(thing, name) for name in ("itertuples", "__arrow_c_stream__", "__dataframe__"))


def read_frame(frame: Any, columns: Sequence[str]) -> Table:
    """Return the table of a frame; but for pandas it takes pyarrow (MissingTool). BadInput: a column is missing."""
    if hasattr(frame, "itertuples"):
        names, rows = list(map(str, frame.columns)), frame.itertuples(index=False, name=None)
    else:
        arrow = needed("pyarrow", "such a frame needs pyarrow", "pyarrow")
        streams = hasattr(frame, "__arrow_c_stream__")
        table = arrow.table(frame) if streams else needed("pyarrow.interchange", "", "").from_dataframe(frame)
        names, rows = table.column_names, zip(*(column.to_pylist() for column in table.columns), strict=True)
    check_header(SOURCE, names, columns)
    return Table(names, _rows(rows, [(name, names.index(name)) for name in columns]))


def _rows(rows: Any, places: Sequence[tuple[str, int]]) -> Iterator[Row]:
    for number, cells in enumerate(rows, 1):
        yield Row(SOURCE, number, {name: _text(cells[place]) for name, place in places})


def _text(cell: Any) -> str:
    text = str(cell.tolist() if hasattr(cell, "tolist") else cell)
    return "" if text in MISSING and not isinstance(cell, str) else text
