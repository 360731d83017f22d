"""Tables of what is measured of many requests, for the console."""

from __future__ import annotations

from typing import Annotated

import typer

from kvbound.cli.common import AlignedTable, table
from kvbound.tables import Labelled, times_cells, work_cells
from kvbound.units import Units

WindowOption = Annotated[
    str | None, typer.Option(metavar="SECONDS", help="measure as if the clock were stopped then (default: the end)")
]


def times_table(rows: Labelled, units: Units) -> AlignedTable:
    """Return the table of times, a row for each labelled summary."""
    columns, cells = times_cells(rows, units)
    return table(columns, cells, right=range(1, len(columns)))


def work_table(rows: Labelled, units: Units) -> AlignedTable:
    """Return the table of throughput, waste and moves, a row for each labelled summary."""
    columns, cells = work_cells(rows, units)
    return table(columns, cells, right=range(1, len(columns) - 1))
