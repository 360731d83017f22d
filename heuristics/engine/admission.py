"""The admission test: which requests may work in a batch so that all can still finish, without any eviction.

A request holds device memory from its first work until its next **release**: a call handled by discard or swap, or its
end. Its memory then is its *claim*; its *need* is the claim less its memory now.

**Definition.** A state is *safe* if the holders have an order in which the need of each fits into the free blocks, once
those before it have released theirs (the banker's test). If there is such an order, that of rising need is one.

**Theorem.** From a safe state every request can finish.

*Proof.* The first holder runs alone to its release, then the next, and so on. A holder that runs passes the test: its
growth takes nothing from the holders before it, and it gives all back to those after it. One in a call returns in time.
Then the device is empty, and each request fits alone. Host memory has a banker of its own: a request that heads for a
swap has reserved the room from its first work on, its claim is the largest coming swap, and it gives all back at the
end of its last segment. So the host never blocks a release. QED

Contents that several hold count once: the last of them gives them back, and nobody needs more.

Where the machine does not pause, running requests cannot be stopped. A request may join if all of them and it can go on
to the ends of their segments, token by token, within the memory, and if the state at each end is safe. Memory peaks
where a segment ends. A chunked prefill counts with the peak of its segment throughout. Without `hybrid` as well,
requests that prefill together must complete together, and a prefill in parts runs alone.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from heuristics.engine.demand import Demand
from heuristics.engine.job import Job
from kvcore.instance import Machine

Holding = tuple[int, int]  # what a request holds, and its claim, up to which that may grow before all comes back
Held = tuple[tuple[str, int], ...]  # blocks of contents by node


def twice(paths: Sequence[Held]) -> list[int]:
    """Return how many blocks of each the later ones hold, too."""
    later, found = dict[str, int](), list[int]()
    for path in reversed(paths):
        found.append(sum(min(blocks, later.get(node, 0)) for node, blocks in path))
        for node, blocks in path:
            later[node] = max(blocks, later.get(node, 0))
    return found[::-1]


def is_safe(capacity: int, holdings: Iterable[Holding], paths: Iterable[Held] | None = None) -> bool:
    """Whether all holders can reach their claims one after another: O(n log n); `paths` count once."""
    if paths is None:
        needs = sorted((claim - held, held) for held, claim in holdings)
    else:
        order = sorted((claim - held, held, path) for (held, claim), path in zip(holdings, paths, strict=True))
        kept = twice([path for _, _, path in order])
        needs = [(need, held - more) for (need, held, _), more in zip(order, kept, strict=True)]
    free = capacity - sum(held for _, held in needs)
    for need, held in needs:
        if need > free:
            return False
        free += held
    return free >= 0


class Banker:
    """A safe state of one resource, and the test whether a growth keeps it safe: O(n log n)."""

    def __init__(self, capacity: int, holdings: dict[int, Holding], paths: dict[int, Held] | None = None) -> None:
        self._capacity, self._holdings, self._paths = capacity, holdings, paths

    def admits(self, i: int, growth: int, claim: int, path: Held = ()) -> bool:
        """Whether the state stays safe if `i` grows by `growth` towards `claim`, and then holds `path`."""
        after = self._holdings | {i: (self._holdings.get(i, (0, claim))[0] + growth, claim)}
        paths = None if self._paths is None else [path if k == i else self._paths[k] for k in after]
        return growth <= 0 or is_safe(self._capacity, after.values(), paths)

    def grow(self, i: int, growth: int, claim: int, path: Held = ()) -> None:
        """Let `i` grow (or shrink) towards `claim`."""
        held = self._holdings.pop(i, (0, claim))[0] + growth
        if held:
            self._holdings[i] = (held, claim)
        if self._paths is not None:
            self._paths[i] = path


class RunningRequest(NamedTuple):
    """A request that goes on to the end of its segment; batches count from the one being decided."""

    tokens: int  # tokens that it holds in this batch
    steps: int  # batches to the end of its segment, at one token each; -1 if its prefill goes on after this one
    end: int  # blocks that it holds when the segment ends; while it prefills, it counts with them throughout
    kept: int  # blocks that it keeps after that: `end`, or 0 if it releases them
    claim: int  # blocks that it claims until it next releases them
    path: Held = ()  # the contents that it holds in this batch; what fills up later counts as its own

    def blocks(self, step: int, block: int) -> int:
        """Return its blocks `step` batches from now, unless it prefills."""
        return self.kept if step > self.steps else -(-(self.tokens + step) // block)


class NonPreemptiveBanker:
    """A safe state: the runners can go on together, and the state after that is safe in the banker's sense.

    A test is O(runners), and O(h log h) with h holders once that passes; after each addition O(runners^2) once. Where
    contents count once, it is O(runners^2).
    """

    def __init__(
        self, capacity: int, block: int, holdings: dict[int, Holding], paths: dict[int, Held] | None = None
    ) -> None:
        self._capacity = capacity
        self._block = block
        self._waiting = dict(holdings)  # of those that hold blocks and are no runners
        self._paths = paths  # their contents
        self._all: list[RunningRequest] = []
        self._runners: list[RunningRequest] = []  # those that decode from the next batch on
        self._prefilling = 0  # blocks of the runners that prefill
        self._peaks: dict[int, int] | None = None  # step: blocks of all runners; None: to be computed anew

    def add(self, i: int, runner: RunningRequest) -> None:
        """Let one more run."""
        self._waiting.pop(i, None)
        self._all.append(runner)
        if runner.steps < 0:
            self._prefilling += runner.end
        else:
            self._runners.append(runner)
        self._peaks = None

    def admits(self, i: int, runner: RunningRequest) -> bool:
        """Whether the state stays safe if one more runs."""
        waiting = {j: holding for j, holding in self._waiting.items() if j != i}
        free = self._capacity - sum(blocks for blocks, _ in waiting.values())
        paths = None if self._paths is None else [self._paths[j] for j in waiting]
        if not (self._fits(runner, free) if paths is None else self._fit_once([*self._all, runner], free, paths)):
            return False
        kept = [one for one in (*self._all, runner) if one.kept]
        holdings = [*waiting.values(), *((one.kept, one.claim) for one in kept)]
        return is_safe(self._capacity, holdings, None if paths is None else paths + [one.path for one in kept])

    def _fit_once(self, runners: list[RunningRequest], free: int, paths: list[Held]) -> bool:
        for step in {max(0, one.steps) for one in runners}:
            held = [(one.end if one.steps < 0 else one.blocks(step, self._block), one.path) for one in runners]
            if sum(blocks for blocks, _ in held) - sum(twice(paths + [path for blocks, path in held if blocks])) > free:
                return False
        return True

    def _fits(self, runner: RunningRequest, free: int) -> bool:
        if self._peaks is None:
            self._peaks = {step: self._blocks(step) for step in {0, *(runner.steps for runner in self._runners)}}
        if runner.steps < 0:
            return all(held + runner.end <= free for held in self._peaks.values())
        if self._blocks(runner.steps) + runner.end > free:
            return False
        return all(held + runner.blocks(step, self._block) <= free for step, held in self._peaks.items())

    def _blocks(self, step: int) -> int:
        return self._prefilling + sum(runner.blocks(step, self._block) for runner in self._runners)


class Admission:
    """The test for one batch: `admits` asks, `take` says which request works.

    `free` is in blocks (None: no limit); `taken` are the requests taken so far with their tokens. `paths` says what
    requests hold of contents, if that counts once.
    """

    def __init__(
        self,
        machine: Machine,
        demands: list[Demand],
        jobs: Sequence[Job],
        free: int | None,
        taken: Sequence[tuple[Job, int]],
        paths: Callable[[Sequence[Job]], list[Held] | None],
    ) -> None:
        self._machine = machine
        self._demands = demands
        self._free = free
        holders = [job for job in jobs if job.blocks]
        holdings = {job.index: (job.blocks, self._claim(job)) for job in holders}
        self._device: Banker | NonPreemptiveBanker | None = None
        if machine.block_limit is not None:
            held = paths(holders)
            by_index = None if held is None else dict(zip(holdings, held, strict=True))
            if machine.pause:
                self._device = Banker(machine.block_limit, holdings, by_index)
            else:
                self._device = NonPreemptiveBanker(machine.block_limit, machine.block, holdings, by_index)
                for job, tokens in taken:
                    self._device.add(job.index, self._runner(job, tokens))
        self._jobs = jobs
        self._host_banker: Banker | None = None

    def _host(self) -> Banker:
        if self._host_banker is None:
            assert self._machine.host_memory is not None  # for mypy: its callers look
            reserved = {
                job.index: (self._reserved(job), self._host_claim(job)) for job in self._jobs if job.blocks or job.host
            }
            held = {i: holding for i, holding in reserved.items() if holding[0]}
            self._host_banker = Banker(self._machine.host_memory, held)
        return self._host_banker

    def segment_fits(self, job: Job) -> bool:
        """Whether the peak of its segment fits beside what the others hold."""
        if self._free is None:
            return True
        least = self._demands[job.index].end_blocks[job.segment] - job.blocks
        return least <= self._free or least - job.spared(job.device + job.host + job.found) <= self._free

    def admits(self, job: Job, tokens: int) -> bool:
        """Whether a request, whose segment fits, may process `tokens` so that all can still finish."""
        if isinstance(self._device, Banker):
            if not self._device.admits(job.index, *self._grown(job, tokens)):
                return False
        elif self._device is not None and not self._device.admits(job.index, self._runner(job, tokens)):
            return False
        growth = self._host_growth(job)
        if growth <= 0 or self._machine.host_memory is None:
            return True
        return self._host().admits(job.index, growth, self._host_claim(job))

    def take(self, job: Job, tokens: int) -> None:
        """Let the request process `tokens`."""
        reserved = self._host_growth(job)
        if reserved and self._machine.host_memory is not None:
            self._host().grow(job.index, reserved, self._host_claim(job))
        if isinstance(self._device, NonPreemptiveBanker):
            self._device.add(job.index, self._runner(job, tokens))
        elif self._device is not None:
            self._device.grow(job.index, *self._grown(job, tokens))
        if self._free is not None:
            self._free -= job.growth(tokens)

    def _grown(self, job: Job, tokens: int) -> tuple[int, int, Held]:
        after = job.device + job.host + job.found + tokens
        return self._machine.blocks(after) - job.blocks, self._claim(job), self._path(job, after)

    def _path(self, job: Job, tokens: int) -> Held:
        return tuple((part.node, part.of(tokens // self._machine.block)) for part in job.path)

    def _claim(self, job: Job) -> int:
        return self._demands[job.index].release_blocks[job.segment]

    def _runner(self, job: Job, tokens: int) -> RunningRequest:
        demand, segment = self._demands[job.index], job.segment
        held = job.device + job.host + job.found + tokens
        end = demand.end_blocks[segment]
        return RunningRequest(
            tokens=held,
            steps=-1 if held < job.known else demand.end[segment] - held,
            end=end,
            kept=0 if demand.releases[segment] else end,
            claim=demand.release_blocks[segment],
            path=self._path(job, held),
        )

    def _host_claim(self, job: Job) -> int:
        return max(job.host, self._demands[job.index].host_claim[job.segment])

    def _reserved(self, job: Job) -> int:
        return max(job.host, self._demands[job.index].host_next[job.segment] if job.blocks else 0)

    def _host_growth(self, job: Job) -> int:
        return 0 if job.blocks else self._demands[job.index].host_next[job.segment] - job.host
