"""How much `make test` draws of what `make test-all` draws whole."""

import os
from collections.abc import Sequence
from typing import TypeVar

Seeds = TypeVar("Seeds", bound=Sequence)
ALL = os.environ.get("KVBOUND_TESTS") == "all"
"""Whether `make test-all` runs."""


def few(seeds: Seeds, part: int = 9) -> Seeds:
    """Return the first ninth (or third, ..) of the seeds; all of them in `make test-all`."""
    return seeds if ALL else seeds[: -(-len(seeds) // part)]
