"""Numbers that 64 bits might not hold: they are declined, or solved exactly; there always is a bound."""

from dataclasses import replace
from io import StringIO

import pytest

import solvers
from kvbound.cli import EXIT_UNDECIDED
from kvbound.cli.common import PlainConsole
from kvbound.cli.solve import exit_code, show
from kvcore import BadInput, Machine
from kvcore.certificates import Alone
from kvcore.instance import Call, Instance, Request, Segment
from kvcore.result import Stop
from solvers import driver
from solvers.exact import exact
from solvers.messages import Bound, Done, Failed, SolveJob
from solvers.pool import race
from workloads.builtin import builtin_instance

MARS = builtin_instance("mars-figure1")
MANY = builtin_instance("mars-like:n=20")


def weighing(instance, weight):
    return instance.replace(requests=tuple(r.replace(weight=weight) for r in instance.requests))


def waiting(instance, ticks):
    return instance.with_calls(lambda call: call.replace(duration=ticks))


def with_parts(n, prompt):
    """Requests whose prompts may be split in very many ways, and are read anew after a call."""
    segments = (Segment(decode=1, call=Call(duration=1, returns=0, handling="discard")), Segment(decode=1))
    machine = Machine(memory=2 * prompt, host_memory=0, batch_tokens=300, prefill_tokens=300)
    requests = tuple(Request(id=f"R{i}", prompt=prompt, segments=segments) for i in range(n))
    return Instance(name="with-parts", machine=machine, requests=requests)


# --- what is solved --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("instance", "objective", "value"), [
    pytest.param(weighing(MARS, 10**9), "weighted-flow-time", 29 * 10**9, marks=pytest.mark.slow),
    pytest.param(waiting(MARS, 10**12), "total-flow-time", None, marks=pytest.mark.slow),
    pytest.param(weighing(MARS, 10**15), "weighted-flow-time", 29 * 10**15, marks=pytest.mark.slow),
])  # fmt: skip
def test_auto_proves_what_the_exact_searches_prove(instance, objective, value):
    alone = exact(instance, objective)
    result = solvers.solve(instance, objective)
    assert (result.status, alone.status) == ("optimal", "optimal")
    assert result.value == alone.value == (value or alone.value)


@pytest.mark.parametrize(("instance", "objective"), [
    (weighing(MANY, 10**15), "weighted-flow-time"),
    pytest.param(weighing(MARS, 10**15), "weighted-flow-time", marks=pytest.mark.slow),
    pytest.param(waiting(MANY, 10**12), "total-flow-time", marks=pytest.mark.slow),
    (with_parts(13, 1500), "total-flow-time"),
])  # fmt: skip
def test_auto_holds_a_schedule_and_a_bound_whatever_the_sizes(instance, objective):

    def stop_after_a_while(value, bound, seconds):
        if bound is not None and seconds > 1:
            raise KeyboardInterrupt

    result = solvers.solve(instance, objective, progress=stop_after_a_while)
    assert Alone().value(instance, objective) <= result.bound <= result.value
    assert not any("code" in line for line in result.failed)


@pytest.mark.slow
@pytest.mark.parametrize(("instance", "reserve", "proved"), [
    (waiting(MARS, 10**12), "events", 3 * 10**12 + 28),
    (weighing(MARS, 10**15), "bound", 1),  # only the graphs, made in the worker, see the weights
])  # fmt: skip
def test_the_next_of_a_lane_runs_if_one_declines(instance, reserve, proved):
    bounds = []
    declining = SolveJob(instance, "weighted-flow-time", "slots", "slots", None, None, None, 1e9, 4000, 1, 0)

    def receive(job, message):
        if job.solver == reserve and isinstance(message, Bound):
            bounds.append(message.value)

    lane = [declining, replace(declining, formulation=reserve, solver=reserve)]
    ends = race([lane], receive, lambda: "proved" if bounds and bounds[-1] >= proved else None)
    assert [type(end) for end in ends] == [Failed, Done]
    assert bounds[-1] >= proved


def test_a_way_that_is_named_still_declines():
    for named in ("search", "slots", "events"):
        with pytest.raises(BadInput, match="too large"):
            solvers.solve(waiting(weighing(MARS, 10**15), 1000), "weighted-flow-time", formulation=named)
    with pytest.raises(BadInput, match="its weights are too large"):
        solvers.solve(weighing(MARS, 10**15), "weighted-flow-time", formulation="arc-flow")


def test_where_all_ways_decline_the_result_says_so_and_what_may_help(monkeypatch):
    """It is no failure of a solver, and `alone` and the policies are there all the same."""
    monkeypatch.setattr(driver, "race", lambda *_, **__: [Failed("it is too large", "bad input")])
    result = solvers.solve(MARS)
    assert result.stopped == Stop.DECLINED
    assert result.bound < result.value
    printed = StringIO()
    show(replace(result, clock_seconds=result.seconds), PlainConsole(file=printed, width=200))
    assert "stopped: no way to solve takes it; the optimum is at least" in printed.getvalue()
    assert "`kvbound bound` may prove a higher one" in printed.getvalue()
    assert exit_code(result, None) == EXIT_UNDECIDED
