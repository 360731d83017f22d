"""All ways to fill the device memory: how many requests are in each slot, as numbered rows."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
import numpy.typing as npt

from solvers.counts.model import CountsModel, Operation

Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class VectorStep:
    """A step, from all vectors."""

    following: Array
    """The vector after the step, for each vector (-1: it cannot be taken)."""
    levels: tuple[tuple[Array, Array], ...]
    """Vectors from which the step can be taken once and no more, twice, .., each level with what follows."""


class Vectors:
    """The vectors of counts that fit in the memory; the first one is empty."""

    def __init__(self, model: CountsModel, counts: Array) -> None:
        self.model = model
        self.counts = counts
        self.size: Array = counts @ np.array(model.sizes, np.int64)
        self._number()
        self.lines = tuple(self._line(step) for step in model.steps)
        rest = counts.copy()
        rest[:, list(model.ends)] = 0
        self.cleared = self._find(rest @ self.weights)
        """The vector that is left when those in the ends are gone."""

    def __len__(self) -> int:
        return len(self.counts)

    def with_requests(self, part: float) -> Vectors:
        """Return the same for a part of the requests, which fill the memory in the same ways."""
        other = copy(self)
        start = tuple(ceil(count * part) for count in self.model.start)
        other.model = replace(self.model, start=start)
        return other

    def _number(self) -> None:
        """Hash the vectors, without a collision, so that a neighbour is found by its hash."""
        seed = 0
        while True:
            draw = np.random.default_rng(seed)
            self.weights: Array = draw.integers(1, 2**62, (self.counts.shape[1],), dtype=np.int64)
            hashes = self.counts @ self.weights
            self.order = np.argsort(hashes, kind="stable")
            self.sorted = hashes[self.order]
            if (self.sorted[1:] != self.sorted[:-1]).all():
                return
            seed += 1

    def _find(self, hashes: Array) -> Array:
        """Return the numbers of vectors by their hashes; all must be there."""
        return self.order[np.searchsorted(self.sorted, hashes)]

    def _line(self, step: Operation) -> VectorStep:
        counts, size = self.counts, self.size.copy()
        possible = np.ones(len(self), np.bool_)
        shift = 0
        for slot, sign in ((step.takes, -1), (step.gives, 1)):
            if slot >= 0:
                size += sign * self.model.sizes[slot]
                shift += sign * int(self.weights[slot])
        if step.takes >= 0:
            possible &= counts[:, step.takes] > 0
        possible &= size <= self.model.memory
        following = np.full(len(self), -1, np.int64)
        where = np.nonzero(possible)[0]
        following[where] = self._find(counts[where] @ self.weights + np.int64(shift))
        return VectorStep(following, _levels(following))


def fitting_vectors(model: CountsModel, most: int) -> Vectors | None:
    """Return all vectors that fit, or None if there are more than `most`."""
    counts = np.zeros((1, 0), np.int64)
    free = np.full(1, model.memory, np.int64)
    for size in model.sizes:
        many = free // size + 1
        if int(many.sum()) > most:
            return None
        origin = np.repeat(np.arange(len(many)), many)
        taken = np.arange(len(origin)) - np.repeat(np.cumsum(many) - many, many)
        counts = np.column_stack([counts[origin], taken])
        free = free[origin] - size * taken
    return Vectors(model, counts)


def _levels(following: Array) -> tuple[tuple[Array, Array], ...]:
    """Return the vectors by how often the step can be taken from them, each level with what follows."""
    times = np.zeros(len(following), np.int64)
    where = after = np.nonzero(following >= 0)[0]
    while len(where):
        times[where] += 1
        after = following[after]
        on = following[after] >= 0
        where, after = where[on], after[on]
    levels = [np.nonzero(times == k)[0] for k in range(1, int(times.max(initial=0)) + 1)]
    return tuple((level, following[level]) for level in levels)
