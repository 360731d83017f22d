"""Code that numba has kept is made anew where what it was made of has changed or moved."""

import ast
import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kvcore.compiled import sources
from tests.support.few import few

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


ROOT = Path(__file__).parents[2]
INNER = """
from typing import NamedTuple
from kvcore.compiled import compiled

class Pair(NamedTuple):
    first: int
    second: int

MORE = 0

@compiled
def difference(pair):
    return pair.first - pair.second + MORE
"""
OUTER = """
from kvcore.compiled import compiled
from kvcore.inner import difference

@compiled
def twice(pair):
    return 2 * difference(pair)
"""
RUN = """
from kvcore import inner, outer
print(outer.twice(inner.Pair(first=9, second=2)), "made" if outer.twice.stats.cache_misses else "kept")
"""
PRICED = """
from kvcore import CostFunction, Instance, Machine, Request, Segment
from kvcore.certificates import InOrder, Potentials, certify, verify_certificate
requests = tuple(Request(id=id, prompt=prompt, segments=(Segment(decode=2),)) for id, prompt in (("A", 2), ("B", 1)))
two = Instance(machine=Machine(memory=4), cost=(CostFunction(busy=4, tokens=1),), requests=requests)
proof = Potentials(scale=1, potentials=(), in_order=(InOrder(scale=1, price=(0,)),), labels=1000)
print(verify_certificate(two, certify(two, "total-flow-time", proof)))
"""
CHANGES = (
    ("MORE = 0", "MORE = 1000", "2014"),
    ("first - pair.second", "first + pair.second", "22"),
    ("    first: int\n    second: int", "    second: int\n    first: int", "14"),
)


@pytest.fixture
def small(tmp_path):
    """Return the folder of a small `kvcore`, in which a kernel calls one of another file."""
    folder = tmp_path / "kvcore"
    folder.mkdir()
    shutil.copy(ROOT / "kvcore" / "compiled.py", folder)
    for name, code in (("__init__", ""), ("inner", INNER), ("outer", OUTER)):
        (folder / f"{name}.py").write_text(code)
    return folder


def said(folder, command=RUN):
    """Return what a process prints that imports the package in a folder."""
    command = [sys.executable, "-B", "-c", f"import sys; sys.path.insert(0, {str(folder.parent)!r})\n{command}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def kept(folder):
    """Return the file of the compiled `twice`: there is but one."""
    (file,) = folder.glob("__pycache__/outer.twice*.nbc")
    return file


def test_code_is_made_anew_when_another_file_is_mended(small):
    """The file of `twice` stays, and so do the types of its arguments.

    Nor is code taken for what the index says: a process may end after it has written that, or two write at once.
    """
    for right, wrong, value in few(CHANGES, 3):
        (small / "inner.py").write_text(INNER.replace(right, wrong))
        assert said(small) == f"{value} made"
        other = kept(small).read_bytes()
        (small / "inner.py").write_text(INNER)
        assert said(small) == "14 made"
    assert said(small) == "14 kept"
    kept(small).write_bytes(other)
    assert said(small) == "14 made"


def test_code_is_not_kept_of_files_that_change_while_it_is_made(small):
    """Which of the two contents a module has is not known then."""
    change = f"from kvcore import outer\nopen({str(small / 'inner.py')!r}, 'a').write('# more')\n"
    assert said(small, change + RUN) == "14 made"
    (small / "inner.py").write_text(INNER)
    assert said(small) == "14 made"


def test_code_for_which_there_is_no_room_is_made_each_time(small):
    full = "from numba.core.caching import IndexDataCacheFile as Files\ndef save(*_): raise OSError('no room')\n"
    assert [said(small, full + "Files.save = save\n" + RUN) for _ in range(2)] == ["14 made", "14 made"]


def test_kernels_take_no_number_from_a_file_that_is_not_among_the_sources():
    """Numba makes numbers of other files part of the code."""
    kernels = {name: content for name, content in sources() if b"from kvcore.compiled import" in content}
    assert len(kernels) >= 15
    for name, content in kernels.items():
        module = importlib.import_module(name[:-3].replace("/", "."))
        for node in ast.walk(ast.parse(content)):
            file = f"{node.module.replace('.', '/')}.py" if isinstance(node, ast.ImportFrom) else ""
            if (ROOT / file).is_file() and file not in dict(sources()):
                for alias in node.names:
                    found = getattr(module, alias.asname or alias.name)
                    assert not isinstance(found, int | float | tuple | np.ndarray), f"{name}: {alias.name}"


@pytest.mark.slow  # it compiles the search twice
def test_a_mended_search_certifies_no_more_than_the_optimum(tmp_path):
    """With an error in `supplied`, which a kernel of another file calls, far more than an optimum of 29 is said."""
    shutil.copytree(ROOT / "kvcore", tmp_path / "kvcore", ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "kvcore" / "certificates" / "remaining.py"
    right = file.read_text()
    file.write_text(right.replace("x.price.shape[1] else 0", "x.price.shape[1] else -10**9"))
    assert int(said(tmp_path / "kvcore", PRICED)) > 1000
    file.write_text(right)
    assert said(tmp_path / "kvcore", PRICED) == "27"
