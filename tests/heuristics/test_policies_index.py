"""The index rule and staggered starts: by hand, and against a plain statement."""

from itertools import pairwise

import pytest

from heuristics import get_policy, run_policy, trace_policy
from heuristics.policies.index import HEADROOM, LEAST, MEANS, Index, mean_work
from heuristics.policies.staggered import rates
from kvcore import Cost, CostFunction, Instance, Machine
from kvcore.metrics import busy_time
from tests.heuristics.test_compression import serving
from tests.support.build import simple
from tests.support.few import few


class Plain(Index):
    """The rule as its docstring has it, request by request."""

    def fill(self, plan):
        """Take the prefix that is best of all, tried one after another."""
        held, waiting = [*self.decoding, *self.prefilling], [entry.job for entry in self.waiting]
        self._alone = len(held) + len(waiting) == 1
        work = {job.index: self.work(job) for job in [*held, *waiting]}
        offset = self.r0 / self.tick if self.r0 is not None else MEANS * sum(work.values()) / max(1, len(work))
        order = sorted([*held, *waiting], key=lambda job: (work[job.index], job.index))
        order = self.those_that_may_join(order, held, plan)
        if self.those_without_kv_wait(held, fresh := [job for job in order if job not in held and not job.host]):
            order = [job for job in order if job not in fresh]
        batches = [self.batch(order[: k + 1], plan) for k in range(len(order))]
        worth = [
            sum(self.adds(job, tokens) / (work[job.index] + offset) for job, tokens in batch.values())
            / self.lasts(batch)
            for batch in batches
        ]
        size = max((k for k, value in enumerate(worth) if value == max(worth)), default=-1) + 1
        if any(job.phase == "prefill" for job, _ in self.batch(order[:size], plan).values()):
            self.lost = 0
        for k, job in enumerate(order):
            tokens = plan.chunk(job) if job.index not in self._evicted and (k < size or not plan.work) else 0
            victims = [other for other in self.evictable(order[k + 1 :], plan) if other in held]
            if (
                tokens
                and job in held
                and job.growth(tokens) <= (plan.free_blocks or 0) + sum(v.blocks for v in victims)
            ):
                while not plan.fits(job, tokens):
                    self.evict(victims.pop(0), plan)
            if tokens and plan.fits(job, tokens):
                plan.take(job, tokens)
                if job in waiting:
                    self.prefilling.append(job)
                    self.waiting = [entry for entry in self.waiting if entry.job is not job]

    def those_that_may_join(self, order, held, plan):
        """Leave out the first request without KV that lacks memory, and those after it."""
        if plan.free_blocks is None:
            return order
        coming = sum(job.missing + job.remaining - 1 for job in held) / self.machine.block
        allowed, growth, closed = [], 0, False
        for job in order:
            growth += job.growth(job.missing)
            closed = closed or (job not in held and growth + HEADROOM * coming > plan.free_blocks)
            if job in held or not closed:
                allowed.append(job)
        return allowed

    def those_without_kv_wait(self, held, fresh):
        """Count what a batch without them loses, of the longest that decodes take whatever is in the batch."""
        functions = self.marginal.functions
        fixed = max((f.busy + f.any_decode) / f.divisor for f in functions)
        self.lost += fixed * len(fresh) / max(1, len(held) + len(fresh))
        enough = self.group * max(f.any_prefill / f.divisor for f in functions)
        return bool(held) and all(job.phase == "decode" for job in held) and self.lost < enough

    def batch(self, jobs, plan):
        """Return what each would process, within the budgets."""
        batch = {}
        left, prefill_left = plan.tokens_left, plan.prefill_left
        for job in jobs:
            tokens = min(job.missing, left)
            if job.phase == "prefill":
                tokens = min(tokens, prefill_left)
                prefill_left -= tokens
            left -= tokens
            if tokens and len(batch) < plan.requests_left:
                batch[job.id] = job, tokens
        return batch

    def parts(self, job, tokens, resident, phase):
        """Return what tokens of a request add to a batch, by function of the cost."""
        return [
            (
                f.tokens * tokens + f.generated
                + (f.decode_requests + f.decode_kv * resident if phase == "decode" else
                   f.prefill_requests + f.prefill_kv * resident + f.prefill_pairs * tokens * (tokens + 2 * resident))
            ) / f.divisor + LEAST * tokens
            for f in self.marginal.functions
        ]  # fmt: skip

    def adds(self, job, tokens):
        """Return the most that it adds."""
        return max(self.parts(job, tokens, job.device + job.host, job.phase))

    def lasts(self, batch):
        """Return the ticks of a batch."""
        phases = {job.phase for job, _ in batch.values()}
        fixed = [
            (f.busy + f.any_decode * ("decode" in phases) + f.any_prefill * ("prefill" in phases)) / f.divisor
            for f in self.marginal.functions
        ]
        rows = [self.parts(job, tokens, job.device + job.host, job.phase) for job, tokens in batch.values()]
        return max(1.0, *(f + sum(row[k] for row in rows) for k, f in enumerate(fixed)))

    def work(self, job):
        """Return the least work left: the next step, and a decode for each token after it, over all segments."""
        totals = [0.0 for _ in self.marginal.functions]

        def run(resident, missing, decode):
            first = "decode" if missing == 1 and resident else "prefill"
            rest = range(resident + missing, resident + missing + decode - 1)
            for phase, m, tokens in [(first, resident, missing), *(("decode", m, 1) for m in rest)]:
                for k, part in enumerate(self.parts(job, tokens, m, phase)):
                    totals[k] += part

        demand = job.demand
        run(job.device + job.host, job.missing, job.remaining)
        for k in range(job.segment, len(demand.decode) - 1):
            kept = 0 if demand.handlings[k] == "discard" else demand.end[k]
            run(kept, demand.end[k] + 1 + demand.returns[k] - kept, demand.decode[k + 1])
        return max(totals)


