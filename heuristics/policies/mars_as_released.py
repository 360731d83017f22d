"""MARS as released."""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.unified import Entry, Unified
from heuristics.engine.view import View
from heuristics.policies.mars import NextCall, StarvationTimers, next_call

UNIT = Fraction(1, 10**7)  # seconds; the constants are whole numbers of it
TOKEN, FIXED = 408, 169_200  # a token and the fixed part of a batch in its script, for the waste: 0.0408 ms, 16.92 ms


class ScoreTerms(NamedTuple):
    """Terms of a score: M(before) + M(after) + held."""

    before: int  # blocks
    after: int  # blocks
    held: float  # tokens times 100 ns


class MarsAsReleased(Unified):
    """Waiting requests by MARS's released score, running ones first come, first served; calls preserve or recompute.

    *Handling*, at arrival and at each return: with ctx = the original prompt and the predicted output in whole blocks
    of 64 tokens, a call of T seconds is preserved if T ctx is at most InferCept's waste of a discard, else recomputed.
     A call pauses with its KV held. In the next batch, of all paused
    requests that hold KV by this policy's choice, those of less than the largest waste that are to be recomputed are
    dropped; the one of the largest waste is the first victim, whatever its handling, as a whole.

    *Order*: for each batch, the score of a request is M(b) + 64 b T + M(a) if its call is preserved and M(b) + M(b + a)
    if not, M(x) being n (n+1)/2 chunks of c = max(1, 384 - tokens in the running batch) tokens for n = ceil(64 x / c),
    with b the blocks of prompt and predicted output, a those of predicted output and return. Admission stops at the
    first that lacks memory after the paused target was dropped; memory is given out chunk by chunk.

    *Starvation*: a request that ran before, and then waits for 100 batches on end, goes first until its next call, from
    the batch after.

    Scores are double-precision floats, as released, and take other times of a batch than the waste.

    Running time: O(r) a batch, r running; O(w), w waiting, for each that is admitted, or
    where the running batch has changed and tokens are left.
    Source: the released code of MARS (arXiv 2410.18248), with the settings of its script.
    """

    name = "mars-as-released"
    needs = ("evict", "pause", "chunked")
    knows = "predictions"
    by_arrival = True

    def __init__(self, threshold: int = 100) -> None:
        self.threshold = threshold

    def start(self, view: View) -> None:
        super().start(view)
        self.units = view.tick_seconds / UNIT
        self.queue: dict[int, Job] = {}  # those that wait
        self.terms: dict[int, ScoreTerms] = {}
        self.promoted: set[int] = set()
        self.timers = StarvationTimers()
        self.wastes: dict[int, tuple[Fraction, bool]] = {}  # of the coming call; whether it is to be recomputed
        self.kept: dict[int, Job] = {}  # paused, and held by this policy's choice
        self.targets: list[Job] = []  # of them, those of the largest waste
        self._kept_changed = False

    # --- the handling --------------------------------------------------------------------------------------------

    def classify(self, job: Job) -> None:
        """Choose the coming call's handling, and note its waste and score."""
        call = next_call(job)
        duration = call.duration * self.units
        context = _blocks(job.prompt + job.remaining) * BLOCK
        keep, discard = duration * context, self.discard_waste(context)
        self.wastes[job.index] = min(keep, Fraction(discard)), keep > discard
        self.terms[job.index] = _terms(job, call, float(duration), recompute=keep > discard)

    def discard_waste(self, context: int) -> int:
        """Return InferCept's waste of a discard, in tokens times 100 ns."""
        chunk = max(BATCH - self.in_flight(), 1)
        chunks, last = max(-(-context // chunk) - 1, 0), context % chunk
        running = sum(job.blocks for job in (*self.decoding, *self.prefilling)) * self.machine.block
        recomputed = (TOKEN * BATCH + FIXED) * chunks * (chunks + 1) // 2 * chunk
        return recomputed + TOKEN * chunk * chunks * running + TOKEN * last * (running + last)

    def in_flight(self) -> int:
        """Return the running requests' missing tokens."""
        return len(self.decoding) + sum(job.missing for job in self.prefilling)

    def at_call(self, job: Job, plan: Plan) -> None:
        self.kept[job.index] = job
        self._kept_changed = True

    def while_paused(self, plan: Plan) -> None:
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
        return self._target(plan) or super().victim(job, running, plan)

    def evict(self, job: Job, plan: Plan) -> None:
        if job.index in self.kept:
            self.targets.remove(job)
            self._release(job, plan)
        else:
            super().evict(job, plan)

    def _target(self, plan: Plan) -> Job | None:
        if not self.targets and not plan.work:
            self.while_paused(plan)
        return self.targets[-1] if self.targets else None

    def _release(self, job: Job, plan: Plan) -> None:
        del self.kept[job.index]
        self._kept_changed = True
        self.discard(job, plan)

    # --- the queue -----------------------------------------------------------------------------------------------

    def observe(self, view: View, plan: Plan) -> None:
        self.promoted -= {job.index for job in view.called}
        super().observe(view, plan)
        self.promoted |= {*self.timers.expired(view.batch)}

    def enqueue(self, queue: list[Entry], job: Job, key: Any) -> None:
        new = not (job.segment or job.generated or job.index in self._evicted)
        if new:
            self.classify(job)
        self.queue[job.index] = job
        if not new and job.index not in self.promoted:
            self.timers.start(job.index, self._batch + 1 + self.threshold)

    def fill_waiting(self, plan: Plan) -> None:
        chunk = max(BATCH - self.in_flight(), 1)
        scores = {index: score(self.terms[index], chunk) for index in self.queue} if plan.tokens_left > 0 else {}

        def place(job: Job) -> tuple[bool, float, int, int]:
            return job.index not in self.promoted, scores[job.index], job.arrival, job.index

        while self.queue and plan.tokens_left > 0:
            job = min(self.queue.values(), key=place)
            tokens = 0 if job.index in self._evicted else plan.chunk(job)
            if not tokens or not self._make_room(job, tokens, plan):
                return
            plan.take(job, tokens)
            del self.queue[job.index]
            self.timers.cancel(job.index)
            self.prefilling.append(job)

    def _make_room(self, job: Job, tokens: int, plan: Plan) -> bool:
        while not self._fits(job, tokens, plan):
            target = self._target(plan)
            if target is None:
                return False
            self.evict(target, plan)
        return True

    def steady(self, view: View, plan: Plan) -> int:
        return min(super().steady(view, plan), self.timers.next_expiry() - view.batch)


def _blocks(tokens: int) -> int:
    return -(-tokens // BLOCK)


def _terms(job: Job, call: NextCall, duration: float, *, recompute: bool) -> ScoreTerms:
    before, after = _blocks(job.prompt + job.remaining), _blocks(job.remaining + call.returns)
    return (
        ScoreTerms(before, before + after, 0.0) if recompute else ScoreTerms(before, after, before * BLOCK * duration)
    )


BATCH = 384  # tokens a batch that the formulas assume
BLOCK = 64  # tokens a block, likewise
ITERATION = 484_000  # a batch of 384 tokens: 10 ms and 0.1 ms a token, which the released script leaves as they are


def score(terms: ScoreTerms, chunk: int) -> float:
    """Return a request's score for chunks of `chunk` tokens."""
    return _prefill(terms.before, chunk) + _prefill(terms.after, chunk) + terms.held


def _prefill(blocks: int, chunk: int) -> float:
    chunks = max(float(ceil(blocks * BLOCK / chunk)), 1.0)
    return ITERATION * chunks * (chunks + 1.0) / 2.0 * chunk
