"""Hypotheses on slices of real traces: what they count, on slices that need no data, and on a few that do."""

from dataclasses import replace
from fractions import Fraction

import pytest

from hypotheses import Case, Fails, Family, Hypothesis, Undecided, check, enumerated, shipped
from hypotheses.page import page, read_records
from hypotheses.predicates import optimal, run
from hypotheses.slices import LONG, SMALL
from hypotheses.small_instances import calling, plain, with_machine
from hypotheses.tallies import INDICES, any_handling, any_order, best_of, best_stays_best, kv_time, lower_in_sum
from kvcore.instance import Machine
from tests.support.data import MIXTURE, real

REAL = [name for name in shipped() if name.startswith("real-")]
TIGHT = Machine(memory=6, host_memory=2, batch_tokens=3)


def stand_ins():
    """Return two small instances with calls, on machines that all the policies run on."""
    sizes = ((1, 2, 3, 0, 1), (2, 1, 2, 1, 2), (1, 1, 4, 0, 1))
    return tuple(calling(sizes, TIGHT.replace(memory=memory, batch_tokens=memory, evict=True)) for memory in (6, 7))


def odd(case):
    output = Fraction(case.instance.requests[0].output)
    return Fails(f"{output} is even", (), output) if output % 2 == 0 else output


def test_with_every_all_cases_are_judged_and_counted():
    family = enumerated("five", lambda: [plain([(1, n)], 9) for n in (4, 3, 1, 2, 5)])
    verdict = check("x", Hypothesis("a claim", "a test", "refuted", family, odd, every=True))
    row = verdict.row()
    assert (row["verdict"], row["held"], row["failed"], row["all_judged"]) == ("refuted", 3, 2, True)
    assert (row["largest"], row["mean"], row["why"]) == ("5", "3.0000", "2 is even")
    assert [instance.requests[0].output for instance in verdict.failing] == [2]
    assert "3 cases held, 2 failed (the smallest is shown); the largest number is 5, the mean 3.0000." in page([row])
    first = check("x", Hypothesis("a claim", "a test", "refuted", family, odd))
    assert (first.held, first.failed, first.largest) == (1, 1, 1)


def test_what_a_predicate_says_of_a_case_that_holds_is_kept():
    family = enumerated("one", lambda: [plain([(1, 1)], 9)])
    row = check("x", Hypothesis("a claim", "a test", "proved", family, lambda case: "three of four")).row()
    assert (row["verdict"], row["why"], row["counterexample"]) == ("proved", "three of four", None)
    assert "* Found: three of four." in page([row])


def test_an_optimum_is_solved_once(monkeypatch):
    case = Case(stand_ins())
    monkeypatch.setattr("hypotheses.case._FOUND", {})
    held = case.optimum()
    monkeypatch.setattr("hypotheses.case.exact", lambda *_, **__: pytest.fail("it was solved again"))
    assert case.optimum() == held
    assert held.certificate is not None


def test_kv_time_by_hand():
    """Prompt 2, two decodes (2 + 3 tokens), a call of 5 ticks at 3 tokens, 1 returned, then one decode at 5."""
    request = calling([(2, 2, 5, 1, 1)], TIGHT).requests[0]
    assert kv_time(request) == 2 + 3 + 5 * 3 + 5
    assert {name: index(request) for name, index in INDICES.items()} == {
        "arrival": 0, "prompt": 2, "output": 3, "tokens": 5, "calls": 1, "call time": 5, "time alone": 8, "KV-time": 25,
    }  # fmt: skip


def test_any_order_and_any_handling_are_no_worse_than_neither_and_no_better_than_the_optimum():
    for instance in stand_ins():
        case = Case((with_machine(instance, evict=False),))
        kept = case.policy("fcfs", case.instance.with_calls_handled("preserve"))
        for freed in (any_order, any_handling):
            assert case.optimum().value <= best_of("best", freed)(case).value <= kept.value
        assert len(list(any_order(case))) == 6


