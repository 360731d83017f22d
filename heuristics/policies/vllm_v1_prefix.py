"""vLLM V1's scheduler with its prefix cache."""

from collections import Counter
from operator import itemgetter
from typing import ClassVar

from heuristics.engine.block_cache import BlockCache
from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.policy import Policy
from heuristics.engine.view import View
from kvcore.features import RULES, Feature, Takes
from kvcore.instance import LIMIT, Machine

Block = tuple[str, int]


class VllmV1Prefix(Policy):
    """As vllm-v1, with a prefix cache: an admitted request finds the full blocks of its path still in memory.

    It processes its last token itself. Blocks that a chunk completes are found at once, also in the same batch. Freed
    blocks stay until memory is needed: the longest free go first, a request's from its end. Blocks beyond a path are
    never found; `kv.own(instance)` puts all on it.

    Guarantee: nothing is known. Running time: O(blocks) a batch. Source: vLLM 0.33.0, vllm/v1/core/kv_cache_manager.py.
    """

    name = "vllm-v1-prefix"
    free_calls = "own"
    needs = ("hybrid", "chunked", "pause", "evict")
    takes: ClassVar[Takes] = Takes(
        (RULES | {Feature.OWN_COST, Feature.SHARED}) - {Feature.PREFILL_TOKENS, Feature.PRESERVE, Feature.SWAP}
    )

    def why_not(self, machine: Machine) -> str | None:
        reason = super().why_not(machine)
        return reason or (None if machine.same_batch else "it needs a machine with same_batch")

    def start(self, view: View) -> None:
        self.block, self.most = view.machine.block, view.machine.batch_requests or LIMIT
        self.cache = BlockCache(LIMIT if view.machine.block_limit is None else view.machine.block_limit)
        self.running: list[Job] = []
        self.waiting: list[Job] = []
        self.held: dict[int, list[int]] = {}  # physical blocks of the running requests
        self.done: dict[int, int] = {}  # their computed tokens
        self.paths: dict[int, list[Block]] = {}
        self.lost: dict[Job, int] = {}  # tokens to be dropped with the next batch
        self.resident: set[Block] = set()  # in the model, up to the next batch
        self.completed: set[Block] = set()  # by that batch
        self.batch = 0

    def decide(self, view: View, plan: Plan) -> None:
        self._observe(view)
        self.preempted = False
        self._go_on(plan)
        while not self.preempted and self.waiting and plan.tokens_left - sum(plan.work.values()) > 0:
            if len(self.running) >= self.most or not self._admit(self.waiting[0], plan):
                break
        if plan.work:
            self._move(plan)

    # --- the queues --------------------------------------------------------------------------------------------------

    def _observe(self, view: View) -> None:
        if view.batch > self.batch:  # the batch that was decided has been executed
            self.batch = view.batch
            self.lost.clear()
            self.resident |= self.completed
            self.completed = set()
        for job in self.running:
            self.done[job.index] = job.device
        ends = {job.index for job in view.ended}
        for job in sorted((*view.ended, *view.called), key=self.running.index):
            self.running.remove(job)
            self.cache.give(self.held.pop(job.index))
            if job.index not in ends and job.handling == "free" and job.device:
                self.lost[job] = job.device
        come = [
            (job.arrival if job.call_ended is None else job.call_ended, job) for job in (*view.arrived, *view.returned)
        ]
        for _, job in sorted(come, key=itemgetter(0)):
            if job.index not in self.paths:
                self.paths[job.index] = [(part.node, k) for part in job.path for k in range(part.blocks)]
            self.waiting.append(job)

    def _go_on(self, plan: Plan) -> None:
        k, left = 0, plan.tokens_left
        while k < len(self.running) and left:
            job = self.running[k]
            tokens = min(job.known - self.done[job.index], left)
            while (need := self._lacking(job, tokens)) > self.cache.free and not self._preempt_last(job):
                pass
            if job not in self.running:
                return
            self.held[job.index] += self.cache.take(need)
            self._work(job, tokens, plan)
            left -= tokens
            k += 1

    def _lacking(self, job: Job, tokens: int) -> int:
        return max(0, -(-(self.done[job.index] + tokens) // self.block) - len(self.held[job.index]))

    def _preempt_last(self, job: Job) -> bool:
        """Preempt the last running request; return whether it is this one."""
        victim = self.running.pop()
        self.preempted = True
        self.cache.give(self.held.pop(victim.index))
        self.lost[victim] = self.done[victim.index]
        self.waiting.insert(0, victim)
        return victim is job

    def _admit(self, job: Job, plan: Plan) -> bool:
        found: list[int] = []
        for content in self.paths[job.index][: (job.known - 1) // self.block]:
            block = self.cache.find(content)
            if block is None:
                break
            found.append(block)
        at = len(found) * self.block
        tokens = min(job.known - at, plan.tokens_left - sum(plan.work.values()))
        loose = sum(not self.cache.holders[block] for block in found)
        if -(-job.known // self.block) - len(found) + loose > self.cache.free:
            return False
        self.cache.hold(found)
        self.held[job.index] = found + self.cache.take(-(-(at + tokens) // self.block) - len(found))
        self.done[job.index] = at
        self.running.append(self.waiting.pop(0))
        self._work(job, tokens, plan)
        if at:
            plan.reused[job.id] = at
        return True

    # --- the batch ---------------------------------------------------------------------------------------------------

    def _work(self, job: Job, tokens: int, plan: Plan) -> None:
        """Let a request process tokens, and name the blocks that they complete."""
        plan.work[job.id] = tokens
        done, path = self.done[job.index], self.paths[job.index]
        for k in range(done // self.block, min((done + tokens) // self.block, len(path))):
            self.cache.name(self.held[job.index][k], path[k])
            self.completed.add(path[k])

    def _move(self, plan: Plan) -> None:
        for job, tokens in self.lost.items():
            if tokens:
                plan.dropped[job.id] = tokens
        gone = {content for content in self.resident if content not in self.cache.named}
        self.resident -= gone
        plan.forgotten.update(Counter(node for node, _ in gone))
