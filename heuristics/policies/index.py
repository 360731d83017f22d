"""The index rule: the shortest work first, in batches as large as pays."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from heuristics.engine.job import Job
from heuristics.engine.plan import Plan
from heuristics.engine.policy import Setting, Tuning
from heuristics.engine.unified import Unified
from heuristics.engine.view import View
from heuristics.policies.mc_sf import least_waste_handling
from kvcore.cost import Cost
from kvcore.features import RULES, Feature, Takes
from kvcore.instance import LIMIT, Handling, Instance

Array = Any  # a numpy array of floats: the index only ranks
LEAST = 1e-6  # ticks that a token counts at the least, so that work is never 0
MEANS = 10.0  # R0 in means of the work that the requests present have left, where none is given
HEADROOM = 0.1  # the share of what the requests with KV will still add to it that an admission leaves free
GROUP = 0.5  # new requests join when batches without them lost so much of the fixed part of a prefill


class Step(NamedTuple):
    """Work of requests: `tokens` on top of `resident` ones, and whether each decodes."""

    resident: Array
    tokens: Array
    decodes: Array


class Windows(NamedTuple):
    """R0, in seconds, and `group` for windows of length `seconds` from the first arrival on."""

    seconds: float
    r0: Array
    group: Array


class Marginal:
    """The linear parts of a cost, one row a function, in ticks. BadInput for a cost that has none."""

    def __init__(self, cost: Cost) -> None:
        self.functions = cost.functions

        def column(name: str) -> Array:
            return np.array([[getattr(function, name) / function.divisor] for function in self.functions])

        self.token, self.generated, self.pair = column("tokens") + LEAST, column("generated"), column("prefill_pairs")
        self.decode, self.decode_kv = column("decode_requests") + self.token + self.generated, column("decode_kv")
        self.prefill, self.prefill_kv = column("prefill_requests"), column("prefill_kv")
        self.busy, self.any_decode, self.any_prefill = map(column, ("busy", "any_decode", "any_prefill"))
        hinges = [f.tokens_above for f in self.functions]
        self.knee = np.array([[LIMIT if hinge is None else hinge.knee] for hinge in hinges])
        self.above = np.array(
            [[hinge.coefficient / f.divisor if hinge else 0.0] for f, hinge in zip(self.functions, hinges, strict=True)]
        )

    def step(self, step: Step) -> Array:
        """Return what each request adds to a batch, functions by requests."""
        m, x, decodes = step
        prefill = self.token * x + self.generated + self.prefill + self.prefill_kv * m + self.pair * (x * x + 2 * x * m)
        return np.where(decodes, self.decode + self.decode_kv * m, prefill)

    def left(self, step: Step, decode: Array) -> Array:
        """Return what each request adds with this step and all decodes after it, `decode` tokens in all."""
        rest = decode - 1
        read = rest * (step.resident + step.tokens) + rest * (rest - 1) / 2
        return self.step(step) + self.decode * rest + self.decode_kv * read

    def durations(self, step: Step, parts: Array) -> Array:
        """Return the ticks of the batches of the first request, the first two, ..; `parts` are from `step`."""
        fixed = self.busy + self.any_decode * np.logical_or.accumulate(step.decodes)
        fixed = fixed + self.any_prefill * np.logical_or.accumulate(~step.decodes)
        hinged = self.above * np.maximum(0, np.cumsum(step.tokens) - self.knee)
        return np.maximum(1.0, (fixed + hinged + np.cumsum(parts, axis=1)).max(axis=0))


def title(kind: str, **given: float | None) -> str:
    """Return the name `POLICY:key=number,..`."""
    parts = [f"{key}={value:g}" for key, value in given.items() if value is not None]
    return f"{kind}:{','.join(parts)}" if parts else kind


class Index(Unified):
    """Requests by R, the least work left; the batch is the prefix that maximises sum p / D, the rest pauses.

    R is in ticks, without the fixed part of a batch; D is the duration of the prefix as a batch, and p = c / (R + R0),
    with c what the request adds to it: the share of its work that is done. R0 (ten times the mean R by default) weighs
    small, fast batches against large, efficient ones. A paused request keeps its KV. One without KV joins in turn if
    its known tokens fit and leave free a tenth of what those with KV will still add; the first that may not stops the
    others. As any prefill costs a batch `any_prefill`, requests join in groups: each batch without them loses their
    share, by number, of the fixed part of decodes (busy + any_decode), and they join when the losses since the last
    prefill reach `group` (0.5) times any_prefill, when another prefills or when none has KV. Where a request with KV
    lacks a block, the largest R is evicted. With exact lengths it is a clairvoyant reference.

    Running time: O(n log n) a batch, n present, in numpy.
    Source: this project; p / D is the index of Smith's rule (1956) for a batch.
    """

    knows = "predictions"
    takes = Takes(RULES | {Feature.SHARED, Feature.DROP_AND_WORK})
    shares = True
    swapped_wait = True
    r0: float | None = None
    group: float = GROUP
    settings: ClassVar[dict[str, Setting]] = {
        "r0": Setting("R0 in seconds; without one, ten times the mean R"),
        "group": Setting("losses since the last prefill, over any_prefill, at which new requests join"),
    }

    tuning: ClassVar = Tuning(4.0, 1.05)

    def __init__(
        self,
        r0: float | None = None,
        group: float = GROUP,
        factors: Array | None = None,
        steps: Windows | None = None,
        chunks: Array | None = None,
    ) -> None:
        """Also R0 and `group` by time (`steps`), and the most prefill tokens by a batch's first prefill (`chunks`)."""
        self.name = title("index", r0=r0, group=None if group == GROUP else group)
        self.r0, self.group, self.factors, self.steps, self.chunks = r0, group, factors, steps, chunks

    def start(self, view: View) -> None:
        super().start(view)
        self.marginal = Marginal(view.cost)
        self.tick = float(view.tick_seconds)
        self.began: int | None = None
        self.lost = 0.0  # ticks of batches without those that may join
        # by index: tokens on the device, on the host, missing, to generate, and blocks that others hold
        self.state = np.zeros((5, 64))
        self.after = np.zeros((len(view.cost.functions), 64))  # work after the segment
        self.jobs: dict[int, Job] = {}
        self._stale: list[Job] = []  # whose rows of the state are to be read anew
        self._decoded = np.zeros(0, int)  # who decoded in the batch before
        self._read = 0  # the batch at which the state was up to date

    def groups(self, plan: Plan) -> Iterable[Callable[[Plan], None]]:
        return (self.fill,)

    def observe(self, view: View, plan: Plan) -> None:
        super().observe(view, plan)
        passed = view.batch - self._read
        self.state[0, self._decoded] += passed
        self.state[3, self._decoded] = np.maximum(1, self.state[3, self._decoded] - passed)
        self._read, self._decoded = view.batch, self._decoded[:0]
        for job in view.arrived:
            self.jobs[job.index] = job
        for job in view.ended:
            del self.jobs[job.index]
        waiting = (entry.job for entry in self.waiting if entry.job.path) if plan.shares else ()
        for job in [*view.arrived, *view.returned, *self._stale, *waiting]:
            self._read_state(job)
        self._stale.clear()

    def _read_state(self, job: Job) -> None:
        if job.index not in self.jobs:
            return
        if job.index >= self.state.shape[1]:
            wider = ((0, 0), (0, job.index))
            self.state, self.after = np.pad(self.state, wider), np.pad(self.after, wider)
        self.state[:4, job.index] = job.device, job.host + job.found, job.missing, job.remaining
        self.state[4, job.index] = job.spared(job.known)
        self.after[:, job.index] = self._after(job)

    def _after(self, job: Job) -> Array:
        demand = job.demand
        total = np.zeros(len(self.after))
        for k in range(job.segment, len(demand.decode) - 1):
            kept = 0 if demand.handlings[k] == "discard" else demand.end[k]
            fresh = demand.end[k] + 1 + demand.returns[k] - kept
            step = Step(np.array([kept]), np.array([fresh]), np.array([fresh == 1 and kept > 0]))
            total += self.marginal.left(step, np.array([demand.decode[k + 1]]))[:, 0]
        return total

    def handling_of(self, job: Job) -> Handling:
        return least_waste_handling(job.demand, job.segment - 1)

    # --- the batch -----------------------------------------------------------------------------------------------

    def fill(self, plan: Plan) -> None:
        """Take the best prefix; where none of it can work, the first that can."""
        jobs = self.present()
        if not jobs:
            return
        holds = len(self.decoding) + len(self.prefilling)
        places, size = self.best_prefix(np.array([job.index for job in jobs]), holds, plan)
        order = [jobs[place] for place in places.tolist()]
        together = self._decode_on(order[:size], plan)
        joined = set()
        for k, job in enumerate(order):
            if k >= size and plan.work:
                break
            tokens = 0 if job.id in plan.work or job.index in self._evicted else plan.chunk(job)
            if tokens and places[k] < holds and not plan.fits(job, tokens):
                self._make_room(job, tokens, [jobs[p] for p in places[k + 1 :].tolist() if p < holds], plan)
            if tokens and plan.fits(job, tokens):
                plan.take(job, tokens)
                self._stale.append(job)
                if places[k] >= holds:
                    joined.add(job.index)
                    self.prefilling.append(job)
        if joined:
            self.waiting = [entry for entry in self.waiting if entry.position not in joined]
        self._decoded = np.array([job.index for job in together], int)

    def present(self) -> list[Job]:
        """Return those that decode, prefill, and wait, in this order."""
        jobs = [*self.decoding, *self.prefilling, *(entry.job for entry in self.waiting)]
        self._alone = len(jobs) == 1
        return jobs

    def work_of(self, at: Array) -> tuple[Step, Array, Array]:
        """Return the next step of requests (by index), the tokens left to generate, and R."""
        device, host, missing, left = self.state[:4, at]
        step = Step(device + host, missing, (missing == 1) & (device + host > 0))
        work = (self.marginal.left(step, left) + self.after[:, at]).max(axis=0)
        return step, left, work if self.factors is None else work * self.factors[at]

    def _decode_on(self, jobs: Sequence[Job], plan: Plan) -> list[Job]:
        going = [job for job, goes in zip(jobs, plan.decoding(jobs), strict=True) if goes] if plan.hybrid else []
        return going if plan.decode_on(going) else []

    def _make_room(self, job: Job, tokens: int, after: Sequence[Job], plan: Plan) -> None:
        victims = list(self.evictable(after, plan))
        if plan.growth_without(job, tokens, victims) <= self.available(plan):
            for victim in victims:
                if plan.fits(job, tokens):
                    return
                self.evict(victim, plan)
                self._stale.append(victim)

    def best_prefix(self, at: Array, holds: int, plan: Plan) -> tuple[Array, int]:
        """Return the places in `at` by R, without those that may not join, and the best batch's size.

        `at` are indices of requests, the first `holds` of them with KV.
        """
        step, left, work = self.work_of(at)
        device, missing = self.state[0, at], step.tokens
        r0, group = self._weighing(work)
        order = np.lexsort((at, work))
        waits = order >= holds
        if plan.free_blocks is not None and waits.any():
            block = self.machine.block
            growth = -(-(step.resident + missing) // block) + device // -block - self.state[4, at]
            coming = (missing + left - 1)[:holds].sum() / block
            lacks = waits & (np.cumsum(growth[order]) + HEADROOM * coming > plan.free_blocks)
            may = ~(waits & np.logical_or.accumulate(lacks))
            order, waits = order[may], waits[may]
        fresh = waits & ~step.decodes[order]
        if self._wait(step.decodes[:holds], int(fresh.sum()), group):
            order = order[~fresh]
        resident, missing, decodes = (part[order] for part in step)
        if self.chunks is not None and not decodes.all():
            plan.limit(prefill_tokens=int(self.chunks[at[order[decodes.argmin()]]]))
        missing[~decodes] = clipped(missing[~decodes], plan.prefill_left)
        tokens = clipped(missing, plan.tokens_left)
        some = np.flatnonzero(tokens)[: plan.requests_left]
        if not len(some):
            return order, 0
        batch = Step(resident[some], tokens[some], decodes[some])
        parts = self.marginal.step(batch)
        share = parts.max(axis=0) / (work[order[some]] + r0)
        value = np.cumsum(share) / self.marginal.durations(batch, parts)
        size = int(some[len(value) - 1 - np.argmax(value[::-1])]) + 1
        self.lost *= decodes[:size].all()
        return order, size

    def _weighing(self, work: Array) -> tuple[float, float]:
        if self.steps is None:
            return MEANS * work.mean() if self.r0 is None else self.r0 / self.tick, self.group
        self.began = self.now if self.began is None else self.began
        at = min(len(self.steps.r0) - 1, int((self.now - self.began) * self.tick / self.steps.seconds))
        return self.steps.r0[at] / self.tick, self.steps.group[at]

    def _wait(self, decodes: Array, fresh: int, group: float) -> bool:
        marginal = self.marginal
        self.lost += float((marginal.busy + marginal.any_decode).max()) * fresh / max(1, len(decodes) + fresh)
        return len(decodes) > 0 and decodes.all() and self.lost < group * marginal.any_prefill.max()

    def steady(self, view: View, plan: Plan) -> int:
        return LIMIT if self._alone else 1


def clipped(tokens: Array, most: int) -> Array:
    """Return how many of its tokens each may process, in order, with `most` for all."""
    return np.clip(most - (np.cumsum(tokens) - tokens), 0, tokens)


def mean_work(instance: Instance) -> float:
    """Return the mean R at arrival, without what follows a call, in seconds."""
    prompts = np.array([float(request.prompt) for request in instance.requests])
    decodes = np.array([float(request.segments[0].decode) for request in instance.requests])
    step = Step(np.zeros_like(prompts), prompts, np.zeros(len(prompts), bool))
    work = Marginal(instance.cost).left(step, decodes).max(axis=0)
    return float(work.mean()) * float(instance.tick_seconds)
