"""The roof, what users touch: `import kvbound as kv` gives all that is public, and here is the command line.

What is public, and the module that each name comes from, stands in one list: `__init__.pyi`. A name is loaded when it
is first used.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

_ORIGIN = {
    alias.asname or alias.name: (node.module, alias.name)
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom) and node.module is not None
    for alias in node.names
}
"""The module that each public name comes from, and its name there."""

__all__ = list(_ORIGIN)


def __getattr__(name: str) -> Any:
    if name not in _ORIGIN:
        raise AttributeError(f"module 'kvbound' has no attribute {name!r}")
    module, original = _ORIGIN[name]
    try:
        globals()[name] = value = getattr(import_module(module), original)
    except (AttributeError, ImportError) as error:
        from kvbound.cli import hidden

        raise ImportError(hidden() or str(error)) from error
    return value


def __dir__() -> list[str]:
    return __all__
