"""One request after another."""

from heuristics.engine.plan import Plan
from heuristics.engine.policy import LAID, Policy
from heuristics.engine.view import View
from kvcore.features import Takes
from kvcore.instance import LIMIT


class Serial(Policy):
    """One request after another in order of arrival, each alone to its last token; the machine waits during calls.

    Free calls preserve: no other needs the memory.

    Guarantee: it succeeds on every instance, because every request fits alone.
    Running time: O(1) a batch.
    Source: the argument that every instance is feasible; the fall-back.
    """

    name = "serial"
    takes = Takes(LAID.features)
    knows = "online"
    free_calls = "preserve"

    def decide(self, view: View, plan: Plan) -> None:
        first = next(iter(view.present), None)
        if first is not None and not first.calling:
            plan.take(first)

    def steady(self, view: View, plan: Plan) -> int:
        return LIMIT
