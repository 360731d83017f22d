"""The graph of `slots`, by tick, and which states are as good.

Left out is only what a simulation, computed here, shows to be no better.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kvcore.certificates.budget import Budget, InvalidCertificate, Most, Work
from kvcore.certificates.options import Load, LocalState, Option, RequestOptions
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
        scale, self.arrivals = scale_of(instance.requests, objective), [request.arrival for request in self.groups]
        self.rates = [self.rate_of(request, scale) for request in self.groups]
        if max(self.rates) >= Most.rate:
            raise InvalidCertificate("its weights are too large: sums could exceed 64 bits")
        super().__init__(self.machine, self.groups, budget, by_tick=True)
        self.spans = list(pairwise([*self.start.tolist(), len(self.states)]))
        self.graphs = self._graphs(np.repeat(self.rates, np.diff(self.spans).ravel()))
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
            prices[q] += prices[r] * self.limits[r] // self.limits[q]
        prices[self.graphs.limits < 0] = 0
        return prices

    def deadlines(self, target: int) -> list[int]:
        """Return the last tick at which each kind may be over in a schedule below the target.

        For a sum: one request costs at most as much beyond its time alone as all together may.
        """
        spare = max(0, target - 1 + self.base() - self._sum(self.alone))
        if self.objective in SUMS:
            ticks = [alone + spare // rate for rate, alone in zip(self.rates, self.alone, strict=True)]
        else:
            by_flow = self.objective == "max-flow-time"
            ticks = [target - 1 + (arrival if by_flow else -self.origin) for arrival in self.arrivals]
        if max(ticks) > Most.slots:
            raise InvalidCertificate(f"slots take at most {Most.slots} ticks, and {max(ticks)} are needed")
        return ticks

    def base(self) -> int:
        """Return what the arrivals take off a sum."""
        return self._sum(self.arrivals)

    def _sum(self, ticks: Sequence[int]) -> int:
        """The cost of these ticks, for each kind."""
        return sum(c * rate * t for c, rate, t in zip(self.counts.tolist(), self.rates, ticks, strict=True))

    @cached_property
    def reduced(self) -> Reduced:
        """The graphs with equally good states merged, and without options that are no better.

        A state a is at least as good as b (the greatest such relation): it is over if b is; so is where it idles; and
        for each option of b it has one that takes no more of what is limited, shows no phase that the other does not,
        acts where it must, and leads to a state at least as good. Where b cannot rest in a batch, a holds no more.
        Hence every schedule through b is answered by one through a, request by request (docs/bounds.md).
        """
        whole, size = self.graphs, len(self.states)
        same, kept, better = np.arange(size), np.ones(len(self.options), bool), [np.empty((2, 0), np.int64)]
        small = [(start, stop) for start, stop in self.spans if (stop - start) ** 2 <= Most.pairs]
        cells, looks = sum((stop - start) ** 2 for start, stop in small), int((np.diff(whole.first) ** 2).sum())
        self.budget.spend("states and options compared", Work.compare * (cells + looks), 8 * cells)
        for start, stop in small:
            compared = np.zeros(1, np.int64)
            as_good = self.as_good[start] = simulation(whole, start, stop, Most.compared, compared)
            self.budget.spend(f"a simulation of {stop - start} states", Work.compare * int(compared[0]))
            mutual = as_good & as_good.T
            same[start:stop] = start + mutual.argmax(axis=1)
            kept[whole.first[start] : whole.first[stop]] = kept_options(whole, start, stop, as_good)
            better.append(start + np.array(np.nonzero((as_good & ~mutual).T)))
        while (same[same] != same).any():  # one that is as good as two others, which are not compared, is of both
            same = same[same]
        self.merged, stands = same, same == np.arange(size)
        place, state, option = np.cumsum(stands) - 1, np.flatnonzero(stands), np.flatnonzero(kept & stands[self.owner])
        pairs = np.concatenate(better, axis=1)
        worse, good = place[pairs[:, stands[pairs].all(axis=0)]]
        kind = np.repeat(np.arange(len(self.spans)), np.diff(self.spans).ravel())[state]
        return Reduced(
            _part(whole, state, option, place[same]), np.searchsorted(worse, np.arange(len(state) + 1)), good, state,
            option, kind, place[same[self.start]],
        )  # fmt: skip


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


def _part(graphs: Graphs, states: Integers, options: Integers, place: Integers) -> Graphs:
    """Some states and options of theirs; `place` are new numbers of states."""
    return graphs._replace(
        first=np.append(np.searchsorted(options, graphs.first[states]), len(options)),
        next=place[graphs.next[options]], idle=place[graphs.idle[states]],
        **{name: getattr(graphs, name)[options] for name in OF_OPTIONS},
        **{name: getattr(graphs, name)[states] for name in OF_STATES},
    )  # fmt: skip


def of_kind(graphs: Graphs, start: int, stop: int) -> Graphs:
    """Return the graph of one kind alone, whose states these are."""
    options = np.arange(graphs.first[start], graphs.first[stop])
    return _part(graphs, np.arange(start, stop), options, np.arange(len(graphs.idle)) - start)
