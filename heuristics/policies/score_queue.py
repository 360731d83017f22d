"""The requests that wait under MARS's released score, which changes for all of them with the running batch."""

from __future__ import annotations

from bisect import insort
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BATCH = 384
"""Tokens a batch that the formulas assume."""
BLOCK = 64
"""Tokens a block, likewise."""
ITERATION = 484_000
"""A batch of 384 tokens in units of 100 ns: 10 ms and 0.1 ms a token, which the released script leaves as they are."""
UNSCORED = -1.0
"""The score of a request that came after the latest refresh."""


class ScoreTerms(NamedTuple):
    """What a score is computed from: M(before) + M(after) + held."""

    before: int
    """Blocks."""
    after: int
    """Blocks."""
    held: float
    """Tokens times 100 ns."""


class ScoreQueue:
    """The requests that wait, in order of arrival, each with its score; requests are given by their index."""

    def __init__(self) -> None:
        self.places: list[tuple[int, int]] = []  # arrival, index
        self._ids: NDArray[np.int64] | None = None
        self._rows = np.zeros((64, 3))
        self._scores = np.full(64, UNSCORED)
        self._promoted = np.zeros(64, dtype=bool)
        self._scored_for: tuple[int, NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        return len(self.places)

    def put(self, index: int, row: ScoreTerms) -> None:
        """Note what the score of a request is computed from; it is not computed yet."""
        while index >= len(self._scores):
            self._rows = np.vstack([self._rows, np.zeros_like(self._rows)])
            self._scores = np.concatenate([self._scores, np.full_like(self._scores, UNSCORED)])
            self._promoted = np.concatenate([self._promoted, np.zeros_like(self._promoted)])
        self._rows[index] = row

    def add(self, index: int, arrival: int) -> None:
        """Let a request wait."""
        insort(self.places, (arrival, index))
        self._ids = None

    def remove(self, place: int) -> None:
        """Take out the request at a place of the queue."""
        del self.places[place]
        self._ids = None

    def promote(self, index: int, promoted: bool = True) -> None:
        """Let a request go before all others, whatever its score, or no longer."""
        self._promoted[index] = promoted

    def is_promoted(self, index: int) -> bool:
        """Whether a request goes before others."""
        return bool(self._promoted[index])

    def refresh(self, in_flight: int) -> None:
        """Compute the scores of all that wait, for so many tokens in the running batch."""
        ids = self._line()
        if self._scored_for is None or self._scored_for[0] != in_flight or self._scored_for[1] is not ids:
            before, after, held = self._rows[ids].T
            chunk = max(BATCH - in_flight, 1)
            self._scores[ids] = _prefill(before, chunk) + _prefill(after, chunk) + held
            self._scored_for = in_flight, ids

    def first(self) -> int:
        """Return the place of the request that goes first: promoted, then of the smallest score, then the earliest."""
        ids = self._line()
        scores, promoted = self._scores[ids], self._promoted[ids]
        return int(np.argmin(np.where(promoted, scores, np.inf) if promoted.any() else scores))

    def _line(self) -> NDArray[np.int64]:
        if self._ids is None:
            self._ids = np.array([index for _, index in self.places], dtype=np.int64)
        return self._ids


def _prefill(blocks: NDArray[np.float64], chunk: int) -> NDArray[np.float64]:
    """Return M: the memory-time of a prefill of so many blocks in chunks, all lasting a whole iteration."""
    chunks = np.maximum(np.ceil(blocks * BLOCK / chunk), 1.0)
    return ITERATION * chunks * (chunks + 1.0) / 2.0 * chunk
