"""Exact search over states at batch boundaries."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from kvbound.instance import Instance, Request, Segment
from kvbound.metrics import Value, check_objective, objective_value
from kvbound.result import Horizon
from kvbound.schedule import Batch, Schedule
from kvbound.validator import verify_schedule
from solvers.search.rules import DOMINANCE, Rules, valid_rules
from solvers.search.state import CALLING, NEVER, READY, WAITING, Kind, LocalState
from solvers.search.successors import Choices, States, Successors
from solvers.search.table import Array, Table


class Problem:
    """The instance as the search sees it: kinds of requests in columns, and how an objective adds up."""

    def __init__(self, instance: Instance, objective: str, dominance: tuple[str, ...]) -> None:
        self.instance = instance
        self.objective = check_objective(objective)
        self.rules = valid_rules(instance, objective, dominance)
        self.scale = math.lcm(*(r.output for r in instance.requests)) if objective == "normalized-latency" else 1
        kinds: list[Kind] = []
        numbers = []
        for i, request in enumerate(instance.requests):
            kind = self.kind(request, i)
            if kind not in kinds:
                kinds.append(kind)
            numbers.append(kinds.index(kind))
        self.order = sorted(range(len(numbers)), key=lambda i: numbers[i])
        self.kinds = kinds
        self.table = Table(instance, objective, self.rules, kinds)
        self.successors = Successors(self.table)
        column_kinds = [numbers[i] for i in self.order]
        self.groups = []
        a = 0
        for b in range(1, len(column_kinds) + 1):
            if b == len(column_kinds) or column_kinds[b] != column_kinds[a]:
                if b - a > 1:
                    self.groups.append((a, b))
                a = b
        first = [self.table.number(self.initial(instance.requests[i], numbers[i])) for i in self.order]
        rows = np.array([first], np.int32)
        zero = np.zeros(1, np.int64)
        self.root = States(rows, zero, zero.copy(), zero - 1)

    def kind(self, request: Request, index: int) -> Kind:
        timeless = self.objective == "busy-time"
        segments = tuple(
            Segment(decode=s.decode, call=s.call and s.call.replace(duration=0 if timeless else s.call.duration))
            for s in request.segments
        )
        rate = {
            "total-flow-time": 1,
            "total-ttft": 1,
            "weighted-flow-time": request.weight,
            "normalized-latency": self.scale // request.output,
        }.get(self.objective, 0)
        return Kind(
            prompt=request.prompt,
            segments=segments,
            rate=rate,
            arrival=request.arrival if self.objective == "max-flow-time" else 0,
            first_by=NEVER,
            done_by=NEVER,
            tpot_ticks=NEVER,
            label=0 if self.rules.symmetry else index,
        )

    def initial(self, request: Request, kind: int) -> LocalState:
        arrival = 0 if self.objective == "busy-time" else request.arrival
        return LocalState(
            kind, WAITING if arrival else READY, 0, request.segments[0].decode, 0, 0, arrival, False, False, False, -1
        )

    # --- time and cost

    def accrued(self, rows: npt.NDArray[np.int32], ticks: Array) -> Array:
        state = self.table.state
        wait = np.where(state["status"][rows] == WAITING, state["remaining"][rows], 0)
        return (state["rate"][rows] * np.maximum(0, ticks[:, None] - wait)).sum(axis=1)

    def passed(self, rows: npt.NDArray[np.int32], ticks: Array) -> npt.NDArray[np.int32]:
        state = self.table.state
        out = rows.copy()
        where = np.nonzero(state["remaining"][rows] > 0)
        pairs = np.stack([rows[where].astype(np.int64), ticks[where[0]]])
        unique, inverse = np.unique(pairs, axis=1, return_inverse=True)
        new = np.array([self.table.pass_time(a, b) for a, b in unique.T.tolist()], np.int32)
        if len(new):
            out[where] = new[inverse.reshape(-1)]
        return out

    def bound(self, s: States) -> Array:
        state = self.table.state
        if self.objective == "busy-time":
            return s.cost + state["batches"][s.rows].max(axis=1)
        if self.objective == "makespan":
            return s.time + state["least"][s.rows].max(axis=1)
        if self.objective == "max-flow-time":
            arrivals = np.array([k.arrival for k in self.kinds])
            least = np.where(
                state["status"][s.rows] > 0,
                s.time[:, None] + state["least"][s.rows] - arrivals[state["kind"][s.rows]],
                0,
            )
            return np.maximum(s.cost, least.max(axis=1))
        return s.cost + state["togo"][s.rows].sum(axis=1)

    def expand(self, s: States, cutoff: int) -> list[tuple[States, Choices, Array]]:
        """children states with parents as positions in s; plus the choices and the waits"""
        out = []
        rows, time, cost, origin = s.rows, s.time, s.cost, np.arange(len(s))
        fresh = None
        waited = np.zeros(len(s), np.int64)
        while len(rows):
            choices = self.successors.batches(rows, fresh)
            if len(choices.parent):
                ticks = self.successors.durations(choices)
                p = choices.parent
                child = self.run(rows, time, cost, choices, ticks)
                child.parent = origin[p]
                keep = self.bound(child) <= cutoff
                out.append((child.take(keep), choices.take(keep), waited[p][keep]))
            state = self.table.state
            remaining = state["remaining"][rows]
            remaining = np.where(remaining > 0, remaining, NEVER)
            w = remaining.min(axis=1)
            go = w < NEVER
            if not go.any():
                break
            rows, time, cost, origin, w, waited = (a[go] for a in (rows, time, cost, origin, w, waited))
            fresh = remaining[go] == w[:, None]
            cost = cost + self.accrued(rows, w) if self.objective not in ("makespan", "max-flow-time", "late-requests", "busy-time") else cost
            rows = self.passed(rows, w)
            time = time + w
            waited = waited + w
            s2 = States(rows, time, cost, origin)
            keep = self.bound(s2) <= cutoff
            rows, time, cost, origin, waited, fresh = (a[keep] for a in (rows, time, cost, origin, waited, fresh))
        return out

    def run(self, rows, time, cost, choices, ticks) -> States:
        option = self.table.option
        o = choices.options
        p = choices.parent
        if self.rules.slots:
            new = option["next"][o].astype(np.int32)
        else:
            after = option["after"][o].astype(np.int32)
            new = np.where(option["passes"][o] > 0, self.passed(after, ticks), after)
        t = time[p] + ticks
        if self.objective == "busy-time":
            c = cost[p] + ticks
        elif self.objective == "makespan":
            c = t
        elif self.objective == "max-flow-time":
            arrivals = np.array([k.arrival for k in self.kinds])
            flow = np.where(option["completes"][o] > 0, t[:, None] - arrivals[self.table.state["kind"][rows[p]]], 0)
            c = np.maximum(cost[p], flow.max(axis=1))
        else:
            c = cost[p] + self.accrued(rows[p], ticks)
        return States(new, t, c, p)

    def canonical(self, rows):
        for a, b in self.groups:
            rows[:, a:b] = np.sort(rows[:, a:b], axis=1)
        return rows


_R = np.random.default_rng(1).integers(1, 2**63 - 1, 4096, dtype=np.int64) | 1


def dedupe(problem: Problem, s: States) -> States:
    rows = s.rows
    key = (rows.astype(np.int64) * _R[: rows.shape[1]]).sum(axis=1)
    if problem.objective in ("max-flow-time", "late-requests"):
        key = key + s.time * _R[-1]
    order = np.lexsort((s.cost, key))
    rs = rows[order]
    same = (key[order][1:] == key[order][:-1]) & (rs[1:] == rs[:-1]).all(axis=1)
    if problem.objective in ("max-flow-time", "late-requests"):
        same &= s.time[order][1:] == s.time[order][:-1]
    keep = np.concatenate([[True], ~same])
    return s.take(order[keep])


@dataclass
class Pass:
    value: int | None
    complete: bool
    low: int
    expanded: int
    generated: int
    goal: tuple | None


def one_pass(problem: Problem, cutoff: int, width: int, chunk=4000):
    layers: dict[int, list[States]] = {0: [problem.root]}
    kept: dict[int, States] = {}
    best = None
    goal = None
    low = NEVER
    expanded = generated = 0
    slots = problem.rules.slots
    busy = problem.objective == "busy-time"
    sizes = []
    while layers:
        depth = min(layers)
        s = States.join(layers.pop(depth))
        f = problem.bound(s)
        if best is not None:
            s = s.take(f <= cutoff)
            if not len(s):
                continue
        s = dedupe(problem, s)
        f = problem.bound(s)
        done = (s.rows == 0).all(axis=1)
        if done.any():
            i = np.nonzero(done)[0][np.argmin(s.cost[done])]
            v = int(s.cost[i])
            if best is None or v < best:
                best = v
                cutoff = min(cutoff, v - 1)
                goal = (depth, s.take(np.array([i])))
            s, f = s.take(~done), f[~done]
        if len(s) > width:
            order = np.lexsort((-s.cost, f))
            low = min(low, int(f[order[width]]))
            s = s.take(order[:width])
        kept[depth] = s
        sizes.append((depth, len(s)))
        expanded += len(s)
        for a in range(0, len(s), chunk):
            for child, choices, waited in problem.expand(s.take(slice(a, a + chunk)), cutoff):
                generated += len(child)
                if not len(child):
                    continue
                problem.canonical(child.rows)
                child.parent = child.parent + a
                if slots and not busy:
                    ends = child.time
                    for e in np.unique(ends).tolist():
                        layers.setdefault(e, []).append(child.take(ends == e))
                else:
                    layers.setdefault(depth + 1, []).append(child)
    return best, low, expanded, generated, sizes


def serial_schedule(problem: Problem) -> Schedule:
    from solvers.search.options import passed

    instance = problem.instance
    legal = problem.table.legal
    t = 0
    batches = []
    for i in sorted(range(len(instance.requests)), key=lambda i: instance.requests[i].arrival):
        request = instance.requests[i]
        s = problem.initial(request, [k for k in range(len(problem.kinds)) if problem.kind(request, i) == problem.kinds[k]][0])
        t = max(t, request.arrival)
        s = passed(s, request.arrival)
        while s.status:
            if s.remaining:
                t += s.remaining
                s = passed(s, s.remaining)
            o = max((o for o in legal.of(s)[0] if o.work), key=lambda o: (-o.moves.drop, o.work))
            assert not (o.moves.drop and not s.due)
            batches.append(
                Batch(
                    start=t,
                    work={request.id: o.work},
                    drop={request.id: o.moves.drop} if o.moves.drop else {},
                    swap_out={request.id: o.moves.swap_out} if o.moves.swap_out else {},
                    swap_in={request.id: o.moves.swap_in} if o.moves.swap_in else {},
                )
            )
            t += instance.cost.duration(o.features())
            if problem.objective == "busy-time" and o.after.status == READY and o.after.segment > s.segment:
                t += request.calls[s.segment].duration
            s = o.after
    return Schedule(instance_sha256=instance.sha256, batches=tuple(batches))
