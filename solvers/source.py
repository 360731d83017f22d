"""The code that proves, as a hash."""

import hashlib
from functools import cache
from pathlib import Path

import kvcore

PROVES = ("kvcore", "heuristics", "formulations", "bounds", "solvers")
"""The packages whose code decides what is found and proved."""


@cache
def code_version() -> str:
    """Return the version of kvbound, `+`, and the start of the SHA-256 of these packages' source files."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    for file in sorted(file for name in PROVES for file in (root / name).rglob("*.py")):
        digest.update(f"{file.relative_to(root).as_posix()}\n".encode() + file.read_bytes() + b"\0")
    return f"{kvcore.__version__}+{digest.hexdigest()[:16]}"
