"""Instances by name or file."""

from __future__ import annotations

from pathlib import Path

from kvcore.errors import BadInput, did_you_mean
from kvcore.files import read_instance
from kvcore.instance import Instance
from workloads.builtin import BUILTIN, builtin_instance, is_builtin


def load_instance(source: str) -> Instance:
    """Return an instance by file, `-` (standard input), a built-in name, or a name of the library.

    A built-in name goes before a file, a file before the library. BadInput if there is none.
    """
    if is_builtin(source):
        return builtin_instance(source)
    if source != "-" and not Path(source).exists():
        return _of_library(source)
    if {".csv", ".jsonl"} & set(Path(source).suffixes):
        raise BadInput(f"{source} is no instance; `kvbound import` makes one of a trace (docs/data.md)")
    return read_instance(source)


def _of_library(name: str) -> Instance:
    from library import Library  # takes longer than all else here, and few need it

    library = Library()
    if name not in library.names:
        folder = Path(name).parent
        files = [str(folder / file.name) for file in folder.glob("*.json*")] if folder.is_dir() else []
        near = did_you_mean(name, [*BUILTIN, *library.names, *files])
        raise BadInput(
            f"there is no file {name!r}, and no instance of that name{near}; `kvbound instances` and "
            "`kvbound library list` name all"
        )
    return library.instance(library.record(name))
