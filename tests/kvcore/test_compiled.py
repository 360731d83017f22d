"""Code that numba has kept is made anew where what it names has moved."""

import subprocess
import sys

import pytest

pytest.importorskip("numba", reason="numba is not installed")
USE = """
from typing import NamedTuple
from kvcore.compiled import compiled
from {types} import Pair

@compiled
def total(pair):
    return pair.first + pair.second

print(total(Pair(1, 2)))
"""


def test_types_may_move(tmp_path):
    """The kept code of `use` names the file of its type, which an update renames."""
    types = "from typing import NamedTuple\n\nclass Pair(NamedTuple):\n    first: int\n    second: int\n"
    for name in ("before", "later"):
        (tmp_path / f"{name}.py").write_text(types)
        (tmp_path / "use.py").write_text(USE.format(types=name))
        command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import use"]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "3\n"
        (tmp_path / f"{name}.py").unlink()


def test_code_that_cannot_be_kept_is_made_each_time(tmp_path):
    """As where neither the folder of the code nor a home can be written to."""
    (tmp_path / "later.py").write_text(
        "from collections import namedtuple\nPair = namedtuple('Pair', 'first second')\n"
    )
    nowhere = "from numba.core.caching import CacheImpl\nCacheImpl._locator_classes = []\n"
    (tmp_path / "use.py").write_text(nowhere + USE.format(types="later"))
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import use"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "3\n"
