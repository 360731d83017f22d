"""The families of the library, `families.toml`.

`python -m library.families` adds what the folder of records lacks; traces need KVBOUND_DATA (docs/data.md).
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kvcore.errors import BadInput
from kvcore.files import parse
from kvcore.instance import Instance
from library.library import Library
from sweeps.study import points
from workloads.builtin import builtin_instance, is_builtin

TABLE = Path(__file__).with_suffix(".toml")


class Case(NamedTuple):
    """An instance: its name, its source (a built-in name or a command), and the objectives that count."""

    name: str
    source: str
    objectives: tuple[str, ...]


class Family(NamedTuple):
    """Instances of one kind, and their origin."""

    what: str
    origin: str
    cases: list[Case]
    licence: str


def families() -> dict[str, Family]:
    """Return the families of the table, by name."""
    found = {}
    for name, row in tomllib.loads(TABLE.read_text(encoding="utf-8")).items():
        objectives = row.get("objectives", ["total-flow-time"])
        cases = [case for group in row["groups"] for case in _cases(objectives, **group)]
        found[name] = Family(row["what"], row["origin"], cases, row.get("licence", "MIT, as kvbound"))
    return found


def _cases(objectives: Sequence[str], source: str, name: str | None = None, **axes: Any) -> Iterator[Case]:
    for point in points(axes):
        given: dict[str, Any] = {}
        for key, value in point.items():
            given |= value if isinstance(value, dict) else {key: value}
        made = source.format(**given)
        named = re.sub("[^A-Za-z0-9]+", "-", made.replace("=", "")) if name is None else name.format(**given)
        yield Case(named, made, tuple(objective.format(**given) for objective in objectives))


FAMILIES = families()
"""Every family, by its name."""


def make(source: str) -> Instance:
    """Return the instance of a built-in name or a command; commands run in the folder KVBOUND_DATA."""
    if is_builtin(source):
        return builtin_instance(source)
    command = [sys.executable, "-m", "kvbound", *source.split(), "--out", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=os.environ.get("KVBOUND_DATA"))
    if done.returncode:
        raise BadInput(f"kvbound {source}: {done.stderr.strip()}")
    return parse(Instance, done.stdout, source)


def main() -> None:
    """Add missing instances."""
    library = Library()
    for family, (_, origin, cases, licence) in FAMILIES.items():
        for name, source, objectives in cases:
            if name not in library.names:
                about = {"name": name, "family": family, "source": source, "origin": origin, "licence": licence}
                library.add(make(source), objectives, **about)
                print(f"{family}/{name}")


if __name__ == "__main__":
    main()
