"""`python -m benchmarks [NAME ..]`: run benchmarks, print their rows and keep them in benchmarks/results/."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from benchmarks import bounds, improving, library, referee, simulate
from benchmarks.record import save
from benchmarks.slices import slices
from benchmarks.solving import exact, identical, rows, start_time
from kvbound.cli.common import people_console, table

BENCHMARKS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "referee": referee.run,
    "bounds": bounds.run,
    "hour": simulate.hour,
    "library": library.run,
    "simulate": simulate.run,
    "improving": improving.run,
    **{kind.__name__: lambda kind=kind: rows(kind()) for kind in (exact, identical, slices, start_time)},
}
"""Every benchmark by name."""
SHORT = ("referee", "exact", "hour")
"""Those that run unless others are named."""


def main(names: list[str]) -> None:
    """Run the named benchmarks, or the short ones."""
    unknown = set(names) - set(BENCHMARKS)
    if unknown:
        sys.exit(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    console = people_console()
    for name in names or SHORT:
        found = BENCHMARKS[name]()
        columns = list(dict.fromkeys(key for row in found for key in row))
        console.print(name, style="bold")
        console.print(table(columns, [[row.get(column) for column in columns] for row in found]))
        console.print(f"written to {save(name, found)}")


main(sys.argv[1:])
