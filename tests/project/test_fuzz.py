"""The harness of random cases: it finds nothing in a few of them, finds what is planted, and makes that small."""

import json
from collections import Counter

import pytest

from kvcore import BadInput, Cost, CostFunction, Request, Segment
from kvcore import referee as validator
from kvcore.certificates import Alone
from kvcore.cost import Features
from tests.fuzz import bounds, certificates, costly, files, kills, optima, policies, records, referee
from tests.fuzz.__main__ import PARTS, replay
from tests.fuzz.case import Case, Wrong, judge
from tests.fuzz.report import State
from tests.fuzz.run import look
from tests.fuzz.shrink import shrink, simpler

SEED = 5


def found(part, numbers):
    """Return the first finding among the cases of some numbers."""
    cases = (case for number in numbers for case in part.cases(SEED, number))
    return next((wrong for case in cases if (wrong := judge(part, case, Counter())) is not None), None)


@pytest.fixture
def cheap(monkeypatch):
    """Leave out the bounds that take seconds to load."""
    kept = {name: bounds.METHODS[name] for name in ("alone", "shares", "events")}
    monkeypatch.setattr(bounds, "METHODS", kept)


@pytest.mark.parametrize(
    ("part", "number", "least"),
    [(referee.PART, 2, 20), (optima.PART, 2, 1), (bounds.PART, 3, 2), (certificates.PART, 5, 2), (costly.PART, 7, 6),
     (policies.PART, 2, 2), (files.PART, 2, 13),
     (kills.PART, 1, 1), (records.PART, 1, 1)],
    ids=lambda value: getattr(value, "name", ""),
)  # fmt: skip
def test_a_few_cases_of_every_part(part, number, least, cheap):
    """The same cases every time: what is drawn depends on the seed, the part and the number alone."""
    seen = [Counter(), Counter()]
    for each in range(number):
        cases = [list(part.cases(SEED, each)) for _ in seen]
        assert cases[0] == cases[1]
        assert [judge(part, case, seen[0]) for case in cases[0]] == [None] * len(cases[0])
    assert seen[0]["answered"] >= least


def test_a_wrong_referee_is_found_and_made_small(monkeypatch):
    """It takes one token too many for the host."""
    honest = validator.verify_schedule

    def generous(instance, schedule):
        machine = instance.machine
        more = machine.replace(host_memory=machine.host_memory and machine.host_memory + 1)
        with_more = instance.replace(machine=more)
        return honest(with_more, schedule.model_copy(update={"instance_sha256": with_more.sha256}))

    monkeypatch.setattr(validator, "verify_schedule", generous)
    part = referee.PART
    wrong = found(part, range(225, 240))
    assert wrong.kind == "referee is wrong about R7"
    small = shrink(part, wrong)
    assert small.kind == wrong.kind
    assert len(small.case.instance.requests) <= 2
    assert len(small.case.schedule.batches) <= 4


def test_a_wrong_bound_is_found_made_small_and_looked_at_again(monkeypatch, tmp_path, capsys, cheap):
    """A makespan that is one too large where a request weighs more than 1."""
    honest = Alone.value

    def wrong(proof, instance, objective):
        heavy = any(request.weight > 1 for request in instance.requests)
        return honest(proof, instance, objective) + (heavy and objective == "makespan")

    monkeypatch.setattr(Alone, "value", wrong)
    state, sent = State(tmp_path, SEED), []
    look(bounds.PART, SEED, 13, Counter(), sent.append)
    (_, number, first), *_, (_, _, small), (_, _, seen, kinds, _) = sent
    assert first.kind == small.kind == "bound alone above the optimum"
    request = Request(id="R1", prompt=1, weight=2, segments=(Segment(decode=1),))
    assert small.case.instance.requests == (request,)
    state.take("bounds", number, seen, kinds)
    file = state.write("bounds", number, small)
    assert replay(file) == 1
    assert "above the optimum" in capsys.readouterr().out
    monkeypatch.setattr(Alone, "value", honest)
    assert replay(file) == 0
    assert json.loads(file.read_text())["number"] == number


def test_what_is_made_smaller_is_what_its_file_says():
    """A function of the cost keeps nothing of the one that it was made of."""
    case = next(policies.PART.cases(SEED, 0))
    case = case.of(case.instance.replace(cost=Cost((CostFunction(busy=2, tokens=3),))))
    assert case.instance.cost.duration(Features(busy=1, tokens=1)) == 5
    for less in simpler(case):
        again = Case.read(less.document())
        assert [f.terms for f in less.instance.cost.functions] == [f.terms for f in again.instance.cost.functions]


def test_a_run_goes_on_where_it_was_stopped(tmp_path):
    state = State(tmp_path, SEED)
    state.take("referee", 0, {"answered": 3, "valid": 1}, ["hangs"])
    state.save()
    state = State(tmp_path, SEED)
    state.take("referee", 1, {"answered": 2}, ["hangs"])
    kept = state.of("referee")
    assert (kept["next"], kept["seen"], kept["findings"]) == (2, {"answered": 5, "valid": 1}, {"hangs": 2})
    table = state.table(PARTS)
    assert "NEVER REACHED  referee: breaks R7" in table
    assert "FOUND      2  referee: hangs" in table
    with pytest.raises(ValueError, match=r"is of seed 5, not 6; give another --out"):
        State(tmp_path, SEED + 1)


def test_whatever_is_raised_is_a_finding(monkeypatch):
    """An error that nobody expected is one, and is named by its place; a policy's is named by the policy."""
    case = next(policies.PART.cases(SEED, 0))
    monkeypatch.setattr(policies, "trace_policy", lambda *_: 1 / 0)
    assert judge(policies.PART, case, Counter()).kind == "ZeroDivisionError in test_fuzz.py <lambda>"
    monkeypatch.setattr(policies, "trace_policy", lambda *_: (_ for _ in ()).throw(BadInput("no")))
    assert judge(policies.PART, case, Counter()).kind.startswith("BadInput")
    assert Case.read(case.document()) == case
    assert str(Wrong("kind", 3)) == "kind: 3"
