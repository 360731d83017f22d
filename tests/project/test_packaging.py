"""What is packaged is what is there, and the version is the same everywhere."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

import kvcore
from kvbound import cli

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = tuple(PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
NOT_SHIPPED = {"tests", "benchmarks", "docs"}


def first(pattern, file):
    """Return the first match in a file of the repository."""
    match = re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert match is not None, f"{file}: nothing matches {pattern}"
    return match[1]


def test_the_wheel_holds_every_package():
    folders = {file.parent.name for file in ROOT.glob("*/__init__.py")} - NOT_SHIPPED
    assert set(PACKAGES) == folders


def test_the_tools_know_every_package():
    tool = PYPROJECT["tool"]
    assert set(PACKAGES) <= set(tool["ruff"]["lint"]["isort"]["known-first-party"])
    assert {*PACKAGES, "benchmarks"} == set(tool["mypy"]["files"])
    assert list(PACKAGES) == tool["importlinter"]["root_packages"] == list(cli.PACKAGES)


def test_every_package_is_typed():
    assert [package for package in PACKAGES if not (ROOT / package / "py.typed").is_file()] == []


def test_every_folder_of_modules_is_a_package():
    folders = {file.parent for top in (*PACKAGES, "tests") for file in (ROOT / top).rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_the_version_is_the_same_everywhere():
    version = PYPROJECT["project"]["version"]
    assert version == kvcore.__version__
    assert version == first(r"^version: (\S+)$", "CITATION.cff")
    assert version == first(r"^## \[(\d\S*)\]", "CHANGELOG.md")


def test_the_release_date_is_the_same_in_both_files():
    assert first(r"^date-released: (\S+)$", "CITATION.cff") == first(r"^## \[\d\S*\] - (\S+)$", "CHANGELOG.md")


def test_another_package_of_the_same_name_is_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "solvers").mkdir()
    (tmp_path / "solvers" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "solvers", raising=False)
    monkeypatch.setattr(sys, "argv", ["kvbound", "instances"])
    with pytest.raises(SystemExit, match="4"):
        cli.main()
    assert re.fullmatch(r"kvbound: the package solvers is taken from \S+, not from .+\n", capsys.readouterr().err)
