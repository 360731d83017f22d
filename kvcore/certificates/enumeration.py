"""All states with contents, the cheapest first: the value reached is a lower bound.

A state is the local state of each request at a batch boundary, the resident blocks of each node, for the largest flow
time the tick, and for late requests who is late whatever follows: then an earlier state is as good. (Not under TPOT
SLOs, for which a first token may wait.) Every batch follows that may start at once, or a wait for the next arrival or
return (`events.py`, *Starts*: forgets and reuses say nothing of ticks). Left out without losing an optimum:

* **Symmetry**: requests that differ in their ids alone may change places.
* **Retained blocks**: of states with equal local states, one that costs no more and has all of another's resident
  blocks is as good. What follows the other may follow it: its first batch forgets its further blocks, too, which no
  request holds. Of the best ends of a state, one with the fewest batches meets no state that it is as good as. So of
  the forgets of a batch, only those that leave most are tried.
* **Swaps there and back**: with `pause`, in a batch with work, KV goes out and comes back only if a call orders it. The
  net move is allowed where both are, leads to the same state, and costs no more. (Both excuse a pause, and make a
  batch of drops.)

States come in the order of their value plus the least that is left of a request: its calls, and a batch for each token,
of the least ticks of one that generates. Wherever the search stops, no schedule is better than the state that is next.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import count, product
from math import inf
from operator import add, le
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from kvcore.certificates.budget import Budget, InvalidCertificate, Most, Work
from kvcore.certificates.options import DUE, Load, LocalState, Option, RequestOptions
from kvcore.certificates.proof import Proof
from kvcore.cost import Features
from kvcore.features import OBJECTIVES, RULES, Feature, Takes
from kvcore.instance import Instance, alike
from kvcore.limits import DEVICE, limits_of
from kvcore.metrics import SUMS as SUM
from kvcore.metrics import Value, least_value, scale_of, weight

FEATURES = [name for name in Load._fields if name in Features._fields]


class Enumeration(Proof):
    """Look at the first `states` states, or all up to an optimum."""

    kind: Literal["enumeration"] = "enumeration"
    takes: ClassVar = Takes(
        RULES | OBJECTIVES | {Feature.SHARED, Feature.LAYOUT}, frozenset({(Feature.LATE, Feature.TPOT)})
    )
    argument: ClassVar = (
        "all batches that the rules allow were tried, the cheapest states first, {0.states} at the most"
    )
    states: Annotated[int, Field(ge=1, le=Most.enumerated)]

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return the lower bound after this many states."""
        return EnumerationSearch(instance, objective, budget).run(self.states).bound


class Choice(NamedTuple):
    """Of a request in a batch."""

    option: Option
    held: tuple[int, ...]
    """Blocks of its path after drops and swap_outs, after swap_ins, after the reuse, and at the end."""
    use: tuple[int, ...]
    """Of `LIMITS`; private blocks alone."""
    in_vain: bool
    """It need not swap out and in."""


class Step(NamedTuple):
    """A batch: what each request does, and the blocks by node before and after the forgets."""

    start: int
    picks: tuple[Choice, ...]
    resident: tuple[int, ...]
    kept: tuple[int, ...]


class State(NamedTuple):
    """A state, and how it came."""

    value: int  # for late requests the tick
    tick: int
    row: tuple[LocalState, ...]
    resident: tuple[int, ...]
    late: tuple[bool, ...]
    before: State | None = None
    step: Step | None = None


@dataclass(frozen=True)
class Seen:
    """A bound after some states, and an optimum."""

    bound: Value
    states: int
    optimum: State | None


