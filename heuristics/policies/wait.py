"""WAIT: a type takes part once enough new requests of it have gathered."""

from collections import defaultdict
from typing import ClassVar, Self

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.policy import Policy, Setting
from heuristics.engine.run import Unsuited
from heuristics.engine.serving import ServingEngine
from heuristics.engine.view import View
from kvcore.errors import BadInput


class Wait(ServingEngine):
    """A type, all of one prompt s and one output o, is in a batch if N of it are new: N of these, and all before them.

    The requests of other types sit out and keep their KV; if no type is in it, the machine waits. With whole prefills a
    type holds at most N at each of its o stages, so that the tokens of KV never exceed N o (s + (o-1)/2), summed over
    the types. That must fit in the memory, and a batch of it in the budgets; otherwise WAIT cannot run. Blocks count as
    blocks. The paper has a threshold for each type: here it is one for all.

    As in the released code, WAIT knows the number of requests: when the last has come, every type is in every batch
    (there what waits is deleted). The paper has no calls: what returns from one is a new request, of the tokens that it
    then has.

    Guarantee: none is evicted. With Poisson arrivals of rate l_j, batches of d0 + d1 m ticks for m tokens of KV, and M
    tokens of KV by the sum above, throughput is within O(T^-1/2) of the fluid limit's over T ticks and mean latency is
    O(T^1/2) if l_j (d0 + d1 M) <= N for every type; O(1/T) and O(1) if it is strictly less (arXiv 2504.11320).
    Running time: O(n) a batch, n present. Nested WAIT is left out.
    Source: Ao, Luo, Simchi-Levi, Wang (arXiv 2504.11320), the algorithm WAIT, read in the authors' repository
    Luoxiaogan/vidur_or (papers/arxiv/known_type.tex, aa34999); what happens at the end is our own.
    """

    knows = "predictions"
    needs = ("hybrid", "pause")

    settings: ClassVar[dict[str, Setting]] = {
        "threshold": Setting("N, new requests of a type with which it takes part", least=1, most=10**9),
        "count": Setting("requests that are to come in all", least=1, most=10**9),
    }
    threshold: int = 0
    count: int = 0

    def __init__(self, threshold: int = 0, count: int = 0) -> None:
        self.name = f"wait:{threshold},{count}"
        self.threshold, self.count = threshold, count

    def set(self, name: str) -> Self:
        """Return it with both its numbers. BadInput: one is missing or none."""
        new = super().set(name)
        if not (new.threshold and new.count):
            raise BadInput(f"WAIT is wait:N,COUNT (the threshold, and how many requests will come), not {name!r}")
        return new

    def start(self, view: View) -> None:
        super().start(view)
        self.types: dict[int, tuple[int, int]] = {}  # of requests: tokens to prefill, and to generate
        self.seen: set[tuple[int, int]] = set()
        self.come = 0

    def queue(self, job: Job) -> None:
        super().queue(job)
        self.types[job.index] = job.known, job.remaining
        self.seen.add(self.types[job.index])

    def decide(self, view: View, plan: Plan) -> None:
        before = len(self.seen)
        self.observe(view, plan)
        if len(self.seen) > before:
            self.check()
        self.come += len(view.arrived)
        new: dict[tuple[int, int], list[Job]] = defaultdict(list)
        for job in self.waiting:
            new[self.types[job.index]].append(job)
        needed = self.threshold if self.come < self.count else 0
        chosen = {kind for kind in self.seen if len(new[kind]) >= needed}
        for job in self.running:
            if self.types[job.index] in chosen:
                self.take(job, job.missing, plan)
        for kind in chosen:
            for job in new[kind][: self.threshold]:
                self.waiting.remove(job)
                self.running.append(job)
                self.take(job, job.missing, plan)

    steady = Policy.steady

    def check(self) -> None:
        """Raise Unsuited if N requests of each type at each stage lack memory or budget."""
        machine, n = self.machine, self.threshold
        blocks = n * sum(machine.blocks(known + k) for known, output in self.seen for k in range(output))
        for what, needed, limit in (
            ("memory", blocks * machine.block, machine.memory),
            ("batch_tokens", n * sum(known + output - 1 for known, output in self.seen), machine.batch_tokens),
            ("prefill_tokens", n * sum(known for known, _ in self.seen), machine.prefill_limit),
            ("batch_requests", n * sum(output for _, output in self.seen), machine.batch_requests),
        ):
            if limit is not None and needed > limit:
                raise Unsuited(
                    f"{n} of each of {len(self.seen)} types at every stage need {needed} of {what}, and the machine "
                    f"has {limit}; take a smaller threshold, or fewer types"
                )
