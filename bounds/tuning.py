"""Options: the numbers that steer a search, in a frozen object for each algorithm.

Users set fields with an effect; a plain attribute is a number that several places read.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from math import inf
from typing import Any, Self

_CHOSEN: ContextVar[Mapping[type, Any]] = ContextVar("options")


class Options:
    """Base of the options of an algorithm: a frozen dataclass."""

    @classmethod
    def given(cls) -> Self:
        """Return the defaults, or what `chosen` says."""
        held: Self | None = _CHOSEN.get({}).get(cls)
        return cls() if held is None else held


def option(default: Any, effect: str, *, least: float | None = None, most: float = inf) -> Any:
    """Return a field: default, effect, least value (None: anything above 0) and most."""
    return field(default=default, metadata={"effect": effect, "least": least, "most": most})


@contextmanager
def chosen(*options: Options) -> Iterator[None]:
    """Use these options in the block, in this thread."""
    token = _CHOSEN.set({**_CHOSEN.get({}), **{type(each): each for each in options}})
    try:
        yield
    finally:
        _CHOSEN.reset(token)
