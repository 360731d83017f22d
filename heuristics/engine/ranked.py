"""Figure 1's rule on long traces: the decisions of `RankedRule`, without asking every request in every batch."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, NamedTuple

import numpy as np

from heuristics.engine.admission import Admission
from heuristics.engine.banker import Blocks, Holding, is_safe
from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.ranked_rule import RankedRule
from heuristics.engine.view import View
from kvcore.instance import LIMIT


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
        self._endings: dict[int, tuple[int, int]] = {}  # tokens at the end of the segment, and claim in blocks

    def decide(self, view: View, plan: Plan) -> None:
        """Take the ready requests in order of their key."""
        if not view.machine.pause:
            super().decide(view, plan)
            return
        self._observe(view)
        if not self._ask_by_segments(plan):
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
            self._endings.pop(job.index, None)
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
        ending = self._endings.get(job.index)
        if ending is None:
            demand, segment = plan.true_demands[job.index], job.segment
            ending = self._endings[job.index] = demand.end[segment], demand.release_blocks[segment]
        return ending

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

    # --- by segments ---------------------------------------------------------------------------------------------

    def _ask_by_segments(self, plan: Plan) -> bool:
        """Take the decodes and newcomers that are admitted, if only their segments decide; return whether this is so.

        Less memory in use makes no state unsafe. So if those whose segments fit leave a safe state together, the
        banker would have admitted each of them. Their order matters only if what they take could make one not fit.
        """
        free, idle, new = plan.free_blocks, self._idle, self._new
        jobs = [job for i, job in self._holders.items() if i not in idle]
        tokens = plan.decoding(jobs)
        if free is None or not plan.hybrid or not all(tokens):
            return False
        stepped, went = plan.stepped, len(jobs)
        skip = self._settled and self._whole(plan, went + sum(job.missing for job in new))
        if not skip:
            if len(self._stopped) < len(idle):
                return False
            jobs += [self._holders[i] for i in self._stopped]
            tokens += self._stopped.values()
        places = [] if skip else self._waiting.fitting(free)
        if not (jobs or new or places):
            return False
        decodes, waits = len(jobs), len(jobs) + len(new)
        jobs += [*new, *(self._waiting.order[place].job for place in places)]
        table, held = self._table_of(jobs[:decodes], tokens, plan)
        rows = np.array([needs_of(job, plan) for job in new], dtype=np.int64).reshape(-1, 5).T
        table = np.concatenate([table, rows, self._waiting.rows(places)], axis=1)
        held = np.append(held, np.zeros(len(jobs) - decodes, dtype=np.int64))
        ends, claims, growths, works, hosts = table
        lacks = ends - held
        goes = lacks <= free
        if plan.machine.host_memory is not None and np.any(goes & (hosts > 0)):
            return False
        left, prefill_left, requests_left = plan.tokens_left, plan.prefill_left, plan.requests_left
        settled = True
        crowded = goes @ works >= min(left, prefill_left) or np.count_nonzero(goes) > requests_left
        if crowded or np.any(goes & (lacks > free - goes @ growths + growths)):
            asked = [
                (
                    self._waiting.order[places[k - waits]]
                    if k >= waits
                    else self._candidate(jobs[k], worked=stepped and k < went),
                    k,
                )
                for k in np.flatnonzero(goes).tolist()
            ]
            lacking, growing, working = lacks.tolist(), growths.tolist(), works.tolist()
            for _, k in sorted(asked):
                if min(left, requests_left) < 1:
                    return False
                goes[k] = lacking[k] <= free
                if goes[k]:
                    if k >= decodes:
                        if working[k] > min(left, prefill_left):
                            return False
                        prefill_left -= working[k]
                    free -= growing[k]
                    left -= working[k]
                    requests_left -= 1
                    settled &= skip or k < decodes or (k < waits and working[k] == 1) or min(left, prefill_left) > 0
        grown = held + goes * growths
        rest = [self._holding(job, plan) for job in self._resting() if job.blocks]
        rest += idle.values() if skip else []
        if not is_safe_with(plan.free_blocks - int(goes @ growths), grown[grown > 0], claims[grown > 0], rest):
            return False
        if not skip:
            self._idle, self._longest = {}, self._waiting.longest
        for k in np.flatnonzero(~goes[:decodes]).tolist():
            self._idle[jobs[k].index], self._stopped[jobs[k].index] = (int(held[k]), int(claims[k])), tokens[k]
            self._longest = max(self._longest, 1)
        going = [jobs[k] for k in np.flatnonzero(goes[:decodes]).tolist()]
        on = plan.decoding(going)  # a stopped one does not, unless all that decode have stopped
        plan.decode_on([job for job, decoding in zip(going, on, strict=True) if decoding])
        for job, decoding in zip(going, on, strict=True):
            if not decoding:
                plan.take(job, 1)
            self._stopped.pop(job.index, None)
        joined = [decodes + k for k in np.flatnonzero(goes[decodes:]).tolist()]
        for k in joined:
            plan.take(jobs[k], int(works[k]))
            self._holders[jobs[k].index] = jobs[k]
        self._waiting.remove([places[k - waits] for k in joined if k >= waits])
        self._settled = settled
        self._file([self._candidate(job) for job in new], [], plan)
        return True

    def _table_of(self, jobs: list[Job], tokens: list[int], plan: Plan) -> tuple[Blocks, Blocks]:
        """Return the columns of decodes that hold so many tokens, and their blocks."""
        block = plan.machine.block
        ends, claims = np.array([self._ending(job, plan) for job in jobs], dtype=np.int64).reshape(-1, 2).T
        kv = np.array(tokens, dtype=np.int64)
        held = -(-kv // block)
        ones = np.ones_like(held)
        return np.array([-(-ends // block), claims, held * block == kv, ones, ones - 1]), held

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
        resting = self._resting()
        holdings = self._idle | {job.index: self._holding(job, plan) for job in resting}
        true_demands, block = plan.true_demands, plan.machine.block
        for job, tokens in held.items():
            claim = true_demands[job.index].release_blocks[job.segment]
            holdings[job.index] = -(-tokens // block) if tokens else job.blocks, claim
        if not skip:
            asked += [self._candidate(self._holders[i]) for i in self._idle]
            self._idle, self._longest = {}, self._waiting.longest
        test = plan.test_among([*resting, *self._holders.values()], holdings)
        self._settled = plan.hybrid
        decoding = {job.index: tokens for job, tokens in held.items() if tokens} | self._stopped if plan.hybrid else {}
        taken = self._take_in_order(sorted(asked), decoding, test, plan, wait=skip)
        positions = {candidate.position for candidate in taken}
        for candidate in asked:
            i, job = candidate.position, candidate.job
            if i in positions:
                self._stopped.pop(i, None)
            elif i in self._holders:
                self._idle[i] = holdings[i]
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
        self._table = np.zeros((5, 0), dtype=np.int64)  # what `needs_of` says of each

    def __len__(self) -> int:
        return len(self.order)

    @property
    def longest(self) -> int:
        """The most tokens that one of them has to process."""
        return int(self._table[3].max()) if self.order else 0

    def add(self, candidate: Candidate, plan: Plan) -> None:
        """Let one more wait."""
        place = bisect_left(self.order, candidate)
        self.order.insert(place, candidate)
        self._table = np.insert(self._table, place, needs_of(candidate.job, plan), axis=1)

    def rows(self, places: list[int]) -> Blocks:
        """Return the columns of those at these places."""
        return self._table[:, places]

    def fitting(self, free: int) -> list[int]:
        """Return the places of those whose segment fits into so many blocks."""
        fits: list[int] = np.flatnonzero(self._table[0] <= free).tolist()
        return fits

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
        _, claims, growths, missing, _ = table[:, places]
        growths = np.where(missing <= budget - others, growths, 1)
        passing: list[int] = (start + places[test.may_grow(growths, claims)]).tolist()
        return passing


def needs_of(job: Job, plan: Plan) -> list[int]:
    """Return peak of the segment, claim and growth in blocks; tokens to process; those that its release sends out."""
    demand, k, missing = plan.true_demands[job.index], job.segment, job.missing
    row = demand.end_blocks[k], demand.release_blocks[k], plan.machine.blocks(missing), missing, demand.host_next[k]
    return [min(LIMIT, value) for value in row]


def is_safe_with(free: int, held: Blocks, claims: Blocks, rest: list[Holding]) -> bool:
    """Whether all that hold blocks, and the rest, can reach their claims one after another."""
    if rest:
        more = np.array(rest, dtype=np.int64).T
        held, claims = np.append(held, more[0]), np.append(claims, more[1])
    needs = claims - held
    order = np.argsort(needs)
    before = np.cumsum(held[order]) - held[order]
    return free >= 0 and bool(np.all(needs[order] <= free + before))


def safe_batches(capacity: int, block: int, decodes: list[tuple[int, int, int]], others: list[Holding]) -> int:
    """Return for how many batches the decodes can go on together, beside what others hold, so that it stays safe.

    Of each decode: tokens held now, tokens held at the segment's end, and claim in blocks. At most a factor of two
    below the largest such number; LIMIT if all can go on to their ends. One that would have ended counts with what it
    holds then: an end makes no state less safe.
    """

    def is_safe_after(batches: int) -> bool:
        held = [-(-min(tokens + batches, end) // block) for tokens, end, _ in decodes]
        growth = [-(-end // block) - blocks for blocks, (_, end, _) in zip(held, decodes, strict=True)]
        claims = [claim for _, _, claim in decodes]
        free = capacity - sum(held) - sum(blocks for blocks, _ in others)
        return max(growth, default=0) <= free and is_safe(capacity, [*others, *zip(held, claims, strict=True)])

    last = max((end - tokens for tokens, end, _ in decodes), default=0)
    batches = 0
    while is_safe_after(following := max(1, 2 * batches)):
        if following >= last:
            return LIMIT
        batches = following
    return batches
