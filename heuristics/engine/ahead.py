"""Engines that plan a batch while the one before it runs."""

from abc import abstractmethod

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.serving import ServingEngine
from heuristics.engine.view import View


class PlansAhead(ServingEngine):
    """With `ahead`, batch n + 1 is planned when batch n starts.

    It does not see arrivals, calls that end, and requests that end or call while batch n runs. Such a request gets no
    further token, as its length is the engine's stop (`max_tokens`). It still counts as running, and holds its memory,
    until batch n + 1 starts. Where the plan is empty, the engine plans again at the end of batch n. Not modelled: a
    stop that only the model's output shows (EOS), for which the engine computes one more token. A request that an empty
    plan preempts keeps its KV, unless the machine has `drop_and_work`.

    A subclass gives `step`, which plans a batch.
    """

    ahead: bool = False

    def start(self, view: View) -> None:
        """Begin with none that leaves."""
        super().start(view)
        self.leaving: dict[int, int] = {}  # end or call in the running batch: their blocks that the model has freed
        self.stale = False  # whether that batch is still running
        self._news = False

    def decide(self, view: View, plan: Plan) -> None:
        """Plan a batch, and see what has happened only then, if it has work; else see it and plan again."""
        self._news = self.ahead and bool(view.arrived or view.returned or view.ended or view.called)
        if self.ahead and view.batch > self._batch:
            self.leaving = {job.index: self._freed(job, plan) for job in (*view.ended, *view.called)}
            self.stale = True
            self.step(view, plan)
            self.stale, self.leaving = False, {}
            if plan.work:
                self.observe(view, plan)
                return
        self.observe(view, plan)
        self.step(view, plan)

    @abstractmethod
    def step(self, view: View, plan: Plan) -> None:
        """Plan a batch for the queues as they are."""

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches nothing changes; with `ahead`, the next sees what happened before."""
        return 1 if self._news else super().steady(view, plan)

    def room(self, plan: Plan, job: Job | None = None) -> int:
        """Return the blocks free or of waiting requests, but of `job` and those that leave."""
        return super().room(plan, job) - (sum(self.leaving.values()) if self.leaving else 0)

    def decode_on(self, plan: Plan) -> bool:
        """Let all running requests decode (`Plan.decode_on`), unless some leave."""
        return not self.leaving and plan.decode_on(self.running)

    def _freed(self, job: Job, plan: Plan) -> int:
        """Return how many of its blocks are free already: all, or none if its call keeps them."""
        return 0 if job.blocks else self.machine.blocks(plan.dropped.get(job.id, job.known - 1))
