"""Everything that can run together, by the batch of each request, and the cheapest path through it over time.

An element is a request in one of its batches; elements with the same future loads are one (in a first batch the kind
counts too). A configuration is a multiset of elements that fits now and, if no other starts, until all have ended.
Its name is exact: its largest element and the configuration without it, which has a smaller number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvcore.certificates.budget import Budget, InvalidCertificate, Most, Work
from kvcore.rigid import Kind

Array = npt.NDArray[np.int64]

WHAT = "what can run together"


class TooMany(InvalidCertificate):
    """More configurations than asked for."""

    def __init__(self) -> None:
        super().__init__("too much can run together: fewer requests in the network, please")


class Elements:
    """The elements in a lasting order: a tick later, those left are in order still.

    `first` is the kind in its first batch, else -1; `later` the element a tick later, -1 if it ends. At most `most`
    elements with one last load run together.
    """

    def __init__(self, kinds: Sequence[Kind], most: int) -> None:
        """Raises TooMany above `most` numbers of loads."""
        longest = max((kind.length for kind in kinds), default=1)
        if sum(kind.length for kind in kinds) * longest > most:
            raise TooMany
        found = {(kind.load[q:], -1 if q else k) for k, kind in enumerate(kinds) for q in range(kind.length)}
        elements = sorted(found, key=lambda e: (e[0][-1], len(e[0]), e[0][::-1], e[1]))
        number = {element: e for e, element in enumerate(elements)}
        with_last = Counter(kind.load[-1] for kind in kinds for _ in kind.ids)
        self.first = np.array([k for _, k in elements], np.int64)
        self.length = np.array([len(load) for load, _ in elements], np.int64)
        self.last = np.array([load[-1] for load, _ in elements], np.int64)
        self.most = np.array([with_last[load[-1]] for load, _ in elements], np.int64)
        self.later = np.array([number[load[1:], -1] if load[1:] else -1 for load, _ in elements], np.int64)
        self.load = np.zeros((len(elements), longest), np.int32)
        for e, (load, _) in enumerate(elements):
            self.load[e, : len(load)] = load

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class _Level:
    """The configurations of one size, in the order of their largest elements.

    `load`, [ticks, rows]: blocks if no other starts; `last`: the largest element; `alike`: how many share its last
    load.
    """

    load: npt.NDArray[np.int32]
    last: Array
    alike: Array

    def admits(self, elements: Elements, e: int, memory: int, budget: Budget) -> Array:
        length, upto = int(elements.length[e]), int(np.searchsorted(self.last, e, "right"))
        budget.spend(WHAT, 12 * Work.call + 4 * upto)
        load, most = self.load[:length], memory - elements.load[e, :length, None]
        rows = np.flatnonzero((load[0, :upto] <= most[0]) & (load[-1, :upto] <= most[-1]))
        rows = rows[self.number(elements, e, rows) <= elements.most[e]]
        budget.spend(WHAT, 4 * length * len(rows), self.load.nbytes + 6 * length * len(rows))
        fits: Array = rows[(load[:, rows] <= most).all(axis=0)]
        return fits

    def number(self, elements: Elements, e: int, rows: Array) -> Array:
        last = self.last[rows]
        same = (last >= 0) & (elements.last[last] == elements.last[e])
        number: Array = np.where(same, self.alike[rows], 0) + 1
        return number

    def grown(self, elements: Elements, e: int, rows: Array) -> _Level:
        return _Level(
            self.load[:, rows] + elements.load[e, :, None], np.full(len(rows), e), self.number(elements, e, rows)
        )


class Running:
    """The network of configurations: what starts, and what is there a tick later.

    A base is a configuration with none in the first batch; `later[base]` is the base a tick later if none starts.
    Row r says that the set of starts `starts[s]`, [sets, kinds], leads from `base[r]` to `next[r]`, for the rows from
    `begin[s]` to `begin[s + 1]`; a base has at most one row of a set. `size[base]` requests are in it, none in `empty`.
    """

    def __init__(self, kinds: Sequence[Kind], memory: int, most: int, budget: Budget) -> None:
        """Raises TooMany above `most` configurations, InvalidCertificate if the budget ends."""
        self.budget = budget
        self.elements = Elements(kinds, most)
        self._enumerate(memory, most)
        total = self.begins[-1]
        budget.spend(WHAT, 1000 * total, 100 * total)
        base, alone, later = self._parts()
        bases = np.flatnonzero(base == np.arange(len(base)))
        sets = np.flatnonzero(alone == np.arange(len(alone)))
        if len(sets) * len(kinds) > Most.starts:
            raise TooMany
        budget.spend(WHAT, len(sets) * (4 * Work.call + 4 * len(kinds)), len(sets) * 24 * len(kinds) + 100 * total)
        starts = self._starts(sets, len(kinds))
        possible = (starts <= np.array([kind.count for kind in kinds], np.int64)).all(axis=1)
        place = np.where(possible, np.cumsum(possible) - 1, -1)[np.searchsorted(sets, alone)]
        rows = np.flatnonzero((place >= 0) & (alone > 0))
        rows = rows[np.argsort(place[rows], kind="stable")]
        self.starts = starts[possible]
        self.begin = np.searchsorted(place[rows], np.arange(len(self.starts) + 1))
        self.base = np.searchsorted(bases, base[rows])
        self.next = np.searchsorted(bases, later[rows])
        self.later = np.searchsorted(bases, later[bases])
        self.size = np.searchsorted(self.begins, bases, "right") - 1
        self.empty = 0

    def cheapest(self, price: Array, kept: Array | None = None) -> int:
        """Return the least sum of prices, [ticks, kinds], of starts from the empty base on; then all is free.

        `kept` [ticks + 1, bases] takes that from each base at each tick. Raises TooMany, or as `spend`.
        """
        self.spend(len(price))
        value = np.zeros(len(self.later), np.int64)
        for tick, now in reversed(list(enumerate(price))):
            cost = self.starts @ np.minimum(now, 0)
            useful = np.flatnonzero((self.starts @ (now >= 0) == 0) & (cost < 0))
            before, value = value, value[self.later]
            for s in useful.tolist():
                rows = slice(self.begin[s], self.begin[s + 1])
                base = self.base[rows]
                value[base] = np.minimum(value[base], before[self.next[rows]] + cost[s])
            if kept is not None:
                kept[tick] = value
        return int(value[self.empty])

    def spend(self, ticks: int) -> None:
        """Count the work of the cheapest path."""
        sets, kinds = self.starts.shape
        if sets * ticks > Most.starts:
            raise TooMany
        self.budget.spend(WHAT, ticks * (sets * (4 * Work.call + 3 * kinds) + 30 * (len(self.base) + len(self.later))))

    def _enumerate(self, memory: int, most: int) -> None:
        elements, total = self.elements, 1
        minus = np.full(1, -1, np.int64)
        level = _Level(np.zeros((elements.load.shape[1], 1), np.int32), minus, minus)
        self.parent, self.last, self.begins = [minus], [minus], [0, 1]
        while True:
            added = []
            for e in range(len(elements)):
                rows = level.admits(elements, e, memory, self.budget)
                total += len(rows)
                if total > most:
                    raise TooMany
                if len(rows):
                    added.append((e, rows))
            if not added:
                break
            self.parent.append(self.begins[-2] + np.concatenate([rows for _, rows in added]))
            cells = level.load.nbytes + 2 * level.load.itemsize * len(level.load) * sum(len(rows) for _, rows in added)
            self.budget.spend(WHAT, cells, cells + 30 * total)
            grown = [level.grown(elements, e, rows) for e, rows in added]
            level = _Level(
                np.concatenate([g.load for g in grown], axis=1),
                np.concatenate([g.last for g in grown]),
                np.concatenate([g.alike for g in grown]),
            )
            self.last.append(level.last)
            self.begins.append(total)

    def _child(self, parents: Array, last: Array) -> Array:
        size = np.searchsorted(self.begins, parents, "right")
        child = np.empty(len(parents), np.int64)
        for n in np.unique(size).tolist():
            rows = np.flatnonzero(size == n)
            keys = self.last[n] << 32 | self.parent[n]
            wanted = last[rows] << 32 | parents[rows]
            place = np.searchsorted(keys, wanted)
            if (keys[np.minimum(place, len(keys) - 1)] != wanted).any():
                raise RuntimeError("a part of a configuration is none")
            child[rows] = self.begins[n] + place
        return child

    def _parts(self) -> tuple[Array, Array, Array]:
        base, alone, later = (np.zeros(self.begins[-1], np.int64) for _ in range(3))
        for n in range(1, len(self.begins) - 1):
            mine = slice(self.begins[n], self.begins[n + 1])
            last, parent = self.last[n], self.parent[n]
            starting, after = self.elements.first[last] >= 0, self.elements.later[last]
            for part, keeps, element in ((base, ~starting, last), (alone, starting, last), (later, after >= 0, after)):
                of_parent = part[parent]
                of_parent[keeps] = self._child(of_parent[keeps], element[keeps])
                part[mine] = of_parent
        return base, alone, later

    def _starts(self, sets: Array, kinds: int) -> Array:
        starts = np.zeros((len(sets), kinds), np.int64)
        size = np.searchsorted(self.begins, sets, "right") - 1
        for row, (n, number) in enumerate(zip(size.tolist(), sets.tolist(), strict=True)):
            if n:
                place = number - self.begins[n]
                starts[row] = starts[np.searchsorted(sets, self.parent[n][place])]
                starts[row, self.elements.first[self.last[n][place]]] += 1
        return starts
