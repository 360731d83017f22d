"""A policy's worst instance of a family: every member of small sizes, then annealing, then shrinking.

SciPy's dual annealing, without its local search; a whole number has an interval of length one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bounds.clock import Timer, is_counted, limited, now
from heuristics import Policy, PolicyError, get_policy
from hypotheses.search.ratio import Claim, Optima, judge
from hypotheses.search.shrinking import shrink
from hypotheses.search.space import SearchSpace
from kvcore.instance import Instance
from solvers.exact import compile_searches

Height = Callable[[Sequence[int]], float]


def maximise(height: Height, axes: Sequence[range], calls: int, seed: int) -> None:
    """Ask for the height at up to about `calls` points, ever higher ones; the caller keeps the best.

    `axes` are the values of each coordinate, in steps of one.
    """
    from scipy.optimize import dual_annealing

    free = [k for k, axis in enumerate(axes) if len(axis) > 1]
    if not free:
        height([axis.start for axis in axes])
        return

    def depth(point: Any) -> float:
        numbers = [axis.start for axis in axes]
        for k, x in zip(free, point, strict=True):
            numbers[k] = min(int(x), axes[k].stop - 1)
        return -height(numbers)

    bounds = [(axes[k].start, axes[k].stop) for k in free]
    dual_annealing(depth, bounds, maxiter=calls, maxfun=calls, seed=seed, no_local_search=True)


ENUMERATED = 5_000  # a family of more members (up to the order of requests) is not listed, but searched

POINTS = 20
"""Most points of the annealing for each step; points without an instance are no steps."""


@dataclass
class SearchRecord:
    """The worst instance seen, and the sizes seen whole."""

    claim: Claim | None = None
    looked: int = 0  # instances judged
    undecided: int = 0  # of these, those whose optimum is not known; their ratio counts as value / best schedule
    failed: int = 0  # instances on which the policy gives no schedule
    failure: PolicyError | None = None
    complete: list[int] = field(default_factory=list)
    """Sizes (requests) with every member judged, each optimum certified: no member is worse."""
    unshrunk: Claim | None = field(default=None, repr=False)
    stopped: str = "ended"  # why the search ended: "ended" (steps, or nothing left), "time limit" or "interrupted"

    def to_json(self) -> dict[str, Any]:
        """Return the record for scripts."""
        counts = {"looked": self.looked, "undecided": self.undecided, "failed": self.failed}
        claim = None if self.claim is None else self.claim.to_json()
        return {"claim": claim, **counts, "complete": self.complete, "stopped": self.stopped}


Progress = Callable[[SearchRecord, float], None]  # what is known, and seconds so far


def search(
    family: SearchSpace,
    policy: str | Policy,
    objective: str = "total-flow-time",
    *,
    seconds: float | None = None,
    work: float | None = None,
    steps: int = 2_000,
    seed: int = 0,
    optima: Optima | None = None,
    progress: Progress | None = None,
) -> SearchRecord:
    """Look for the instance of `family` on which `policy` has the largest ratio to the optimum.

    Sizes from one request on are listed whole while they have at most `ENUMERATED` members; if the largest is not
    listed, `steps` members are tried by simulated annealing, with `seed`. The worst is then shrunk, and its optimum
    certified. `seconds` of the processor, or counted `work`, end listing and annealing after the first instance; with
    `work` the result is reproducible. Ctrl-C keeps the worst so far. Searches may share `optima`.

    Raises BadInput for an unknown policy or objective, and Unsuited where the policy does not fit the machine.
    """
    chosen = get_policy(policy) if isinstance(policy, str) else policy
    compile_searches()
    with limited(math.inf if seconds is None else seconds, work) as limit:
        run = _RunningSearch(chosen, optima or Optima(objective), now() + limit, progress)
        try:
            run.search(family, steps, seed)
            run.shrink()
        except KeyboardInterrupt:
            run.seen.stopped = "interrupted"
    return run.seen


class _Over(Exception):
    """The search is over, for the reason `SearchRecord.stopped`."""


class _RunningSearch:
    def __init__(self, policy: Policy, optima: Optima, deadline: float, progress: Progress | None) -> None:
        self.policy, self.optima, self.progress = policy, optima, progress
        self.timer, self.deadline = Timer(), deadline
        self.seen = SearchRecord()

    def search(self, family: SearchSpace, steps: int, seed: int) -> None:
        try:
            for n in range(1, family.requests + 1):
                size = replace(family, requests=n)
                if size.count() <= ENUMERATED:
                    self.every(size)
            if family.count() > ENUMERATED:
                self.anneal(family, steps, seed)
        except _Over as over:
            self.seen.stopped = str(over)

    def every(self, family: SearchSpace) -> None:
        doubts = self.seen.undecided + self.seen.failed
        for member in family.members():
            self.look(member)
        if self.seen.undecided + self.seen.failed == doubts:
            self.seen.complete.append(family.requests)

    def anneal(self, family: SearchSpace, steps: int, seed: int) -> None:
        last = self.seen.looked + steps

        def height(numbers: Sequence[int]) -> float:
            if self.seen.looked >= last:
                raise _Over("ended")
            member = family.member(numbers)
            claim = None if member is None else self.look(member)
            return 0.0 if claim is None else float(claim.at_least)

        maximise(height, family.axes(), POINTS * steps, seed)

    def shrink(self) -> None:
        self.seen.unshrunk, self.deadline = self.seen.claim, math.inf
        if self.seen.claim is not None:
            self.seen.claim = shrink(self.seen.claim, self.smaller)
            self.seen.claim = self.seen.claim.certified()

    def smaller(self, instance: Instance) -> Claim | None:
        before, claim = self.seen.claim, self.look(instance)
        if claim is not None and before is not None and claim.at_least == before.at_least:
            self.seen.claim = claim
        return claim

    def look(self, instance: Instance) -> Claim | None:
        seen = self.seen
        if now() > self.deadline and seen.looked:
            raise _Over("work limit" if is_counted() else "time limit")
        seen.looked += 1
        try:
            claim = judge(instance, self.policy, self.optima)
        except PolicyError as error:
            seen.failed += 1
            seen.failure = seen.failure or error
            return None
        seen.undecided += not claim.decided
        if seen.claim is None or claim.at_least > seen.claim.at_least:
            seen.claim = claim
        if self.progress is not None:
            self.progress(seen, self.timer.clock)
        return claim
