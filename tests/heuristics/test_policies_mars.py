"""MARS, LAMPS and MARS as released: worked by hand from the equations, and what the papers say of them."""

from fractions import Fraction

import pytest

from costmodels import GPT_J_6B, get_cost
from heuristics import get_policy, run_policy, trace_policy
from heuristics.policies.mars import Mars, StarvationTimers
from heuristics.policies.mars_as_released import ITERATION, MarsAsReleased, ScoreTerms, score
from kvcore import Instance, Machine
from kvcore.instance import LIMIT
from kvcore.metrics import completions, flow_time, handlings, ttft
from tests.heuristics.test_compression import short_of
from tests.support.build import simple
from tests.support.data import MIXTURE, real
from tests.support.few import few
from tests.support.mars_schedules import PUBLISHED, mars
from workloads.importers import read_infercept


# --- MARS --------------------------------------------------------------------------------------------------------
class Scored(Mars):
    """MARS, with the scores at the first batch."""

    seen: dict[str, int]

    def decide(self, view, plan):
        if view.batch == 0:
            self.seen = {job.id: self.score(job) for job in view.jobs}
        super().decide(view, plan)


def figure_1():
    return mars().replace(machine=mars().machine.replace(evict=True))


def test_figure_1_is_scored_and_scheduled_as_the_paper_prefers():
    """Twice the memory-time of the first segment and the waste of its call, M = 6.

    R1 preserves: 2 (1 + 2 + 3 + 4 + 5) + 2 x 2 ticks x 5 tokens = 50. R2 discards, prefills in chunks: 2 x 1 +
    1 tick x (1 + 2 (6 - 1)) = 13. R3 swaps, which takes no time: 2 (1 + 2) = 6.
    """
    policy = Scored()
    trace = trace_policy(figure_1(), policy)
    assert policy.seen == {"R1": 50, "R2": 13, "R3": 6}
    assert completions(trace) == PUBLISHED["MARS"].completions == {"R1": 12, "R2": 14, "R3": 4}
    assert trace.expanded().batches == PUBLISHED["MARS"].schedule(mars()).batches


def test_without_scheduling_figure_1_is_in_order_of_arrival():
    """R1 to its call at 5, R2's first token meanwhile; R1 goes on at 7 and is done at 8."""
    trace = trace_policy(figure_1(), Mars(ranked=False))
    assert [batch.work for batch in trace.expanded().batches[:6]] == [{"R1": 1}] * 5 + [{"R2": 1}]
    assert completions(trace)["R1"] == PUBLISHED["FCFS"].completions["R1"] == 8


def test_the_handling_is_chosen_by_predictions_and_kept():
    machine = Machine(memory=9, host_memory=0, evict=True)
    long = Instance(machine=machine, requests=(simple("A", 4, 2, 1, duration=2),))
    short = long.replace(requests=(simple("A", 4, 2, 1, duration=1),))
    assert handlings(trace_policy(long, Mars(), predictions=short)) == {"A/1": "preserve"}
    assert handlings(trace_policy(short, Mars(), predictions=long)) == {"A/1": "discard"}


def stream_of_small_ones():
    """One at a time fits. A small one is worth 2 (3 + 4) = 14, the big one 2 (4 + 5) = 18, and small ones never end."""
    small = [simple(f"s{k}", 3, 2, arrival=2 * k) for k in range(10)]
    return Instance(machine=Machine(memory=5, evict=True), requests=(simple("big", 4, 2), *small))


@pytest.mark.parametrize(("policy", "done"), [
    (Mars(threshold=10**6), 22),  # behind ten small ones of two batches each
    (Mars(threshold=4), 6),  # it waits in batches 0 to 3, and goes first in batch 4, when s1 is done
    (Mars(threshold=5), 8),  # in batch 5 s2 runs and goes on; it starts in batch 6
    (Mars(10, threshold=4, new_may_starve=False), 22),  # it has never run, and is not protected
    (Mars(ranked=False), 2),  # at equal arrivals the earlier in the list
])  # fmt: skip
def test_who_waits_for_too_long_goes_first(policy, done):
    trace = trace_policy(stream_of_small_ones(), policy)
    assert completions(trace)["big"] == done


def test_a_starving_request_stays_first_until_it_is_done():
    """Its call discards, so it waits again, and would lose against every small one by its score."""
    requests = stream_of_small_ones().requests[1:]
    big = simple("big", 3, 2, 1, duration=1, handling="discard")  # it comes back with 5 tokens to refill: 10 > 6
    instance = Instance(machine=Machine(memory=5, evict=True), requests=(big, *requests))
    done = {limit: completions(trace_policy(instance, Mars(threshold=limit)))["big"] for limit in (1, 10**6)}
    # starving from batch 1 on: it runs in batches 2 and 3, returns at 5, and refills when s1 is done
    assert done[1] < 10 < done[10**6]


def test_patience():
    timers = StarvationTimers()
    assert timers.next_expiry() == LIMIT
    timers.start(1, 5)
    timers.start(2, 3)
    timers.start(1, 7)
    assert timers.next_expiry() == 3
    assert timers.expired(6) == [2]  # not 1, whose timer began anew
    timers.start(3, 6)
    timers.cancel(3)
    assert (timers.next_expiry(), timers.expired(7), timers.next_expiry()) == (7, [1], LIMIT)


