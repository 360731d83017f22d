"""What is packaged is what is there, and the version is the same everywhere."""

import os
import re
import subprocess
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


def test_a_release_is_tagged_with_its_section_of_the_changelog(tmp_path):
    version = PYPROJECT["project"]["version"]
    for name in ("Makefile", "pyproject.toml", "CHANGELOG.md"):
        (tmp_path / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")

    def run(*command):
        who = {
            "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
        }  # fmt: skip
        return subprocess.run(
            command, cwd=tmp_path, env=os.environ | who, check=True, capture_output=True, text=True
        ).stdout

    run("git", "init", "-q")
    run("git", "commit", "-q", "--allow-empty", "-m", "all")
    run("make", "tag")
    words = run("git", "tag", "-l", "--format=%(contents)", f"v{version}")
    assert words.startswith(f"## [{version}]")
    assert words.count("\n## [") == 0
    assert "### Added" in words


def test_containers_install_what_is_here():
    """Both install this folder with extras that there are, and begin with the demo."""
    docker, conda = ((ROOT / name).read_text(encoding="utf-8") for name in ("Dockerfile", "environment.yml"))
    extras = [
        name
        for text in (docker, conda)
        for found in re.findall(r"\[([a-z,-]+)\][\"']", text)
        for name in found.split(",")
    ]
    assert set(extras) <= set(PYPROJECT["project"]["optional-dependencies"])
    assert 'CMD ["demo"]' in docker
    oldest = tuple(map(int, PYPROJECT["project"]["requires-python"].removeprefix(">=").split(".")))
    for version in re.findall(r"python[:=](\d+)\.(\d+)", docker + conda):
        assert tuple(map(int, version)) >= oldest


def test_another_package_of_the_same_name_is_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "solvers").mkdir()
    (tmp_path / "solvers" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "solvers", raising=False)
    monkeypatch.setattr(sys, "argv", ["kvbound", "instances"])
    with pytest.raises(SystemExit, match="4"):
        cli.main()
    assert re.fullmatch(r"kvbound: the package solvers is taken from \S+, not from .+\n", capsys.readouterr().err)
