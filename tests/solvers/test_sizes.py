"""Numbers that 64 bits might not hold: they are declined, or solved exactly; there always is a bound."""

from dataclasses import replace
from io import StringIO

import numpy as np
import pytest

import solvers
from kvbound.cli import EXIT_UNDECIDED
from kvbound.cli.common import PlainConsole
from kvbound.cli.solve import exit_code, show
from kvcore import OBJECTIVES, BadInput, Machine
from kvcore.certificates import Alone
from kvcore.instance import Call, Instance, Request, Segment
from kvcore.result import DECLINED
from solvers import driver
from solvers.exact import exact
from solvers.lagrange.network import PathNetwork
from solvers.lagrange.prices import SlotRelaxation
from solvers.lagrange.scope import (
    FAR,
    MOST_OPTIONS,
    MOST_SLOTS,
    PATH,
    UNIT,
    most_slots,
    options_at_least,
    why_not,
)
from solvers.pool import race
from solvers.task import Bound, Done, Failed, Task
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import ALL, few
from tests.support.tiny_instances import PROFILES, tiny_instance
from workloads.builtin import builtin_instance

MARS = builtin_instance("mars-figure1")
MANY = builtin_instance("mars-like:n=20")


def weighing(instance, weight):
    return instance.replace(requests=tuple(r.replace(weight=weight) for r in instance.requests))


def waiting(instance, ticks):
    def segments(request):
        return tuple(s.replace(call=s.call and s.call.replace(duration=ticks)) for s in request.segments)

    return instance.replace(requests=tuple(r.replace(segments=segments(r)) for r in instance.requests))


def with_parts(n, prompt):
    """Requests whose prompts may be split in very many ways, and are read anew after a call."""
    segments = (Segment(decode=1, call=Call(duration=1, returns=0, handling="discard")), Segment(decode=1))
    machine = Machine(memory=2 * prompt, host_memory=0, batch_tokens=300, prefill_tokens=300)
    requests = tuple(Request(id=f"R{i}", prompt=prompt, segments=segments) for i in range(n))
    return Instance(name="with-parts", machine=machine, requests=requests)


def evicting(instance):
    """The instance on a machine that evicts, where each token may be followed by a refill in any parts."""
    return instance.replace(machine=instance.machine.replace(evict=True))


# --- what is declined ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instance", "reason"),
    [
        (weighing(MANY, 10**15), "weights of at most"),
        (waiting(MARS, 10**12), f"at most {MOST_SLOTS} slots"),
        (with_parts(2, 1500), f"at most {MOST_OPTIONS} options"),
        (evicting(with_parts(2, 900)), f"at most {MOST_OPTIONS} options"),
        (MANY.replace(requests=tuple(Request(id=f"R{i}", prompt=1, segments=(Segment(decode=1),))
                                     for i in range(8193))), "at most 8192 requests"),
        (MANY.replace(machine=Machine(memory=None, host_memory=0), requests=(
            Request(id="R", prompt=2**27 + 1, segments=(Segment(decode=1),)),)), "at most 134217728 tokens"),
    ],
)  # fmt: skip
def test_paths_decline_what_it_could_not_hold(instance, reason):
    assert reason in why_not(instance, "weighted-flow-time")
    with pytest.raises(BadInput, match=reason):
        PathNetwork(instance, "weighted-flow-time")


def test_the_estimate_of_options_exceeds_none():
    fixed = {"partial": False, "pause": True, "hybrid": True, "cost": "unit"}
    instances = [
        with_parts(2, 60),
        with_parts(2, 330),
        *(tiny_instance(s, **PROFILES["any"] | fixed) for s in range(40)),
    ]
    with_limits = 0
    for instance in instances:
        try:
            network = PathNetwork(instance, "total-flow-time", exact=True)
        except BadInput:
            continue
        for c in network.classes:
            least = options_at_least(instance.machine, c.requests[0], network.setting.most_partial)
            assert least <= len(c.options)
            with_limits += least > c.requests[0].output
    assert with_limits >= 3


