"""Other orders in which a prefix cache forgets."""

from collections import defaultdict
from typing import ClassVar

from heuristics.engine.job import Job, Knows
from heuristics.engine.plan import Plan
from heuristics.engine.policy import Setting
from heuristics.engine.view import View
from heuristics.policies.vllm_v1_prefix import Block, VllmV1Prefix
from kvcore.instance import LIMIT


class Belady(VllmV1Prefix):
    """As vllm-v1-prefix, but the block needed last in the future goes first: by arrivals and ends of calls.

    Running time: O(blocks) for a block that goes. Source: Belady 1966, Algorithm MIN.
    """

    name = "vllm-v1-prefix-belady"
    knows: Knows = "clairvoyant"

    def start(self, view: View) -> None:
        super().start(view)
        self.uses: dict[Block, dict[int, int]] = defaultdict(dict)  # by request: when it will look for the block
        self.memory.rank = self._keeping

    def decide(self, view: View, plan: Plan) -> None:
        for job in (*view.arrived, *(() if self.places else view.to_come())):
            self._expect(job, job.arrival)
        for job in view.called:
            self._expect(job, job.call_end or 0)
        for job in view.ended:
            for block in self.path(job):
                self.uses[block].pop(job.index, None)
        super().decide(view, plan)

    def _expect(self, job: Job, time: int) -> None:
        for block in self.path(job)[: (job.known - 1) // self.machine.block]:
            self.uses[block][job.index] = time

    def _keeping(self, block: Block) -> tuple[int, int]:
        times = [time for index, time in self.uses[block].items() if index not in self.blocks]
        return -min(times, default=LIMIT), -self.depths[block]


class TailLru(VllmV1Prefix):
    """As vllm-v1-prefix, but first goes what the next prompt of a context can compute again.

    A context of L tokens keeps L + `estimate` - `budget` of them; what follows goes first, then the longest free.

    Running time: O(blocks) for a block that goes. Source: T-LRU, arXiv 2510.15152.
    """

    name = "vllm-v1-prefix-tlru"
    budget: int = 2048
    estimate: int = 0
    settings: ClassVar[dict[str, Setting]] = VllmV1Prefix.settings | {
        "budget": Setting("tokens that a prompt may have to compute"),
        "estimate": Setting("tokens by which the next prompt is longer"),
    }

    def start(self, view: View) -> None:
        super().start(view)
        self.contexts: dict[Block, int] = {}  # the most tokens of a context with the block
        self.memory.rank = self._keeping

    def _release(self, job: Job) -> None:
        for block in self.path(job)[: self.done[job.index] // self.machine.block]:
            self.contexts[block] = max(self.contexts.get(block, 0), job.known)
        super()._release(job)

    def _keeping(self, block: Block) -> bool:
        return self.depths[block] * self.machine.block < self.contexts[block] + self.estimate - self.budget
