"""Potentials: KV has prices in time, so that nothing is computed or copied for nothing.

Times are in ticks times the divisor of the cost function kept. A batch takes at least `fixed` if it works, `each` for a
token processed, `token` for one generated; by the function `moves`, `out` for a token swapped out, `back` for one
swapped in. Request i has m_i tokens of KV on the device, h_i on the host. Its next token may be worked on from r_i on,
its arrival or the end of its call, and is generated with K_i tokens on the device; the last one was with k_i, or 0.

**Definition.** A potential has weights y (`compute`), g (`wait`, of one request w), z = U - y - g >= 0, where U is
`scale`, and prices p_i, q_i >= 0 (`device`, `host`) of tokens of each request, with

    p_i <= y each,  q_i - p_i <= z out,  p_i - q_i <= z back.

At T it is worth (U - g) T + g r_w - v, where v is the sum of all p_i m_i + q_i h_i; nothing is said once w is over. One
with y = U and no prices, worth U T, is always there.

**Lemma 1.** (U - g) T - v never falls, so no potential does. *Proof.* In a batch of D (U - g) D >= y D + z D >= y each
for all tokens processed, z out and z back for all swapped: v rises by no more. Drops and ends lower v. r_w only rises.
QED

**Lemma 2.** At T m_i + h_i <= K_i - 1, and <= k_i where T <= r_i; all m_i fit the device, all h_i the host. So v has a
largest value V, and from T on a potential is worth (U - g) T + g r_w - V or more. *Proof.* The last token known is
processed in the batch that generates the next; before r_i nothing is worked on (R2). Within a batch let KV change
evenly. Where T is of an earlier token, contexts were smaller; of requests over by now v is left out. QED

**Lemma 3.** Let a potential be worth W as a batch starts at S that generates tokens of the requests F; y' = y + g if w
is one of them, else y. Then as it ends, at T', with v of requests outside F alone,

    W + y' fixed + sum over F of (y' (each + token) + p_i (K_i - 1))  <=  U T' - v, or (U - g) T' + g r_w - v if y' = y.

*Proof.* If w is in F, S >= r_w and U S >= (U - g) S + g r_w. Of i in F at least one token is processed; what else of
K_i m_i lacks is processed too, or comes back: by the three conditions this and p_i m_i + q_i h_i are p_i (K_i - 1) or
more. For others see Lemma 1. QED

By R6 the blocks of F leave R to others. So at T' another potential is worth at least that, less the most by which v of
others (each up to K_i - 1) is larger at its prices, less p_i K_i for each of F; both are of time alone (g = 0, or w in
F) or of the same w and g. If its w is in F, r_w = T' + call: g call more.

**Labels.** A label says after such a batch which tokens are generated, the least T, sum of ends and worth of each
potential, and r_i where above T, else 0. It covers a moment between batches with these tokens where nothing is less.
The label that `step` writes for each F that fits covers the end of its batch: Lemma 2 at T, at each r_i before S and at
S, then Lemma 3. So no schedule is below the least bound of the labels still to be followed.

**What is left.** If all prices and w are in a set Z, its requests all have their next tokens no earlier than (W + y
fixed + sum over Z of (y (each + token) + p_i (K_i - 1))) / U: Lemma 3 for one batch after another, where who has its
token leaves v. In the order of these tokens the k-th is no earlier than the first k as a set; what follows a token
takes its calls and work alone.

**Example.** A batch takes 4 ticks and 1 a token; M = 4; A and B have prompts of 2 and 1, two outputs each. Let U = y =
1 and p = q = 1 for A alone. A first batch of both ends at 0 + 4 + 2 + 1 = 7 or later; the potential is worth 7 - 2 = 5
then, and A's next token is at 5 + 4 + 1 + 2 = 12. B's, whose context does not fit beside, takes 5 more: the sum is 12 +
17 = 29, the optimum.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from kvcore.certificates import potential_kernels as kernels
from kvcore.certificates.budget import Budget, InvalidCertificate, Most, Work
from kvcore.certificates.fresh import check_size, fixed_of, tokens_of
from kvcore.certificates.labels import LARGE, End, begin, run
from kvcore.certificates.proof import Proof
from kvcore.features import RULES, SUMS, Takes
from kvcore.instance import Instance, Noun
from kvcore.metrics import Value, least_value, scale_of, weight

Amounts = tuple[Annotated[int, Field(ge=0, le=LARGE)], ...]


class Potential(Noun):
    """Weights, in parts of `scale`, and prices of a token of each request; `request`: the one waited for, by number."""

    compute: Annotated[int, Field(ge=0, le=2**20)]
    wait: Annotated[int, Field(ge=0, le=2**20)] = 0
    request: Annotated[int, Field(ge=0)] | None = None
    device: Amounts
    host: Amounts


class Potentials(Proof):
    """Look at the first `labels` orders of batches by their lower bounds, or all up to the best.

    Where the search stops early, no schedule is below the next label. Labels of `target` or more (in ticks; for
    normalized-latency times the common multiple of the outputs) are left out. `function` is the cost function of work,
    `moves` that of swaps.
    """

    kind: Literal["potentials"] = "potentials"
    takes: ClassVar = Takes(RULES | SUMS)
    argument: ClassVar = "KV takes the time it costs: {0.labels} orders of batches were tried, the best first"
    function: Annotated[int, Field(ge=0, le=1000)] = 0
    moves: Annotated[int, Field(ge=0, le=1000)] = 0
    scale: Annotated[int, Field(ge=1, le=2**20)]
    potentials: Annotated[tuple[Potential, ...], Field(max_length=Most.potentials)]
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
        self.machine = _machine(instance, objective, proof, rates)
        self.before = sum(rate * request.arrival for rate, request in zip(rates, requests, strict=True))
        count, target = len(self.machine.whom), LARGE
        if proof.target is not None:
            target = min(LARGE, (proof.target + self.before) * self.divisor)
        size = 116 + 16 * n + 8 * count
        work = label_work(count) * proof.labels
        (budget or Budget()).spend(f"a search of {proof.labels} labels", work, size * proof.labels)
        f = self.orders = kernels.room(n, count, proof.labels)
        f.ready[0] = [request.arrival * self.divisor for request in requests]
        f.worth[0] = self.machine.wait * np.where(self.machine.whom < 0, 0, f.ready[0][self.machine.whom])
        f.labels.left[0], f.labels.bound[0] = self.machine.length.sum(), kernels.least(self.machine, f, 0)
        begin(f.labels, target)

    def run(self, labels: int | None = None, stops: Callable[[], bool] = lambda: False) -> End:
        """Go on until there are this many labels, the search is over, or `stops` says so."""
        end = run(kernels.search, self.machine, self.orders, min(labels or self.most, self.most), stops, slice=2**13)
        bound = (Fraction(end.bound, self.divisor) - self.before) / self.unit
        return end._replace(bound=least_value(bound, self.objective))


def _machine(instance: Instance, objective: str, proof: Potentials, rates: list[int]) -> kernels.Machine:
    machine, line = instance.machine, instance.cost.functions[proof.function]
    length, _, _, call, rest, context, token = tokens_of(instance, objective, proof.function)
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
    every = fixed + token * n + (line.tokens + out + back) * int(context.max(axis=1).sum())
    last = int(call.sum() + rest.sum()) + max(request.arrival for request in instance.requests) * line.divisor
    if (last + every * (1 + sum(length))) * scale * sum(rates) >= LARGE:
        raise InvalidCertificate("numbers are too large to be added up")
    prices = np.array([list(zip(each.device, each.host, strict=True)) for each in given], dtype=np.int64)
    whom = np.array([-1 if each.request is None else each.request for each in given])
    bits = (prices.max(axis=2) > 0).astype(np.int64) @ (1 << np.arange(n)) | np.where(
        whom < 0, 0, 1 << np.maximum(whom, 0)
    )
    arrays = {"length": length, "call": call, "rest": rest, "context": context, "rate": rates}
    return kernels.Machine(
        **{name: np.array(each, dtype=np.int64) for name, each in arrays.items()}, fixed=fixed, each=line.tokens,
        token=token, block=machine.block, blocks=min(LARGE, machine.memory or LARGE) // machine.block,
        host=LARGE if machine.host_memory is None else min(LARGE, machine.host_memory), scale=scale,
        compute=np.array([each.compute for each in given]), wait=np.array([each.wait for each in given]), whom=whom,
        prices=prices, needs=bits,
    )  # fmt: skip


def label_work(potentials: int) -> int:
    """Return nanoseconds that a label takes, about."""
    return Work.label * (1 + potentials * potentials // 400)


def swaps_of(instance: Instance, function: int, moves: int) -> tuple[int, int]:
    """Return what a token takes that is swapped out, or in, by a function, in units of another one's time."""
    line, divisor = instance.cost.functions[moves], instance.cost.functions[function].divisor
    return line.swap_out_tokens * divisor // line.divisor, line.swap_in_tokens * divisor // line.divisor
