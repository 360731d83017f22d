"""Reservations that are counted once, when a request is admitted, and not anew in each batch."""

from __future__ import annotations

from collections.abc import Sequence

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.unified import Unified
from heuristics.engine.view import View
from kvcore.instance import LIMIT


class Reserving(Unified):
    """The unified algorithm where most requests hold less than what is reserved for them (`reserve`).

    Running time: O(r) for a batch with r running requests, O(1) for a question.
    """

    def start(self, view: View) -> None:
        """Begin with none admitted."""
        super().start(view)
        self.admitted: dict[int, tuple[Job, int]] = {}  # with the blocks at the end
        self._committed = 0  # blocks of all admitted ones together
        self._outlived: list[tuple[Job, int]] = []  # those that may hold more in this batch

    def observe(self, view: View, plan: Plan) -> None:
        """Bring the queues up to what has happened; KV that leaves the device at a call needs no memory any more."""
        self.commit()
        for job in view.called:
            if job.handling in ("discard", "swap"):
                self._release(job)
        super().observe(view, plan)
        blocks = self.machine.blocks
        self._outlived = [(job, most) for job, most in self.admitted.values() if blocks(job.known) > most]

    def available(self, plan: Plan) -> int:
        """Return the device blocks that are neither held nor reserved; what outlives its prediction holds more."""
        self.commit()
        limit = self.machine.block_limit
        if limit is None or plan.free_blocks is None:
            return LIMIT
        held = (
            (self.machine.blocks(job.known) if job.id in plan.work else job.blocks, most)
            for job, most in self._outlived
            if job.index in self.admitted
        )
        return min(plan.free_blocks, limit - self._committed - sum(max(0, blocks - most) for blocks, most in held))

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches the decodes stay within what is reserved for them, or free."""
        size = self.machine.block
        rooms = [blocks * size - job.device for job, blocks in self.admitted.values() if job.id in plan.work]
        return self._steps(rooms, plan)

    def commit(self) -> None:
        """Count what has been reserved since this was last asked, for as long as the KV stays on the device."""
        for job, most in self.reserved.values():
            blocks = self.machine.blocks(most)
            self.admitted[job.index] = job, blocks
            self._committed += blocks
        self.reserved.clear()

    def leave(self, job: Job, *, keep_reserve: bool = False) -> None:
        """Take a request out of the running ones."""
        super().leave(job, keep_reserve=keep_reserve)
        if not keep_reserve:
            self._release(job)

    def discard(self, job: Job, plan: Plan) -> None:
        """Drop the KV of a request in a call."""
        super().discard(job, plan)
        self._release(job)

    def swap(self, job: Job, plan: Plan) -> None:
        """Send the KV of a request in a call to the host, or discard it."""
        super().swap(job, plan)
        self._release(job)

    def _promise(self, job: Job) -> int:
        _, blocks = self.admitted.get(job.index, (job, 0))
        return max(super()._promise(job), blocks - job.blocks)

    def _unreserved_growth(self, jobs: Sequence[Job]) -> int:
        outlived = {job.index for job, _ in self._outlived}
        beyond = (job for job in jobs if job.index not in self.admitted or job.index in outlived)
        return sum(job.device % self.machine.block == 0 and not self._promise(job) for job in beyond)

    def _release(self, job: Job) -> None:
        self._committed -= self.admitted.pop(job.index, (job, 0))[1]
