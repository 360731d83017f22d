"""The admission test: which requests may work in a batch so that all can still finish, without any eviction.

A request holds device memory from its first work until its next **release**: a call handled by discard or swap, or its
end. What it holds then is its *claim*, and its *need* is the claim less what it holds now.

**Definition.** A state is *safe* if the holders have an order in which the need of each fits into the free blocks, once
those before it have released theirs (the banker's test). If there is such an order, that of rising need is one.

**Theorem.** From a safe state every request can finish.

*Proof.* The first holder runs alone to its release, then the next, and so on. A holder that runs passes the test: its
growth takes nothing from the holders before it, and it gives all back to those after it. One in a call returns in time.
Then the device is empty, and each request fits alone. Host memory has a banker of its own: a request that heads for a
swap has reserved the room from its first work on, its claim is the largest coming swap, and it gives all back at the
end of its last segment. So the host never blocks a release. QED

Where the machine does not pause, running requests cannot be stopped. A request may join if all of them and it can go on
to the ends of their segments, token by token, within the memory, and if the state at each end is safe. Memory peaks
where a segment ends. A chunked prefill counts with the peak of its segment throughout. Without `hybrid` as well,
requests that prefill together must complete together, and a prefill in parts runs alone.
"""

from collections.abc import Sequence

from heuristics.engine.banker import Banker, NonPreemptiveBanker, RunningRequest
from heuristics.engine.demand import Demand
from heuristics.engine.job import Job
from kvcore.instance import Machine


class Admission:
    """The test for one batch: `admits` asks, `take` says which request works.

    `free` is in blocks (None: no limit on the device); `taken` are the requests taken so far with their tokens.
    """

    def __init__(
        self,
        machine: Machine,
        demands: list[Demand],
        jobs: Sequence[Job],
        free: int | None,
        taken: Sequence[tuple[Job, int]],
    ) -> None:
        self._machine = machine
        self._demands = demands
        self._free = free
        holdings = {job.index: (held, self._claim(job)) for job in jobs if (held := job.blocks)}
        self._device: Banker | NonPreemptiveBanker | None = None
        if machine.block_limit is not None:
            if machine.pause:
                self._device = Banker(machine.block_limit, holdings)
            else:
                self._device = NonPreemptiveBanker(machine.block_limit, machine.block, holdings)
                for job, tokens in taken:
                    self._device.add(job.index, self._runner(job, tokens))
        self._jobs = jobs
        self._host_banker: Banker | None = None

    def _host(self) -> Banker:
        """Return the host's banker, made when room there is to change for the first time."""
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
        return self._free is None or self._demands[job.index].end_blocks[job.segment] - job.blocks <= self._free

    def admits(self, job: Job, tokens: int) -> bool:
        """Whether the request, whose segment fits, may process `tokens` so that all can still finish."""
        if isinstance(self._device, Banker):
            if not self._device.admits(job.index, job.growth(tokens), self._claim(job)):
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
        growth = job.growth(tokens)
        if isinstance(self._device, NonPreemptiveBanker):
            self._device.add(job.index, self._runner(job, tokens))
        elif growth and self._device is not None:
            self._device.grow(job.index, growth, self._claim(job))
        if self._free is not None:
            self._free -= growth

    def _claim(self, job: Job) -> int:
        return self._demands[job.index].release_blocks[job.segment]

    def _runner(self, job: Job, tokens: int) -> RunningRequest:
        demand, segment = self._demands[job.index], job.segment
        held = job.device + job.host + tokens
        end = demand.end_blocks[segment]
        return RunningRequest(
            tokens=held,
            steps=-1 if held < job.known else demand.end[segment] - held,
            end=end,
            kept=0 if demand.releases[segment] else end,
            claim=demand.release_blocks[segment],
        )

    def _host_claim(self, job: Job) -> int:
        return max(job.host, self._demands[job.index].host_claim[job.segment])

    def _reserved(self, job: Job) -> int:
        return max(job.host, self._demands[job.index].host_next[job.segment] if job.blocks else 0)

    def _host_growth(self, job: Job) -> int:
        """Return the room on the host that the request reserves, or gives back, when it starts towards a release."""
        return 0 if job.blocks else self._demands[job.index].host_next[job.segment] - job.host
