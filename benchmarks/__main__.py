"""`python -m benchmarks [NAME ..]`: run benchmarks, print their rows and keep them in benchmarks/results/."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import big_m, exact, hour, identical, referee, simulate, slices, start_time
from benchmarks.record import save

BENCHMARKS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "referee": referee.run,
    "exact": exact.run,
    "hour": hour.run,
    "big_m": big_m.run,
    "identical": identical.run,
    "simulate": simulate.run,
    "slices": slices.run,
    "start_time": start_time.run,
}
"""Every benchmark by name."""
SHORT = ("referee", "exact", "hour")
"""Those that run unless others are named."""


def main(names: list[str]) -> None:
    """Run the named benchmarks, or the short ones."""
    unknown = set(names) - set(BENCHMARKS)
    if unknown:
        sys.exit(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    console = Console(width=None if sys.stdout.isatty() else 200)
    for name in names or SHORT:
        rows = BENCHMARKS[name]()
        columns = list(dict.fromkeys(key for row in rows for key in row))
        table = Table(*columns, box=None, title=name)
        for row in rows:
            table.add_row(*("" if row.get(column) is None else str(row[column]) for column in columns))
        console.print(table)
        console.print(f"written to {save(name, rows)}")


main(sys.argv[1:])
