"""Potentials: KV has prices in time, so that nothing is computed or copied for nothing.

A batch takes at least `fixed`, `each` for a token processed, `token` for one generated (in ticks times the divisor
of `function`), and `out` or `back` for one swapped (by `moves`). Request i has m_i tokens of KV on the device and
h_i on the host; its next token may be worked on from r_i on, and is generated with K_i on the device, the last one
with k_i, or 0.

**Definition.** A potential has weights y (`compute`), g (`wait`, of a request w), z = U - y - g >= 0, where U is
`scale`, and prices p_i, q_i >= 0 (`device`, `host`) with

    p_i <= y each,  q_i - p_i <= z out,  p_i - q_i <= z back.

At T it is worth (U - g) T + g r_w - v, with v the sum of p_i m_i + q_i h_i; once w is over nothing is said. One with
y = U and no prices is always there.

**Lemma 1.** (U - g) T - v never falls. *Proof.* In a batch of D, (U - g) D >= y D + z D pays for what raises v;
drops and ends lower it. QED And r_w only rises.

**Lemma 2.** At T m_i + h_i <= K_i - 1, and <= k_i where T <= r_i; all fits device and host. With V the largest such
v, a potential is worth (U - g) T + g r_w - V from then on. *Proof.* The last token known is processed as the next is
generated; before r_i nothing is (R2). Within a batch let KV change evenly. Contexts only grow; v leaves out who is
over by now. QED

**Lemma 3.** Let it be worth W as a batch starts at S that generates tokens of F; y' = y + g if w is in F, else y. At
its end T', with v outside F,

    W + y' fixed + sum over F of (y' (each + token) + p_i (K_i - 1))  <=  U T' - v, or (U - g) T' + g r_w - v if y' = y.

*Proof.* If w is in F, S >= r_w. Of i in F a token is processed; what else of K_i m_i lacks is, too, or comes back:
with p_i m_i + q_i h_i that is p_i (K_i - 1) or more. QED

By R6 F leaves R blocks. So at T' another potential is worth at least that, less the most by which v outside F (up to
K_i - 1) is larger at its prices, less p_i K_i for F; both of time alone (g = 0, or w in F) or of the same w and g;
if its w is in F, r_w = T' + call.

**Calls that discard.** What they drop in the next batch counts as dropped at once, when nothing is paid: k_i is 0.

**Places.** Without `partial` all KV of a request is on one side, and moves or goes at once. A label may also say
where the k_i tokens are that i's last token left: on the device (m_i >= k_i, h_i = 0), on the host (h_i >= k_i, m_i
= 0), or apart: anywhere, or gone. Let low_i be p_i k_i, q_i k_i, or 0. It covers a moment with other places, too,
if what each potential is worth is higher by the sum of max(0, low_i - low_i by these places), where 0 counts for
what was dropped.

In the batch of F each other request that has a place keeps it, moves to the other one, or is apart from then on.
One of these children, one for each choice that fits (k_i on its side, beside the contexts of F), happened. Lemma 3
holds for W + the sum of low_i of those that become apart; it, and Lemma 2 at T', take m_i and h_i as the places
say.

*Proof.* The child with the true places, apart where the label says apart, is among them, as who has a place may
choose. What was dropped since T lowered v by low_i or more, as all that raised v was paid; where the label is wrong
about i, W is higher by the difference. Moves count by the place at T' alone. QED A request of F leaves its context on
the device.

**Labels.** One says after such a batch which tokens there are, the least T, sum of ends, worths, and r_i (0 if not
above T). It covers a moment between batches with these tokens where nothing is less. For each F that fits `step`
writes one that covers the end: Lemma 2 at T, at each r_i before S, and at S, then Lemma 3.

**What is left.** If all prices and w are in a set Z, all of Z have their next tokens no earlier than (W + y fixed +
sum over Z of (y (each + token) + p_i (K_i - 1))) / U: Lemma 3 for one batch after another, where v leaves out who
has its token. In the order of these tokens the k-th is no earlier than the first k as a set; calls and work alone
follow.

**Crowds.** Of n requests left let i have a_i tokens and calls of l_i to come (r_i > T too); d = fixed + each + token.
With d a token it ends at T + d a_i + l_i; its lag is how much later it is by now, and never falls. Until C, when the
first ends, m batches generate tokens of all. In these each lag grows by all but d; else one does, unless one is in a
call. As C >= T + d a_i + l_i for one i, lags are at C in all at least

    min over i of (d a_i - sum of l_j for j != i) - m d.

By the end t of the last of the m, calls of E' >= E(m) are over: those before m-th tokens. Contexts fit at t and grow
with each token: at most X = room of the device - sum of K_i + n are generated, so lags are n (t - T) - X d - E' or
more; later they grow by C - t less other calls. 1 / n of this and (n - 1) / n of the growth alone: of m d only
(X d - (n - 1) E(m)) / n is lost.

**Prices in order** (docs/bounds.md, Theorem 5). For what is left let i begin at max(T, r_i). Where its next token has
more than one fresh token, some of these may be processed: it counts for a time d of its own and the call after it, then
the next one begins; not ready before the end of the last slot, it counts as ready there. V_i is the least of w_i C_i
plus payments over the plans of all others. The sum of ends left is at least that of V_i, less what the prices give
batches from T on.

*Proof.* This is Theorem 5 of requests that come then: what else is left of them is processed later, and a token left
out ends a batch of d or more. With the moment V_i only rises, and what prices give falls. QED
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate, compress
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from kvcore.certificates import potential_kernels as kernels
from kvcore.certificates.budget import Budget, InvalidCertificate, Most, Work
from kvcore.certificates.in_order import InOrder
from kvcore.certificates.labels import LARGE, End, begin, run
from kvcore.certificates.proof import Proof
from kvcore.certificates.remaining import remaining
from kvcore.certificates.tokens import check_size, fixed_of, swaps_of, tokens_of
from kvcore.features import RULES, SUMS, Takes
from kvcore.instance import Instance, Noun
from kvcore.metrics import Value, least_value, scale_of, weight

Amounts = tuple[Annotated[int, Field(ge=0, le=LARGE)], ...]


class Potential(Noun):
    """Weights in parts of `scale`, and prices; `request` is w by number."""

    compute: Annotated[int, Field(ge=0, le=2**20)]
    wait: Annotated[int, Field(ge=0, le=2**20)] = 0
    request: Annotated[int, Field(ge=0)] | None = None
    device: Amounts
    host: Amounts


class Potentials(Proof):
    """Look at the first `labels` orders of batches by their lower bounds, or all up to the best, below `target`.

    Cost functions by number: `function` of work, `moves` of swaps. With `places` labels say where KV is. `in_order` are
    prices in order of as many slots that differ in prices alone.
    """

    kind: Literal["potentials"] = "potentials"
    takes: ClassVar = Takes(RULES | SUMS)
    argument: ClassVar = "KV takes the time it costs: {0.labels} orders of batches were tried, the best first"
    function: Annotated[int, Field(ge=0, le=1000)] = 0
    moves: Annotated[int, Field(ge=0, le=1000)] = 0
    places: bool = False
    scale: Annotated[int, Field(ge=1, le=2**20)]
    potentials: Annotated[tuple[Potential, ...], Field(max_length=Most.potentials)]
    in_order: Annotated[tuple[InOrder, ...], Field(max_length=Most.potentials)] = ()
    labels: Annotated[int, Field(ge=1, le=Most.labels)]
    target: Annotated[int, Field(ge=0, le=LARGE)] | None = None

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return the lower bound after this many labels."""
        return PotentialSearch(instance, objective, self, budget).run().bound


