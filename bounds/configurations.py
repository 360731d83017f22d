"""Prices for certificates of configurations: large requests in the network, the others pay for memory.

The price of memory is constant in a window. Networks with more and more requests, the largest first, take turns; each
begins with the prices of the one before.
"""

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bounds import walks
from bounds.bundle import Bundle, Evaluation, Vector, maximise
from bounds.clock import SECOND, Units, now, spend
from bounds.rising_targets import Attempt, rising_targets
from bounds.task import Proposal, Task
from bounds.tuning import Options, option
from kvcore.certificates import Configurations, InvalidCertificate
from kvcore.certificates.budget import Budget, Most
from kvcore.certificates.configuration_search import ConfigurationSearch, States
from kvcore.certificates.configurations import most_configurations
from kvcore.certificates.running import Running, TooMany
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.referee import InvalidSchedule
from kvcore.rigid import Kind, kinds_of, memory_of, too_large
from kvcore.schedule import Batch, Schedule

Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ConfigurationOptions(Options):
    """Prices of memory by windows, networks of more and more requests."""

    large: float = option(0.5, "requests that end with more of the memory are in the first network", most=1)
    most: int = option(3_000_000, "configurations of a network, at most")
    most_bytes: int = option(3 << 30, "bytes of the values of a network at all ticks, at most")


