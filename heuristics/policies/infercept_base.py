"""InferCept's scheduler without its decision about calls: chunks beside decodes, and swaps that a batch hides."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.unified import Unified, first_come
from heuristics.engine.view import View
from kvcore.cost import Cost, CostFunction, Features, OwnCost
from kvcore.instance import LIMIT

TRANSFERS = {"swap_out_tokens", "swap_in_tokens", "swap_outs", "swap_ins"}


class InferceptBase(Unified):
    """Decodes, then chunks of prefills up to the saturation point, then swap-ins; each queue by original arrival.

    A chunk is admitted if there is memory for it. A running request that lacks memory evicts the last that came of
    all that hold KV and are not in a call; a prefill takes what room is left before it gives up.

    **Swaps.** At most `swap_limit` tokens are moved in a batch, out and in together: as many as take no longer than its
    work, and none where the cost adds transfers to it. What may be brought back has the first claim (criterion 3: no
    more than there is memory for), the rest goes to `swap_out`. Requests come back first come, first served, the next
    one after the one before is complete. With `partial`, moves are cut to what the limit leaves, in whole blocks where
    they free any; without it, a request is swapped out only if the limit takes it whole, and the first one always comes
    back.

    A subclass says what happens to requests in calls: `ranked`, which is swapped out first; `gives_up`, whose KV is
    dropped if it is not. Here it is the first that arrived, and all: `infercept-swap`, or, without `swaps`,
    `infercept-chunked-discard`. Where the limit ends within a request, its rest stays until the next batch: KV is a
    prefix, and to drop the front would lose what is on the host.

    Guarantee: nothing is known. Running time: O(r + p log p) for a batch with r running requests and p in calls that
    hold KV (without `swaps` O(r)), O(log n) for what happens.
    Source: InferCept, Sections 4.1 (budgeted swapping), 4.2 (recomputation chunking) and 5.2.
    """

    batch_tokens = 384  # the saturation point S of InferCept's two models, where the machine gives no smaller
    needs = ("evict", "pause", "chunked")

    def __init__(self, *, swaps: bool = True) -> None:
        """Say whether KV is swapped at all."""
        self.swaps = swaps

    def start(self, view: View) -> None:
        super().start(view)
        self.saturation = min(384, view.machine.batch_tokens or 384)
        self.cost = view.cost
        self.holding: dict[int, Job] = {}  # requests in free calls with KV on the device
        self.limits: dict[tuple[int, int], int] = {}
        self.limit = self.in_left = self.out_left = 0
        self.unsent = False  # a request is not swapped out as the limit does not take it
        self.ran = 0  # how many ran as the calls were looked at

    # --- calls ---------------------------------------------------------------------------------------------------

    def ranked(self, jobs: Iterable[Job]) -> list[Job]:
        """Return those in calls that may be swapped out, the first one first. By original arrival."""
        return sorted(jobs, key=first_come)

    def gives_up(self, job: Job) -> bool:
        """Whether the KV of a request in a call is dropped, as it is not swapped out."""
        return True

    def at_call(self, job: Job, plan: Plan) -> None:
        self.holding[job.index] = job

    def at_return(self, job: Job, now: int) -> None:
        self.holding.pop(job.index, None)
        super().at_return(job, now)

    def while_paused(self, plan: Plan) -> None:
        """Swap out as the limit allows, in order; of the others, keep or drop each."""
        self.unsent = False
        self.ran = len(self.decoding) + len(self.prefilling)
        returning = sum(entry.job.host for entry in self.swapped[:8])
        self.limit = self.swap_limit() if self.swaps and (self.holding or returning) else 0
        self.in_left, self.out_left = self.limit, self.limit
        if returning and self.limit:
            self.out_left -= min(self.limit, returning, self.room(plan))
        if self.holding:
            self.look_at_calls(plan)

    def look_at_calls(self, plan: Plan) -> None:
        """Decide about each request in a free call that holds KV."""
        for job in self.ranked(self.holding.values()) if self.swaps else ():
            if self.send(job, plan):
                break
        for job in list(self.holding.values()):
            if not job.device:
                del self.holding[job.index]
            elif not job.host and self.gives_up(job):
                del self.holding[job.index]
                self.discard(job, plan)

    def send(self, job: Job, plan: Plan) -> bool:
        """Swap out what the limit and the host take of it; return whether the limit is used up."""
        most = self.out_left if plan.free_host is None else min(self.out_left, plan.free_host)
        block = self.machine.block
        tokens = job.device if job.device <= most else job.device - -(-(job.device - most) // block) * block
        if tokens < job.device and not self.machine.partial:
            tokens = 0
        if tokens <= 0:
            self.unsent = True
            return False
        plan.swap_out(job, tokens)
        self.out_left -= tokens
        self.in_left -= tokens
        return job.device > 0

    # --- swaps ---------------------------------------------------------------------------------------------------

    def swap_limit(self) -> int:
        """Return N: the most tokens whose transfer takes no longer than the batch that is expected, or one token's."""
        tokens = decodes = len(self.decoding)
        for job in (*self.prefilling, *(entry.job for entry in self.waiting[:16])):
            if tokens >= self.saturation:
                break
            tokens += job.missing
        tokens = max(1, min(tokens, self.saturation))
        if (tokens, decodes) not in self.limits:
            self.limits[tokens, decodes] = hidden(self.cost, forward(tokens, decodes))
        return self.limits[tokens, decodes]

    def room(self, plan: Plan) -> int:
        """Return the device tokens that are free beside what the decodes take."""
        if plan.free_blocks is None:
            return LIMIT
        block = self.machine.block
        growth = sum(job.device % block == 0 for job in self.decoding)
        return max(0, plan.free_blocks - growth) * block

    def fill_swapped(self, plan: Plan) -> None:
        """Bring requests back in order, each to the end before the next; one that is back may work at once."""
        while self.swapped:
            job = self.swapped[0].job
            if not self.bring(job, plan) or job.host:
                return
            del self.swapped[0]
            self.run(job)
            tokens = min(plan.chunk(job), self.fitting(job, plan))
            if tokens:
                plan.take(job, tokens)

    def bring(self, job: Job, plan: Plan) -> bool:
        """Bring back what the limit and the memory take of it; return whether anything came."""
        whole = not self.machine.partial or not self.limit
        most = job.host if whole and not plan.swapped_in else min(job.host, self.in_left)
        tokens = min(most, self.fitting(job, plan))
        if tokens < (job.host if whole else 1):
            return False
        plan.swap_in(job, tokens)
        self.in_left = max(0, self.in_left - tokens)
        return True

    def fitting(self, job: Job, plan: Plan) -> int:
        """Return how many more tokens of it the free blocks take."""
        if plan.free_blocks is None:
            return LIMIT
        return (job.blocks + plan.free_blocks) * self.machine.block - job.device

    # --- work ----------------------------------------------------------------------------------------------------

    def decide(self, view: View, plan: Plan) -> None:
        """Fill the batch; if none works or comes back, the first on the host gets memory from the others."""
        super().decide(view, plan)
        if self.swapped and not plan.work and not plan.swapped_out and not plan.swapped_in:
            self.make_room(self.swapped[0].job, plan)

    def make_room(self, job: Job, plan: Plan) -> None:
        """Evict the last comers of those that hold KV until `job`, the first on the host, has room, if that suffices.

        A running request that lacks memory came after it: else it would have evicted what `job` has on the device.
        """
        others = sorted((other for other in self.holders() if other is not job), key=first_come, reverse=True)
        least = self.machine.block if self.machine.partial and self.limit else job.host
        if self.fitting(job, plan) + sum(other.blocks for other in others) * self.machine.block < least:
            return
        for other in others:
            if self.fitting(job, plan) < least:
                self.evict(other, plan)
        self.fill_swapped(plan)

    def reserve(self, job: Job, tokens: int) -> int:
        return job.device + tokens

    def fill_waiting(self, plan: Plan) -> None:
        """Admit waiting requests, in order, each with the chunk that the budgets leave, if there is room for it."""
        taken = 0
        for entry in self.waiting:
            tokens = 0 if entry.job.index in self._evicted else plan.chunk(entry.job)
            if not tokens or not plan.fits(entry.job, tokens):
                break
            plan.take(entry.job, tokens)
            taken += 1
        admitted = self.waiting[:taken]
        del self.waiting[:taken]
        for entry in admitted:
            self.run(entry.job)

    def holders(self) -> list[Job]:
        """Return all that are ready and hold KV on the device."""
        returned = [entry.job for entry in self.swapped if entry.job.device]
        return [*self.decoding, *self.prefilling, *returned]

    def victim(self, job: Job, running: Sequence[Job], plan: Plan) -> Job | None:
        """Return the last comer of all that hold KV and have not been taken."""
        victims = [other for other in self.holders() if other.id not in plan.work and self.may_evict(other)]
        return max(victims, key=first_come, default=None)

    def _take_or_evict(self, job: Job, tokens: int, running: Sequence[Job], plan: Plan) -> None:
        """Take a running request; while memory lacks, evict the last comer, and itself in the end."""
        while not plan.fits(job, tokens):
            victim = self.victim(job, running, plan)
            if victim is not None and victim is not job:
                self.evict(victim, plan)
                continue
            tokens = self.fitting(job, plan)
            if tokens > 0:
                break
            if victim is job and plan.work:
                self.evict(job, plan)
            return
        plan.take(job, tokens)

    def evict(self, job: Job, plan: Plan) -> None:
        self.swapped = [entry for entry in self.swapped if entry.job is not job]
        super().evict(job, plan)

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches nothing changes: without end, unless less room leaves more for swap-outs.

        A batch that a request has joined is not repeated: the calls were looked at before.
        """
        joined = len(self.decoding) + len(self.prefilling) != self.ran
        return 1 if joined or (self.unsent and self.swapped) else LIMIT


def forward(tokens: int, decodes: int = 0) -> Features:
    """Return what a batch of so many tokens costs by, so many of them decodes; the KV that they read is left out."""
    decodes = min(tokens, decodes)
    prefills = min(1, tokens - decodes)
    return Features(
        busy=min(1, tokens), any_decode=min(1, decodes), any_prefill=prefills, tokens=tokens, generated=decodes,
        decode_requests=decodes, prefill_requests=prefills,
    )  # fmt: skip


def hidden(cost: Cost, features: Features) -> int:
    """Return the tokens whose transfer lasts no longer than the batch: 0 if a function adds transfers to work."""
    ticks = cost.duration(features)
    if isinstance(cost, OwnCost):  # no coefficients to divide by: ask

        def with_transfer(tokens: int) -> int:
            moves = {"swap_out_tokens": tokens, "swap_in_tokens": tokens, "swap_outs": 1, "swap_ins": 1}
            return cost.duration(features._replace(**moves))

        return max(0, bisect_right(range(10**8), ticks, key=with_transfer) - 1)
    most = LIMIT
    for function in cost.functions:
        rate = max(function.swap_out_tokens, function.swap_in_tokens)
        if rate:
            each = 0 if adds_transfers(function) else ticks * function.divisor - function.swap_outs - function.swap_ins
            most = min(most, max(0, each // rate))
    return most


def adds_transfers(function: CostFunction) -> bool:
    """Whether a function counts work and transfers, so that the one waits for the other."""
    counted = {Features._fields[k] for k, _ in function.terms}
    return bool(counted & TRANSFERS and counted - TRANSFERS)


def call_type(job: Job) -> str:
    """Return the type of its calls: the id up to the first dash."""
    return job.id.partition("-")[0]