class PotentialSearch:
    """The search on one instance, for one objective."""

    def __init__(self, instance: Instance, objective: str, proof: Potentials, budget: Budget | None = None) -> None:
        """Prepare the search. Raises InvalidCertificate if it is hopeless, or a potential is none."""
        check_size(instance)
        requests, self.objective, self.most = instance.requests, objective, proof.labels
        self.unit, n = scale_of(requests, objective), len(requests)
        if max(proof.function, proof.moves) >= len(instance.cost.functions):
            raise InvalidCertificate("the cost has no such function")
        self.divisor = instance.cost.functions[proof.function].divisor
        rates = [int(self.unit * weight(request, objective)) for request in requests]
        budget = budget or Budget()
        self.machine = _machine(instance, objective, proof, rates, budget)
        self.before = sum(rate * request.arrival for rate, request in zip(rates, requests, strict=True))
        count, target = len(self.machine.whom), LARGE
        if proof.target is not None:
            target = min(LARGE, (proof.target + self.before) * self.divisor)
        size = 116 + 24 * n + 8 * count
        work = label_work(count, n * len(proof.in_order)) * proof.labels
        budget.spend(f"a search of {proof.labels} labels", work, size * proof.labels)
        f = self.orders = kernels.room(n, count, proof.labels)
        f.ready[0] = [request.arrival * self.divisor for request in requests]
        f.worth[0] = self.machine.wait * np.where(self.machine.whom < 0, 0, f.ready[0][self.machine.whom])
        f.labels.left[0], f.labels.bound[0] = self.machine.length.sum(), kernels.least(self.machine, f, 0)
        begin(f.labels, target)

    def run(self, labels: int | None = None, stops: Callable[[], bool] = lambda: False) -> End:
        """Go on to the end, this many labels, or until `stops` says so."""
        end = run(kernels.search, self.machine, self.orders, min(labels or self.most, self.most), stops, slice=2**13)
        bound = (Fraction(end.bound, self.divisor) - self.before) / self.unit
        return end._replace(bound=least_value(bound, self.objective))


