"""Figure 1's rule of MARS as it is stated: in each batch, requests in order of a key, each as far as it is admitted."""

from __future__ import annotations

from abc import abstractmethod
from operator import attrgetter
from typing import Any

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.policy import Policy
from heuristics.engine.view import View


class RankedRule(Policy):
    """At every batch boundary, the ready requests are taken in order of a key, as far as they are admitted.

    Sort: the smallest key goes first; at equal keys the request that worked in the batch before, and then the earlier
    arrival. A running request that comes late in this order may be preempted, and keeps its memory.

    Fill: a request is admitted if the budgets leave it a token, if its segment fits beside what all others hold, and
    if all can still finish after that without any eviction (`Plan.admits`). One that is not admitted is skipped,
    and the next one is asked (`Plan.fill`). Where the machine does not pause, those that must work on come first.

    `heuristics.Ranked` decides the same without asking every request.

    Guarantee: it never deadlocks and never evicts, whatever the key.
    Running time: O(n log n + h log h) for a batch, with n requests present and h holding KV.
    Source: MARS (arXiv 2410.18248), Figure 1; the admission test is ours (docs/policies.md).
    """

    knows = "predictions"  # the admission test needs the sizes, whatever the key needs

    @abstractmethod
    def key(self, job: Job) -> Any:
        """Return the key of a ready request; the smallest goes first."""

    def decide(self, view: View, plan: Plan) -> None:
        """Sort, and fill the batch."""
        running_first = sorted(view.ready, key=attrgetter("worked"), reverse=True)
        plan.fill(sorted(running_first, key=self.key))  # stable: at equal keys in the order before
