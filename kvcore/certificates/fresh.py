"""Fresh work: each token is processed once at the least, and a batch costs its fixed part for all in it.

All else is left out: memory, moves, what is processed again, limits of a batch, all functions of the cost but one. What
is left is a machine that serves chains of tokens in batches, each of which takes `busy` and what its fresh tokens take.
Of the prefills in parts only so much is kept as the time allows. All amounts of work are in time.

**Labels.** Only batches that generate tokens are looked at. A label is what is known after one: how many tokens each
request has; the sum of the ends of completed requests; `time`, the end of the batch; and for each request `ready`, when
its next token may be worked on (after its arrival, or its last batch and call), and `open`, since when the work on that
token which is done by now may have gone on: open <= max(time, ready).

A label covers a moment T of a schedule, in which no batch runs, if the same tokens are generated, and

    (1)  time <= T, and the sum of the ends is no more,
    (2)  max(time, ready_i) <= max(T, when i may truly be worked on),
    (3)  min over i in Z of open_i + X(Z) <= T  for each set Z of requests on whose next tokens work X(Z) > 0 is done.

**Between** batches that generate tokens no label changes: what works on request i begins at
max(T, when i may be worked on) >= max(time, ready_i) >= open_i, so that (3) still holds when c(Z) more is done.

**A batch that generates tokens of F** starts at s, where the label is covered; in the next label it starts at
S = max(time, ready_i of F) <= s. Let w be the fresh work of next tokens, e how much of it may be done early (on
chunked machines all but one token, else nothing), G_i = S - open_i, and G(Y) the largest of a set. The new label has

    u       = min over Y in F of G(Y) + e(F - Y)                     (for the empty set G is 0 here)
    time'   = S + busy + w(F) - u
    open'_j = min(max(time', ready_j), time' + u - min over Y in F of G(Y + j) + e(F - Y))    for each j outside F.

It covers the end T' of the batch, in which work c is done on others. T' >= s + busy + w(F) - X(F) + c, and
X(F - Y) <= e(F - Y) for each Y. (1): take the Y of u; if X(Y) > 0, s >= S - G(Y) + X(Y) by (3), else s >= S; both
give T' >= time'. (3) for Z with X(Z) + c(Z) > 0: take the j of Z with the largest G, and its Y. If X(Z + Y) > 0, then
s >= S - G(Y + j) + X(Z + Y), so that T' >= S + busy + w(F) - G(Y + j) - e(F - Y) + X(Z) + c(Z), which is at least
open'_j + X(Z) + c(Z). If it is 0, some i of Z is worked on in the batch, so that s >= max(S, open_i) >= S - G(Y + j),
as G_i <= G_j and no G of F is below 0; and the same follows. (2) is plain, and of the next tokens of F nothing is done:
open' = ready'. The least over Y is that over the empty set and, for each i of F, all of F with no larger G: what adds
no more to G(Y) takes from e.

**Dominance**: of two labels with the same tokens, one with no later time, max(time, ready) and open, and no larger sum,
covers what the other covers. Batches lead to more tokens, so that no label is left out for one that follows it.

**What is left at the least.** At max(time, ready_i) no more of i's work than min(e_i, max(time, ready_i) - open_i) is
done at the cost of nobody. The rest is served no faster than by one machine that may be interrupted and works on each
request from max(time, ready_i) + busy on: by (3), what a schedule has done beyond that before T fits, interrupted,
between the `open` of those requests and T; moved by `busy`, it fits into what then is the fixed part of the batch
after T. The sum of ends is least where the shortest work left goes first. After that each request takes its own time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from kvcore.certificates import fresh_kernels as kernels
from kvcore.certificates.budget import Budget
from kvcore.certificates.frontier import ROWS, TRIED, push
from kvcore.certificates.proof import InvalidCertificate, Proof
from kvcore.instance import Instance, Request
from kvcore.metrics import SUMS, Value, check_objective, scale_of

MOST_LABELS, TRIES = 3_000_000, 300
"""Labels that a checker follows, and batches and other labels that it tries for each on average, at the most."""
LABEL_WORK = 60_000
"""What a label takes at the most, with its tries."""
SLICE = 2**20
"""Tries after which Python has its turn."""
MOST_REQUESTS, MOST_TOKENS = 8, 10**6
"""Larger instances are refused: nothing could be proved in so many labels."""
LARGE = 2**58
"""All times, times all rates, are below."""


class Fresh(Proof):
    """Look at the first `labels` orders of batches, by what they come to at the least, or all up to the best.

    Any numbers are safe: where the search stops early, no schedule is below the label that comes next. Labels of
    `target` or more are left out (in ticks; for normalized-latency times the common multiple of the outputs).
    `function` is the one of the cost that batches take.
    """

    kind: Literal["fresh"] = "fresh"
    function: Annotated[int, Field(ge=0, le=1000)] = 0
    labels: Annotated[int, Field(ge=1, le=MOST_LABELS)]
    target: Annotated[int, Field(ge=0, le=LARGE)] | None = None

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return what no schedule is below after so many labels."""
        upper = None if self.target is None else Fraction(self.target, scale_of(instance.requests, objective))
        return FreshSearch(instance, objective, self.function, self.labels, upper, budget).run().bound

    @property
    def why(self) -> str:
        """The argument in words."""
        return f"each token is processed once at the least: {self.labels} orders of batches were tried, the best first"


@dataclass(frozen=True)
class Look:
    """What a search came to."""

    bound: Value
    labels: int
    """Labels that a proof of the same bound needs."""
    is_over: bool
    """Whether more labels would prove no more."""
    order: tuple[tuple[int, ...], ...] | None = None
    """Where the best order was found: the requests that each of its batches generates tokens of."""


