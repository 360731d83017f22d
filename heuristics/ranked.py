"""Figure 1's rule of MARS: requests in order of a key, each as far as it is admitted."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from heuristics.admission import Admission
from heuristics.bank import Holding, is_safe
from heuristics.job import Job
from heuristics.plan import Plan
from heuristics.policy import Policy
from heuristics.view import View
from kvcore.instance import LIMIT


class Candidate(NamedTuple):
    """A request in the order of the rule: by key, the running one first, then by arrival."""

    key: Any
    paused: bool
    """Whether it did not work in the batch before."""
    arrival: int
    position: int
    job: Job


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

    Where this does not settle the batch, those who may be admitted are asked in order (`_ask`). Of those who wait these
    are found in a table, all at once (`Waiting`). On machines without `pause` everybody is asked.
    """

    knows = "predictions"  # the admission test needs the sizes, whatever the key needs

    @abstractmethod
    def key(self, job: Job) -> Any:
        """Return the key of a ready request; the smallest goes first."""

    def start(self, view: View) -> None:
        """Begin with nobody."""
        self._holders: dict[int, Job] = {}  # ready, and with KV
        self._calling: dict[int, Job] = {}
        self._waiting = Waiting()  # ready, and without KV
        self._new: list[Job] = []  # as well, and not asked yet
        self._settled = False  # whether all of _waiting and _idle are blocked until something is released
        self._longest = 0  # none of _waiting and _idle has more tokens to process
        self._idle: dict[int, Holding] = {}  # holders that were blocked when last asked, and their device blocks
        self._stopped: dict[int, int] = {}  # of _idle those who would decode, with the tokens that they hold
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

    def _file(self, new: list[Candidate], taken: list[Candidate], plan: Plan) -> None:
        """Let those who have been taken hold memory, and the other new ones wait."""
        for candidate in taken:
            self._holders[candidate.position] = candidate.job
        for candidate in new:
            if candidate.position not in self._holders:
                self._waiting.add(candidate._replace(paused=True), plan)
                self._longest = max(self._longest, candidate.job.missing)
        self._new = []
        if not (self._waiting or self._idle):
            self._longest = 0

    def _candidate(self, job: Job, *, worked: bool = False) -> Candidate:
        """Return the request with its key; `worked` if that is known."""
        return Candidate(self.key(job), not (worked or job.worked), job.arrival, job.index, job)

    def _holding(self, job: Job, plan: Plan) -> Holding:
        """Return the device blocks that the request holds, and its claim."""
        assert plan.truth is not None  # for mypy: the policy is not online
        return job.blocks, plan.truth[job.index].release_blocks[job.segment]

    def _resting(self) -> list[Job]:
        """Return those in calls that hold KV, or room on the host."""
        return [job for job in self._calling.values() if job.blocks or job.host]

    # --- without asking everybody --------------------------------------------------------------------------------

    def _go_on(self, view: View, plan: Plan) -> bool:
        """Decide the batch if all who were not blocked decode on, whoever joins; return whether it is decided."""
        going = [job for i, job in self._holders.items() if i not in self._idle]
        if not (self._settled or not (self._idle or self._waiting)):
            return False
        if not (view.machine.hybrid and self._can_go_on(going, view.batch, plan)):
            return False
        new = [self._candidate(job) for job in self._new]
        joining = self._joining(sorted(new), going, plan) if new else []
        if joining is None or not plan.decode_on(going):
            return False
        for candidate in joining:
            plan.take(candidate.job)
        if joining:
            self._safe = (0, 0)
        self._settled = True
        self._file(new, joining, plan)
        return True

    def _most(self, plan: Plan) -> int:
        """Return a bound on the tokens that any of those who are blocked, and whose segment fits, has to process."""
        if plan.free_blocks is None:
            return self._longest
        return min(self._longest, (plan.free_blocks + 1) * plan.machine.block)

    def _whole(self, plan: Plan, more: int) -> bool:
        """Whether the budgets leave any of those who are blocked all its tokens, once `more` have been taken."""
        return min(plan.tokens_left, plan.prefill_left) - more >= self._most(plan) and plan.requests_left > more

    def _can_go_on(self, going: list[Job], batch: int, plan: Plan) -> bool:
        """Whether all of these decode, and can go on in this batch."""
        first, last = self._safe
        if first == last == batch or not self._whole(plan, len(going)) or not all(plan.decoding(going)):
            return False
        return first <= batch < last or self._horizon(going, batch, plan) > 0

    def _horizon(self, going: list[Job], batch: int, plan: Plan) -> int:
        """Return for how many batches from `batch` on all of these, who are not idle, can go on; keep it."""
        batches = LIMIT
        limit = plan.machine.block_limit
        if limit is not None:
            assert plan.truth is not None  # for mypy: the policy is not online
            resting = [*(self._holding(job, plan) for job in self._resting()), *self._idle.values()]
            held = [tokens or job.device for job, tokens in zip(going, plan.decoding(going), strict=True)]
            lot = [
                (tokens, plan.truth[job.index].end[job.segment], plan.truth[job.index].release_blocks[job.segment])
                for job, tokens in zip(going, held, strict=True)
            ]
            batches = Stretch(limit, plan.machine.block, lot, resting).longest()
        self._safe = batch, batch + batches
        return batches

    def _joining(self, new: list[Candidate], going: list[Job], plan: Plan) -> list[Candidate] | None:
        """Return which of these join the decodes; None if that depends on their places in the order."""
        holders = [*self._resting(), *self._holders.values()]
        early, late = plan.new_test(holders), plan.new_test(holders)
        for job in going:
            late.take(job, 1)
        joining: list[Candidate] = []
        tokens = min(plan.tokens_left, plan.prefill_left) - len(going)
        for candidate in new:
            job, missing = candidate.job, candidate.job.missing
            if not early.segment_fits(job):
                continue
            if missing > tokens or len(going) + len(joining) >= plan.requests_left:
                return None
            if late.segment_fits(job) and late.admits(job, missing):
                late.take(job, missing)
                joining.append(candidate)
                tokens -= missing
            elif early.admits(job, missing):
                return None
        enough = tokens >= self._most(plan) and len(going) + len(joining) < plan.requests_left
        return joining if enough and late.leaves(going) else None

    # --- in order ------------------------------------------------------------------------------------------------

    def _ask(self, plan: Plan) -> None:
        """Ask in order all who may be admitted; take who is."""
        new = [self._candidate(job) for job in self._new]
        going = [job for i, job in self._holders.items() if i not in self._idle]
        held = dict(zip(going, plan.decoding(going), strict=True))
        stepped = plan.stepped
        hot = [*(self._candidate(job, worked=stepped and tokens > 0) for job, tokens in held.items()), *new]
        others = [*(job for job, tokens in held.items() if not tokens), *self._new]
        # Who comes back gives its room on the host to others.
        back = any(job.host for job in others)
        more = len(going) + sum(job.missing for job in others)
        skip = self._settled and not back and self._whole(plan, more)
        resting = self._resting()
        holdings = self._idle | {job.index: self._holding(job, plan) for job in resting}
        truth, block = plan.truth, plan.machine.block
        assert truth is not None  # for mypy: the policy is not online
        for job, tokens in held.items():
            claim = truth[job.index].release_blocks[job.segment]
            holdings[job.index] = -(-tokens // block) if tokens else job.blocks, claim
        if not skip:
            hot += [self._candidate(self._holders[i]) for i in self._idle]
            self._idle, self._longest = {}, self._waiting.longest
        test = plan.test_among([*resting, *self._holders.values()], holdings)
        self._safe = (0, 0)
        self._settled = plan.hybrid
        decoding = {job.index: tokens for job, tokens in held.items() if tokens} | self._stopped if plan.hybrid else {}
        taken = self._sweep(sorted(hot), decoding, test, plan, wait=skip)
        positions = {candidate.position for candidate in taken}
        for candidate in hot:
            i, job = candidate.position, candidate.job
            if i in positions:
                self._stopped.pop(i, None)
            elif i in self._holders:
                self._idle[i] = holdings[i]
                if i not in self._stopped and job.phase == "decode" and not job.host:
                    self._stopped[i] = job.device
                self._longest = max(self._longest, 1 if i in self._stopped else job.missing)
        self._file(new, taken, plan)

    def _sweep(
        self, hot: list[Candidate], decoding: dict[int, int], test: Admission, plan: Plan, *, wait: bool
    ) -> list[Candidate]:
        """Take who is admitted of these, and of those who wait unless all of these `wait`, in order; return them.

        Those `decoding` are given with the tokens that they hold; noted in the test one by one, and taken together.
        """
        taken: list[Candidate] = []
        decodes: list[Job] = []

        def take_decodes() -> None:
            on = plan.decoding(decodes)  # who has stopped does not, unless all who decode have
            plan.decode_on([job for job, tokens in zip(decodes, on, strict=True) if tokens])
            for job, tokens in zip(decodes, on, strict=True):
                if not tokens:
                    plan.take(job, 1, noted=True)
            decodes.clear()

        budget = min(plan.tokens_left, plan.requests_left)
        passing = [] if wait else self._waiting.passing(0, test, plan, len(hot))
        gone: list[int] = []
        k = at = 0
        while k < len(hot) or at < len(passing):
            if budget - len(decodes) < 1:
                self._settled = False
                break
            waits = at < len(passing) and (k == len(hot) or self._waiting.order[passing[at]] < hot[k])
            if waits:
                candidate = self._waiting.order[passing[at]]
                at += 1
            else:
                candidate = hot[k]
                k += 1
            job = candidate.job
            held = decoding.get(candidate.position)
            if held is not None:
                if test.decodes(job, held):  # one token, which the budgets leave
                    decodes.append(job)
                    taken.append(candidate)
                continue
            if decodes:
                take_decodes()
            tokens = plan.chunk(job) if test.segment_fits(job) else job.missing
            if tokens and test.segment_fits(job) and test.admits(job, tokens):
                self._settled &= not job.host  # room on the host comes back
                plan.take(job, tokens)
                taken.append(candidate)
                start = passing[at - 1] + 1 if waits else 0
                if waits:
                    gone.append(start - 1)
                if not wait and (waits or tokens > 1):
                    start = start or bisect_left(self._waiting.order, candidate)
                    passing, at = self._waiting.passing(start, test, plan, len(hot) - k), 0
                    self._settled &= min(plan.tokens_left, plan.prefill_left) > 0
            elif tokens < job.missing:
                self._settled = False
            budget = min(plan.tokens_left, plan.requests_left)
        take_decodes()
        self._waiting.remove(gone)
        return taken


class Waiting:
    """Those who are ready and hold nothing, in order, with a table of what they need."""

    def __init__(self) -> None:
        self.order: list[Candidate] = []
        self._table = np.zeros((4, 0), dtype=np.int64)  # peak, claim and first growth in blocks; tokens to process

    def __len__(self) -> int:
        return len(self.order)

    @property
    def longest(self) -> int:
        """The most tokens that one of them has to process."""
        return int(self._table[3].max()) if self.order else 0

    def add(self, candidate: Candidate, plan: Plan) -> None:
        """Let one more wait."""
        assert plan.truth is not None  # for mypy: the policy is not online
        job = candidate.job
        ahead, k, missing = plan.truth[job.index], job.segment, job.missing
        row = ahead.end_blocks[k], ahead.release_blocks[k], plan.machine.blocks(missing), missing
        place = bisect_left(self.order, candidate)
        self.order.insert(place, candidate)
        self._table = np.insert(self._table, place, [min(LIMIT, value) for value in row], axis=1)

    def remove(self, places: list[int]) -> None:
        """Take out those at these places, which ascend."""
        for place in reversed(places):
            del self.order[place]
        if places:
            self._table = np.delete(self._table, places, axis=1)

    def passing(self, start: int, test: Admission, plan: Plan, others: int) -> list[int]:
        """Return the places, from `start` on, of those whom neither their segment nor the device's bank blocks now.

        All others stay blocked while `others` more take a token each: a state with more in use admits nobody else. Who
        may get a part only of its tokens, or none, counts with a single block.
        """
        left = min(plan.tokens_left, plan.prefill_left)
        if left < 1 or start == len(self.order):
            return []
        table = self._table[:, start:]
        free = plan.free_blocks
        if free is None:
            return list(range(start, len(self.order)))
        places = np.flatnonzero(table[0] <= free)
        _, claims, growths, missing = table[:, places]
        growths = np.where(missing <= left - others, growths, 1)
        passing: list[int] = (start + places[test.may_grow(growths, claims)]).tolist()
        return passing


class Stretch:
    """Decodes that go on together, beside others that hold memory: for how many batches that stays safe."""

    def __init__(
        self, capacity: int, block: int, going: list[tuple[int, int, int]], resting: Iterable[Holding]
    ) -> None:
        """Take those who go on: tokens held, tokens held at the segment's end, and claim in blocks; and the others."""
        self._capacity = capacity
        self._block = block
        self._going = going
        self._resting = [holding for holding in resting if holding[0]]
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
