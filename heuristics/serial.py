"""One request after another."""

from __future__ import annotations

from heuristics.plan import Plan
from heuristics.policy import Policy
from heuristics.view import View


class Serial(Policy):
    """The requests one after another in order of arrival, each alone from its first token to its last.

    While it is in a call, the machine waits. Free calls preserve: nobody else needs the memory.

    Guarantee: it succeeds on every instance, because every request fits alone. Nothing better is known.
    Running time: O(n) for a batch, with n requests present.
    Source: the argument that every instance is feasible.
    """

    name = "serial"
    rule = "one request after another in order of arrival; the machine waits during calls"
    source = "always feasible; the fall-back"
    knows = "online"
    free_calls = "preserve"

    def decide(self, view: View, plan: Plan) -> None:
        """Let the earliest request work, unless it is in a call."""
        if view.jobs and not view.jobs[0].calling:
            plan.take(view.jobs[0])
