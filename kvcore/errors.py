"""The two ways in which kvbound says no: bad input, and a missing tool."""

from __future__ import annotations


class BadInput(ValueError):
    """What the user gave cannot be used: one clear line (exit code 2 on the command line)."""


class MissingTool(RuntimeError):
    """A solver or an extra that was asked for is not there; the line says how to install it (exit code 4)."""