def _machine(
    instance: Instance, objective: str, proof: Potentials, rates: list[int], budget: Budget
) -> kernels.Priced:  # fmt: skip
    machine, line = instance.machine, instance.cost.functions[proof.function]
    length, call, rest, context, token = tokens_of(instance, objective, proof.function)
    out, back = swaps_of(instance, proof.function, proof.moves)
    fixed, n, scale = fixed_of(instance, proof.function), len(rates), proof.scale
    zero = Potential(compute=scale, device=(0,) * n, host=(0,) * n)
    given = [zero, *proof.potentials]
    for number, each in enumerate(given):
        rest_of = scale - each.compute - each.wait
        is_fit = len(each.device) == len(each.host) == n and rest_of >= 0
        is_fit = is_fit and (each.request is None) == (each.wait == 0) and (each.request or 0) < n
        for here, there in zip(each.device, each.host, strict=False):
            is_fit = is_fit and here <= each.compute * line.tokens
            is_fit = is_fit and there - here <= rest_of * out and here - there <= rest_of * back
        if not is_fit:
            raise InvalidCertificate(f"potential {number} has other prices than work and swaps allow")
    tokens = int(context.max(axis=1).sum())
    every = fixed + token * n + (line.tokens + out + back) * tokens
    late = int(call.sum() + rest.sum()) + max(request.arrival for request in instance.requests) * line.divisor
    latest = late + every * (1 + sum(length))
    if max(latest * scale * sum(rates), tokens) >= LARGE:
        raise InvalidCertificate("numbers are too large to be added up")
    prices = np.array([list(zip(each.device, each.host, strict=True)) for each in given], dtype=np.int64)
    whom = np.array([-1 if each.request is None else each.request for each in given])
    bits = (prices.max(axis=2) > 0).astype(np.int64) @ (1 << np.arange(n)) | np.where(
        whom < 0, 0, 1 << np.maximum(whom, 0)
    )
    if proof.places and machine.partial:
        raise InvalidCertificate("with partial, KV of a request need not be in one place")
    calls, pause = np.zeros((2, *call.shape), dtype=object)
    kept = context.copy()
    for row, request in zip(kept, instance.requests, strict=True):
        ends = accumulate(segment.decode for segment in request.segments)
        for end, segment in zip(ends, request.segments, strict=True):
            if segment.call and segment.call.handling == "discard":
                row[end - 1 : end] = 0
    for i, last in enumerate(length):
        pause[i, last - 1 :] = last - 1
        for k in reversed(range(last - 1)):
            calls[i, k], pause[i, k] = calls[i, k + 1] + call[i, k], k if call[i, k] else pause[i, k + 1]
    arrays = {"length": length, "call": call, "rest": rest, "context": context, "rate": rates}
    arrays |= {"calls": calls, "pause": pause, "kept": kept}
    alike, firsts = np.zeros((2**n, len(given)), dtype=np.int64), [dict[Any, int]() for _ in range(2**n)]
    for k, each in enumerate(given):
        for some, first in enumerate(firsts):
            has = [some >> i & 1 for i in range(n)]
            waits = (each.request, each.wait) if each.request is not None and has[each.request] else None
            alike[some, k] = first.setdefault((waits, *compress(zip(each.device, each.host, strict=True), has)), k)
    return kernels.Priced(
        **{name: np.array(each, dtype=np.int64) for name, each in arrays.items()}, busy=fixed, each=line.tokens,
        token=token, block=machine.block, blocks=min(LARGE, machine.memory or LARGE) // machine.block,
        host=LARGE if machine.host_memory is None else min(LARGE, machine.host_memory), scale=scale,
        compute=np.array([each.compute for each in given]), wait=np.array([each.wait for each in given]), whom=whom,
        places=proof.places, prices=prices, alike=alike, needs=bits,
        begun=instance.first_arrival * line.divisor, divisor=line.divisor,
        remaining=remaining(instance, objective, proof.in_order, latest, line.divisor, budget),
    )  # fmt: skip


def label_work(potentials: int, in_order: int) -> int:
    """Return nanoseconds that a label takes, about: the latter, by requests."""
    return Work.label * (40 + potentials) // 40 + Work.call * in_order
