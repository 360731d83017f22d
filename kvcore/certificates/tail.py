"""Percentiles by late requests: if more must exceed a time than the percentile leaves out, it is above."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from kvcore.certificates.budget import Budget
from kvcore.certificates.enumeration import Enumeration
from kvcore.certificates.events import Events
from kvcore.certificates.late_windows import LateWindows
from kvcore.certificates.proof import Proof
from kvcore.certificates.shares import Tick
from kvcore.features import RULES, Feature, Takes
from kvcore.instance import Instance
from kvcore.metrics import Value, tail_of


class LateTail(Proof):
    """With `within` ticks for each request, `proof` shows more late than the percentile leaves out."""

    kind: Literal["late-tail"] = "late-tail"
    takes: ClassVar = Takes(RULES | {Feature.PERCENTILE, Feature.SHARED})
    argument: ClassVar = "were {0.within} ticks the most, too many would be late: {0.proof.why}"
    within: Tick
    proof: Annotated[Enumeration | Events | LateWindows, Field(discriminator="kind")]

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return `within` + 1, or 0 where too few are late."""
        tail = tail_of(objective)
        assert tail is not None
        late = self.proof.checked(tail.due(instance, self.within), "late-requests", budget)
        return self.within + 1 if late > tail.spared(len(instance.requests)) else 0
