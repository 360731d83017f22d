"""AugServe: a two-stage value, and a token limit that follows the free memory."""

from bisect import insort
from collections.abc import Sequence
from fractions import Fraction

from heuristics.engine.job import Job
from heuristics.engine.min_waste import HandlingWaste, least_waste
from heuristics.engine.plan import Plan
from heuristics.engine.unified import Unified
from heuristics.engine.view import View
from heuristics.policies.mars import NO_CALL, NextCall, next_call
from kvcore.instance import Handling


class AugServe(Unified):
    """Least predicted cost less waiting first: running, swapped, then resumed or new; a token limit by free memory.

    *Value*: at arrival (9) to (15), memory-time of prefill and decodes up to the call, plus that of the call (preserve)
    or of the swap-out; after a call (16) to (25), of bringing the context back, of the return and the decodes, plus the
    same for the next call. With the limit N for `target_max`, T the ticks of a batch of N tokens, and

        prefill L^2 T / 2N    decode T (L O + O^2 / 2)    return T (L R + R^2 / 2) / N    transfer C / 2 times its ticks

    The smallest value less `alpha`
    times the ticks since the request was last scheduled goes first: (26) with the sign that lets waiting help. A common
    term apart it is constant, so the queues keep their order.

    *Handling* of a free call: least waste by (4) to (8), at arrival as predicted, and again at the call. The tokens
    that wait for a swap are those of running requests, as in InferCept's (3); with N in their place, as in (6),
    swapping looks 100 times cheaper than it is (mean latency at 5 requests a second: 238 s, not 54 s).
    *Token limit*: free memory, and `gamma` times the KV of paused requests, within `beta_low` and `beta_high` times
    `target_max` (None: the machine's budget, or 512), (27) to (32). A running request that lacks memory takes that of
    the latest free call that was preserved, and then that of the running request of largest value.

    The paper gives gamma = 1; alpha (in tokens), beta_low and beta_high are ours.

    `as_printed` reads (6) and (26) as printed: waiting adds to the value, and nearly all calls swap, more than the link
    carries. Without `ranked` it is its ablation without two-stage scheduling.

    Running time: O(r) a batch, r running; O(log n) an event.
    Source: AugServe (arXiv 2512.04013), Sections 4.3 and 4.4, Algorithm 1.
    """

    name = "augserve"
    needs = ("evict", "pause", "chunked")
    knows = "predictions"

    def __init__(
        self,
        alpha: int = 100,
        beta_low: Fraction = Fraction(1, 2),
        beta_high: Fraction = Fraction(2),
        target_max: int | None = None,
        gamma: Fraction = Fraction(1),
        *,
        ranked: bool = True,
        as_printed: bool = False,
    ) -> None:
        self.alpha, self.gamma = alpha, gamma
        self.beta_low, self.beta_high = beta_low, beta_high
        self.target_max = target_max
        self.ranked, self.as_printed = ranked, as_printed

    def start(self, view: View) -> None:
        super().start(view)
        self.target = self.target_max or view.machine.batch_tokens or 512
        self.values: dict[int, int] = {}  # 2N token-ticks
        self.last: dict[int, int] = {}  # the tick at which a request was last scheduled
        self.context: dict[int, int] = {}  # tokens known when the latest call started
        self.kept: dict[int, int] = {}  # KV on the device of paused requests, by index, in order of their calls
        self.kept_tokens = 0
        self.active = 0  # KV of running requests, in whole blocks

    # --- the token limit -----------------------------------------------------------------------------------------

    def decide(self, view: View, plan: Plan) -> None:
        self.batch_tokens = self.limit(plan)
        super().decide(view, plan)

    def limit(self, plan: Plan) -> int:
        """Return the most tokens of this batch."""
        low, high = int(self.beta_low * self.target), int(self.beta_high * self.target)
        if plan.free_blocks is None or self.machine.block_limit is None:
            return max(1, high)
        free = plan.free_blocks * self.machine.block
        self.active = self.machine.block_limit * self.machine.block - free - self.kept_tokens
        return max(1, min(max(free + int(self.gamma * self.kept_tokens), low), high))

    def steady(self, view: View, plan: Plan) -> int:
        running = len(plan.work)
        if running < len(self.decoding) + len(self.prefilling):
            return 1
        steps = super().steady(view, plan)
        if plan.free_blocks is None or running <= int(self.beta_low * self.target):
            return steps
        block = self.machine.block
        spare = plan.free_blocks * block + int(self.gamma * self.kept_tokens) - running
        return max(1, min(steps, 1 + spare // (running * block)))

    # --- the value -----------------------------------------------------------------------------------------------

    def key(self, job: Job) -> tuple[int, int]:
        """Return the part of (26) that does not depend on the time, and the arrival."""
        if job.index not in self.values:
            self.values[job.index] = self.before_call(job)
        if not self.ranked:
            return 0, job.arrival
        waiting = 2 * self.target * self.alpha * self.last.get(job.index, job.arrival)
        return self.values[job.index] + (waiting if not self.as_printed else -waiting), job.arrival

    def before_call(self, job: Job) -> int:
        """Return the value of stage I, (9) to (15), times 2N."""
        iteration, tokens, out = self.iteration(job), job.known, job.remaining
        value = tokens * tokens * iteration + self.decode_cost(job, tokens, out)
        return value + self.call_cost(job, next_call(job))

    def after_call(self, job: Job) -> int:
        """Return the value of stage II, (16) to (25), times 2N."""
        iteration, before = self.iteration(job), self.context.get(job.index, job.known)
        returned = job.known - before
        value = iteration * (2 * before * returned + returned * returned)
        value += self.decode_cost(job, job.known, job.remaining)
        if job.host:
            value += self.target * before * job.demand.estimate.swap_in(before)
        elif not job.device:
            value += before * before * iteration
        return value + self.call_cost(job, next_call(job))

    def iteration(self, job: Job) -> int:
        """Return the ticks of a batch of N tokens."""
        return job.demand.estimate.prefill(0, self.target).ticks

    def decode_cost(self, job: Job, tokens: int, out: int) -> int:
        """Return (10) or (19), times 2N."""
        return self.target * self.iteration(job) * (2 * tokens * out + out * out)

    def call_cost(self, job: Job, call: NextCall) -> int:
        """Return (11) or (12), by the handling of the coming call, times 2N."""
        handling = self.least_waste(job, call) if call.handling == "free" else call.handling
        if handling == "preserve":
            return 2 * self.target * call.context * call.duration
        swapped = handling == "swap"
        return self.target * call.context * job.demand.estimate.swap_out(call.context) if swapped else 0

    def least_waste(self, job: Job, call: NextCall) -> Handling:
        """Return the handling of least waste, (4) to (8)."""
        if call is NO_CALL or self.machine.memory is None:
            return "preserve"
        estimate, context = job.demand.estimate, call.context
        beside = self.target if self.as_printed else context + self.active
        waste = HandlingWaste(
            preserve=call.duration * context,
            swap=(estimate.swap_out(context) + estimate.swap_in(context)) * beside,
            discard=estimate.prefill(0, context).ticks * (context + self.active),
        )
        return least_waste(waste, swap=self.machine.host_memory is None or context <= self.machine.host_memory)

    # --- calls, and what is held --------------------------------------------------------------------------------

    def observe(self, view: View, plan: Plan) -> None:
        for job in view.called:
            self.context[job.index] = 1 + job.device + job.host if job.device or job.host else job.known
            self.last[job.index] = view.now if job.call_start is None else job.call_start
        super().observe(view, plan)
        for job in view.called:
            if job.index in self.paused and job.device:
                self.kept[job.index] = job.device
                self.kept_tokens += job.device

    def handling_of(self, job: Job) -> Handling:
        k = job.segment - 1
        return self.least_waste(job, NextCall(job.device, job.demand.durations[k], job.demand.returns[k], "free"))

    def at_return(self, job: Job, now: int) -> None:
        self.kept_tokens -= self.kept.pop(job.index, 0)
        self.values[job.index] = self.after_call(job)
        super().at_return(job, now)

    def run(self, job: Job) -> None:
        queue = self.decoding if job.phase == "decode" else self.prefilling
        insort(queue, job, key=self._place)

    def _place(self, job: Job) -> tuple[int, int, int]:
        return self.values[job.index] if self.ranked else 0, job.arrival, job.index

    def victim(self, job: Job, running: Sequence[Job], plan: Plan) -> Job | None:
        for index in reversed(self.kept):
            paused = self.paused[index]
            if paused.handling == "free":
                return paused
        return super().victim(job, running, plan)

    def evict(self, job: Job, plan: Plan) -> None:
        if job.index in self.kept:
            self.kept_tokens -= self.kept.pop(job.index)
            self.discard(job, plan)
        else:
            self.last[job.index] = self.now
            super().evict(job, plan)


ABLATIONS = (
    AugServe(as_printed=True).called(
        "augserve-as-printed",
        "As augserve, but waiting adds to the value, and a swap is taken to waste N tokens for its time",
    ),
    AugServe(ranked=False).called(
        "augserve-batching",
        "Order of arrival, kept through calls; calls and token limit as in augserve",
        "AugServe (arXiv 2512.04013), Section 5.4: w/ MaxBatch",
    ),
)
