"""vLLM V1's scheduler: one budget of tokens, the last comer recomputed."""

from bisect import insort
from collections.abc import Callable, Iterator
from typing import ClassVar

from heuristics.engine.ahead import PlansAhead
from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.policy import LAID, Setting
from heuristics.engine.view import View
from kvcore.instance import LIMIT

VICTIMS: dict[str, Callable[[Job], int]] = {
    "last": lambda job: 0,
    "least-computed": lambda job: -job.device,
    "most-blocks": lambda job: job.blocks,
    "longest": lambda job: job.known,
}
"""Who is preempted: the largest, of equal ones the last admitted."""


class VllmV1(PlansAhead):
    """Running requests in the order of their admission, then waiting ones, each with what is left of C tokens.

    There are no phases: a request owes its known tokens that are not computed, and gets as many as the budget has left.
    A running request gets the blocks of these only. Where they lack, the last running request is preempted: its KV is
    freed, and it goes to the front of the queue. A step that preempts admits none. Otherwise the head of the queue is
    admitted while there are tokens, fewer than `batch_requests` run, and all its known tokens fit in the free blocks
    (`gate`; without it, its first chunk).

    With `priority`, larger weights go first, in the queue and at the preemption, and then those that came first; with
    `aging`, a request counts a weight less for each `aging` tokens of its context. One that preempts itself ends the
    step for those after it up to 0.32 (`ends_step`); since 0.33.0 they go on. With `ahead`, the scheduling is
    asynchronous. Not modelled: the prefix cache (`vllm-v1-prefix`).

    vLLM has neither `aging`, nor another `victim` (proposed in its issue 54644: the least computed), nor `ttl`: for so
    long a call keeps its KV. Running requests take it before they preempt, no request is admitted into it while others
    run.

    Running time: O(r) a batch, r running; O(n) a preemption.
    Source: vLLM 0.33.0, vllm/v1/core/sched/scheduler.py, equal batch for batch (benchmarks/engines); defaults of V1:
    chunked prefills, the gate of 2026 (`scheduler_reserve_full_isl`), no watermark, no threshold.
    """

    name = "vllm-v1"
    takes = LAID
    rule = (
        "One token budget, running before waiting, first come first served, admitted if all of it fits; calls discard; "
        "vLLM's defaults but the prefix cache and planning ahead (vllm-v1-prefix-async has both)"
    )
    source = "vLLM 0.33.0, vllm/v1/core/sched/scheduler.py"
    gate: bool = True
    priority: bool = False
    ends_step: bool = False
    drains = True
    needs = ("hybrid", "chunked", "pause", "evict")
    watermark: float = 0.0
    long_prefill_token_threshold: int = 0
    max_num_seqs: int = LIMIT
    prefill_schedule_interval: int = 1
    victim: str = "last"
    aging: int = 0
    settings: ClassVar[dict[str, Setting]] = {
        "watermark": Setting("share of all blocks that an admission leaves free where requests run", most=1),
        "long_prefill_token_threshold": Setting("tokens of a request in a batch, unless it is alone (0: no limit)"),
        "max_num_seqs": Setting("requests that run, beside the machine's own limit", least=1),
        "prefill_schedule_interval": Setting("batches from a prefill to the next, unless some were left", least=1),
        "victim": Setting(f"whom to preempt, without priority: {', '.join(VICTIMS)}", words=tuple(VICTIMS)),
        "ttl": Setting("seconds for which a call keeps its KV"),
    }

    def start(self, view: View) -> None:
        super().start(view)
        self.drains &= not self.ahead
        self.threshold = -(-self.long_prefill_token_threshold // view.block_tokens) or LIMIT
        self.aging_tokens = -(-self.aging // view.block_tokens) or LIMIT
        self.reserve = int(self.watermark * ((self.machine.block_limit or 0) + 1))  # vLLM counts its null block, too
        self.chunks: set[int] = set()  # whose known tokens were not all computed in their latest batch
        self.prefilled = -self.prefill_schedule_interval  # batches up to the latest that prefilled
        self.preempted = 0  # by steps that took no time before the batch
        self.backlog = False  # whether the latest batch that might prefill left any waiting

    def step(self, view: View, plan: Plan) -> None:
        self.most = self.threshold if len(self.running) + len(self.waiting) > 1 else LIMIT
        self.early = view.batch + 1 - self.prefilled < self.prefill_schedule_interval and not self.backlog
        self.defers = self.early  # some decode: else `in_turn` says
        self.prefills = False
        if self.go_on(plan):
            self.admit(plan)
        if self.prefills and plan.work:
            self.prefilled = view.batch + 1

    def steady(self, view: View, plan: Plan) -> int:
        deferred = self.prefill_schedule_interval > 1 and (self.waiting or self.chunks)
        return 1 if deferred else super().steady(view, plan)

    def queue(self, job: Job, *, front: bool = False) -> None:
        if self.priority:
            insort(self.waiting, job, key=self.rank)
        else:
            self.waiting.insert(0 if front else len(self.waiting), job)

    def go_on(self, plan: Plan) -> bool:
        """Let the running requests go on in order, and preempt where memory lacks; return whether none was.

        All is decided first, and done if any works: a batch that only drops is none.
        """
        count = len(self.running)
        first = self.decode_first(plan)
        if first == len(self.running) > 0:
            return first == count
        room = self.room(plan)
        victims, taken = dict[int, Job](), dict[Job, int]()
        left = {"decode": plan.tokens_left, "prefill": plan.prefill_left}
        order: list[Job] = []  # in which memory is taken and freed
        for job in self.in_turn(victims, taken, first):
            if len(taken) == plan.requests_left:
                break
            tokens = min(job.missing, self.most, *(left.values() if job.phase == "prefill" else (left["decode"],)))
            while tokens and job.growth(tokens) > room and job.index not in victims:
                victim = self.whom([other for other in self.running if other.index not in victims])
                victims[victim.index] = victim
                order.append(victim)
                given = taken.pop(victim, 0)
                _pay(left, victim, -given)
                room += victim.growth(given) + self.leaving.get(victim.index, 0)
                room -= plan.growth_without(None, 0, [victim])
            if tokens and job.index not in victims:
                self.prefills |= job.index in self.chunks
                taken[job] = tokens
                order.append(job)
                _pay(left, job, tokens)
                room -= job.growth(tokens)
        if not (first or taken or (victims and self.stale and self.machine.drop_and_work)):
            return not victims and all(job.index in self.leaving for job in self.running)
        admits = len(victims) == self.preempted
        for job in order:
            if job in taken:
                self.take(job, taken[job], plan)
            elif job.index in self.leaving:
                if job.blocks:
                    plan.drop(job)
            elif victims.pop(job.index, None):
                self.preempt(job, plan)
                self.queue(job, front=True)
        return admits

    def decode_first(self, plan: Plan) -> int:
        """Take the decodes before the first chunk at once, where none of them is preempted; return their number.

        If they lack memory, the last running are preempted first: as few as leave enough for the decodes before them.
        """
        running, last = self.running, self.victim == "last" and not self.priority
        first = len(running)
        if self.chunks:
            first = next((k for k, job in enumerate(running) if job.index in self.chunks), first)
        if self.leaving or not (last or first == len(running)):
            return 0
        decodes = running[:first]
        if plan.decode_on(decodes):
            return first
        if not last or not all(plan.decoding(decodes)):
            return 0
        stay, lacking, freed = len(running), plan.growth_of(decodes) - self.room(plan), 0
        while lacking > freed:
            stay -= 1
            lacking -= running[stay].growth(1) if stay < first else 0
            freed += running[stay].blocks
        if not (stay and plan.decode_on(running[:stay], freed)):
            return 0
        for job in reversed(running[stay:]):
            self.preempt(job, plan)
            self.queue(job, front=True)
        return stay

    def in_turn(self, victims: dict[int, Job], taken: dict[Job, int], first: int) -> Iterator[Job]:
        """Yield the running requests but the `first` that may go on, in order.

        A step that only preempts takes no time: the next begins at once, unless the batch before still runs.
        """
        self.preempted = -1
        while not taken and len(victims) > self.preempted:  # it ends: each step but the last preempts one more
            self.preempted = len(victims)
            running = [job for job in self.running if job.index not in victims]
            self.defers = self.early and any(job.index not in self.chunks for job in running)
            for job in running[first:]:
                if job.index in victims or job.index in self.leaving or (self.defers and job.index in self.chunks):
                    continue
                yield job
                if self.ends_step and job.index in victims:
                    break
            if self.stale or first:
                return

    def rank(self, job: Job) -> tuple[int, int]:
        """Return the place in the order of priority."""
        return job.known // self.aging_tokens - job.weight, self.place(job)

    def whom(self, running: list[Job]) -> Job:
        """Return whom to preempt; not one whose call holds its KV by order."""
        running = [job for job in running if not (job.index in self.leaving and job.handling == "preserve")]
        return max(running, key=self.rank) if self.priority else max(reversed(running), key=VICTIMS[self.victim])

    def take(self, job: Job, tokens: int, plan: Plan) -> None:
        (self.chunks.add if tokens < job.missing else self.chunks.discard)(job.index)
        super().take(job, tokens, plan)

    def admit(self, plan: Plan) -> None:
        """Admit from the head of the queue up to the first that does not fit."""
        most = min(self.machine.batch_requests or LIMIT, self.max_num_seqs)
        while self.waiting and len(self.running) < most:
            job = self.waiting[0]
            tokens, missing = min(plan.chunk(job), self.most) if self.may_join(job, plan) else 0, job.missing
            needed = job.growth(missing if self.gate else tokens)
            needed += self.reserve + self.pinned() if self.running else 0
            if not tokens or needed > self.room(plan, job) or (self.defers and missing > 1):
                break
            self.prefills |= missing > 1
            self.running.append(self.waiting.pop(0))
            self.take(job, tokens, plan)
        self.backlog = bool(self.waiting) if not self.defers else self.backlog


AGING = VllmV1.settings | {"aging": Setting("tokens of a context after which it counts a weight less (0: never)")}
VARIANTS = (
    VllmV1().called("vllm-v1-first-chunk", "As vllm-v1; admitted if its first chunk fits", gate=False),
    VllmV1().called("vllm-v1-priority", "As vllm-v1; larger weights first", priority=True, settings=AGING),
    VllmV1().called(
        "vllm-v1-priority-0.32",
        "As vllm-v1-priority; who preempts itself ends the step",
        priority=True,
        ends_step=True,
        settings=AGING,
    ),
    VllmV1().called(
        "vllm-v1-async", "As vllm-v1; a batch is planned as the one before it starts, vLLM's default", ahead=True
    ),
)


def _pay(left: dict[str, int], job: Job, tokens: int) -> None:
    left["decode"] -= tokens
    if job.phase == "prefill":
        left["prefill"] -= tokens
