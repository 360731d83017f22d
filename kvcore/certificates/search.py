"""The ground truth of tiny instances: a search over everything that `docs/semantics.md` allows, the cheapest first.

It is written from that page alone and shares no code with the referee, the formulations or the other solvers: it uses
the nouns, and `remaining.py` and `least.py` beside it for what requests need at the least. Clarity comes before speed:
two or three requests with a few tokens and a call each are its size.

A node is the state of every request at a batch boundary, with times counted from that boundary. From it the search
tries every legal batch that starts at once, and waiting. What is left out, and why that loses no optimum:

* **Waiting** goes to the next arrival or return of a call, never to a tick between. Take any schedule and, batch by
  batch, start each as early as the end of the batch before, the arrivals of the requests in its work, and the
  returns of those calls that had returned when it started originally and whose requests it works on or moves. Every
  batch starts no later than before, with the same contents. A call that was running may now have returned, which
  forbids nothing; a call that had returned may now be running only where the batch leaves its request alone. So all
  rules hold, no completion and no first token is later, and no objective is worse, with one exception: TPOT grows
  when the first token alone comes earlier. With a TPOT SLO the search therefore waits tick by tick.
* **Waiting when nothing is to come** (no arrival, no return): whatever follows can be moved to start at once. All
  later events move along, so that each difference of two later times stays and each difference to an earlier time
  shrinks.
* **Moves**: of two ways to bring a request to the same state with the same work, the one with more swapped tokens
  and more swaps in every count costs at least as much time; see `_undominated`.
* **Symmetry**: requests that differ only in their ids are kept in the order of their states; of those in one state,
  none takes an earlier option than the one before.
* **Splits** of prefills: in a guided search, those that `splits.py` leaves out.
* Of equal nodes the cheaper is kept. The future depends on the node alone, and every objective is a function of
  what is accumulated and of the future, non-decreasing in the former.

Nodes come in the order of what they have accumulated; or, in a guided search, of that with what is left at the least
(`remaining.py`). Either way no schedule is better than the node that comes next: that holds whenever the search stops.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from heapq import heappop, heappush
from typing import NamedTuple

from kvcore.certificates.batches import UNWATCHED, Batches, BoundaryState, Choice, Node, Option, TooManyStates, as_batch
from kvcore.certificates.remaining import Remaining
from kvcore.certificates.splits import whole_prefills
from kvcore.instance import Instance, Request, alike
from kvcore.metrics import Value, check_objective, scale_of
from kvcore.schedule import Schedule

COMPARED = 32
"""Nodes that are compared in the time of a try."""


class Transition(NamedTuple):
    """Where an option leads a request, and what the objective must know of it."""

    state: BoundaryState
    flow_time: int  # at the least, for the largest flow time
    late: int  # 1 if it has become late


class Edge(NamedTuple):
    """How a node was reached; `order`: positions before the requests that are alike were put in order."""

    parent: Node
    choice: Choice
    ticks: int
    order: tuple[int, ...]


class ExhaustiveSearch:
    """The search on one instance for one objective; a label is what the objective has accumulated up to a node.

    `every_tick` also tries the start times that the argument above leaves out.
    """

    def __init__(self, instance: Instance, objective: str, *, every_tick: bool = False, guided: bool = False) -> None:
        self.instance = instance
        self.requests = instance.requests
        self.batches = Batches(instance, whole=guided and whole_prefills(instance, objective))
        self.objective = check_objective(objective)
        self.every_tick = every_tick or (
            objective == "late-requests" and any(r.slo is not None and r.slo.tpot is not None for r in self.requests)
        )
        self.scale = scale_of(self.requests, objective)
        self.alike = [group for group in alike(self.requests) if len(group) > 1]
        self.remaining = Remaining(instance) if guided else None
        self.seen = 0
        """Nodes that were looked at."""
        self.reached = 0
        """No schedule has a lower label at its end."""
        self.edges: dict[Node, Edge] = {}
        self.expanded: dict[Node, list[tuple[int, ...]]] = {}

    def run(self, max_states: int) -> tuple[int, Node]:
        """Expand the nodes in order until one is reached where all requests are done; return its label and it.

        Of nodes at the same place, the one with the fewest tokens left to generate comes first. Raises TooManyStates
        when more than `max_states` were seen; `reached` then holds for all that was not.
        """
        start, _ = self.ordered([self.at_start(request) for request in self.requests])
        label = sum(state.late for state in start)
        best, queue = {start: label}, [(self.least(label, start), self.tokens_left(start), 0, label, start)]
        while queue:
            self.reached, left, _, label, node = heappop(queue)
            if self.is_beaten(node):
                continue
            if not left:
                return label, node
            for new_label, successor, edge in self.successors(label, node):
                if new_label < best.get(successor, math.inf):
                    best[successor] = new_label
                    self.edges[successor] = edge
                    place = self.least(new_label, successor), self.tokens_left(successor), len(best)
                    heappush(queue, (*place, new_label, successor))
                self.seen = len(best)
                if self.seen > max_states:
                    raise TooManyStates(f"more than {max_states} states")
        raise AssertionError("every instance can be carried out, one request after another")

    def is_beaten(self, node: Node) -> bool:
        """Whether this node has been expanded; for the largest flow time, or one like it in all but smaller ages.

        The other came first, so that it was no greater, and the same batches led on from it.
        """
        key, ages = node, tuple[int, ...]()
        if self.objective == "max-flow-time":
            key, ages = tuple([state._replace(age=0) for state in node]), tuple([state.age for state in node])
        others = self.expanded.setdefault(key, [])
        self.batches.spend(len(others) // COMPARED)
        beaten = any(all(map(int.__le__, other, ages)) for other in others)
        if not beaten:
            others.append(ages)
        return beaten

    def successors(self, label: int, node: Node) -> Iterator[tuple[int, Node, Edge]]:
        """Yield what waiting and every legal batch that starts at once lead to: label, node and edge."""
        step = cache(lambda i, option, ticks: self.step(i, node[i], option, ticks))
        waiting, working = self.rates(node)
        next_event = min((state.wait for state in node if state.wait), default=0)
        edges: list[tuple[Choice, int, int]] = []
        if next_event:
            edges.append(((None,) * len(node), 1 if self.every_tick else next_event, waiting))
        edges += [(choice, ticks, working) for choice, ticks in self.batches.starting_at(node)]
        for choice, ticks, rate in edges:
            self.batches.spend()
            steps = [step(i, option, ticks) for i, option in enumerate(choice)]
            reached = max(label + rate * ticks + sum([s.late for s in steps]), *[s.flow_time for s in steps])
            successor, order = self.ordered([s.state for s in steps])
            yield reached, successor, Edge(node, choice, ticks, order)

    def ordered(self, states: list[BoundaryState]) -> tuple[Node, tuple[int, ...]]:
        """Put requests that are alike in the order of their states; return the states and the permutation."""
        order = list(range(len(states)))
        for places in self.alike:
            for place, i in zip(places, sorted(places, key=states.__getitem__), strict=True):
                order[place] = i
        return tuple([states[i] for i in order]), tuple(order)

    # --- one request ---------------------------------------------------------------------------------------------

    def at_start(self, request: Request) -> BoundaryState:
        """Return the state of a request at tick 0."""
        state = BoundaryState(wait=request.arrival, age=0)
        if self.objective == "late-requests":
            state = state._replace(late=is_late(request, state))
        return self.forget(request, state)

    def tokens_left(self, node: Node) -> int:
        """Return how many tokens all requests have still to generate."""
        return sum(map(tokens_left, self.requests, node))

    def step(self, i: int, state: BoundaryState, option: Option | None, ticks: int) -> Transition:
        """Return where a batch of `ticks`, in which the request takes `option`, leads it."""
        if self.batches.is_done(i, state):
            return Transition(state, 0, 0)
        request, later = self.requests[i], _pass_time(state, ticks)
        if option is not None:
            mark = "free" if state.mark == "free" else ""
            if option.work:
                mark = "" if self.instance.machine.pause else "worked"
            later = later._replace(device=option.device, host=option.host, mark=mark)
            if option.load.generated:
                later = _generate(request, later)
        if self.objective == "late-requests":
            later = later._replace(late=state.late or is_late(request, later))
        flow_time = later.age + ticks_left(request, later) if self.objective == "max-flow-time" else 0
        return Transition(self.forget(request, later), flow_time, later.late - state.late)

    # --- the objective -------------------------------------------------------------------------------------------

    def least(self, label: int, node: Node) -> int:
        """Return what no schedule through this node ends below: its label, and if guided what is left at the least."""
        if self.remaining is None or self.objective == "late-requests":
            return label
        if self.objective == "busy-time":
            batches = [self.remaining.batches(i, state) for i, state in enumerate(node)]
            return label + self.remaining.least * max(batches)
        if self.objective == "total-ttft":
            return label + sum([self.remaining.ticks_to_first_token(i, state) for i, state in enumerate(node)])
        ticks = [self.remaining.ticks(i, state) for i, state in enumerate(node)]
        if self.objective == "makespan":
            return label + max(ticks)
        if self.objective == "max-flow-time":
            return max(label, *[flow_time(state, left) for state, left in zip(node, ticks, strict=True)])
        return label + sum([self.weight(request) * left for request, left in zip(self.requests, ticks, strict=True)])

    def rates(self, node: Node) -> tuple[int, int]:
        """Return what a tick of waiting and a tick of a batch add to the label.

        The largest flow time and the number of late requests do not grow with time itself.
        """
        if self.objective in ("max-flow-time", "late-requests"):
            return 0, 0
        if self.objective == "busy-time":
            return 0, 1
        if self.objective == "makespan":
            return 1, 1
        rate = sum(
            self.weight(request)
            for i, (request, state) in enumerate(zip(self.requests, node, strict=True))
            if not (has_first_token(state) if self.objective == "total-ttft" else self.batches.is_done(i, state))
        )
        return rate, rate

    def weight(self, request: Request) -> int:
        """What a tick before its completion (total-ttft: its first token) adds to a sum, times `scale`."""
        if self.objective == "weighted-flow-time":
            return request.weight
        return self.scale // request.output if self.objective == "normalized-latency" else 1

    def forget(self, request: Request, state: BoundaryState) -> BoundaryState:
        """Forget the times that no longer matter, so that equal futures are equal nodes."""
        if state.segment == len(request.segments):
            return BoundaryState(segment=state.segment)
        first, last, between = request.slo_ticks
        if self.objective == "max-flow-time":
            return state._replace(decoding=UNWATCHED)
        if self.objective != "late-requests" or state.late:
            return state._replace(age=UNWATCHED, decoding=UNWATCHED)
        until_first_token = first is not None and not has_first_token(state)
        return state._replace(
            age=state.age if last is not None or until_first_token else UNWATCHED,
            decoding=state.decoding if between is not None else UNWATCHED,
        )

    def value(self, label: int) -> Value:
        """Return the objective of a label at the end: sums have been counted from tick 0, not from the arrivals."""
        if self.objective in ("makespan", "busy-time", "max-flow-time", "late-requests"):
            return label
        total = label - sum(self.weight(request) * request.arrival for request in self.requests)
        return Fraction(total, self.scale) if self.objective == "normalized-latency" else total

    def schedule(self, node: Node) -> Schedule:
        """Return the schedule that led to `node`."""
        path = []
        while node in self.edges:
            path.append(self.edges[node])
            node = path[-1].parent
        now, ids, batches = 0, [request.id for request in self.requests], []
        for edge in reversed(path):
            if any(edge.choice):
                batches.append(as_batch(now, ids, edge.choice))
            now += edge.ticks
            ids = [ids[i] for i in edge.order]
        return Schedule(instance_sha256=self.instance.sha256, batches=tuple(batches))


def _pass_time(state: BoundaryState, ticks: int) -> BoundaryState:
    arriving = state.wait if state.segment == 0 else 0
    return state._replace(
        wait=max(0, state.wait - ticks),
        age=state.age if state.age == UNWATCHED else state.age + max(0, ticks - arriving),
        decoding=state.decoding if state.decoding == UNWATCHED else state.decoding + ticks,
    )


def _generate(request: Request, state: BoundaryState) -> BoundaryState:
    """Generate a token; it may end the segment, and then start a call or end the request."""
    decoding = state.decoding if has_first_token(state) else 0
    generated = state.generated + 1
    if generated < request.segments[state.segment].decode:
        return state._replace(generated=generated, decoding=decoding)
    state = state._replace(segment=state.segment + 1, generated=0, decoding=decoding)
    call = request.segments[state.segment - 1].call
    if call is None:
        return state
    mark = {"preserve": "", "free": "free", "discard": "due", "swap": "due"}[call.handling]
    return state._replace(wait=call.duration, mark=mark)


def has_first_token(state: BoundaryState) -> bool:
    """Whether the request has generated its first token."""
    return state.segment > 0 or state.generated > 0


def tokens_left(request: Request, state: BoundaryState) -> int:
    """Tokens that the request has still to generate."""
    return sum(segment.decode for segment in request.segments[state.segment :]) - state.generated


def flow_time(state: BoundaryState, left: int) -> int:
    """Return the flow time of a request that is done `left` ticks from now; its age is 0 until it arrives."""
    return state.age + left - (state.wait if state.segment == 0 else 0) if left else 0


def ticks_left(request: Request, state: BoundaryState) -> int:
    """Ticks until its end at the least: a batch lasts a tick or more and generates one token of it; then its calls."""
    waits = state.wait if state.segment else 0  # for a call; its age is 0 until it arrives
    return tokens_left(request, state) + waits + sum(call.duration for call in request.calls[state.segment :])


def is_late(request: Request, state: BoundaryState) -> bool:
    """Whether an SLO is exceeded, or will be even if the request is served as fast as can be."""
    first, last, between = request.slo_ticks
    left = ticks_left(request, state)
    to_done = state.age + left if state.age != UNWATCHED else 0
    to_first_token = state.age + 1 if not has_first_token(state) else state.age if state.decoding == 0 else 0
    return (
        (first is not None and to_first_token > first)
        or (last is not None and to_done > last)
        or (between is not None and state.decoding != UNWATCHED and state.decoding + left > between)
    )
