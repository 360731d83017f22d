"""InferCept with the mean durations of the calls seen so far."""

from __future__ import annotations

from heuristics.engine.job import Job
from heuristics.engine.view import View
from heuristics.policies.infercept_base import call_type
from heuristics.policies.infercept_elapsed import InferceptElapsed
from kvcore.instance import LIMIT


class InferceptProfiled(InferceptElapsed):
    """InferCept with the mean duration of the calls of the same type that have returned; until one has, the elapsed.

    A call that returns in the middle of a batch is seen to last up to its end.

    Guarantee: nothing is known. Running time: as infercept. Source: InferCept, Sections 2.2 and 4.4.
    """

    name = "infercept-profiled"
    rule = "as infercept, with the mean of the calls of its type so far for a call's duration"
    source = "InferCept (arXiv 2402.01869), Sections 2.2 and 4.4"

    def start(self, view: View) -> None:
        """Begin without a profile."""
        super().start(view)
        self.profile: dict[str, tuple[int, int]] = {}  # calls that have returned, and their ticks

    def at_return(self, job: Job, now: int) -> None:
        """Count its call."""
        calls, ticks = self.profile.get(call_type(job), (0, 0))
        self.profile[call_type(job)] = calls + 1, ticks + super().expected(job)
        super().at_return(job, now)

    def expected(self, job: Job) -> int:
        """Return the mean of its type, rounded down."""
        calls, ticks = self.profile.get(call_type(job), (0, 0))
        return ticks // calls if calls else super().expected(job)

    def first_drop(self, job: Job) -> int:
        """Return the first tick at which its call would be dropped: never, where only events change the mean."""
        return LIMIT if call_type(job) in self.profile else super().first_drop(job)
