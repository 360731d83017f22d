"""The values of the arc-flow variables in a known schedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from formulations.arc_flow.cost import INDICATORS
from formulations.arc_flow.flows import Flows
from formulations.arc_flow.graph import SINK, Arc
from formulations.arc_flow.transitions import Action
from formulations.batch_start import broken, fill
from formulations.timing import MOVES, start_early
from kvcore.trace import CallTrace, RequestTrace, Trace

Moves = tuple[int, int, int]
"""Tokens that are dropped, swapped out, swapped in; without `partial`, it only matters whether there are any."""
STAY: Moves = (0, 0, 0)
UNLIMITED = 10**18


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
        self.windows = [self._window(call) for call in request.calls]
        self.moves: dict[int, Moves] = {}
        for move in request.moves:
            drop, out, back = ((move.kind == kind) * move.tokens for kind in MOVES)
            made = self.moves.get(t := self.layer(move.batch), STAY)
            self.moves[t] = (made[0] + drop, made[1] + out, made[2] + back)
        self.hosted = self._hosted()
        self.work = {self.layer(step.batch): step.tokens for step in request.steps}
        for window in self.windows:
            self._handling(*window)
        if self.setting.late_returns:
            self._return_late()
        if self.setting.most_partial is not None:
            self._unsplit()
        if program.machine.partial or not program.machine.evict:
            self._forget_round_trips()

    def layer(self, batch: int) -> int:
        """Return the layer of a batch."""
        return self.trace.batches[batch].start - self.program.origin if self.setting.timed else batch

    def _window(self, call: CallTrace) -> tuple[str, int, int, int]:
        """Return the handling of a call, the layers from its start to the next work, and the KV held."""
        stop = min(self.layer(step.batch) for step in self.request.steps if step.batch > call.batch)
        return self.request.request.calls[call.segment].handling, self.layer(call.batch) + 1, stop, call.held

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

    def _handling(self, handling: str, start: int, stop: int, held: int) -> None:
        """Make the moves of a window where the reductions make them; ordered ones fall on the next layer."""
        window = [t for t in self.moves if start <= t <= stop]
        dropped = any(self.moves[t][0] for t in window)
        early = handling == "discard" or (handling == "swap" and self.setting.early_swaps)
        drops_early = self.setting.early_drops and dropped and not self.setting.hosted
        if handling == "free" and (drops_early or self.setting.free_places):
            for t in window:
                del self.moves[t]
            if drops_early:
                self.moves[start] = (held, 0, 0)
            elif dropped:
                self._leave_out(stop, held)
        elif early and window and (first := min(window)) != start:
            drop, out, back = self.moves.pop(first)
            self.moves[start] = (drop, out, 0)
            if back:
                self.moves[first] = (0, 0, back)

    def _leave_out(self, start: int, tokens: int) -> None:
        """Leave out the first tokens that are processed from a layer on: they were kept."""
        for t in sorted(t for t in self.work if t >= start):
            spared = min(tokens, self.work[t])
            tokens -= spared
            self._spare(t, spared)

    def _spare(self, t: int, tokens: int) -> None:
        """Process so many tokens less in a layer."""
        self.work[t] -= tokens
        if not self.work[t]:
            del self.work[t]

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
                *before, last = parts
                parts, becomes_prefill = [], step.phase == "decode"
                for t in before:
                    moved = self.room.move(t, last, self.work[t], int(becomes_prefill))
                    becomes_prefill = becomes_prefill and not moved
                    self.work[last] += moved
                    self._spare(t, moved)

    def _forget_round_trips(self) -> None:
        """Leave out what swaps out and in again within one batch that no call orders, but for what makes it a batch."""
        for t, (drop, out, back) in list(self.moves.items()):
            if not (out and back) or any(how == "swap" and start <= t <= stop for how, start, stop, _ in self.windows):
                continue
            needed = int(self.program.machine.evict and out == back)
            self.moves[t] = (drop, max(needed, out - back), max(needed, back - out))
            if self.moves[t] == STAY:
                del self.moves[t]

    def takes(self, arc: Arc) -> bool:
        """Whether the arc is what the request does."""
        for layer, span, action in arc.steps:
            made, moves = (action.drop, action.swap_out, action.swap_in), self.moves.get(layer, STAY)
            alike = made == moves if self.program.machine.partial else action.moves == tuple(n > 0 for n in moves)
            goes_on = any(t in self.work or t in self.moves for t in range(layer + 1, layer + span))
            if not alike or goes_on or action.work != self.work.get(layer, 0):
                return False
        return True


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
                    for layer, span, action in arc.steps if plan.hosted else ():
                        for t in range(layer, layer + span):
                            self.offloaded[c, action.place, t] += action.place >= 0 and t in plan.hosted
                    node = arc.head
        return flows

    def _flow(self, t: int, amount: Callable[[Action], int]) -> int:
        return sum(n * self.program.x[a].value for _, a, action in self.program.in_layer[t] if (n := amount(action)))

    def _set_shared(self) -> None:
        model = self.model
        fill(model, "missing", lambda _: 0)
        fill(model, "offloaded", lambda *key: self.offloaded[key])
        fill(model, "idle_layer", lambda t: int(not self._flow(t, lambda x: int(x.is_batch))))
        fill(model, "phase", lambda t: int(self._flow(t, lambda x: int(x.work > 0 and x.decode)) > 0))
        values = [value for _, a, value in self.program.completions if self.program.x[a].value]
        fill(model, "tail", lambda v: int(v <= max(values)))

    def _set_cost(self) -> None:
        model, program, batches = self.model, self.program, self.trace.batches
        fill(model, "used", lambda t: int(self._flow(t, lambda _: 1) > 0))
        for name, which in INDICATORS.items():
            fill(model, name, lambda t, which=which: int(self._flow(t, lambda x: int(which(x))) > 0))

        def above(f: int, t: int) -> int:
            knee = program.instance.cost.functions[f].tokens_above
            return max(0, self._flow(t, lambda x: x.work) - (0 if knee is None else knee.knee))

        fill(model, "tokens_above", above)
        fill(model, "D", lambda t: batches[t].duration / program.scale if t < len(batches) else 0)
