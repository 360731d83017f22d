"""The roof: `import kvbound as kv` gives all that is public, listed in `__init__.pyi`; names load when first used."""

import ast
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

_ORIGIN = {
    alias.asname or alias.name: (node.module, alias.name)
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom) and node.module is not None
    for alias in node.names
}

__all__ = list(_ORIGIN)

_NOTEBOOK = {
    "kvcore.instance": "Instance",
    "kvcore.result": "Result",
    "kvbound.comparison": "Comparison",
    "hypotheses.verdict": "Verdict",
}
"""Shown in notebooks as a table and a picture, by module."""


def __getattr__(name: str) -> Any:
    if name not in _ORIGIN:
        raise AttributeError(f"module 'kvbound' has no attribute {name!r}")
    module, original = _ORIGIN[name]
    try:
        globals()[name] = value = getattr(import_module(module), original)
    except (AttributeError, ImportError) as error:
        from kvbound.cli import hidden

        raise ImportError(hidden() or str(error)) from error
    if hasattr(value, "model_rebuild"):
        value.model_rebuild()  # else it has no signature before it is first used
    for shown, kind in _NOTEBOOK.items():
        if shown in sys.modules:
            getattr(sys.modules[shown], kind)._repr_html_ = _html
    return value


def _html(thing: Any) -> Any:
    return import_module("kvbound.display").html(thing)


def __dir__() -> list[str]:
    return __all__