class EnumerationSearch:
    """The search; like requests stand side by side."""

    def __init__(self, instance: Instance, objective: str, budget: Budget) -> None:
        if sum(node.blocks for node in instance.contents) > Most.blocks:
            raise InvalidCertificate(f"an enumeration takes at most {Most.blocks} blocks of contents")
        groups = alike(instance.requests)
        self.instance, self.objective, self.budget = instance, objective, budget
        self.order = [i for places in groups for i in places]
        self.requests = [instance.requests[i] for i in self.order]
        self.group = [k for k, places in enumerate(groups) for _ in places]
        self.rules = [RequestOptions(instance.machine, request) for request in self.requests]
        self.nodes = [node.id for node in instance.contents]
        self.sizes = [node.blocks for node in instance.contents]
        self.above = [None if node.parent is None else self.nodes.index(node.parent) for node in instance.contents]
        self.parts = [[(self.nodes.index(part.node), part) for part in instance.parts[i]] for i in self.order]
        self.paths = [[(node, k) for node, part in parts for k in range(part.blocks)] for parts in self.parts]
        self.limits = limits_of(instance.machine, inf)
        self.scale = scale_of(instance.requests, objective)
        self.rates = [int(self.scale * weight(r, objective)) if objective in SUM else 0 for r in self.requests]
        self.least = instance.cost.duration(Features(busy=1, tokens=1, generated=1))
        self.choices, self.ahead = cache(self._choices), cache(self._ahead)
        self.ends: dict[Any, list[tuple[int, tuple[int, ...]]]] = {}
        self.heap: list[tuple[int, int, State]] = []
        self.number, self.seen = count(), 0
        none = (False,) * len(self.rules)
        start = State(0, 0, tuple(rules.start() for rules in self.rules), (0,) * len(self.nodes), none)
        self._push(start._replace(late=self._late(start, start.row, 0)))

    def run(self, states: int) -> Seen:
        """Go on until this many states were seen, or an optimum comes next."""
        while True:
            bound, _, state = self.heap[0]
            if (state.value, state.resident) not in self.ends[self._key(state)]:  # another is as good
                heapq.heappop(self.heap)
                continue
            optimum = state if all(map(RequestOptions.is_done, self.rules, state.row)) else None
            if optimum or self.seen >= states:
                return Seen(least_value(Fraction(bound, self.scale), self.objective), self.seen, optimum)
            following = [*self._following(state)]
            self.seen += 1
            heapq.heappop(self.heap)
            for each in following:
                self._push(each)

    # --- states --------------------------------------------------------------------------------------------------

    def _key(self, state: State) -> Any:
        row = sorted(zip(self.group, state.row, state.late, strict=True))
        return (state.tick if self.objective == "max-flow-time" else 0, *row)

    def _push(self, state: State) -> None:
        ends = self.ends.setdefault(self._key(state), [])
        if any(value <= state.value and all(map(le, state.resident, resident)) for value, resident in ends):
            return
        size = 650 + 170 * len(state.row) + 10 * len(state.resident)
        self.budget.spend("the states of an enumeration", Work.look, size * (self.seen + len(self.heap)))
        ends[:] = [end for end in ends if state.value > end[0] or not all(map(le, end[1], state.resident))]
        ends.append((state.value, state.resident))
        heapq.heappush(self.heap, (self._bound(state), -next(self.number), state))

    def _is_over(self, i: int, local: LocalState) -> bool:
        rules = self.rules[i]
        return rules.has_first_token(local) if self.objective == "total-ttft" else rules.is_done(local)

    def _ahead(self, i: int, local: LocalState) -> int:
        if self._is_over(i, local):
            return 0
        if self.objective == "total-ttft":
            return self.least
        segments = self.requests[i].segments[local.segment :]
        calls = [] if self.objective == "busy-time" else [s.call.duration for s in segments if s.call is not None]
        return self.least * (sum(segment.decode for segment in segments) - local.generated) + sum(calls)

    def _late(self, state: State, row: Sequence[LocalState], tick: int) -> tuple[bool, ...]:
        """Of a state that these follow, at a tick: nobody is late but for late requests."""
        if self.objective != "late-requests":
            return state.late
        late = list(state.late)
        for i, (request, old, new) in enumerate(zip(self.requests, state.row, row, strict=True)):
            (first, last, _), age, rules = request.slo_ticks, tick - request.arrival, self.rules[i]
            if first is not None and not rules.has_first_token(old):
                late[i] |= age + (0 if rules.has_first_token(new) else new.wait + self.least) > first
            if last is not None and not rules.is_done(old):
                late[i] |= age + new.wait + self.ahead(i, new) > last
        return tuple(late)

    def _bound(self, state: State) -> int:
        ahead = [self.ahead(i, local) for i, local in enumerate(state.row)]
        if self.objective == "late-requests":
            return sum(state.late)
        if self.objective == "busy-time":
            return state.value + max(ahead)
        ticks = [each + local.wait if each else 0 for each, local in zip(ahead, state.row, strict=True)]
        if self.objective == "makespan":
            return state.tick + max(ticks)
        if self.objective == "max-flow-time":
            ages = (state.tick + k - r.arrival for k, r in zip(ticks, self.requests, strict=True) if k)
            return max(state.value, *ages, 0)
        waits = [0 if self.rules[i].has_first_token(local) else local.wait for i, local in enumerate(state.row)]
        return state.value + sum(rate * (k - wait) for rate, k, wait in zip(self.rates, ticks, waits, strict=True) if k)

    def _after(
        self, state: State, row: Sequence[LocalState], ticks: int, resident: tuple[int, ...], step: Any
    ) -> State:
        value, tick = state.value, state.tick + ticks
        now = tuple(local.after(ticks) for local in row)
        if self.objective in ("makespan", "busy-time", "late-requests"):
            value += ticks if step or self.objective != "busy-time" else 0
        for i, (old, new) in enumerate(zip(state.row, now, strict=True)):
            if self.objective == "max-flow-time" and self._is_over(i, new) > self._is_over(i, old):
                value = max(value, tick - self.requests[i].arrival)
            if not self._is_over(i, old):
                value += self.rates[i] * max(0, ticks - (0 if self.rules[i].has_first_token(old) else old.wait))
        return State(value, tick, now, resident, self._late(state, now, tick), state, step)

    def _following(self, state: State) -> Iterator[State]:
        if waits := [local.wait for local in state.row if local.wait]:
            yield self._after(state, state.row, min(waits), state.resident, None)
        for picks in self._batches(state):
            total = Load(*map(sum, zip(*(pick.option.load for pick in picks), strict=True)))
            decodes, prefills = total.decode_requests > 0, total.prefill_requests > 0
            if not total.acts or (decodes and prefills and not self.instance.machine.hybrid):
                continue
            if total.tokens and self.instance.machine.pause and any(pick.in_vain for pick in picks):
                continue
            features = Features(
                busy=int(decodes or prefills), any_decode=int(decodes), any_prefill=int(prefills),
                **{name: getattr(total, name) for name in FEATURES},
            )  # fmt: skip
            ticks, ends = self.instance.cost.duration(features), [pick.option.end for pick in picks]
            for resident, kept in self._residents(picks, state.resident):
                yield self._after(state, ends, ticks, resident, Step(state.tick, picks, state.resident, kept))

    # --- batches -------------------------------------------------------------------------------------------------

    def _batches(
        self, state: State, picks: tuple[Choice, ...] = (), used: Sequence[int] = (), first: int = 0
    ) -> Iterator[tuple[Choice, ...]]:
        i, row, late = len(picks), state.row, state.late
        if i == len(row):
            yield picks
            return
        j = i + 1
        is_alike = j < len(row) and (self.group[i], row[i], late[i]) == (self.group[j], row[j], late[j])
        for k, choice in enumerate(self.choices(self.group[i], row[i])[first:], first):
            self.budget.spend("the batches of an enumeration", Work.look)
            use = tuple(map(add, used or (0,) * len(choice.use), choice.use))
            if all(map(le, use, self.limits)):
                yield from self._batches(state, (*picks, choice), use, k if is_alike else 0)

    def _choices(self, group: int, local: LocalState) -> list[Choice]:
        i, found = self.group.index(group), []
        rules, block, blocks = self.rules[i], self.instance.machine.block, len(self.paths[i])
        self.budget.spend("the options of requests", Work.look * rules.tries(local, 1 + blocks))
        for option in rules.options(local, blocks * block):
            self.budget.spend("the options of requests", Work.look)
            kept = local.device - (option.drop - min(local.host, option.drop)) - option.swap_out
            device = kept + option.swap_in
            tokens = kept, device, device + option.reuse, device + option.reuse + option.work
            held, shared = tuple(min(k // block, blocks) for k in tokens), option.load.shared
            in_vain = bool(option.swap_out and option.swap_in) and local.mark != DUE
            found.append(Choice(option, held, (shared[DEVICE] - held[3], *shared[DEVICE + 1 :]), in_vain))
        return found

    def _residents(
        self, picks: Sequence[Choice], resident: Sequence[int]
    ) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        # Two that may be kept may be kept together, if no more is there at the end: those with most come first.
        stages = [[0] * len(self.nodes) for _ in range(3)]
        for parts, pick in zip(self.parts, picks, strict=True):
            for node, part in parts:
                for stage, held in zip(stages, (pick.held[0], pick.held[1], pick.held[3]), strict=True):
                    stage[node] = max(stage[node], part.of(held))
        private, found = sum(p.use[DEVICE] for p in picks), list[tuple[tuple[int, ...], tuple[int, ...]]]()
        for kept in product(*map(lambda most, held: range(most, held - 1, -1), resident, stages[0])):
            self.budget.spend("the forgets of an enumeration", Work.look)
            there = tuple(map(max, kept, stages[1]))
            ends = tuple(map(max, there, stages[2]))
            if (
                private + sum(ends) <= self.limits[DEVICE] and self._is_closed(kept) and self._may_reuse(picks, there)
                and not any(all(map(le, ends, other)) for other, _ in found)
            ):  # fmt: skip
                found.append((ends, kept))
        return found

    def _is_closed(self, kept: Sequence[int]) -> bool:
        return all(
            above is None or not blocks or kept[above] == self.sizes[above]
            for blocks, above in zip(kept, self.above, strict=True)
        )

    def _may_reuse(self, picks: Sequence[Choice], there: Sequence[int]) -> bool:
        blocks = {(node, k) for node, most in enumerate(there) for k in range(most)}
        for path, pick in zip(self.paths, picks, strict=True):
            if self.instance.machine.same_batch and pick.option.work:
                blocks.update(path[pick.held[2] : pick.held[3]])
        return all(
            blocks.issuperset(path[: p.held[2]]) for path, p in zip(self.paths, picks, strict=True) if p.option.reuse
        )
