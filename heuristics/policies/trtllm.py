"""TensorRT-LLM's schedulers: GUARANTEED_NO_EVICT and MAX_UTILIZATION."""

from bisect import insort
from collections.abc import Iterator
from heapq import merge
from typing import Any

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.serving import ServingEngine
from heuristics.engine.view import View
from kvcore.instance import LIMIT


class TensorRtLlm(ServingEngine):
    """Which requests take part is decided by memory, in order of arrival; then tokens are given out, decodes first.

    *GUARANTEED_NO_EVICT*: all that have started take part, with the blocks of prompt and output limit reserved; then
    waiting requests, in order, while theirs fit, at most `batch_requests` in all. Without `max_new` the limit is 4,096
    tokens, at most what the memory holds; where one outlives it, the last may be paused, as below.

    *MAX_UTILIZATION* (`utilize`): the list is walked in order. A starting request needs the blocks of its whole prompt,
    a later chunk none, a decode its next block. Where one lacks them, the last started at or after it in the list is
    paused, and the list is cut there; if there is none, the walk ends. A paused request loses its KV, keeps its place,
    and prefills its output as well.

    Decodes take a token each; what C leaves goes to prefills in order of arrival, cut at a block (anywhere, if a batch
    takes less than a block). Not modelled: block reuse, priorities, beams.

    Guarantee: with GUARANTEED_NO_EVICT none is evicted within its limit, so it runs on machines that do not evict;
    otherwise nothing is known. Running time: O(n) a batch, n present.
    Source: TensorRT-LLM, cpp/tensorrt_llm/batch_manager/capacityScheduler.cpp (02a10fe), microBatchScheduler.cpp
    (0a949d3) and scheduledBlocksManager.h (1ce9149); chunks FIRST_COME_FIRST_SERVED.
    """

    needs: tuple[str, ...] = ("hybrid", "chunked", "pause")
    utilize: bool = False
    source = "TensorRT-LLM, batch_manager/capacityScheduler.cpp (02a10fe), microBatchScheduler.cpp (0a949d3)"

    def start(self, view: View) -> None:
        super().start(view)
        self.started: set[int] = set()
        self.prompts: dict[int, int] = {}  # tokens that were known when a request started

    def goes_on(self, view: View, plan: Plan) -> bool:
        """Bring the queues up to date; whether all that there is decodes."""
        self.running.sort(key=self.place)
        self.observe(view, plan)
        self.started = {job.index for job in self.running}
        return not self.waiting and plan.decode_on(self.running)

    def decide(self, view: View, plan: Plan) -> None:
        if self.goes_on(view, plan):
            return
        chosen, paused = self.walk(plan) if self.utilize else self.reserve(plan)
        if not chosen:
            return
        for job in paused:
            self.preempt(job, plan)
            insort(self.waiting, job, key=self.place)
        decodes = chosen if all(plan.decoding(chosen)) else [job for job in chosen if self.generates(job)]
        if not plan.decode_on(decodes):
            for job in decodes:
                self.give(job, plan)
        for job in chosen:
            if job.id not in plan.work:
                self.give(job, plan)

    def give(self, job: Job, plan: Plan) -> None:
        """Give a request its share of the tokens."""
        tokens = plan.chunk(job) if self.may_join(job, plan) else 0
        if tokens < job.missing and self.machine.block <= (self.machine.prefill_limit or LIMIT):
            tokens -= tokens % self.machine.block
        if not tokens:
            return
        if job.index not in self.started:
            self.waiting.remove(job)
            self.running.append(job)
            self.prompts[job.index] = job.known
        self.take(job, tokens, plan)

    def generates(self, job: Job) -> bool:
        """Whether its prompt is done (the last token of a prompt is still a prefill here)."""
        started = job.index in self.started and job.known > self.prompts[job.index]
        return started and job.phase == "decode"

    # --- memory --------------------------------------------------------------------------------------------------

    def promised(self, job: Job) -> int:
        """Return the blocks that its prompt will still take."""
        return 0 if self.generates(job) else job.growth(job.missing)

    def walk(self, plan: Plan) -> tuple[list[Job], list[Job]]:
        """Return who takes part, and who pauses, with MAX_UTILIZATION."""
        started = list(self.running)
        room = self.room(plan)
        chosen: list[Job] = []
        paused: list[Job] = []
        line: Iterator[Job] = merge(self.running, self.waiting, key=self.place)
        first = not (started and self.waiting) or self.place(started[-1]) < self.place(self.waiting[0])
        if first and all(plan.decoding(started)) and plan.growth_of(started) <= room:
            chosen, line = started[: plan.requests_left], iter(self.waiting)  # none that started lacks memory
            room -= plan.growth_of(started)
        else:
            room -= sum(map(self.promised, started))
        for job in line:
            if len(chosen) == plan.requests_left or (paused and self.place(job) >= self.place(paused[-1])):
                break
            need = self.need(job)
            while need > room and started and self.place(started[-1]) >= self.place(job):
                paused.append(started.pop())
                room += self.promised(paused[-1]) - plan.growth_without(None, 0, paused[-1:])
            if need > room or job in paused:
                break
            room -= need
            chosen.append(job)
        return chosen, paused

    def need(self, job: Job) -> int:
        """Return the further blocks that a request needs."""
        if job.index in self.started:
            return job.growth(1) if self.generates(job) else 0
        return job.growth(job.missing) + job.blocks

    def reserve(self, plan: Plan) -> tuple[list[Job], list[Job]]:
        """Return who takes part, and who pauses, with GUARANTEED_NO_EVICT."""
        chosen = list(self.running)
        paused: list[Job] = []
        room = self.room(plan)
        while len(chosen) > 1 and sum(job.growth(job.missing) for job in chosen) > room:
            paused.append(chosen.pop())
            room -= plan.growth_without(None, 0, paused[-1:])
        if plan.free_blocks is None or self.machine.block_limit is None:
            return (chosen + self.waiting)[: plan.requests_left], paused
        free = self.machine.block_limit - sum(map(self.most, (*chosen, *self.held.values())))
        for job in () if paused else self.waiting:
            free -= self.most(job)
            if free < 0 or len(chosen) >= plan.requests_left:
                break
            chosen.append(job)
        return chosen, paused

    def most(self, job: Job) -> int:
        """Return the blocks of its prompt and output limit."""
        return min(self.machine.block_limit or LIMIT, self.machine.blocks(job.known + self.limit(job)))


RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "no-evict": ("prompt and output limit are reserved", {}),
    "max-utilization": ("the last started pauses", {"utilize": True, "needs": (*TensorRtLlm.needs, "evict")}),
}
VARIANTS = tuple(
    TensorRtLlm().called(
        f"trtllm-{name}", f"First come first served, decodes first, then chunks; {rule}; calls discard", **switches
    )
    for name, (rule, switches) in RULES.items()
)
