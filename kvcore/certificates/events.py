"""An exact search over batch boundaries, cheapest state first: the value reached is a lower bound, exact at the end.

From the state of all requests at the end of a batch it tries every legal batch that may come next. Left out without
losing an optimum:

* **Starts**: a batch starts at once, or when a request that it works on or moves arrives, or a call of one returns.
  Take any schedule and, batch by batch, start each as early as the end of the batch before, the arrivals of the
  requests in its work, and the returns of those calls that had returned when it started originally and whose requests
  it works on or moves. Every batch starts no later, with the same contents. A call that was running may now have
  returned, which forbids nothing; a call that had returned may now be running only where the batch leaves its request
  alone. So all rules hold, no completion or first token is later, and no objective is worse, except that TPOT grows
  when the first token alone comes earlier. With a TPOT SLO the search therefore waits tick by tick.
* **Waiting when nothing is to come** (no arrival, no return): whatever follows can start at once. All later events move
  along: each difference of two later times stays, each difference to an earlier time shrinks.
* **Busy-time**: arrivals and durations of calls are 0. The batches of any schedule are legal there, and those of a
  schedule there are legal here if each waits until every call has returned.
* **Options** of a request that another one replaces (`local_graph.py`), and splits of prefills (`splits.py`).
* **Symmetry**: requests that differ only in what the objective does not see are kept in the order of their states; of
  those in one state, none takes an earlier option than the one before.
* Of equal states the one with the least label is kept: the future depends on the state alone, and every objective is a
  function of label and future, non-decreasing in the label. For the largest flow time smaller ages are as good, too.
* **Waits**, for sums and ends: a state is also as good as another that differs in waits alone if it is no worse after
  enough ticks for no request of it to wait longer than in the other. For then what follows the other may follow it,
  batch by batch at the same times: a call that has returned forbids nothing that a running one allows. Two different
  states cannot be as good as each other in this way. That each may be left out for the other, down to one that is
  followed, needs that no state follows itself: of the best ends of a state take one with the fewest batches. The better
  state has one with no more of them at the same value, and from its next state one batch fewer is left.

**Free drops** make another search, a relaxation: a request that holds KV has, at any time, also the options of the same
request without any, even where R4 and R5 forbid them, its call orders a move, or the machine does not evict. Every
schedule is one of these. A state is then as good as another, for sums and ends, that holds less: of each request the
same KV or none. For it has the options of the other, with the same loads, and again leads to no less. And no request
need lose KV in a batch without its work that would fit with it, if it may keep it there (`drops_in_vain`): what holds
more is as good. Where the best end is a schedule of the rules, it is optimal by them, too.

States come in the order of their label plus the least that is left. For each request (`frontier.least`) that is a
recursion over its local graph, so it falls by no more than a batch adds; the search compares this at every step. For
sums, next tokens also take turns (`least_by_turns`): a function of the cost is `busy` and what each request adds in
every batch, so a batch can be spent on one request after another, once `busy` is over, each of them ready when it
starts; the sum of the ends of such jobs is least where the one with the least left goes first (preemptive shortest
remaining processing time). After its next token a request needs its ticks when alone. What is known of a state holds of
those that follow it. So no schedule is better than the state that comes next, wherever the search stops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil
from operator import mul
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from kvcore.certificates import frontier, labels
from kvcore.certificates.budget import Budget, InvalidCertificate, Most, Work
from kvcore.certificates.frontier import LARGEST, LAST, LATE, SUM, Problem
from kvcore.certificates.labels import LARGE, NO, TOP, End
from kvcore.certificates.local_graph import DECODES, PREFILLS, SWAPPED, TOKENS, TOO_LARGE, LocalGraph
from kvcore.certificates.options import Load
from kvcore.certificates.proof import Proof
from kvcore.certificates.splits import whole_prefills
from kvcore.cost import CostFunction
from kvcore.features import OBJECTIVES, RULES, Takes
from kvcore.instance import Instance, Request, alike
from kvcore.limits import limits_of
from kvcore.metrics import SUMS, Value, check_objective, least_value, scale_of, weight


class Events(Proof):
    """Look at the first `states` states by their lower bounds, or all up to an optimum.

    Any numbers are safe: where the search stops early, no schedule is below the next state. States of `target` or more
    (in ticks; for normalized-latency times the common multiple of the outputs) are left out: no more is proved. With
    `free_drops`, KV may be dropped at any time: a relaxation.
    """

    kind: Literal["events"] = "events"
    takes: ClassVar = Takes(RULES | OBJECTIVES)
    states: Annotated[int, Field(ge=1, le=Most.states)]
    target: Annotated[int, Field(ge=0, le=TOP)] | None = None
    free_drops: bool = False

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return the lower bound after this many states."""
        upper = None if self.target is None else Fraction(self.target, scale_of(instance.requests, objective))
        search = EventSearch(instance, objective, self.states, upper, budget, free_drops=self.free_drops)
        return search.run().bound

    @property
    def why(self) -> str:
        """The argument."""
        rules = "the rules allow, and free drops," if self.free_drops else "the rules allow"
        return f"all batches that {rules} were tried, the cheapest states first, {self.states} at the most"


