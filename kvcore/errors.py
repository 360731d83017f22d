"""The two refusals of kvbound: bad input, and a missing tool."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import Any


class BadInput(ValueError):
    """Unusable input: one clear line (exit code 2 on the command line)."""


class MissingTool(RuntimeError):
    """A missing solver or extra; the line says how to install it (exit code 4)."""


def needed(module: str, what: str, install: str) -> Any:
    """Return a module of an extra; MissingTool: it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingTool(f"{what}, which is not installed: pip install {install}") from None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with the known names close to an unknown one (none: empty)."""
    names = list(dict.fromkeys(known))
    near = get_close_matches(name, names, 4) or [each for each in names if name and name in each][:4]
    return f"; is it {', '.join(near)}?" if near else ""


def unknown(what: str, name: str, known: Iterable[str], *more: str) -> BadInput:
    """Return the error for an unknown name: near names, all names, then `more`."""
    names = list(known)
    return BadInput(f"no {what} is called {name!r}{did_you_mean(name, names)}; there are {', '.join((*names, *more))}")


def in_one_line(error: BaseException, file: str) -> str:
    """Return an error from a user's file: its kind, its text (the user's code, too), its last line there."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if os.path.abspath(frame.filename) == os.path.abspath(file)]
    place = f" ({file}, line {lines[-1]})" if lines else ""
    try:
        text = str(error)
    except Exception:
        text = ""
    return f"{type(error).__name__}{': ' * bool(text)}{text}{place}"
