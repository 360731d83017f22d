"""How much `make test` draws of what `make test-all` draws whole."""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from typing import TypeVar
from zlib import crc32

Seeds = TypeVar("Seeds", bound=Sequence)
ALL = os.environ.get("KVBOUND_TESTS") == "all"
"""Whether `make test-all` runs."""
TURNS = bool(os.environ.get("KVBOUND_TURNS"))
"""Whether only those tests run whose turn it is: `.ci/run` takes them in turn, so that each runs every other day."""
DAYS = 2


def few(seeds: Seeds, part: int = 9) -> Seeds:
    """Return the first ninth (or third, ..) of the seeds; all of them in `make test-all`."""
    return seeds if ALL else seeds[: -(-len(seeds) // part)]


def today() -> int:
    """Return the day of the commit, in days since 1970; where git knows none, that of the clock."""
    asked = ["git", "-C", str(Path(__file__).parent), "log", "-1", "--format=%ct"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout if which("git") else ""
    return (int(found) if found.strip().isdigit() else int(time.time())) // 86_400


def has_its_turn(name: str, days: int = DAYS) -> bool:
    """Whether the day of the commit is one on which this test runs, where `KVBOUND_TURNS` is set: one in so many."""
    return (crc32(name.encode()) + DAY) % days == 0


DAY = today() if TURNS else 0
