"""Every ratio of `docs/worst.md`, computed anew, and the built-in instances that it is about."""

import re
from fractions import Fraction

import pytest

from benchmarks.worst import PAGE, family, small_family
from heuristics import get_policy
from hypotheses.search import Optima, judge, search
from kvcore.errors import BadInput
from tests.support.exhaustive import exhaustive_optimum
from workloads.builtin import WORST_OBJECTIVES, WORST_POLICIES, WORST_SIZES, builtin_instance

TEXT = PAGE.read_text(encoding="utf-8")
CELLS = [(policy, objective) for objective in WORST_OBJECTIVES for policy in WORST_POLICIES]


def table(heading):
    """Return the ratios of the table under a heading, by policy and objective."""
    section = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([\w-]+) \| ([\w-]+) \| ([\d/| ]+) \|$", section, re.MULTILINE)
    return {
        (policy, objective): [Fraction(cell.strip()) for cell in cells.split("|")] for policy, objective, cells in rows
    }


FOUND, WHOLE = table("The worst that were found"), table("A small family, whole")


def shipped(policy, objective, n):
    return builtin_instance(f"worst-{policy}-{objective}:n={n}")


def test_the_tables_have_a_row_for_every_policy_and_objective():
    assert list(FOUND) == list(WHOLE) == CELLS
    assert {len(row) for row in FOUND.values()} == {len(WORST_SIZES)}
    assert {len(row) for row in WHOLE.values()} == {1}


@pytest.mark.parametrize("objective", WORST_OBJECTIVES)
def test_every_ratio_of_the_table_is_that_of_its_instance_and_proved(objective):
    optima = Optima(objective)
    for policy in WORST_POLICIES:
        claims = [judge(shipped(policy, objective, n), get_policy(policy), optima).certified() for n in WORST_SIZES]
        assert [claim.ratio for claim in claims] == FOUND[policy, objective], policy


@pytest.mark.parametrize("n", [2, pytest.param(3, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("objective", WORST_OBJECTIVES)
def test_their_optima_are_those_of_another_search(objective, n):
    optima = Optima(objective)
    for policy in WORST_POLICIES if n > 2 else WORST_POLICIES[:2]:
        instance = shipped(policy, objective, n)
        assert exhaustive_optimum(instance, objective)[0] == optima.of(instance).value, policy


@pytest.mark.parametrize("n", WORST_SIZES)
def test_they_lie_in_the_family_that_the_page_describes(n):
    bounds = family(n)
    for policy, objective in CELLS:
        instance = shipped(policy, objective, n)
        assert instance.machine.replace(memory=None) == bounds.machine
        assert instance.machine.memory <= bounds.memory
        assert len(instance.requests) <= n
        for request in instance.requests:
            assert request.prompt <= bounds.prompt
            assert request.arrival <= bounds.arrival
            assert len(request.calls) <= bounds.calls
            assert all(segment.decode <= bounds.decode for segment in request.segments)
            assert all(c.duration <= bounds.duration and c.returns <= bounds.returns for c in request.calls)
            assert all(call.handling == bounds.handling for call in request.calls)


def test_more_requests_are_no_better():
    assert all(row == sorted(row) for row in FOUND.values())


def test_other_sizes_are_refused():
    with pytest.raises(BadInput, match="worst-fcfs-makespan: n is one of 2, 3, 4, not 5"):
        builtin_instance("worst-fcfs-makespan:n=5")
    with pytest.raises(BadInput, match=r"no built-in instance is called 'worst-fcfs'; .*, worst-POLICY-OBJECTIVE"):
        builtin_instance("worst-fcfs")


@pytest.mark.slow
@pytest.mark.parametrize("objective", WORST_OBJECTIVES)
def test_the_worst_of_the_small_family_are_those_of_the_page(objective):
    optima = Optima(objective)
    for policy in WORST_POLICIES:
        seen = search(small_family(3), policy, objective, optima=optima)
        assert seen.complete == [1, 2, 3]
        assert seen.claim is not None
        assert [seen.claim.ratio] == WHOLE[policy, objective], policy
