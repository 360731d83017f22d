"""What a policy sees at a batch boundary."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from heuristics.engine.job import Job
from kvcore.cost import Cost
from kvcore.instance import Machine


@dataclass(slots=True)
class View:
    """The requests that have arrived and are not done, as they stand now.

    `arrived`, `called`, `returned` and `ended` are since the policy was last asked, so that it can keep queues of its
    own; `jobs`, `ready` and `must_work` are made on demand. `machine` and `cost` are the instance's, `now` is the tick
    at which the batch will start, `batch` its number (from 0), `tick_seconds` and `block_tokens` what a tick and a
    token of a coarse instance stand for.
    """

    machine: Machine
    cost: Cost
    now: int = 0  # the tick at which the batch will start
    batch: int = 0  # number of the batch to be decided, from 0
    arrived: list[Job] = field(default_factory=list)  # those that have arrived since the policy was last asked
    called: list[Job] = field(default_factory=list)  # those whose call started since then (it may have ended, too)
    returned: list[Job] = field(default_factory=list)  # those whose call ended since then
    ended: list[Job] = field(default_factory=list)  # those that were done since then
    present: Iterable[Job] = ()  # those that have arrived and are not done, in order of arrival
    continuing: Callable[[], list[Job]] = list
    to_come: Callable[[], list[Job]] = list  # those that will arrive, for a clairvoyant policy
    tick_seconds: Fraction = Fraction(1)  # seconds of a tick, for rules that are given in seconds
    block_tokens: int = 1  # fine tokens for which a token of a coarse instance stands

    @property
    def jobs(self) -> tuple[Job, ...]:
        """All of them, in order of arrival."""
        return tuple(self.present)

    @property
    def ready(self) -> list[Job]:
        """Those not in a call: they may work."""
        return [job for job in self.present if not job.calling]

    @property
    def must_work(self) -> list[Job]:
        """Those that have to work in this batch: without `pause`, all that worked and did not end their segment."""
        return [] if self.machine.pause else self.continuing()