@pytest.mark.parametrize("name", ["index", "index:r0=20,group=3"])
def test_the_vectors_decide_what_the_plain_rule_says(name):
    evicted = paused = 0
    for seed in few(range(60)):
        instance = serving(seed)
        policy = get_policy(name)
        assert isinstance(policy, Index)
        found = trace_policy(instance, policy, compress=False)
        assert found.schedule == trace_policy(instance, Plain(policy.r0, policy.group), compress=False).schedule, seed
        evicted += any(batch.drop for batch in found.schedule.batches)
        paused += any(b.batch > a.last + 1 for r in found.requests for a, b in pairwise(r.spans))
    assert evicted
    assert paused


def by_tokens(busy, *requests, memory=None):
    """Batches that last `busy` and a tick for each token."""
    machine = Machine(memory=memory, evict=True)
    return Instance(machine=machine, cost=Cost((CostFunction(busy=busy, tokens=1),)), requests=requests)


def works(instance, name):
    return [batch.work for batch in trace_policy(instance, get_policy(name)).expanded().batches]


def test_those_without_kv_join_in_groups():
    """A decode costs 2 whatever is in it: beside A, B alone loses 1 of it a batch, B and C lose 4/3."""
    cost = Cost((CostFunction(busy=2, any_prefill=10, tokens=1),))
    requests = simple("A", 1, 9), simple("B", 1, 2, arrival=14), simple("C", 1, 2, arrival=20)
    instance = Instance(machine=Machine(memory=None, evict=True), cost=cost, requests=requests)
    for group, batch in ((0, 2), (0.2, 3), (0.3, 4), (0.5, 6), (9, 9)):
        batches = works(instance, f"index:r0=1000,group={group}")
        assert min(k for k, work in enumerate(batches) if "B" in work) == batch, batches


def test_predictions_set_the_order():
    instance = by_tokens(1, simple("A", 2, 2), simple("B", 2, 9))
    swapped = instance.replace(requests=(simple("A", 2, 9), simple("B", 2, 2)))
    policy = get_policy("index:r0=0")
    assert run_policy(instance, policy).batches[0].work == {"A": 2}
    assert run_policy(instance, policy, predictions=swapped).batches[0].work == {"B": 2}


def test_the_mean_work():
    assert mean_work(by_tokens(1, simple("A", 2, 2), simple("B", 4, 4))) == pytest.approx((3 + 7) / 2, rel=1e-3)


@pytest.mark.parametrize(("number", "prompt", "output", "memory"), [(40, 1, 16, 90), (64, 4, 16, 200), (30, 1, 4, 50)])
def test_planned_starts_keep_memory_full_to_the_end(number, prompt, output, memory):
    plan = rates(number, prompt, output, memory)
    held = [
        sum(rate * (prompt + now - start) for start, rate in enumerate(plan) if start <= now < start + output)
        for now in range(len(plan) + output)
    ]
    assert max(held) <= memory
    assert sum(plan) >= number
    full = held[output : len(plan) + output - 1]
    assert full
    assert min(full) >= memory * prompt / (prompt + output) * 0.9
    assert held[len(plan) + output - 2] == pytest.approx(memory * (prompt + output - 1) / (prompt + output))


def test_without_parameters_it_plans_better_than_groups_at_one_distance():
    cost = Cost((CostFunction(busy=2000, any_prefill=2000, tokens=60, decode_kv=1),))
    requests = tuple(simple(f"R{i}", 1, 64) for i in range(200))
    instance = Instance(machine=Machine(memory=3000, evict=True), cost=cost, requests=requests)
    groups = [f"staggered:{size},{gap}" for size in (4, 8, 16) for gap in few(range(1, 16), 3)]
    names = "staggered", "mc-sf", *groups
    spent = {name: busy_time(trace_policy(instance, get_policy(name))) for name in names}
    assert min(spent, key=lambda name: spent[name]) == "staggered"
