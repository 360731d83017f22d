"""The graph of `slots`, by tick, and which states are as good.

Left out is only what a simulation, computed here, shows to be no better.
"""

from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kvcore.certificates.budget import Budget, Most, Work
from kvcore.certificates.options import Load, LocalState, Option, RequestOptions
from kvcore.certificates.proof import InvalidCertificate
from kvcore.certificates.request_graph import RequestGraph
from kvcore.certificates.slot_kernels import NEVER, kept_options, simulation
from kvcore.instance import Instance, Request
from kvcore.limits import DEVICE, HOST, SHARED, limits_of
from kvcore.metrics import SUMS, scale_of, weight

Integers = npt.NDArray[np.int64]

OF_OPTIONS = ("use", "acts", "decodes", "prefills", "ends")
OF_STATES = ("blocks", "host", "over", "done", "rate", "deadline")


class Graphs(NamedTuple):
    """All local graphs as arrays; states and options of a kind are consecutive. Options of state i: first[i] and on.

    `use` [options, resources]; `ends`: whether the option pays `rate` for each tick up to its batch's end; `over`:
    nothing is left to pay; `limits`: -1 where none can bind; `idle`: the state a tick later between batches; `strict`:
    a batch must have work or a transfer; else drops alone make one, too.
    """

    first: Integers
    next: Integers
    use: Integers
    acts: Any
    decodes: Any
    prefills: Any
    ends: Any
    idle: Integers
    blocks: Integers
    host: Integers
    over: Any
    done: Any
    rate: Integers
    deadline: Integers
    limits: Integers
    hybrid: bool
    strict: bool


class Reduced(NamedTuple):
    """What a simulation leaves of `graphs`. Better states than i: better[better_first[i]:better_first[i + 1]].

    `state` and `option` are places in the whole graphs, `kind` the kind of each state, `start` each kind's first.
    """

    graphs: Graphs
    better_first: Integers
    better: Integers
    state: Integers
    option: Integers
    kind: Integers
    start: Integers


