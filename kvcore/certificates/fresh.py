"""Fresh work: each token is processed once, and what does not fit in memory again.

All else is left out: limits of a batch, and all functions of the cost but one. A batch takes `busy` and what its tokens
take. Of the prefills in parts only so much is kept as the time allows. All work is in time.

A label covers a moment T of a schedule with the same tokens generated if it is no later in anything: (1) to (3) of
docs/fresh.md, where `open` is o, `ready` r, `each` b, and start = max(time, ready) s. One of the labels that the search
derives from it covers the end T' of the next batch that generates tokens. So no schedule is below the least bound of
the labels still to be followed.

**The least that is left.** Of the work b x_i done early by T, what exceeds min(b x_i, start_i - open_i) is its extra.
The extras with start_i >= u fit into T - u: by (3) they are at most T - open_j - (start_j - open_j), with j the one of
them that is open first. Moved by `busy` they end by T + busy, and later batches work only after their fixed part. So
one machine that may be interrupted, and works on i from start_i + busy on, does at least w_i - min(b n_i, start_i -
open_i) of each before its next token ends; the sum of ends is least where the shortest work left goes first. Each
request alone ends its next token no earlier than `time'` with F of it alone, and takes for each token after that its
work in as many batches as the budget asks for.

**Memory.** A label also says where the `kept` tokens are whose KV a request's last token left: HERE, on the device;
AWAY, on the host; or PART: nothing kept, at most `device` of it on the device at T. Fresh is all of the next context
but `kept`; x counts KV beyond `kept` that no discard is yet to take. A label also covers moments covered with some
requests made PART, open = start: their KV may be gone by T.

Without `partial`, work needs all KV on the device, and a move takes all. Up to T' a request outside F stays PART, or
stays, is swapped to the other side, or is dropped and becomes PART, its KV processed since, from start_i on. One of F
that was AWAY is swapped in, or dropped likewise. So of the children, one for each choice of all, one happened. If KV of
F that is HERE was gone at T, more is left to process: time' and open' hold with more. In the child that happened

* the contexts of F and `kept` HERE fit the blocks of the device, `kept` AWAY the host: R6 and R7 in the batch of F. The
  room left for whole blocks, or the context but one token, is `device` of PART; without a host also kept = `device`
  with open = max(time', ready), where by `open` there could be more.
* T' - T takes all swaps, `moves`, in the function where they take most. Of the L tokens by which the contexts of those
  of F that were PART exceed `device`, p are processed and u swapped in: T' - T >= busy + b p and >= moves + h u, with h
  for a token swapped in, so (b + h) (T' - T) >= h (busy + b L) + b moves.

To cover another label, places agree, and `kept` and `device` are no less; but where nothing is kept or processed before
start all places are alike, and PART covers HERE where its `device` is the context but one token.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate
from math import ceil
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from kvcore.certificates import fresh_kernels as kernels
from kvcore.certificates.budget import Budget, InvalidCertificate, Most, Work
from kvcore.certificates.labels import LARGE, End, begin, run
from kvcore.certificates.proof import Proof
from kvcore.certificates.tokens import check_size, fixed_of, swaps_of, tokens_of
from kvcore.features import RULES, SUMS, Feature, Takes
from kvcore.instance import Instance
from kvcore.metrics import Value, least_value, scale_of, weight


class Fresh(Proof):
    """Look at the first `labels` orders of batches by their lower bounds, or all up to the best.

    Any numbers are safe: where the search stops early, no schedule is below the next label. Labels of `target` or more
    (in ticks; for normalized-latency times the common multiple of the outputs) are left out. `function` is the cost
    function. Contexts that do not fit together are swapped as a whole, or processed again.
    """

    kind: Literal["fresh"] = "fresh"
    takes: ClassVar = Takes((RULES | SUMS) - {Feature.PARTIAL})
    argument: ClassVar = (
        "each token is processed once, and what does not fit again: {0.labels} orders were tried, the best first"
    )
    function: Annotated[int, Field(ge=0, le=1000)] = 0
    memory: bool = False
    """True; older files may be without it."""
    fee: Annotated[Literal[0], Field(exclude=True)] = 0
    levels: Annotated[tuple[()], Field(exclude=True)] = ()
    """Nothing; older files have these."""
    labels: Annotated[int, Field(ge=1, le=Most.labels)]
    target: Annotated[int, Field(ge=0, le=LARGE)] | None = None

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return the lower bound after this many labels."""
        if not self.memory:
            raise InvalidCertificate("fresh without memory proves nothing any more: potentials of work prove the same")
        upper = None if self.target is None else Fraction(self.target, scale_of(instance.requests, objective))
        search = FreshSearch(instance, objective, self.function, self.labels, upper, budget)
        return search.run().bound


