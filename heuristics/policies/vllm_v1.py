"""vLLM V1's scheduler: one list of running requests, one budget of tokens, the last comer recomputed."""

from __future__ import annotations

from bisect import insort

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.serving import ServingEngine
from heuristics.engine.view import View
from kvcore.instance import LIMIT


class VllmV1(ServingEngine):
    """Running requests in the order of their admission, then waiting ones, each with what is left of C tokens.

    There are no phases: a request owes the tokens that are known and not computed, and gets as many of them as the
    budget has left. A running request gets the blocks of these tokens only. Where they lack, the last of the running
    requests is preempted: its KV is freed, and it goes to the front of the queue. A step that preempts admits none.
    Otherwise the head of the queue is admitted while there are tokens, fewer than `batch_requests` run, and all its
    known tokens fit in the blocks that are free now (`gate`; without it, its first chunk). Only the chunk is allocated;
    nothing is reserved. A call ends the request: it comes back as a new one, at the end of the queue.

    With `cached`, freed KV stays until its memory is needed (prefix caching, for the request itself); without, it is
    gone. With `priority`, larger weights go first, in the queue and at the preemption, and then those that came first.

    Not modelled: KV shared between requests, and scheduling ahead of the tokens (asynchronous scheduling).

    Guarantee: nothing is known. Running time: O(r) for a batch with r running requests, O(n) for a preemption.
    Source: vLLM, vllm/v1/core/sched/scheduler.py, commits b4622cf and 00024d3, and the gate of 2026
    (`scheduler_reserve_full_isl`); defaults of V1: chunked prefills, no watermark, no threshold.
    """

    source = "vLLM V1, vllm/v1/core/sched/scheduler.py (b4622cf, 00024d3; the gate of 2026)"
    needs = ("hybrid", "chunked", "pause", "evict")

    def __init__(self, name: str, *, gate: bool = True, cached: bool = False, priority: bool = False) -> None:
        self.name = name
        self.gate, self.cached, self.priority = gate, cached, priority
        order = "larger weight first" if priority else "first come first served"
        admitted = f"memory for {'all its tokens' if gate else 'its first chunk'} is free"
        freed = "freed KV stays until needed" if cached else "calls discard"
        self.rule = f"one token budget, running before waiting, {order}, admitted if {admitted}; {freed}"

    def decide(self, view: View, plan: Plan) -> None:
        """Let the running requests go on, and if none was preempted, admit waiting ones."""
        self.observe(view, plan)
        if (self.running and plan.decode_on(self.running)) or self.go_on(plan):
            self.admit(plan)

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches nothing changes: memory only becomes scarcer, the budgets stay as they are."""
        return LIMIT

    def queue(self, job: Job, *, front: bool = False) -> None:
        """Put a request into the queue: by priority, or at its front or its end."""
        if self.priority:
            insort(self.waiting, job, key=self.rank)
        else:
            self.waiting.insert(0 if front else len(self.waiting), job)

    def go_on(self, plan: Plan) -> bool:
        """Let the running requests go on in order, and preempt where memory lacks; return whether none was.

        What they do is decided first, and done if any works: a batch that only drops is none. A step in which all that
        happens is that the first preempts itself takes no time; the next one begins at once.
        """
        room = self.room(plan)
        victims, taken, before = dict[int, Job](), dict[Job, int](), 0  # victims of steps that took no time
        left = {"decode": plan.tokens_left, "prefill": plan.prefill_left}
        order: list[Job] = []  # in which memory is taken and freed
        for job in self.running:
            if job.index in victims or len(taken) == plan.requests_left:
                continue
            tokens = min(job.missing, *(left.values() if job.phase == "prefill" else (left["decode"],)))
            while tokens and job.growth(tokens) > room and job.index not in victims:
                victim = self.victim([other for other in self.running if other.index not in victims])
                victims[victim.index] = victim
                order.append(victim)
                given = taken.pop(victim, 0)
                _pay(left, victim, -given)
                room += victim.blocks + victim.growth(given)
            if job.index in victims:
                if taken:
                    break
                before = len(victims)
            elif tokens:
                taken[job] = tokens
                order.append(job)
                _pay(left, job, tokens)
                room -= job.growth(tokens)
        if not taken:
            return not self.running
        admits = len(victims) == before
        for job in order:
            if job in taken:
                self.take(job, taken[job], plan)
            elif victims.pop(job.index, None):
                self.preempt(job, plan)
                self.queue(job, front=True)
        return admits

    def rank(self, job: Job) -> tuple[int, int]:
        """Return the place in the order of priority."""
        return -job.weight, self.place(job)

    def victim(self, running: list[Job]) -> Job:
        """Return whom to preempt."""
        return max(running, key=self.rank) if self.priority else running[-1]

    def admit(self, plan: Plan) -> None:
        """Admit from the head of the queue up to the first that does not fit."""
        most = self.machine.batch_requests or LIMIT
        while self.waiting and len(self.running) < most:
            job = self.waiting[0]
            tokens = plan.chunk(job) if self.may_join(job, plan) else 0
            if not tokens or job.growth(job.missing if self.gate else tokens) > self.room(plan, job):
                return
            self.running.append(self.waiting.pop(0))
            self.take(job, tokens, plan)


def _pay(left: dict[str, int], job: Job, tokens: int) -> None:
    """Take the tokens of a request out of what is left of C ("decode") and of P ("prefill")."""
    left["decode"] -= tokens
    if job.phase == "prefill":
        left["prefill"] -= tokens