class WindowPricing:
    """The kinds of a rigid instance, every start of each, and its memory in each window."""

    def __init__(self, instance: Instance, objective: str) -> None:
        self.instance = instance
        self.kinds = kinds_of(instance, objective)
        self.memory = memory_of(instance, self.kinds)
        area = sum(kind.count * sum(kind.load) for kind in self.kinds)
        last = max(kind.release for kind in self.kinds)
        self.priced = last + area // self.memory + 1
        self.width = -(-self.priced // 64)  # so many windows have a price of memory each
        self.windows = -(-self.priced // self.width)
        self.ticks = last + 2 * (area // self.memory) + max(kind.length for kind in self.kinds) + 1
        if self.ticks * len(self.kinds) * self.windows > 30_000_000:  # starts times windows, at most
            raise BadInput("configurations: the requests are too many, or take too long")
        self.costs = [kind.rate * (np.arange(self.ticks) - kind.release + kind.span) for kind in self.kinds]
        self.takes = [self._takes(k) for k in range(len(self.kinds))]
        self.unit = 8 * sum(kind.count * kind.rate for kind in self.kinds) / area
        """Price of memory if a request costs about 1."""

    def _takes(self, k: int) -> Vector:
        takes = np.zeros((self.ticks, self.windows))
        for q, load in enumerate(self.kinds[k].load):
            window = (np.arange(self.ticks) + q) // self.width
            rows = np.flatnonzero(window < self.windows)
            takes[rows, window[rows]] += load
        return takes

    def paid(self, k: int, memory: Vector) -> Vector:
        """Return the cost of each start of kind k, memory included; infinity before its release."""
        paid = self.costs[k] + self.takes[k] @ memory
        paid[: self.kinds[k].release] = np.inf
        return paid


class Stage:
    """The pricing of windows, with some kinds in the network.

    A point x holds a price for each kind inside, then those of memory by window. Its pieces are the network and the
    cheapest starts outside of each kind.
    """

    def __init__(self, pricing: WindowPricing, inside: list[int], most: int) -> None:
        """Raises InvalidCertificate for more configurations than `most`, or than a checker looks at."""
        most = min(most, most_configurations(pricing.ticks))
        began = now()
        self.pricing, self.inside = pricing, inside
        self.outside = [k for k in range(len(pricing.kinds)) if k not in inside]
        running = Running([pricing.kinds[k] for k in inside], pricing.memory, most, budget := Budget())
        spend(Units.nanosecond * (Most.work - budget.work))
        self.network = CheapestPaths(running, pricing.ticks)
        self.building, self.evaluating = now() - began, 0.0  # seconds
        isin = np.isin(np.arange(len(pricing.kinds)), inside)
        offered = np.full(pricing.windows, float(pricing.memory * pricing.width))
        self.linear = np.concatenate([np.where(isin, [kind.count for kind in pricing.kinds], 0.0), -offered])
        rates = np.where(isin, [kind.rate for kind in pricing.kinds], 0.0)
        self.scale = np.concatenate([rates, np.full(pricing.windows, pricing.unit)])
        nothing = np.zeros(len(self.linear))
        self.best = Evaluation(nothing, -np.inf, nothing, nothing)
        self.high = np.concatenate([[float(c[-1]) for c in pricing.costs], np.full(pricing.windows, np.inf)])

    def improve(
        self, x: Vector, bundle: Bundle, size: float, worth: float, deadline: float
    ) -> Generator[Configurations, None, tuple[Vector, float]]:
        """Yield proofs, each in twice the time of the last; return the best prices and the size of the box.

        `worth` is a fraction of the bound. On KeyboardInterrupt the best so far comes first.
        """
        deadline -= 2 * self.building  # for checking the proof
        part = 1.0  # processor seconds up to the first proof; each after it takes twice as long
        while True:
            end = min(deadline, now() + part)
            try:
                best, size = maximise(
                    self.evaluate, x, bundle, linear=self.linear, low=np.zeros(len(x)), high=self.high,
                    scale=self.scale, size=size, worth=worth * self.evaluate(x).value, deadline=end,
                )  # fmt: skip
                x, part = best.x, 2 * part
            finally:
                spend(SECOND * self.building)  # the check builds it, too
                yield self.proof(self.best.x)
            if end == deadline or now() < end:
                return x, size

    def evaluate(self, x: Vector) -> Evaluation:
        """Return the bound under these prices."""
        began = now()
        pricing, kinds = self.pricing, len(self.pricing.kinds)
        memory = x[kinds:]
        values, slopes = np.zeros(kinds + 1), np.zeros((kinds + 1, len(x)))
        for k in self.outside:
            paid, count = pricing.paid(k, memory), pricing.kinds[k].count
            start = int(paid.argmin())
            values[k], slopes[k, kinds:] = count * paid[start], count * pricing.takes[k][start]
        profit = np.array([pricing.paid(k, memory) - x[k] for k in self.inside]).reshape(-1, pricing.ticks).T
        values[-1], started = self.network.cheapest(profit)
        for tick, i in zip(*np.nonzero(started), strict=True):
            slopes[-1, self.inside[i]] -= started[tick, i]
            slopes[-1, kinds:] += started[tick, i] * pricing.takes[self.inside[i]][tick]
        self.evaluating = now() - began
        point = Evaluation(x, float(self.linear @ x + values.sum()), values, slopes)
        self.best = max(self.best, point, key=lambda each: each.value)
        return point

    def enter(self, x: Vector, inside: list[int]) -> Vector:
        """Return the point with prices of requests not `inside` before: their least cost."""
        x = x.copy()
        for k in set(self.inside) - set(inside):
            x[k] = min(self.high[k], self.pricing.paid(k, x[len(self.pricing.kinds) :]).min())
        return x

    def proof(self, x: Vector) -> Configurations:
        """Return the certificate's numbers."""
        pricing, scale = self.pricing, 256  # prices are whole multiples of one part in so many
        prices = np.repeat(np.rint(scale * x[len(pricing.kinds) :]).astype(int), pricing.width).tolist()
        while prices and not prices[-1]:
            prices.pop()
        price = {id: round(scale * x[k]) for k in self.inside for id in pricing.kinds[k].ids}
        starts = tuple(price.get(request.id) for request in pricing.instance.requests)
        return Configurations(scale=scale, memory=tuple(prices), starts=starts)


class CheapestPaths:
    """The cheapest path through a network of configurations, in floating point."""

    def __init__(self, running: Running, ticks: int) -> None:
        """Raises TooMany if the values exceed the memory for them, or a checker's."""
        if 4 * len(running.later) * (ticks + 1) > ConfigurationOptions.given().most_bytes:
            raise TooMany
        running.spend(ticks)
        self.starts = running.starts
        self.rows = [part.astype(np.int32) for part in (running.begin, running.base, running.next, running.later)]
        self.values = np.zeros((ticks + 1, len(running.later)), np.float32)

    def cheapest(self, price: Vector) -> tuple[float, Array]:
        """Return the least sum of `price` [ticks, kinds] along a path, and its starts."""
        never = np.where(price < 0, 0.0, 1.0) @ self.starts.T > 0
        cost = np.where(never, np.inf, np.minimum(price, 0.0) @ self.starts.T).astype(np.float32)
        cost[:, 0] = 0.0
        ticks = int(np.flatnonzero((price < 0).any(axis=1)).max(initial=-1)) + 1
        walks.fill(self.values, ticks, cost, *self.rows)
        spend(Units.nanosecond * ticks * (len(self.rows[1]) + self.values.shape[1]))
        chosen = walks.follow(self.values, ticks, cost, *self.rows)
        started = self.starts[chosen]
        return float((np.where(started > 0, price[:ticks], 0.0) * started).sum()), started


def proofs(instance: Instance, objective: str, deadline: float) -> Iterator[Configurations]:
    """Yield proofs with rising bounds until the deadline, of `bounds.clock.now`.

    On KeyboardInterrupt the best so far comes first. Raises BadInput where the instance is not rigid, or too large.
    """
    pricing, options = WindowPricing(instance, objective), ConfigurationOptions.given()
    x, size, bundle = np.zeros(len(pricing.kinds) + pricing.windows), pricing.priced / 4, Bundle()
    inside: list[int] = []
    for stage in _stages(pricing, options):
        # a network is left where no more than this part of the bound seems to be gained
        x, size = yield from stage.improve(stage.enter(x, inside), bundle, size, 2e-3, deadline)
        inside, size = stage.inside, max(1.0, 4 * size)
        # the next network is taken to be three times as large, and to be worth ten rounds
        if now() + 3 * (stage.building + 10 * stage.evaluating) > deadline:
            break
    yield from stage.improve(x, bundle, size, 5e-5, deadline)  # the same of the last network


def _stages(pricing: WindowPricing, options: ConfigurationOptions) -> Iterator[Stage]:
    order = sorted(range(len(pricing.kinds)), key=lambda k: pricing.kinds[k].load[-1], reverse=True)
    step = max(1, round(0.12 * len(order)))  # part of the kinds of requests that the next network has more
    number = sum(kind.load[-1] > options.large * pricing.memory for kind in pricing.kinds)
    fits, fails = -1, len(order) + 1
    while fits < number < fails:
        try:
            yield Stage(pricing, sorted(order[:number]), options.most)
            fits = number
        except InvalidCertificate:
            fails, step = number, max(1, (number - fits) // 2)
        number = min(fits + step, fails - 1)


def propose_configurations(task: Task) -> Iterator[Proposal | Schedule]:
    """Return proofs with rising bounds (BadInput: the instance is too large)."""
    if reason := too_large(task.instance):
        raise BadInput(reason)
    return climb(task)


def climb(task: Task) -> Iterator[Proposal | Schedule]:
    """Yield proofs of ever higher bounds: by prices, and, where all requests fit into the network, by a search.

    Its schedules have passed the referee. Raises BadInput as `proofs`.
    """
    proof: Configurations | None = None
    for proof in proofs(task.instance, task.objective, task.deadline):
        yield Proposal(proof)
    if proof is None:
        return
    with suppress(
        InvalidCertificate, InvalidSchedule
    ):  # too large; or budgets, which are left out, forbid what it finds
        yield from rising_targets(StartSolver(task, proof))


class Layers:
    """The states that a search follows at each tick, at most `beam`."""

    def __init__(self, search: ConfigurationSearch, beam: int | None) -> None:
        self.search, self.beam, self.all = search, beam, list[States]()

    def look(self, tick: int, states: States) -> States:
        """Keep the states that are to be followed, the least bounds first."""
        if self.beam is not None and len(states.g) > self.beam:
            states = states.take(np.argsort(self.search.bounds(tick, states, tick), kind="stable")[: self.beam])
        self.all.append(states)
        return states

    def starts(self, end: int) -> list[Array]:
        """Return the starts of each kind at each tick, up to a state of the last."""
        left = []
        for states in reversed(self.all):
            left.append(self.search.left(states.take(slice(end, end + 1))))
            end = int(states.parent[end])
        return list(-np.diff(np.concatenate(left[::-1]), axis=0))


class StartSolver:
    """Searches with rising targets, under the same prices of starts."""

    unit, most_tries = 1, Most.tries

    def __init__(self, task: Task, prices: Configurations) -> None:
        """Raise InvalidCertificate where the network is larger than a checker looks at."""
        self.task, self.prices, self.options = task, prices, ConfigurationOptions.given()
        self.first_tries, self.more_tries = 200_000, 8  # tries of the first searches; the next get so many times more
        self.instance, self.objective = task.instance, task.objective
        self.made = prices.search(self.instance, self.objective, Budget())

    def lowest(self, upper: int | None = None) -> int:
        """Return what the prices prove alone."""
        least = -(-int(self.made.bounds(0, self.made.start, 0)[0]) // self.made.scale)
        return least if upper is None else min(least, upper)

    def search(self, target: int, most_tries: int, *, beam: bool = False) -> Attempt:
        """Look for a schedule below a target; with `beam`, where most may be left, and prove nothing."""
        # 200,000 tries take a second, about
        tries = int(min(most_tries, 200_000 * self.task.seconds_left))
        layers = Layers(self.made, 1000 if beam else None)
        outcome = self.made.run(target, tries, layers.look)
        spend(50 * Units.slot_try * outcome.tries)
        proof = self.prices.replace(target=target, tries=outcome.tries) if outcome.proved and not beam else None
        jobs = None if outcome.cost is None else _jobs(layers.starts(outcome.end))
        found = None if jobs is None else schedule_of(self.instance, self.made.kinds, jobs)
        return Attempt(proof, found)


def _jobs(starts: Sequence[Array]) -> list[tuple[int, int]]:
    return [(k, tick) for tick, new in enumerate(starts) for k in np.repeat(np.arange(len(new)), new).tolist()]


def schedule_of(instance: Instance, kinds: Sequence[Kind], jobs: Iterable[tuple[int, int]]) -> Schedule:
    """Return the schedule of given (kind, start): at every tick, a batch of those started and not ended."""
    work: dict[int, dict[str, int]] = defaultdict(dict)
    ids = [iter(kind.ids) for kind in kinds]
    for k, start in sorted(jobs):
        id = next(ids[k])
        for q in range(kinds[k].length):
            work[start + q][id] = kinds[k].prompt if q == 0 else 1
    first = instance.first_arrival
    batches = tuple(Batch(start=first + tick, work=work[tick]) for tick in sorted(work))
    return Schedule(instance_sha256=instance.sha256, batches=batches)
