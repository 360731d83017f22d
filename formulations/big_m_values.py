"""From a known schedule to values of the Big-M program, and back."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyomo.environ as pyo

from formulations.big_m_clocks import Slots, TickClock
from formulations.big_m_cost import BATCH_FEATURES
from formulations.big_m_letters import Letter, Letters
from formulations.timing import MOVES, end_at, start_early
from kvcore.instance import Instance
from kvcore.rules import ORDERED
from kvcore.schedule import Batch, Schedule
from kvcore.trace import BatchTrace, Move, RequestTrace, Step, Trace

TOLERANCE = 1e-6
"""Allowed violation of rows: rounding in the model's unit of time."""
State = Letter
"""A value for each letter of one request in one batch."""


def schedule_of(program: Letters, there: Letter) -> Schedule:
    """Return the schedule that the variables describe; moves of an idle slot belong to the next batch.

    `there`: whether a block of contents is resident at the end of a batch.
    """
    requests = [(i, request.id) for i, request in enumerate(program.instance.requests)]
    batches: list[Batch] = []
    ends: list[int] = []
    early: dict[str, Counter[str]] = {kind: Counter() for kind in MOVES}
    resident = set[tuple[str, int]]()
    for j in program.batches:
        work = {id: n for i, id in requests if (n := rounded(program.c[i, j]))}
        moves = {kind: early[kind] + Counter({id: moved(program, kind, i, j) for i, id in requests}) for kind in MOVES}
        if program.clock.may_idle and rounded(program.used[j]) == 0:
            early = moves
        elif work or moves["swap_out"] or moves["swap_in"]:
            made = {kind: dict(amounts) for kind, amounts in moves.items()}
            made["reuse"] = {id: n for i, id in requests if (n := rounded(program.reused[i, j]))}
            stays = {(id, k) for id, k, batch in there if batch == j and rounded(there[id, k, batch])}
            made["forget"] = dict(Counter(id for id, _ in resident - stays))
            resident = stays
            batches.append(Batch.model_validate({"start": 0, "work": work, **made}))
            if program.paced and isinstance(program.clock, TickClock):
                ends.append(program.clock.end_tick(j))
            early = {kind: Counter() for kind in MOVES}
    if program.paced:
        return end_at(program.instance, batches, ends).schedule
    return start_early(program.instance, batches).schedule


def moved(program: Letters, kind: str, i: int, j: int) -> int:
    """Return the tokens of a move."""
    if kind == "drop":
        return rounded(program.dropped[i, j] + program.dropped_host[i, j])
    return rounded((program.swapped_out if kind == "swap_out" else program.swapped_in)[i, j])


def rounded(expression: Any) -> int:
    """Return the value as an integer."""
    return int(round(pyo.value(expression)))  # noqa: RUF046 - what Pyomo returns has no type


def set_values(program: Letters, trace: Trace) -> bool:
    """Set every variable to its value in a schedule; return whether rows and bounds hold."""
    places = places_of(program, trace)
    if not all(place in program.batches for place in places):
        return False
    values = _Values(program, trace, places)
    values.set_requests()
    values.set_clock()
    values.set_cost()
    return next(broken(program.model), None) is None


def places_of(program: Letters, trace: Trace) -> list[int]:
    """Return the model's batch for each of the trace."""
    if isinstance(program.clock, Slots):
        return [batch.start - program.clock.origin + 1 for batch in trace.batches]
    return list(range(1, len(trace.batches) + 1))


