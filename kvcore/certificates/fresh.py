"""Fresh work: each token is processed at least once, and a batch costs its fixed part for all in it.

All else is left out: moves, repeated work, limits of a batch, all functions of the cost but one; without `memory`, also
memory. What is left is a machine that serves chains of tokens in batches that each take `busy` and what their fresh
tokens take. Of the prefills in parts only so much is kept as the time allows. All work is in time.

A label covers a moment T of a schedule with the same tokens generated if it is no later in anything: (1) to (3) of
docs/fresh.md, where `open` is o, `ready` r, `each` b, `fee` phi, and start = max(time, ready) s. One of the labels that
the search derives from it covers the end T' of the next batch that generates tokens. So no schedule is below the least
bound of the labels still to be followed.

**The least that is left.** Of the work b x_i done early by T, what exceeds min(b x_i, start_i - open_i) is its extra.
The extras with start_i >= u fit into T - u: by (3) they are at most T - open_j - (start_j - open_j), with j the one of
them that is open first. Moved by `busy` they end by T + busy, and later batches work only after their fixed part. So
one machine that may be interrupted, and works on i from start_i + busy on, does at least w_i - min(b n_i, start_i -
open_i) of each before its next token ends; the sum of ends is least where the shortest work left goes first. Each
request alone ends its next token no earlier than `time'` with F of it alone, and takes for each token after that its
work in as many batches as the budget asks for.

**With memory** (`memory`, for machines without `partial`) a label also says where the `kept` tokens are whose KV a
request's last token left: HERE, on the device; AWAY, on the host; or PART: nothing kept, at most `device` of it on the
device at T. Fresh is all of the next context but `kept`; x counts KV beyond `kept` that no discard is yet to take. A
label also covers moments covered with some requests made PART, open = start: their KV may be gone by T.

Work needs all KV on the device, and a move takes all. Up to T' a request outside F stays PART, or stays, is swapped to
the other side, or is dropped and becomes PART, its KV processed since, from start_i on. One of F that was AWAY is
swapped in, or dropped likewise. So of the children, one for each choice of all, one happened. If KV of F that is HERE
was gone at T, more is left to process: time' and open' hold with more. In the child that happened

* the contexts of F and `kept` HERE fit the blocks of the device, `kept` AWAY the host: R6 and R7 in the batch of F. The
  room left for whole blocks, or the context but one token, is `device` of PART; without a host also kept = `device`
  with open = max(time', ready), where by `open` there could be more.
* T' - T takes all swaps, `moves`, in the function where they take most. Of the L tokens by which the contexts of those
  of F that were PART exceed `device`, p are processed and u swapped in: T' - T >= busy + b p and >= moves + h u, with h
  for a token swapped in, so (b + h) (T' - T) >= h (busy + b L) + b moves.

To cover another label, places agree, and `kept` and `device` are no less; but where nothing is kept or processed before
start all places are alike, and PART covers HERE where its `device` is the context but one token.

**With memory and `partial`** nothing is said of places, but what is not on the device comes back. With h of some
function and y = h / (b + h), y of the work and 1 - y of the moves of a batch are `reload_base` = y busy, if it works,
and `reload_ticks` = y b for each token that comes back (rounded down); without a host busy and b; with h in the same
function busy and min(b, h). A label says that at most `device` tokens of each, and z_i more, are on the device at T,
and `away` <= time, with

    (4)  min over i in Z of away_i + reload_ticks z(Z) <= T  for each set Z of requests with z(Z) > 0.

With away, reload_ticks, reload_base, no fee and n_i = context - 1 - device in place of open, b, busy, fee and n, time'
and open' are a further bound of T', and `away` of those outside F: as (1) and (3), with s >= time >= away_i where some
i of Z comes back in the batch. After it all KV of F is on the device, and away = time'. R6 leaves R whole blocks for
the others. If their KV does not fit, each but the last has between l_i and h_i, one of `room_parts` ranges that cover 0
to R, and none more than R less the l of the others: one of the children happened. If (4) lets it have that by time',
`device` is that number and away = time'. To cover another label `away` may be later by reload_ticks for each token that
`device` is more. What is left is as above, with start = time: what comes back need not wait for a call.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate
from math import ceil
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from kvcore.certificates import fresh_kernels as kernels
from kvcore.certificates.budget import Budget, InvalidCertificate, Most, Work
from kvcore.certificates.labels import LARGE, End, begin, run
from kvcore.certificates.proof import Proof
from kvcore.features import RULES, SUMS, Takes
from kvcore.instance import Instance, Request
from kvcore.metrics import Value, least_value, scale_of, weight


class Fresh(Proof):
    """Look at the first `labels` orders of batches by their lower bounds, or all up to the best.

    Any numbers are safe: where the search stops early, no schedule is below the next label. Labels of `target` or more
    (in ticks; for normalized-latency times the common multiple of the outputs) are left out. `function` is the cost
    function, `fee` the part of its fixed cost that each token pays in a batch that generates nothing: at most all of it
    in a full batch. With `memory` contexts that do not fit together are swapped or processed again.
    """

    kind: Literal["fresh"] = "fresh"
    takes: ClassVar = Takes(RULES | SUMS)
    argument: ClassVar = (
        "each token is processed once at the least: {0.labels} orders of batches were tried, the best first"
    )
    function: Annotated[int, Field(ge=0, le=1000)] = 0
    fee: Annotated[int, Field(ge=0, le=10**15)] = 0
    memory: bool = False
    levels: Annotated[tuple[()], Field(exclude=True)] = ()
    """Always empty; older files have it."""
    labels: Annotated[int, Field(ge=1, le=Most.labels)]
    target: Annotated[int, Field(ge=0, le=LARGE)] | None = None

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return the lower bound after this many labels."""
        upper = None if self.target is None else Fraction(self.target, scale_of(instance.requests, objective))
        search = FreshSearch(instance, objective, self.function, self.labels, upper, budget, self.fee, self.memory)
        return search.run().bound


