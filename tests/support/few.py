"""How much `make test` draws of what `make test-all` draws whole."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

Seeds = TypeVar("Seeds", bound=Sequence)
Item = TypeVar("Item")
ALL = os.environ.get("KVBOUND_TESTS") == "all"
"""Whether `make test-all` runs."""


def few(seeds: Seeds, part: int = 9) -> Seeds:
    """Return the first ninth (or third, ..) of the seeds; all of them in `make test-all`."""
    return seeds if ALL else seeds[: -(-len(seeds) // part)]


def in_turn(items: Sequence[Item], days: int = 2) -> list[Item]:
    """Return those whose turn it is on the day of the commit, each once in so many days; all, where git knows none."""
    asked = ["git", "-C", str(Path(__file__).parent), "log", "-1", "--format=%ct"]
    try:
        seconds = int(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
    except (OSError, ValueError, subprocess.CalledProcessError):
        return list(items)
    return [item for k, item in enumerate(items) if (k + seconds // 86_400) % days == 0]
