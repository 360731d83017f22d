"""SGLang's scheduler: prefill batches of their own, admitted by coming tokens."""

from typing import ClassVar

from heuristics.engine.ahead import PlansAhead
from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.policy import Setting
from heuristics.engine.view import View
from kvcore.instance import LIMIT

STEPS = 600  # decodes without a retraction in which r falls to its least
LEAST = 0.14  # the least r, as a part of the first


class SGLang(PlansAhead):
    """A batch prefills if any request can, and otherwise every running request decodes.

    *Prefill*: a cut prompt goes on first. Then waiting requests, first come first served, while fewer than
    `batch_requests` (and C) run, and each fits beside tokens yet to come: with A tokens free, tokens
    + min(max_new left, 4096) + 1 page < A - offset, the offset being r times min(max_new left, 4096) of the running
    requests, plus the tokens (in pages), min(max_new, 4096) and a page of each that this batch has admitted. Where
    nothing runs, the first is admitted anyway. One that fails, or takes the last of A, stops the admission until a
    running request leaves; not if none ran before the batch, a prompt is cut, or the cut prompt took all of the batch.
    A batch takes 8,192 tokens (fewer where P is less), in whole pages for each prompt, at most one of them cut. A page
    is a block. `max_new` is 4,096 by default, and at most what the memory holds beside the prompt's pages, a page and a
    token.

    *Decode*: where the next tokens of all do not fit, requests are retracted until they do: fewest output tokens first,
    of equal ones the longest prompt; they go to the end of the queue, the others stay in this order. Then r is their
    generated tokens, and 20 each, over their limits. Otherwise r falls with each decode from 0.7 times
    `schedule_conservativeness`, at most 1, to 0.14 of that; it is the first again when nothing is there. A cut prompt
    is retracted last.

    With `ignore_eos` (radix cache on) all requests are of fixed length, and r is 1. With `ahead`, the loop is the
    overlapped one: outputs are counted without the running batch's token; if the next tokens do not fit beside requests
    that leave, no batch is planned before these have left.

    Not modelled: mixed chunks; a request that the engine ends at a limit below its output; `ignore_eos` with the radix
    cache off; with `ahead`, that a retracted request loses the running batch's token: here no such work is without one.

    Running time: O(r) a batch, r running; O(r log r) a retraction.
    Source: SGLang 0.5.23, python/sglang/srt/managers/schedule_policy.py and scheduler.py, with which it agrees batch
    for batch (benchmarks/engines). Order `fcfs`, prefills and decodes apart; r is a double, as there.
    """

    name = "sglang"
    rule = "Prefills alone and first, admitted beside a share of the output limits; the fewest outputs are retracted"
    source = "SGLang 0.5.23, srt/managers/schedule_policy.py and scheduler.py"
    prefill_tokens = 8192
    new_token_ratio: float = 0.7
    schedule_conservativeness: float = 1.0
    max_running_requests: int = LIMIT
    ignore_eos: int = 0
    settings: ClassVar[dict[str, Setting]] = {
        "new_token_ratio": Setting("r at the start: the share of the limits that is kept free for running requests"),
        "schedule_conservativeness": Setting("what r is multiplied with at the start"),
        "max_running_requests": Setting("requests that run, beside the machine's own limit", least=1),
        "ignore_eos": Setting("1: all requests are of fixed length, and their whole limits are kept free", most=1),
    }

    def start(self, view: View) -> None:
        super().start(view)
        self.first = self.ratio = min(self.new_token_ratio * self.schedule_conservativeness, 1.0)
        self.least = min(self.first * LEAST, 1.0)
        self.cut: Job | None = None
        self.full = False
        self._decoded: int | None = None  # the batch decided before this, if it decoded

    def decide(self, view: View, plan: Plan) -> None:
        if self._decoded is not None:
            self.lower(view.batch - self._decoded - 1)
        self._decoded = None
        super().decide(view, plan)
        if not (self.running or self.cut or self.waiting):
            self.ratio = self.first

    def observe(self, view: View, plan: Plan) -> None:
        super().observe(view, plan)
        self.full &= not (view.ended or view.called)

    def step(self, view: View, plan: Plan) -> None:
        plan.limit(prefill_tokens=self.prefill_tokens)
        self.left = plan.prefill_left - plan.prefill_left % view.machine.block or plan.prefill_left
        ran = bool(self.running)
        if self.cut or (self.waiting and not self.full):
            self.tokens_free = self.room(plan) * view.machine.block
            self.offset = sum(min(self.limit(job), self.longest) * self.share for job in self.running)
            self.go_on(plan)
            self.admit(plan)
        if plan.work:
            self.full &= ran and self.cut is None
        elif self.running or self.cut:
            self.decode(plan)
            self._decoded = view.batch if plan.work else None

    @property
    def share(self) -> float:
        """The part of the limits kept free for running requests."""
        return 1.0 if self.ignore_eos else self.ratio

    def generated(self, job: Job) -> int:
        return job.generated - (self.stale and job.worked)

    def beside(self, prompt: int, memory: int) -> int:
        return memory - (self.machine.blocks(prompt) + 1) * self.machine.block - 1

    def go_on(self, plan: Plan) -> None:
        """Let the cut prompt go on, as far as memory allows."""
        job = self.cut
        if job is None:
            return
        room = (self.room(plan) + job.blocks) * self.machine.block - job.device - job.host
        rest = int(self.tokens_free - self.offset)
        tokens = min(plan.chunk(job), self.left, room, rest if rest > 0 else LIMIT)
        if tokens > 0:
            self.join(job, tokens, plan)

    def admit(self, plan: Plan) -> None:
        """Admit waiting requests in order, up to the first that does not fit or is cut."""
        size = self.machine.block
        most = min(self.machine.batch_requests or LIMIT, self.machine.batch_tokens or LIMIT, self.max_running_requests)
        while self.waiting and not self.full and (self.left > 0 or self.offset >= self.tokens_free):
            job = self.waiting[0]
            hit = job.blocks * size
            needed = job.missing + min(self.limit(job), self.longest) + size
            fits = needed < self.tokens_free - self.offset - hit or not (self.running or plan.work)
            if not fits or len(self.running) + bool(self.cut) >= most:
                self.full = True
                return
            tokens = min(plan.chunk(job), self.left) if self.may_join(job, plan) else 0
            if tokens < 1 or job.growth(tokens) > self.room(plan, job):  # what is in calls may hold the memory
                return
            del self.waiting[0]
            self.offset += hit
            self.join(job, tokens, plan)
            self.full = self.offset >= self.tokens_free
            if self.cut:
                return

    def most(self, job: Job) -> int:
        """Return the most tokens that the admission counts for it."""
        return min(self.generated(job) + self.limit(job), self.longest)

    def join(self, job: Job, tokens: int, plan: Plan) -> None:
        """Let a request prefill, in whole pages; it runs if that completes its prompt."""
        paged = self.machine.blocks(tokens) * self.machine.block
        self.left -= paged
        self.cut = job if tokens < job.missing else None
        self.offset += paged + self.machine.block + (0 if self.cut else self.most(job))
        self.take(job, tokens, plan)
        if self.cut is None:
            self.running.append(job)

    def decode(self, plan: Plan) -> None:
        """Let every running request decode, after retractions."""
        if self.decode_on(plan):
            self.lower(1)
            return
        going = [job for job in self.running if job.index not in self.leaving]
        self.full &= not self.leaving
        room = self.room(plan)
        fits = sum(job.growth(1) for job in going) <= room
        order = going if fits else sorted(going, key=lambda job: (-self.generated(job), job.known - job.generated))
        if not fits and self.leaving:
            return
        retracted: list[Job] = []
        while len(order) > 1 and sum(job.growth(1) for job in order) > room:
            retracted.append(order.pop())
            room -= plan.growth_without(None, 0, retracted[-1:])
        if self.cut is not None and (not order or order[0].growth(1) > room):
            retracted.append(self.cut)
            room -= plan.growth_without(None, 0, [self.cut])
        if not order or order[0].growth(1) > room:
            return  # what is in calls holds the memory
        for job in retracted:
            plan.drop(job)
            self.waiting.append(job)
        self.cut = None if self.cut in retracted else self.cut
        self.full &= not retracted
        if retracted:
            self.running = order
            counted, left = sum(map(self.generated, order)), sum(map(self.limit, order))
            self.ratio = min(1.0, (counted + 20 * len(order)) / (counted + left + 1))
        else:
            self.lower(1)
        for job in order:
            self.take(job, 1, plan)

    def lower(self, steps: int) -> None:
        """Lower r by that many decode steps."""
        for _ in range(min(steps, STEPS + 1)):
            self.ratio = max(self.ratio - (self.first - self.least) / STEPS, self.least)


VARIANTS = (SGLang().called("sglang-overlap", "As sglang; a batch is planned as the one before it starts", ahead=True),)
