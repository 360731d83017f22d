"""No request is faster than alone: the longest chain of batches and calls.

A batch with work lasts at least as long as one decode on the least KV, or the first token of a prefill, if that is
less. Token q takes ceil((A_q - own) / P) batches (docs/bounds.md; 1 without P or `chunked`); up to the first token at
least one prefill of the prompt, of contents from `free` on, without the hinge and with the pairs of one token less.
"""

from typing import ClassVar, Literal

from kvcore.certificates.budget import Budget
from kvcore.certificates.least import least_batches, least_prefill, least_work
from kvcore.certificates.prefixes import Prefix, prefixes
from kvcore.certificates.proof import Proof, add_up
from kvcore.cost import Cost
from kvcore.features import OBJECTIVES, RULES, Feature, Takes
from kvcore.instance import Instance, Request
from kvcore.metrics import Value, tail_of, weight


class Alone(Proof):
    """Each request takes at least its own batches of least duration, and its calls."""

    kind: Literal["alone"] = "alone"
    takes: ClassVar = Takes(
        RULES | OBJECTIVES | {Feature.PERCENTILE, Feature.SHARED, Feature.DROP_AND_WORK, Feature.LAYOUT}
    )
    argument: ClassVar = "no request is faster than alone: its batches, each of least duration, and its calls"

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return the objective if no request waits for another."""
        requests, found = instance.requests, prefixes(instance)
        batches = [least_batches(instance.machine, *each) for each in zip(requests, found, strict=True)]
        step = least_work(instance)
        if objective == "busy-time":
            return step * max(total for _, total in batches)
        times = [_times(instance.cost, step, *each) for each in zip(requests, found, batches, strict=True)]
        if tail := tail_of(objective):
            return tail.value([time[not tail.of_first] for time in times])
        if objective == "makespan":
            return max(request.arrival + last for request, (_, last) in zip(requests, times, strict=True))
        if objective == "max-flow-time":
            return max(last for _, last in times)
        if objective == "late-requests":
            return sum(request.is_late(*time) for request, time in zip(requests, times, strict=True))
        counted = 0 if objective == "total-ttft" else 1
        return add_up([weight(r, objective) * time[counted] for r, time in zip(requests, times, strict=True)])


def _times(cost: Cost, step: int, request: Request, prefix: Prefix, batches: tuple[int, int]) -> tuple[int, int]:
    first, total = batches
    begun = max(first * step, least_prefill(cost, request.prompt, prefix.free))
    return begun, begun + (total - first) * step + request.call_time
