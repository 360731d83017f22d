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
"""Whether only those tests run whose turn it is."""
PARTS = 8


def few(seeds: Seeds, part: int = 9) -> Seeds:
    """Return the first ninth (or third, ..) of the seeds; all of them in `make test-all`."""
    return seeds if ALL else seeds[: -(-len(seeds) // part)]


def turn() -> int:
    """Return the half days since noon of 1 January 1970 at the time of the commit; of now, where git knows none."""
    asked = ["git", "-C", str(Path(__file__).parent), "log", "-1", "--format=%ct"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout if which("git") else ""
    return (int(found) if found.strip().isdigit() else int(time.time())) // 43_200 - 1


def has_its_turn(name: str) -> bool:
    """Whether a test runs where `KVBOUND_TURNS` is set: one of `PARTS` each half day, so all do in four days."""
    return (crc32(name.encode()) + TURN) % PARTS == 0


TURN = turn() if TURNS else 0
