"""What a policy sees at a batch boundary."""

from __future__ import annotations

from dataclasses import dataclass, field

from heuristics.job import Job
from kvbound.cost import Cost
from kvbound.instance import Machine


@dataclass(frozen=True, slots=True)
class View:
    """The requests that have arrived and are not done, as they stand now; what has not arrived is not in it."""

    machine: Machine
    cost: Cost
    now: int = 0
    """The tick at which the batch will start."""
    batch: int = 0
    """Number of the batch to be decided, from 0."""
    jobs: tuple[Job, ...] = ()
    """All of them, in order of arrival."""
    ready: list[Job] = field(default_factory=list)
    """Those that may work: not in a call."""
    must_work: list[Job] = field(default_factory=list)
    """Those that have to work in this batch: without `pause`, all that worked and did not end their segment."""
    arrived: list[Job] = field(default_factory=list)
    """Those that have arrived since the policy was last asked."""
    called: list[Job] = field(default_factory=list)
    """Those whose call started since then."""
    returned: list[Job] = field(default_factory=list)
    """Those whose call ended since then."""
