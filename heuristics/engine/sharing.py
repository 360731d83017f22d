"""Reuse and forgetting for policies that leave both to the engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from typing import NamedTuple

from heuristics.engine.job import Job
from kvcore.contents import Part
from kvcore.cost import Features
from kvcore.decode_stream import StreamExecution
from kvcore.instance import LIMIT


class Foresight(NamedTuple):
    """What a run does with known arrivals."""

    # a request waits if contents that it displaces are asked for within so much of their work
    patience: float = 1.0
    not_before: Sequence[int] | None = None  # ticks, by request
    first: Sequence[int] | None = None  # the most tokens of its first chunk, by request


class Sharing:
    """What requests find, and what a run forgets.

    A request reuses what is resident; without KV it waits while another processes its next block. Memory counts once
    what several hold. What nobody holds counts as free, and is forgotten where a block lacks, the next asked for last,
    then the last used.
    """

    def __init__(self, execution: StreamExecution, jobs: Sequence[Job], foresight: Foresight | None) -> None:
        self.execution, self.jobs, self.foresight = execution, {job.id: job for job in jobs}, foresight
        self.machine, self.resident = execution.machine, execution.resident
        contents = execution.instance.contents
        self.peaks = [request.peak for request in execution.instance.requests]
        self.parents = {node.id: node.parent for node in contents}
        self.users: dict[str, list[tuple[Job, Part]]] = {node.id: [] for node in contents}
        for job in jobs:
            for part in job.path:
                self.users[part.node].append((job, part))
            job.finds, job.spares = self.found, self.spares
        self.begin(0)

    def begin(self, now: int) -> None:
        """Begin a batch."""
        self.now = now
        self.taken = set[int]()
        self.made = dict[str, int]()  # blocks completed in this batch
        self.held = dict[int, int]()  # full blocks that the batch leaves requests, by index
        self._changed = defaultdict[str, dict[int, int]](dict)
        self._most = dict[str, list[tuple[int, int]]]()

    def take(self, job: Job, tokens: int) -> None:
        """Note work up to `tokens`."""
        self.taken.add(job.index)
        for part in job.path if self.machine.same_batch else ():
            self.made[part.node] = max(self.made.get(part.node, 0), part.of(tokens // self.machine.block))

    def found(self, job: Job) -> int:
        """Return what a request finds after its KV."""
        if not job.path or job.host or job.index in self.taken:
            return 0
        most = min(self._there(job), (job.known - 1) // self.machine.block)
        return max(0, most * self.machine.block - job.device)

    def _there(self, job: Job) -> int:
        there = 0
        for part in job.path:
            blocks = min(part.blocks, max(self.resident.blocks[part.node], self.made.get(part.node, 0)))
            there += blocks
            if blocks < part.blocks:
                break
        return there

    def most(self, job: Job) -> int:
        """Return the most tokens that a request may take."""
        first = None if self.foresight is None else self.foresight.first
        return LIMIT if first is None or job.device or job.host or not self.machine.chunked else first[job.index]

    # --- memory --------------------------------------------------------------------------------------------------

    def hold(self, job: Job, tokens: int) -> int:
        """Let the batch leave a request these tokens; return how many blocks of others it holds then, less now."""
        spared, before, after = self.spares(job, tokens), self._held(job), tokens // self.machine.block
        self.held[job.index] = after
        for part in job.path if before != after else ():
            self._changed[part.node][job.index] = part.of(after)
            self._most.pop(part.node, None)
        return spared

    def spares(self, job: Job, tokens: int) -> int:
        """Return how many blocks that others hold a request has with these tokens, less now."""
        before, after = self._held(job), tokens // self.machine.block
        more = 0
        for part in job.path if before != after else ():
            others = next((blocks for blocks, i in self._two_most(part.node) if i != job.index), 0)
            more += min(part.of(after), others) - min(part.of(before), others)
        return more

    def more(self, after: Mapping[Job, int]) -> int:
        """Return how many more blocks are held once requests hold these tokens."""
        more, holders = 0, dict[str, dict[int, int]]()
        for job, tokens in after.items():
            more += self._private(job, tokens) - job.blocks + sum(part.of(self._held(job)) for part in job.path)
            for part in job.path:
                holders.setdefault(part.node, {})[job.index] = part.of(tokens // self.machine.block)
        for node, then in holders.items():
            now = self._holders(node)
            more += max((now | then).values()) - max(now.values(), default=0)
        return more

    def path(self, job: Job) -> tuple[tuple[str, int], ...]:
        """Return the blocks that a request holds, by node."""
        return tuple((part.node, blocks) for part in job.path if (blocks := part.of(self._held(job))))

    def _held(self, job: Job) -> int:
        return self.held.get(job.index, job.tokens // self.machine.block)

    def _holders(self, node: str) -> dict[int, int]:
        return self.resident.holders[node] | self._changed[node]

    def _two_most(self, node: str) -> list[tuple[int, int]]:
        if node not in self._most:
            self._most[node] = nlargest(2, ((blocks, i) for i, blocks in self._holders(node).items()))
        return self._most[node]

    # --- waiting -------------------------------------------------------------------------------------------------

    def waits(self, job: Job) -> bool:
        """Whether a request lets others go first."""
        if job.device or job.host or job.index in self.taken:
            return False
        ahead = self.foresight
        if ahead is not None and ahead.not_before is not None and self.now < ahead.not_before[job.index]:
            return True
        return self._is_computed(job) or (ahead is not None and self._displaces(job, ahead.patience))

    def _is_computed(self, job: Job) -> bool:
        there, block = self._there(job), self.machine.block
        part = next((part for part in job.path if part.before <= there < part.before + part.blocks), None)
        if part is None or (there + 1) * block >= job.known:
            return False
        return any(
            (other.index in self.taken or (other.device and other.worked))
            and not other.calling
            and other.device < (there + 1) * block <= other.known
            for other, of in self.users[part.node]
            if of.blocks > there - part.before and other is not job
        )

    def _displaces(self, job: Job, patience: float) -> bool:
        if (limit := self.machine.block_limit) is None or not patience:
            return False
        there = min(self._there(job), self.machine.blocks(job.known))
        over = self.execution.blocks + self.machine.blocks(self.peaks[job.index]) - there - limit
        if over <= 0:
            return False
        kept = {part.node: part.of(there) for part in job.path}
        gone = self._victims(over, kept, job)
        soon = min((self._next_use(node, first, job) for node, (first, _) in gone.items()), default=LIMIT)
        tokens = sum(blocks for _, blocks in gone.values()) * self.machine.block
        work = self.execution.cost.duration(Features(busy=1, any_prefill=1, tokens=tokens, prefill_requests=1))
        return self.now < soon <= self.now + patience * work

    # --- forgetting ----------------------------------------------------------------------------------------------

    def forget(self, work: Mapping[str, int], moved: Iterable[str]) -> dict[str, int]:
        """Return what to forget for a batch."""
        if (limit := self.machine.block_limit) is None:
            return {}
        blocks = self.execution.blocks
        for id in {*work, *moved}:
            job = self.jobs[id]
            blocks += self._private(job, job.device + work.get(id, 0)) - self._private(job, job.tokens)
        completed = self.resident.with_blocks(self.held.items())
        over = blocks + self.resident.more(completed) - limit
        return {node: count for node, (_, count) in self._victims(over, {}, None).items()}

    def _private(self, job: Job, tokens: int) -> int:
        return self.machine.blocks(tokens) - min(tokens // self.machine.block, sum(part.blocks for part in job.path))

    def _victims(self, over: int, kept: Mapping[str, int], asking: Job | None) -> dict[str, tuple[int, int]]:
        # by node: the first block that goes, and how many go
        if over <= 0:
            return {}
        left = {node: blocks for node, blocks in self.resident.blocks.items() if blocks}
        least: dict[str, int] = {}
        gone: dict[str, tuple[int, int]] = {}
        while over > 0:
            inner = {self.parents[node] for node in left}
            best: tuple[tuple[int, int], str] | None = None
            for node in left.keys() - inner:
                if node not in least:
                    least[node] = max(kept.get(node, 0), *self._holders(node).values(), 0)
                if left[node] > least[node]:
                    rank = self._next_use(node, left[node], asking), -max(job.last for job, _ in self.users[node])
                    best = max(best or (rank, node), (rank, node))
            if best is None:
                break
            node = best[1]
            steps = (part.blocks for _, part in self.users[node] if part.blocks < left[node])
            count = min(over, left[node] - max(least[node], *steps, 0))
            left[node], over = left[node] - count, over - count
            gone[node] = left[node] + 1, gone.get(node, (0, 0))[1] + count
            if not left[node]:
                del left[node]
        return gone

    def _next_use(self, node: str, blocks: int, asking: Job | None) -> int:
        return min(
            (
                self.now if job.arrival <= self.now else job.arrival
                for job, part in self.users[node]
                if part.blocks >= blocks and job is not asking and not job.done
                and (job.arrival <= self.now or self.foresight is not None)
                and self._held(job) < part.before + blocks
            ),
            default=LIMIT,
        )  # fmt: skip