class FreshSearch:
    """The search on one instance, for one objective and function of the cost, which goes on where it stopped."""

    def __init__(
        self, instance: Instance, objective: str, function: int, labels: int, upper: Value | None = None,
        budget: Budget | None = None,
    ) -> None:  # fmt: skip
        """Prepare the search. Raises InvalidCertificate if it is not for such an instance, or has no hope."""
        check_size(instance, objective)
        requests, self.objective, self.most = instance.requests, objective, labels
        self.unit, rates = scale_of(requests, objective), [1] * len(requests)
        if objective == "normalized-latency":
            rates = [self.unit // request.output for request in requests]
        elif objective == "weighted-flow-time":
            rates = [request.weight for request in requests]
        if function >= len(instance.cost.functions):
            raise InvalidCertificate(f"the cost has no function {function}")
        self.divisor = instance.cost.functions[function].divisor
        self.before = sum(rate * request.arrival for rate, request in zip(rates, requests, strict=True))
        self.target = None if upper is None else ceil(upper * self.unit)
        self.jobs = _jobs(instance, objective, function, rates, self.target, self.before)
        memory = labels * (116 + 24 * len(requests))
        (budget or Budget()).spend(f"a search of {labels} labels", LABEL_WORK * labels, memory)
        f = self.labels = kernels.room(len(requests), labels)
        for i, request in enumerate(requests):
            f.ready[0, i] = f.open[0, i] = request.arrival * self.divisor
        f.tokens[0], f.is_open[0], f.count[ROWS] = self.jobs.length.sum(), True, 1
        f.bound[0] = kernels.least(self.jobs, f, 0)
        push(f, 0)

    def run(self, labels: int | None = None, stops: Callable[[], bool] = lambda: False) -> Look:
        """Go on until there are so many labels in all, or it is over; or `stops` says so, which is asked at times."""
        f, code = self.labels, kernels.PAUSED
        labels = self.most if labels is None else min(labels, self.most)
        while code == kernels.PAUSED and not stops():
            code = kernels.search(self.jobs, f, labels, labels * TRIES, int(f.count[TRIED]) + SLICE)
        reached = self.jobs.target if code == kernels.EMPTY else min(self.jobs.target, int(f.bound[f.heap[0]]))
        bound = (Fraction(reached, self.divisor) - self.before) / self.unit
        is_over = code in (kernels.EMPTY, kernels.FOUND)
        if is_over or code == kernels.PAUSED:
            labels = min(labels, max(int(f.count[ROWS]) + 1, -(-int(f.count[TRIED]) // TRIES)))
        value = bound if self.objective == "normalized-latency" else ceil(bound)
        return Look(value, labels, is_over, self._order(int(f.heap[0])) if code == kernels.FOUND else None)

    def _order(self, at: int) -> tuple[tuple[int, ...], ...]:
        f, masks = self.labels, list[int]()
        while at:
            masks.append(int(f.batch[at]))
            at = int(f.parent[at])
        return tuple(tuple(i for i in range(len(self.jobs.length)) if mask >> i & 1) for mask in reversed(masks))


def check_size(instance: Instance, objective: str) -> None:
    """Raise InvalidCertificate if a search is not for such an objective, or has no hope."""
    if check_objective(objective) not in SUMS:
        raise InvalidCertificate(f"orders of fresh work are for sums over requests, not for {objective}")
    if len(instance.requests) > MOST_REQUESTS:
        raise InvalidCertificate(f"orders of fresh work take {MOST_REQUESTS} requests at the most")
    if sum(request.output for request in instance.requests) > MOST_TOKENS:
        raise InvalidCertificate(f"orders of fresh work take {MOST_TOKENS} tokens to generate at the most")


def _jobs(
    instance: Instance, objective: str, function: int, rates: list[int], target: int | None, before: int
) -> kernels.Jobs:
    """Return the chains of tokens, as one function of the cost has them."""
    line, requests = instance.cost.functions[function], instance.requests
    busy = line.busy + min(line.any_decode, line.any_prefill)
    token = line.generated + min(line.decode_requests, line.prefill_requests)
    chains = [chain_of(request)[: 1 if objective == "total-ttft" else None] for request in requests]
    shape = len(requests), max(map(len, chains))
    work, early, call, rest = (np.zeros(shape, dtype=object) for _ in range(4))
    for i, chain in enumerate(chains):
        for k, (fresh, duration) in enumerate(chain):
            work[i, k], call[i, k] = line.tokens * fresh + token, duration * line.divisor
            early[i, k] = line.tokens * (fresh - 1) if instance.machine.chunked else 0
        for k in reversed(range(len(chain) - 1)):
            rest[i, k] = call[i, k] + busy + work[i, k + 1] + rest[i, k + 1]
    last = max(request.arrival for request in requests) * line.divisor + (work + call + busy).sum()
    most = LARGE if target is None else (target + before) * line.divisor
    if last * sum(rates) >= LARGE or before * line.divisor >= LARGE:
        raise InvalidCertificate("numbers are too large to be added up")
    low, (work, early, call, rest) = min(rates), (each.astype(np.int64) for each in (work, early, call, rest))
    rate = np.array([rate - low for rate in rates])
    length = np.array([len(chain) for chain in chains])
    return kernels.Jobs(length, work, early, call, rest, busy, rate, low, min(LARGE, most))


def chain_of(request: Request) -> list[tuple[int, int]]:
    """Return for each token of a request what is fresh in it, and the ticks of the call after it."""
    chain, fresh = list[tuple[int, int]](), request.prompt
    for segment in request.segments:
        duration, returns = (segment.call.duration, segment.call.returns) if segment.call else (0, 0)
        chain += [(fresh if k == 0 else 1, 0) for k in range(segment.decode)]
        chain[-1] = chain[-1][0], duration
        fresh = 1 + returns
    return chain
