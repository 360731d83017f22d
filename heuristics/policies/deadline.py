"""The deadline rule: the latest to end first."""

from typing import Any, ClassVar

import numpy as np

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.policy import Setting, Tuning
from heuristics.engine.view import View
from heuristics.policies.index import HEADROOM, Index, Step, title
from heuristics.policies.knee import Knee

Array = Any
SHARED = 0.5  # what a token takes, where no time is given, in batches of all that are present
SHORT, LONG = 0.4, 0.7  # a batch may take so much of the time of a token; or of what the most urgent has left
LAST = 1e18  # ticks that those set aside are younger


class Deadline(Knee):
    """Requests by how long they will have been there when they end: age + T a token left; the longest first.

    With a knee (see `knee`): all decodes, then prefills in this order up to the knee, on machines with `hybrid` and
    `chunked`. Else the batch is the longest prefix whose tokens, one a request, take at most 0.7 T; or, with a target F
    for the flow time, 0.7 times the least (F - age) / tokens left, but at least 0.4 T: prefills take the rest. T is
    given in seconds, or half of a batch with a token of each present. A request without KV in the prefix processes its
    prompt in this batch, and so does the next that waits, if it is the only one; they join if that fits and leaves free
    a tenth of what those with KV will still add. The rest pauses; where a request with KV lacks a block, the last in
    this order is evicted. Calls to come count as age.

    Running time: O(n log n) a batch, n present, in numpy.
    Source: this project; the order is that of Jackson (1955), a batch as long as the least slack for a token lets it.
    """

    needs: tuple[str, ...] = Index.needs
    flow: float | None = None
    token: float | None = None
    settings: ClassVar[dict[str, Setting]] = {
        "flow": Setting("F, the target for the flow time, in seconds", least=1e-6),
        "token": Setting("T, seconds; without it, half of a batch with a token of each that is present", least=1e-6),
    }

    tuning: ClassVar = Tuning(2.0, 1.01)

    def __init__(self, flow: float | None = None, token: float | None = None, factors: Array | None = None) -> None:
        super().__init__(factors=factors)
        self.name = title("deadline", flow=flow, token=token)
        self.flow, self.token = flow, token

    def start(self, view: View) -> None:
        super().start(view)
        self.after = np.zeros((2, 64))  # by index: tokens after the segment, and ticks of calls less the arrival
        self._up_to_knee = self._knee and self.machine.hybrid and self.machine.chunked

    def _after(self, job: Job) -> Array:
        demand = job.demand
        return np.array([sum(demand.decode[job.segment + 1 :]), demand.call_ticks[job.segment] - job.arrival], float)

    def fill(self, plan: Plan) -> None:
        (super().fill if self._up_to_knee else super(Knee, self).fill)(plan)

    def work_of(self, at: Array) -> tuple[Step, Array, Array]:
        """Return the next step, the tokens left, and the order: the largest age + T a token first."""
        device, host, missing, _ = self.state[:4, at]
        left, age, shared = self._slack(at)
        return Step(device + host, missing, (missing == 1) & (device + host > 0)), left, -age - shared * left

    def _slack(self, at: Array) -> tuple[Array, Array, float]:
        device, host, missing, left = self.state[:4, at]
        step = Step(device + host + missing - 1, np.ones(len(at)), np.ones(len(at), bool))
        age = self.now + self.after[1, at]
        if self.factors is not None:
            factors = self.factors[at]
            age = np.where(factors > 0, age * factors, age - LAST)
        shared = SHARED * self.marginal.durations(step, self.marginal.step(step))[-1]
        return left + self.after[0, at], age, shared if self.token is None else self.token / self.tick

    def _best_decodes(self, step: Step, work: Array, mean: float, plan: Plan) -> Array:
        most = min(len(work), plan.tokens_left, plan.requests_left)
        return self.marginal.step(Step(*(part[:most] for part in step)))

    def best_prefix(self, at: Array, holds: int, plan: Plan) -> tuple[Array, int]:
        device, host, missing, _ = self.state[:4, at]
        known = device + host + missing
        left, age, shared = self._slack(at)
        step = Step(known - 1, np.ones(len(at)), np.ones(len(at), bool))
        parts = self.marginal.step(step)
        order = np.lexsort((at, -age - shared * left))
        if plan.free_blocks is not None:
            block = self.machine.block
            growth = -(-known // block) + device // -block - self.state[4, at]
            coming = (missing + self.state[3, at] - 1)[:holds].sum() / block
            order = order[(order < holds) | (np.cumsum(growth[order]) + HEADROOM * coming <= plan.free_blocks)]
        if not len(order):
            return order, 0
        slack = shared if self.flow is None else ((self.flow / self.tick - age) / left).min()
        limit = max(SHORT * shared, LONG * slack)
        durations = self.marginal.durations(Step(*(part[order] for part in step)), parts[:, order])
        others = int((age[order] > -LAST / 2).sum()) or len(order)  # beside whom none that is set aside works
        size = min(others, int(np.searchsorted(durations, max(limit, durations[0]), side="right")))
        fresh = order >= holds
        if fresh[:size].sum() == 1 and fresh[size:others].any():
            after = size + int(np.argmax(fresh[size:]))
            order, size = np.insert(np.delete(order, after), size, order[after]), size + 1
        return order, size
