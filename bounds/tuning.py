"""Options: the numbers that steer a search, in a frozen object for each algorithm.

A field with its effect is one that users set; a plain attribute beside them is a number that several places read.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from math import inf
from typing import Any, Self

_CHOSEN: ContextVar[Mapping[type, Any]] = ContextVar("options")


class Options:
    """The base of the options of an algorithm, each a frozen dataclass."""

    @classmethod
    def given(cls) -> Self:
        """Return the options that hold here: the defaults, or what `chosen` says."""
        held: Self | None = _CHOSEN.get({}).get(cls)
        return cls() if held is None else held


def option(default: Any, effect: str, *, least: float | None = None, most: float = inf) -> Any:
    """Return the field of an option: its default, its effect, its least value (None: anything above 0) and its most."""
    return field(default=default, metadata={"effect": effect, "least": least, "most": most})


@contextmanager
def chosen(*options: Options) -> Iterator[None]:
    """Let these options hold in the block, for this thread."""
    token = _CHOSEN.set({**_CHOSEN.get({}), **{type(each): each for each in options}})
    try:
        yield
    finally:
        _CHOSEN.reset(token)
