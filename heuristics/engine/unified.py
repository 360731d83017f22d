"""INFERMAX's unified algorithm (Algorithm 1), generalised to calls."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, ClassVar, Literal, NamedTuple

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.policy import Policy
from heuristics.engine.view import View
from kvcore.instance import LIMIT, Handling, Machine


class Entry(NamedTuple):
    """A request in a queue: the smallest key goes first, and of equal ones the earlier request."""

    key: Any
    position: int
    job: Job


class Unified(Policy):
    """Groups of requests in order of priority; each candidate is checked, and takes part, evicts, or is passed over.

    The groups: requests that hold KV and decode (`decoding`) or have a prefill before them (`prefilling`: chunks to
    come, or what a call returned), those on the host (`swapped`) and those without KV (`waiting`). A candidate needs
    tokens in the budgets, the batch's phase unless it is hybrid, and memory for the tokens of KV that `reserve` says.
    In `decoding` and `prefilling`, memory is taken from the running request of lowest priority, even the candidate
    itself; a waiting one waits. Free calls discard.

    A subclass sets the switches below and overrides the decisions that differ.
    """

    hybrid: bool = True  # whether a batch may mix prefills and decodes
    chunked: bool = True  # whether a prefill may be split; one that is longer than a batch takes is split in any case
    prefill_tokens: int | None = None  # P, the most prefill tokens in a batch (None: what the machine takes)
    batch_tokens: int | None = None  # C, the most tokens in a batch (None: what the machine takes)
    prefill_first: bool = False  # whether prefills go before decodes
    decodes_count: bool = False  # whether the decodes of a batch count against P as well
    by_arrival: bool = False  # whether the running requests are asked in order of arrival, whatever their phase
    spare_block: bool = False  # whether a decode needs a free block even where its last has room, unless it is alone
    needs: tuple[str, ...] = ("evict", "pause")
    swapped_wait: bool = False  # whether requests on the host queue with those that wait without KV
    handling: Handling = "discard"  # what happens to the KV of a call that the instance leaves free
    free_calls: ClassVar[Literal["min-waste", "preserve", "own"]] = "own"

    def start(self, view: View) -> None:
        """Begin with empty queues."""
        self.machine: Machine = view.machine
        self.decoding: list[Job] = []
        self.prefilling: list[Job] = []
        self.waiting: list[Entry] = []
        self.swapped: list[Entry] = []
        self.paused: dict[int, Job] = {}
        self.reserved: dict[int, tuple[Job, int]] = {}  # tokens of KV for which a request that holds less has memory
        self._batch = self.now = 0
        self._discarding: list[Job] = []  # dropped in the batch being decided, should it take place
        self._evicted: set[int] = set()

    # --- what a policy decides -----------------------------------------------------------------------------------

    def key(self, job: Job) -> Any:
        """Return the place in the queues, the smallest first: by arrival."""
        return job.arrival

    def return_key(self, job: Job, now: int) -> Any:
        """Return the place after a call: as if it came then where prefills go first, else the old one."""
        return now if self.prefill_first else self.key(job)

    def order(self, jobs: list[Job]) -> list[Job]:
        """Return the running requests by priority; the last is evicted first."""
        return jobs

    def reserve(self, job: Job, tokens: int) -> int:
        """Return the tokens of KV that need memory at its admission: its prompt, or the whole refill."""
        return job.known

    def joins(self, job: Job, tokens: int, plan: Plan) -> bool:
        """Whether a waiting request with budgets and memory may join the batch."""
        return True

    def groups(self, plan: Plan) -> Iterable[Callable[[Plan], None]]:
        """Return the groups in order of priority, as methods that fill the batch."""
        prefills = (self.fill_prefilling, self.fill_swapped, self.fill_waiting)
        return (*prefills, self.fill_decoding) if self.prefill_first else (self.fill_decoding, *prefills)

    def at_call(self, job: Job, plan: Plan) -> None:
        """Handle a free call that has just started."""
        handling = self.handling_of(job)
        if handling == "discard":
            self.discard(job, plan)
        elif handling == "swap":
            self.swap(job, plan)

    def handling_of(self, job: Job) -> Handling:
        """Return the handling of a free call."""
        return self.handling

    def at_return(self, job: Job, now: int) -> None:
        """Queue a returned request, by where its KV is."""
        if job.host and not self.swapped_wait:
            self.enqueue(self.swapped, job, self.return_key(job, now))
        elif job.device and not job.host:
            self.run(job)
        else:
            self.enqueue(self.waiting, job, self.return_key(job, now))

    def while_paused(self, plan: Plan) -> None:
        """Look at requests in calls, before each batch."""

    # --- the algorithm -------------------------------------------------------------------------------------------

    def decide(self, view: View, plan: Plan) -> None:
        """Fill the batch group by group."""
        plan.limit(
            hybrid=self.hybrid,
            chunked=self.chunked,
            batch_tokens=self.batch_tokens,
            prefill_tokens=self.prefill_tokens,
        )
        self._evicted.clear()
        self.now = view.now
        self.observe(view, plan)
        self.while_paused(plan)
        for fill in self.groups(plan):
            fill(plan)

    def observe(self, view: View, plan: Plan) -> None:
        """Bring the queues up to date."""
        for job in view.ended:
            self.leave(job)
        if view.batch > self._batch:  # what was to be discarded then has been
            self._discarding.clear()
        self._batch = view.batch
        for job in self._discarding:
            plan.drop(job)
        for job in view.called:
            self.leave(job, keep_reserve=True)
            self.paused[job.index] = job
            if job.handling == "free":
                self.at_call(job, plan)
        for job in view.arrived:
            self.enqueue(self.waiting, job, self.key(job))
        for job in view.returned:
            del self.paused[job.index]
            self.at_return(job, view.now)
        ready = [job for job in self.prefilling if job.phase == "decode"]
        for job in ready:
            self.prefilling.remove(job)
            self.run(job)
        self.reserved = {
            i: (job, most) for i, (job, most) in self.reserved.items() if job.device and job.device + job.host < most
        }

    def fill_decoding(self, plan: Plan) -> None:
        """Let all decodes process a token; where memory lacks, evict from the back."""
        if self.by_arrival and self.prefilling:
            self.fill_running(plan)
            return
        jobs = self.decoding if plan.takes("decode") else []
        needed = self._unreserved_growth(jobs)
        if self.spare_block:  # a block is left for each, or one after all
            needed = min(len(jobs), 1 + sum(job.growth(1) for job in jobs))
        if not jobs or (needed <= self.available(plan) and plan.decode_on(jobs)):
            return  # all of them decode, so their order does not matter
        jobs = self.order(jobs)
        self._go_on(jobs, jobs, plan)

    def _go_on(self, jobs: Sequence[Job], running: Sequence[Job], plan: Plan) -> None:
        for job in jobs:
            tokens = 0 if job.index in self._evicted else plan.chunk(job)
            if tokens:
                self._take_or_evict(job, tokens, running, plan)

    def fill_prefilling(self, plan: Plan) -> None:
        """Let prefills go on, and evict for them."""
        if self.decodes_count and self.prefill_tokens is not None:
            plan.limit(prefill_tokens=max(0, self.prefill_tokens - len(plan.work)))
        for job in () if self.by_arrival else list(self.prefilling):
            tokens = 0 if job.index in self._evicted else plan.chunk(job)
            if tokens:
                self._take_or_evict(job, tokens, [*self.prefilling, *self.order(self.decoding)], plan)

    def fill_running(self, plan: Plan) -> None:
        """Let the running requests go on in order of arrival."""
        running = sorted([*self.decoding, *self.prefilling], key=first_come)
        before = self.decoding[: bisect_left(self.decoding, min(map(first_come, self.prefilling)), key=first_come)]
        room = self.available(plan) - self.spare_block
        together = before and self._unreserved_growth(before) <= room and plan.decode_on(before)
        self._go_on(running[len(before) :] if together else running, running, plan)

    def fill_swapped(self, plan: Plan) -> None:
        """Bring requests back in order, up to the first that does not fit."""
        self._admit(self.swapped, plan)

    def fill_waiting(self, plan: Plan) -> None:
        """Admit in order, up to the first that does not fit."""
        self._admit(self.waiting, plan)

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches the decodes stay within reserved or free memory.

        None is admitted before something happens: memory only becomes scarcer, the budgets stay.
        """
        if not self.reserved and not self.spare_block:
            return LIMIT
        if self.machine.layout is not None:
            return 1
        return self._steps([most - job.device for job, most in self.reserved.values() if job.id in plan.work], plan)

    def _steps(self, rooms: Iterable[int], plan: Plan) -> int:
        within = [tokens for tokens in rooms if tokens > 0]
        beyond = len(plan.work) - len(within)
        steps = min(within, default=LIMIT)
        available = self._unreserved(plan, {}) - self.spare_block  # the work is done
        return steps if not beyond and available >= 0 else max(1, min(steps, 1 + available // max(1, beyond)))

    # --- memory --------------------------------------------------------------------------------------------------

    def available(self, plan: Plan) -> int:
        """Return the device blocks neither held nor reserved."""
        return self._unreserved(plan, plan.work)

    def _unreserved(self, plan: Plan, work: Mapping[str, int]) -> int:
        """Return the free blocks beyond reservations, after so much work."""
        if plan.free_blocks is None:
            return LIMIT
        blocks, reserved = self.machine.blocks, self.reserved.values()
        held = ((blocks(job.device + work.get(job.id, 0)), most) for job, most in reserved)
        return plan.free_blocks - sum(max(0, blocks(most) - now) for now, most in held)

    def lacks(self, job: Job, tokens: int, most: int) -> int:
        """Return the blocks that it lacks to hold `most`, once others' are its own with the next `tokens`."""
        return self.machine.blocks(most) - job.blocks - job.spared(job.device + job.host + job.found + tokens)

    def _promise(self, job: Job) -> int:
        job, most = self.reserved.get(job.index, (job, 0))
        return max(0, self.machine.blocks(most) - job.blocks)

    def _unreserved_growth(self, jobs: Sequence[Job]) -> int:
        """Return, from above, the blocks that one more token of each takes beyond reservations."""
        if not self.reserved:
            return 0  # what is free is all that counts, and the plan looks at that
        return sum(job.growth(1) for job in jobs if job.index not in self.reserved or not self._promise(job))

    def _fits(self, job: Job, tokens: int, plan: Plan) -> bool:
        alone = len(self.decoding) + len(self.prefilling) == 1
        if self.spare_block and job.phase == "decode" and not alone and self.available(plan) < 1:
            return False
        return job.growth(tokens) <= self.available(plan) + self._promise(job)

    def _take_or_evict(self, job: Job, tokens: int, running: Sequence[Job], plan: Plan) -> None:
        """Take a running request; while memory lacks, evict the last one not taken, itself in the end.

        While the batch has no work, running requests are evicted only if that makes it fit: a drop alone is no batch.
        """
        while not self._fits(job, tokens, plan):
            victim = self.victim(job, running, plan)
            if victim is None:
                return
            if not plan.work and victim.index not in self.paused and not self._would_fit(job, tokens, running, plan):
                return
            self.evict(victim, plan)
            if victim is job:
                return
        plan.take(job, tokens)

    def victim(self, job: Job, running: Sequence[Job], plan: Plan) -> Job | None:
        """Return the last running request that is not taken, as victim for `job` (None: there is none)."""
        return next(self.evictable(running, plan), None)

    def evictable(self, running: Sequence[Job], plan: Plan) -> Iterator[Job]:
        """Yield the running requests that may be evicted, the last first."""
        for other in reversed(running):
            if other.id not in plan.work and other.index not in self._evicted and self.may_evict(other):
                yield other

    def _would_fit(self, job: Job, tokens: int, running: Sequence[Job], plan: Plan) -> bool:
        after = [*takewhile(lambda other: other is not job, self.evictable(running, plan))]
        promised = self._promise(job) + sum(map(self._promise, after))
        return plan.growth_without(job, tokens, after) <= self.available(plan) + promised

    def may_evict(self, job: Job) -> bool:
        """Whether the rules let its KV be dropped (R8, R9)."""
        return self.machine.evict or (job.window and job.handling == "free")

    # --- moves between the queues --------------------------------------------------------------------------------

    def _admit(self, queue: list[Entry], plan: Plan) -> None:
        taken = 0
        for entry in queue:
            job = entry.job
            if job.index in self._evicted:
                break
            tokens = plan.chunk(job)
            most = self.reserve(job, tokens) if tokens else 0
            if not tokens or self.lacks(job, tokens, most) > self.available(plan):
                break
            if not self.joins(job, tokens, plan):
                break
            plan.take(job, tokens)
            taken += 1
            self.reserved[job.index] = job, most
            self.prefilling.append(job)
        del queue[:taken]

    def enqueue(self, queue: list[Entry], job: Job, key: Any) -> None:
        """Put a request into a queue."""
        insort(queue, Entry(key, job.index, job))

    def run(self, job: Job) -> None:
        """Put a request that holds KV among the running ones, in order of arrival."""
        queue = self.decoding if job.phase == "decode" else self.prefilling
        insort(queue, job, key=first_come)

    def leave(self, job: Job, *, keep_reserve: bool = False) -> None:
        """Take a request out of the running ones."""
        for queue in (self.decoding, self.prefilling):
            if job in queue:
                queue.remove(job)
        if not keep_reserve:
            self.reserved.pop(job.index, None)

    def evict(self, job: Job, plan: Plan) -> None:
        """Drop the KV of a running request and let it wait."""
        plan.drop(job)
        self.leave(job)
        self._evicted.add(job.index)
        self.enqueue(self.waiting, job, self.key(job))

    def discard(self, job: Job, plan: Plan) -> None:
        """Drop a call's KV in the first batch that takes place."""
        self.reserved.pop(job.index, None)
        self._discarding.append(job)
        plan.drop(job)

    def host_takes(self, job: Job, plan: Plan) -> bool:
        """Whether the host has room for all its KV."""
        return plan.free_host is None or self.machine.hosted(job.device) <= plan.free_host

    def swap(self, job: Job, plan: Plan) -> None:
        """Send a call's KV to the host, or discard it without room."""
        if self.host_takes(job, plan):
            self.reserved.pop(job.index, None)
            plan.swap_out(job)
        else:
            self.discard(job, plan)


def first_come(job: Job) -> tuple[int, int]:
    """Return the place in the order of arrival."""
    return job.arrival, job.index