def test_sums_are_compared_and_the_worst_slice_is_shown():
    slow, fast = (plain([(3, 3), (3, 1), (3, 1)], memory) for memory in (5, 20))
    judge = lower_in_sum(run("fcfs"), run("sjf"), optimal())
    answer = judge(Case((slow, fast)))
    assert isinstance(answer, Fails)
    assert answer.why.startswith("fcfs is lower on 0, higher on 1, the same on 1; sums over that of sjf: fcfs 1.")
    assert (answer.shown, [held.label for held in answer.evidence]) == ((slow,), ["fcfs", "sjf"])
    assert lower_in_sum(run("sjf"), run("fcfs"))(Case((slow,))).startswith("sjf is lower on 1, higher on 0")


def test_the_best_of_one_half_is_looked_for_on_the_other():
    short, long = plain([(3, 3), (3, 1), (3, 1)], 5), plain([(3, 1), (3, 1), (3, 3)], 5)
    longest = {"sjf": run("sjf"), "fcfs": run("fcfs")}
    said = best_stays_best(longest, optimal())(Case((short, short, long, short)))
    assert said.startswith("mean ratios to the best on the halves: sjf 1.0000 and 1.0000, fcfs ")
    assert said.endswith("as good as it on sjf 4, fcfs 1")
    last = {"fcfs": run("fcfs"), "a": run("fcfs", change=lambda i: i.replace(requests=i.requests[::-1]))}
    answer = best_stays_best(last)(Case((long, short)))
    assert isinstance(answer, Fails)
    assert answer.shown == (short,)


def test_open_slices_are_left_out_and_said():
    small, other = plain([(3, 3), (3, 1), (3, 1)], 5), plain([(1, 1)], 9)

    def open_on_one(case):
        if case.instance is other:
            raise Undecided("open")
        return case.policy("sjf")

    assert "the same on 0, 1 left open; sums" in lower_in_sum(open_on_one, run("fcfs"))(Case((small, other)))
    with pytest.raises(Undecided, match="no slice was decided"):
        lower_in_sum(open_on_one, run("fcfs"))(Case((other,)))


@pytest.mark.parametrize("name", REAL)
def test_every_predicate_runs_without_the_data(name):
    loaded = shipped()[name]
    family = Family("stand-ins", lambda: stand_ins() if loaded.every else [stand_ins()])
    verdict = check(name, replace(loaded, family=family, states="refuted"))
    assert verdict.held + verdict.failed == (2 if loaded.every else 1)
    assert verdict.undecided == 0


@pytest.mark.parametrize(
    ("kind", "trace"),
    [
        pytest.param(kind, trace, marks=() if (kind is SMALL and trace == "mixture") else pytest.mark.slow)
        for kind in (SMALL, LONG) for trace in kind
    ],
)  # fmt: skip
def test_a_seed_gives_its_slice(kind, trace, monkeypatch):
    monkeypatch.setenv("KVBOUND_DATA", str(real(MIXTURE).parents[1]))
    make = kind[trace][1]
    one = make(7)
    assert one == make(7) != make(8)
    if kind is SMALL:
        assert one.requests[0].arrival == 0
        assert one.machine.memory == -(-3 * max(request.peak for request in one.requests) // 2)
        assert one.machine.memory <= one.machine.batch_tokens, (
            "the search is fast where a batch takes what memory holds"
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REAL if shipped()[name].every])
def test_the_smallest_slices_give_their_record(name, monkeypatch):
    monkeypatch.setenv("KVBOUND_DATA", str(real(MIXTURE).parents[1]))
    record = next(row for row in read_records() if row["hypothesis"] == name)
    verdict = check(name, shipped()[name], take=3)
    assert verdict.undecided == 0
    if verdict.failed:
        assert (verdict.row()["why"], verdict.row()["counterexample"]) == (record["why"], record["counterexample"])
    assert verdict.held <= record["held"]
    assert verdict.failed <= record["failed"]
