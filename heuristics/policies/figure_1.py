"""The rule of Figure 1: a key orders the requests, and one is admitted if all can still finish."""

from collections.abc import Sequence

from heuristics.engine.job import Job
from heuristics.engine.ranked import Ranked
from kvcore.errors import BadInput


class Fcfs(Ranked):
    """In order of arrival, kept on return; admitted if its segment fits and all can still finish (Figure 1's rule).

    Guarantee: none is known; it can be arbitrarily far from the best mean latency (a long request before many short
    ones). It never deadlocks and never evicts.
    Running time: O(n log n + c h log h) for a batch of n requests present, h holding KV, c tested for admission.
    Source: MARS (arXiv 2410.18248), Figure 1a: the baseline; LAMPS, Figure 3a; InferCept's order.
    """

    name = "fcfs"

    def key(self, job: Job) -> tuple[int, int]:
        return job.arrival, job.index


class Sjf(Ranked):
    """Least remaining work first, recomputation included; admitted as in `fcfs`.

    Work is the ticks of decodes, prefills, refills and transfers if it ran alone; calls do not count.

    Guarantee: where each batch takes one request and one tick, memory has no limit and there is no call, it is
    shortest remaining processing time, which has the least total flow time. Otherwise nothing is known. It never
    deadlocks and never evicts.
    Running time: O(n log n + c h log h) for a batch of n requests present, h holding KV, c tested for admission.
    Source: MARS (arXiv 2410.18248), Figure 1b: the baseline; LAMPS, Figure 3b.
    """

    name = "sjf"

    def key(self, job: Job) -> int:
        return job.work


class SjfApi(Ranked):
    """Least remaining work plus remaining time in calls first, in ticks; admitted as in `fcfs`.

    Guarantee: nothing is known. It never deadlocks and never evicts.
    Running time: O(n log n + c h log h) for a batch of n requests present, h holding KV, c tested for admission.
    Source: MARS (arXiv 2410.18248), Figure 1c: the baseline; LAMPS, Figure 3c.
    """

    name = "sjf-api"

    def key(self, job: Job) -> int:
        return job.work + job.call_time


class MarsOrder(Ranked):
    """Least remaining memory-time first, calls' waste included, or a given order of ids; admitted as in `fcfs`.

    The key is the KV that the request will hold, integrated over the ticks of its batches if it runs alone, plus the
    waste of its coming calls under their handlings, in token-ticks:

        sum over batches of D_j (m_j + c_j)  +  sum over calls of
            preserve: T C       discard: F(C) (M - C)       swap: S(C) M

    with C tokens of KV at a call of T ticks, F(C) the ticks of the refill (whose own memory is in the first sum), and
    S(C) those of the transfers; M is the memory, taken as full. The papers say "integral of memory over time" and
    give no formula. In Figure 1 the first sum with only preserve's waste is 31, 4, 6 for R1, R2, R3, which puts R2
    before R3; with the memory that others hold during R2's refill it is 31, 9, 6, the order that the papers state.

    Guarantee: nothing is known. It never deadlocks and never evicts. Starvation prevention and the caching of scores
    are left out.
    Running time: O(n log n + c h log h) for a batch of n requests present, h holding KV, c tested for admission.
    Source: MARS (arXiv 2410.18248), Section 3 and Figure 1d; LAMPS, Section 4.
    """

    name = "mars-order"

    def __init__(self, order: Sequence[str] = ()) -> None:
        """Take an order of ids that goes before the key; requests that are not in it come last, by memory-time.

        BadInput if an id stands in it twice.
        """
        if len(set(order)) < len(order):
            raise BadInput(f"the order names a request twice: {', '.join(order)}")
        self.order = {id: place for place, id in enumerate(order)}

    def key(self, job: Job) -> tuple[int, int]:
        return self.order.get(job.id, len(self.order)), job.area
