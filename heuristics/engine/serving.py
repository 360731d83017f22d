"""The base of today's engines: queues, and KV that stays until its memory is needed."""

from itertools import count
from operator import itemgetter
from typing import ClassVar, Literal

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.policy import Policy
from heuristics.engine.view import View
from kvcore.instance import LIMIT

LONGEST_OUTPUT = 4096  # tokens that a request is taken to generate at most where it gives no `max_new`; SGLang's clip


class ServingEngine(Policy):
    """A request that calls ends there, and comes back as a new one at the end of the queue, in order of time.

    Of one tick, arrivals come before returns, each in the order of the instance.

    With `cached`, freed KV stays until its memory is needed, the longest freed first, each from its end: a request
    finds what is left when it is admitted. An incomplete last block does not stay (`whole_blocks`). Without `partial`,
    KV stays and goes as a whole. The KV of an ended request is free at once, or stands in the same line
    (`keeps_ended`). Without `cached`, freed KV is gone. KV that a call preserves by the instance's order is held during
    the call, and then is such KV; where it may not be evicted, the request runs on at once.

    A subclass gives `decide`, which calls `observe` first.
    """

    free_calls: ClassVar[Literal["min-waste", "preserve", "own"]] = "own"
    cached: bool = False
    whole_blocks: ClassVar[bool] = True  # whether only complete blocks are found again
    keeps_ended: ClassVar[bool] = False  # whether KV of a request that has ended is taken in its turn, too
    needs: tuple[str, ...] = ("chunked", "pause", "evict")

    def start(self, view: View) -> None:
        """Begin with empty queues."""
        self.machine = view.machine
        self.longest = max(1, LONGEST_OUTPUT // view.block_tokens)
        self.running: list[Job] = []  # in the order of their admission
        self.waiting: list[Job] = []
        self.unused: dict[int, Job] = {}  # hold KV that can be dropped, and do not run; the longest freed first
        self.ended: dict[int, int] = {}  # of `unused`, what has ended: its blocks, which are free in the model
        self.ended_blocks = 0
        self.places: dict[int, int] = {}  # of the requests, in the order in which they came or came back
        self.counter = count()
        self.held: dict[int, Job] = {}  # in a call that preserves by order
        self._batch = 0
        self._gone: list[tuple[Job, int]] = []  # to be dropped in the batch being decided, should it take place

    # --- the queues ----------------------------------------------------------------------------------------------

    def observe(self, view: View, plan: Plan) -> None:
        """Bring the queues up to date."""
        if view.batch > self._batch:  # what was to be dropped then has been
            self._gone.clear()
        self._batch = view.batch
        left = sorted((*view.ended, *view.called), key=self.running.index)
        ends = {job.index for job in view.ended}
        self.settle(plan, sum(self.machine.blocks(job.known - 1) for job in view.ended))
        for job in left:
            self.running.remove(job)
            if job.index in ends:
                self.keep_ended(job)
            elif job.handling == "free":
                self._gone.append((job, self.free(job)))
            elif job.handling == "preserve":
                self.held[job.index] = job
        for job, tokens in self._gone:
            if tokens:
                plan.drop(job, tokens)
        come = [
            (job.arrival if job.call_ended is None else job.call_ended, job) for job in (*view.arrived, *view.returned)
        ]
        for _, job in sorted(come, key=itemgetter(0)):
            self.places[job.index] = next(self.counter)
            held = self.held.pop(job.index, None)
            if held and self.machine.memory is not None and not self.machine.evict:
                self.running.append(job)
                continue
            if held:
                self.unused[job.index] = job
            self.queue(job)

    def place(self, job: Job) -> int:
        """Return the place among all that have come; a return from a call gets a new one."""
        return self.places[job.index]

    def queue(self, job: Job) -> None:
        """Put a request at the end of the queue."""
        self.waiting.append(job)

    def may_join(self, job: Job, plan: Plan) -> bool:
        """Whether the rules let it work in this batch: not if it loses KV in it (R4, R9)."""
        return job.id not in plan.dropped or job.handling in ("free", "discard")

    def limit(self, job: Job) -> int:
        """Return the tokens that the engine believes it may still generate before its call or end.

        At most those that the memory holds beside its prompt; 1 for one that outlives its limit.
        """
        blocks = self.machine.block_limit
        held = LIMIT if blocks is None else self.beside(job.known - job.generated, blocks * self.machine.block)
        return max(1, min(job.max_new or self.longest, held) - self.generated(job))

    def generated(self, job: Job) -> int:
        """Return its segment's tokens that the engine has counted."""
        return job.generated

    def beside(self, prompt: int, memory: int) -> int:
        """Return the most tokens generated beside a prompt in a memory."""
        return memory - prompt

    # --- memory --------------------------------------------------------------------------------------------------

    def room(self, plan: Plan, job: Job | None = None) -> int:
        """Return the blocks free or of unused KV, but of `job`."""
        if plan.free_blocks is None:
            return LIMIT
        return plan.free_blocks + sum(other.blocks for other in self.unused.values() if other is not job)

    def take(self, job: Job, tokens: int, plan: Plan) -> None:
        """Let a request process `tokens`, if need be in memory of unused KV."""
        self.unused.pop(job.index, None)
        while (lacking := job.growth(tokens) - self.spare(plan)) > 0:
            self.shrink(next(job for index, job in self.unused.items() if index not in self.ended), lacking, plan)
        plan.take(job, tokens)

    def spare(self, plan: Plan) -> int:
        """Return the blocks that go before any unused KV to be found again."""
        return LIMIT if plan.free_blocks is None else plan.free_blocks - self.behind()

    def behind(self) -> int:
        """Return the blocks of ended requests that go after some KV to be found again."""
        before = 0
        for index in self.unused if self.ended else ():
            if index not in self.ended:
                return self.ended_blocks - before
            before += self.ended[index]
        return 0

    def keep_ended(self, job: Job) -> None:
        """Put an ended request's complete blocks into the line."""
        blocks = (job.known - 1) // self.machine.block
        if self.cached and self.keeps_ended and blocks and self.machine.memory is not None:
            self.unused[job.index], self.ended[job.index] = job, blocks
            self.ended_blocks += blocks

    def settle(self, plan: Plan, freed: int = 0) -> None:
        """Take reused blocks of ended requests out of the line; `freed` blocks have become free since."""
        over = self.ended_blocks + freed - (plan.free_blocks or 0)
        for index in [*self.ended] if over > 0 else ():
            gone = min(over, self.ended[index])
            over -= gone
            self.ended_blocks -= gone
            self.ended[index] -= gone
            if self.ended[index]:
                return
            del self.ended[index], self.unused[index]

    def decode_on(self, plan: Plan) -> bool:
        """Let all running requests decode (`Plan.decode_on`), unless KV would go out of its turn."""
        fast = not self.behind() or len(self.running) <= self.spare(plan)
        return fast and plan.decode_on(self.running)

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches nothing changes: memory only becomes scarcer, the budgets stay.

        Repeated batches take free blocks only, so they end before those behind KV that stays.
        """
        each = len(self.running)
        return 1 + max(0, self.spare(plan)) // each * self.machine.block if self.behind() else LIMIT

    def shrink(self, job: Job, lacking: int, plan: Plan) -> None:
        """Drop `lacking` blocks of unused KV from its end (without `partial`, all)."""
        if self.machine.partial and lacking < job.blocks:
            plan.drop(job, job.device - (job.blocks - lacking) * self.machine.block + job.host)
        else:
            plan.drop(job)
            del self.unused[job.index]

    def preempt(self, job: Job, plan: Plan) -> None:
        """Take a request out of the running ones, and free its KV."""
        self.running.remove(job)
        self.settle(plan)
        if tokens := self.free(job):
            plan.drop(job, tokens)

    def free(self, job: Job) -> int:
        """Let KV stay until its memory is needed; return the tokens that do not stay."""
        tail = job.device % self.machine.block if self.whole_blocks and self.machine.partial else 0
        lost = tail if self.cached else job.device
        if lost < job.device:
            self.unused[job.index] = job
        return lost
