"""The base of today's engines: queues, and KV that calls preserve."""

from collections.abc import Iterator
from itertools import count
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

    Freed KV is gone. KV that a call preserves by the instance's order is held during the call, and then until its
    memory is needed, the first back first, each from its end (without `partial`, as a whole); where it may not be
    evicted, the request runs on at once. KV of a free call is held for `ttl` seconds, but not where memory is needed.

    A subclass gives `decide`, which calls `observe` first.
    """

    free_calls: ClassVar[Literal["min-waste", "preserve", "own"]] = "own"
    needs: tuple[str, ...] = ("chunked", "pause", "evict")
    ttl: float = 0.0

    def start(self, view: View) -> None:
        """Begin with empty queues."""
        self.machine = view.machine
        self.longest = max(1, LONGEST_OUTPUT // view.block_tokens)
        self.ttl_ticks = self.ttl / view.tick_seconds
        self.drains &= not self.ttl
        self.running: list[Job] = []  # in the order of their admission
        self.waiting: list[Job] = []
        self.kept: dict[int, Job] = {}  # whose KV gives way: preserved by calls, the first back first, and by `ttl`
        self.places: dict[int, int] = {}  # of the requests, in the order in which they came or came back
        self.counter = count()
        self.held: dict[int, Job] = {}  # in a call that preserves by order
        self._batch = 0
        self._gone: list[Job] = []  # lose their KV in the batch being decided, should it take place

    # --- the queues ----------------------------------------------------------------------------------------------

    def observe(self, view: View, plan: Plan) -> None:
        """Bring the queues up to date."""
        if view.batch > self._batch:  # what was to be dropped then has been
            self._gone.clear()
        self._batch = view.batch
        left = sorted((*view.ended, *view.called), key=self.running.index)
        for job in left:
            self.running.remove(job)
        for job in view.called:
            if job.handling == "preserve":
                self.held[job.index] = job
        self.kept |= {job.index: job for job in left if job.handling == "free" and job.device}
        if self.kept:
            over = [job for job in self.kept.values() if job.handling == "free" and self.over(job, view.now)]
            self._gone += [self.kept.pop(job.index) for job in over]
        for job in self._gone:
            plan.drop(job)
        for job in self.coming(view):
            held = self.held.pop(job.index, None)
            if held and self.machine.memory is not None and not self.machine.evict:
                self.running.append(job)
                continue
            if held:
                self.kept[job.index] = job
            self.queue(job)

    def coming(self, view: View) -> Iterator[Job]:
        """Yield those that arrive and return, in order of time; each gets its place."""

        def since(job: Job) -> int:
            return job.arrival if job.call_ended is None else job.call_ended

        for job in sorted((*view.arrived, *view.returned), key=since):
            self.places[job.index] = next(self.counter)
            yield job

    def place(self, job: Job) -> int:
        """Return the place among all that have come; a return from a call gets a new one."""
        return self.places[job.index]

    def queue(self, job: Job) -> None:
        """Put a request at the end of the queue."""
        self.waiting.append(job)

    def over(self, job: Job, now: int) -> bool:
        """Whether its call has lasted for `ttl`."""
        end = now if job.call_ended is None else job.call_ended
        return end - (job.call_start or 0) >= self.ttl_ticks

    def pinned(self) -> int:
        """Return the blocks that calls hold by `ttl`."""
        return sum(job.blocks for job in self.kept.values() if job.calling) if self.kept else 0

    def may_join(self, job: Job, plan: Plan) -> bool:
        """Whether the rules let it work in this batch: not if it loses KV in it (R4, R9), but with `drop_and_work`."""
        return job.id not in plan.dropped or self.machine.drop_and_work or job.handling in ("free", "discard")

    def limit(self, job: Job) -> int:
        """Return the tokens that the engine believes it may still generate before its call or end.

        At most those that the memory holds beside its prompt; 1 for one that outlives its limit.
        """
        unlimited = self.machine.memory is None
        held = LIMIT if unlimited else self.beside(job.known - job.generated, self.machine.longest)
        return max(1, min(job.max_new or self.longest, held) - self.generated(job))

    def generated(self, job: Job) -> int:
        """Return its segment's tokens that the engine has counted."""
        return job.generated

    def beside(self, prompt: int, memory: int) -> int:
        """Return the most tokens generated beside a prompt in a memory."""
        return memory - prompt

    # --- memory --------------------------------------------------------------------------------------------------

    def room(self, plan: Plan, job: Job | None = None) -> int:
        """Return the blocks free or of waiting requests, but of `job`."""
        if plan.free_blocks is None:
            return LIMIT
        if not self.kept:
            return plan.free_blocks
        return plan.free_blocks - plan.growth_without(None, 0, (k for k in self.kept.values() if k is not job))

    def take(self, job: Job, tokens: int, plan: Plan) -> None:
        """Let a request process `tokens`, if need be in waiting ones' memory."""
        self.kept.pop(job.index, None)
        while self.kept and not plan.fits(job, tokens):
            first = min(self.kept.values(), key=lambda kept: kept.calling)
            self.shrink(first, job.growth(tokens) - (plan.free_blocks or 0), plan)
        plan.take(job, tokens)

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches nothing changes: memory becomes scarcer, the budgets stay (`ttl` apart)."""
        return 1 if any(job.calling for job in self.kept.values()) else LIMIT

    def shrink(self, job: Job, lacking: int, plan: Plan) -> None:
        """Drop `lacking` blocks of a waiting request's KV from its end (without `partial`, all)."""
        if self.machine.partial and lacking < job.blocks:
            plan.drop(job, job.device - (job.blocks - lacking) * self.machine.block + job.host)
        else:
            plan.drop(job)
            del self.kept[job.index]

    def preempt(self, job: Job, plan: Plan) -> None:
        """Take a request out of the running ones, and drop its KV."""
        self.running.remove(job)
        if job.device:
            plan.drop(job)