# --- as released -------------------------------------------------------------------------------------------------

UNIT = Fraction(1, 10**7)


class Classified(MarsAsReleased):
    """The released code, with what it chose for each call."""

    def start(self, view):
        super().start(view)
        self.chosen = []

    def at_call(self, job, plan):
        self.chosen.append((job.id, *self.wastes[job.index]))
        super().at_call(job, plan)


def released(*requests, memory=6400):
    machine = Machine(memory=memory, block=64, host_memory=0, evict=True)
    return Instance(tick_seconds=UNIT, machine=machine, requests=requests)


@pytest.mark.parametrize(("duration", "waste", "recompute"), [
    (52_224, 6_684_672, False),  # 100 + 20 tokens are 128 in blocks; an empty machine: 408 x 128 x 128
    (52_225, 6_684_672, True),  # 128 x 52,225 is more
])  # fmt: skip
def test_released_waste(duration, waste, recompute):
    policy = Classified()
    trace = trace_policy(released(simple("A", 100, 20, 1, duration=duration)), policy)
    assert policy.chosen == [("A", waste, recompute)]
    assert handlings(trace) == {"A/1": "preserve"}  # the only paused one is never dropped without need


def test_released_waste_with_others_running():
    """B comes when A decodes: c = 383 tokens. 500 + 12 tokens are 512: ceil(512 / 383) - 1 = 1 chunk and 129 left.

    A holds 64 x 2 tokens. A batch is 408 x 384 + 169,200 = 325,872; so 325,872 x 1 x 383 + 408 x 383 x 1 x 128 +
    408 x 129 x (128 + 129) = 158,337,240 ... as summed below.
    """
    policy = Classified()
    run_policy(released(simple("A", 100, 20), simple("B", 500, 12, 1, arrival=1, duration=10**9)), policy)
    assert policy.chosen == [("B", 325_872 * 383 + 408 * 383 * 128 + 408 * 129 * 257, True)]


def test_released_pause_drops_all_but_the_largest_waste():
    requests = (simple("A", 100, 20, 1, duration=10**9), simple("B", 300, 20, 1, duration=10**9))
    assert handlings(trace_policy(released(*requests), MarsAsReleased())) == {"A/1": "discard", "B/1": "preserve"}


def test_the_paused_request_of_the_largest_waste_gives_way_as_a_whole():
    """B holds 5 blocks of 8 in its call; C needs 4 from batch 20 on."""
    requests = (simple("B", 300, 5, 1, duration=10**9), simple("C", 190, 40, arrival=10))
    trace = trace_policy(released(*requests, memory=8 * 64), MarsAsReleased())
    assert handlings(trace) == {"B/1": "discard"}
    assert completions(trace)["C"] < completions(trace)["B"]


def test_released_scores():
    """c = 384: n = 1 up to 6 blocks, and M = 484,000 x 384; 7 blocks are two chunks, and M is three times that."""
    least = ITERATION * 384 * 2
    assert [score(ScoreTerms(*terms), 384) for terms in ((7, 1, 0.0), (2, 1, 0.0), (2, 1, 1000.0))] == [
        2 * least, least, least + 1000,
    ]  # fmt: skip
    assert score(ScoreTerms(2, 1, 0.0), 1) == ITERATION * (128 * 129 // 2 + 64 * 65 // 2)  # 64 chunks a block


def test_released_order_is_by_time_held():
    """One at a time fits. `held` is preserved over its call, which outweighs everything; `plain` makes no call."""
    first = simple("first", 100, 10)
    held = simple("held", 110, 2, 1, arrival=1, duration=40_000)
    plain = simple("plain", 120, 2, arrival=2)
    instance = released(first, held, plain, memory=128)
    requests = trace_policy(instance, MarsAsReleased()).requests[1:]
    first = {request.request.id: request.request.arrival + ttft(request) for request in requests}
    assert sorted(first, key=first.__getitem__) == ["plain", "held"]


def test_released_starvation_protects_only_who_has_run():
    done = completions(trace_policy(stream_of_small_ones(), MarsAsReleased(threshold=1)))
    assert done == completions(trace_policy(stream_of_small_ones(), MarsAsReleased(threshold=10**6)))


# --- on the mixture ----------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def mixture():
    cost = get_cost("infercept-6b")
    return read_infercept(
        real(MIXTURE), rate=Fraction(9), minutes=Fraction(2), seed=2, cost=cost.make(), tick=cost.tick,
        machine=GPT_J_6B.replace(memory=GPT_J_6B.memory // 4 // 64 * 64),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.data
def test_ranking_lowers_the_mean_where_memory_is_short(mixture):
    traces = {name: trace_policy(mixture, get_policy(name)) for name in ("mars", "mars-fcfs", "vllm")}
    mean = {name: sum(map(flow_time, trace.requests)) for name, trace in traces.items()}
    assert mean["mars"] < mean["mars-fcfs"] < mean["vllm"]


@pytest.mark.data
@pytest.mark.parametrize("name", few(["mars", "augserve", "lamps", "mars-as-released", "augserve-batching"]))
def test_what_is_repeated_is_what_would_be_decided_on_the_mixture(mixture, name):
    short = short_of(mixture.replace(requests=mixture.requests[:150]), get_policy(name))
    assert len(short.schedule.batches) < 0.95 * len(short.batches)
