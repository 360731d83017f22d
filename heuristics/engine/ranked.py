"""Figure 1's rule of MARS."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from heuristics.engine.admission import Held, Holding, is_safe, twice
from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.policy import LAID, Policy
from heuristics.engine.view import View
from kvcore.instance import LIMIT


class Ranked(Policy):
    """At every batch boundary, the ready requests are taken in order of a key, as far as they are admitted.

    Sort: the smallest key goes first; of equal keys the request that worked in the batch before, then the earlier
    arrival. A running request that comes late in this order may be preempted, and keeps its memory.

    Fill: a request is admitted if the budgets leave it a token, its segment fits beside what all others hold, and all
    can then still finish without any eviction (`Plan.admits`). One that is not admitted is skipped. Where the machine
    does not pause, those that must work on come first. An admitted one gets what the budgets allow; the first decides
    the phase.

    Guarantee: it never deadlocks and never evicts, whatever the key.
    Running time: O(n log n + c h log h) a batch, n present, h holding KV, c candidates that pass the cheaper tests.
    Without `pause` it is O(r r) more, r running.
    Source: MARS (arXiv 2410.18248), Figure 1; the admission test is ours.
    """

    takes = LAID
    knows = "predictions"  # the admission test needs the sizes, whatever the key needs

    @abstractmethod
    def key(self, job: Job) -> Any:
        """Return the key of a ready request; the smallest goes first."""

    def decide(self, view: View, plan: Plan) -> None:
        """Sort, and fill the batch."""
        running_first = sorted(view.ready, key=attrgetter("worked"), reverse=True)
        plan.fill(sorted(running_first, key=self.key))  # stable: at equal keys in the order before

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches all decodes can go on, if all others are blocked by memory.

        More memory in use never makes an admission possible (`heuristics.engine.admission`). So who was refused all its
        tokens stays refused until something is released; and if all decodes can go on for k batches, in the state after
        them, they can in each of these batches, in any order.
        """
        machine, limit = plan.machine, plan.machine.block_limit
        if not (machine.pause and plan.hybrid) or machine.layout is not None:
            return 1
        others = [job for job in view.ready if job.id not in plan.work]
        most = max((job.missing for job in others), default=0)
        if plan.free_blocks is not None:  # one whose segment fits has no more to process than that
            most = min(most, (plan.free_blocks + 1) * machine.block)
        if others and (min(plan.tokens_left, plan.prefill_left) < most or plan.requests_left < 1):
            return 1
        if limit is None:
            return LIMIT
        decodes, resting = list[tuple[int, int, int]](), list[Holding]()
        working = [job for job in view.jobs if job.id in plan.work]
        holding = [job for job in view.jobs if job.id not in plan.work and job.blocks]
        for job in (*working, *holding):
            demand, segment = plan.true_demands[job.index], job.segment
            if job.id in plan.work:
                decodes.append((job.device, demand.end[segment], demand.release_blocks[segment]))
            else:
                resting.append((job.blocks, demand.release_blocks[segment]))
        return 1 + safe_batches(limit, machine.block, decodes, resting, plan.paths((*working, *holding)))


def safe_batches(
    capacity: int,
    block: int,
    decodes: list[tuple[int, int, int]],
    others: list[Holding],
    paths: Sequence[Held] | None = None,
) -> int:
    """Return for how many batches the decodes can go on together, beside what others hold, so that it stays safe.

    Of each decode: tokens now and at the segment's end, and claim in blocks. At most up to the first end; with blocks
    of one token the largest such number if the segments decide, otherwise at most a factor of two below it. `paths`,
    of decodes and others, count once.
    """
    if not decodes:
        return LIMIT
    kept = sum(held for held, _ in others) - sum(twice(paths or ()))

    def is_safe_after(batches: int) -> bool:
        held = [-(-(tokens + batches) // block) for tokens, _, _ in decodes]
        free = capacity - sum(held) - kept
        fits = all(-(-end // block) - now <= free for now, (_, end, _) in zip(held, decodes, strict=True))
        claims = (claim for _, _, claim in decodes)
        return fits and is_safe(capacity, [*zip(held, claims, strict=True), *others], paths)

    most = min(end - tokens for tokens, end, _ in decodes)
    lacking = max(end - tokens for tokens, end, _ in decodes) + sum(tokens for tokens, _, _ in decodes) + kept * block
    if len(decodes) > 1:  # each batch makes one lack a token less, and takes a token of memory for each
        most = min(most, (capacity * block - lacking + block - 1) // (len(decodes) - 1))
    if most <= 0 or is_safe_after(most):
        return max(0, most)
    batches = 0
    while 2 * batches < most and is_safe_after(max(1, 2 * batches)):
        batches = max(1, 2 * batches)
    return batches
