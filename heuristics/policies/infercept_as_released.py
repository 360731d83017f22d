"""InferCept as released: nothing is swapped before its memory is needed."""

from collections.abc import Sequence
from fractions import Fraction

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.unified import first_come
from heuristics.engine.view import View
from heuristics.policies.infercept import InferceptBase, forward
from kvcore.instance import LIMIT


class InferceptAsReleased(InferceptBase):
    """Paused requests keep their KV; those whose discard wastes less drop it, but for the worst, the first victims.

    For each batch, with S = 384 tokens, of a paused request with C tokens in blocks, whose call has T ticks left:

        preserve   T C
        discard    F(S) c n (n + 1) / 2 + f(c) n R + f(l) (R + l)

    where the running requests have B tokens to process and hold R in blocks, c = S - B (at least 1), n = ceil(C / c) -
    1, l = C mod c, F(S) are the ticks of a full batch and f(c) those that c tokens add to one. Candidates, whose
    discard is less, drop their KV, except those with the largest discard waste, the targets.

    Running requests (decodes and chunks alike), those on the host and the waiting ones are taken in order of arrival.
    One that lacks memory takes it from the back of the targets, and a running request then from the last that runs.
    That goes to the host, only as much as is needed and the out-budget holds; one that needs more is left out. Where
    the host is full, copies there are dropped, those of the longest remaining call first, else all of the victim. While
    none waits, the oldest on the host is dropped and waits, if its call was free. A target swapped in part stays one.
    Where nothing could work, evictions are those of `infercept`.

    Running time: as infercept, O(r log r) where chunks run.
    Source: InferCept's released code (arXiv 2402.01869), policy V with chunks; its profiled budgets for the 6B model.
    """

    name = "infercept-as-released"
    knows = "predictions"
    by_arrival = True
    base_in = Fraction("0.00462") * 384 + Fraction("108.99")  # tokens hidden beside 384: the profiled line
    base_out = 384 + base_in

    def start(self, view: View) -> None:
        super().start(view)
        self.targets: list[Job] = []

    # --- budgets and calls ---------------------------------------------------------------------------------------

    def while_paused(self, plan: Plan) -> None:
        self.ran = len(self.decoding) + len(self.prefilling)
        block = self.machine.block
        half = LIMIT if plan.free_blocks is None else Fraction(plan.free_blocks * block, 2)
        self.limit = self.in_left = max(0, int((self.base_in + half) // block)) * block
        self.out_left = max(0, int((self.base_out - half) // block)) * block
        if self.swapped and not self.waiting and self.swapped[0].job.handling == "free":
            job = self.swapped.pop(0).job
            self.discard(job, plan)
            self.enqueue(self.waiting, job, self.key(job))
        self.choose_targets(plan)

    def choose_targets(self, plan: Plan) -> None:
        """Drop all candidates' KV but the targets'."""
        candidates = []
        preserved = [job for job in self.holding.values() if not job.host]
        if preserved:
            waste, each = self.discard_wastes(preserved), 2 * self.machine.block
            left = {job.index: (job.call_end or 0) - self.now for job in preserved}  # less than 0 once a call is over
            candidates = [job for job in preserved if waste[job.index] < each * job.blocks * left[job.index]]
        worst = max((waste[job.index] for job in candidates), default=0)
        for job in candidates:
            if waste[job.index] < worst:
                del self.holding[job.index]
                self.discard(job, plan)
        parts = [job for job in self.holding.values() if job.host and job.device]
        self.targets = sorted([*parts, *(job for job in candidates if waste[job.index] == worst)], key=first_come)

    def discard_wastes(self, jobs: Sequence[Job]) -> dict[int, int]:
        """Return twice the waste of discarding each."""
        running = [*self.decoding, *self.prefilling]
        held = sum(job.blocks for job in running) * self.machine.block
        chunk = max(1, self.saturation - sum(job.missing for job in running))
        full, each = self.ticks(self.saturation), self.added(chunk)
        wastes = {}
        for job in jobs:
            context = job.blocks * self.machine.block
            n, last = max(0, -(-context // chunk) - 1), context % chunk
            ramp = full * n * (n + 1) * chunk
            wastes[job.index] = ramp + 2 * each * n * held + 2 * self.added(last) * (held + last)
        return wastes

    def ticks(self, tokens: int) -> int:
        """Return F, the ticks of a batch."""
        return self.cost.duration(forward(tokens))

    def added(self, tokens: int) -> int:
        """Return f, the ticks that `tokens` more tokens add."""
        return self.ticks(1 + tokens) - self.ticks(1)

    # --- memory on demand ----------------------------------------------------------------------------------------

    def fill_waiting(self, plan: Plan) -> None:
        while self.waiting:
            job = self.waiting[0].job
            tokens = 0 if job.index in self._evicted else plan.chunk(job)
            if not tokens or not self.free(job, tokens, self.targets, plan):
                return
            plan.take(job, tokens)
            del self.waiting[0]
            self.run(job)

    def bring(self, job: Job, plan: Plan) -> bool:
        if job.index in self._evicted:  # it has gone out just now
            return False
        tokens = min(job.host, self.in_left) if self.machine.partial else job.host
        self.free(job, tokens, self.targets, plan)
        return super().bring(job, plan)

    def free(self, job: Job, tokens: int, victims: Sequence[Job], plan: Plan) -> bool:
        """Take memory from the back of the victims, for `tokens` more; return whether that suffices."""
        pool = [victim for victim in victims if victim.device]
        while (lacking := tokens - self.fitting(job, plan)) > 0:
            if not pool or lacking > self.out_left:
                return False
            self.take_from(pool.pop(), lacking, plan)
        return True

    def _take_or_evict(self, job: Job, tokens: int, running: Sequence[Job], plan: Plan) -> None:
        if plan.fits(job, tokens):
            plan.take(job, tokens)
            return
        others = [other for other in self.holders() if other is not job and other.id not in plan.work]
        if self.free(job, tokens, self.targets, plan) or self.free(job, tokens, sorted(others, key=first_come), plan):
            plan.take(job, tokens)
        elif not plan.work and not plan.swapped_out:  # none could go on
            super()._take_or_evict(job, tokens, running, plan)

    def take_from(self, victim: Job, lacking: int, plan: Plan) -> None:
        """Send `lacking` tokens of a victim to the host, in whole blocks from the back; without room there, drop it."""
        block = self.machine.block
        keep = max(0, victim.device - lacking) // block * block if self.machine.partial else 0
        tokens = victim.device - keep
        paused = victim.index in self.paused
        if self.host_room(tokens, victim, plan):
            plan.swap_out(victim, tokens)
            self.out_left = max(0, self.out_left - tokens)
            if not paused:
                self.to_host(victim)
        elif victim.id not in plan.swapped_out:  # drops come before swaps
            if paused:
                self.holding.pop(victim.index, None)
                self.discard(victim, plan)
            else:
                self.evict(victim, plan)

    def to_host(self, job: Job) -> None:
        """Queue a running request whose KV has gone to the host."""
        self.leave(job)
        self.swapped = [entry for entry in self.swapped if entry.job is not job]
        self._evicted.add(job.index)
        self.enqueue(self.swapped, job, self.key(job))

    def host_room(self, tokens: int, victim: Job, plan: Plan) -> bool:
        """Whether the host has room, once copies are dropped, those of the longest remaining calls first.

        The copy of the first in line stays: memory is being made for it.
        """
        if plan.free_host is None or tokens <= plan.free_host:
            return True
        returned = [entry.job for entry in self.swapped[1:]]
        paused = [job for job in self.paused.values() if job.host and job.handling == "free"]
        copies = [*returned, *sorted(paused, key=lambda job: (job.call_end, job.index))]
        copies = [job for job in copies if job is not victim and job.host and job.id not in plan.swapped_out]
        if plan.free_host + sum(job.host for job in copies) < tokens:
            return False
        while tokens > plan.free_host:
            self.drop_copy(copies.pop(), plan)
        return True

    def drop_copy(self, job: Job, plan: Plan) -> None:
        """Drop its KV on the host (without `partial`, all)."""
        plan.drop(job, job.host if self.machine.partial else None)
        if job.index in self.paused:
            return
        self.swapped = [entry for entry in self.swapped if entry.job is not job]
        self._evicted.add(job.index)
        if job.device:
            self.run(job)
        else:
            self.enqueue(self.waiting, job, self.key(job))

    def steady(self, view: View, plan: Plan) -> int:
        left_out = len(plan.work) < self.ran or self.swapped or (self.waiting and self.targets)
        return 1 if left_out else super().steady(view, plan)
