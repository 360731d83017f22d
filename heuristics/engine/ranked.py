"""Figure 1's rule of MARS: as it is stated, and as it is carried out on long traces."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from heuristics.engine.admission import Admission
from heuristics.engine.banker import Blocks, Holding
from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.policy import Policy
from heuristics.engine.view import View
from kvcore.instance import LIMIT


class RankedRule(Policy):
    """At every batch boundary, the ready requests are taken in order of a key, as far as they are admitted.

    Sort: the smallest key goes first; at equal keys the request that worked in the batch before, and then the earlier
    arrival. A running request that comes late in this order may be preempted, and keeps its memory.

    Fill: a request is admitted if the budgets leave it a token, if its segment fits beside what all others hold, and
    if all can still finish after that without any eviction (`Plan.admits`). One that is not admitted is skipped,
    and the next one is asked (`Plan.fill`). Where the machine does not pause, those that must work on come first.

    `heuristics.Ranked` decides the same without asking every request.

    Guarantee: it never deadlocks and never evicts, whatever the key.
    Running time: O(n log n + h log h) for a batch, with n requests present and h holding KV.
    Source: MARS (arXiv 2410.18248), Figure 1; the admission test is ours (docs/policies.md).
    """

    knows = "predictions"  # the admission test needs the sizes, whatever the key needs

    @abstractmethod
    def key(self, job: Job) -> Any:
        """Return the key of a ready request; the smallest goes first."""

    def decide(self, view: View, plan: Plan) -> None:
        """Sort, and fill the batch."""
        running_first = sorted(view.ready, key=attrgetter("worked"), reverse=True)
        plan.fill(sorted(running_first, key=self.key))  # stable: at equal keys in the order before


class Candidate(NamedTuple):
    """A request in the order of the rule: by key, the running one first, then by arrival."""

    key: Any
    paused: bool
    """Whether it did not work in the batch before."""
    arrival: int
    position: int
    job: Job


class Ranked(RankedRule):
    """Figure 1's rule, carried out without asking every request; the decisions are those of `RankedRule`.

    More memory in use never makes an admission possible (`heuristics.engine.admission`), so that

    * a blocked request stays blocked until memory is released (`_settled`), and is not asked before that;
    * if all decodes can go on for k batches, in the state after them, they can in each of these batches, in any order:
      `steady` lets the engine repeat the batch.

    The others are asked in order. Of those that wait, the ones that may be admitted are found in a table, all at once
    (`Waiting`). On machines without `pause` all are asked. The key of a request that holds nothing must not
    change while it waits.
    """

    def start(self, view: View) -> None:
        """Begin without requests."""
        self._holders: dict[int, Job] = {}  # ready, and with KV
        self._calling: dict[int, Job] = {}
        self._waiting = Waiting()  # ready, and without KV
        self._new: list[Job] = []  # as well, and not asked yet
        self._settled = False  # whether all of _waiting and _idle are blocked until something is released
        self._longest = 0  # none of _waiting and _idle has more tokens to process
        self._idle: dict[int, Holding] = {}  # holders that were blocked when last asked, and their device blocks
        self._stopped: dict[int, int] = {}  # of _idle those that would decode, with the tokens that they hold

    def decide(self, view: View, plan: Plan) -> None:
        """Take the ready requests in order of their key."""
        if not view.machine.pause:
            super().decide(view, plan)
            return
        self._observe(view)
        self._ask_in_order(plan)

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches all decodes can go on, if all others are blocked and stay so."""
        if not view.machine.pause or not self._settled or not self._whole(plan, 0):
            return 1
        limit, block = plan.machine.block_limit, plan.machine.block
        if limit is None:
            return LIMIT
        resting = [*(self._holding(job, plan) for job in self._resting()), *self._idle.values()]
        going = [job for i, job in self._holders.items() if i not in self._idle]
        decodes = [
            (tokens or job.device, *self._ending(job, plan))
            for job, tokens in zip(going, plan.decoding(going), strict=True)
        ]
        return 1 + safe_batches(limit, block, decodes, [holding for holding in resting if holding[0]])

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
            else:
                self._new.append(job)
        self._new += view.arrived

    def _file(self, new: list[Candidate], taken: list[Candidate], plan: Plan) -> None:
        """Let those that have been taken hold memory, and the other new ones wait."""
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
        return job.blocks, plan.true_demands[job.index].release_blocks[job.segment]

    def _ending(self, job: Job, plan: Plan) -> tuple[int, int]:
        """Return the tokens that the request holds at the end of its segment, and its claim in blocks."""
        demand, segment = plan.true_demands[job.index], job.segment
        return demand.end[segment], demand.release_blocks[segment]

    def _resting(self) -> list[Job]:
        """Return those in calls that hold KV, or room on the host."""
        return [job for job in self._calling.values() if job.blocks or job.host]

    def _whole(self, plan: Plan, more: int) -> bool:
        """Whether the budgets leave any of the blocked requests all its tokens, once `more` have been taken.

        None of these whose segment fits has more to process than the free blocks and one more hold.
        """
        most = self._longest
        if plan.free_blocks is not None:
            most = min(most, (plan.free_blocks + 1) * plan.machine.block)
        return min(plan.tokens_left, plan.prefill_left) - more >= most and plan.requests_left > more

    # --- in order ------------------------------------------------------------------------------------------------

    def _ask_in_order(self, plan: Plan) -> None:
        """Ask in order all that may be admitted; take those that are."""
        new = [self._candidate(job) for job in self._new]
        going = [job for i, job in self._holders.items() if i not in self._idle]
        held = dict(zip(going, plan.decoding(going), strict=True))
        stepped = plan.stepped
        asked = [*(self._candidate(job, worked=stepped and tokens > 0) for job, tokens in held.items()), *new]
        others = [*(job for job, tokens in held.items() if not tokens), *self._new]
        # A request that comes back gives its room on the host to others.
        back = any(job.host for job in others)
        more = len(going) + sum(job.missing for job in others)
        skip = self._settled and not back and self._whole(plan, more)
        resting, block = self._resting(), plan.machine.block
        holdings = self._idle | {job.index: self._holding(job, plan) for job in resting}
        for job, tokens in held.items():
            holdings[job.index] = -(-tokens // block) if tokens else job.blocks, self._ending(job, plan)[1]
        test = plan.test_among([*resting, *self._holders.values()], holdings)
        if not skip:
            asked += [self._candidate(self._holders[i]) for i in self._idle]
            self._idle, self._longest = {}, self._waiting.longest
        self._settled = plan.hybrid
        decoding = {job.index: tokens for job, tokens in held.items() if tokens} | self._stopped if plan.hybrid else {}
        taken = self._take_in_order(sorted(asked), decoding, test, plan, wait=skip)
        positions = {candidate.position for candidate in taken}
        for candidate in asked:
            i, job = candidate.position, candidate.job
            if i in positions:
                self._stopped.pop(i, None)
            elif i in self._holders:
                self._idle[i] = self._holding(job, plan)
                if i not in self._stopped and job.phase == "decode" and not job.host:
                    self._stopped[i] = job.device
                self._longest = max(self._longest, 1 if i in self._stopped else job.missing)
        self._file(new, taken, plan)

    def _take_in_order(
        self, asked: list[Candidate], decoding: dict[int, int], test: Admission, plan: Plan, *, wait: bool
    ) -> list[Candidate]:
        """Take those admitted of these, and of `_waiting` unless all of that may `wait`, in order; return them.

        Those `decoding` are given with the tokens that they hold; noted in the test one by one, and taken together.
        """
        taken: list[Candidate] = []
        decodes: list[Job] = []

        def take_decodes() -> None:
            on = plan.decoding(decodes)  # a stopped one does not, unless all that decode have stopped
            plan.decode_on([job for job, tokens in zip(decodes, on, strict=True) if tokens])
            for job, tokens in zip(decodes, on, strict=True):
                if not tokens:
                    plan.take(job, 1, noted=True)
            decodes.clear()

        budget = min(plan.tokens_left, plan.requests_left)
        passing = [] if wait else self._waiting.passing(0, test, plan, len(asked))
        gone: list[int] = []
        k = at = 0
        while k < len(asked) or at < len(passing):
            if budget - len(decodes) < 1:
                self._settled = False
                break
            waits = at < len(passing) and (k == len(asked) or self._waiting.order[passing[at]] < asked[k])
            if waits:
                candidate = self._waiting.order[passing[at]]
                at += 1
            else:
                candidate = asked[k]
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
                    passing, at = self._waiting.passing(start, test, plan, len(asked) - k), 0
                    self._settled &= min(plan.tokens_left, plan.prefill_left) > 0
            elif tokens < job.missing:
                self._settled = False
            budget = min(plan.tokens_left, plan.requests_left)
        take_decodes()
        self._waiting.remove(gone)
        return taken


class Waiting:
    """The requests that are ready and hold nothing, in order, with a table of what they need."""

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
        job = candidate.job
        demand, k, missing = plan.true_demands[job.index], job.segment, job.missing
        row = demand.end_blocks[k], demand.release_blocks[k], plan.machine.blocks(missing), missing
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
        """Return the places, from `start` on, of those that neither their segment nor the device's banker blocks.

        All others stay blocked while `others` more take a token each: a state with more in use admits no other. One
        that may get a part only of its tokens, or none, counts with a single block.
        """
        budget = min(plan.tokens_left, plan.prefill_left)
        if budget < 1 or start == len(self.order):
            return []
        table = self._table[:, start:]
        free = plan.free_blocks
        if free is None:
            return list(range(start, len(self.order)))
        places = np.flatnonzero(table[0] <= free)
        _, claims, growths, missing = table[:, places]
        growths = np.where(missing <= budget - others, growths, 1)
        passing: list[int] = (start + places[test.may_grow(growths, claims)]).tolist()
        return passing


def safe_batches(capacity: int, block: int, decodes: list[tuple[int, int, int]], others: list[Holding]) -> int:
    """Return for how many batches the decodes can go on together, beside what others hold, so that it stays safe.

    Of each decode: tokens held now, tokens held at the segment's end, and claim in blocks. Looked for up to the first
    end; the largest such number with blocks of one token if the segments decide, otherwise at most a factor of two
    below it.
    """
    if not decodes:
        return LIMIT
    tokens, ends, claims = np.array(decodes, dtype=np.int64).T
    kept, their_claims = np.array(others, dtype=np.int64).reshape(-1, 2).T
    peaks, all_claims = -(-ends // block), np.append(claims, their_claims)

    def is_safe_after(batches: int) -> bool:
        held = -(-(tokens + batches) // block)
        free = capacity - int(held.sum() + kept.sum())
        return int((peaks - held).max()) <= free and all_finish(free, np.append(held, kept), all_claims)

    most = int((ends - tokens).min())
    lacking = int((ends - tokens).max()) + int(tokens.sum()) + int(kept.sum()) * block
    if len(decodes) > 1:  # each batch makes one lack a token less, and takes a token of memory for each
        most = min(most, (capacity * block - lacking + block - 1) // (len(decodes) - 1))
    if most <= 0 or is_safe_after(most):
        return max(0, most)
    batches = 0
    while 2 * batches < most and is_safe_after(max(1, 2 * batches)):
        batches = max(1, 2 * batches)
    return batches


def all_finish(free: int, held: Blocks, claims: Blocks) -> bool:
    """Whether all that hold blocks can reach their claims one after another, with so many blocks free."""
    needs = claims - held
    order = np.argsort(needs)
    before = np.cumsum(held[order]) - held[order]
    return free >= 0 and bool(np.all(needs[order] <= free + before))
