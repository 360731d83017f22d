"""SGLang's scheduler: prefill batches of their own, admitted by the tokens that the running ones may yet generate."""

from __future__ import annotations

from fractions import Fraction

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.serving import ServingEngine
from heuristics.engine.view import View
from kvcore.instance import LIMIT

START = Fraction(7, 10)
"""The new-token ratio r at the start and when idle (schedule conservativeness 1.0)."""
LEAST = START * Fraction(14, 100)
DECAY = (START - LEAST) / 600
"""What r loses with each decode step."""


class SGLang(ServingEngine):
    """A batch prefills if any request can, and otherwise every running request decodes.

    *Prefill*: a prompt that was cut goes on first. Then waiting requests, first come first served, while fewer than
    `batch_requests` (and C) run, and while what each has to process fits beside what may yet be generated: with A
    tokens free, tokens + min(max_new left, 4096) + 1 page < A - offset, the offset being r times min(max_new left,
    4096) of the running requests, plus the tokens (in pages), min(max_new, 4096) and a page of each that this batch has
    admitted. Where nothing is there, the first is admitted anyway. One that fails, or that takes the last of A, stops
    the admission until a running request leaves; not if none ran before the batch, or a prompt is cut. A batch takes
    8,192 tokens (fewer where P is less), in whole pages for each prompt, of which one at most is cut. A page is a
    block. For a request without `max_new` 4,096 tokens are assumed.

    *Decode*: where the next tokens of all do not fit, requests are retracted until they do: the one with the fewest
    output tokens first, of equal ones the longest prompt; they go to the end of the queue. Then r is what the others
    have generated, and 20 tokens each, over their limits. Otherwise r falls with each decode from 0.7 to 0.098; it is
    0.7 again when nothing is there. A prompt that was cut is retracted after all others: the engine would fail there.

    With `cached`, freed KV stays until its memory is needed (the radix cache, for the request itself, oldest first);
    that of a retracted request does not. Not modelled: KV shared between requests; the order `lpm`; mixed chunks; that
    a request which has ended counts as running for one more decode.

    Guarantee: nothing is known. Running time: O(r) for a batch with r running requests, O(r log r) for a retraction.
    Source: SGLang, python/sglang/srt/managers/schedule_policy.py (00550cd) and scheduler.py (0003215); budget,
    retraction and ratio from later copies of them. Order `fcfs`, no overlap of prefills and decodes.
    """

    source = "SGLang, srt/managers/schedule_policy.py (00550cd) and scheduler.py (0003215)"
    prefill_tokens = 8192

    def __init__(self, name: str, *, cached: bool = False) -> None:
        self.name = name
        self.cached = cached
        freed = "freed KV stays until needed" if cached else "calls discard"
        self.rule = (
            "prefills alone and first, admitted beside a share of the output limits; "
            f"the fewest outputs are retracted; {freed}"
        )

    def start(self, view: View) -> None:
        """Begin with empty queues."""
        super().start(view)
        self.ratio = START
        self.cut: Job | None = None
        self.full = False
        self._decoded: int | None = None  # the batch decided before this, if it decoded

    def decide(self, view: View, plan: Plan) -> None:
        """Prefill if any request can, else decode."""
        if self._decoded is not None:  # the engine has repeated the batch
            self.lower(view.batch - self._decoded - 1)
        self._decoded = None
        self.observe(view, plan)
        self.full &= not (view.ended or view.called)
        plan.limit(prefill_tokens=self.prefill_tokens)
        self.left = plan.prefill_left - plan.prefill_left % view.machine.block or plan.prefill_left
        ran = bool(self.running)
        self.go_on(plan)
        self.admit(plan)
        if plan.work:
            self.full &= ran and self.cut is None
        elif self.running or self.cut:
            self.decode(plan)
            self._decoded = view.batch
        if not (self.running or self.cut or self.waiting):
            self.ratio = START

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches nothing changes: none is admitted before a running request leaves."""
        return LIMIT

    def go_on(self, plan: Plan) -> None:
        """Let the prompt that was cut go on, with as many tokens as there is memory for."""
        job = self.cut
        if job is None:
            return
        room = (self.room(plan) + job.blocks) * self.machine.block - job.device - job.host
        tokens = min(plan.chunk(job), self.left, room)
        if tokens > 0:
            self.join(job, tokens, plan)

    def admit(self, plan: Plan) -> None:
        """Admit waiting requests in order, up to the first that does not fit, or whose prompt is cut."""
        if self.full or not self.waiting:
            return
        size = self.machine.block
        most = min(self.machine.batch_requests or LIMIT, self.machine.batch_tokens or LIMIT)
        room = Fraction(self.room(plan) * size)
        for job in self.running:
            room -= self.most(job) + size if job.id in plan.work else self.ratio * min(self.limit(job), self.longest)
        room -= size if self.cut else 0
        while self.waiting:
            job = self.waiting[0]
            hit = job.blocks * size if job.index in self.unused else 0
            output = min(self.limit(job), self.longest)
            fits = job.missing + output + size < room - hit or not (self.running or plan.work)
            if not fits or len(self.running) + bool(self.cut) >= most:
                self.full = True
                return
            tokens = min(plan.chunk(job), self.left) if self.may_join(job, plan) else 0
            if tokens < 1 or job.growth(tokens) > self.room(plan, job):  # what is in calls may hold the memory
                return
            room -= hit + job.growth(tokens) * size + size + (self.most(job) if tokens == job.missing else 0)
            del self.waiting[0]
            self.join(job, tokens, plan)
            self.full = room <= 0
            if self.full or self.left < 1 or self.cut:
                return

    def most(self, job: Job) -> int:
        """Return the tokens that it may generate in all, as the admission counts them."""
        return min(job.generated + self.limit(job), self.longest)

    def join(self, job: Job, tokens: int, plan: Plan) -> None:
        """Let a request prefill, in whole pages of the batch's tokens; it runs if that completes its prompt."""
        self.left -= self.machine.blocks(tokens) * self.machine.block
        self.cut = job if tokens < job.missing else None
        self.take(job, tokens, plan)
        if self.cut is None:
            self.running.append(job)

    def decode(self, plan: Plan) -> None:
        """Let every running request decode, once enough of them are retracted."""
        if plan.decode_on(self.running):
            self.lower(1)
            return
        order = sorted(self.running, key=lambda job: (-job.generated, job.known - job.generated))
        retracted: list[Job] = []
        room = self.room(plan)
        while len(order) > 1 and sum(job.growth(1) for job in order) > room:
            retracted.append(order.pop())
            room += retracted[-1].blocks
        if self.cut is not None and (not order or order[0].growth(1) > room):
            retracted.append(self.cut)
            room += self.cut.blocks
        if not order or order[0].growth(1) > room:
            return  # what is in calls holds the memory
        for job in retracted:
            plan.drop(job)
            self.waiting.append(job)
        gone = {job.index for job in retracted}
        self.cut = None if self.cut is None or self.cut.index in gone else self.cut
        self.running = [job for job in self.running if job.index not in gone]
        self.full &= not retracted
        if retracted:
            allowed = sum(job.generated + self.limit(job) for job in self.running)
            self.ratio = min(Fraction(1), Fraction(sum(job.generated + 20 for job in self.running), allowed + 1))
        else:
            self.lower(1)
        for job in self.running:
            self.take(job, 1, plan)

    def lower(self, steps: int) -> None:
        """Lower r by that many decode steps."""
        self.ratio = max(self.ratio - steps * DECAY, LEAST) if self.ratio > LEAST else self.ratio
