"""The ladder of bounds: what does not fit into the time is declined, and Ctrl-C loses nothing that was proved."""

from types import SimpleNamespace

import pytest

from bounds import events
from bounds.configurations import Stage
from bounds.shares import propose_shares
from bounds.slot_dual import PriceAscent
from bounds.task import Proposal, Task
from kvcore import Instance, Machine, Request, Segment
from kvcore.certificates import Alone, InvalidCertificate, Shares, verify_certificate
from kvcore.errors import BadInput
from solvers.dual_bound import best_bound as climbed
from solvers.dual_bound import rungs
from solvers.ways import CERTIFYING, SOLVERS, WAYS, Way
from tests.support.clock import Clock
from workloads.builtin import builtin_instance

FLOW = "total-flow-time"
TIGHT = Instance(
    machine=Machine(memory=12, hybrid=True, chunked=False, evict=False, pause=False, batch_tokens=8, batch_requests=3),
    requests=tuple(Request(id=f"R{i}", prompt=2 + i % 3, segments=(Segment(decode=3 + i % 4),)) for i in range(12)),
)


def interrupt_at(monkeypatch, owner, name, call):
    """Let a method end as Ctrl-C ends it, at its call of this number."""
    plain, calls = getattr(owner, name), []

    def once(*arguments):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return plain(*arguments)

    monkeypatch.setattr(owner, name, once)


@pytest.mark.parametrize(
    ("method", "owner", "name"),
    [("shares", Shares, "value"), ("slot-dual", PriceAscent, "evaluate"), ("configurations", Stage, "evaluate"),
     ("events", events.EventSearch, "run")],
)  # fmt: skip
def test_ctrl_c_keeps_what_the_running_method_had(monkeypatch, method, owner, name):
    interrupt_at(monkeypatch, owner, name, 3)
    instance = TIGHT.replace(requests=TIGHT.requests[:5])
    result = climbed(instance, FLOW, method=method, time_limit=1e6, options={"events.first_states": 5})
    assert result.stopped == "interrupted"
    assert result.formulation == method
    assert verify_certificate(instance, result.certificate) == result.bound > 0


def test_ctrl_c_before_the_first_proof_leaves_the_methods_before(monkeypatch):
    interrupt_at(monkeypatch, Shares, "value", 1)
    result = climbed(TIGHT, FLOW, time_limit=1e6)
    assert (result.stopped, result.formulation) == ("interrupted", "alone")
    assert "interrupted before its first proof" in result.ladder[-1].why_not


@pytest.mark.parametrize("method", ["shares", "slot-dual"])
def test_a_method_whose_first_proof_does_not_fit_into_the_time_is_declined(method):
    machine = TIGHT.machine.replace(memory=9, batch_tokens=None)
    large = TIGHT.replace(machine=machine, requests=tuple(r.replace(prompt=4) for r in TIGHT.requests))
    with pytest.raises(BadInput, match=r"one evaluation takes about [0-9.]+ s, and 0.0 s are left: give it more time"):
        next(WAYS[method, "bound"].proposals(Task(large, FLOW, 0.0, end=0.0)))


def test_the_bound_alone_needs_no_time():
    made = list(rungs(TIGHT, FLOW, CERTIFYING, time_limit=-1.0))
    assert made[0].bound > 0
    assert "are left: give it more time" in made[1].why_not


def test_shares_begin_no_proof_that_would_not_end_by_the_deadline(monkeypatch):
    evaluated = []
    value = Shares.value
    monkeypatch.setattr(Shares, "value", lambda *arguments: evaluated.append(1) or value(*arguments))
    list(propose_shares(Task(TIGHT, FLOW, float("inf"))))
    assert len(evaluated) > 2
    evaluated.clear()
    monkeypatch.setattr("bounds.clock.time", Clock())  # an evaluation takes a second, and so does each look
    list(propose_shares(Task(TIGHT, FLOW, 6)))
    assert len(evaluated) == 2


def declines(task):
    raise BadInput("not here")


