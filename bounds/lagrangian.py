"""Good prices for the slots of time; `kvcore.certificates.Prices` says what they prove.

Dantzig and Wolfe's decomposition: a linear program mixes known paths within the limits, its duals are new prices, at
which each request finds its cheapest path.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bounds import walks
from bounds.clock import spend
from kvcore.certificates import Prices
from kvcore.certificates.path_kernels import DECODE, DEVICE, EARLIEST, HIGH, HOST, LOW, PriceArrays, Route, price_arrays
from kvcore.certificates.paths import Course
from kvcore.certificates.prices import ROWS, kinds
from kvcore.instance import Instance, Request
from kvcore.metrics import FLOWS, weight

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SIZE = 2**56
"""Bound of the checker's sums; see `Prices`."""


@dataclass(frozen=True)
class PricedKind:
    """Identical requests, as the arrays of `walks`; `least`: slots of one of them alone."""

    request: Request
    count: int
    route: Route
    least: int


class SlotPricing:
    """Limits of the rows, `kvcore.certificates.prices.ROWS`, and the segments of each kind of request.

    With `apart` each request is a kind of its own.
    """

    def __init__(self, instance: Instance, objective: str, *, apart: bool = False) -> None:
        self.instance, self.objective, self.machine = instance, objective, instance.machine
        self.origin = instance.first_arrival
        alike = [(request, 1) for request in instance.requests] if apart else kinds(instance).items()
        self.kinds = [self._kind(request, count) for request, count in alike]
        self.limits = np.array([float(limit.of(self.machine) or 0) for limit in ROWS])

    def _kind(self, request: Request, count: int) -> PricedKind:
        course, rate = Course(self.machine, request), 0.0
        if self.objective in FLOWS:
            rate = float(weight(request, self.objective))
        route = course.route(request.arrival - self.origin, rate)
        return PricedKind(request, count, route, course.least[0])


@dataclass(frozen=True)
class RequestPath:
    """A path of one kind: its cost without prices, its use [rows, pieces], and the slots in which its segments end."""

    kind: int
    cost: float
    use: Floats
    ends: Ints


@dataclass(frozen=True)
class PricePoint:
    """Prices per piece [rows, pieces], the bound there, and the cheapest path of each kind."""

    prices: Floats
    bound: float
    paths: list[RequestPath]