class LocalGraphs(RequestGraph):
    """The graph of an instance for an objective; requests that differ in their ids alone are one kind."""

    def __init__(
        self, instance: Instance, objective: str, strict: bool = False, *, budget: Budget | None = None
    ) -> None:
        self.machine, self.objective, self.strict = instance.machine, objective, strict
        self.origin = 0 if objective == "busy-time" else instance.first_arrival
        self.limits = np.array(limits_of(self.machine, -1), np.int64)
        self.implied: list[tuple[int, int]] = []
        """Limits exceeded only with another, and that."""
        self.groups: dict[Request, list[int]] = {}
        for i, request in enumerate(instance.requests):
            self.groups.setdefault(self._timed(request.shape), []).append(i)
        self.members = [i for group in self.groups.values() for i in group]
        """Places of requests in the instance, by kind."""
        self.counts = np.array([len(group) for group in self.groups.values()])
        scale = scale_of(instance.requests, objective)
        rates = [self.rate_of(request, scale) for request in self.groups]
        if max(rates) >= Most.rate:
            raise InvalidCertificate("its weights are too large: sums could exceed 64 bits")
        super().__init__(self.machine, self.groups, budget, by_tick=True)
        self.spans = list(pairwise([*self.start.tolist(), len(self.states)]))
        self.graphs = self._graphs(np.repeat(rates, np.diff(self.spans).ravel()))
        self.as_good: dict[int, Any] = {}
        """By start of a kind: which states are as good."""
        self.merged = np.arange(len(self.states))
        """The representative of each, after `reduced`."""
        self.ticks = self.least(np.ones(len(self.to), np.int64), self.graphs.over, NEVER, pause=1)
        """The least ticks of each state until its request is over, alone."""
        self.alone = self.ticks[self.start].tolist()
        if max(self.alone) > Most.slots:
            raise InvalidCertificate(f"slots take at most {Most.slots} ticks")

    def allowed(self, rules: RequestOptions, state: LocalState) -> Iterable[Option]:
        """Return options that differ for a batch."""
        if len(self.states) > Most.local_states or len(self.options) > Most.local_options:
            raise InvalidCertificate(
                f"slots take at most {Most.local_states} local states with {Most.local_options} options: "
                "coarsen the instance first"
            )
        found = dict[Any, Option]()
        for option in super().allowed(rules, state):
            found.setdefault((option.end, option.load.shared, _phases(option.load)), option)
        return found.values()

    def _timed(self, request: Request) -> Request:
        """From the first arrival on; for busy-time, without any wait.

        The batches of a schedule stay valid where nothing waits (lemma Z of docs/bounds.md), and without gaps their
        number, and so the busy time, is the makespan.
        """
        if self.objective != "busy-time":
            return request.replace(arrival=request.arrival - self.origin)
        return request.with_calls(lambda call: call.replace(duration=0)).replace(arrival=0)

    def rate_of(self, request: Request, scale: int) -> int:
        """Return the cost of a tick in the target's unit."""
        return int(weight(request, self.objective) * scale) if self.objective in SUMS else 0

    def _graphs(self, rate: Integers) -> Graphs:
        done = self.left == 0
        over = done | self.begun if self.objective == "total-ttft" else done
        use = np.array([option.load.shared for option in self.options])
        acts, decodes, prefills = np.array([_phases(option.load) for option in self.options]).T.copy()
        blocks = np.array([self.machine.blocks(state.device) for state in self.states])
        host = np.array([state.host for state in self.states])
        return Graphs(
            self.first, self.to, use, acts, decodes, prefills, self._ends(over), self.wait, blocks, host, over, done,
            rate, np.zeros_like(rate), self._binding(use), self.machine.hybrid, self.strict,
        )  # fmt: skip

    def _ends(self, over: Any) -> Any:
        return over[self.to] & ~over[self.owner]

    def _binding(self, use: Integers) -> Integers:
        """Limits that can bind (else -1).

        One cannot if all requests together never take so much; nor if no option takes more of it, in parts of the
        limit, than of another resource whose limit stays: then it is `implied` by that.
        """
        limit = self.limits.copy()
        needed = self.counts @ np.maximum.reduceat(use, self.first[self.start])
        rows = [[int(amount) for amount in row] for row in np.unique(use, axis=0)]
        for r in (*range(HOST + 1, SHARED), HOST, DEVICE):
            others = [q for q in range(len(limit)) if q != r and limit[q] > 0 and needed[r] > limit[r] >= 0]
            for q in others:
                if all(row[r] * int(limit[q]) <= row[q] * int(limit[r]) for row in rows):
                    self.implied.append((r, q))
                    break
            if needed[r] <= limit[r] or (self.implied and self.implied[-1][0] == r):
                limit[r] = -1
        return limit

    def folded(self, prices: Any) -> Any:
        """Return prices [resources, slots] with those of implied limits moved to the others: no value falls.

        Whole prices are rounded down; those of other limits that cannot bind are left out.
        """
        prices = prices.copy()
        for r, q in self.implied:
            moved = prices[r] * self.limits[r]
            prices[q] += moved // self.limits[q] if prices.dtype == np.int64 else moved / self.limits[q]
        prices[self.graphs.limits < 0] = 0
        return prices

    def deadlines(self, target: int) -> list[int]:
        """Return the last tick at which each kind may be over in a schedule below the target.

        For a sum: one request costs at most as much beyond its time alone as all together may.
        """
        requests, ticks = list(self.groups), []
        rates = [int(self.graphs.rate[start]) for start in self.start]
        least = sum(
            int(count) * rate * (alone - request.arrival)
            for count, rate, alone, request in zip(self.counts, rates, self.alone, requests, strict=True)
        )
        for request, rate, alone in zip(requests, rates, self.alone, strict=True):
            if self.objective in SUMS:
                ticks.append(alone + max(0, target - 1 - least) // rate)
            else:
                ticks.append(target - 1 + (request.arrival if self.objective == "max-flow-time" else -self.origin))
        if max(ticks) > Most.slots:
            raise InvalidCertificate(f"slots take at most {Most.slots} ticks, and {max(ticks)} are needed")
        return ticks

    def base(self) -> int:
        """Return what the arrivals take off a sum."""
        return sum(
            int(count) * int(self.graphs.rate[start]) * request.arrival
            for count, start, request in zip(self.counts, self.start, self.groups, strict=True)
        )

    @staticmethod
    def _step(state: LocalState) -> tuple[int, int, int]:
        return state.segment, state.generated, state.wait

    @cached_property
    def reduced(self) -> Reduced:
        """The graphs with equally good states merged, and without options that are no better.

        A state a is at least as good as b (the greatest such relation): it is over if b is; so is where it idles; and
        for each option of b it has one that takes no more of what is limited, shows no phase that the other does not,
        acts where it must, and leads to a state at least as good. Where b cannot rest in a batch, a holds no more.
        Hence every schedule through b is answered by one through a, request by request (docs/bounds.md).
        """
        whole, size = self.graphs, len(self.states)
        same, kept = np.arange(size), np.ones(len(self.options), bool)
        better: list[tuple[Integers, Integers]] = []
        alike = {key: k for k, key in enumerate({self._step(state) for state in self.states})}
        step = np.array([alike[self._step(state)] for state in self.states])
        small = [span for span in self.spans if (span[1] - span[0]) ** 2 <= Most.pairs]
        for start, stop in small:  # first states of as many tokens, which leaves few options
            as_good = self._simulated(whole, step, start, stop)
            kept[whole.first[start] : whole.first[stop]] = self._kept(whole, start, stop, as_good)
        options, graphs = np.flatnonzero(kept), _with_options(whole, kept)
        step = np.zeros_like(step)
        for start, stop in small:
            as_good = self.as_good[start] = self._simulated(graphs, step, start, stop)
            mutual = as_good & as_good.T
            same[start:stop] = start + mutual.argmax(axis=1)
            those = options[graphs.first[start] : graphs.first[stop]]
            kept[those] = self._kept(graphs, start, stop, as_good)
            worse, good = np.nonzero((as_good & ~mutual).T)
            better.append((start + worse, start + good))
        while (same[same] != same).any():  # one that is as good as two others, which are not compared, is of both
            same = same[same]
        graphs = whole
        self.merged = same
        stands = same == np.arange(size)
        place = np.cumsum(stands) - 1
        counts = np.diff(graphs.first)
        option = np.flatnonzero(kept & np.repeat(stands, counts))
        left = np.add.reduceat(np.append(kept, False), graphs.first[:-1]) * (counts > 0)
        first = np.concatenate(([0], np.cumsum(left[stands])))
        pairs = [(w, g) for worse, good in better for w, g in zip(worse, good, strict=True) if stands[w] and stands[g]]
        worse, good = np.array(pairs, np.int64).reshape(-1, 2).T
        reduced = graphs._replace(
            first=first, next=place[same[graphs.next[option]]], idle=place[same[graphs.idle[stands]]],
            **{name: getattr(graphs, name)[option] for name in OF_OPTIONS},
            **{name: getattr(graphs, name)[stands] for name in OF_STATES},
        )  # fmt: skip
        better_first = np.searchsorted(place[worse], np.arange(int(stands.sum()) + 1))
        return Reduced(
            reduced, better_first, place[good], np.flatnonzero(stands), option,
            np.repeat(np.arange(len(self.spans)), [stop - start for start, stop in self.spans])[stands],
            place[same[np.array(self.start)]],
        )  # fmt: skip

    def _simulated(self, graphs: Graphs, step: Integers, start: int, stop: int) -> Any:
        compared, size = np.zeros(1, np.int64), stop - start
        self.budget.spend(
            f"a simulation of {size} states",
            Work.compare * size**2,
            8 * sum((b - a) ** 2 for a, b in self.spans if (b - a) ** 2 <= Most.pairs),
        )
        as_good = simulation(graphs, step, start, stop, Most.compared, compared)
        self.budget.spend(f"a simulation of {size} states", Work.compare * int(compared[0]))
        return as_good

    def _kept(self, graphs: Graphs, start: int, stop: int, as_good: Any) -> Any:
        pairs = int((np.diff(graphs.first[start : stop + 1]) ** 2).sum())
        self.budget.spend("options of the same state", Work.compare * pairs)
        return kept_options(graphs, start, stop, as_good)


_LAST: dict[tuple[str, str, bool], LocalGraphs] = {}


def local_graphs(instance: Instance, objective: str, strict: bool, budget: Budget | None = None) -> LocalGraphs:
    """Return an instance's local graphs; the last ones are kept."""
    key = instance.sha256, objective, strict
    if key not in _LAST:
        _LAST.clear()
        _LAST[key] = LocalGraphs(instance, objective, strict, budget=budget)
    return _LAST[key]


def _phases(load: Load) -> tuple[bool, bool, bool]:
    return load.acts, load.decode_requests > 0, load.prefill_requests > 0


def _with_options(graphs: Graphs, kept: Any) -> Graphs:
    first = np.concatenate(([0], np.cumsum(kept)))[graphs.first]
    options = {name: getattr(graphs, name)[kept] for name in ("next", *OF_OPTIONS)}
    return graphs._replace(first=first, **options)


def of_kind(graphs: Graphs, start: int, stop: int) -> Graphs:
    """Return the graph of one kind alone, whose states these are."""
    options = slice(graphs.first[start], graphs.first[stop])
    return graphs._replace(
        first=graphs.first[start : stop + 1] - options.start, next=graphs.next[options] - start,
        idle=graphs.idle[start:stop] - start, **{name: getattr(graphs, name)[options] for name in OF_OPTIONS},
        **{name: getattr(graphs, name)[start:stop] for name in OF_STATES},
    )  # fmt: skip
