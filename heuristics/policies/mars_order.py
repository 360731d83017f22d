"""MARS's order: least remaining memory-time first."""

from __future__ import annotations

from collections.abc import Sequence

from heuristics.engine.job import Job
from heuristics.engine.ranked import Ranked
from kvcore.errors import BadInput


class MarsOrder(Ranked):
    """Figure 1's rule in order of the remaining memory-time, or in a given order of ids.

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
    Running time: O(n log n + h log h) for a batch, with n requests present and h holding KV.
    Source: MARS (arXiv 2410.18248), Section 3 and Figure 1(d); LAMPS, Section 4.
    """

    name = "mars-order"
    rule = "least remaining memory-time first, the waste of calls included; admitted as in fcfs"
    source = "MARS (arXiv 2410.18248), Section 3, step 2"

    def __init__(self, order: Sequence[str] = ()) -> None:
        """Take an order of ids that goes before the key; requests that are not in it come last, by memory-time.

        BadInput if an id stands in it twice.
        """
        if len(set(order)) < len(order):
            raise BadInput(f"the order names a request twice: {', '.join(order)}")
        self.order = {id: place for place, id in enumerate(order)}

    def key(self, job: Job) -> tuple[int, int]:
        """Return the place in the given order, and the remaining memory-time."""
        return self.order.get(job.id, len(self.order)), job.area