def test_all_that_is_summed_stays_below_62_bits():
    assert (2 * PATH, FAR // UNIT) == (2**43, 2**50)
    for weight in (1, 10**6):
        instance = weighing(MANY, weight)
        network = PathNetwork(instance, "weighted-flow-time")
        relaxation = SlotRelaxation(network, network.most_slots)
        prices = np.broadcast_to(network.dearest * network.is_priced, (relaxation.slots, 5)).copy()
        paid = sum(int(p) * int(limit) for row in prices for p, limit in zip(row, network.limits, strict=True))
        assert 2**40 < paid < 2**56
        for c in network.classes:
            bill = relaxation.bill(c, relaxation.costs(c, prices)[0])
            ahead = relaxation.ahead(c, bill)
            assert 0 <= bill.max() <= PATH
            assert ahead[:, 0].max() <= 2 * PATH
        assert -(2**56) < relaxation.relax(prices).bound < 2**56


def test_prices_found_are_never_above_the_highest():
    network = PathNetwork(MARS, "total-flow-time")
    network.dearest = np.minimum(network.dearest, 700)
    bound, prices = SlotRelaxation(network, 60).find_prices(29.0, 60)
    assert prices.max() == 700
    assert 0 < bound <= 29 * UNIT


# --- what is solved --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_prices_are_right_up_to_the_largest_weights():
    answers = 0
    for seed in few(range(30, 45)):
        fixed = {"evict": False, "partial": False, "pause": True, "hybrid": True, "cost": "unit"}
        instance = weighing(tiny_instance(seed, **PROFILES["calls-free"] | fixed), 1)
        weight = PATH // (3 * most_slots(instance) * UNIT)
        if why_not(instance, "weighted-flow-time") or len(instance.requests) > 3:
            continue
        assert "weights of at most" in why_not(weighing(instance, weight + 1), "weighted-flow-time")
        optimum, _ = exhaustive_optimum(instance, "total-flow-time", max_states=20_000)
        network = PathNetwork(weighing(instance, weight), "weighted-flow-time", exact=True)
        bound, _ = SlotRelaxation(network, 60).find_prices(optimum * weight, 200)
        assert 0.8 * optimum * weight < bound / UNIT <= optimum * weight
        answers += 1
    assert answers >= (5 if ALL else 1)


@pytest.mark.parametrize(
    ("instance", "objective", "value"),
    [
        pytest.param(weighing(MARS, 10**9), "weighted-flow-time", 29 * 10**9, marks=pytest.mark.slow),
        pytest.param(waiting(MARS, 10**12), "total-flow-time", None, marks=pytest.mark.slow),
        pytest.param(weighing(MARS, 10**15), "weighted-flow-time", 29 * 10**15, marks=pytest.mark.slow),
    ],
)
def test_auto_proves_what_the_exact_searches_prove(instance, objective, value):
    alone = exact(instance, objective)
    result = solvers.solve(instance, objective)
    assert (result.status, alone.status) == ("optimal", "optimal")
    assert result.value == alone.value == (value or alone.value)


@pytest.mark.parametrize(
    ("instance", "objective"),
    [
        (weighing(MANY, 10**15), "weighted-flow-time"),
        pytest.param(weighing(MARS, 10**15), "weighted-flow-time", marks=pytest.mark.slow),
        pytest.param(waiting(MANY, 10**12), "total-flow-time", marks=pytest.mark.slow),
        (with_parts(13, 1500), "total-flow-time"),
    ],
)
def test_auto_holds_a_schedule_and_a_bound_whatever_the_sizes(instance, objective):

    def stop_after_a_while(value, bound, seconds):
        if bound is not None and seconds > 1:
            raise KeyboardInterrupt

    result = solvers.solve(instance, objective, progress=stop_after_a_while)
    assert Alone().value(instance, objective) <= result.bound <= result.value
    assert not any("code" in line for line in result.extra.get("failed", []))


@pytest.mark.parametrize(
    ("instance", "reserve", "proved"),
    [
        pytest.param(waiting(MARS, 10**12), "events", 3 * 10**12 + 28, marks=pytest.mark.slow),
        # only the network, made in the worker, sees how many options there are after the call
        pytest.param(with_parts(13, 700), "bound", 1, marks=pytest.mark.slow),
    ],
)
def test_the_next_of_a_lane_runs_if_one_declines(instance, reserve, proved):
    bounds = []
    declining = Task(instance, "total-flow-time", "arc-flow", "cp-sat", None, None, None, 1e9, 4000, 1, 0)

    def receive(task, message):
        if task.solver == reserve and isinstance(message, Bound):
            bounds.append(message.value)

    lane = [declining, replace(declining, formulation=reserve, solver=reserve)]
    ends = race([lane], receive, lambda: "proved" if bounds and bounds[-1] >= proved else None)
    assert [type(end) for end in ends] == [Failed, Done]
    assert bounds[-1] >= proved
    with pytest.raises(BadInput, match=r"options|slots"):
        solvers.solve(instance, formulation="arc-flow")


def test_a_way_that_is_named_still_declines():
    for named in ("search", "slots", "events"):
        with pytest.raises(BadInput, match="too large"):
            solvers.solve(waiting(weighing(MARS, 10**15), 1000), "weighted-flow-time", formulation=named)
    with pytest.raises(BadInput, match="weights of at most"):
        solvers.solve(weighing(MARS, 10**15), "weighted-flow-time", formulation="arc-flow", solver="cp-sat")


def test_where_all_ways_decline_the_result_says_so_and_what_may_help(monkeypatch):
    """It is no failure of a solver, and `alone` and the policies are there all the same."""
    monkeypatch.setattr(driver, "race", lambda *_, **__: [Failed("it is too large", "bad input")])
    result = solvers.solve(MARS)
    assert result.stopped == DECLINED
    assert result.bound < result.value
    printed = StringIO()
    show(result, PlainConsole(file=printed, width=200))
    assert "stopped: no way to solve takes it; the optimum is at least" in printed.getvalue()
    assert "`kvbound bound` may prove a higher one" in printed.getvalue()
    assert exit_code(result, None) == EXIT_UNDECIDED


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_alone_nothing_is_better(objective):
    for seed in few(range(12)):
        instance = tiny_instance(seed, **PROFILES["any"])
        try:
            optimum, _ = exhaustive_optimum(instance, objective, max_states=1500)
        except TooManyStates:
            continue
        assert Alone().value(instance, objective) <= optimum, instance.name