class Oracle:
    """Evaluates prices that are constant on each `piece` slots, at every `stride`-th first slot.

    It keeps the `best`. The ends of the `legs` of the kinds may be made narrower.
    """

    def __init__(self, pricing: SlotPricing, slots: int, piece: int, stride: int) -> None:
        self.pricing, self.slots, self.piece, self.stride = pricing, slots, piece, stride
        self.pieces = -(-slots // piece)
        self.room = pricing.limits[:, None] * np.minimum(piece, slots - piece * np.arange(self.pieces))
        self.best = PricePoint(np.zeros(self.room.shape), -np.inf, [])
        self.legs = [kind.route.legs for kind in pricing.kinds]
        self.alone: list[RequestPath] = []
        self.alone = self.evaluate(self.best.prices).paths

    def evaluate(self, prices: Floats) -> PricePoint:
        """Return the bound at these prices (roughly, if the stride is above 1), and the paths."""
        rows = self.spread(prices)
        if self.pricing.machine.host_memory == 0:
            rows[HOST] = rows[DEVICE]  # nothing can be there: no cheaper than the device
        paid, paths, priced = 0.0, [], price_arrays(rows)
        spend(self.slots * len(self.pricing.kinds) / 20)
        for k, kind in enumerate(self.pricing.kinds):
            if self.alone and self._is_free(self.alone[k], prices):
                paid += kind.count * self.alone[k].cost
                paths.append(self.alone[k])
                continue
            total, use, ends = self._path(k, priced)
            paid += kind.count * total
            paths.append(RequestPath(k, total - float((use * prices).sum()), use, ends))
        point = PricePoint(prices, paid - float((prices * self.room).sum()), paths)
        self.best = max(self.best, point, key=lambda each: each.bound)
        return point

    def _is_free(self, path: RequestPath, prices: Floats) -> bool:
        low, high = self.legs[path.kind][:, [LOW, HIGH]].T
        return not (path.use * prices).any() and bool(((low <= path.ends) & (path.ends <= high)).all())

    def _path(self, k: int, prices: PriceArrays) -> tuple[float, Floats, Ints]:
        legs, pricing = self.legs[k], self.pricing
        path = np.zeros((len(legs), 3), np.int64)
        use = np.zeros((len(self.pricing.limits), self.slots))
        route = pricing.kinds[k].route._replace(legs=legs)
        if pricing.machine.evict:
            total = walks.walk_with_evictions(route, pricing.machine.chunked, prices.rows, use, path)
        else:
            total = walks.walk(route, prices, self.stride, path)
            walks.add_use(route, path, prices.rows, use)
        use[self.pricing.limits == 0] = 0
        by_piece = use if self.piece == 1 else np.add.reduceat(use, np.arange(0, self.slots, self.piece), axis=1)
        return total, by_piece, path[:, 0] + legs[:, DECODE] - 1

    def excess(self, point: PricePoint) -> Floats:
        """Return the use beyond the limits, [rows, pieces]; 0 in rows without a limit."""
        taken = np.zeros_like(self.room)
        for kind, path in zip(self.pricing.kinds, point.paths, strict=True):
            taken += kind.count * path.use
        return np.where(self.pricing.limits[:, None] > 0, taken - self.room, 0.0)

    def spread(self, by_piece: Floats) -> Floats:
        """Return prices per slot."""
        return np.repeat(by_piece, self.piece, axis=1)[:, : self.slots]


def first_prices(pricing: SlotPricing, most: int) -> tuple[Floats, int]:
    """Return device prices as if the memory were one fast machine, and the slots worth a price.

    These are half as many again as that machine works (at most `most`), and those of the longest request alone.
    """
    limit = pricing.limits[DEVICE]
    price = machine_prices(_jobs(pricing), limit, most) if limit else np.zeros(0)
    slots = len(price) + len(price) // 2 + max(kind.least for kind in pricing.kinds)
    return np.pad(price, (0, slots - len(price))), slots


def machine_prices(jobs: Iterable[tuple[int, float, float]], limit: float, most: int) -> Floats:
    """Return the worth of a unit of a machine's volume in each slot, up to the last job's or `most` slots.

    Jobs (release, weight per volume, volume) share the `limit` of each slot preemptively, those of the largest weight
    first. While the machine is busy, a unit more brings forward the running job, and with it all that follow: the dual
    of this best order falls by that weight, down to 0 when nothing is left.
    """
    falls: list[float] = []
    waiting: list[list[float]] = []
    queue = sorted(jobs, reverse=True)
    while (queue or waiting) and len(falls) < most:
        while queue and queue[-1][0] <= len(falls):
            _, ratio, volume = queue.pop()
            heapq.heappush(waiting, [-ratio, volume])
        free, fall = limit, 0.0
        while waiting and free > 0:
            done = min(free, waiting[0][1])
            fall = -waiting[0][0]
            free, waiting[0][1] = free - done, waiting[0][1] - done
            if waiting[0][1] <= 0:
                heapq.heappop(waiting)
        falls.append(fall)
    price = np.zeros(len(falls) + 1)
    for t in range(len(falls) - 1, -1, -1):
        price[t] = price[t + 1] + falls[t] if falls[t] else 0.0
    return price[:-1]


def _jobs(pricing: SlotPricing) -> Iterator[tuple[int, float, float]]:
    """For each segment: its earliest slot, weight per volume, and volume."""
    blocks = pricing.machine.blocks
    for kind in pricing.kinds:
        legs = kind.route.legs
        volumes = [sum(blocks(int(leg[0]) + j) for j in range(int(leg[1]))) for leg in legs]
        for leg, volume in zip(legs, volumes, strict=True):
            yield from [(int(leg[EARLIEST]), kind.route.rate / sum(volumes), float(volume))] * kind.count


def proof_of(pricing: SlotPricing, prices: Floats) -> Prices:
    """Return prices per slot [rows, slots] as whole numbers, as fine as the checker's sums allow."""
    slots, total = prices.shape[1], float(prices.sum()) + 1e-9
    largest = max((k.request.peak + slots + k.least) * len(k.route.legs) for k in pricing.kinds)
    rate = max(k.route.rate * (slots + k.least + k.request.arrival + k.request.peak) for k in pricing.kinds)
    scale = 2 ** int(np.clip(np.log2(SIZE / (8 * largest * total + rate + 1)), 0, 30))
    device, host, tokens, requests = (_whole(row * scale) for row in prices)
    if pricing.machine.host_memory == 0:
        host = device
    return Prices(scale=scale, slots=slots, device=device, host=host, tokens=tokens, requests=requests)


def _whole(row: Floats) -> tuple[int, ...]:
    numbers = np.rint(row).astype(np.int64)
    return tuple(numbers[: int(np.flatnonzero(numbers)[-1]) + 1 if numbers.any() else 0].tolist())