class EventSearch:
    """The search on one instance for one objective."""

    def __init__(
        self, instance: Instance, objective: str, states: int, upper: Value | None = None,
        budget: Budget | None = None, free_drops: bool = False,
    ) -> None:  # fmt: skip
        """Prepare the search, `free_drops` as in `Events`."""
        check_size(instance)
        budget = budget or Budget()
        self.instance, self.objective, self.most = instance, check_objective(objective), states
        self.free_drops = free_drops
        scale = scale_of(instance.requests, objective)
        self.target = None if upper is None else min(TOP, ceil(upper * scale))
        requests = [_seen(request, objective) for request in instance.requests]
        kinds = alike(requests)
        self.order = [i for places in kinds for i in places]
        self.requests = [requests[i] for i in self.order]
        groups = [k for k, places in enumerate(kinds) for _ in places]
        whole = whole_prefills(instance, objective) and not free_drops  # whose proof needs the rules as they are
        self.graph = LocalGraph(instance.machine, self.requests, groups, whole, free_drops, budget)
        self.setting = setting(instance, objective, self.requests, groups, self.graph, self.target)
        memory = states * (40 * len(groups) + 108)
        budget.spend(f"a search of {states} states", Work.label * states, memory)
        vectors = max(1, len(self.setting.unit))
        self.frontier = frontier.room(len(groups), states, vectors, self.setting.load.shape[1])
        self.begin()

    def begin(self) -> None:
        """Put the state at tick 0 into the heap."""
        s, f = self.setting, self.frontier
        f.label[0] = 0
        for j, request in enumerate(self.requests):
            local, aging = self.graph.start[s.group[j]], s.objective == LARGEST or max(s.slo[j, :2]) != NO
            late = s.objective == LATE and frontier.is_late(s, j, local, request.arrival, 0, NO, False)
            f.rows[0, j] = local, request.arrival, frontier.MISSED if late else 0 if aging else NO, NO
            f.label[0] += late
        frontier.arrange(s, f.rows[0])
        f.least[0] = f.labels.bound[0] = frontier.least(s, f, f.rows[0], f.label[0])
        f.labels.key[0] = frontier.key_of(s, f.rows[0])
        f.labels.left[0] = sum(request.output for request in self.requests)
        labels.begin(f.labels, s.target)

    def run(self, states: int | None = None, stops: Callable[[], bool] = lambda: False) -> End:
        """Go on until this many states were seen, the search is over, or `stops` says so."""
        s, f = self.setting, self.frontier
        end = labels.run(frontier.search, s, f, min(states or self.most, self.most), stops)
        if end.code == labels.INCONSISTENT:
            raise AssertionError("what is left at the least fell by more than a batch adds")
        rates = [s.low + int(rate) if s.objective == SUM else 0 for rate in s.rate]
        waited = sum(rate * request.arrival for rate, request in zip(rates, self.requests, strict=True))
        bound = Fraction(end.bound - waited, scale_of(self.requests, self.objective))
        return end._replace(bound=least_value(bound, self.objective))


