"""Fresh work: each token is processed at least once, and a batch costs its fixed part for all in it.

All else is left out: moves, repeated work, limits of a batch, all functions of the cost but one; without `memory`, also
memory. What is left is a machine that serves chains of tokens in batches; each batch takes `busy` and what its fresh
tokens take. Of the prefills in parts only so much is kept as the time allows. All work is in time.

**Labels.** Only batches that generate tokens are looked at. A label is what is known after one: how many tokens each
request has; the sum of the ends of completed requests; `time`, the end of the batch; and for each request `ready`, when
its next token may be worked on (after its arrival, or its last batch and call), and `open`, since when the work on that
token which is done by now may have gone on: open <= max(time, ready).

Work done early, in batches before that of its token, counts b' = b + fee a token, b being what a token takes. Where a
batch holds at most C tokens, fee C <= busy, so a batch that generates nothing takes b' a token. A label covers a moment
T of a schedule, in which no batch runs, if the same tokens are generated, and

    (1)  time <= T, and the sum of the ends is no more,
    (2)  max(time, ready_i) <= max(T, when i may truly be worked on),
    (3)  min over i in Z of open_i + b' x(Z) <= T  for each set Z of requests with x(Z) > 0 tokens processed early.

**Between** batches that generate tokens no label changes: work on request i begins at
max(T, when i may be worked on) >= max(time, ready_i) >= open_i, so (3) still holds when c(Z) more are processed.

**A batch that generates tokens of F** starts at s, where the label is covered; in the next label it starts at
S = max(time, ready_i of F) <= s. Let N be the fresh tokens of F and w their work, n how many of them may be processed
early (on chunked machines all but one a request, else none), G_i = S - open_i, and G(Y) the largest of a set. Then

    time'   = S + busy + w - min over Y in F of (G(Y) + b n(F - Y) - fee max(0, N - C - n(F - Y)))
    open'_j = S + busy - fee C + w + fee N - min over Y in F of (G(Y + j) + b' n(F - Y)),

or max(time', ready_j) if that is less, for each j outside F; for the empty set G is 0 in the first line. This covers
the end T' of the batch, which processes N - x(F) <= C fresh tokens for F, and c for others: T' >= s + busy + w - b
x(F) + b c. Let Y be any set in F. (1): if x(Y) > 0, s >= S - G(Y) + b' x(Y) by (3), so T' >= S + busy + w - G(Y)
+ fee x(Y) - b x(F - Y). As x(Y) >= N - C - x(F - Y), and x(F - Y) <= n(F - Y), that is at least time'. If x(Y) = 0, s
>= S gives the same. (3) for Z with x(Z) + c(Z) > 0: as N - x(F) + c <= C, b c >= b' c - fee (C - N + x(F)), and T' >=
s + busy - fee C + w + fee N - b' x(F) + b' c. Take the j of Z with the largest G, and its Y. If x(Z + Y) > 0, s >= S -
G(Y + j) + b' x(Z + Y), and b' x(F - Y) <= b' n(F - Y), so T' >= open'_j + b' (x(Z) + c(Z)). If it is 0, some i of
Z is worked on in the batch, so s >= max(S, open_i) >= S - G(Y + j), as G_i <= G_j and no G of F is below 0; the
same follows. (2) is plain, and of the next tokens of F nothing is done: open' = ready'. Any sets Y are safe: taken
are the empty one and, for each i of F, all of F with no larger G.

**Dominance**: of two labels with the same tokens, one with no later time, max(time, ready) and open, and no larger sum,
covers what the other covers. Batches lead to more tokens, so no label is left out for one that follows it.

**The least that is left.** Let start_i = max(time, ready_i), and credit_i = start_i - open_i >= 0. At T at most n_i
tokens of i are done, b x_i of work; what exceeds min(b x_i, credit_i) is its extra. The extras fit, interrupted, into
the time from start_i to T: those with start_i >= s are b x(Z) less their credits for the set Z of those with any, by
(3) at most T - open_j - credit_j = T - start_j <= T - s, with j the one of Z that is open first. Moved by `busy` they
end by T + busy, and after T each batch works only after its fixed part. So one machine that may be interrupted, and
works on i from start_i + busy on, does at least w_i - min(b n_i, credit_i) of each by the time its next token ends.
The sum of ends is least where the shortest work left goes first. Each request alone ends its next token no earlier
than `time'` with F of it alone, and takes for each token after that its work in as many batches as the budget asks for.

**With memory** (`memory`, for machines without `partial`) a label also says where the `kept` tokens are whose KV a
request's last token left: HERE, all on the device; AWAY, all on the host; PART, not all of them are there since, or
the call discards them. PART has kept = 0, and at most `device` tokens of it were on the device at T. Fresh tokens above
are now all of the context of the next token but `kept`, and x counts the KV beyond `kept` that no discard of a call is
yet to take. A label also covers the moments covered with some requests HERE or AWAY made PART, nothing kept, and
open = max(time, ready): all of their KV may be gone by T.

Without `partial` all KV of a request is on one side: work needs all of it on the device, and each move takes all. From
T to the end T' of the next batch that generates tokens, of F, a request outside F whose KV was HERE or AWAY, and is not
dropped, is HERE or AWAY at T'; if the side is another, its `kept` tokens were swapped in between. If it was dropped it
becomes PART, and what there is of it was processed since then, no sooner than max(time, ready). PART stays PART. A
request of F that was AWAY was swapped in, or dropped likewise. So a request outside F has at most three choices, and
one of F two; of the children, one for each choice of all, one happened. In it

* the contexts of F and the `kept` of those HERE fit into the blocks of the device, the `kept` of those AWAY into the
  host: R6 and R7 during the batch of F. The room left for whole blocks is the `device` of those that are PART (or the
  context but one token, which would have been generated). Without host memory they have no more KV than that, so
  kept = `device` and open = max(time', ready) holds as well; it is taken where by `open` there could be more.
* T' - T is at least `moves`, what the swaps take: each batch takes what its swaps take, in the function where these
  take most. Let L be the tokens that the contexts of those of F that were PART have more than `device`. Each was
  processed or swapped in after T: p + u >= L, T' - T >= busy + b p, and T' - T >= moves + back u. Back times the first
  and b times the second add up to (b + back) (T' - T) >= back (busy + b L) + b moves.

If all KV of a request of F was gone at T, as a label that has it HERE allows, more is left to process, and it is open
no sooner: time' and open' as above are no more than with that, so they hold. Where nothing is kept, and nothing was
processed before max(time, ready), HERE and AWAY are therefore as good as PART: dominance uses it. Else the places must
agree, and `kept` and `device` be no less; but PART covers HERE where its `device` is all of the context but one token.

**With memory and `partial`** nothing above is said of places: KV that was dropped may be kept on the host for nothing.
But what is not on the device is processed or swapped in. Of what a batch takes, with r for a token swapped in by some
function and x = r / (b + r), its work is at least busy + b p and its moves r u; x of the first and 1 - x of the second
are `reload_base` = x busy, if it works, and `reload_ticks` = x b for each of the p + u tokens (rounded down). Without a
host these are busy and b; if r is in the same function, busy and min(b, r). A label also says of each request that at
most `device` tokens of its KV, and y_i more, are on the device at T (not counting what the discard of a call is yet to
take), where `away` <= time for each, and

    (4)  min over i in Z of away_i + reload_ticks y(Z) <= T  for each set Z of requests with y(Z) > 0.

A batch that generates nothing and starts at s >= T adds at most c(Z) to y(Z), and lasts reload_ticks c(Z): (4) holds.
One that generates tokens of F brings `need` tokens of each to the device; at most need - 1 of these were there, so y <=
n = need - 1 - device. Let N(F) be the sum of need - device. With the same S, G_i = S - away_i >= 0, b' and b made
`reload_ticks`, busy made `reload_base` and fee = 0, time' and open' above are a further bound of T', and `away` of
those outside F: the proof is that of (1) and (3), with s >= time >= away_i where some i of Z comes back in the batch.
After it

* all KV of those in F is on the device, `need` tokens (none, if the call discards it), and away = time';
* R6 leaves room for R whole blocks of the others, with what they process in it. If all their KV fits, each has at most
  R. Else let each but the last have between l_i and h_i blocks, for one of ROOM_PARTS ranges that cover 0 to R; the
  last has at least 0. Of the children, one for each choice, one happened. None has more than h_i, nor R less the l of
  the others. If that is less than (4) lets it have at time', or if all of its KV is, `device` is that number and away =
  time'.

A label covers what another with no less `device` covers, if its `away` is later by no more than reload_ticks times what
its `device` is more: then y_i may be less by that, and (4) for those with y_i > 0 still follows. The least that is left
is as above: each alone ends no earlier than the further bound of time' with F of it alone, and all in turns, with
start_i = time, as what comes back need not wait for a call; what does so before the first batch that works is moved by
`reload_base`, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import ceil
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from kvcore.certificates import fresh_kernels as kernels
from kvcore.certificates.budget import Budget
from kvcore.certificates.labels import FOUND, begin, run
from kvcore.certificates.proof import InvalidCertificate, Proof
from kvcore.features import RULES, SUMS, Takes
from kvcore.instance import Instance, Request
from kvcore.metrics import Value, least_value, scale_of, weight

MOST_LABELS = 3_000_000
LABEL_WORK = 60_000
"""Of a label, with its tries."""
ROOM_PARTS = 4
"""Parts of the room beside a batch for each request but one, with `partial`."""
MOST_REQUESTS, MOST_TOKENS = 8, 10**6
"""Larger instances are refused as hopeless."""


class Fresh(Proof):
    """Look at the first `labels` orders of batches by their lower bounds, or all up to the best.

    Any numbers are safe: where the search stops early, no schedule is below the next label. Labels of `target` or more
    (in ticks; for normalized-latency times the common multiple of the outputs) are left out. `function` is the cost
    function, `fee` the part of its fixed cost that each token pays in a batch that generates nothing: at most all of it
    in a full batch. With `memory` contexts that do not fit together are swapped or processed again.
    """

    kind: Literal["fresh"] = "fresh"
    takes: ClassVar = Takes(RULES | SUMS)
    function: Annotated[int, Field(ge=0, le=1000)] = 0
    fee: Annotated[int, Field(ge=0, le=10**15)] = 0
    memory: bool = False
    levels: Annotated[tuple[()], Field(exclude=True)] = ()
    """Always empty; older files have it."""
    labels: Annotated[int, Field(ge=1, le=MOST_LABELS)]
    target: Annotated[int, Field(ge=0, le=kernels.LARGE)] | None = None

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return the lower bound after this many labels."""
        upper = None if self.target is None else Fraction(self.target, scale_of(instance.requests, objective))
        search = FreshSearch(instance, objective, self.function, self.labels, upper, budget, self.fee, self.memory)
        return search.run().bound

    @property
    def why(self) -> str:
        """The argument."""
        return f"each token is processed once at the least: {self.labels} orders of batches were tried, the best first"


