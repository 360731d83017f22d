"""vLLM V1's scheduler with its prefix cache."""

from collections import Counter
from typing import ClassVar

from heuristics.engine.block_cache import BlockCache
from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.policy import Setting
from heuristics.engine.view import View
from heuristics.policies.vllm_v1 import VllmV1
from kvcore.features import Feature, Takes
from kvcore.instance import LIMIT, Machine

Block = tuple[str, int]


class VllmV1Prefix(VllmV1):
    """As vllm-v1, with a prefix cache: an admitted request finds the full blocks of its path still in memory.

    It processes its last token itself. Blocks that a chunk completes are found at once, also in the same batch; with
    `ahead`, once their tokens are known. Freed blocks stay until memory is needed: the longest free go first, a
    request's from its end. A call that preserves holds them until its request runs again; where none runs, those behind
    the first lose theirs. Blocks beyond a path are never found; `kv.own(instance)` puts all on it. One preempted and
    admitted again before a batch keeps its KV, in vLLM whole blocks (here with `drop_and_work`). With `priority`, vLLM
    also finds blocks that a preemption has kept from being computed.

    Running time: O(blocks) a batch. Source: vLLM 0.33.0, vllm/v1/core/kv_cache_manager.py.
    """

    name = "vllm-v1-prefix"
    drains = False
    settings: ClassVar[dict[str, Setting]] = {key: one for key, one in VllmV1.settings.items() if key != "ttl"}
    takes: ClassVar[Takes] = Takes(
        (VllmV1.takes.features | {Feature.SHARED}) - {Feature.PREFILL_TOKENS, Feature.SWAP, Feature.LAYOUT}
    )

    def why_not(self, machine: Machine) -> str | None:
        reason = super().why_not(machine)
        return reason or (None if machine.same_batch else "it needs a machine with same_batch")

    def start(self, view: View) -> None:
        super().start(view)
        self.memory = BlockCache(LIMIT if view.machine.block_limit is None else view.machine.block_limit)
        self.paths: dict[int, list[Block]] = {}
        self.depths: dict[Block, int] = {}
        self.blocks: dict[int, list[int]] = {}  # physical ones of the running requests,
        self.named: dict[int, int] = {}  # how many of them, from the first, have been named,
        self.done: dict[int, int] = {}  # and the tokens computed with the latest plan
        self.lost: dict[Job, int] = {}  # tokens to be dropped with the next batch
        self.resident: set[Block] = set()  # in the model, when the next batch has ended

    def decide(self, view: View, plan: Plan) -> None:
        if view.batch > self._batch:
            self.lost.clear()
        super().decide(view, plan)
        if plan.work:
            self._move(plan)

    def step(self, view: View, plan: Plan) -> None:
        super().step(view, plan)
        while not (plan.work or self.stale) and (self.preempted or self._give_way(plan)):
            super().step(view, plan)

    def steady(self, view: View, plan: Plan) -> int:
        return 1

    # --- the queues --------------------------------------------------------------------------------------------------

    def observe(self, view: View, plan: Plan) -> None:
        self._batch = view.batch
        left = {job.index for job in (*view.ended, *view.called)}
        for job in [job for job in self.running if self.ahead or job.index in left]:
            self._name_blocks(job, self.done[job.index] - plan.work.get(job.id, 0))
            if job.index in left:
                self.running.remove(job)
                if job.handling != "preserve":
                    self._release(job)
        self.lost |= {job: job.device for job in view.called if job.handling == "free"}
        for job in self.coming(view):
            self.queue(job)

    def path(self, job: Job) -> list[Block]:
        """Return the blocks of a request's path."""
        if job.index not in self.paths:
            path = self.paths[job.index] = [(part.node, k) for part in job.path for k in range(part.blocks)]
            self.depths.update((block, k) for k, block in enumerate(path))
        return self.paths[job.index]

    def go_on(self, plan: Plan) -> bool:
        self.left, self.preempted, at = plan.tokens_left, 0, 0
        self.defers = self.early and any(job.index not in self.chunks for job in self.running)
        while at < len(self.running) and self.left:
            job = self.running[at]
            if job.index in self.leaving or (self.defers and job.index in self.chunks):
                at += 1
                continue
            self.prefills |= job.index in self.chunks
            tokens = min(job.known - self.done[job.index], self.most, self.left)
            while job.index in self.blocks and self._lacking(job, tokens) > self.memory.free:
                self.preempted += 1
                victim = self.whom(self.running)
                at -= self.running.index(victim) < at
                self.preempt(victim, plan)
            if job.index in self.blocks:
                self._work(job, tokens, plan)
                at += 1
            elif self.ends_step:
                break
        return not self.preempted

    def _lacking(self, job: Job, tokens: int) -> int:
        return max(0, self.machine.blocks(self.done[job.index] + tokens) - len(self.blocks[job.index]))

    def preempt(self, job: Job, plan: Plan) -> None:
        self.running.remove(job)
        taken = plan.work.pop(job.id, 0)
        self.left += taken
        self.done[job.index] -= taken
        complete = self.done[job.index] // self.machine.block
        self.memory.unname(self.blocks[job.index][complete : self.named[job.index]])
        self.named[job.index] = min(self.named[job.index], complete)
        self._release(job)
        if job.index not in self.leaving:
            self.lost[job] = self.done[job.index]
            self.queue(job, front=True)

    def _release(self, job: Job) -> None:
        path, complete = self.path(job), self.done[job.index] // self.machine.block
        self.memory.gone.update(path[self.named[job.index] : complete])
        self.memory.give(self.blocks.pop(job.index))

    def _give_way(self, plan: Plan) -> bool:
        holding = [job for job in self.waiting[1:] if job.index in self.blocks]
        if self.running or not holding:
            return False
        self._release(holding[-1])
        self.lost[holding[-1]] = self.done[holding[-1].index]
        return True

    def _find(self, job: Job) -> list[int]:
        return self.memory.find(self.path(job)[: (job.known - 1) // self.machine.block])

    def may_join(self, job: Job, plan: Plan) -> bool:
        return job not in self.lost or self.machine.drop_and_work or job.handling in ("free", "discard")

    def admit(self, plan: Plan) -> None:
        most = min(self.machine.batch_requests or LIMIT, self.max_num_seqs)
        while self.waiting and len(self.running) < most and self.left:
            job = self.waiting[0]
            holds = job.index in self.blocks
            found = self.blocks[job.index] if holds else self._find(job)
            kept = 0 if self.may_join(job, plan) else self.lost[job]
            at = self.done[job.index] if holds else max(len(found) * self.machine.block, kept)
            tokens = min(job.known - at, self.most, self.left)
            needed = self.machine.blocks(job.known if self.gate else at + tokens) - self.memory.held(found)
            fits = needed + (self.reserve if self.running else 0) <= self.memory.free
            if not fits or (self.defers and job.known - at > 1):
                break
            self.prefills |= job.known - at > 1
            self.running.append(self.waiting.pop(0))
            if kept:
                del self.lost[job]
            if at > kept and not holds:
                plan.reused[job.id] = at - kept
            if not holds:
                self.memory.hold(found)
                self.blocks[job.index], self.named[job.index], self.done[job.index] = found, len(found), at
            self._work(job, tokens, plan)
        self.backlog = bool(self.waiting) if not self.defers else self.backlog

    # --- the batch ---------------------------------------------------------------------------------------------------

    def _work(self, job: Job, tokens: int, plan: Plan) -> None:
        self.blocks[job.index] += self.memory.take(self._lacking(job, tokens))
        plan.work[job.id] = tokens
        self.left -= tokens
        self.done[job.index] += tokens
        unknown = self.stale and job.worked and job.index not in self.chunks  # the token of the batch that runs
        (self.chunks.add if self.done[job.index] < job.known else self.chunks.discard)(job.index)
        self._name_blocks(job, min(self.done[job.index], job.known - unknown))

    def _name_blocks(self, job: Job, tokens: int) -> None:
        path, start = self.path(job), self.named[job.index]
        for k in range(start, min(tokens // self.machine.block, len(path))):
            self.memory.name(self.blocks[job.index][k], path[k])
            self.named[job.index] = k + 1

    def _move(self, plan: Plan) -> None:
        plan.dropped.update((job.id, tokens) for job, tokens in self.lost.items() if tokens)
        block, completed, unnamed = self.machine.block, set[Block](), set[Block]()
        for job in self.running:
            path, done = self.path(job), self.done[job.index]
            before = (done - plan.work.get(job.id, 0)) // block
            completed.update(path[before : done // block])
            unnamed.update(path[self.named[job.index] : before])
        gone = (self.resident & self.memory.gone).difference(self.memory.named, unnamed)
        self.memory.gone.clear()
        self.resident = (self.resident - gone) | completed
        plan.forgotten.update(Counter(node for node, _ in gone))


VARIANTS = (
    VllmV1Prefix().called("vllm-v1-prefix-priority", "As vllm-v1-prefix; larger weights first", priority=True),
    VllmV1Prefix().called(
        "vllm-v1-prefix-async",
        "vLLM's defaults: as vllm-v1-prefix; a batch is planned as the one before it starts",
        ahead=True,
    ),
)
