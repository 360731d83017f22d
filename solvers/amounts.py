"""Schedules of few requests with calls: who works in each batch, annealed, with amounts by a linear program.

A *pattern* says of each batch which requests work, and which of these generate a token. With it all amounts and times
but whole blocks are linear: the program finds how much is copied to the host and back, or processed again, behind the
work of other batches. Its amounts are rounded and run batch by batch.

The first pattern is of the best order of tokens at potentials (`bounds/potentials.py`), or of a given schedule: a
mixed-integer program says who else works, and in up to two batches before each.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

import highspy
import numpy as np

from bounds.clock import by_clock, now, spend_pivots
from bounds.highs import Silent
from bounds.potentials import orders_at_potentials
from kvcore.instance import LIMIT, Instance
from kvcore.metrics import objective_value
from kvcore.referee import verify_schedule
from kvcore.schedule import Batch, Schedule
from kvcore.trace import Trace
from solvers.epoch_kernels import Jobs
from solvers.epochs import jobs_of


class Patterns:
    """Numbers of the search."""

    batches = 400  # at the most: a program takes some 0.1 ms for each
    hot = 0.002  # of the value
    orders = 2  # at the least values where works are in parts
    between = 2  # batches that may come before one that generates
    gap = 0.01  # of the value of a mixed-integer program
    nodes = 2000  # of its tree
    anybody = -1  # as `work`: the program says who works


class Who(NamedTuple):
    """Requests of a batch, as bits: those that work, and of them those that generate."""

    work: int
    makes: int


class Moves(NamedTuple):
    """A request in a batch: KV on the device after it, copied out and back; whether it works, if `anybody` may."""

    device: float
    swap_out: float
    swap_in: float
    works: float


Pattern = list[Who]
Term = tuple[int, float]
"""A column of a linear program, and its factor."""


def improve(
    instance: Instance, objective: str, seconds: float, seed: int, rounds: int | None, given: Schedule
) -> Schedule | None:
    """Return the best schedule found from another one on (the referee has not seen it): after `seconds`, or `rounds`.

    The order of tokens is annealed from the best at potentials on, then who works.
    """
    jobs, draw, trace = jobs_of(instance, objective), Random(seed), verify_schedule(instance, given)
    if len(trace.batches) > Patterns.batches:
        return None

    def found(pattern: Pattern) -> tuple[int, list[Batch]] | None:
        solved = _Program(jobs, pattern).solved()
        return None if solved is None else _run(instance, jobs, *solved)

    def relaxed(order: Pattern) -> tuple[float, Pattern] | None:
        program = _Program(jobs, _free(order))
        return (program.value, order) if program.solved(relaxed=True) else None

    began, own, upper = now(), pattern_of(trace), objective_value(trace, objective)
    seconds, part = (seconds, None) if rounds is None else (math.inf, max(1, rounds // 2))
    orders = [*orders_at_potentials(instance, objective, upper, seconds / 4), [who.makes for who in own if who.makes]]
    tried = (relaxed([Who(makes, makes) for makes in order]) for order in orders)
    first = [order for _, order in sorted(filter(None, tried), key=lambda each: each[0])]
    if first:  # a batch's budget may ask for more batches between
        _, best = _anneal(jobs, first[0], relaxed, draw, seconds / 4, part, orders=True)
        first = [best, *(order for order in first if order != best)]
    programs = (_Program(jobs, _free(order)).solved(seconds / 10) for order in first[: 1 + Patterns.orders])
    starts = [own, *filter(None, (_clean(jobs, solved[0]) for solved in programs if solved))]
    start = min(starts, key=lambda start: (found(start) or (math.inf,))[0])
    _, batches = _anneal(jobs, start, found, draw, seconds - (now() - began), part)
    return Schedule(instance_sha256=instance.sha256, batches=tuple(batches)) if batches else None


def _free(order: Pattern) -> Pattern:
    """Return an order of batches that generate, as a pattern in which others may work."""
    return [Who(Patterns.anybody, makes) for who in order for makes in (*[0] * Patterns.between, who.makes)]


def _anneal(
    jobs: Jobs, pattern: Pattern, value_of: Callable[[Pattern], tuple[float, Any] | None], draw: Random, seconds: float,
    rounds: int | None, *, orders: bool = False,
) -> tuple[float, Any]:  # fmt: skip
    """Return the best value, and what comes with it."""
    began, made = now(), 0
    best = value_of(pattern) or (math.inf, None)
    value = best[0]
    while (done := made / rounds if rounds is not None else (now() - began) / max(1e-9, seconds)) < 1:
        made += 1
        moved = _moved(jobs, pattern, draw, orders)
        if not moved or not (found := value_of(moved)):
            continue
        if found[0] <= value - Patterns.hot * found[0] * (1 - done) * math.log(1 - draw.random()):
            value, pattern = found[0], moved
        best = min(best, found, key=lambda each: each[0])
    return best


def pattern_of(trace: Trace) -> Pattern:
    """Return who works, and who generates, in each batch of a schedule."""
    work, makes = [0] * len(trace.batches), [0] * len(trace.batches)
    for i, request in enumerate(trace.requests):
        for step in request.steps:
            work[step.batch] |= 1 << i
            makes[step.batch] |= step.generated << i
    return [Who(*bits) for bits in zip(work, makes, strict=True)]


def _moved(jobs: Jobs, pattern: Pattern, draw: Random, orders: bool) -> Pattern | None:
    """Return a pattern near this one, or None."""
    new, at, one = list(pattern), draw.randrange(len(pattern)), draw.randrange(len(jobs.count))
    i, move, (work, makes), after = 1 << one, draw.randrange(2 * orders, 6), new[at], new[at + 1 : at + 2]
    if move == 0 and jobs.chunked:  # a part of a prefill more, or less
        new[at] = Who(work ^ i & ~makes, makes)
    elif move == 1:  # time for copies
        new.insert(at, Who(0, 0))
    elif move == 2:  # one works apart
        parts = [Who(work & i, makes & i), Who(work & ~i, makes & ~i)]
        new[at : at + 1] = draw.choice((parts, parts[::-1]))
    elif move == 3 and after and not makes & after[0].work:
        new[at : at + 2] = [Who(work | after[0].work, makes | after[0].makes)]
    elif move == 4:
        new[at : at + 2] = [*after, new[at]]
    else:  # tokens of a request, most often from the first one of a segment on, earlier or later
        places, q = [k for k, who in enumerate(pattern) if who.makes & i], draw.randrange(int(jobs.count[one]))
        while q and jobs.call[one, q - 1] < 0 and draw.random() < 0.8:
            q -= 1
        held = places[q : q + draw.choice((1, 2, 4, 4, 8))]
        to = max(0, held[0] + draw.choice((-8, -6, -4, -3, -2, -1, 1, 2, 3, 4, 6, 8)))
        for k in held:
            new[k] = Who(new[k].work & ~i, new[k].makes & ~i)
        if draw.random() < 0.5:
            new[to:to] = [Who(i, i)] * len(held)
        else:
            new += [Who(0, 0)] * (to + len(held) - len(new))
            for k in range(to, to + len(held)):
                new[k] = Who(new[k].work | i, new[k].makes | i)
    return _clean(jobs, new, orders)


def _clean(jobs: Jobs, pattern: Pattern, orders: bool = False) -> Pattern | None:
    """Leave out work of requests that are over, and a second batch in turn without work; None if tokens are missing."""
    left, clean = jobs.count.tolist(), Pattern()
    for work, makes in pattern:
        who = Who(sum(1 << i for i, more in enumerate(left) if work >> i & 1 and more), makes)
        left = [more - (makes >> i & 1) for i, more in enumerate(left)]
        if who.work or not (orders or (clean and not clean[-1].work)):
            clean.append(who)
    return clean if not any(left) else None


class _Program:
    """A program of the amounts of a pattern: linear, or mixed-integer where it says who works."""

    def __init__(self, jobs: Jobs, pattern: Pattern) -> None:
        self.jobs, self.pattern, n = jobs, pattern, len(jobs.count)
        self.high, self.cost, self.least = [0.0], defaultdict[int, float](float), list[float]()
        self.start, self.index, self.factor, self.whole = [0], list[int](), list[float](), list[int]()
        self.unit, self.most = max(1.0, float(jobs.busy.max())), float(jobs.context.max()) + 1
        self.longest = float(max(0, jobs.call.max()) + jobs.arrival.max()) / self.unit
        self.token, self.window, self.device, self.host = [0] * n, [False] * n, [0] * n, [0] * n
        self.before: tuple[Term, ...] = ()
        self.ready: list[tuple[float, tuple[Term, ...]]] = [
            (arrival / self.unit, ()) for arrival in jobs.arrival.tolist()
        ]
        self.fits, self.value = True, math.inf
        self.columns = [self.add(who) for who in pattern]

    def column(self, high: float = math.inf) -> int:
        self.high.append(high)
        return len(self.high) - 1

    def choice(self) -> int:
        self.whole.append(self.column(1))
        return self.whole[-1]

    def at_least(self, least: float, *terms: Term) -> None:
        for column, factor in terms:
            if column:  # the first one is 0
                self.index.append(column)
                self.factor.append(factor)
        self.least.append(least)
        self.start.append(len(self.index))

    def add(self, who: Who) -> list[tuple[int, ...]]:
        """Add a batch."""
        jobs, start, ticks, since_end = self.jobs, self.column(), self.column(), self.before
        is_free = who.work == Patterns.anybody
        self.at_least(0, (start, 1), *since_end)
        self.before = (start, -1.0), (ticks, -1.0)
        batch: list[tuple[int, ...]] = [(0, 0, 0, 0)] * len(jobs.count)
        room, some = int(jobs.blocks), self.choice() if is_free and not who.makes else 0
        worked, outs, backs, held, hosts = (list[Term]() for _ in range(5))
        for i in [i for i, token in enumerate(self.token) if token < jobs.count[i]]:
            context, ends = int(jobs.context[i, self.token[i]]), who.makes >> i & 1
            after, back = self.column(context - 1 + ends), self.column()
            out = left = works = 0
            (least, since), host, had = self.ready[i], self.host[i], ((self.device[i], 1), (back, 1))
            if ends or (who.work >> i & 1 and not is_free):
                worked += (after, -1), *had
                self.at_least(1, (after, 1), *((column, -1) for column, _ in had))
                self.at_least(0, (host, 1), (back, -1))
                if not self.window[i]:  # R4: nothing is dropped
                    self.at_least(0, (back, 1), (host, -1))
                self.at_least(least, (start, 1), *since)
                self.window[i] = ends > 0 and jobs.call[i, self.token[i]] >= 0
            else:
                out, left, work = self.column(), self.column(), 0
                if is_free and jobs.chunked:
                    work, works = self.column(), self.choice()
                    self.at_least(0, (works, self.most), (work, -1))
                    for column in (left, out):  # R4: all its KV is on the device
                        self.at_least(-self.most, (works, -self.most), (column, -1))
                    self.at_least(least - self.longest, (start, 1), *since, (works, -self.longest))
                    if some:
                        self.at_least(0, (some, 1), (works, -1))
                worked.append((work, -1))
                self.at_least(0, *had, (work, 1), (out, -1), (after, -1))
                self.at_least(0, (host, 1), (out, 1), (back, -1), (left, -1))
            self.device[i], self.host[i], batch[i] = after, left, (after, out, back, works)
            outs.append((out, -1))
            backs.append((back, -1))
            hosts.append((left, -1))
            if ends:
                self.at_least(context, (after, 1))
                room -= -(-context // jobs.block)
                self.end(i, start, ticks)
            else:
                held.append((after, -1))
        self.fits = self.fits and room >= 0
        for limit, terms in ((room * jobs.block, held), (jobs.host, hosts), (jobs.batch, worked)):
            if limit < LIMIT / 2:
                self.at_least(-limit, *terms)
        for k, divisor in enumerate((jobs.divisor * self.unit).tolist()):
            busy = float(jobs.busy[k])
            self.long_enough(
                busy / divisor * (who.work > 0 or who.makes > 0), divisor, (divisor, [(ticks, 1.0)]),
                (busy, [(some, -1.0)]), (jobs.tokens[k], worked), (jobs.swap_out[k], outs), (jobs.swap_in[k], backs),
            )  # fmt: skip
        return batch

    def long_enough(self, least: float, divisor: float, *loads: tuple[float, list[Term]]) -> None:
        sums = defaultdict[int, float](float)
        for rate, load in loads:
            for column, factor in load:
                sums[column] += factor * rate / divisor
        self.at_least(least, *sums.items())

    def end(self, i: int, start: int, ticks: int) -> None:
        """Note that a request generates a token in the last batch."""
        jobs, token = self.jobs, self.token[i]
        self.ready[i] = max(0, int(jobs.call[i, token])) / self.unit, self.before
        self.token[i] += 1
        if self.token[i] == jobs.count[i]:
            self.cost[start] = self.cost[ticks] = self.cost[start] + float(jobs.rate[i])

    def solved(self, seconds: float = math.inf, *, relaxed: bool = False) -> tuple[Pattern, list[list[Moves]]] | None:
        """Return who works (in parts, where `relaxed`), and the best amounts, not yet whole."""
        if not self.fits:
            return None
        highs, lp = Silent(output_flag=False, threads=1), highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.high), len(self.least)
        lp.col_cost_ = np.array([self.cost[k] for k in range(len(self.high))])
        lp.col_lower_, lp.col_upper_ = np.zeros(len(self.high)), np.array(self.high)
        lp.row_lower_, lp.row_upper_ = np.array(self.least, float), np.full(len(self.least), math.inf)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_, lp.a_matrix_.index_ = np.array(self.start), np.array(self.index)
        lp.a_matrix_.value_ = np.array(self.factor, float)
        if self.whole and not relaxed:
            kinds = np.full(len(self.high), highspy.HighsVarType.kContinuous)
            kinds[self.whole] = highspy.HighsVarType.kInteger
            lp.integrality_ = kinds.tolist()
            highs.setOptionValue("mip_rel_gap", Patterns.gap)
            highs.setOptionValue("mip_max_nodes", Patterns.nodes)
            highs.setOptionValue("time_limit", by_clock(seconds))
        highs.passModel(lp)
        highs.run()
        info = highs.getInfo()
        spend_pivots(info.simplex_iteration_count)
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return None
        x, self.value = list(highs.getSolution().col_value), info.objective_function_value
        rows = [[Moves(*(x[k] for k in one)) for one in batch] for batch in self.columns]
        works = (sum(1 << i for i, each in enumerate(row) if each.works > 0.5) for row in rows)
        return [
            Who(who.makes | more if who.work == Patterns.anybody else who.work, who.makes)
            for who, more in zip(self.pattern, works, strict=True)
        ], rows


def _run(
    instance: Instance, jobs: Jobs, pattern: Pattern, amounts: list[list[Moves]]
) -> tuple[int, list[Batch]] | None:
    """Round amounts, and run them batch by batch."""
    ids, n, time, value = [request.id for request in instance.requests], len(jobs.count), 0, 0
    device, host, token, window, ready = [0] * n, [0] * n, [0] * n, [False] * n, jobs.arrival.tolist()
    batches = list[Batch]()
    for (work, makes), row in zip(pattern, amounts, strict=True):
        moves, free = np.zeros((4, n), np.int64), int(jobs.host) - sum(host)
        worked, dropped, out, back = moves
        aims = _aims(jobs, token, makes, row)
        for i in sorted(aims, key=lambda i: aims[i] - device[i], reverse=True):  # what comes back makes room
            more = aims[i] - device[i]
            if work >> i & 1 and more > 0:
                back[i] = min(host[i], round(row[i].swap_in), more - 1) if window[i] else host[i]
                dropped[i], worked[i] = host[i] - back[i], more - back[i]
                if worked[i] < 1:
                    return None
                free += host[i]
            elif more > 0:
                back[i] = min(host[i], more)
                free += int(back[i])
            elif more < 0:
                out[i] = min(-more, round(row[i].swap_out) if host[i] == 0 else -more, free)
                free -= int(out[i])
                dropped[i] = -more - out[i]
                dropped[i] += host[i] * (dropped[i] > 0)  # what is on the host goes first
        tokens, _, outs, backs = moves.sum(1).tolist()
        if tokens > jobs.batch:
            return None
        if tokens + outs + backs == 0:
            continue
        load = jobs.busy * (tokens > 0) + jobs.tokens * tokens + jobs.swap_out * outs + jobs.swap_in * backs
        begin = max([time, *(ready[i] for i in aims if worked[i])])
        time = begin + max(1, int((-(-load // jobs.divisor)).max()))
        parts = [{id: k for id, k in zip(ids, part, strict=True) if k} for part in moves.tolist()]
        batches.append(Batch.unchecked(begin, **dict(zip(("work", "drop", "swap_out", "swap_in"), parts, strict=True))))
        for i in aims:
            from_host = min(host[i], int(dropped[i]))
            host[i] += int(out[i] - back[i]) - from_host
            device[i] += int(worked[i] + back[i] - out[i] - dropped[i]) + from_host
            window[i] = window[i] and not worked[i]
            if makes >> i & 1:
                call, rate = int(jobs.call[i, token[i]]), int(jobs.rate[i])
                token[i], ready[i], window[i] = token[i] + 1, time + max(0, call), call >= 0
                if token[i] == jobs.count[i]:
                    device[i], value = 0, value + rate * time
    return value, batches


def _aims(jobs: Jobs, token: Sequence[int], makes: int, row: list[Moves]) -> dict[int, int]:
    """Return the KV on the device after a batch: where there is no room for parts of blocks, they go."""
    live = [i for i in range(len(row)) if token[i] < jobs.count[i]]
    aims = {i: int(jobs.context[i, token[i]]) if makes >> i & 1 else int(row[i].device + 1e-6) for i in live}
    while sum(-(-aim // jobs.block) for aim in aims.values()) > jobs.blocks:
        i = min((i for i in live if aims[i] and not makes >> i & 1), key=lambda i: (aims[i] - 1) % jobs.block)
        aims[i] = (aims[i] - 1) // jobs.block * jobs.block
    return aims
