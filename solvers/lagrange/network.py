"""The states and options of each class of identical requests as arrays, whatever the slot they happen in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kvcore.errors import BadInput
from kvcore.instance import Instance, Request, alike
from solvers.lagrange.kernels import Array, OptionGraph
from solvers.lagrange.scope import MOST_OPTIONS, PATH, late_segments, most_slots, why_not
from solvers.lagrange.setting import make_setting
from solvers.lagrange.transitions import Action, NodeState, Transition, Transitions

RESOURCES = ("device_memory", "host_memory", "batch_tokens", "prefill_tokens", "batch_requests")
"""What the requests share in each slot: the limits of rules R5 to R7."""
DEVICE, HOST = 0, 1
PLACE_BLOCKS, PLACE_TOKENS = 5, 6
"""Columns of `RequestClass.uses` beyond the resources: KV that lies on the device (blocks) or the host (tokens)."""


@dataclass(frozen=True, eq=False)
class RequestClass:
    """Requests that differ in their ids only: the states of one (the first is the start), and its options, by state.

    Those of state s are first[s] to first[s + 1] - 1. `head` is the state that an option leads to (len(states): done),
    `span` the slots that it covers, `kind` a row of `uses`: what it takes of each resource in each of these slots, and
    the KV that lies on the device or the host, as is best. `rest` is the slots that a state still needs at
    the least. `rate` is paid for each slot from `zero`, the arrival, up to the end.
    """

    requests: tuple[Request, ...]
    states: list[NodeState]
    options: list[Transition]
    first: Array
    head: Array
    span: Array
    kind: Array
    uses: Array
    rest: Array
    zero: int
    rate: int

    @property
    def count(self) -> int:
        """How many requests there are of it."""
        return len(self.requests)

    @property
    def graph(self) -> OptionGraph:
        """What the kernels need."""
        return OptionGraph(self.zero, self.first, self.head, self.span, self.kind)

    @cached_property
    def places(self) -> Array:
        """Return the rows of `uses` with KV that lies on the device or the host."""
        return np.nonzero(self.uses[:, PLACE_TOKENS])[0]

    @property
    def most(self) -> Array:
        """Return the most that a request takes of each resource in a slot."""
        uses = self.uses[:, : len(RESOURCES)].copy()
        uses[:, DEVICE] += self.uses[:, PLACE_BLOCKS]
        uses[:, HOST] += self.uses[:, PLACE_TOKENS]
        return uses.max(axis=0)

    def after(self, slot: int, rows: int) -> Array:
        """Return (rows x states + 1) what is still to pay at the least from `slot`, `slot` + 1, .. without prices."""
        ticks = np.arange(slot, slot + rows)[:, None] - self.zero
        return self.rate * (ticks + np.append(self.rest, 0))


class PathNetwork:
    """The classes of an instance, and the limits of what they share; slots count from the first arrival.

    `most_slots` are looked at at the most; `dearest` is the highest price of each resource (`scope` says why).
    `is_late`: bounds leave out the token budgets, and each segment runs without a break up to its end (the relaxation
    `late segments` of docs/arc_flow.md); it is used where it promises to be as good, unless `exact` is asked for.
    BadInput where a request's paths do not say all that counts.
    """

    def __init__(self, instance: Instance, objective: str, *, exact: bool = False) -> None:
        if reason := why_not(instance, objective):
            raise BadInput(f"arc-flow {reason}; use slots, events or batch-bigm")
        self.instance, self.objective = instance, objective
        self.is_late = not exact and late_segments(instance)
        self.setting = make_setting(instance)
        self.origin = instance.first_arrival
        machine = instance.machine
        limits = (
            machine.block_limit, machine.host_memory, machine.batch_tokens,
            None if machine.prefill_tokens == machine.batch_tokens else machine.prefill_tokens,
            machine.batch_requests,
        )  # fmt: skip
        self.is_limited = np.array([limit is not None for limit in limits])
        self.limits = np.array([limit or 0 for limit in limits], np.int64)
        self.is_priced = self.is_limited & ([True, True, False, False, True] if self.is_late else [True] * 5)
        self.classes = [self._class([instance.requests[i] for i in group]) for group in alike(instance.requests)]
        self.most_slots = most_slots(instance)
        most = np.array([c.most for c in self.classes])
        self.limits = np.minimum(self.limits, np.array([c.count for c in self.classes]) @ most)
        self.dearest = PATH // (len(RESOURCES) * self.most_slots * np.maximum(1, most.max(axis=0)))

    def _class(self, requests: list[Request]) -> RequestClass:
        request = requests[0]
        transitions = self._transitions(request)
        states, options, first = self._expand(transitions)
        number: dict[NodeState | None, int] = {state: s for s, state in enumerate(states)}
        number[None] = len(states)
        uses, kind = np.unique([self._use(option.action) for option in options], axis=0, return_inverse=True)
        return RequestClass(
            requests=tuple(requests),
            states=states,
            options=options,
            first=np.array(first, np.int64),
            head=np.array([number[option.head] for option in options], np.int64),
            span=np.array([option.span for option in options], np.int64),
            kind=np.asarray(kind, np.int64).ravel(),
            uses=np.asarray(uses, np.int64),
            rest=np.array([transitions.rest(state) for state in states], np.int64),
            zero=request.arrival - self.origin,
            rate=request.weight if self.objective == "weighted-flow-time" else 1,
        )

    def _transitions(self, request: Request) -> Transitions:
        machine, setting = self.instance.machine, self.setting
        if self.is_late:
            machine = machine.replace(batch_tokens=None, prefill_tokens=None)
            setting = replace(setting, most_partial=0, early_drops=True)
        return Transitions(machine, request, setting)

    def _expand(self, transitions: Transitions) -> tuple[list[NodeState], list[Transition], list[int]]:
        """Return all states that can be reached, their options, and where those of each state begin."""
        states, known = [NodeState()], {NodeState()}
        options: list[Transition] = []
        first = [0]
        request = transitions.request
        for state in states:  # grows while it is read
            for option in self._useful(state, transitions.options(state)):
                options.append(option)
                if option.head is not None and option.head not in known:
                    known.add(option.head)
                    states.append(option.head)
            first.append(len(options))
            if len(options) > MOST_OPTIONS:
                raise BadInput(f"request {request.id} has more than {MOST_OPTIONS} options; use coarser blocks")
        return states, options, first

    def _useful(self, state: NodeState, options: Iterable[Transition]) -> list[Transition]:
        """Leave out what is of no use without token budgets: breaks that hold KV within a segment, and swaps.

        The KV of a free call is dropped at once, unless it goes to the host at once.
        """
        if not self.is_late:
            return list(options)
        drops = state.mark == "choose" and not self.setting.hosted
        goes_on, swaps = state.generated > 0, not self.instance.machine.evict
        return [
            o
            for o in options
            if (o.action.work or not (goes_on and o.action.device))
            and (o.action.drop or not drops)
            and (swaps or not o.action.swap_out)
        ]

    def _use(self, action: Action) -> tuple[int, ...]:
        blocks = self.instance.machine.blocks(action.device)
        movable = action.place >= 0
        return (
            0 if movable else blocks, action.host, action.work, 0 if action.decode else action.work,
            int(action.work > 0), blocks if movable else 0, action.device if movable else 0,
        )  # fmt: skip
