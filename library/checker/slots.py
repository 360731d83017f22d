"""Kind `slots` (docs/bounds.md, A search to run again)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import accumulate, groupby
from math import inf, lcm
from operator import add, le, mul
from typing import Any

from library.checker.events import options_of, row_of
from library.checker.files import Amount, Box, Broken, NotChecked, spend
from library.checker.instance import RESOURCES, always_one_tick, blocks, but_id, limits_of
from library.checker.objectives import RATES
from library.checker.referee import MOVES, Execution

SHARED = len(RESOURCES)
Limits = list[int | None]
Joint = tuple[int, ...]
Layer = dict[Joint, int]
Use = tuple[tuple[int, ...], bool, int]  # needs, whether the request is over by it, the next state
MOST_OPTIONS, MOST_PAIRS, MOST_VALUED, MOST_CHOSEN = 3 * 10**5, 10**7, 2 * 10**8, 10**7  # minutes


def slots(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `slots`: no choice of what requests do, tick by tick, leads to less than the target.

    What the file says of the size of the search is not looked at. Of states that are as good as each other, only those
    of as many tokens and the same wait are compared.
    """
    search = SlotSearch(instance, proof, objective)
    if not search.is_proved_at_once():
        layer, vectors, tried = {(0,) * len(search.joint): 0}, [*map(search.vector, proof.prices)], [0]
        for t in range(search.last_tick() + 1):
            use = [each for each in vectors if each.since <= t]
            layer = search.following(layer, t, use[:1] + use[1:][-12:], tried)
            if not layer:
                break
    return search.claim


def at_once(segment: Box) -> Box:
    """The same segment with a call that takes no time."""
    return Box(segment, call=segment.call and Box(segment.call, duration=0))


