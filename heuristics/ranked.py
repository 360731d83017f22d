"""Figure 1's rule of MARS: requests in order of a key, each as far as it is admitted."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, insort
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, NamedTuple

from heuristics.bank import is_safe
from heuristics.job import Job
from heuristics.outlook import Outlook
from heuristics.plan import Plan
from heuristics.policy import Policy
from heuristics.view import View
from kvbound.instance import LIMIT


class Candidate(NamedTuple):
    """A request in the order of the rule: by key, the running one first, then by arrival."""

    key: Any
    paused: bool
    """Whether it did not work in the batch before."""
    arrival: int
    position: int
    job: Job
    peak: int
    """Device blocks that it holds at the end of its segment."""


class Ranked(Policy):
    """At every batch boundary, requests are taken in order of a key, as far as they are admitted.

    Blocked requests are skipped. A running request may be preempted, and keeps its memory. At equal keys the running
    request goes on, and then the earlier arrival. `Plan.fill` says who is admitted. The key of a request that holds
    nothing must not change while it waits.

    The rule is carried out without asking everybody. More memory in use never makes an admission possible
    (`heuristics.admission`), so that

    * who is blocked stays so until somebody releases memory (`_settled`);
    * if all decodes can go on for k batches, in the state after them, they can in each of these batches, in any order;
    * who is admitted after the growth of all decodes is admitted before it, and who is not before it, is not after it.

    Where this does not settle the batch, all who hold memory, and all who have room for their segment, are asked in
    order (`_ask`); on machines without `pause` everybody is.
    """

    knows = "predictions"  # the admission test needs the sizes, whatever the key needs

    @abstractmethod
    def key(self, job: Job) -> Any:
        """Return the key of a ready request; the smallest goes first."""

    def start(self, view: View) -> None:
        """Begin with nobody."""
        self._holders: dict[int, Job] = {}  # ready, and with KV
        self._calling: dict[int, Job] = {}
        self._waiting: list[Candidate] = []  # ready, and without KV, in order
        self._new: list[Job] = []  # as well, and not asked yet
        self._settled = False  # whether all of _waiting were blocked when last asked, and nothing was released since
        self._longest = 0  # no waiting request has more tokens to process
        self._idle: set[int] = set()  # holders that were blocked when last asked, as _waiting
        self._safe = (0, 0)  # batches in which all other holders, as far as they still hold memory, can go on: from, to

    def decide(self, view: View, plan: Plan) -> None:
        """Take the ready requests in order of their key."""
        if not view.machine.pause:
            running_first = sorted(view.ready, key=attrgetter("worked"), reverse=True)
            plan.fill(sorted(running_first, key=self.key))  # stable: at equal keys in the order before
            return
        self._observe(view)
        if plan.moves() or not self._go_on(view, plan):
            self._ask(plan)

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches all decodes can go on, if everybody else is blocked and stays so."""
        if not view.machine.pause or not self._settled or not self._whole(plan, 0):
            return 1
        going = [job for i, job in self._holders.items() if i not in self._idle]
        return 1 + self._horizon(going, view.batch + 1, plan)

    # --- what has happened ---------------------------------------------------------------------------------------

    def _observe(self, view: View) -> None:
        for job in view.ended:
            del self._holders[job.index]
        for job in view.called:
            del self._holders[job.index]
            self._calling[job.index] = job
        if view.ended or any(job.handling != "preserve" for job in view.called):
            self._settled = False
        for job in view.returned:
            del self._calling[job.index]
            if job.device or job.host:
                self._holders[job.index] = job
                self._safe = (0, 0)
            else:
                self._new.append(job)
        self._new += view.arrived

    def _file(self, new: list[Candidate], taken: list[Candidate]) -> None:
        """Let those who have been taken hold memory, and the other new ones wait."""
        positions = {candidate.position for candidate in taken}
        for candidate in new:
            if candidate.position not in positions:
                insort(self._waiting, candidate._replace(paused=True))
                self._longest = max(self._longest, candidate.job.missing)
        fresh = {candidate.position for candidate in new}
        for candidate in taken:
            if candidate.position not in self._holders and candidate.position not in fresh:
                del self._waiting[bisect_left(self._waiting, candidate)]
            self._holders[candidate.position] = candidate.job
        self._new = []
        if not self._waiting:
            self._longest = 0

    def _candidate(self, job: Job, plan: Plan, *, blocks: bool = False) -> Candidate:
        """Return the request with its key; with `blocks` its peak is what it needs beside the blocks that it holds."""
        assert plan.truth is not None  # for mypy: the policy is not online
        peak = plan.truth[job.index].end_blocks[job.segment] - blocks * job.blocks
        return Candidate(self.key(job), not job.worked, job.arrival, job.index, job, peak)

    def _resting(self) -> list[Job]:
        """Return those in calls that hold KV, or room on the host."""
        return [job for job in self._calling.values() if job.blocks or job.host]

    # --- without asking everybody --------------------------------------------------------------------------------

    def _go_on(self, view: View, plan: Plan) -> bool:
        """Decide the batch if all who were not blocked decode on, whoever joins; return whether it is decided."""
        going = [job for i, job in self._holders.items() if i not in self._idle]
        if not (view.machine.hybrid and self._can_go_on(going, view.batch, plan)):
            return False
        free = LIMIT if plan.free_blocks is None else plan.free_blocks
        new = [self._candidate(job, plan) for job in self._new]
        asked = [*new]
        if not self._settled:
            idle = [self._candidate(self._holders[i], plan, blocks=True) for i in self._idle]
            if any(candidate.job.host for candidate in idle):
                return False
            asked += [*idle, *self._waiting]
        fitting = sorted(candidate for candidate in asked if candidate.peak <= free)
        joining = self._joining(fitting, going, plan) if fitting else []
        if joining is None or not plan.decode_on(going):
            return False
        for candidate in joining:
            plan.take(candidate.job)
        if joining:
            self._safe = (0, 0)
            self._idle -= {candidate.position for candidate in joining}
        self._settled = True
        self._file(new, joining)
        return True

    def _whole(self, plan: Plan, more: int) -> bool:
        """Whether the budgets leave any waiting request all its tokens, once `more` have been taken."""
        return min(plan.tokens_left, plan.prefill_left) - more >= self._longest and plan.requests_left > more

    def _can_go_on(self, going: list[Job], batch: int, plan: Plan) -> bool:
        """Whether all of these decode, and can go on in this batch."""
        if any(job.missing != 1 or job.host or not job.device for job in going) or not self._whole(plan, len(going)):
            return False
        first, last = self._safe
        return first <= batch < last or self._horizon(going, batch, plan) > 0

    def _horizon(self, going: list[Job], batch: int, plan: Plan) -> int:
        """Return for how many batches from `batch` on all of these, who are not idle, can go on; keep it."""
        batches = LIMIT
        limit = plan.machine.block_limit
        if limit is not None:
            assert plan.truth is not None  # for mypy: the policy is not online
            resting = [*self._resting(), *(self._holders[i] for i in self._idle)]
            batches = Stretch(limit, plan.machine.block, going, resting, plan.truth).longest()
        self._safe = batch, batch + batches
        return batches

    def _joining(self, fitting: list[Candidate], going: list[Job], plan: Plan) -> list[Candidate] | None:
        """Return which of these join the decodes; None if that depends on their places in the order."""
        holders = [*self._resting(), *self._holders.values()]
        early, late = plan.new_test(holders), plan.new_test(holders)
        for job in going:
            late.take(job, 1)
        joining: list[Candidate] = []
        tokens = min(plan.tokens_left, plan.prefill_left) - len(going)
        for candidate in fitting:
            job, missing = candidate.job, candidate.job.missing
            if missing > tokens or len(going) + len(joining) >= plan.requests_left:
                return None
            if late.segment_fits(job) and late.admits(job, missing):
                late.take(job, missing)
                joining.append(candidate)
                tokens -= missing
            elif early.segment_fits(job) and early.admits(job, missing):
                return None
        enough = tokens >= self._longest and len(going) + len(joining) < plan.requests_left
        return joining if enough and late.leaves(going) else None

    # --- in order ------------------------------------------------------------------------------------------------

    def _ask(self, plan: Plan) -> None:
        """Ask in order all who hold memory, and all others whose segment may fit; take who is admitted."""
        new = [self._candidate(job, plan) for job in self._new]
        hot = [*(self._candidate(job, plan) for job in self._holders.values()), *new]
        free = LIMIT if plan.free_blocks is None else plan.free_blocks
        back = any(candidate.job.host for candidate in hot)  # who comes back gives its room on the host to others
        if back or not (self._settled and self._whole(plan, sum(candidate.job.missing for candidate in hot))):
            hot += [candidate for candidate in self._waiting if candidate.peak <= free]
        test = plan.test_among([*self._resting(), *self._holders.values()])
        self._safe = (0, 0)
        self._settled = plan.hybrid
        taken = []
        for candidate in sorted(hot):
            if plan.tokens_left < 1 or plan.requests_left < 1:
                self._settled = False
                break
            job = candidate.job
            tokens = plan.chunk(job) if test.segment_fits(job) else job.missing
            if tokens and test.segment_fits(job) and test.admits(job, tokens):
                self._settled &= not job.host  # room on the host comes back
                plan.take(job, tokens)
                taken.append(candidate)
            elif tokens < job.missing:
                self._settled = False
        self._idle = set(self._holders) - {candidate.position for candidate in taken}
        self._file(new, taken)


