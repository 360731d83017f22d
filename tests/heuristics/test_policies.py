"""The policies and the engine: the published schedules, random instances, who knows what, and what goes wrong."""

import random
import re
from fractions import Fraction
from inspect import getdoc, isfunction

import pytest

from heuristics import (
    POLICIES,
    STARTERS,
    NotKnown,
    Policy,
    PolicyError,
    Ranked,
    Unsuited,
    best_schedule,
    get_policy,
    run_policy,
    trace_policy,
)
from heuristics.policies.figure_1 import Listed, MarsOrder
from heuristics.policies.serial import Serial
from heuristics.registry import FAMILIES, SET, SHARING
from kvcore import BadInput, Instance, Machine, objective_value, verify_schedule
from kvcore.metrics import completions, handlings, measures
from tests.support.build import simple
from tests.support.drawer import crowded_instance, draw_instance
from tests.support.few import few
from tests.support.mars_schedules import PUBLISHED, mars
from workloads.builtin import builtin_instance

FIGURE_1 = [
    ("fcfs", "FCFS", Fraction(35, 3)), ("sjf", "SJF", Fraction(31, 3)), ("sjf-api", "SJF+API", Fraction(11)),
    ("mars-order", "MARS", Fraction(10)),
]  # fmt: skip


# --- the worked example ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "published", "mean"), FIGURE_1)
def test_figure_1_slot_by_slot(name, published, mean):
    trace, paper = trace_policy(mars(), get_policy(name)), PUBLISHED[published]
    assert completions(trace) == paper.completions
    assert Fraction(objective_value(trace, "total-flow-time"), 3) == mean
    assert trace.expanded() == paper.schedule(mars())  # who runs in which slot, and every move
    assert handlings(trace) == {"R1/1": "preserve", "R2/1": "discard", "R3/1": "swap"}
    held = dict(trace.memory_curve())
    row = [0] * len(paper.memory)
    for slot in range(len(row)):
        row[slot] = held.get(slot, row[slot - 1] if slot else 0)
    assert "".join(map(str, row)) == paper.memory


def test_the_order_of_mars_is_its_key_and_another_can_be_listed():
    class Seen(MarsOrder):
        areas: dict[str, int]

        def decide(self, view, plan):
            if view.batch == 0:
                self.areas = {job.id: job.area for job in view.jobs}
            super().decide(view, plan)

    seen = Seen()
    run_policy(mars(), seen)
    assert seen.areas == {"R1": 31, "R2": 9, "R3": 6}
    assert run_policy(mars(), Listed([3, 2, 1])) == run_policy(mars(), get_policy("mars-order"))
    assert completions(trace_policy(mars(), Listed([1, 2, 3]))) == PUBLISHED["FCFS"].completions


def test_serial_is_one_after_another():
    trace = trace_policy(mars(), get_policy("serial"))
    assert completions(trace) == {"R1": 8, "R2": 8 + 10, "R3": 18 + 4}
    assert [sorted(batch.work) for batch in trace.expanded().batches][:6] == [["R1"]] * 6


# --- every instance ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [policy.name for policy in STARTERS])
def test_every_policy_succeeds_on_every_instance(name):
    """The referee passes each schedule: run_policy ends with it, and here it is asked once more."""
    switches = set()
    for seed in few(range(150), 6):
        for instance in (draw_instance(random.Random(seed)), crowded_instance(seed)):
            verify_schedule(instance, run_policy(instance, get_policy(name)))
            machine = instance.machine
            switches.add((machine.hybrid, machine.chunked, machine.pause))
    assert len(switches) == 8


def test_a_context_that_no_batch_takes_any_more_declines_the_machine():
    """Without chunks, a batch takes what each request has to prefill if nobody evicts it, and no more."""
    declined = {}
    for seed in (63, 137):
        given = crowded_instance(seed, 6)
        refills = [
            request.context_at_call(k) + 1 + call.returns
            for request in given.requests for k, call in enumerate(request.calls) if call.handling == "discard"
        ]  # fmt: skip
        longest = max([*refills, *(request.prompt for request in given.requests)])
        machine = given.machine.replace(
            chunked=False, evict=True, pause=True, host_memory=None, batch_tokens=longest, prefill_tokens=longest
        )
        for name, policy in POLICIES.items():
            if policy.why_not(machine) is None:
                try:
                    run_policy(given.replace(machine=machine), policy)
                except Unsuited as error:
                    declined[name] = str(error)
    assert len(declined) == 35
    assert not declined.keys() & {policy.name for policy in STARTERS}
    assert all(re.search(r"prefill \d+ tokens as its KV is dropped, no batch takes", why) for why in declined.values())
    whole = Instance(machine=Machine(memory=999, chunked=False, evict=True), requests=(simple("A", 600, 2),))
    with pytest.raises(Unsuited, match="A has to prefill 600 tokens, no batch takes more than 512, and the machine"):
        run_policy(whole, get_policy("sarathi"))