class FreshSearch:
    """The search on one instance, for one objective and cost function."""

    def __init__(
        self, instance: Instance, objective: str, function: int, labels: int, upper: Value | None = None,
        budget: Budget | None = None,
    ) -> None:  # fmt: skip
        """Prepare the search. Raises InvalidCertificate if it is hopeless."""
        check_size(instance)
        requests, self.objective, self.most = instance.requests, objective, labels
        self.unit = scale_of(requests, objective)
        rates = [int(self.unit * weight(request, objective)) for request in requests]
        if function >= len(instance.cost.functions):
            raise InvalidCertificate(f"the cost has no function {function}")
        self.divisor = instance.cost.functions[function].divisor
        self.before = sum(rate * request.arrival for rate, request in zip(rates, requests, strict=True))
        self.target = None if upper is None else ceil(upper * self.unit)
        self.jobs = _jobs(instance, objective, function, rates, self.target, self.before)
        size = 116 + 48 * len(requests)
        (budget or Budget()).spend(f"a search of {labels} labels", Work.label * labels, size * labels)
        f = self.orders = kernels.room(len(requests), labels)
        f.ready[0] = f.open[0] = [request.arrival * self.divisor for request in requests]
        f.labels.left[0], f.labels.bound[0] = self.jobs.length.sum(), kernels.least(self.jobs, f, 0)
        begin(f.labels, self.jobs.target)

    def run(self, labels: int | None = None, stops: Callable[[], bool] = lambda: False) -> End:
        """Go on until there are this many labels, the search is over, or `stops` says so."""
        most = min(labels or self.most, self.most)
        end = run(kernels.search, self.jobs, self.orders, most, stops)
        bound = (Fraction(end.bound, self.divisor) - self.before) / self.unit
        return end._replace(bound=least_value(bound, self.objective))


def _jobs(
    instance: Instance, objective: str, function: int, rates: list[int], target: int | None, before: int
) -> kernels.Chains:  # fmt: skip
    line, requests, busy = instance.cost.functions[function], instance.requests, fixed_of(instance, function)
    machine = instance.machine
    length, call, rest, context, token = tokens_of(instance, objective, function)
    lost, tokens = np.zeros(call.shape, dtype=object), context.max(axis=1).sum()
    for i, request in enumerate(requests):
        ends = accumulate(segment.decode for segment in request.segments)
        for end, segment in zip(ends, request.segments, strict=True):
            if segment.call and segment.call.handling == "discard" and end < length[i]:
                lost[i, end - 1] = 1
    last = max(request.arrival for request in requests) * line.divisor
    out, back = max((swaps_of(instance, function, k) for k in range(len(instance.cost.functions))), key=sum)
    # all work, and all of each context with each token, once more for what `restored` multiplies
    last += call.sum() + busy + (busy + line.tokens) * tokens + token * sum(length)
    last += (busy + (line.tokens + out + back) * tokens) * (sum(length) + line.tokens + back)
    below = LARGE if target is None else (target + before) * line.divisor
    if max(last * sum(rates), before * line.divisor, tokens) >= LARGE:
        raise InvalidCertificate("numbers are too large to be added up")
    low = min(rates)
    names = {"call": call, "rest": rest, "length": length, "context": context, "lost": lost}
    return kernels.Chains(
        **{name: np.array(each, dtype=np.int64) for name, each in names.items()}, busy=busy, each=line.tokens,
        rate=np.array([rate - low for rate in rates]), low=low, target=min(LARGE, below),
        token=token, chunked=machine.chunked, block=machine.block, swap_out_ticks=out, swap_in_ticks=back,
        blocks=min(LARGE, machine.memory or LARGE) // machine.block,
        host=LARGE if machine.host_memory is None else min(LARGE, machine.host_memory),
    )  # fmt: skip