class FreshSearch:
    """The search on one instance, for one objective and cost function."""

    def __init__(
        self, instance: Instance, objective: str, function: int, labels: int, upper: Value | None = None,
        budget: Budget | None = None, fee: int = 0, memory: bool = False, room_parts: int = 4,
    ) -> None:  # fmt: skip
        """Prepare the search. Raises InvalidCertificate if it is hopeless."""
        check_size(instance)
        requests, self.objective, self.most = instance.requests, objective, labels
        self.unit = scale_of(requests, objective)
        rates = [int(self.unit * weight(request, objective)) for request in requests]
        if function >= len(instance.cost.functions):
            raise InvalidCertificate(f"the cost has no function {function}")
        if fee > most_fee(instance, function):
            raise InvalidCertificate(f"a fee of {fee} a token, of a whole batch, is more than its fixed cost")
        self.divisor = instance.cost.functions[function].divisor
        self.before = sum(rate * request.arrival for rate, request in zip(rates, requests, strict=True))
        self.target = None if upper is None else ceil(upper * self.unit)
        self.jobs = _jobs(instance, objective, function, fee, memory, rates, self.target, self.before, room_parts)
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


def check_size(instance: Instance) -> None:
    """Raise InvalidCertificate for a hopeless search."""
    if len(instance.requests) > Most.fresh_requests:
        raise InvalidCertificate(f"orders of fresh work take {Most.fresh_requests} requests at the most")
    if sum(request.output for request in instance.requests) > Most.fresh_tokens:
        raise InvalidCertificate(f"orders of fresh work take {Most.fresh_tokens} tokens to generate at the most")


def most_fee(instance: Instance, function: int) -> int:
    """Return the fixed cost of a batch over its most tokens (0: no limit, or whole prefills)."""
    budget = instance.machine.batch_tokens if instance.machine.chunked else None
    return 0 if budget is None else fixed_of(instance, function) // budget


def fixed_of(instance: Instance, function: int) -> int:
    """Return what a function of the cost takes for any batch that works."""
    line = instance.cost.functions[function]
    return line.busy + min(line.any_decode, line.any_prefill)