LACKING = {
    "evict": ["sarathi-c", "rank-i", "infermax", "srpt", "mars", "mars-fcfs", "lamps", "mars-as-released", "augserve",
              *(policy.name for policy in FAMILIES["InferCept"])],
    "pause": ["sarathi-c", "rank-i", "infermax", "srpt"],
    "pause and chunked": ["mars", "mars-fcfs", "lamps", "mars-as-released", "augserve"],
}  # fmt: skip


@pytest.mark.parametrize(("lacks", "name"), [(lacks, name) for lacks, names in LACKING.items() for name in names])
def test_a_machine_that_lacks_what_a_policy_needs_is_refused(lacks, name):
    machine = Machine(**{"memory": 9, "evict": True, "partial": True} | dict.fromkeys(lacks.split(" and "), False))
    with pytest.raises(Unsuited, match=rf"it needs a machine with {lacks}$"):
        run_policy(Instance(machine=machine, requests=(simple("A", 3, 2),)), get_policy(name))


def test_leave_to_evict_and_to_move_parts_changes_nothing():
    for seed in few(range(40), 6):
        instance = crowded_instance(seed)
        for name in [policy.name for policy in STARTERS]:
            machines = (instance.machine.replace(evict=free, partial=free) for free in (False, True))
            without, free = (run_policy(instance.replace(machine=each), get_policy(name)) for each in machines)
            assert without.batches == free.batches


def test_without_the_banker_two_requests_block_each_other():
    instance = Instance(
        machine=Machine(memory=6, batch_requests=1),
        requests=(simple("A", 1, 3, 2, handling="preserve"), simple("B", 1, 3, 2, handling="preserve")),
    )

    class Greedy(Ranked):
        name, rule, source = "greedy", "whoever fits", "this test"

        def key(self, job):
            return job.index

        def decide(self, view, plan):
            for job in view.ready:
                if plan.chunk(job) and plan.fits(job, plan.chunk(job)):
                    plan.take(job)

    with pytest.raises(
        PolicyError, match=r"greedy breaks .* R11 in batch 6: it waits .* and A, B are not done"
    ) as caught:
        run_policy(instance, Greedy())
    assert (caught.value.policy, caught.value.batch, caught.value.rule) == ("greedy", 6, 11)
    assert completions(trace_policy(instance, get_policy("fcfs"))) == {"A": 8, "B": 15}


def test_without_pause_running_requests_are_never_stopped():
    instance = builtin_instance("hindsight:n=14,M=30,seed=14")
    trace = trace_policy(instance, get_policy("sjf"))
    for request in trace.requests:
        worked = [step.batch for step in request.steps]
        assert worked == list(range(worked[0], worked[0] + request.request.output))
    assert max(batch.device for batch in trace.batches) > 20
    assert max(batch.features.decode_requests for batch in trace.batches) > 2


# --- who knows what (what is hidden decides nothing: test_online.py) ---------------------------------------------
class Online(Policy):
    """An online policy that does what a test wants."""

    name, rule, source, knows = "odd", "what a test wants", "this test", "online"

    def __init__(self, act):
        self.act = act

    def decide(self, view, plan):
        self.act(view, plan)


@pytest.mark.parametrize("what", ["remaining", "peak", "work", "call_time", "area", "call_end", "demand"])
def test_an_online_policy_does_not_see_what_lies_ahead(what):
    with pytest.raises(PolicyError, match=r"NotKnown: an online policy does not know the demand of request R1"):
        run_policy(mars(), Online(lambda view, plan: getattr(view.jobs[0], what)))


def test_an_online_policy_has_no_admission_test():
    with pytest.raises(PolicyError, match="NotKnown: the admission test needs the sizes") as caught:
        run_policy(mars(), Online(lambda view, plan: plan.admits(view.jobs[0])))
    assert isinstance(caught.value.__cause__, NotKnown)


