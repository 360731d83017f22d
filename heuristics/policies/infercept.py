"""InferCept: calls preserve, discard or swap as wastes least device memory, decided anew for each batch."""

from __future__ import annotations

from collections.abc import Iterable

from heuristics.engine.job import Job, Knows
from heuristics.engine.plan import Plan
from heuristics.engine.view import View
from heuristics.policies.infercept_base import InferceptBase, forward


class Infercept(InferceptBase):
    """Requests in calls swap in order of their waste, as the limit allows; the others keep their KV or drop it.

    The waste of one with C tokens, of which m are on the device, is the lesser of

        preserve (2)    T m                                    T: how long its call lasts, as `expected` says
        discard  (4)    n F(B + c) C / 2 + n (F(B + c) - F(B)) C_o

    where B requests run with C_o tokens of KV together, c = S - B tokens are left for chunks (at least 1), n = ceil(C
    / c) chunks refill it, and F are the ticks of a batch of so many tokens. It is dropped if that wastes less (5). Once
    a part of it is on the host it is not dropped: the rest stays until the limit takes it.

    Guarantee: nothing is known. Running time: O(r + p log p) for a batch with r running requests and p in calls that
    hold KV, O(log n) for what happens.
    Source: InferCept, Section 4; equations (2), (4), (5).
    """

    name = "infercept"
    rule = "decodes, chunks and swap-ins by original arrival; calls swap as a batch hides, else as wastes least"
    source = "InferCept (arXiv 2402.01869), Section 4"
    knows: Knows = "predictions"

    def start(self, view: View) -> None:
        """Begin with empty queues."""
        super().start(view)
        self.wastes: dict[int, tuple[int, int]] = {}

    def expected(self, job: Job) -> int:
        """Return T_INT, the ticks that its call is expected to last: as predicted, from its start on."""
        return job.demand.durations[job.segment - 1]

    def look_at_calls(self, plan: Plan) -> None:
        """Compute the wastes of all that hold KV in a call, and decide."""
        self.wastes = dict(self._wastes())
        super().look_at_calls(plan)

    def _wastes(self) -> Iterable[tuple[int, tuple[int, int]]]:
        """Yield twice the waste of preserving and of discarding each, in token-ticks."""
        running = [*self.decoding, *self.prefilling]
        size, others = len(running), sum(job.device for job in running)
        chunk = max(1, self.saturation - size)
        full = self.ticks(size + chunk)
        added = full - self.ticks(size)
        for i, job in self.holding.items():
            context = job.device + job.host
            n = -(-context // chunk)
            yield i, (2 * self.expected(job) * job.device, n * (full * context + 2 * added * others))

    def ticks(self, tokens: int) -> int:
        """Return F: the ticks of a batch of so many tokens."""
        return self.cost.duration(forward(tokens)) if tokens else 0

    def ranked(self, jobs: Iterable[Job]) -> list[Job]:
        """Return them by waste, the most first."""
        return sorted(jobs, key=lambda job: (-min(self.wastes[job.index]), job.arrival, job.index))

    def gives_up(self, job: Job) -> bool:
        """Whether discarding wastes less (5)."""
        preserve, discard = self.wastes[job.index]
        return discard < preserve
