"""InferCept: chunks, swaps that a batch hides, and calls handled anew for each batch."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

from heuristics.engine.job import Job, Knows
from heuristics.engine.plan import Plan
from heuristics.engine.unified import Unified, first_come
from heuristics.engine.view import View
from heuristics.policies.infermax import Vllm
from kvcore.cost import Cost, CostFunction, Features, OwnCost
from kvcore.instance import LIMIT

TRANSFERS = {"swap_out_tokens", "swap_in_tokens", "swap_outs", "swap_ins"}


class InferceptBase(Unified):
    """Decodes, then chunks of prefills up to the saturation point, then swap-ins; each queue by original arrival.

    A chunk is admitted if there is memory for it. A running request that lacks memory evicts the last comer of all that
    hold KV outside calls; before a prefill gives up, it takes what room is left.

    **Swaps.** At most `swap_limit` tokens are moved in a batch, out and in together: as many as take no longer than its
    work, and none where the cost adds transfers to it. Swap-ins have the first claim (criterion 3: no more than there
    is memory for), the rest goes to `swap_out`. Requests come back first come, first served, one after another. With
    `partial`, moves are cut to what the limit leaves, in whole blocks where they free any; without it, a request is
    swapped out only if the limit takes it whole, and the first one always comes back. Where the limit ends within a
    request, its rest stays until the next batch: KV is a prefix, and to drop the front would lose what is on the host.

    A subclass orders the requests in calls for swaps (`ranked`) and says whose KV is dropped without one (`gives_up`).
    Here by arrival, and all: `infercept-swap`, or, without `swaps`, `infercept-chunked-discard`.

    Running time: O(r + p log p) a batch, r running, p in calls that hold KV (without `swaps` O(r)); O(log n) an event.
    Source: InferCept, Sections 4.1 (budgeted swapping), 4.2 (recomputation chunking) and 5.2.
    """

    batch_tokens = 384  # the saturation point S of InferCept's two models, where the machine gives no smaller
    needs = ("evict", "pause", "chunked")
    swaps: bool = True  # whether KV is swapped at all

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
        """Return those in calls that may be swapped out, in order."""
        return sorted(jobs, key=first_come)

    def gives_up(self, job: Job) -> bool:
        """Whether a call's KV is dropped if it is not swapped out."""
        return True

    def at_call(self, job: Job, plan: Plan) -> None:
        self.holding[job.index] = job

    def at_return(self, job: Job, now: int) -> None:
        self.holding.pop(job.index, None)
        super().at_return(job, now)

    def while_paused(self, plan: Plan) -> None:
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
        """Decide about each free call that holds KV."""
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
        """Swap out as much as the limit and the host take; return whether the limit is used up."""
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
        """Return N: the most tokens whose transfer the expected batch, or one token's, hides."""
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
        """Return the device tokens that the decodes leave free."""
        if plan.free_blocks is None:
            return LIMIT
        block = self.machine.block
        growth = sum(job.device % block == 0 for job in self.decoding)
        return max(0, plan.free_blocks - growth) * block

    def fill_swapped(self, plan: Plan) -> None:
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
        """Bring back as much as the limit and the memory take; return whether anything came."""
        whole = not self.machine.partial or not self.limit
        most = job.host if whole and not plan.swapped_in else min(job.host, self.in_left)
        tokens = min(most, self.fitting(job, plan))
        if tokens < (job.host if whole else 1):
            return False
        plan.swap_in(job, tokens)
        self.in_left = max(0, self.in_left - tokens)
        return True

    def fitting(self, job: Job, plan: Plan) -> int:
        """Return its further tokens that the free blocks take."""
        if plan.free_blocks is None:
            return LIMIT
        held = job.device + job.found
        return (job.blocks + job.spared(held) + plan.free_blocks) * self.machine.block - held

    # --- work ----------------------------------------------------------------------------------------------------

    def decide(self, view: View, plan: Plan) -> None:
        super().decide(view, plan)
        if self.swapped and not plan.work and not plan.swapped_out and not plan.swapped_in:
            self.make_room(self.swapped[0].job, plan)

    def make_room(self, job: Job, plan: Plan) -> None:
        """Evict the last comers until `job`, the first on the host, has room, if that suffices.

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
        victims = [other for other in self.holders() if other.id not in plan.work and self.may_evict(other)]
        return max(victims, key=first_come, default=None)

    def _take_or_evict(self, job: Job, tokens: int, running: Sequence[Job], plan: Plan) -> None:
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


class ImprovedDiscard(Vllm):
    """vLLM's scheduler; a call discards, and the request waits at the place of its original arrival.

    Running time: as vLLM.
    Source: InferCept (arXiv 2402.01869), Section 3.2, equation (1): ImprovedDiscard; as coded, the request is put
    before all that wait.
    """

    name = "improved-discard"

    def return_key(self, job: Job, now: int) -> Any:
        return self.key(job)


class Preserve(ImprovedDiscard):
    """vLLM's scheduler; a call keeps its KV on the device, and the request runs on when it returns.

    The returned tokens are a prefill, in a batch without decodes (the released code lets it join the decodes). During
    the call no other takes its memory.

    Running time: as vLLM.
    Source: InferCept (arXiv 2402.01869), Section 3.2, equation (2): Preserve.
    """

    name = "preserve"
    handling = "preserve"


class Swap(ImprovedDiscard):
    """vLLM's scheduler; a call sends all its KV to the host at once, or drops it if the host has no room.

    The request returns whole as soon as there is memory for it; until then no waiting request is admitted. Under a cost
    that adds transfers to the work all wait for them, as in the paper.

    Running time: as vLLM.
    Source: InferCept (arXiv 2402.01869), Section 3.2, equation (3): Swap; recomputation where the host is full is the
    released code's.
    """

    name = "swap"
    handling = "swap"

    def fill_waiting(self, plan: Plan) -> None:
        if not self.swapped:
            super().fill_waiting(plan)


STEPS = (
    InferceptBase().called(
        "infercept-chunked-discard",
        "Decodes, then chunks up to 384 tokens, by original arrival; calls discard",
        "InferCept (arXiv 2402.01869), Section 5.2",
        swaps=False,
    ),
    InferceptBase().called(
        "infercept-swap",
        "As infercept-chunked-discard; calls swap within what a batch hides, and discard beyond",
        "InferCept (arXiv 2402.01869), Section 5.2",
    ),
)
"""The steps from improved-discard: chunks, then swaps within the budget."""

LONG = ("chat", "image", "tts")  # types of calls that people or large models answer (Section 2.2)


class ByType(InferceptBase):
    """Chunks and swaps; calls of short-running types preserve, those of long-running ones discard beyond the limit.

    The long-running types are swapped first; an unknown type is short. A type is the id up to the first dash.

    Running time: as infercept-swap.
    Source: InferCept (arXiv 2402.01869), Section 5.2: discard for interactive (long-running), preserve for automated
    (short) types.
    """

    name = "infercept-heuristic"

    def ranked(self, jobs: Iterable[Job]) -> list[Job]:
        return super().ranked(job for job in jobs if self.gives_up(job))

    def gives_up(self, job: Job) -> bool:
        return call_type(job) in LONG


class Infercept(InferceptBase):
    """Decodes, chunks and swap-ins by original arrival; calls swap as a batch hides, else as wastes least.

    Requests in calls swap in order of their waste, as the limit allows; the others keep their KV or drop it. The waste
    of one with C tokens, m of them on the device, is the lesser of

        preserve (2)    T m                                    T: how long its call lasts, as `expected` says
        discard  (4)    n F(B + c) C / 2 + n (F(B + c) - F(B)) C_o

    where B requests run with C_o tokens of KV together, c = S - B tokens are left for chunks (at least 1), n = ceil(C /
    c) chunks refill it, and F(x) are the ticks of a batch of x tokens. It is dropped if that wastes less (5), and no
    part of it is on the host.

    Running time: O(r + p log p) a batch, r running, p in calls that hold KV; O(log n) an event.
    Source: InferCept (arXiv 2402.01869), Section 4; equations (2), (4), (5).
    """

    name = "infercept"
    knows: Knows = "predictions"

    def start(self, view: View) -> None:
        super().start(view)
        self.wastes: dict[int, tuple[int, int]] = {}

    def expected(self, job: Job) -> int:
        """Return T_INT, the ticks that its call is expected to last."""
        return job.demand.durations[job.segment - 1]

    def look_at_calls(self, plan: Plan) -> None:
        self.wastes = dict(self._wastes())
        super().look_at_calls(plan)

    def _wastes(self) -> Iterable[tuple[int, tuple[int, int]]]:
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
        """Return F(tokens): the ticks of a batch."""
        return self.cost.duration(forward(tokens)) if tokens else 0

    def ranked(self, jobs: Iterable[Job]) -> list[Job]:
        return sorted(jobs, key=lambda job: (-min(self.wastes[job.index]), job.arrival, job.index))

    def gives_up(self, job: Job) -> bool:
        """Whether discarding wastes less (5)."""
        preserve, discard = self.wastes[job.index]
        return discard < preserve


class InferceptElapsed(Infercept):
    """InferCept where nothing is known of calls: one is expected to last as long as it has lasted.

    Running time: as infercept. Source: InferCept (arXiv 2402.01869), Section 4.4.
    """

    name = "infercept-elapsed"
    knows: Knows = "online"

    def expected(self, job: Job) -> int:
        assert job.call_start is not None  # for mypy: it is in a call
        return self.now - job.call_start

    def steady(self, view: View, plan: Plan) -> int:
        return 1 if any(not job.host for job in self.holding.values()) else super().steady(view, plan)


class InferceptProfiled(InferceptElapsed):
    """InferCept with the mean duration of the calls of the same type that have returned; until one has, the elapsed.

    A call that returns in the middle of a batch is seen to last up to its end.

    Running time: as infercept. Source: InferCept (arXiv 2402.01869), Sections 2.2, 4.4.
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


def forward(tokens: int, decodes: int = 0) -> Features:
    """Return a batch's features from its numbers of tokens and decodes, without the KV that they read."""
    decodes = min(tokens, decodes)
    prefills = min(1, tokens - decodes)
    return Features(
        busy=min(1, tokens), any_decode=min(1, decodes), any_prefill=prefills, tokens=tokens, generated=decodes,
        decode_requests=decodes, prefill_requests=prefills,
    )  # fmt: skip


def hidden(cost: Cost, features: Features) -> int:
    """Return the tokens whose transfer a batch hides: 0 if a function adds transfers to work."""
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
    """Whether a function counts both work and transfers."""
    counted = {Features._fields[k] for k, _ in function.terms}
    return bool(counted & TRANSFERS and counted - TRANSFERS)


def call_type(job: Job) -> str:
    """Return the id up to the first dash."""
    return job.id.partition("-")[0]
