"""Every set of requests that may run at once, by the batch that each is in, and what follows what.

An element is a request in one of its batches; elements with the same future loads are one. A configuration is a
multiset of elements that fits now and, if no other starts, until all have ended.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solvers.start_time.problem import Array, Problem

Keys = npt.NDArray[np.uint64]


class TooMany(Exception):
    """There are more configurations than asked for."""


@dataclass(frozen=True)
class Element:
    """Loads from now to the end; `first` is the kind if this is its first batch, else -1."""

    load: tuple[int, ...]
    first: int


class Elements:
    """The elements of a problem in an order in which those with the same last load are neighbours."""

    def __init__(self, problem: Problem) -> None:
        limit: dict[int, int] = defaultdict(int)
        found: set[Element] = set()
        for k, kind in enumerate(problem.kinds):
            limit[kind.load[-1]] += kind.count
            found |= {Element(kind.load[q:], -1 if q else k) for q in range(kind.length)}
        self.elements = sorted(found, key=lambda e: (e.load[-1], -len(e.load), e.first))
        self.number = {element: e for e, element in enumerate(self.elements)}
        self.first = np.array([e.first for e in self.elements])
        self.length = np.array([len(e.load) for e in self.elements])
        self.group = np.array([e.load[-1] for e in self.elements])
        self.most = np.array([limit[e.load[-1]] for e in self.elements])
        self.load = np.zeros((len(self.elements), int(self.length.max())), np.int32)
        for e, element in enumerate(self.elements):
            self.load[e, : len(element.load)] = element.load
        self.now = [np.array([self._use(problem, uses, e) for e in self.elements]) for _, uses in problem.limits[1:]]
        self.next = np.array([self.number[Element(e.load[1:], -1)] if len(e.load) > 1 else -1 for e in self.elements])

    @staticmethod
    def _use(problem: Problem, uses: list[Array], element: Element) -> int:
        """What an element takes of a budget in this batch: that of its kind at first, of any decode later."""
        if element.first >= 0:
            return int(uses[element.first][0])
        return int(next(u[1] for u, kind in zip(uses, problem.kinds, strict=True) if kind.length > 1))


class Configurations:
    """All configurations as rows. A row is a `base`, in which no request is in the first batch, and a set that starts.

    Rows are sorted by base. `base[row]` and `next[row]` are numbers of bases: the row without what starts, and the
    row one tick later. `new[row]` is a row of `starts`, [sets, kinds]: how many of each kind start. `empty` is the
    base in which no request runs.
    """

    def __init__(self, problem: Problem, most: int) -> None:
        """Raises TooMany if there are more than `most`."""
        elements = Elements(problem)
        if elements.load.size > most:
            raise TooMany
        chance = np.random.default_rng(0).integers(0, 2**64, len(elements.elements), dtype=np.uint64)
        later = np.where(elements.next >= 0, chance[elements.next], np.uint64(0))
        staying = np.where(elements.first < 0, chance, np.uint64(0))
        key, aged, base = _enumerate(problem, elements, (chance, later, staying), most)
        if len(np.unique(key)) != len(key):
            raise TooMany  # two random keys met; that happens once in a million years
        bases = np.sort(key[key == base])
        sets, new = np.unique(key - base, return_inverse=True)
        tail = np.searchsorted(bases, base)
        self.starts = _starts(problem, elements, chance, sets)
        possible = np.all(self.starts <= problem.counts, axis=1)
        order = np.argsort(tail, kind="stable")
        order = order[possible[new[order]]]
        self.base = tail[order].astype(np.int32)
        self.next = np.searchsorted(bases, aged)[order].astype(np.int32)
        self.new = new[order].astype(np.int32)
        self.bases = len(bases)
        self.empty = int(np.searchsorted(bases, np.uint64(0)))

    def __len__(self) -> int:
        return len(self.base)


def _enumerate(
    problem: Problem, elements: Elements, hashes: tuple[Keys, Keys, Keys], most: int
) -> tuple[Keys, Keys, Keys]:
    """Add elements one by one, in non-decreasing order, as long as they fit; sum the hashes of each configuration."""
    level = _Level.root(elements)
    sums = [tuple(np.zeros(1, np.uint64) for _ in hashes)]
    total = 1
    while len(level.last):
        grown: list[_Level] = []
        added: list[tuple[Keys, ...]] = []
        for e in range(len(elements.elements)):
            rows = level.admits(problem, elements, e)
            if len(rows):
                total += len(rows)
                if total > most:
                    raise TooMany
                grown.append(level.grow(elements, e, rows))
                added.append(tuple(s[rows] + h[e] for s, h in zip(sums[-1], hashes, strict=True)))
        if not grown:
            break
        level = _Level.join(grown)
        sums.append(tuple(np.concatenate(parts) for parts in zip(*added, strict=True)))
    key, aged, base = (np.concatenate(parts) for parts in zip(*sums, strict=True))
    return key, aged, base


@dataclass
class _Level:
    """Configurations of one size, sorted by their last element: its number, and how many of its group are in."""

    load: npt.NDArray[np.int32]  # [rows, ticks]
    now: list[Array]  # per budget [rows]
    last: Array
    tail: Array

    @staticmethod
    def root(elements: Elements) -> _Level:
        zero = np.zeros(1, np.int64)
        return _Level(np.zeros((1, elements.load.shape[1]), np.int32), [zero for _ in elements.now], zero - 1, zero)

    @staticmethod
    def join(parts: list[_Level]) -> _Level:
        now = [np.concatenate(column) for column in zip(*(part.now for part in parts), strict=True)]
        load, last, tail = (np.concatenate([getattr(p, name) for p in parts]) for name in ("load", "last", "tail"))
        return _Level(load, now, last, tail)

    def tails(self, elements: Elements, e: int, rows: Array) -> Array:
        """How many of the group of `e` there are with it."""
        last = self.last[rows]
        alike = (last >= 0) & (elements.group[last] == elements.group[e])
        number: Array = np.where(alike, self.tail[rows], 0) + 1
        return number

    def admits(self, problem: Problem, elements: Elements, e: int) -> Array:
        """Return the rows to which element `e` can be added."""
        upto = int(np.searchsorted(self.last, e, "right"))
        length = elements.length[e]
        rows = np.flatnonzero(self.load[:upto, 0] <= problem.memory - elements.load[e, 0])
        rows = rows[self.tails(elements, e, rows) <= elements.most[e]]
        for (limit, _), now, use in zip(problem.limits[1:], self.now, elements.now, strict=True):
            rows = rows[now[rows] + use[e] <= limit]
        fits = self.load[rows, :length] <= problem.memory - elements.load[e, :length]
        admitted: Array = rows[fits.all(axis=1)]
        return admitted

    def grow(self, elements: Elements, e: int, rows: Array) -> _Level:
        now = [column[rows] + use[e] for column, use in zip(self.now, elements.now, strict=True)]
        return _Level(self.load[rows] + elements.load[e], now, np.full(len(rows), e), self.tails(elements, e, rows))


def _starts(problem: Problem, elements: Elements, chance: Keys, sets: Keys) -> Array:
    """Return how many of each kind are in each set of starts, given as sums of hashes."""
    kinds = problem.kinds
    hashes = [int(chance[elements.number[Element(kind.load, k)]]) for k, kind in enumerate(kinds)]
    wanted = {int(key): row for row, key in enumerate(sets.tolist())}
    starts: Array = np.full((len(sets), len(kinds)), -1)

    def extend(key: int, least: int, chosen: list[int]) -> None:
        starts[wanted[key]] = np.bincount(np.array(chosen, np.int64), minlength=len(kinds))
        for k in range(least, len(kinds)):
            longer = (key + hashes[k]) % 2**64
            if longer in wanted:
                extend(longer, k, [*chosen, k])

    extend(0, 0, [])
    if (starts < 0).any():
        raise TooMany  # as above
    return starts
