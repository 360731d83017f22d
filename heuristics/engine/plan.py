"""The batch that a policy is deciding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import get_args

from heuristics.engine.admission import Admission, Held
from heuristics.engine.demand import Demand
from heuristics.engine.job import Job, NotKnown
from heuristics.engine.sharing import Sharing
from heuristics.engine.view import View
from kvcore.decode_stream import StreamExecution
from kvcore.limits import BUDGETS, use_of
from kvcore.schedule import Batch
from kvcore.trace import Phase

TOKENS, PREFILL_TOKENS, REQUESTS = range(3)  # places in `BUDGETS`
PAYS: dict[Phase, list[tuple[int, bool]]] = {
    phase: [
        (place, limit.column.endswith("tokens"))
        for place, limit in enumerate(BUDGETS)
        if getattr(use_of(1, phase == "decode", phase == "prefill"), limit.column)
    ]
    for phase in get_args(Phase)
}
"""By phase, the budgets that its work counts against: the place, and whether tokens count, or requests."""


class Plan:
    """Work and moves of the next batch, and what the budgets and the device memory still leave.

    It starts with the moves that rule R9 orders. The referee's rules check all that a policy puts into it; nothing is
    corrected. `work`, `dropped`, `swapped_out`, `swapped_in` and `reused` are tokens so far, by id, `forgotten` blocks
    of nodes. `tokens_left`, `prefill_left`
    and `requests_left` are what the budgets leave, `free_blocks` (of the device) and `free_host` (tokens) what the
    memories do, None without a limit; `machine`, `hybrid` and `chunked` say what the batch may do. A prefill of more
    than `longest_prefill` tokens has to be split.
    """

    def __init__(
        self, view: View, execution: StreamExecution, demands: list[Demand] | None, sharing: Sharing | None = None
    ) -> None:
        machine = view.machine
        self.machine = machine
        self.work: dict[str, int] = {}
        self.dropped: dict[str, int] = {}
        self.swapped_out: dict[str, int] = {}
        self.swapped_in: dict[str, int] = {}
        self.forgotten: dict[str, int] = {}
        self.reused: dict[str, int] = {}
        self.free_blocks = None if machine.block_limit is None else machine.block_limit - execution.blocks
        self._sharing = sharing
        if sharing is not None:
            sharing.begin(view.now)
            if self.free_blocks is not None:
                self.free_blocks += execution.resident.retained
        self.free_host = None if machine.host_memory is None else machine.host_memory - execution.host
        self.chunked = machine.chunked
        self.hybrid = machine.hybrid
        self._left = execution.budgets.copy()
        self.limit()
        self._phase: Phase | None = None  # of what was taken first
        self._owed = {} if machine.pause else {job.index: job for job in view.must_work}
        self._set_aside = [0] * len(BUDGETS)  # of each budget for these: a token, or a place
        for job in self._owed.values():
            for place, _ in PAYS[job.phase]:
                self._set_aside[place] += 1
        self._closed = False  # without hybrid and pause: a request prefills in parts, and so alone
        self._view = view
        self._stream = execution.stream
        self._touched: list[Job] = []
        self._demands = demands
        self._taken: list[tuple[Job, int]] = []
        self._admission: Admission | None = None

    @property
    def true_demands(self) -> list[Demand]:
        """True demand of each request. NotKnown for an online policy."""
        if self._demands is None:
            raise NotKnown("the admission test needs the sizes of the requests, which an online policy does not know")
        return self._demands

    @property
    def phase(self) -> Phase | None:
        """Phase of what was taken first, or of what must work: of the whole batch, without `hybrid`."""
        return self._phase or next((job.phase for job in self._owed.values()), None)

    def limit(
        self,
        *,
        hybrid: bool = True,
        chunked: bool = True,
        batch_tokens: int | None = None,
        prefill_tokens: int | None = None,
    ) -> None:
        """Keep this batch to the policy's own switches and budgets."""
        self.hybrid &= hybrid
        self.chunked &= chunked
        left = self._left
        if batch_tokens is not None:
            left[TOKENS] = min(left[TOKENS], batch_tokens)
        left[PREFILL_TOKENS] = min(left[PREFILL_TOKENS], left[TOKENS])
        if prefill_tokens is not None:
            left[PREFILL_TOKENS] = min(left[PREFILL_TOKENS], prefill_tokens)
        self.longest_prefill = left[PREFILL_TOKENS]  # what is longer has to be split

    @property
    def shares(self) -> bool:
        """Whether the engine reuses and forgets."""
        return self._sharing is not None

    @property
    def tokens_left(self) -> int:
        """Tokens that the budgets leave."""
        return self._left[TOKENS]

    @property
    def prefill_left(self) -> int:
        """Prefill tokens that the budgets leave."""
        return self._left[PREFILL_TOKENS]

    @property
    def requests_left(self) -> int:
        """Requests that the budgets leave a place."""
        return self._left[REQUESTS]

    # --- work ----------------------------------------------------------------------------------------------------

    def takes(self, phase: Phase) -> bool:
        """Whether budgets and phase leave anything for requests in a phase."""
        return self.tokens_left > 0 and self.requests_left > 0 and (self.hybrid or self.phase in (None, phase))

    def chunk(self, job: Job) -> int:
        """Return the most tokens that the budgets leave for the request in this batch; 0 if it cannot take part.

        Without `pause`, each request that must work and is not yet taken has a token set aside.
        """
        if self._sharing is not None and self._sharing.waits(job):
            return 0
        owed, left, set_aside = job.index in self._owed, self._left, self._set_aside
        missing, phase = job.missing, job.phase
        tokens = missing if self._sharing is None else min(missing, self._sharing.most(job))
        for place, by_token in PAYS[phase]:
            room = left[place] - set_aside[place] + owed
            if room < 1:
                return 0
            if by_token and room < tokens:
                tokens = room
        if tokens < missing and not self.chunked and not (self.machine.chunked and missing > self.longest_prefill):
            return 0
        return tokens if self.hybrid or self._may_join(phase, tokens == missing, owed) else 0

    def _may_join(self, phase: Phase, whole: bool, owed: bool) -> bool:
        """Whether a request may join a batch of one phase.

        Without `pause`, requests that prefill together must complete together: else one would then have to decode while
        another has to prefill.
        """
        if self._closed or (self.phase is not None and phase != self.phase):
            return False
        alone = not self.work and len(self._owed) == owed
        return self.machine.pause or whole or alone

    def never_takes(self, job: Job) -> bool:
        """Whether no batch takes the request's next prefill, which the machine does not split."""
        return not self.machine.chunked and job.phase == "prefill" and job.missing > self.longest_prefill

    def fits(self, job: Job, tokens: int) -> bool:
        """Whether the device has blocks for `tokens` more of the request, KV on the host included."""
        return self.free_blocks is None or job.growth(tokens) <= self.free_blocks

    def growth_without(self, job: Job | None, tokens: int, others: Iterable[Job]) -> int:
        """Return the blocks that the request lacks to process `tokens` (None: 0) beyond what these give back."""
        if self._sharing is None:
            return (0 if job is None else job.growth(tokens)) - sum(other.blocks for other in others)
        after = {} if job is None else {job: job.device + job.host + job.found + tokens}
        return self._sharing.more(dict.fromkeys(others, 0) | after)

    def paths(self, jobs: Sequence[Job]) -> list[Held] | None:
        """Return what each holds of contents, by node; None where nothing counts as shared."""
        return None if self._sharing is None else [self._sharing.path(job) for job in jobs]

    def take(self, job: Job, tokens: int | None = None) -> None:
        """Let the request process `tokens` (None: what the budgets leave), after KV on the host is back.

        Raises:
            ValueError: it has been taken already.
        """
        if job.id in self.work:
            raise ValueError(f"request {job.id} has been taken into this batch already")
        if tokens is None:
            tokens = self.chunk(job) or job.missing  # too many: the referee names the budget that lacks them
        phase, found = job.phase, job.found
        whole = tokens == job.missing
        if self._admission is not None:
            self._admission.take(job, tokens)
        if job.host:
            self._move(self.swapped_in, job, job.host, job.device + job.host, 0)
        self._taken.append((job, tokens))
        self.work[job.id] = tokens
        if found:
            self.reused[job.id] = found
        self._hold(job, job.device + found, job.host, tokens)
        if self._sharing is not None:
            self._sharing.take(job, job.device + tokens)
        self._pay(job, phase, tokens)
        self._phase = self._phase or phase
        self._closed |= not (whole or self.hybrid or self.machine.pause)

    def decoding(self, jobs: Iterable[Job]) -> list[int]:
        """Return each one's tokens held if `decode_on` may take it, and otherwise 0.

        It may if the request generated a token with its latest work.
        """
        members, steps = self._stream.members, self._stream.steps
        states = [members.get(job.id) for job in jobs]
        return [0 if state is None else state.device + steps - state.joined for state in states]

    def decode_on(self, jobs: Sequence[Job], freed: int = 0) -> bool:
        """Let all of these decodes process a token, or none if not all of them can; faster than `take` for each.

        False also if one has not generated a token with its latest work. Drops to come free `freed` blocks.
        """
        members = self._stream.members
        count = len(jobs)
        least = min([self._left[place] for place, _ in PAYS["decode"]])
        if count > least or not (self.hybrid or self.phase in (None, "decode")):
            return False
        touched = {job.id for job in self._touched}
        work = dict.fromkeys([job.id for job in jobs], 1)
        if not (work.keys() <= members.keys() and touched.isdisjoint(work)):
            return False
        growth = self.growth_of(jobs)
        if self.free_blocks is not None:
            if growth > self.free_blocks + freed:
                return False
            self.free_blocks -= growth
        self.work.update(work)
        for place, _ in PAYS["decode"]:
            self._left[place] -= count
        if count:
            self._phase = self._phase or "decode"
        for job in jobs if self._owed else ():
            self._settle(job, "decode")
        return True

    def growth_of(self, jobs: Sequence[Job]) -> int:
        """Return the blocks that the next token of each takes."""
        block = self.machine.block
        if len(jobs) == len(self._stream):
            return self._stream.growth()
        if self.machine.layout is not None:
            return sum(job.growth(1) for job in jobs)
        return len(jobs) if block == 1 else sum(job.device % block == 0 for job in jobs)

    def fill(self, jobs: Iterable[Job]) -> None:
        """Take those that must work, then these requests in order, if admitted."""
        for job in list(self._owed.values()):
            self.take(job)
        for job in jobs:
            if self.tokens_left < 1 or self.requests_left < 1:
                return
            if job.id not in self.work and self.admits(job):
                self.take(job)

    def admits(self, job: Job) -> bool:
        """Whether the request may take part: the budgets leave a chunk, and the admission test passes.

        The test: its segment's peak fits, and all can still finish without eviction (`heuristics.engine.admission`).
        Take those in `View.must_work` first, or use `fill`.

        Raises:
            NotKnown: the policy is online; the test needs the sizes.
        """
        test = self._test()
        return test.segment_fits(job) and (tokens := self.chunk(job)) > 0 and test.admits(job, tokens)

    # --- moves ---------------------------------------------------------------------------------------------------

    def drop(self, job: Job, tokens: int | None = None) -> None:
        """Drop the last `tokens` of its KV (None: all), the host's part first."""
        tokens = job.device + job.host if tokens is None else tokens
        from_host = min(job.host, tokens)
        self._evict(self.dropped, job, tokens, job.device - (tokens - from_host), job.host - from_host)

    def swap_out(self, job: Job, tokens: int | None = None) -> None:
        """Send the last `tokens` of its device KV to the host (None: all)."""
        tokens = job.device if tokens is None else tokens
        self._evict(self.swapped_out, job, tokens, job.device - tokens, job.host + tokens)

    def swap_in(self, job: Job, tokens: int | None = None) -> None:
        """Bring the first `tokens` of its host KV back (None: all)."""
        tokens = job.host if tokens is None else tokens
        self._admission = None
        self._move(self.swapped_in, job, tokens, job.device + tokens, job.host - tokens)

    def moves(self) -> bool:
        """Whether the batch makes any move."""
        return bool(self.dropped or self.swapped_out or self.swapped_in or self.forgotten or self.reused)

    def batch(self, start: int) -> Batch:
        """Return the batch of a schedule; TypeError if tokens are no integer."""
        parts = {"work": self.work, "drop": self.dropped, "swap_out": self.swapped_out, "swap_in": self.swapped_in,
                 "forget": self.forgotten, "reuse": self.reused}  # fmt: skip
        given = {part: tokens_of for part, tokens_of in parts.items() if tokens_of}
        for part, tokens_of in given.items():
            if set(map(type, tokens_of.values())) != {int}:
                id, tokens = next((id, tokens) for id, tokens in tokens_of.items() if type(tokens) is not int)
                raise TypeError(f"{part}.{id}: {tokens!r} is no integer")
        return Batch.unchecked(start, **given)

    def forget(self) -> None:
        """Forget what `Sharing` gives up."""
        if self._sharing is not None:
            moved = (*self.dropped, *self.swapped_out, *self.swapped_in)
            self.forgotten.update(self._sharing.forget(self.work, moved))

    def undo(self) -> None:
        """Let the jobs show the execution's state."""
        for job in self._touched:
            job.forget()

    def _evict(self, moves: dict[str, int], job: Job, tokens: int, device: int, host: int) -> None:
        self._admission = None
        self._settle(job, job.phase)  # one that is evicted need not work
        self._move(moves, job, tokens, device, host)

    def _move(self, moves: dict[str, int], job: Job, tokens: int, device: int, host: int) -> None:
        moves[job.id] = moves.get(job.id, 0) + tokens
        if self.free_host is not None:
            self.free_host -= self.machine.hosted(host) - self.machine.hosted(job.host)
        self._hold(job, device, host)

    def _hold(self, job: Job, device: int, host: int, growth: int = 0) -> None:
        blocks = self.machine.blocks(device + growth)
        spared = 0 if self._sharing is None else self._sharing.hold(job, device + growth)
        if self.free_blocks is not None:
            self.free_blocks -= blocks - job.blocks - spared
        job.hold(device, host, blocks)
        self._touched.append(job)

    def _pay(self, job: Job, phase: Phase, tokens: int) -> None:
        left = self._left
        for place, by_token in PAYS[phase]:
            left[place] -= tokens if by_token else 1
        if self._owed:
            self._settle(job, phase)

    def _settle(self, job: Job, phase: Phase) -> None:
        if self._owed.pop(job.index, None) is not None:
            for place, _ in PAYS[phase]:
                self._set_aside[place] -= 1

    def _test(self) -> Admission:
        if self._admission is None:
            self._admission = Admission(
                self.machine, self.true_demands, self._view.jobs, self.free_blocks, self._taken, self.paths
            )  # fmt: skip
        return self._admission