class SlotSearch:
    """The requests of an instance, `joint` one after another, and the cost up to which states are followed."""

    def __init__(self, instance: Box, proof: Box, objective: str) -> None:
        machine, ones, self.proof = instance.machine, instance.requests, proof
        limits = list(limits_of(machine).values())
        if not always_one_tick(instance.cost):
            raise Broken("a search over slots is for batches that last one tick")
        if not proof.prices or proof.prices[0].since:
            raise Broken("the first prices are not of use from slot 0 on")
        free = [name for name, most in limits_of(machine).items() if most is None]
        if any(any(each[name]) for each in proof.prices for name in free):
            raise Broken("there are prices of what has no limit")
        if len(ones) > 100:
            raise NotChecked("more than 100 requests are not searched")
        if objective == "busy-time":  # the makespan, where neither arrivals nor calls take time
            ones = [Box(one, arrival=0, segments=list(map(at_once, one.segments))) for one in ones]
        self.start = min(one.arrival for one in ones)
        unit = lcm(*(Fraction(RATES[objective](one)).denominator for one in ones)) if objective in RATES else 1
        self.kinds = {
            kind: Alone(one, instance, objective, self.start, unit, proof.strict, limits)
            for kind, one in {but_id(one): one for one in ones}.items()
        }
        self.joint = [self.kinds[kind] for kind in sorted(map(but_id, ones))]  # those that are alike are neighbours
        self.all_limits, self.claim, self.valued = limits, Fraction(proof.target, unit), 0
        self.leave_out_limits()
        for path in self.kinds.values():
            path.simplify(self.limits)
        self.set_deadlines(objective)

    def leave_out_limits(self) -> None:
        """Limits that cannot bind, as all together or another limit is less, count no more; `moved` says to which."""
        every = {needs for path in self.joint for needs in path.needs}
        self.limits, self.moved = list(self.all_limits), []
        for r in (2, 3, 4, 1, 0):
            most = self.limits[r]
            if most is None:
                continue
            enough = sum(max(needs[r] for needs in path.needs) for path in self.joint) <= most
            others = [(q, other) for q, other in enumerate(self.limits) if q != r and other and not enough]
            implied = (q for q, other in others if all(needs[r] * other <= needs[q] * most for needs in every))
            q = next(implied, None)
            if enough or q is not None:
                self.moved.append((r, q))
                self.limits[r] = None

    def set_deadlines(self, objective: str) -> None:
        """By when each request is over, and what all cost, in a schedule below the target."""
        scale, target = self.proof.scale, self.proof.target
        self.goal = scale * sum(path.w * path.arrival for path in self.joint)
        if self.joint[0].w:
            self.goal += scale * (target - 1)
            spare = target - 1 - sum(path.w * (path.earliest - path.arrival) for path in self.joint)
        for path in self.kinds.values():
            if path.w:
                path.deadline = path.earliest + max(0, spare // path.w)
            else:
                path.deadline = target - 1 + (path.arrival if objective == "max-flow-time" else -self.start)

    def last_tick(self) -> int:
        """The last tick by which a request may be over."""
        return max(path.deadline for path in self.joint)

    def vector(self, prices: Box) -> Values:
        """The values of states by some prices; those of a limit left out are of the one that implies it, or none."""
        T, rows = self.last_tick(), [list(prices[name]) for name in RESOURCES]
        for r, q in self.moved:
            if q is not None:
                rows[q] += [0] * (len(rows[r]) - len(rows[q]))
                for t, p in enumerate(rows[r]):
                    rows[q][t] += p * self.all_limits[r] // self.all_limits[q]
            rows[r] = []
        spend(50 * max(1, T) * sum(len(path.leads) for path in self.kinds.values()), "the values of its states")
        self.valued += max(1, T) * sum(sum(map(len, path.leads)) for path in self.kinds.values())
        if self.valued > MOST_VALUED:
            raise NotChecked(f"values of {self.valued} options are not computed")
        folded = Box(prices, **dict(zip(RESOURCES, rows, strict=True)))
        return Values(folded, T, self.kinds.values(), self.joint, self.limits, self.proof.scale)

    def is_proved_at_once(self) -> bool:
        """Whether the first prices alone prove the target; else they lower the deadlines, as often as they can."""
        last = inf
        while last > self.last_tick():
            first, last = self.vector(self.proof.prices[0]), self.last_tick()
            f = first.least(0, (0,) * len(self.joint), 0)
            if f > self.goal:
                return True
            for path in self.kinds.values():
                if path.w:
                    latest = (self.goal - f + first.V[path][0][0]) // (path.w * self.proof.scale)
                    path.deadline = min(path.deadline, latest)
        return False

    def following(self, before: Layer, t: int, vectors: list[Values], tried: list[int]) -> Layer:
        """The joint states of the next tick, and their costs, of those from which the goal may be met yet."""
        layer: Layer = {}
        for states, cost in before.items():
            better = ((i, a) for i, s in enumerate(states) for a in self.joint[i].better[s])
            if any(before.get(self.in_order((*states[:i], a, *states[i + 1 :])), inf) <= cost for i, a in better):
                continue
            values = max(vectors, key=lambda each: each.least(t, states, cost))
            left = self.goal - values.least(t, states, cost)
            if left < 0 or cost > self.goal:  # what it cost is not had back by prices of later slots
                continue
            if all(path.over[s] for path, s in zip(self.joint, states, strict=True)):
                raise Broken(f"it claims {self.claim}, but requests can be over for less by tick {self.start + t}")
            for to, paid in values.choices(t, states, left, tried):
                after = self.in_order(to)
                layer[after] = min(layer.get(after, cost + paid), cost + paid)
        return layer

    def in_order(self, states: Iterable[int]) -> Joint:
        """A joint state in which the states of requests that are alike increase."""
        groups = groupby(zip(self.joint, states, strict=True), lambda each: id(each[0]))
        return tuple(s for _, those in groups for s in sorted(s for _, s in those))


class Alone:
    """What one request may do in a tick, by the referee, in each of its states; the first has number 0.

    Options are (needs, whether the request is over by it, the next state): `idle` is that between batches. Needs are
    the use of RESOURCES with a limit; whether it shows a phase that may not meet the other one; -1 if it acts.
    """

    def __init__(
        self, one: Box, instance: Box, objective: str, start: int, unit: int, strict: bool, limits: Limits
    ) -> None:
        machine, block = instance.machine, instance.machine.block
        self.arrival, self.first = one.arrival - start, objective == "total-ttft"
        self.w = int(unit * RATES[objective](one)) if objective in RATES else 0
        self.over, self.idle, self.options = list[bool](), list[Use](), list[list[Use]]()
        self.earliest: Any = inf  # of ticks
        self.deadline, self.size = 0, 0
        begin = Execution(Box(instance, requests=[one]))
        begin.clock, begin.joined = start, True
        numbers, queue = {self.key(begin): 0}, [begin]
        for execution in queue:  # those of an earlier tick first
            (state,) = execution.states.values()
            over, (S, _), found = self.is_over(execution), state.after_call(execution.clock), dict[Any, None]()
            if over:
                self.earliest = min(self.earliest, execution.clock - start)
            for option in (None, *(option for option, _ in options_of(state, execution))):
                after, (drop, out, into, c) = execution.copied(), option or (0, 0, 0, 0)
                try:
                    if option:
                        moves = ({state.id: k} if k else {} for k in option)
                        after.step(Box(zip((*MOVES, "work"), moves, strict=True)), execution.clock)
                    else:
                        after.clock += 1
                except Broken:
                    continue
                m = state.m + state.h - drop - after.host  # before the batch, after its moves
                decode = c > 0 and m > 0 and S - m == 1
                use = (blocks(m + c, block), after.host, c, 0 if decode else c, int(c > 0))
                apart = (0, 0) if machine.hybrid or not c else (int(decode), int(not decode))
                acts = -1 if option and (c or out or into or not strict) else 0
                needs = (*(0 if most is None else k for k, most in zip(use, limits, strict=True)), *apart, acts)
                to = numbers.setdefault(self.key(after), len(numbers))
                if to == len(queue):
                    queue.append(after)
                found[option is None, needs, not over and self.is_over(after), to] = None
            (idle, *options) = (each[1:] for each in found)
            self.over.append(over)
            self.idle.append(idle)
            self.options.append(options)
            self.size += len(found)
            if self.size > MOST_OPTIONS:
                raise NotChecked(f"more than {MOST_OPTIONS} options of a request are not searched")
        self.alike = [(key[0], key[3]) for key in numbers]
        self.needs = {needs for options in self.options for needs, _, _ in options}

    def index(self) -> None:
        """Number what options use and whether the request is over by it."""
        uses = {(needs[:SHARED], ends): None for each in (self.idle, *self.options) for needs, ends, _ in each}
        self.uses, place = list(uses), {use: k for k, use in enumerate(uses)}
        every = ((idle, *options) for idle, options in zip(self.idle, self.options, strict=True))
        self.leads = [[(place[needs[:SHARED], ends], to) for needs, ends, to in each] for each in every]

    def is_over(self, execution: Execution) -> bool:
        """Whether what the objective counts of the request is done."""
        (state,) = execution.states.values()
        return (state.first if self.first else state.done) is not None

    def key(self, execution: Execution) -> tuple[Any, ...]:
        """What decides what may follow: of the window of a call only whether moves are free that there may be."""
        (state,) = execution.states.values()
        generated, m, h, wait, window, due, worked = row_of(state, execution)
        return generated, m, h, wait, window == "free" and m + h > 0, due, worked

    def simplify(self, limits: Limits) -> None:
        """Leave out options for better ones, and states for those that are as good; `better`: those still better.

        "a is as good as b" only where `alike`, of as many tokens and the same wait, so that they are over together.
        """

        def left(each: Use) -> Use:
            needs, ends, to = each
            counted = (0 if most is None else k for k, most in zip(needs, limits, strict=False))
            return (*counted, *needs[SHARED:]), ends, to

        alike, groups = self.alike, dict[tuple[Any, ...], list[int]]()
        self.idle, self.options = [*map(left, self.idle)], [[*map(left, options)] for options in self.options]
        for s, group in enumerate(alike):
            groups.setdefault(group, []).append(s)
        pairs = sum(sum(len(self.options[s]) for s in group) ** 2 for group in groups.values())
        good = {(a, b) for group in groups.values() for a in group for b in (group if pairs < MOST_PAIRS else [a])}

        def beats(one: Use, other: Use) -> bool:
            return (one[2], other[2]) in good and all(map(le, one[0], other[0]))

        def as_good(a: int, b: int) -> bool:
            mine, idle = self.options[a], self.idle[b]
            waits = (self.idle[a][2], idle[2]) in good and any(beats(each, idle) for each in (self.idle[a], *mine))
            return waits and all(any(beats(each, other) for each in mine) for other in self.options[b])

        while wrong := {(a, b) for a, b in good if a != b and not as_good(a, b)}:
            good -= wrong
        self.better, stands = [set[int]() for _ in alike], list(range(len(alike)))
        for a, b in good:
            if (b, a) in good:
                stands[b] = min(stands[b], a)
            else:
                self.better[b].add(a)
        for s, options in enumerate(self.options):
            kept = list[Use]()
            for each in options:
                if not any(beats(other, each) for other in kept):
                    kept = [*(other for other in kept if not beats(each, other)), each]
            self.options[s] = [(needs, ends, stands[to]) for needs, ends, to in kept]
        self.idle = [(needs, ends, stands[to]) for needs, ends, to in self.idle]
        self.better = [{stands[a] for a in those} for those in self.better]
        self.index()


class Values:
    """The value of each state of a request at each slot, by a vector of prices, and what joint states lead to."""

    def __init__(
        self, prices: Box, T: int, kinds: Iterable[Alone], joint: list[Alone], limits: Limits, scale: int
    ) -> None:
        columns = [(prices[name] + [0] * max(0, T))[: max(0, T)] for name in RESOURCES]
        self.since, self.rows, self.joint, self.scale = prices.since, list(zip(*columns, strict=True)), joint, scale
        self.limits = [*(inf if most is None else most for most in limits), inf, inf, 0]
        paid = [sum(p * most for p, most in zip(row, limits, strict=True) if p) for row in self.rows]
        self.supply, self.known = [*accumulate(reversed(paid), initial=0)][::-1], dict[Any, Any]()
        self.V: dict[Alone, list[list[float]]] = {}
        for path in kinds:
            V = [[0 if over else inf for over in path.over]]
            for t in reversed(range(T)):
                cost, after = self.costs(path, t), V[-1]
                V.append([min([cost[use] + after[to] for use, to in leads]) for leads in path.leads])
            self.V[path] = V[::-1]

    def costs(self, path: Alone, t: int) -> list[float]:
        """What each use costs a request in slot t, with what the objective counts if it is over by it."""
        end = self.scale * path.w * (t + 1) if t < path.deadline else inf
        return [sum(map(mul, self.rows[t], use)) + (end if over else 0) for use, over in path.uses]

    def least(self, t: int, states: Joint, cost: int) -> float:
        """f: the least cost of a schedule that is at tick t in a joint state with so much cost, all times the scale."""
        return cost + sum([self.V[path][t][s] for path, s in zip(self.joint, states, strict=True)]) - self.supply[t]

    def reduced(self, path: Alone, t: int, s: int) -> Any:
        """The options in a state as (reduced cost, needs, cost, next state), the least first; that between batches."""
        if (path, t, s) not in self.known:
            costs, V, after, end = self.costs(path, t), self.V[path][t][s], self.V[path][t + 1], path.w * (t + 1)
            idle, *each = [
                (costs[k] + after[to] - V, needs, self.scale * end * ends, to)
                for (k, to), (needs, ends, _) in zip(path.leads[s], (path.idle[s], *path.options[s]), strict=True)
            ]
            self.known[path, t, s] = sorted(each), idle
        return self.known[path, t, s]

    def choices(self, t: int, states: Joint, left: float, tried: list[int]) -> Iterator[tuple[list[int], int]]:
        """What a joint state leads to, and at what cost, where the reduced costs are no more than what is left."""
        every = [self.reduced(path, t, s) for path, s in zip(self.joint, states, strict=True)]
        if sum(idle[0] for _, idle in every) <= left:
            yield [idle[3] for _, idle in every], 0
        rows = [options for options, _ in every]

        def choose(
            i: int, first: int, left: float, used: tuple[int, ...], to: list[int], paid: int
        ) -> Iterator[tuple[list[int], int]]:
            if i == len(rows):
                if used[-1]:
                    yield to, paid
                return
            like = i + 1 < len(rows) and rows[i + 1] is rows[i]  # none of those takes an option before that of this
            for k in range(first, len(rows[i])):
                r, needs, cost, following = rows[i][k]
                if r > left:
                    break
                tried[0] += 1
                total = tuple(map(add, used, needs))
                if all(map(le, total, self.limits)) and not all(total[SHARED:-1]):
                    yield from choose(i + 1, k if like else 0, left - r, total, [*to, following], paid + cost)
            if tried[0] > MOST_CHOSEN:
                raise NotChecked(f"more than {MOST_CHOSEN} options are not tried")

        yield from choose(0, 0, left, (0,) * (SHARED + 3), [], 0)
