"""Arrays that belong together, with a row for each item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.int64]


def repeated(count: Array) -> tuple[Array, Array]:
    """Return, for `count[k]` copies of each k, of which k each is a copy, and its place among them."""
    origin = np.repeat(np.arange(len(count)), count)
    return origin, np.arange(len(origin)) - np.repeat(np.cumsum(count) - count, count)


@dataclass
class ByRow:
    """What a dataclass of arrays inherits; row i of every array is of item i."""

    @property
    def columns(self) -> list[Any]:
        """The arrays, in the order of the fields."""
        return [getattr(self, field.name) for field in fields(self)]

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def bytes(self) -> int:
        """Memory that they take."""
        return sum(column.nbytes for column in self.columns)

    def take(self, which: Any) -> Self:
        """Return some of the items: positions, a mask or a slice."""
        return type(self)(*(column[which] for column in self.columns))

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return the items of all parts."""
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate(column) for column in zip(*(part.columns for part in parts), strict=True)))