def _seen(request: Request, objective: str) -> Request:
    if objective != "late-requests":
        request = request.replace(slo=None)
    if objective not in SUMS or weight(request, objective) == weight(request.replace(weight=1), objective):
        request = request.replace(weight=1)
    if objective != "busy-time":
        return request
    return request.with_calls(lambda call: call.replace(duration=0)).replace(arrival=0)


def line_of(function: CostFunction) -> tuple[list[int], list[int]]:
    """Return the coefficients of sums, by column of a load, and the others."""
    added = [getattr(function, name, 0) for name in Load._fields]
    above = function.tokens_above
    knee, over = (0, 0) if above is None else (above.knee, above.coefficient)
    return added, [function.busy, function.any_decode, function.any_prefill, knee, over, function.divisor]


def setting(
    instance: Instance, objective: str, requests: Sequence[Request], groups: Sequence[int], graph: LocalGraph,
    target: int | None,
) -> Problem:  # fmt: skip
    """Return the search's problem. Raises InvalidCertificate where a number could be too large."""
    machine, functions = instance.machine, instance.cost.functions
    kind = {"makespan": LAST, "busy-time": LAST, "max-flow-time": LARGEST, "late-requests": LATE}.get(objective, SUM)
    scale = scale_of(requests, objective)
    rates = [int(scale * weight(r, objective)) if kind == SUM else r.weight for r in requests]
    waits = max([r.arrival for r in requests] + [call.duration for r in requests for call in r.calls])
    slo = [[NO if kind != LATE or ticks is None else ticks for ticks in request.slo_ticks] for request in requests]
    most = graph.most.tolist()
    lines = [line_of(function) for function in functions]
    longest = max(
        sum(map(mul, most, line)) + sum(parts) + parts[frontier.ABOVE] * most[TOKENS] for line, parts in lines
    )
    if max(sum(rates) * (longest + waits), *map(max, slo)) >= LARGE:
        raise InvalidCertificate(TOO_LARGE)
    linear, fixed = (np.array(part, dtype=np.int64) for part in zip(*lines, strict=True))
    done, far = graph.left == 0, 2**52 // sum(rates)  # what is left, times rates, is cut off there
    over = graph.begun if objective == "total-ttft" else done
    to_done, to_first = (graph.ticks(linear, fixed, end, far) for end in (done, graph.begun))
    limits = np.array(limits_of(machine, TOP), dtype=np.int64)
    shares, unit = graph.shares(linear, fixed, limits, over, far)
    ticks = to_first if objective == "total-ttft" else to_done
    work, tail = graph.next_token(linear, ticks, over, far)
    columns = graph.use, graph.load[:, [DECODES, PREFILLS]], graph.load[:, SWAPPED].sum(axis=1), graph.load @ linear.T
    return Problem(
        first=graph.first, load=np.column_stack(columns), to=graph.to, away=graph.away,
        touches=graph.moves.any(axis=1), kept=graph.kept, ready=graph.wait,
        alike=graph.left if graph.empty.any() else graph.wait, empty=graph.empty,
        arriving=graph.arriving, begun=graph.begun, left=graph.left, over=over, ticks=ticks,
        to_done=to_done, to_first=to_first, shares=shares, unit=unit, work=work, tail=tail, fixed_costs=fixed,
        limits=limits, hybrid=machine.hybrid, group=np.array(groups, dtype=np.int64),
        rate=np.array(rates, dtype=np.int64) - min(rates), low=min(rates), slo=np.array(slo, dtype=np.int64),
        objective=kind, watched=kind in (LARGEST, LATE), every_tick=any(each[frontier.BETWEEN] != NO for each in slo),
        target=TOP if target is None
        else min(TOP, target + sum(rate * r.arrival for rate, r in zip(rates, requests, strict=True) if kind == SUM)),
    )  # fmt: skip


def check_size(instance: Instance) -> None:
    """Raise InvalidCertificate for a hopeless search."""
    for what, limit, size in (
        ("requests", Most.event_requests, len(instance.requests)),
        ("segments", Most.event_segments, sum(len(request.segments) for request in instance.requests)),
        ("generated tokens", Most.event_tokens, sum(request.output for request in instance.requests)),
    ):
        if size > limit:
            raise InvalidCertificate(f"an exhaustive search takes at most {limit} {what}, and there are {size}")
