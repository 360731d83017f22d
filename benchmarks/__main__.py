"""`python -m benchmarks [NAME ..]`: run benchmarks, print their rows and keep them in benchmarks/results/."""

import json
import os
import platform
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import library, simulate
from kvbound.cli.common import people_console, table
from kvcore.files import write_text
from sweeps import sweep

STUDIES, RESULTS = (Path(__file__).parent / name for name in ("studies", "results"))


def solved(name: str) -> list[dict[str, Any]]:
    """Return the rows of the sweeps whose studies have that name: how fast exact answers are, in every way."""
    with TemporaryDirectory() as folder:
        found = [sweep(study, Path(folder, f"{study.stem}.sqlite")) for study in sorted(STUDIES.glob(f"{name}*.toml"))]
    assert all(one.summary for one in found), "which says so where a value is below another's bound"
    left_out = ("key", "label", "kind", "predictions", "version", "finished", "instance_sha256")
    return [{key: value for key, value in row.items() if key not in left_out} for one in found for row in one.flat]


BENCHMARKS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "hour": simulate.hour,
    "library": library.run,
    "simulate": simulate.run,
    "exact": partial(solved, "exact"),
}
SHORT = ("exact", "hour")  # those that run unless others are named


def machine() -> dict[str, Any]:
    """Return what the times depend on besides the code."""
    packages = ("kvbound", "highspy", "gurobipy", "pyomo", "pydantic", "numpy")
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        **{name: _version(name) for name in packages},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def save(name: str, rows: list[dict[str, Any]]) -> Path:
    """Write the records of one benchmark, each with the machine and the versions, as JSON lines."""
    RESULTS.mkdir(exist_ok=True)
    facts = machine()
    path = RESULTS / f"{facts['date']}-{name}.jsonl"
    write_text(path, "".join(json.dumps({"benchmark": name, **row, **facts}) + "\n" for row in rows))
    return path


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


if __name__ == "__main__":  # a sweep's processes import this file again
    main(sys.argv[1:])
