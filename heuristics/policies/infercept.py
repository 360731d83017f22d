"""InferCept: calls preserve, discard or swap as wastes least device memory, decided anew for each batch."""

from collections.abc import Iterable
from itertools import count

from heuristics.engine.job import Job, Knows
from heuristics.engine.plan import Plan
from heuristics.engine.view import View
from heuristics.policies.infercept_base import InferceptBase, call_type, forward
from kvcore.cost import Features
from kvcore.instance import LIMIT


class Infercept(InferceptBase):
    """Decodes, chunks and swap-ins by original arrival; calls swap as a batch hides, else as wastes least.

    Requests in calls swap in order of their waste, as the limit allows; the others keep their KV or drop it. The waste
    of one with C tokens, of which m are on the device, is the lesser of

        preserve (2)    T m                                    T: how long its call lasts, as `expected` says
        discard  (4)    n F(B + c) C / 2 + n (F(B + c) - F(B)) C_o

    where B requests run with C_o tokens of KV together, c = S - B tokens are left for chunks (at least 1), n = ceil(C
    / c) chunks refill it, and F are the ticks of a batch of so many tokens. It is dropped if that wastes less (5). Once
    a part of it is on the host it is not dropped: the rest stays until the limit takes it.

    Guarantee: nothing is known. Running time: O(r + p log p) for a batch with r running requests and p in calls that
    hold KV, O(log n) for what happens.
    Source: InferCept (arXiv 2402.01869), Section 4; equations (2), (4), (5).
    """

    name = "infercept"
    knows: Knows = "predictions"

    def start(self, view: View) -> None:
        super().start(view)
        self.wastes: dict[int, tuple[int, int]] = {}

    def expected(self, job: Job) -> int:
        """Return T_INT, the ticks that its call is expected to last: as predicted, from its start on."""
        return job.demand.durations[job.segment - 1]

    def look_at_calls(self, plan: Plan) -> None:
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
        return sorted(jobs, key=lambda job: (-min(self.wastes[job.index]), job.arrival, job.index))

    def gives_up(self, job: Job) -> bool:
        """Whether discarding wastes less (5)."""
        preserve, discard = self.wastes[job.index]
        return discard < preserve


class InferceptElapsed(Infercept):
    """InferCept where nothing is known of calls: one is expected to last as long as it has lasted.

    Guarantee: nothing is known. Running time: as infercept. Source: InferCept (arXiv 2402.01869), Section 4.4.
    """

    name = "infercept-elapsed"
    knows: Knows = "online"

    def expected(self, job: Job) -> int:
        assert job.call_start is not None  # for mypy: it is in a call
        return self.now - job.call_start

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches no call has lasted long enough to be dropped.

        The waste of discarding grows as the others decode; that of now is too little, so that this is at most what it
        could be.
        """
        most = super().steady(view, plan)
        ticks = [self.first_drop(job) for job in self.holding.values() if not job.host]
        return most if not ticks else min(most, batches_until(min(ticks), view, plan, self.decoding))

    def first_drop(self, job: Job) -> int:
        """Return the first tick at which its call would be dropped, were the waste of discarding that of now."""
        assert job.call_start is not None  # for mypy: it is in a call
        return job.call_start + self.wastes[job.index][1] // (2 * job.device) + 1


def batches_until(tick: int, view: View, plan: Plan, decoding: list[Job]) -> int:
    """Return how many batches of these decodes start before `tick`, the first of them at `view.now`."""
    r = len(plan.work)
    kv = sum(job.device for job in decoding) - r  # as the first batch read it
    features = Features(busy=1, any_decode=1, tokens=r, generated=r, decode_requests=r, decode_kv=max(0, kv))
    if tick >= LIMIT:
        return LIMIT
    start = view.now
    for batches, ticks in zip(count(1), view.cost.durations(features), strict=False):
        start += ticks
        if start >= tick:
            return batches
    raise AssertionError("the durations have no end")


class InferceptProfiled(InferceptElapsed):
    """InferCept with the mean duration of the calls of the same type that have returned; until one has, the elapsed.

    A call that returns in the middle of a batch is seen to last up to its end.

    Guarantee: nothing is known. Running time: as infercept. Source: InferCept (arXiv 2402.01869), Sections 2.2, 4.4.
    """

    name = "infercept-profiled"

    def start(self, view: View) -> None:
        super().start(view)
        self.profile: dict[str, tuple[int, int]] = {}  # calls that have returned, and their ticks

    def at_return(self, job: Job, now: int) -> None:
        calls, ticks = self.profile.get(call_type(job), (0, 0))
        self.profile[call_type(job)] = calls + 1, ticks + super().expected(job)
        super().at_return(job, now)

    def expected(self, job: Job) -> int:
        calls, ticks = self.profile.get(call_type(job), (0, 0))
        return ticks // calls if calls else super().expected(job)

    def first_drop(self, job: Job) -> int:
        """Return the first tick at which its call would be dropped: never, where only events change the mean."""
        return LIMIT if call_type(job) in self.profile else super().first_drop(job)