class _Values:
    """`states[i][j]` is request i in batch j of the model; `place` has the model's batch for each of the trace."""

    def __init__(self, program: Letters, trace: Trace, place: list[int]) -> None:
        self.program, self.trace, self.place = program, trace, place
        self.batch_at: dict[int, BatchTrace] = dict(zip(place, trace.batches, strict=True))
        self.traces = self._in_order()
        self.states = [self._states(request) for request in self.traces]

    def fill(self, name: str, value: Callable[..., float]) -> None:
        component = self.program.model.component(name)
        for index in component if component is not None and component.ctype is pyo.Var else ():
            at = index if isinstance(index, tuple) else (index,)
            component[index].set_value(+value(*at), skip_validation=True)

    # --- what requests do ----------------------------------------------------------------------------------------

    def _in_order(self) -> list[RequestTrace]:
        traces = list(self.trace.requests)
        for group in self.program.alike:
            ordered = sorted((self.trace.requests[i] for i in group), key=lambda trace: trace.steps[-1].batch)
            for i, trace in zip(group, ordered, strict=True):
                traces[i] = trace
        return traces

    def _states(self, request: RequestTrace) -> dict[int, State]:
        moves: dict[int, Counter[str]] = {}
        for move in request.moves:
            ordered = _is_ordered(request, move)  # it comes in the next slot, even if that is idle
            j = self.place[move.batch - 1] + 1 if ordered else self.place[move.batch]
            moves.setdefault(j, Counter())[move.kind] = move.tokens
            moves[j]["swap_chosen"] += move.kind == "swap_out" and not ordered
        steps = {self.place[step.batch]: step for step in request.steps}
        states = {0: State()}
        for j in self.program.batches:
            states[j] = self._next(request, states[j - 1], moves.get(j, Counter()), steps.get(j))
        return states

    def _next(self, request: RequestTrace, before: State, moves: Counter[str], step: Step | None) -> State:
        drop, out, back = (moves[kind] for kind in MOVES)
        dropped_host = min(before["h"], drop)
        dropped = drop - dropped_host
        left, h, reused = before["m"] - dropped - out + back, before["h"] - dropped_host + out - back, moves["reuse"]
        resident = left + reused
        c, works = (step.tokens, 1) if step else (0, 0)
        g, decodes = (int(step.generated), int(step.phase == "decode")) if step else (0, 0)
        fresh = int(works and resident == 0)
        generated = before["generated"] + g
        m = 0 if generated == request.request.output else resident + c
        state = State(drop=drop > 0, drop_all=drop > 0 and left + h == 0, drop_device=dropped > 0)
        state.update(dropped=dropped, dropped_host=dropped_host, swapped_out=out, swapped_in=back, h=h, host=h > 0)
        state.update(swap_out=out > 0, swap_in=back > 0, g=g, generated=generated, w=works, c=c, m=m, fresh=fresh)
        state.update(extends=works - decodes - fresh, hold=m + h > 0, swap_chosen=moves["swap_chosen"])
        state.update(blocks_held=self.program.machine.blocks(resident + c), decodes=decodes)
        state.update(decode_kv=decodes * resident, prefill_kv=(works - decodes) * resident)
        state.update(reused=reused, reuse=reused > 0, begins=reused > 0 and left + h == 0, processed=resident + c)
        state.update(read=resident, prefill_pairs=(works - decodes) * (c * c + 2 * c * resident))
        return state

    def set_requests(self) -> None:
        for name in self.states[0][1]:
            self.fill(name, lambda i, j, name=name: self.states[i][j][name])
        self.fill("used", self._used)
        self.fill("phase", lambda j: any(states[j]["decodes"] for states in self.states))
        self.fill("y", lambda i, q, j: self.states[i][j]["generated"] >= q)
        self.fill("begun", self._begun)
        if self.program.instance.contents:
            self.set_contents()

    def set_contents(self) -> None:
        contents, block = self.program.contents, self.program.machine.block
        forgets = dict(zip(self.place, (batch.forget for batch in self.trace.expanded().batches), strict=True))
        there = dict.fromkeys(((id, 0) for id in contents.sizes), 0)
        for j in self.program.batches:
            for id in contents.sizes:
                there[id, j] = there[id, j - 1] - forgets.get(j, {}).get(id, 0)
            for i, path in contents.paths.items():
                for id, k in path[: self.states[i][j]["processed"] // block]:
                    there[id, j] = max(there[id, j], k)

        def stayed(i: int, j: int) -> bool:
            before = sum(k <= there[id, j - 1] for id, k in contents.paths[i])
            return bool(self.states[i][j]["reuse"] and self.states[i][j]["read"] <= block * before)

        def from_other(i: int, o: int, j: int, *, makes: bool) -> bool:
            mine, other = self.states[i][j], self.states[o][j]
            least, most = (other["read"] + 1, other["processed"]) if makes else (1, other["read"] - other["reused"])
            return bool(mine["reuse"] and least <= mine["read"] <= min(most, contents.common(i, o)))

        self.fill("has", lambda i, p, j: self.states[i][j]["processed"] >= p * block)
        self.fill("there", lambda id, k, j: k <= there[id, j])
        self.fill("whole", lambda i, j: min(self.states[i][j]["read"] // block, len(contents.paths[i])))
        self.fill("stayed", stayed)
        self.fill("made", partial(from_other, makes=True))
        self.fill("back", partial(from_other, makes=False))

    def _used(self, j: int) -> bool:
        """Where slots may idle, swaps that calls order do not count."""
        if not self.program.clock.may_idle:
            return j in self.batch_at
        transfers = ("w", "swap_in", "swap_chosen")
        return any(states[j][name] for states in self.states for name in transfers)

    def _begun(self, i: int, k: int, j: int) -> bool:
        started = self.place[self.traces[i].calls[k].batch]
        return any(self.states[i][b]["w"] for b in range(started + 1, j + 1))

    # --- when ----------------------------------------------------------------------------------------------------

    def set_clock(self) -> None:
        scale, origin = self.program.scale, self.program.clock.origin
        longest = max(request.completion - request.request.arrival for request in self.trace.requests)
        self.fill("t", lambda j: (self._start(j) - origin) / scale)
        self.fill("R", self._returned)
        self.fill("at", lambda i, q: (self._token_end(i, q) - origin) / scale)
        self.fill("span", self._span)
        self.fill("unfinished", self._unfinished)
        self.fill("last_end", lambda _: self.trace.batches[-1].end - origin)
        self.fill("longest_flow", lambda _: longest / scale)
        self.fill("first_at", lambda i: (self._token_end(i, 1) - origin) / scale)
        self.fill("late", self._late)

    def _start(self, j: int) -> int:
        return self.batch_at[j].start if j in self.batch_at else self.trace.batches[-1].end

    def _token_end(self, i: int, q: int) -> int:
        return next(self.batch_at[j].end for j in self.program.batches if self.states[i][j]["generated"] >= q)

    def _span(self, i: int, q: int, j: int) -> float:
        if self.states[i][j]["generated"] >= q:
            return max(0, self._token_end(i, q) - self._start(j)) / self.program.scale
        return (self._start(j + 1) - self._start(j)) / self.program.scale

    def _returned(self, i: int, k: int, j: int) -> bool:
        call = self.traces[i].calls[k]
        return self.place[call.batch] < j and call.end <= self._start(j)

    def _unfinished(self, i: int, j: int) -> bool:
        used = [place for place in self.place if place < j]
        steps = [step for step in self.traces[i].steps if used and self.place[step.batch] == used[-1]]
        ends = self.program.chains[i].ends
        return any(not (step.generated and self.states[i][j - 1]["generated"] in ends) for step in steps)

    def _late(self, i: int) -> bool:
        trace, arrival = self.traces[i], self.traces[i].request.arrival
        return trace.request.is_late(trace.first_token - arrival, trace.completion - arrival)

    # --- how long ------------------------------------------------------------------------------------------------

    def set_cost(self) -> None:
        program = self.program
        for name in BATCH_FEATURES:
            self.fill(name, lambda j, name=name: self._feature(j, name))
        self.fill("D", lambda j: self.batch_at[j].duration / program.scale if j in self.batch_at else 0)
        self.fill("tokens_above", lambda f, j: self._above(program.instance, f, j))
        self.fill("digit", self._digit)
        self.fill("digit_pairs", self._digit_pairs)

    def _feature(self, j: int, name: str) -> int:
        return getattr(self.batch_at[j].features, name) if j in self.batch_at else 0

    def _above(self, instance: Instance, f: int, j: int) -> int:
        hinge = instance.cost.functions[f].tokens_above
        return max(0, self._feature(j, "tokens") - (hinge.knee if hinge else 0))

    def _digit(self, i: int, j: int, b: int) -> int:
        return int(self.states[i][j]["c"] >> b & 1)

    def _digit_pairs(self, i: int, j: int, b: int) -> int:
        state = self.states[i][j]
        return int(1 - state["decodes"]) * self._digit(i, j, b) * int(state["c"] + 2 * state["read"])


def _is_ordered(request: RequestTrace, move: Move) -> bool:
    handling = {call.batch + 1: request.request.calls[call.segment].handling for call in request.calls}
    return ORDERED.get(handling.get(move.batch, "")) == move.kind


def broken(model: pyo.ConcreteModel) -> Iterator[str]:
    """Yield the names of violated rows, bounds and integrality."""
    for row in model.component_data_objects(pyo.Constraint, active=True):
        body = pyo.value(row.body)
        slack = TOLERANCE * max(1.0, abs(body))
        lower, upper = pyo.value(row.lower), pyo.value(row.upper)
        if (lower is not None and body < lower - slack) or (upper is not None and body > upper + slack):
            yield row.name
    for variable in model.component_data_objects(pyo.Var):
        low, value, high = variable.lb, variable.value, variable.ub
        outside = (low is not None and value < low - TOLERANCE) or (high is not None and value > high + TOLERANCE)
        if outside or (not variable.is_continuous() and value != round(value)):
            yield variable.name
