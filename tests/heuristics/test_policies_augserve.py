"""AugServe: values and limits worked by hand from the paper's equations, and its anti-starvation term both ways."""

from fractions import Fraction

import pytest

from heuristics import run_policy, trace_policy
from heuristics.policies.augserve import AugServe
from kvcore import Cost, CostFunction, Instance, Machine
from kvcore.metrics import completions
from tests.heuristics.test_policies_mars import stream_of_small_ones
from tests.support.build import simple

SWAPPING = Cost((CostFunction(busy=1), CostFunction(swap_out_tokens=2, swap_in_tokens=2)))
"""A batch lasts a tick, a token moved two."""


class Valued(AugServe):
    """AugServe, with the values that it gave, divided by 2N, in the order given, and the limits of its batches."""

    def start(self, view):
        super().start(view)
        self.given = []
        self.limits = []

    def before_call(self, job):
        value = super().before_call(job)
        self.given.append((job.id, Fraction(value, 2 * self.target)))
        return value

    def after_call(self, job):
        value = super().after_call(job)
        self.given.append((job.id, Fraction(value, 2 * self.target)))
        return value

    def limit(self, plan):
        self.limits.append(super().limit(plan))
        return self.limits[-1]


def values(request, cost=Cost.unit()):
    """The values that a request is given when it runs alone on a machine of 8 tokens a batch."""
    machine = Machine(memory=100, host_memory=100, batch_tokens=8, evict=True)
    policy = Valued()
    run_policy(Instance(machine=machine, cost=cost, requests=(request,)), policy)
    return [value for _, value in policy.given]


def test_stage_1():
    """T = 1, N = 8, L = 4, O = 3: prefill 16 / 2 / 8 = 1, decode 4 x 3 + 9 / 2 = 33/2; the call has 6 tokens."""
    assert values(simple("A", 4, 3)) == [Fraction(35, 2)]  # (14) without a call
    assert values(simple("A", 4, 3, 1, duration=5, handling="preserve"))[0] == Fraction(35, 2) + 6 * 5  # (13)
    assert values(simple("A", 4, 3, 1, duration=5, handling="discard"))[0] == Fraction(35, 2)  # (14)
    swap = values(simple("A", 4, 3, 1, duration=5, handling="swap"), SWAPPING)
    assert swap[0] == Fraction(35, 2) + Fraction(6 * 12, 2)  # (15): 6 tokens for 12 ticks, half of them at a time


def test_stage_2():
    """7 tokens were known at the call, 2 come back: return (7 x 2 + 2) / 8 = 2; then 4 tokens on 9: 9 x 4 + 8 = 44."""
    back, after = Fraction(16, 8), 44
    for handling, more in (
        ("preserve", Fraction(0)),  # (20)
        ("swap", Fraction(7 * 14, 2)),  # (16), (21): 7 tokens for 14 ticks
        ("discard", Fraction(49, 2 * 8)),  # (17), (22)
    ):
        request = simple("A", 4, 3, 4, duration=5, returns=2, handling=handling)
        assert values(request, SWAPPING)[1] == back + after + more


def test_the_next_call_is_part_of_stage_2():
    """(24): the second call starts with 7 + 2 + 4 - 1 = 12 tokens and lasts 5 ticks."""
    one, two = (simple("A", 4, *decodes, duration=5, returns=2, handling="preserve") for decodes in ((3, 4), (3, 4, 1)))
    assert values(two)[1] - values(one)[1] == 12 * 5


@pytest.mark.parametrize(("policy", "done"), [
    (AugServe(alpha=1), 6),  # 176 against 137 + 16 t of a small one that comes at t: in front of those from 4 on
    (AugServe(alpha=0), 22),  # 176 against 137
    (AugServe(alpha=1, as_printed=True), 22),  # 176 against 137 - 16 t
    (AugServe(ranked=False), 2),
])  # fmt: skip
def test_waiting_helps_or_as_printed_does_not(policy, done):
    """N = 8: small ones are worth 9 + 8 (2 x 3 x 2 + 4) = 137, the big one 16 + 8 (2 x 4 x 2 + 4) = 176."""
    instance = stream_of_small_ones()
    instance = instance.replace(machine=instance.machine.replace(batch_tokens=8))
    assert completions(trace_policy(instance, policy))["big"] == done


def test_the_limit_follows_the_free_memory_within_its_bounds():
    """60 tokens, 10 to 40 of them a batch. B is worth less, and takes 26; A 14 of the 40, and 16 when B is done."""
    machine = Machine(memory=60, evict=True)
    policy = Valued(target_max=20)
    requests = (simple("A", 30, 9), simple("B", 26, 1))
    batches = run_policy(Instance(machine=machine, requests=requests), policy).batches
    assert policy.limits == [40, 40, 30]  # 60, 46 and 30 tokens are free; then A decodes on, which is decided once
    assert [batch.work for batch in batches[:2]] == [{"B": 26, "A": 14}, {"A": 16}]


def test_paused_memory_counts_with_gamma():
    request = simple("A", 30, 1, 1, duration=2, handling="preserve")
    other = simple("B", 5, 9)
    for gamma, limit in ((Fraction(1), 25), (Fraction(1, 2), 10)):  # 40 - 30 - 6 = 4 are free, and 30 are paused
        policy = Valued(target_max=20, beta_high=Fraction(5, 4), gamma=gamma)
        run_policy(Instance(machine=Machine(memory=40, evict=True), requests=(request, other)), policy)
        assert limit in policy.limits
