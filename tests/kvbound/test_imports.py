"""What importing loads; which package may import which is the contract in pyproject.toml (`make lint`)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import kvbound

HEAVY = ("torch", "triton", "gurobipy", "ortools", "highspy", "matplotlib", "distributed", "pyarrow")


def loaded_by(code):
    """Return the modules that a new process has loaded after some code."""
    done = subprocess.run(
        [sys.executable, "-c", f"import json, sys; {code}; print(json.dumps(sorted(sys.modules)))"],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("package", ["solvers", "sweeps"])
def test_importing_loads_nothing_heavy(package):
    loaded = loaded_by(f"import {package}")
    assert package in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_what_workers_are_copies_of_has_loaded_no_solver():
    loaded = loaded_by("from solvers.process import LOADED; [__import__(name) for name in LOADED]")
    assert "solvers.improve" in loaded
    assert {"highspy", "ortools", "gurobipy"} & set(loaded) == set()


def test_the_roof_loads_when_it_is_used():
    loaded = loaded_by("import kvbound as kv; before = set(sys.modules); kv.Instance; assert 'kvcore' not in before")
    assert "kvcore" in loaded
    assert [name for name in (*HEAVY, "pyomo", "numba", "scipy", "numpy") if name in loaded] == []


def test_simulating_compiles_nothing():
    loaded = loaded_by("import kvbound.cli.simulate")
    assert "kvcore.compiled" in loaded
    assert "numba" not in loaded


def test_help_loads_no_command():
    loaded = loaded_by("from kvbound.cli.app import app; app(['--help'], standalone_mode=False)")
    assert "kvbound.cli.app" in loaded
    assert [name for name in loaded if name.startswith("kvbound.cli.")] == ["kvbound.cli.app"]


def test_every_public_name_is_there_and_has_a_use():
    assert len(kvbound.__all__) > 50
    assert [name for name in kvbound.__all__ if getattr(kvbound, name) is None] == []
    assert set(kvbound.__all__) <= set(dir(kvbound))
    with pytest.raises(AttributeError, match="module 'kvbound' has no attribute 'nothing'"):
        _ = kvbound.nothing
