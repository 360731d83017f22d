"""MARS as its released code has it, which differs from the paper in most of what it ranks by."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.unified import Entry, Unified
from heuristics.engine.view import View
from heuristics.policies.mars import NextCall, StarvationTimers, next_call

UNIT = Fraction(1, 10**7)
"""Seconds; the constants are whole numbers of it."""
TOKEN, FIXED = 408, 169_200
"""A token and the fixed part of a batch, as the released script sets them for the waste: 0.0408 ms and 16.92 ms."""


class MarsAsReleased(Unified):
    """Waiting requests by MARS's released score, running ones first come, first served; calls preserve or recompute.

    *Handling*, at arrival and at each return: with ctx = the original prompt and the predicted output in whole blocks
    of 64 tokens, a call of T seconds is preserved if T ctx is at most InferCept's waste of a discard, else recomputed.
    (The released waste of a swap is always larger.) A call pauses with its KV held. In the next batch, of all paused
    requests that hold KV by this policy's choice, those of less than the largest waste are dropped if they are to be
    recomputed; the one of the largest waste is the first to be evicted, whatever its handling, as a whole.

    *Order*: the score of a request is M(b) + 64 b T + M(a) if its call is preserved and M(b) + M(b + a) if not, M(x)
    being n (n+1)/2 chunks of c = max(1, 384 - tokens in the running batch) tokens for n = ceil(64 x / c), with b the
    blocks of prompt and predicted output, a those of predicted output and return. It is computed anew for each batch,
    or in each (`skip` + 1)-th: a request that came in between has score -1, and goes first. Admission stops at the
    first that lacks memory after the paused target was dropped; memory is given out chunk by chunk.

    *Starvation*: a request that ran before, and then waits for 100 batches on end, goes first until its next call, from
    the batch after. (The released quantum of 100,000 iterations of running is longer than any segment.)

    Scores are double-precision floats, as they were.

    By the settings of its script a token and the fixed part of a batch take 0.0408 and 16.92 ms in the waste, 0.1 and
    10 ms in the score.

    Guarantee: nothing is known. Running time: O(r) for a batch with r running requests, and O(w) with w waiting ones
    for each that is admitted, or where the running batch has changed and tokens are left.
    Source: the released code of MARS (arXiv 2410.18248), with the settings of its script.
    """

    name = "mars-as-released"
    needs = ("evict", "pause", "chunked")
    knows = "predictions"
    by_arrival = True

    def __init__(self, skip: int = 0, threshold: int = 100) -> None:
        self.skip = skip
        self.threshold = threshold

    def start(self, view: View) -> None:
        """Begin with empty queues."""
        super().start(view)
        self.units = view.tick_seconds / UNIT
        self.queue = ScoreQueue()
        self.jobs: dict[int, Job] = {}  # in the queue
        self.timers = StarvationTimers()
        self.wastes: dict[int, tuple[Fraction, bool]] = {}  # of the coming call; whether it is to be recomputed
        self.kept: dict[int, Job] = {}  # paused, and held by this policy's choice
        self.targets: list[Job] = []  # of them, those of the largest waste
        self._kept_changed = False

    # --- the handling --------------------------------------------------------------------------------------------

    def classify(self, job: Job) -> None:
        """Choose the handling of the coming call, note its waste, and what the score is made of."""
        call = next_call(job)
        duration = call.duration * self.units
        context = _blocks(job.prompt + job.remaining) * BLOCK
        keep, discard = duration * context, self.discard_waste(context)
        self.wastes[job.index] = min(keep, Fraction(discard)), keep > discard
        self.queue.put(job.index, _row(job, call, float(duration), recompute=keep > discard))

    def discard_waste(self, context: int) -> int:
        """Return InferCept's waste of a discard, in tokens times 100 ns."""
        chunk = max(BATCH - self.in_flight(), 1)
        chunks, last = max(-(-context // chunk) - 1, 0), context % chunk
        running = sum(job.blocks for job in (*self.decoding, *self.prefilling)) * self.machine.block
        recomputed = (TOKEN * BATCH + FIXED) * chunks * (chunks + 1) // 2 * chunk
        return recomputed + TOKEN * chunk * chunks * running + TOKEN * last * (running + last)

    def in_flight(self) -> int:
        """Return the tokens that the running requests have before them."""
        return len(self.decoding) + sum(job.missing for job in self.prefilling)

    def at_call(self, job: Job, plan: Plan) -> None:
        """Hold the KV of a free call for now."""
        self.kept[job.index] = job
        self._kept_changed = True

    def while_paused(self, plan: Plan) -> None:
        """Drop what is to be recomputed, but for the requests of the largest waste, which are the first victims."""
        if not self._kept_changed:
            return
        most = max((self.wastes[index][0] for index in self.kept), default=Fraction(0))
        for index, job in list(self.kept.items()):
            waste, recompute = self.wastes[index]
            if waste < most and recompute:
                self._release(job, plan)
        self.targets = [job for index, job in self.kept.items() if self.wastes[index][0] == most]
        self._kept_changed = False

    def at_return(self, job: Job, now: int) -> None:
        """Let one that holds KV go on, queue the others; the next call is classified now."""
        if self.kept.pop(job.index, None) is not None:
            self._kept_changed = True
            self.targets = [other for other in self.targets if other is not job]
        self.classify(job)
        if job.device and not job.host:
            self.run(job)
        else:
            self.enqueue(self.waiting, job, job.arrival)

    # --- eviction ------------------------------------------------------------------------------------------------

    def victim(self, job: Job, running: Sequence[Job], plan: Plan) -> Job | None:
        """Return the paused request of the largest waste, or else the last that came of the running ones."""
        return self._target(plan) or super().victim(job, running, plan)

    def evict(self, job: Job, plan: Plan) -> None:
        """Drop the KV of a paused or a running request."""
        if job.index in self.kept:
            self.targets.remove(job)
            self._release(job, plan)
        else:
            super().evict(job, plan)

    def _target(self, plan: Plan) -> Job | None:
        """Return the paused request that goes first; the next is chosen in the next batch, or if this has no work."""
        if not self.targets and not plan.work:
            self.while_paused(plan)
        return self.targets[-1] if self.targets else None

    def _release(self, job: Job, plan: Plan) -> None:
        del self.kept[job.index]
        self._kept_changed = True
        self.discard(job, plan)

    # --- the queue -----------------------------------------------------------------------------------------------

    def observe(self, view: View, plan: Plan) -> None:
        """Bring the queue up to what has happened, and to what starves by now."""
        for job in view.called:
            self.queue.promote(job.index, False)
        super().observe(view, plan)
        for index in self.timers.expired(view.batch):
            self.queue.promote(index)

    def enqueue(self, queue: list[Entry], job: Job, key: Any) -> None:
        """Put a request into the queue; if it ran before, its timer starts."""
        new = not (job.segment or job.generated or job.index in self._evicted)
        if new:
            self.classify(job)
        self.queue.add(job.index, job.arrival)
        self.jobs[job.index] = job
        if not new and not self.queue.is_promoted(job.index):
            self.timers.start(job.index, self._batch + 1 + self.threshold)

    def fill_waiting(self, plan: Plan) -> None:
        """Admit in order of the score, up to the first that lacks memory once the paused target is dropped."""
        asked = len(self.queue) > 0 and plan.tokens_left > 0
        if self._batch % (self.skip + 1) == 0 and len(self.queue) and (asked or self.skip):
            self.queue.refresh(self.in_flight())
        while asked and len(self.queue) and plan.tokens_left > 0:
            place = self.queue.first()
            job = self.jobs[self.queue.places[place][1]]
            tokens = 0 if job.index in self._evicted else plan.chunk(job)
            if not tokens or not self._make_room(job, tokens, plan):
                return
            plan.take(job, tokens)
            self._joined(job, place)

    def _make_room(self, job: Job, tokens: int, plan: Plan) -> bool:
        while not self._fits(job, tokens, plan):
            target = self._target(plan)
            if target is None:
                return False
            self.evict(target, plan)
        return True

    def _joined(self, job: Job, place: int) -> None:
        self.queue.remove(place)
        del self.jobs[job.index]
        self.timers.cancel(job.index)
        self.prefilling.append(job)

    def steady(self, view: View, plan: Plan) -> int:
        """Return for how many batches no request begins to starve, no score is refreshed, and memory is as reserved."""
        steps = min(super().steady(view, plan), self.timers.next_expiry() - view.batch)
        return steps if not self.skip else min(steps, self.skip + 1 - view.batch % (self.skip + 1))


def _blocks(tokens: int) -> int:
    return -(-tokens // BLOCK)


def _row(job: Job, call: NextCall, duration: float, *, recompute: bool) -> ScoreTerms:
    """Return what the score of a request is made of, for a call of `duration` times 100 ns."""
    before, after = _blocks(job.prompt + job.remaining), _blocks(job.remaining + call.returns)
    return (
        ScoreTerms(before, before + after, 0.0) if recompute else ScoreTerms(before, after, before * BLOCK * duration)
    )


BATCH = 384
"""Tokens a batch that the formulas assume."""
BLOCK = 64
"""Tokens a block, likewise."""
ITERATION = 484_000
"""A batch of 384 tokens in units of 100 ns: 10 ms and 0.1 ms a token, which the released script leaves as they are."""
UNSCORED = -1.0
"""The score of a request that came after the latest refresh."""


class ScoreTerms(NamedTuple):
    """What a score is computed from: M(before) + M(after) + held."""

    before: int
    """Blocks."""
    after: int
    """Blocks."""
    held: float
    """Tokens times 100 ns."""


class ScoreQueue:
    """The requests that wait, in order of arrival, each with its score; requests are given by their index."""

    def __init__(self) -> None:
        self.places: list[tuple[int, int]] = []  # arrival, index
        self._ids: NDArray[np.int64] | None = None
        self._rows = np.zeros((64, 3))
        self._scores = np.full(64, UNSCORED)
        self._promoted = np.zeros(64, dtype=bool)
        self._scored_for: tuple[int, NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        return len(self.places)

    def put(self, index: int, row: ScoreTerms) -> None:
        """Note what the score of a request is computed from; it is not computed yet."""
        while index >= len(self._scores):
            self._rows = np.vstack([self._rows, np.zeros_like(self._rows)])
            self._scores = np.concatenate([self._scores, np.full_like(self._scores, UNSCORED)])
            self._promoted = np.concatenate([self._promoted, np.zeros_like(self._promoted)])
        self._rows[index] = row

    def add(self, index: int, arrival: int) -> None:
        """Let a request wait."""
        insort(self.places, (arrival, index))
        self._ids = None

    def remove(self, place: int) -> None:
        """Take out the request at a place of the queue."""
        del self.places[place]
        self._ids = None

    def promote(self, index: int, promoted: bool = True) -> None:
        """Let a request go before all others, whatever its score, or no longer."""
        self._promoted[index] = promoted

    def is_promoted(self, index: int) -> bool:
        """Whether a request goes before others."""
        return bool(self._promoted[index])

    def refresh(self, in_flight: int) -> None:
        """Compute the scores of all that wait, for so many tokens in the running batch."""
        ids = self._line()
        if self._scored_for is None or self._scored_for[0] != in_flight or self._scored_for[1] is not ids:
            before, after, held = self._rows[ids].T
            chunk = max(BATCH - in_flight, 1)
            self._scores[ids] = _prefill(before, chunk) + _prefill(after, chunk) + held
            self._scored_for = in_flight, ids

    def first(self) -> int:
        """Return the place of the request that goes first: promoted, then of the smallest score, then the earliest."""
        ids = self._line()
        scores, promoted = self._scores[ids], self._promoted[ids]
        return int(np.argmin(np.where(promoted, scores, np.inf) if promoted.any() else scores))

    def _line(self) -> NDArray[np.int64]:
        if self._ids is None:
            self._ids = np.array([index for _, index in self.places], dtype=np.int64)
        return self._ids


def _prefill(blocks: NDArray[np.float64], chunk: int) -> NDArray[np.float64]:
    """Return M: the memory-time of a prefill of so many blocks in chunks, all lasting a whole iteration."""
    chunks = np.maximum(np.ceil(blocks * BLOCK / chunk), 1.0)
    return ITERATION * chunks * (chunks + 1.0) / 2.0 * chunk