@pytest.mark.parametrize(("requests", "message"), [
    ((simple("C", 1, 2),), "the predictions have no request A"),
    ((simple("A", 1, 2, 1), simple("B", 1, 6)), "the predictions give request A 1 calls, it makes 0"),
])  # fmt: skip
def test_predictions_of_other_requests_are_refused(requests, message):
    instance = Instance(machine=Machine(memory=9), requests=(simple("A", 1, 2), simple("B", 1, 6)))
    with pytest.raises(BadInput, match=message):
        run_policy(instance, get_policy("sjf"), predictions=instance.replace(requests=requests))


# --- what goes wrong ---------------------------------------------------------------------------------------------
def keep(view, plan):
    """Serve the first request, and go on with it while it is in its call."""
    plan.take(view.jobs[0], 1)


def thrash(view, plan):
    """Swap the first request out and in for ever."""
    job = view.jobs[0]
    if job.host:
        plan.swap_in(job)
    elif job.device:
        plan.swap_out(job)
    else:
        plan.take(job)


@pytest.mark.parametrize(("act", "message"), [
    (keep, "policy odd breaks .* R2 in batch 5: request R1: it works at 5, but it is in a call until 7"),
    (lambda view, plan: plan.take(view.jobs[0], 3), "breaks .* R3 in batch 0: request R1: it processes 3 tokens"),
    (lambda view, plan: [plan.take(job) for job in view.jobs], "breaks .* R5 in batch 0: it processes 3 tokens"),
    (lambda view, plan: plan.drop(view.jobs[0], 0), "breaks .* R8 in batch 0: request R1: drop outside a call"),
    (lambda view, plan: plan.work.update(ghost=1), "breaks .* R10 in batch 0: request ghost: .* no such request"),
    (lambda view, plan: plan.work.update(R1=0.5), "odd fails in batch 0: TypeError: work.R1: 0.5 is no integer"),
    (lambda view, plan: None, "breaks .* R11 in batch 0: it waits although nothing is to come, .* R3 are"),
    (lambda view, plan: 1 // 0, "odd fails in batch 0: ZeroDivisionError: "),
    (lambda view, plan: [plan.take(view.jobs[0]) for _ in "ab"], "odd fails .* request R1 has been taken into"),
])  # fmt: skip
def test_a_wrong_policy_ends_with_one_clear_error(act, message):
    with pytest.raises(PolicyError, match=message) as caught:
        run_policy(mars(), Online(act))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("machine", "requests", "act", "message"), [
    ({"memory": 6}, [simple("A", 4, 3), simple("B", 4, 3)],
     lambda view, plan: [plan.take(job) for job in view.ready],
     r"R6 in batch 0: the requests occupy 8 blocks of 1 = 8, memory is 6"),
    ({"memory": 9, "pause": False}, [simple("A", 1, 3), simple("B", 1, 3)],
     lambda view, plan: plan.take(view.jobs[view.batch % 2]),
     r"R5 in batch 1: request A: it pauses within a segment"),
    ({"memory": 9, "host_memory": 9, "evict": True}, [simple("A", 1, 3)], thrash,
     r"R11 in batch 129: it loops: the last 128 batches"),
], ids=["exceeds the memory", "pauses", "loops"])  # fmt: skip
def test_a_policy_that_breaks_what_the_machine_says(machine, requests, act, message):
    with pytest.raises(PolicyError, match=rf"odd breaks .* {message}"):
        run_policy(Instance(machine=Machine(**machine), requests=tuple(requests)), Online(act))


def test_an_error_while_it_starts():
    class Unprepared(Serial):
        def start(self, view):
            raise RuntimeError(f"memory {view.machine.memory} is too small for me")

    with pytest.raises(PolicyError, match="policy serial fails in batch 0: RuntimeError: memory 6 is too small"):
        run_policy(mars(), Unprepared())


# --- other policies fit in ---------------------------------------------------------------------------------------
class LastIn(Policy):
    """Serves the latest arrival, and drops the KV of the earliest ones for it."""

    name, rule, source, knows = "last-in", "last come, first served, with eviction", "this test", "online"

    def decide(self, view, plan):
        victims = [job for job in view.ready if job.device]
        for job in reversed(view.ready):
            while plan.chunk(job) and not plan.fits(job, plan.chunk(job)) and victims and victims[0] is not job:
                plan.drop(victims.pop(0))
            if plan.chunk(job) and plan.fits(job, plan.chunk(job)):
                plan.take(job)
                victims = [victim for victim in victims if victim is not job]


