"""The method `slot-dual`: good prices of slots; `kvcore.certificates.slot_dual` says what they prove."""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np

from bounds.clock import spend
from bounds.slot_kernels import follow
from bounds.subgradient import Floats, ascend
from bounds.task import Proposal, Task, most_options
from bounds.tuning import Options, option
from kvcore.certificates.budget import Budget, InvalidCertificate, Most, Work
from kvcore.certificates.slot_dual import PricedRequests, SlotDual, after
from kvcore.certificates.slot_kernels import values
from kvcore.certificates.slots import SlotPrices
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.limits import DEVICE, LIMITS, SHARED
from kvcore.metrics import scale_of, weight


@dataclass(frozen=True)
class DualOptions(Options):
    """Prices of the limits of each slot."""

    rounds: int = option(2000, "subgradients, at the most")
    most_options: int = option(300_000, "options of requests, by a rough count, beyond which no prices are sought")

    most_values = 2**27  # of states in slots, of 8 bytes


def propose_dual(task: Task) -> Iterator[Proposal]:
    """Return prices of the limits of each slot (BadInput at once where requests may have too many options)."""
    check_size(task)
    return _proposals(task)


def check_size(task: Task) -> None:
    """Raise BadInput where the local graphs may take too long."""
    if (options := most_options(task.instance)) > DualOptions.given().most_options:
        raise BadInput(f"prices of slots take requests with few options, and these may have {options}")
    count = Budget()
    count.spend("the options of requests", 16 * Work.look * options)
    task.begin(count)


def _proposals(task: Task) -> Iterator[Proposal]:
    try:
        dual = PriceAscent(task)
    except InvalidCertificate as error:
        raise BadInput(str(error)) from None
    try:
        dual.ascend(DualOptions.given().rounds)
    finally:  # on KeyboardInterrupt too
        yield Proposal(dual.proof())


class PriceAscent:
    """Prices [limits, slots] in units of the rates of the local graphs, and the `best` of them so far."""

    def __init__(self, task: Task) -> None:
        """Raise BadInput or InvalidCertificate where an evaluation takes too much."""
        self.task, self.requests = task, PricedRequests(task.instance, task.objective)
        graphs, counts = self.requests.graphs, self.requests.counts
        self.limits = np.maximum(graphs.limits, 0)[:, None]
        first = np.zeros(0)
        if limit := float(self.limits[DEVICE, 0]):
            first = machine_prices(_jobs(task.instance, task.objective), limit, Most.slots)
        longest = max(int(self.requests.left[start]) for start, _ in counts)
        # half as many slots again as the machine works, and those of the longest request alone
        self.slots = min(Most.slots, len(first) + len(first) // 2 + longest)
        if (cells := self.slots * len(graphs.rate)) > (most := DualOptions.given().most_values):
            raise BadInput(f"prices of slots take at most {most} values of states, and {cells} are needed")
        whole = sum(count * int(graphs.rate[start]) for (start, _), count in counts.items())
        self.scale = 2 ** int(np.clip(log2(2**52 / (whole * (self.slots + longest))), 0, 20))
        self.most = np.where(
            self.limits > 0, np.minimum(2**50, 2**57 // (SHARED * self.slots * np.maximum(self.limits, 1))), 0
        )
        self.last = after(graphs, self.requests.left, self.slots, self.scale)
        self.best = np.zeros((SHARED, self.slots))
        self.best[DEVICE, : len(first)] = first[: self.slots]

    def whole(self, prices: Floats) -> Any:
        """Return whole prices; a checker's sums hold them."""
        return np.minimum(np.rint(prices * self.scale), self.most).astype(np.int64)

    def evaluate(self, prices: Floats) -> tuple[float, Floats]:
        """Return the bound by prices, and what the cheapest ways take beyond the limits."""
        graphs, whole = self.requests.graphs, self.whole(prices)
        spend(self.slots * (len(graphs.idle) + len(graphs.next)) / 200)  # units of work, of a microsecond
        rows = values(graphs, whole, 0, self.scale, self.last)
        total, taken = -int((self.limits * whole).sum()), np.zeros(whole.shape)
        for (start, arrival), count in self.requests.counts.items():
            late = max(0, arrival - self.slots)
            total += count * (
                int(rows[arrival - late, start]) - int(graphs.rate[start]) * self.scale * (arrival - late)
            )
            follow(graphs, whole, rows, 0, self.scale, start, arrival, count, taken)
        return total / self.scale, np.where(self.limits > 0, taken - self.limits, 0.0)

    def ascend(self, rounds: int) -> None:
        """Improve the best prices; each is measured in its limit, so that all move alike."""
        limits, unit = np.maximum(self.limits, 1), scale_of(self.task.instance.requests, self.task.objective)

        def evaluate(scaled: Floats) -> tuple[float, Floats]:
            bound, slope = self.evaluate(scaled / limits)
            if bound > found[0]:
                found[0], self.best = bound, scaled / limits
            return bound, slope / limits

        found = [self.evaluate(self.best)[0]]
        # steps aim at so much above the first bound where no value is known
        target = found[0] * 1.1 if self.task.upper is None else float(self.task.upper * unit)
        ascend(
            evaluate, self.best * limits, target, rounds=rounds, margin=0.02 * abs(found[0]), step=4.0,
            momentum=0.75, stalled=20, go_on=lambda best: not self.task.is_over(),
        )  # fmt: skip

    def proof(self) -> SlotDual:
        """Return the proof of the best prices."""
        rows = [tuple(np.trim_zeros(row, "b").tolist()) for row in self.whole(self.best)]
        prices = {limit.name: row for limit, row in zip(LIMITS, rows, strict=True)}
        return SlotDual(scale=self.scale, prices=SlotPrices(since=0, **prices))


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


def _jobs(instance: Instance, objective: str) -> Iterator[tuple[int, float, float]]:
    """For each segment: its earliest slot, weight per volume, and volume."""
    unit = scale_of(instance.requests, objective)
    for request in instance.requests:
        slot, jobs = request.arrival - instance.first_arrival, []
        for known, segment in zip(request.known, request.segments, strict=True):
            jobs.append((slot, float(sum(instance.machine.blocks(known + j) for j in range(segment.decode)))))
            slot += segment.decode + (segment.call.duration if segment.call else 0)
        ratio = float(weight(request, objective) * unit) / sum(volume for _, volume in jobs)
        yield from ((release, ratio, volume) for release, volume in jobs)
