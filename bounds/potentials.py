"""Potentials of work alone; then, where contexts do not fit together, from a grid of prices.

Of the grid those on which times rest at the best orders are held, until no more are new: first at the best order of a
dive, which follows few labels, then of searches. Of each search that does not end the first label gives prices in order
that are best for what is left there, as long as they pay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np

from bounds.clock import Units, now, spend
from bounds.in_order import ascents, better
from bounds.orders import Looks, can_bind, looks, upper_of
from bounds.task import Proposal, Task
from bounds.traced import path
from kvcore.certificates import potential_kernels as kernels
from kvcore.certificates.budget import InvalidCertificate, Most
from kvcore.certificates.in_order import Chain, InOrder
from kvcore.certificates.labels import EMPTY, HEAP, LARGE, MOST_TRIED, PAUSED, ROWS
from kvcore.certificates.potential_kernels import APART, AWAY, HERE, Priced
from kvcore.certificates.potentials import Potential, Potentials, PotentialSearch, label_work
from kvcore.certificates.tokens import check_size, swaps_of
from kvcore.instance import Instance
from kvcore.metrics import Value
from kvcore.schedule import Schedule


class Grids:
    """Numbers of the grid."""

    scale = 1000
    points = 2000  # at the most: combinations of prices of the requests
    requests = 6
    first_labels = 4000
    growth = 4  # of labels, where more prices in order have not raised the bound by `least`
    least = 1e-4
    turns = 30  # prices tried for what is left at a label
    first_of = 100  # labels by bound, of which each tenth tells an order, as long as these have
    batches = 1000
    ends = 20  # orders of a dive
    in_places = 4  # requests whose KV moves as a whole, up to which all combinations of prices of moves are taken
    width = 100  # of a dive: labels at each number of tokens left
    least_width, dive = 20, 100_000  # where so many labels are too few, there is none


def propose_potentials(task: Task) -> Iterator[Proposal | Schedule]:
    """Return ever better proofs, and schedules. Raises InvalidCertificate where there is no hope."""
    check_size(task.instance)
    return _proofs(task)


def _proofs(task: Task) -> Iterator[Proposal | Schedule]:
    instance, lines = task.instance, task.instance.cost.functions
    proofs = [of_work(task, k) for k, line in enumerate(lines) if line.tokens or line.busy or k == 0]
    searches = [(proof, PotentialSearch(instance, task.objective, proof)) for proof in proofs]
    yield from looks(task, searches, Looks.first if has_grid(instance) else Most.labels)
    if has_grid(instance) and not task.is_over():
        yield from _of_grid(task)


Order = tuple[tuple[int, tuple[int, ...]], ...]
"""Batches: who generates tokens, as bits, and where the KV of each request is."""


def orders_at_potentials(instance: Instance, objective: str, upper: Value, seconds: float) -> list[tuple[int, ...]]:
    """Return orders of batches, as bits: of those at most prices, the best first, then the best at fewer."""
    task, dives = Task(instance, objective, now() + seconds, upper), list[list[Order]]()
    if has_grid(instance):
        with suppress(InvalidCertificate):
            dives = [orders for _, orders in Grid(instance).dives(task) if orders]
    found = [*(dives[-1] if dives else []), *(orders[0] for orders in dives[::-1])]
    return list(dict.fromkeys(tuple(batch for batch, _ in order) for order in found))


def has_grid(instance: Instance) -> bool:
    """Whether prices of memory may say more than those of work."""
    few, lines = len(instance.requests) <= Grids.requests, instance.cost.functions
    return few and can_bind(instance) and any(line.tokens for line in lines)


def of_work(task: Task, function: int, sizes: Iterable[int] = (1,)) -> Potentials:
    """Return potentials of the work of all requests, and of sets of these sizes."""
    n, each = len(task.instance.requests), task.instance.cost.functions[function].tokens
    sets = [some for size in {*sizes, n} for some in combinations(range(n), size)] if each else []
    prices = [tuple(each * (i in some) for i in range(n)) for some in sets]
    found = tuple(Potential(compute=1, device=price, host=price) for price in sorted(prices))
    return Potentials(
        function=function, scale=1, potentials=found, labels=_most_labels(len(found)), target=upper_of(task)
    )


def _most_labels(potentials: int, in_order: int = 0) -> int:
    return min(Most.labels, Most.work // (2 * label_work(1 + potentials, in_order)))


def _of_grid(task: Task) -> Iterator[Proposal]:
    instance, grid = task.instance, Grid(task.instance)
    *_, (held, _) = grid.dives(task)
    ascent = None
    with suppress(InvalidCertificate):
        for each in ascents(task):
            ascent = better(ascent, each)
            yield Proposal(each.in_order())
    in_order = [] if ascent is None else [ascent.in_order()]
    labels, again, reached, paying = Grids.first_labels, 0, 0.0, len(in_order)
    while True:
        most = _most_labels(len(held), len(instance.requests) * len(in_order))
        proof = grid.proof(held, min(labels, most), upper_of(task), in_order)
        search = PotentialSearch(instance, task.objective, proof)
        while (end := search.run(stops=task.stops)).code == PAUSED:  # the next turn goes on with it
            yield Proposal(proof.replace(labels=end.labels), end.bound)
            if task.is_over():
                return
        yield Proposal(proof.replace(labels=end.labels), end.bound)
        is_tried, pays = len(in_order) > paying, end.bound > (1 + Grids.least) * reached
        reached = float(end.bound)
        if is_tried and not pays:
            del in_order[paying:]
            again = labels * Grids.growth**2  # not at once
        paying = len(in_order)
        if end.is_over:
            found = grid.active(search.machine, best_orders(search)) if end.is_found else []
            if new := [each for each in found if each not in held][: Most.potentials - len(held)]:
                held |= dict.fromkeys(new)
                continue
        left = left_at(search, binding(search)) if ascent is not None and end.code != EMPTY else []
        may_try = paying < Most.potentials and (pays if is_tried else end.is_over or labels >= again)
        if left and may_try and ascent is not None:
            in_order.append(ascent.of(left, Grids.turns))
        elif end.is_over or labels >= most:
            return
        else:
            labels *= Grids.growth


def binding(search: PotentialSearch) -> int:
    """Return the label on the way to the first one that its bound is of."""
    x = search.orders.labels
    return next(at for at in path(x, int(x.heap[0])) if x.bound[at] == x.bound[x.heap[0]])


def order_to(search: PotentialSearch, row: int) -> Order:
    """Return the batches up to a label."""
    f = search.orders
    return tuple((int(f.batch[at]), tuple(f.place[at].tolist())) for at in path(f.labels, row)[1:])


def best_orders(search: PotentialSearch) -> Iterator[Order]:
    """Yield the batches up to the first label and some of the next."""
    x = search.orders.labels
    heap = x.heap[: x.count[HEAP]]
    heap = heap[x.is_open[heap]]
    rows = heap[np.lexsort((heap, x.bound[heap]))][: Grids.first_of : 10]
    left = Grids.batches
    for row in rows:
        order = order_to(search, int(row))
        left -= len(order)
        if left < 0 and row != rows[0]:
            return
        yield order


def dive(search: PotentialSearch, width: int, is_over: Callable[[], bool] = lambda: False) -> Iterator[Order]:
    """Yield orders of batches, the best first: `width` labels are followed of those with the same tokens left."""
    x, f = search.orders.labels, search.orders
    x.count[MOST_TRIED] = LARGE
    for left in range(int(x.left[0]), 0, -1):
        if is_over():
            return
        rows = _open(search, left)
        x.is_open[rows] = False
        for row in rows[:width]:
            if kernels.expand(search.machine, f, int(row)) != EMPTY:
                return
    spend(int(x.count[ROWS]) * label_work(f.worth.shape[1], 0) * Units.nanosecond)
    for row in _open(search, 0)[: Grids.ends]:
        yield order_to(search, int(row))


def _open(search: PotentialSearch, left: int) -> Any:
    """Return the rows of the labels to be followed that have `left` tokens left, the first ones first."""
    x = search.orders.labels
    rows = np.flatnonzero(x.is_open[: x.count[ROWS] + 1] & (x.left[: x.count[ROWS] + 1] == left))
    return rows[np.argsort(x.bound[rows], kind="stable")]


def left_at(search: PotentialSearch, at: int) -> list[Chain]:
    """Return the units that follow a label, as of requests that come then."""
    x, f, p, left = search.machine.remaining, search.orders, search.machine, list[Chain]()
    for i in np.flatnonzero(f.token[at] < p.length):
        q, runs = f.token[at, i], np.count_nonzero(x.begin[i]) + 1
        k, j = x.unit[i, q], x.run[i, q]
        if k < x.units[i]:
            begin = np.concatenate([[0], x.begin[i, j + 1 : runs] - k])
            ready = max(0, max(f.time[at], f.ready[at, i]) * x.divisor // p.divisor - x.begun) + x.delay[i, q]
            paid = x.paid[i, k : x.units[i] + 1] - x.paid[i, k]
            left.append(Chain(paid, begin, x.wait[i, j : runs - 1], int(x.rate[i]), int(ready), x.room))
    return left


class Past(NamedTuple):
    """From which entry each came, and on which the end rests; or -1."""

    source: Any
    best: int


class Grid:
    """Prices of each request, combined, and who is waited for."""

    def __init__(self, instance: Instance) -> None:
        lines = instance.cost.functions
        self.work = work = max(range(len(lines)), key=lambda k: lines[k].tokens / lines[k].divisor)
        self.moves = moves = max(range(len(lines)), key=lambda k: lines[k].swap_in_tokens / lines[k].divisor)
        self.instance, self.n, self.each = instance, len(instance.requests), lines[work].tokens
        out, back = swaps_of(instance, work, moves)
        divisor = instance.cost.functions[work].divisor
        self.arrivals = np.array([request.arrival * divisor for request in instance.requests])
        self.is_placed = not instance.machine.partial and self.n <= Grids.in_places
        most = int(Grids.points ** (1 / self.n) + 1e-9)
        self.pairs = list(dict.fromkeys(_pairs(self.each, out, back)))[:most]
        self.price = np.array(list(product(self.pairs, repeat=self.n)), dtype=np.int64)  # [points, requests, 2]
        device, host = self.price[..., 0], self.price[..., 1]
        compute = (-(-device // max(1, self.each))).max(axis=1)
        copies = np.zeros_like(compute)
        for apart, rate in ((host - device, out), (device - host, back)):
            needed = -(-apart // rate) if rate else 2 * Grids.scale
            copies = np.maximum(copies, np.where(apart > 0, needed, 0).max(axis=1))
        spare = Grids.scale - copies
        self.compute = np.concatenate([spare[:, None], np.repeat(compute[:, None], self.n, axis=1)], axis=1)
        self.wait = np.concatenate([0 * spare[:, None], np.repeat((spare - compute)[:, None], self.n, axis=1)], axis=1)
        self.is_one = (spare >= compute)[:, None] & ((np.arange(self.n + 1) == 0) | (self.wait > 0))

    def proof(
        self, held: Iterable[Potential], labels: int, target: int | None, in_order: Iterable[InOrder] = ()
    ) -> Potentials:
        """Return a proof by some entries."""
        return Potentials(
            function=self.work, moves=self.moves, places=not self.instance.machine.partial, scale=Grids.scale,
            potentials=tuple(held), in_order=tuple(in_order), labels=labels, target=target,
        )  # fmt: skip

    def dives(self, task: Task) -> Iterator[tuple[dict[Potential, None], list[Order]]]:
        """Yield entries, and good orders at these: ever more of those on which the best order rests."""
        held = dict.fromkeys(self.potential(point, -1) for point in self.first())
        width = min(Grids.width, Grids.dive // (2**self.n * sum(request.output for request in self.instance.requests)))
        while True:
            search = PotentialSearch(self.instance, task.objective, self.proof(held, Grids.dive, upper_of(task)))
            orders = list(dive(search, width, task.is_over)) if width >= Grids.least_width else []
            yield held, orders
            found = [] if self.is_placed else self.active(search.machine, orders[:1])
            new = [each for each in found if each not in held][: Most.potentials - len(held)]
            if not new or task.is_over():
                return
            held = held | dict.fromkeys(new)

    def first(self) -> Iterator[int]:
        """Yield the points of work alone; of a few requests whose KV is in one place also those of work and moves."""
        sets = [{(0, 0), (self.each * Grids.scale,) * 2}]
        if self.is_placed:
            sets.append({(0, 0), *self.pairs[2:4]})
        for k, point in enumerate(self.price.tolist()):
            if k and any(all(tuple(pair) in pairs for pair in point) for pairs in sets):
                yield k

    def potential(self, point: int, whom: int) -> Potential:
        """Return an entry."""
        device, host = self.price[point].T.tolist()
        compute, wait = int(self.compute[point, whom + 1]), int(self.wait[point, whom + 1])
        return Potential(compute=compute, wait=wait, request=whom if whom >= 0 else None,
                         device=tuple(device), host=tuple(host))  # fmt: skip

    def walk(self, p: Priced, order: Order) -> _Walk:
        """Follow all entries along an order."""
        walk = _Walk(self, p, self.arrivals)
        for batch, places in order:
            walk.step(batch, places)
        return walk

    def active(self, p: Priced, orders: Iterable[Order]) -> list[Potential]:
        """Return the entries on which all times in the first order rest, and the last in others."""
        found = dict[Potential, None]()
        for number, order in enumerate(orders):
            entries = set[int]()
            for past in reversed(self.walk(p, order).past):
                rests = past.best if number == 0 or not entries else -1
                entries = {rests, *(int(past.source.flat[entry]) for entry in entries)} - {-1}
                for point, whom in sorted(divmod(entry, self.n + 1) for entry in entries):
                    found.setdefault(self.potential(point, whom - 1))
        return list(found)


class _Walk:
    """All entries along an order, in floating point."""

    def __init__(self, grid: Grid, p: Priced, arrivals: Any) -> None:
        self.grid, self.p, self.token, self.time = grid, p, [0] * grid.n, 0.0
        self.ready, self.past, self.times = arrivals.astype(float), list[Past](), list[float]()
        self.worth = grid.wait * np.concatenate([[0.0], self.ready])  # [points, waits]
        self.place = (APART,) * grid.n

    def step(self, batch: int, places: Sequence[int]) -> None:
        """Add a batch, and where KV is by then."""
        grid, p, n = self.grid, self.p, self.grid.n
        live = [i for i in range(n) if self.token[i] < p.length[i]]
        made = [i for i in live if batch >> i & 1]
        others = [i for i in live if not batch >> i & 1]
        start = max(self.time, *(self.ready[i] for i in made))
        before = self.worth.copy()
        for i in others:
            if self.place[i] != places[i] == APART:
                before += (grid.price[:, i, self.place[i] - HERE] * self.kept(i))[:, None]
        for moment in {start, *(self.ready[i] for i in live if self.time < self.ready[i] < start)}:
            before = np.maximum(before, self.at(moment, live, (APART,) * n))
        is_full = np.array([True, *(i in made for i in range(n))])
        compute = grid.compute + grid.wait * (is_full & (np.arange(n + 1) > 0))
        gain = before + compute * (p.busy + len(made) * (p.each + p.token))
        context = [int(p.context[i, min(self.token[i], p.length[i] - 1)]) for i in range(n)]
        gain += (grid.price[:, made, 0] * (np.array(context)[made] - 1)).sum(axis=1)[:, None]
        gain[~grid.is_one] = -np.inf
        gain[:, [1 + i for i in range(n) if i not in live]] = -np.inf
        room = p.block * (p.blocks - sum(-(-context[i] // p.block) for i in made))
        side = np.unravel_index(np.arange(len(gain)), (len(grid.pairs),) * n)
        key = np.zeros(len(gain), dtype=np.int64)  # the prices of the others
        for i in others:
            key = key * len(grid.pairs) + side[i]
        pairs = np.array(list(product(grid.pairs, repeat=len(others))))
        pairs = pairs.reshape(len(grid.pairs) ** len(others), len(others), 2)
        most = self.most(pairs[:, None] - pairs[None], others, [context[i] - 1 for i in others], places, room)
        worth, source = np.full(gain.shape, -np.inf), np.full(gain.shape, -1)
        for whom, wait in {(-1, 0), *((i, int(g)) for i in others for g in set(grid.wait[:, i + 1].tolist()) if g)}:
            columns = np.flatnonzero(is_full) if whom < 0 else np.array([whom + 1])
            some = gain[:, columns] if whom < 0 else np.where(grid.wait[:, columns] == wait, gain[:, columns], -np.inf)
            flat, best = some.max(axis=1), columns[some.argmax(axis=1)]
            order = np.lexsort((flat, key))
            last = np.flatnonzero(np.append(np.diff(key[order]) > 0, True))
            top = order[last]  # of each prices of the others, the best entry
            came = flat[top][None, :] - most
            by, value = came.argmax(axis=1), came.max(axis=1)
            for column in columns:
                to = grid.is_one[:, column] & ((grid.wait[:, column] == wait) | (whom < 0))
                worth[to, column] = value[key[to]]
                source[to, column] = (top * (n + 1) + best[top])[by[key[to]]]
        end = start + p.busy + len(made) * (p.each + p.token)
        self.past.append(Past(source, int(source[0, 0]) if worth[0, 0] / p.scale > end else -1))
        self.time = max(end, worth[0, 0] / p.scale)
        self.times.append(self.time)
        for i in made:
            call = int(p.call[i, self.token[i]])
            self.ready[i], self.token[i] = self.time + call, self.token[i] + 1
            worth[:, i + 1] += grid.wait[:, i + 1] * call
            if self.token[i] < p.length[i]:
                worth -= (grid.price[:, i, 0] * self.kept(i))[:, None]
        self.place = tuple(places)
        at = self.at(self.time, [i for i in live if self.token[i] < p.length[i]], places)
        source[at > worth] = -1
        self.worth = np.maximum(worth, at)

    def kept(self, i: int) -> int:
        """Return the KV that the last token of a request left."""
        return int(self.p.kept[i, self.token[i] - 1]) if self.token[i] else 0

    def at(self, moment: float, live: list[int], places: Sequence[int]) -> Any:
        """Return what entries are worth by Lemma 2."""
        grid, p = self.grid, self.p
        sizes = [int(p.context[i, self.token[i]]) - 1 for i in live]
        sizes = [self.kept(i) if self.ready[i] >= moment else size for i, size in zip(live, sizes, strict=True)]
        most = self.most(grid.price[:, live], live, sizes, places, p.block * p.blocks)
        ready = np.concatenate([[0.0], self.ready])
        return (p.scale - grid.wait) * moment + grid.wait * ready - most[:, None]

    def most(self, price: Any, those: list[int], sizes: list[int], places: Sequence[int], room: int) -> Any:
        """Return the most that KV of those requests is worth: `price` is [.., requests, 2]."""
        there = [places[i] for i in those]
        kept = np.array(
            [self.kept(i) * (place != APART) for i, place in zip(those, there, strict=True)], dtype=np.int64
        )
        sides = [np.array([place == side for place in there], dtype=bool) for side in (HERE, AWAY)]
        sure = sum((price[..., k] * (kept * side)).sum(axis=-1) for k, side in enumerate(sides))
        device, away = (np.maximum(price[..., k] * ~other, 0) for k, other in enumerate(sides[::-1]))
        room, host = (limit - int(kept[side].sum()) for limit, side in zip((room, self.p.host), sides, strict=True))
        rest = np.array(sizes, dtype=np.int64) - kept
        whole = (away * rest).sum(axis=-1) + _filled(np.maximum(device - away, 0), rest, room)
        return sure + np.minimum(whole, _filled(device, rest, room) + _filled(away, rest, host))


def _filled(price: Any, sizes: Any, room: int) -> Any:
    order = np.argsort(-price, axis=-1)
    size, dear = sizes[order], np.take_along_axis(price, order, axis=-1)
    return (dear * np.clip(room - np.cumsum(size, axis=-1) + size, 0, size)).sum(axis=-1)


def _pairs(each: int, out: int, back: int) -> Iterator[tuple[int, int]]:
    """Yield prices of a token, the most useful first."""
    yield 0, 0
    yield each * Grids.scale, each * Grids.scale
    for weight in (1, 2):
        compute = Grids.scale * weight * back // max(1, each + weight * back)
        device, away, come = each * compute, out * (Grids.scale - compute), back * (Grids.scale - compute)
        less = min(device, come, away)
        yield from ((device, device + away), (device, max(0, device - come)), (0, min(device, away)))
        yield from ((less, less), (min(device, come), 0))
