"""The public traces, for the tests that need them."""

from pathlib import Path

import pytest

from benchmarks.data import data_file

MIXTURE = "infercept/merged_exp_uniform_lengths.csv"


def real(name: str) -> Path:
    """Return a file of the traces; where it is not at hand, the test is skipped."""
    path = data_file(name)
    if not path.is_file():
        pytest.skip(f"the data is not at {path} (set KVBOUND_DATA)")
    return path
