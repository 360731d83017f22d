"""The values of the arc-flow variables in a known schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from formulations.arc_flow.cost import INDICATORS
from formulations.arc_flow.flows import Flows
from formulations.arc_flow.graph import SINK, Arc
from formulations.arc_flow.transitions import Action
from formulations.batch_start import broken
from formulations.timing import start_early
from kvcore.trace import CallTrace, RequestTrace, Trace

Moves = tuple[int, int, int]
"""Tokens that are dropped, swapped out, swapped in; without `partial`, it only matters whether there are any."""
STAY: Moves = (0, 0, 0)
UNLIMITED = 10**18
KINDS = ("drop", "swap_out", "swap_in")


class Room:
    """What the budgets leave in each layer: tokens, and prefill tokens."""

    def __init__(self, program: Flows, trace: Trace) -> None:
        tokens, prefills = program.machine.batch_tokens, program.machine.prefill_tokens
        decodes = Counter(step.batch for request in trace.requests for step in request.steps if step.phase == "decode")
        self.tokens: dict[int, int] = {}
        self.prefills: dict[int, int] = {}
        for j, batch in enumerate(trace.batches):
            t = batch.start - program.origin if program.setting.timed else j
            used = batch.features.tokens
            self.tokens[t] = UNLIMITED if tokens is None else tokens - used
            self.prefills[t] = UNLIMITED if prefills is None else prefills - used + decodes[j]

    def move(self, start: int, last: int, tokens: int, more_prefill: int) -> int:
        """Move up to `tokens` from a layer to a later one, where they turn `more_prefill` decodes into a prefill."""
        moved = max(0, min(tokens, self.tokens[last], self.prefills[last] - more_prefill))
        self.tokens[start] += moved
        self.prefills[start] += moved
        self.tokens[last] -= moved
        self.prefills[last] -= moved + more_prefill * (moved > 0)
        return moved


class ReducedPlan:
    """What one request does in each layer, brought to the form that the reductions of the setting keep."""

    def __init__(self, program: Flows, trace: Trace, request: RequestTrace, room: Room) -> None:
        self.program, self.setting, self.trace, self.request = program, program.setting, trace, request
        self.room = room
        self.calls = [(self.layer(call.batch) + 1, self._next_work(call), call) for call in request.calls]
        self.moves: dict[int, Moves] = {}
        for move in request.moves:
            t = self.layer(move.batch)
            made = [
                move.tokens * (kind == move.kind) + n for kind, n in zip(KINDS, self.moves.get(t, STAY), strict=True)
            ]
            self.moves[t] = (made[0], made[1], made[2])
        self.hosted = self._hosted()
        self.work = {self.layer(step.batch): step.tokens for step in request.steps}
        for start, stop, call in self.calls:
            self._handling(start, stop, call)
        if self.setting.late_returns:
            self._return_late()
        if self.setting.most_partial is not None:
            self._unsplit()
        if program.machine.partial or not program.machine.evict:
            self._forget_round_trips()

    def layer(self, batch: int) -> int:
        """Return the layer of a batch."""
        return self.trace.batches[batch].start - self.program.origin if self.setting.timed else batch

    def _next_work(self, call: CallTrace) -> int:
        return min(self.layer(step.batch) for step in self.request.steps if step.batch > call.batch)

    def _hosted(self) -> set[int]:
        """Return the layers in which KV is on the host."""
        found: set[int] = set()
        since, on_host = 0, False
        for t, (drop, out, back) in [*sorted(self.moves.items()), (self.program.layers, STAY)]:
            if on_host:
                found |= set(range(since, t))
            on_host = bool(on_host or out) and not (drop or back)
            since = t
        return found

    def _handling(self, start: int, stop: int, call: CallTrace) -> None:
        """Make the moves of a window where the reductions make them; ordered ones fall on the next layer."""
        window = [t for t in self.moves if start <= t <= stop]
        handling = self.request.request.calls[call.segment].handling
        dropped = any(self.moves[t][0] for t in window)
        early = handling == "discard" or (handling == "swap" and self.setting.early_swaps)
        if handling == "free" and self.setting.early_drops and dropped and not self.setting.hosted:
            self._replace(window, {start: (call.held, 0, 0)})
        elif handling == "free" and self.setting.free_places:
            self._replace(window, {})
            if dropped:
                self._leave_out(stop, call.held)
        elif early and window:
            first = min(window)
            moves = self.moves.pop(first)
            order = (moves[0], moves[1], 0)
            if first == start:
                self.moves[start] = moves
            else:
                self.moves[start] = order
                if moves[2]:
                    self.moves[first] = (0, 0, moves[2])

    def _leave_out(self, start: int, tokens: int) -> None:
        """Leave out the first tokens that are processed from a layer on: they were kept."""
        for t in sorted(t for t in self.work if t >= start):
            spared = min(tokens, self.work[t])
            tokens -= spared
            self.work[t] -= spared
            if not self.work[t]:
                del self.work[t]

    def _replace(self, window: list[int], moves: dict[int, Moves]) -> None:
        for t in window:
            del self.moves[t]
        self.moves |= moves

    def _return_late(self) -> None:
        """Let KV come back with the next work."""
        for t in [t for t, moves in self.moves.items() if moves[2] and t not in self.work]:
            drop, out, back = self.moves[t]
            self.moves[t] = (drop, out, 0)
            work = min(s for s in self.work if s > t)
            made = self.moves.get(work, STAY)
            self.moves[work] = (made[0], made[1], back)

    def _unsplit(self) -> None:
        """Move tokens from the parts of a prefill to its last part, as far as the budgets of that layer allow."""
        parts: list[int] = []
        for step in self.request.steps:
            parts += [t for t in (self.layer(step.batch),) if t in self.work]
            if step.generated:
                self._move_to_last(parts, becomes_prefill=step.phase == "decode")
                parts = []

    def _move_to_last(self, parts: list[int], becomes_prefill: bool) -> None:
        *before, last = parts
        for t in before:
            moved = self.room.move(t, last, self.work[t], int(becomes_prefill))
            becomes_prefill = becomes_prefill and not moved
            self.work[last] += moved
            self.work[t] -= moved
            if not self.work[t]:
                del self.work[t]

    def _forget_round_trips(self) -> None:
        """Leave out what swaps out and in again within one batch that no call orders, but for what makes it a batch."""
        ordered = {start for start, _, call in self.calls if self._handling_of(call) == "swap"}
        for t, (drop, out, back) in list(self.moves.items()):
            if not (out and back) or t in ordered or any(start <= t <= stop for start, stop in self._swap_windows()):
                continue
            needed = int(self.program.machine.evict and out == back)
            self.moves[t] = (drop, max(needed, out - back), max(needed, back - out))
            if self.moves[t] == STAY:
                del self.moves[t]

    def _handling_of(self, call: CallTrace) -> str:
        return self.request.request.calls[call.segment].handling

    def _swap_windows(self) -> list[tuple[int, int]]:
        return [(start, stop) for start, stop, call in self.calls if self._handling_of(call) == "swap"]

    def takes(self, arc: Arc) -> bool:
        """Whether the arc is what the request does."""
        return all(self._does(layer, span, action) for layer, span, action in arc.steps)

    def _does(self, layer: int, span: int, action: Action) -> bool:
        later = range(layer + 1, layer + span)
        if any(t in self.work or t in self.moves for t in later):
            return False
        return action.work == self.work.get(layer, 0) and self._moves_alike(action, self.moves.get(layer, STAY))

    def _moves_alike(self, action: Action, moves: Moves) -> bool:
        if self.program.machine.partial:
            return (action.drop, action.swap_out, action.swap_in) == moves
        return action.moves == (moves[0] > 0, moves[1] > 0, moves[2] > 0)


class Start:
    """Sets every variable to its value in a trace."""

    def __init__(self, program: Flows, trace: Trace) -> None:
        self.program, self.model = program, program.model
        self.trace = trace if program.paced else start_early(program.instance, trace.schedule.batches)

    def set(self) -> bool:
        """Set every variable; return whether all rows and bounds hold."""
        flows = self._flows()
        if flows is None:
            return False
        for a, (_, arc) in enumerate(self.program.arcs):
            self.program.x[a].set_value(flows[arc], skip_validation=True)
        self._set_shared()
        if not self.program.setting.timed:
            self._set_cost()
        return next(broken(self.model), None) is None

    def _flows(self) -> Counter[Arc] | None:
        """Return how many requests take each arc (None: one of them finds no path)."""
        flows: Counter[Arc] = Counter()
        self.offloaded: Counter[tuple[int, int, int]] = Counter()
        by_id = {request.request.id: request for request in self.trace.requests}
        room = Room(self.program, self.trace)
        for c, graph in enumerate(self.program.graphs):
            leaving = graph.leaving()
            for id in graph.ids:
                plan, node = ReducedPlan(self.program, self.trace, by_id[id], room), graph.source
                while node != SINK:
                    arc = next((arc for arc in leaving[node] if plan.takes(arc)), None)
                    if arc is None:
                        return None
                    flows[arc] += 1
                    self._note_places(c, arc, plan)
                    node = arc.head
        return flows

    def _note_places(self, c: int, arc: Arc, plan: ReducedPlan) -> None:
        for layer, span, action in arc.steps:
            for t in range(layer, layer + span):
                self.offloaded[c, action.place, t] += action.place >= 0 and t in plan.hosted

    def _fill(self, name: str, value: Callable[[Any], float]) -> None:
        """Set a variable to value(index)."""
        component = self.model.component(name)
        for index in component:
            component[index].set_value(value(index), skip_validation=True)

    def _flow(self, t: int, amount: Callable[[Action], int]) -> int:
        return sum(
            amount(action) * self.program.x[a].value for _, a, action in self.program.in_layer[t] if amount(action)
        )

    def _happens(self, which: Callable[[Action], bool], t: int) -> int:
        return int(self._flow(t, lambda action: int(which(action))) > 0)

    def _set_shared(self) -> None:
        self._fill("missing", lambda _: 0)
        self._fill("offloaded", lambda key: self.offloaded[key])
        self._fill("idle_layer", lambda t: int(not self._flow(t, lambda x: int(x.work > 0 or x.transfers))))
        self._fill("phase", lambda t: int(self._flow(t, lambda x: int(x.work > 0 and x.decode)) > 0))
        values = [value for _, a, value in self.program.completions if self.program.x[a].value]
        self._fill("tail", lambda v: int(v <= max(values)))

    def _set_cost(self) -> None:
        program, functions = self.program, self.program.instance.cost.functions
        self._fill("used", lambda t: int(self._flow(t, lambda _: 1) > 0))
        for name, which in INDICATORS.items():
            self._fill(name, partial(self._happens, which))

        def above(index: tuple[int, int]) -> int:
            knee = functions[index[0]].tokens_above
            return max(0, self._flow(index[1], lambda x: x.work) - (0 if knee is None else knee.knee))

        self._fill("tokens_above", above)
        batches = self.trace.batches
        self._fill("D", lambda t: batches[t].duration / program.scale if t < len(batches) else 0)