@dataclass(frozen=True)
class Outcome:
    """What a search came to."""

    bound: Value
    labels: int
    is_over: bool
    """Whether more labels prove no more."""
    is_complete: bool
    """Whether the next label is an order of all batches."""


class FreshSearch:
    """The search on one instance, for one objective and cost function."""

    def __init__(
        self, instance: Instance, objective: str, function: int, labels: int, upper: Value | None = None,
        budget: Budget | None = None, fee: int = 0, memory: bool = False, room_parts: int = ROOM_PARTS,
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
        (budget or Budget()).spend(f"a search of {labels} labels", LABEL_WORK * labels, size * labels)
        f = self.orders = kernels.room(len(requests), labels)
        f.ready[0] = f.open[0] = [request.arrival * self.divisor for request in requests]
        f.labels.left[0], f.labels.bound[0] = self.jobs.length.sum(), kernels.least(self.jobs, f, 0)
        begin(f.labels, self.jobs.target)

    def run(self, labels: int | None = None, stops: Callable[[], bool] = lambda: False) -> Outcome:
        """Go on until there are this many labels, the search is over, or `stops` says so."""
        most = min(labels or self.most, self.most)
        end = run(kernels.search, self.jobs, self.orders, most, stops)
        bound = (Fraction(end.reached, self.divisor) - self.before) / self.unit
        return Outcome(least_value(bound, self.objective), end.labels, end.is_over, end.code == FOUND)


def check_size(instance: Instance) -> None:
    """Raise InvalidCertificate for a hopeless search."""
    if len(instance.requests) > MOST_REQUESTS:
        raise InvalidCertificate(f"orders of fresh work take {MOST_REQUESTS} requests at the most")
    if sum(request.output for request in instance.requests) > MOST_TOKENS:
        raise InvalidCertificate(f"orders of fresh work take {MOST_TOKENS} tokens to generate at the most")


def can_bind(instance: Instance) -> bool:
    """Return whether contexts may not fit together."""
    machine = instance.machine
    if machine.memory is None:
        return False
    return sum(machine.blocks(request.peak) for request in instance.requests) > machine.memory // machine.block


def most_fee(instance: Instance, function: int) -> int:
    """Return the fixed cost of a batch over its most tokens (0: no limit, or whole prefills)."""
    budget = instance.machine.batch_tokens if instance.machine.chunked else None
    return 0 if budget is None else _fixed(instance, function) // budget


def _fixed(instance: Instance, function: int) -> int:
    line = instance.cost.functions[function]
    return line.busy + min(line.any_decode, line.any_prefill)


def _jobs(
    instance: Instance, objective: str, function: int, fee: int, memory: bool, rates: list[int], target: int | None,
    before: int, room_parts: int,
) -> kernels.Chains:  # fmt: skip
    line, requests, busy = instance.cost.functions[function], instance.requests, _fixed(instance, function)
    machine = instance.machine
    token = line.generated + min(line.decode_requests, line.prefill_requests)
    chains = [chain_of(request)[: 1 if objective == "total-ttft" else None] for request in requests]
    shape = len(requests), max(map(len, chains))
    work, fresh, call, rest, context, lost = (np.zeros(shape, dtype=object) for _ in range(6))
    budget = machine.batch_tokens if machine.chunked else None
    most = budget or 1 + sum(new for chain in chains for new, _ in chain)
    for i, chain in enumerate(chains):
        for k, (new, duration) in enumerate(chain):
            work[i, k], fresh[i, k], call[i, k] = line.tokens * new + token, new, duration * line.divisor
            context[i, k] = new + (context[i, k - 1] if k else 0)
        ends = accumulate(segment.decode for segment in requests[i].segments)
        for end, segment in zip(ends, requests[i].segments, strict=True):
            if memory and segment.call and segment.call.handling == "discard" and end < len(chain):
                lost[i, end - 1] = 1
        for k in reversed(range(len(chain) - 1)):
            batches = -(-fresh[i, k + 1] // most) if machine.chunked else 1
            rest[i, k] = call[i, k] + busy * batches + work[i, k + 1] + rest[i, k + 1]
    last = max(request.arrival for request in requests) * line.divisor
    last += (work + fee * fresh + call).sum() + busy * (1 + fresh.sum())
    out, back = _moves(instance, line.divisor) if memory else (0, 0)
    if memory:  # ... and all of each context with each token, once more for what `restored` multiplies
        largest = busy + (line.tokens + fee + out + back) * context.max(axis=1).sum()
        last += largest * (sum(map(len, chains)) + line.tokens + back)
    reload_base, reload_ticks = _reload(instance, function)
    below = kernels.LARGE if target is None else (target + before) * line.divisor
    if max(last * sum(rates), before * line.divisor, fresh.sum()) >= kernels.LARGE:
        raise InvalidCertificate("numbers are too large to be added up")
    low, length = min(rates), [len(chain) for chain in chains]
    names = {"call": call, "rest": rest, "length": length, "context": context, "lost": lost}
    return kernels.Chains(
        **{name: np.array(each, dtype=np.int64) for name, each in names.items()}, busy=busy, each=line.tokens, fee=fee,
        budget=most, rate=np.array([rate - low for rate in rates]), low=low, target=min(kernels.LARGE, below),
        token=token, chunked=machine.chunked, limited=memory and not machine.partial,
        room_parts=room_parts if memory and machine.partial else 0, reload_base=reload_base, reload_ticks=reload_ticks,
        block=machine.block, swap_out_ticks=out, swap_in_ticks=back,
        blocks=min(kernels.LARGE, machine.memory or kernels.LARGE) // machine.block,
        host=kernels.LARGE if machine.host_memory is None else min(kernels.LARGE, machine.host_memory),
    )  # fmt: skip


def _moves(instance: Instance, divisor: int) -> tuple[int, int]:
    lines = instance.cost.functions
    rates = [(x.swap_out_tokens * divisor // x.divisor, x.swap_in_tokens * divisor // x.divisor) for x in lines]
    return max(rates, key=sum)


def _reload(instance: Instance, function: int) -> tuple[int, int]:
    main, busy = instance.cost.functions[function], _fixed(instance, function)
    if instance.machine.host_memory == 0:
        return busy, main.tokens
    found = [(min(main.tokens, main.swap_in_tokens), busy)]
    for line in instance.cost.functions:
        rate = line.swap_in_tokens * main.divisor // line.divisor
        whole = max(1, main.tokens + rate)
        found.append((main.tokens * rate // whole, busy * rate // whole))
    return max(found)[::-1]


def chain_of(request: Request) -> list[tuple[int, int]]:
    """Return the fresh tokens of each token, and the ticks of the call after it."""
    chain, fresh = list[tuple[int, int]](), request.prompt
    for segment in request.segments:
        duration, returns = (segment.call.duration, segment.call.returns) if segment.call else (0, 0)
        chain += [(fresh if k == 0 else 1, 0) for k in range(segment.decode)]
        chain[-1] = chain[-1][0], duration
        fresh = 1 + returns
    return chain