def _jobs(
    instance: Instance, objective: str, function: int, fee: int, memory: bool, rates: list[int], target: int | None,
    before: int, room_parts: int,
) -> kernels.Chains:  # fmt: skip
    line, requests, busy = instance.cost.functions[function], instance.requests, fixed_of(instance, function)
    machine, budget = instance.machine, instance.machine.batch_tokens if instance.machine.chunked else None
    length, fresh, work, call, rest, context, token = tokens_of(instance, objective, function)
    most, lost = budget or 1 + fresh.sum(), np.zeros(work.shape, dtype=object)
    for i, request in enumerate(requests):
        ends = accumulate(segment.decode for segment in request.segments)
        for end, segment in zip(ends, request.segments, strict=True):
            if memory and segment.call and segment.call.handling == "discard" and end < length[i]:
                lost[i, end - 1] = 1
    last = max(request.arrival for request in requests) * line.divisor
    last += (work + fee * fresh + call).sum() + busy * (1 + fresh.sum())
    out, back = _moves(instance, line.divisor) if memory else (0, 0)
    if memory:  # ... and all of each context with each token, once more for what `restored` multiplies
        largest = busy + (line.tokens + fee + out + back) * context.max(axis=1).sum()
        last += largest * (sum(length) + line.tokens + back)
    reload_base, reload_ticks = _reload(instance, function)
    below = LARGE if target is None else (target + before) * line.divisor
    if max(last * sum(rates), before * line.divisor, fresh.sum()) >= LARGE:
        raise InvalidCertificate("numbers are too large to be added up")
    low = min(rates)
    names = {"call": call, "rest": rest, "length": length, "context": context, "lost": lost}
    return kernels.Chains(
        **{name: np.array(each, dtype=np.int64) for name, each in names.items()}, busy=busy, each=line.tokens, fee=fee,
        budget=most, rate=np.array([rate - low for rate in rates]), low=low, target=min(LARGE, below),
        token=token, chunked=machine.chunked, limited=memory and not machine.partial,
        room_parts=room_parts if memory and machine.partial else 0, reload_base=reload_base, reload_ticks=reload_ticks,
        block=machine.block, swap_out_ticks=out, swap_in_ticks=back,
        blocks=min(LARGE, machine.memory or LARGE) // machine.block,
        host=LARGE if machine.host_memory is None else min(LARGE, machine.host_memory),
    )  # fmt: skip


def _moves(instance: Instance, divisor: int) -> tuple[int, int]:
    lines = instance.cost.functions
    rates = [(x.swap_out_tokens * divisor // x.divisor, x.swap_in_tokens * divisor // x.divisor) for x in lines]
    return max(rates, key=sum)


def _reload(instance: Instance, function: int) -> tuple[int, int]:
    main, busy = instance.cost.functions[function], fixed_of(instance, function)
    if instance.machine.host_memory == 0:
        return busy, main.tokens
    found = [(min(main.tokens, main.swap_in_tokens), busy)]
    for line in instance.cost.functions:
        rate = line.swap_in_tokens * main.divisor // line.divisor
        whole = max(1, main.tokens + rate)
        found.append((main.tokens * rate // whole, busy * rate // whole))
    return max(found)[::-1]


class Tokens(NamedTuple):
    """Of each token of each request: the fresh ones, and in time their work, the call after it and what is left."""

    length: list[int]
    fresh: Any
    work: Any
    call: Any
    rest: Any
    context: Any
    token: int  # what one takes that is generated


def tokens_of(instance: Instance, objective: str, function: int) -> Tokens:
    """Return all tokens that count, in unbounded integers."""
    line, machine, busy = instance.cost.functions[function], instance.machine, fixed_of(instance, function)
    chains = [chain_of(request, objective) for request in instance.requests]
    token, shape = (
        line.generated + min(line.decode_requests, line.prefill_requests),
        (len(chains), max(map(len, chains))),
    )
    fresh, work, call, rest, context = (np.zeros(shape, dtype=object) for _ in range(5))
    budget = machine.batch_tokens if machine.chunked else None
    for i, chain in enumerate(chains):
        for k, (new, duration) in enumerate(chain):
            work[i, k], fresh[i, k], call[i, k] = line.tokens * new + token, new, duration * line.divisor
            context[i, k] = new + (context[i, k - 1] if k else 0)
        for k in reversed(range(len(chain) - 1)):
            batches = -(-fresh[i, k + 1] // budget) if budget else 1
            rest[i, k] = call[i, k] + busy * batches + work[i, k + 1] + rest[i, k + 1]
    return Tokens([len(chain) for chain in chains], fresh, work, call, rest, context, token)


def chain_of(request: Request, objective: str = "") -> list[tuple[int, int]]:
    """Return the fresh tokens of each token that counts, and the ticks of the call after it."""
    if objective == "total-ttft":
        return [(request.prompt, 0)]
    chain, fresh = list[tuple[int, int]](), request.prompt
    for segment in request.segments:
        duration, returns = (segment.call.duration, segment.call.returns) if segment.call else (0, 0)
        chain += [(fresh if k == 0 else 1, 0) for k in range(segment.decode)]
        chain[-1] = chain[-1][0], duration
        fresh = 1 + returns
    return chain