class Stretch:
    """Decodes that go on together, beside others that hold memory: for how many batches that stays safe."""

    def __init__(
        self, capacity: int, block: int, going: Iterable[Job], resting: Iterable[Job], truth: list[Outlook]
    ) -> None:
        self._capacity = capacity
        self._block = block
        self._going = [
            (job.device, truth[job.index].end[job.segment], truth[job.index].release_blocks[job.segment])
            for job in going
        ]
        self._resting = [(job.blocks, truth[job.index].release_blocks[job.segment]) for job in resting if job.blocks]
        self._last = max((end - device for device, end, _ in self._going), default=0)

    def longest(self) -> int:
        """Return a number of batches, at most a factor of two below the largest; LIMIT if all can go on to their ends.

        Who would have ended counts with what it holds then: somebody's end makes no state less safe.
        """
        batches = 0
        while self.is_safe_after(following := max(1, 2 * batches)):
            if following >= self._last:
                return LIMIT
            batches = following
        return batches

    def is_safe_after(self, batches: int) -> bool:
        """Whether the state after so many batches is safe, with room for the segment of each."""
        block, holdings, most = self._block, [*self._resting], 0
        for device, end, claim in self._going:
            held = -(-min(device + batches, end) // block)
            most = max(most, -(-end // block) - held)
            holdings.append((held, claim))
        free = self._capacity - sum(held for held, _ in holdings)
        return most <= free and is_safe(self._capacity, holdings)
