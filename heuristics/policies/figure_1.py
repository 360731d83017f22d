"""The rule of Figure 1 of MARS in several orders."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar

from heuristics.engine.job import Job
from heuristics.engine.policy import Setting
from heuristics.engine.ranked import Ranked
from heuristics.engine.view import View


class Fcfs(Ranked):
    """In order of arrival, kept on return; admitted if its segment fits and all can still finish (Figure 1's rule).

    Guarantee: that of `Ranked`; it can be arbitrarily far from the best mean latency (a long request before many short
    ones).
    Running time: O(n log n + c h log h) a batch, n present, h holding KV, c tested for admission.
    Source: MARS (arXiv 2410.18248), Figure 1a: the baseline; LAMPS, Figure 3a; InferCept's order.
    """

    name = "fcfs"

    def key(self, job: Job) -> tuple[int, int]:
        return job.arrival, job.index


class Sjf(Ranked):
    """Least remaining work first, recomputation included; admitted as in `fcfs`.

    Work is the ticks of decodes, prefills, refills and transfers if it ran alone.

    Guarantee: those of `Ranked` and `srpt`.
    Running time: as fcfs.
    Source: MARS (arXiv 2410.18248), Figure 1b: the baseline; LAMPS, Figure 3b.
    """

    name = "sjf"

    def key(self, job: Job) -> int:
        return job.work


class SjfApi(Ranked):
    """Least remaining work plus remaining time in calls first, in ticks; admitted as in `fcfs`.

    Guarantee: that of `Ranked`.
    Running time: as fcfs.
    Source: MARS (arXiv 2410.18248), Figure 1c: the baseline; LAMPS, Figure 3c.
    """

    name = "sjf-api"

    def key(self, job: Job) -> int:
        return job.work + job.call_time


class MarsOrder(Ranked):
    """Least remaining memory-time first, calls' waste included; admitted as in `fcfs`.

    The key is the KV of the request, integrated over the ticks of its batches if it runs alone, plus the waste of its
    coming calls under their handlings, in token-ticks:

        sum over batches of D_j (m_j + c_j)  +  sum over calls of
            preserve: T C       discard: F(C) (M - C)       swap: S(C) M

    with C tokens of KV at a call of T ticks, F(C) the ticks of the refill (whose own memory is in the first sum), S(C)
    those of the transfers, and M the memory, taken as full. The papers give no formula. In Figure 1 the first sum with
    only preserve's waste is 31, 4, 6 for R1, R2, R3; with the memory that others hold during R2's refill it is 31, 9,
    6, the order that the papers state.

    Guarantee: that of `Ranked`. Starvation prevention and the caching of scores are left out.
    Running time: as fcfs.
    Source: MARS (arXiv 2410.18248), Section 3 and Figure 1d; LAMPS, Section 4.
    """

    name = "mars-order"

    def key(self, job: Job) -> int:
        return job.area


class Listed(Ranked):
    """Figure 1's rule in a given order, such as that in which a schedule completes the requests.

    Guarantee: that of `Ranked`.
    Running time: as fcfs.
    Source: list scheduling; a means of local search.
    """

    name = "listed"

    def __init__(self, keys: Sequence[Any]) -> None:
        self.keys = keys

    def key(self, job: Job) -> Any:
        return self.keys[job.index]


class RandomOrder(Ranked):
    """Figure 1's rule in a random order: one number is drawn for each request, from the seed and its id.

    Guarantee: that of `Ranked`.
    Running time: as fcfs.
    Source: a reference, to see what an order is worth.
    """

    name = "random"
    seed: int = 0
    settings: ClassVar[dict[str, Setting]] = {"seed": Setting("of the draw")}

    def start(self, view: View) -> None:
        super().start(view)
        self._drawn: dict[str, int] = {}

    def key(self, job: Job) -> int:
        number = self._drawn.get(job.id)
        if number is None:
            number = self._drawn[job.id] = random.Random(f"{self.seed}:{job.id}").getrandbits(64)
        return number
