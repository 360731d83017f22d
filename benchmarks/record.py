"""Flat records of measurements: what was run, on which machine with which versions, and quantiles of its times."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from kvcore.files import write_text

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """Return what the times depend on besides the code."""
    packages = ("kvbound", "highspy", "gurobipy", "pyomo", "pydantic", "numpy")
    versions = {name: _version(name) for name in packages}
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        **versions,
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def timed(run: Callable[[], Any], repeats: int) -> tuple[Any, dict[str, float]]:
    """Run it `repeats` times; return the last result and the least, median and largest seconds."""
    seconds = []
    result = None
    for _ in range(repeats):
        started = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - started)
    return result, {
        "seconds_min": round(min(seconds), 3),
        "seconds_median": round(statistics.median(seconds), 3),
        "seconds_max": round(max(seconds), 3),
        "repeats": repeats,
    }


def save(name: str, rows: list[dict[str, Any]]) -> Path:
    """Write the records of one benchmark, each with the machine and the versions, as JSON lines."""
    RESULTS.mkdir(exist_ok=True)
    facts = machine()
    path = RESULTS / f"{facts['date']}-{name}.jsonl"
    write_text(path, "".join(json.dumps({"benchmark": name, **row, **facts}) + "\n" for row in rows))
    return path