def test_a_policy_that_evicts():
    requests = tuple(simple(f"R{i}", 3, 3, arrival=i) for i in range(4))
    instance = Instance(machine=Machine(memory=6, evict=True), requests=requests)
    trace = trace_policy(instance, LastIn())
    assert measures(trace)["tokens_recomputed"] > 0
    assert min(completions(trace), key=completions(trace).__getitem__) != "R0"


def test_a_policy_that_handles_free_calls_itself_and_sees_what_happens():
    class DropsAtCalls(Policy):
        name, rule, source, knows = "drops", "serial, dropping at calls", "this test", "online"
        free_calls = "own"
        events: list[tuple[int, str, str]]

        def start(self, view):
            assert not view.jobs
            self.events = []

        def decide(self, view, plan):
            for what in ("arrived", "called", "returned"):
                self.events += [(view.now, what, job.id) for job in getattr(view, what)]
            job = view.jobs[0]
            if job.calling:
                assert (job.window, job.handling, job.call_start) == (True, "free", 2)
            elif job.window and job.device:
                plan.drop(job)
            if not job.calling:
                plan.take(job)

    policy = DropsAtCalls()
    instance = Instance(
        machine=Machine(memory=9), requests=(simple("A", 1, 2, 1, handling="free"), simple("B", 1, 1, arrival=4))
    )
    trace = trace_policy(instance, policy)
    assert policy.events == [(0, "arrived", "A"), (2, "called", "A"), (4, "arrived", "B"), (5, "returned", "A")]
    assert trace.requests[0].calls[0].handling == "discard"
    assert completions(trace) == {"A": 6, "B": 7}


# --- the registry ------------------------------------------------------------------------------------------------
def below(kind):
    """All that is derived from a class."""
    return {one for child in kind.__subclasses__() for one in (child, *below(child))}


def test_the_registry_says_what_each_policy_is():
    assert [policy.name for policy in STARTERS] == ["fcfs", "sjf", "sjf-api", "mars-order", "serial"]
    assert all(POLICIES[policy.name] is policy for policy in STARTERS)
    for name, policy in (POLICIES | SHARING).items():
        assert policy.name == name
        assert "\n" not in policy.rule
        assert policy.knows in ("online", "predictions", "clairvoyant")
        assert all(word in (type(policy).__doc__ or "") for word in ("Running time", "Source"))
    written = {kind for kind in below(Policy) if kind.__module__.startswith("heuristics.policies.")}
    named = {Listed, *map(type, (*POLICIES.values(), *SHARING.values(), *SET.values()))}
    assert named <= written  # and what has no name is a base of one that has
    assert all(any(issubclass(one, kind) for one in named) for kind in written)
    methods = [one for kind in written for name, one in vars(kind).items() if isfunction(one) and name[0] != "_"]
    assert all(map(getdoc, methods))  # its own, or that of the method that it overrides
    with pytest.raises(BadInput, match="no policy is called 'lifo'; `kvbound policies` lists all"):
        get_policy("lifo")


def test_the_best_schedule_has_every_batch_written_out():
    long = Instance(machine=Machine(memory=99), requests=(simple("A", 1, 30), simple("B", 1, 40)))
    assert any(batch.repeat > 1 for batch in run_policy(long, get_policy("fcfs")).batches)
    assert all(batch.repeat == 1 for batch in best_schedule(long, "makespan")[1].batches)


def test_the_best_schedule():
    name, schedule, trace = best_schedule(mars(), "total-flow-time")
    assert (name, objective_value(trace, "total-flow-time"), trace.schedule) == ("mars-order", 30, schedule)
    assert best_schedule(mars(), "makespan")[0] == "sjf"  # 14 as well with mars-order, which comes later
    with pytest.raises(BadInput, match="no objective is called 'speed'"):
        best_schedule(mars(), "speed")


def test_a_run_can_be_stopped():
    with pytest.raises(PolicyError, match="policy fcfs fails in batch 0: its time is over"):
        trace_policy(mars(), get_policy("fcfs"), go_on=lambda: False)