class Told(Way):
    """A way that yields what it is told."""

    def __init__(self, name, proposals, *, slows=False, plans=False):
        super().__init__(name, SOLVERS["bound"], "certificate", slows=slows, plans=plans)
        object.__setattr__(self, "proposals", proposals)


def test_methods_that_do_not_apply_get_no_time(monkeypatch):
    given = []

    def measure(task):
        yield Proposal(Alone())
        given.append(task.deadline)

    ways = [Told("a", measure), Told("b", declines), Told("c", measure), Told("d", declines)]
    monkeypatch.setattr("bounds.clock.time", SimpleNamespace(process_time=lambda: 0))  # it stands still
    assert [rung.why_not for rung in rungs(TIGHT, FLOW, ways, time_limit=100)] == ["", "not here", "", "not here"]
    assert given == [12.5, 25]


@pytest.mark.parametrize(("steps", "seen"), [((10, 20, 30), 3), ((10, 11, 30), 2), ((40, 40, 40), 3)])
def test_a_method_that_cannot_reach_what_is_known_ends(monkeypatch, steps, seen):
    """In its second turn: the first step takes more than the first quarter of the time."""
    made, now = [], [0]

    def rise(task):
        for value in steps:
            now[0] += 10 if made else 30
            made.append(value)
            yield Proposal(Alone(), value)

    ways = [Told("known", lambda task: iter([Proposal(Alone(), 35)])), Told("rising", rise, slows=True)]
    monkeypatch.setattr("bounds.clock.time", SimpleNamespace(process_time=lambda: now[0]))
    *_, last = rungs(TIGHT, FLOW, ways, time_limit=100)
    assert last.bound == max(steps[:seen])
    assert made == list(steps[:seen])


def test_every_method_has_a_turn_in_the_first_quarter_and_the_best_has_what_others_leave(monkeypatch):
    """`slow` would take all the time, `late` all that is left; a method that plans begins anew."""
    now, turns = [0.0], []

    def slow(value, name):
        def propose(task):
            while not task.is_over():
                now[0] += 1
                yield Proposal(Alone(), value)
            turns.append((name, now[0]))

        return propose

    def planned(task):
        now[0] = max(now[0], task.deadline)
        turns.append(("planned", now[0]))
        yield Proposal(Alone(), 30)

    ways = [Told("best", slow(40, "best"), slows=True), Told("late", slow(20, "late"), slows=True),
            Told("planned", planned, slows=True, plans=True)]  # fmt: skip
    monkeypatch.setattr("bounds.clock.time", SimpleNamespace(process_time=lambda: now[0]))
    made = list(rungs(TIGHT, FLOW, ways, time_limit=120))
    assert [(rung.method, rung.bound) for rung in made[:3]] == [("best", 40), ("late", 20), ("planned", 30)]
    assert [rung.method for rung in made[3:]] == ["late", "planned", "best"]
    assert turns[0] == ("planned", 30.0)
    assert made[-1].seconds > 40


def test_ctrl_c_in_a_check_that_then_fails_leaves_the_methods_before(monkeypatch):
    tries = iter([KeyboardInterrupt, InvalidCertificate("too large")])

    def fail(*arguments):
        raise next(tries)

    large = Told("large", lambda task: iter([Proposal(Shares(functions=(1024, 0)))]))
    monkeypatch.setattr(Shares, "value", fail)
    made = rungs(TIGHT, FLOW, [WAYS["alone", "bound"], large])
    assert [next(made).method, next(made).bound] == ["alone", None]
    with pytest.raises(KeyboardInterrupt):
        next(made)


@pytest.mark.parametrize(("method", "why"), [
    ("slot-dual", "its weights are too large"),
    ("speed", "a certificate cannot hold its numbers: price.0.: must be less"),
])  # fmt: skip
def test_a_method_whose_numbers_no_certificate_holds_says_so(method, why):
    """Prices follow weights, here the largest; the other methods of the ladder go on."""
    mars = builtin_instance("mars-like:n=20")
    heavy = mars.replace(requests=tuple(request.replace(weight=10**15) for request in mars.requests))
    with pytest.raises(BadInput, match=f"{method}: {why}"):
        climbed(heavy, "weighted-flow-time", time_limit=1e6, method=method)
