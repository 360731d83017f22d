"""The method `slots`: the search of `kvcore.certificates.slots`, with prices sought where its states survive."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from bounds import slot_dual
from bounds.clock import Units, spend
from bounds.rising_targets import Attempt, rising_targets
from bounds.slot_kernels import demand
from bounds.subgradient import Floats, ascend
from bounds.task import Proposal, Task, most_options
from bounds.tuning import Options, option
from formulations.timing import MOVES, Event, batches_of, start_early
from kvcore.certificates.budget import InvalidCertificate, Most
from kvcore.certificates.options import DUE, WINDOW
from kvcore.certificates.proof import Outcome
from kvcore.certificates.slot_graph import Graphs, LocalGraphs, local_graphs
from kvcore.certificates.slot_kernels import NEVER, Layer, Slot, empty_layer, expand, no_more, values
from kvcore.certificates.slot_search import SlotSearch, Vector
from kvcore.certificates.slots import SlotPrices, Slots
from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.limits import LIMITS, SHARED
from kvcore.metrics import SUMS, objective_value, scale_of
from kvcore.referee import InvalidSchedule, verify_schedule
from kvcore.schedule import Schedule


@dataclass(frozen=True)
class SlotOptions(Options):
    """How prices are sought; tried on slices of six and seven requests."""

    root_rounds: int = option(1500, "subgradients for the first prices")
    most_requests: int = option(32, "requests beyond which no search is begun")
    most_options: int = option(3_000_000, "options of local graphs, by a rough count, beyond which no search is begun")

    scale = 64  # parts of a unit of the objective in which prices are whole
    first_rounds = 500  # subgradients for prices without a target
    rounds = 60  # subgradients for prices of later slots
    fewest = 100  # states that survive, from which on further prices are sought
    sample = 64  # states that further prices are sought for together, the nearest to one drawn at random


class OutOfTime(Exception):
    """The deadline has passed."""


@dataclass
class Layers:
    """The layers of a search, and the tries for each state of the last; `steer` looks at each."""

    search: SlotSearch
    steer: Callable[[Layers, Layer, Any], None]
    all: list[Layer] = field(default_factory=list)
    tries: int = 0
    states: int = 1
    tries_per_state: float = 0.0

    def look(self, layer: Layer, cut: Any) -> bool:
        """Keep a layer; return whether there is room for more."""
        self.all.append(layer)
        self.tries_per_state, self.tries = (self.search.tries - self.tries) / max(1, self.states), self.search.tries
        self.steer(self, layer, cut)
        self.states = int((~cut).sum())
        held = sum(int(each.keys.nbytes + each.choice.nbytes) for each in self.all)
        return held <= 2**31  # bytes kept for a schedule


def path_to(layers: Sequence[Layer], entry: int) -> list[tuple[Any, Any]]:
    """Return the keys from the start to an entry of the last layer, each with the options before it."""
    path = []
    for layer in reversed(layers):
        path.append((layer.keys[entry].copy(), layer.choice[entry].copy()))
        entry = int(layer.parent[entry])
    return path[::-1]


class SlotSolver:
    """Searches with rising targets, each leaving a proof or a schedule."""

    most_tries = Most.tries

    def __init__(self, task: Task, options: SlotOptions | None = None, strict: bool = False) -> None:
        """Raise BadInput where the search does not take the instance."""
        self.task, self.instance, self.objective = task, task.instance, task.objective
        check_size(self.instance)
        self.options = options or SlotOptions.given()
        self.first_tries, self.more_tries, self.most_tries = (
            3_000_000,  # tries of the first searches: about a second
            8,  # so many times more tries get the next
            Most.tries,
        )
        self.draw = np.random.default_rng(0)
        try:
            self.local = local_graphs(self.instance, self.objective, strict)
        except InvalidCertificate as error:
            raise BadInput(str(error)) from None
        self.unit = scale_of(self.instance.requests, self.objective)
        self.root: Floats | None = None
        """First prices, improved later in fewer rounds."""
        self.tight: Graphs | None = None
        """With deadlines for ascents alone, in fewer slots."""

    def lowest(self, upper: int | None = None) -> int:
        """Return what the first prices prove alone; above `upper` nothing need be proved."""
        if self.objective not in SUMS:
            return self._alone()
        self.root = self.first_prices(upper)
        target, starts = max(upper or 0, self._alone() + 1), [self.root, None]
        if self.root is not None and upper is not None:  # with a target near the bound there are fewer slots
            least = self.ascend_root(SlotSearch(self.local, target, self.options.scale), 1)
            target = min(target, least + max(5, least // 20))
        while True:
            found = []
            for self.root in starts:  # an ascent that starts at good prices may be stuck there
                search = SlotSearch(self.local, target, self.options.scale)
                found.append((self.ascend_root(search, self.options.root_rounds), self.root))
            bound, self.root = max(found, key=lambda each: each[0])
            if bound < target or (upper is not None and target >= upper):
                return min(bound, target)
            target = 2 * target if upper is None else min(upper, 2 * target)

    def first_prices(self, upper: int | None) -> Floats | None:
        """Return prices without a target, for any number of slots."""
        task = replace(self.task, upper=None if upper is None else Fraction(upper, self.unit))
        try:
            slot_dual.check_size(task)
            dual = slot_dual.PriceAscent(task)
        except (BadInput, InvalidCertificate):
            return None
        dual.ascend(self.options.first_rounds)
        return dual.best

    def _alone(self) -> int:
        ticks = [alone - request.arrival for alone, request in zip(self.local.alone, self.local.groups, strict=True)]
        if self.objective in SUMS:
            return sum(c * r * t for c, r, t in zip(self.local.counts.tolist(), self.local.rates, ticks, strict=True))
        return int(
            max(ticks if self.objective == "max-flow-time" else [a + self.local.origin for a in self.local.alone])
        )

    def ascend_root(self, search: SlotSearch, rounds: int) -> int:
        """Add the first vector, sought in `rounds`, to the search, and return its bound."""
        start = np.zeros((SHARED, search.slots))
        if self.root is not None:
            width = min(search.slots, self.root.shape[1])
            start[:, :width] = self.root[:, :width]
        search.add(Vector(0, self._whole(search, start, 0)))
        if self.objective in SUMS:
            self.tight = _tightened(search)
            vector = self._ascend(search, 0, search.start[None, :], np.zeros(1), start, rounds, 20, 0.7)
            self.root = vector.prices / self.options.scale
            _restart(search, vector)
        rows, later = search.at([0], 0)
        if (rows[0, search.start] >= NEVER).any():
            return search.goal + 1 - self.local.base()
        least: int = sum(rows[0, search.start].tolist()) - int(later[0])
        return -(-least // self.options.scale) - self.local.base()

    def _open(self, search: SlotSearch, since: int, slots: int) -> Any:
        return (search.graphs.limits > 0)[:, None] & (np.arange(slots) >= since)[None, :]

    def _whole(self, search: SlotSearch, prices: Floats, since: int) -> Any:
        open_ = self._open(search, since, prices.shape[1])
        return np.where(open_, np.rint(prices * self.options.scale), 0).astype(np.int64)

    def _ascend(
        self, search: SlotSearch, since: int, keys: Any, costs: Floats, start: Floats, rounds: int, stalled: int,
        shrink: float,
    ) -> Vector:  # fmt: skip
        """Raise the least cost of the joint states `keys` [points, requests]."""
        scale, goal, graphs = self.options.scale, search.goal, self.tight or search.graphs
        start = start[:, : max(since + 1, int(graphs.deadline.max()))]
        limits = np.where(graphs.limits > 0, graphs.limits, 0).astype(float)[:, None]
        open_, last = self._open(search, since, start.shape[1]), np.where(graphs.over, 0, NEVER)

        def evaluate(prices: Floats) -> tuple[float, Floats]:
            if self.task.is_over():
                raise OutOfTime
            priced = self._whole(search, prices, since)
            rows = values(graphs, priced, since, scale, last)
            supply = float((limits * priced).sum())
            worth = np.array([min(float(rows[0, key].sum(dtype=float)), float(NEVER)) for key in keys])
            least = np.minimum(goal + 1.0, costs + (worth - supply) / scale)
            short = least < goal + 1.0
            slope = np.zeros(prices.shape)
            if short.any():
                demand(graphs, priced, rows, since, scale, keys[short], slope)
                slope -= short.sum() * limits
            return float(least.mean()), np.where(open_, slope / len(keys), 0.0)

        _, best = ascend(
            evaluate, np.where(open_, start, 0.0), goal + 1.0, rounds=rounds, step=1.0 if since == 0 else 0.5,
            momentum=0.6, stalled=stalled, shrink=shrink, worth=1e-4, go_on=lambda least: least < goal + 1 - 1e-9,
        )  # fmt: skip
        return Vector(since, self._whole(search, best, since))

    def run(self, target: int, most_tries: int = Most.tries, *, beam: bool = False) -> tuple[Layers, Outcome]:
        """Look for a schedule below a target (in units of 1/lcm of the outputs, for normalized-latency).

        With `beam`, only the states of a slot are followed from which most may still be spent; nothing is proved then.
        """
        search = SlotSearch(self.local, target, self.options.scale)
        self.ascend_root(search, self.options.root_rounds if self.root is None else self.options.rounds)
        # ten million tries take a second
        most_tries = int(min(most_tries, 10_000_000 * self.task.seconds_left))
        layers = Layers(search, self._beam if beam else self._steer)
        outcome = search.run(Most.joint_states, most_tries, layers.look)
        spend(Units.slot_try * outcome.tries)
        return layers, replace(outcome, proved=outcome.proved and not beam)

    def search(self, target: int, most_tries: int, *, beam: bool = False) -> Attempt:
        """Return what `run` proves or finds."""
        layers, outcome = self.run(target, most_tries, beam=beam)
        search, proof = layers.search, None
        if outcome.proved:
            proof = Slots(
                target=target, scale=search.scale, strict=self.local.strict, states=outcome.states,
                tries=outcome.tries, prices=tuple(map(_as_rows, search.vectors)),
            )  # fmt: skip
        if outcome.cost is None:
            return Attempt(proof, None)
        return Attempt(proof, schedule_on(self.instance, search, path_to(layers.all, outcome.end)))

    def _beam(self, layers: Layers, layer: Layer, cut: Any) -> None:
        if self.task.is_over():
            raise OutOfTime
        alive = np.flatnonzero(~cut[: layer.size])
        spent = layer.cost[alive] - layer.room[alive]
        cut[alive[np.argsort(spent, kind="stable")[300:]]] = True

    def _steer(self, layers: Layers, layer: Layer, cut: Any) -> None:
        if self.task.is_over():
            raise OutOfTime
        options, search, requests = self.options, layers.search, len(layers.search.kind)
        per_state = len(search.graphs.next) / len(search.graphs.idle)
        evaluated = per_state * (len(search.graphs.idle) + options.sample * requests)
        slots = int((self.tight or search.graphs).deadline.max())
        worth = options.rounds * max(1, slots - search.tick) * evaluated
        # what following a state takes: options for each request, and its tries; a vector pays if it cuts more
        following = 50.0 * requests + 10.0 * layers.tries_per_state
        failed = 0
        for _ in range(6):
            alive = np.flatnonzero(~cut[: layer.size])
            if search.tick == 0 or len(alive) < options.fewest:
                break
            pivot = int(self.draw.choice(alive))
            near = alive if len(alive) < 20_000 else self.draw.choice(alive, 20_000, replace=False)
            apart = (layer.keys[near] != layer.keys[pivot]).sum(axis=1)
            near = near[np.argsort(apart, kind="stable")][: options.sample]
            start = self._best_prices(search, layer.keys[pivot])
            costs = layer.cost[near].astype(float)
            vector = self._ascend(search, search.tick, layer.keys[near], costs, start, options.rounds, 6, 0.5)
            search.add(vector)
            search.see(layer, [len(search.vectors) - 1])
            dead = ~cut[: layer.size] & (layer.cost[: layer.size] > layer.room[: layer.size])
            cut[: layer.size] |= dead
            failed = failed + 1 if dead.sum() * following < worth else 0
            # a second vector follows one that did not pay where states take 20 times as much
            if failed > (len(alive) * following > 20.0 * worth):
                break

    def _best_prices(self, search: SlotSearch, key: Any) -> Floats:
        chosen = search.in_use(search.tick)
        rows, later = search.at(chosen, search.tick)
        best = int((rows[:, key].sum(axis=1) - later).argmax())
        return search.vectors[chosen[best]].prices / self.options.scale


def _tightened(search: SlotSearch) -> Graphs:
    """Return the graphs with deadlines lowered until there are no fewer slots: what others cost leaves no more."""
    graphs, before, scale = search.graphs, search.slots + 1, search.scale
    while (slots := max(1, int(graphs.deadline.max()))) < before:
        before, prices = slots, search.vectors[0].prices[:, :slots]
        start = values(graphs, prices, 0, scale, np.where(graphs.over, 0, NEVER))[0, search.start]
        if int(start.max()) >= NEVER:
            break
        supply = int((np.maximum(graphs.limits, 0) @ prices).sum())
        spare, last = search.goal * scale - (sum(start.tolist()) - supply), np.empty(len(search.local.counts), np.int64)
        last[search.kind] = (spare + start) // (graphs.rate[search.start] * scale)
        graphs = graphs._replace(deadline=np.minimum(graphs.deadline, np.maximum(last, 0)[search.reduced.kind]))
    return graphs


def _restart(search: SlotSearch, vector: Vector) -> None:
    search.vectors.clear()
    search.later.clear()
    search.values.clear()
    search.add(vector)


def check_size(instance: Instance) -> None:
    """Raise BadInput where no search is begun; a search may still find more options than a local graph takes."""
    limits = SlotOptions.given()
    if len(instance.requests) > limits.most_requests:
        raise BadInput(f"slots are searched for at most {limits.most_requests} requests")
    waits = sum(request.arrival + request.call_time for request in instance.requests)
    if (options := most_options(instance) + waits) > limits.most_options:
        raise BadInput(
            f"slots are searched where requests have few options, and these may have {options}; coarsen the instance"
        )


def propose_slots(task: Task) -> Iterator[Proposal | Schedule]:
    """Return what `climb` yields (BadInput at once where the search is not begun)."""
    check_size(task.instance)
    return climb(task)


def climb(task: Task, options: SlotOptions | None = None) -> Iterator[Proposal | Schedule]:
    """Yield proofs of ever higher bounds, and better schedules, until they meet, or the deadline.

    Schedules have passed the referee: where one rests on a batch of drops alone, which is none, the search begins anew
    without such batches.
    """
    for strict in (False, True):
        solver = SlotSolver(task, options, strict=strict)
        try:
            with suppress(OutOfTime):
                for found in rising_targets(solver):
                    if isinstance(found, Schedule):
                        task = replace(
                            task, upper=objective_value(verify_schedule(task.instance, found), task.objective)
                        )
                    yield found
            return
        except InvalidCertificate as error:  # its numbers are too large
            raise BadInput(str(error)) from None
        except InvalidSchedule:
            continue


def _as_rows(vector: Vector) -> SlotPrices:
    rows = [tuple(int(x) for x in np.trim_zeros(row, "b")) for row in vector.prices]
    return SlotPrices(since=vector.first_slot, **{limit.name: row for limit, row in zip(LIMITS, rows, strict=True)})


def schedule_on(instance: Instance, search: SlotSearch, path: list[tuple[Any, Any]]) -> Schedule:
    """Return the schedule of a path, started early, with all tokens (InvalidSchedule: it breaks a rule)."""
    local, events = search.local, defaultdict[str, list[Event]](list)
    real = dict(zip(local.members, np.repeat(local.start, local.counts).tolist(), strict=True))
    steps = _follow(search, path, real)
    if local.objective == "total-ttft":
        steps += _completed(instance, real)
    for tick, step in enumerate(steps):
        for i, o in step.items():
            events[instance.requests[i].id] += _events(local, tick, o)
    return start_early(instance, batches_of(events.items())[1]).schedule


def _events(local: LocalGraphs, tick: int, o: int) -> Iterator[Event]:
    """A drop that R9 neither allows nor orders is an eviction."""
    option, state = local.options[o], local.states[int(np.searchsorted(local.graphs.first, o, "right")) - 1]
    for kind in ("work", *MOVES):
        if tokens := getattr(option, kind):
            yield tick, "evict" if kind == "drop" and state.mark not in (WINDOW, DUE) else kind, tokens


def _follow(search: SlotSearch, path: list[tuple[Any, Any]], real: dict[int, int]) -> list[dict[int, int]]:
    local, graphs, reduced = search.local, search.local.graphs, search.reduced
    owner = np.repeat(np.arange(len(search.graphs.idle)), np.diff(search.graphs.first))
    on_path = dict(zip(local.members, path[0][0].tolist(), strict=True))
    kinds = dict(zip(local.members, search.kind.tolist(), strict=True))
    steps: list[dict[int, int]] = []
    for key, chosen in path[1:]:
        waiting, step = list(local.members), dict[int, int]()
        for place, (state, choice) in enumerate(zip(key.tolist(), chosen.tolist(), strict=True)):
            i = next(
                i for i in waiting if kinds[i] == search.kind[place]
                and (search.graphs.idle[on_path[i]] == state if choice < 0 else on_path[i] == owner[choice])
            )  # fmt: skip
            waiting.remove(i)
            if choice >= 0:
                step[i] = _answer(local, real[i], int(reduced.option[choice]), int(reduced.state[state]))
            real[i] = int(graphs.next[step[i]] if i in step else graphs.idle[real[i]])
            on_path[i] = state
        steps.append(step)
    return steps


def _completed(instance: Instance, real: dict[int, int]) -> list[dict[int, int]]:
    """Requests that are ahead are followed first.

    Local graphs have the same states for every objective. Where memory is full of what must stay, nothing is found.
    """
    local = LocalGraphs(instance, "makespan", strict=True)
    search = SlotSearch(local, 1, 1)
    place = np.full(len(local.states), -1)
    place[search.reduced.state] = np.arange(len(search.reduced.state))
    layer: Layer = empty_layer(len(search.kind), True)
    layer.keys[0] = [place[local.merged[real[i]]] for i in local.members]
    layer.cost[0] = layer.room[0] = 0
    layers, nothing = [layer._replace(size=1)], np.zeros((1, len(search.graphs.idle)), np.int64)
    free = Slot(
        nothing, nothing, np.zeros((1, SHARED), np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64), 0, 1, 0
    )
    for _ in range(sum(local.alone)):
        size = layers[-1].size
        ahead = np.argsort(-layers[-1].keys[:size].sum(axis=1), kind="stable")
        done = [int(e) for e in ahead if search.graphs.done[layers[-1].keys[e]].all()]
        if done:
            return _follow(search, path_to(layers, done[0]), real)
        cut = np.ones(size, bool)
        cut[ahead[:200]] = False  # of requests with no first token to come
        layers.append(expand(layers[-1], cut, search.kind, search.graphs, free, 10**9)[0])
    return []


def _answer(local: LocalGraphs, state: int, option: int, to: int) -> int:
    """An option of `state` as good as `option`, to a state like `to`."""
    graphs, candidates = local.graphs, range(int(local.graphs.first[state]), int(local.graphs.first[state + 1]))
    if option in candidates:
        return option
    start = max(start for start in local.start if start <= state)
    as_good = local.as_good[start]
    return next(c for c in candidates if as_good[graphs.next[c] - start, to - start] and no_more(graphs, c, option))
