"""Every exact method proves the optimum of the exhaustive search, on random tiny instances of every kind.

The methods share the nouns and the referee, and otherwise little: where two disagree, one of them is wrong. CP-SAT
cannot be loaded beside HiGHS, so it answers in a process of its own. Each test counts what its method answered, and
fails if an objective, a cost or a switch was never among it.
"""

import json
import subprocess
import sys
from collections import Counter
from functools import partial

import numpy as np
import pytest

from formulations import PYOMO, make
from kvcore import Instance, Machine, Request, Segment, Slo, objective_value, verify_schedule
from solvers import milp
from solvers.exact import exact
from solvers.matrix import MatrixModel
from solvers.messages import Bound, Found, SolveJob
from tests.support.boundaries import find
from tests.support.differential import COVERING, MADE, NAMES, SHARED, TRAITS, Question, questions, traits
from tests.support.exhaustive import exhaustive_optimum
from tests.support.few import ALL, few


def by_exact(asked):
    """The exact searches, over slots first where batches last a tick."""
    result = exact(asked.instance, asked.objective)
    return result.schedule, result.certified_bound


def by_events(asked):
    """The search over batch boundaries at once, with no schedule known."""
    found = find(asked.instance, asked.objective)
    return found.schedule, found.bound


def by_milp(formulation, asked):
    """A formulation on HiGHS; every other question comes with the optimum as upper bound."""
    sent, upper_bound = [], asked.optimum if isinstance(asked.seed, int) and asked.seed % 3 else None
    job = SolveJob(
        asked.instance, asked.objective, formulation, "highs", asked.batches, upper_bound, None, 1e6, 4000, 1, 0
    )
    milp.run(job, sent.append)
    schedules = [message.schedule for message in sent if isinstance(message, Found)]
    return schedules[-1], max(message.value for message in sent if isinstance(message, Bound))


METHODS = {"exact": by_exact, "events": by_events} | {name: partial(by_milp, name) for name in PYOMO}
"""Each takes a question and returns its schedule and its lower bound."""


def compare(method, seeds):
    """Ask a method every question of the seeds; return how often each trait was among what it answered."""
    answered = Counter()
    for asked in questions(seeds):
        schedule, bound = METHODS[method](asked)
        value = objective_value(verify_schedule(asked.instance, schedule), asked.objective)
        assert (value, bound) == (asked.optimum, asked.optimum), (asked.seed, asked.objective)
        answered.update(traits(asked), total=1)
    return answered


def compare_cp_sat(seeds):
    """The same for CP-SAT, in its own process, which draws the instances again."""
    asked = questions(seeds)
    sent = json.dumps([(each.seed, each.batches) for each in asked])
    command = [sys.executable, "-m", "tests.support.cp_sat_answers"]
    process = subprocess.run(command, input=sent, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    answers = [tuple(answer) for answer in json.loads(process.stdout)]
    assert answers == [(each.seed, str(each.optimum), str(each.optimum)) for each in asked]
    return sum((Counter([*traits(each), "total"]) for each in asked), Counter())


def missing(answered):
    """Return what a method claims to do and was never asked."""
    return {trait for trait in TRAITS if not answered[trait]}


@pytest.mark.parametrize(("method", "seeds"), [
    ("exact", 600), ("events", 600), ("batch-bigm", 320), pytest.param("batch-bigm:plain", 320, marks=pytest.mark.slow),
])  # fmt: skip
def test_agrees_with_the_exhaustive_search(method, seeds):
    answered = compare(method, drawn_of(seeds))
    assert answered["total"] >= len(drawn_of(seeds)) // 3
    assert missing(answered) == set()


def drawn_of(seeds):
    """Return the seeds below that number; in `make test`, as few as have every trait."""
    return [*MADE, *(range(seeds) if ALL else COVERING)]


def test_cp_sat_agrees_with_the_exhaustive_search():
    pytest.importorskip("ortools", reason="OR-Tools is not installed (extra cp-sat)")
    answered = compare_cp_sat(drawn_of(320))
    assert answered["total"] >= len(drawn_of(320)) // 3
    assert missing(answered) == set()


def test_cp_sat_agrees_on_contents():
    pytest.importorskip("ortools", reason="OR-Tools is not installed (extra cp-sat)")
    seeds = few(range(900), 18)
    answered = compare_cp_sat([f"shared {seed}" for seed in seeds])
    assert answered["total"] >= len(seeds) // 3
    assert {trait for trait in TRAITS | SHARED if not answered[trait]} == set()


def test_big_m_agrees_on_contents():
    seeds = few(range(450), 18)
    ending = [seed for seed in seeds if seed != 178]  # there HiGHS 1.16 ends with an error of its presolve
    answered = compare("batch-bigm", [f"shared {seed}" for seed in ending])
    assert answered["total"] >= len(seeds) // 3
    moved = {"handling swap", "handling free", "handling discard", "block > 1"}
    assert {trait for trait in {*NAMES, *SHARED, *moved} if not answered[trait]} == set()


@pytest.mark.parametrize("method", METHODS)
def test_an_slo_of_no_ticks_is_always_missed(method):
    """TTFT is one tick at least: 0 is a limit, and not the lack of one."""
    request = Request(id="A", prompt=1, slo=Slo(ttft=0), segments=(Segment(decode=1),))
    instance = Instance(machine=Machine(memory=2), requests=(request,))
    value, schedule = exhaustive_optimum(instance, "late-requests")
    asked = Question(0, instance, "late-requests", value, schedule, 1)
    assert METHODS[method](asked)[1] == value == 1


@pytest.mark.parametrize("formulation", PYOMO)
def test_every_column_is_bounded(formulation):
    """HiGHS 1.15 cuts off optima of models with unbounded columns (its issue 3273)."""
    for asked in questions(few(range(64))):
        matrix = MatrixModel(make(formulation, asked.instance, asked.objective, asked.batches).model)
        assert np.isfinite(matrix.lower).all()
        assert np.isfinite(matrix.upper).all()


def test_a_trait_that_was_never_asked_is_noticed():
    assert missing(Counter(dict.fromkeys(TRAITS - {"switch partial=True"}, 1))) == {"switch partial=True"}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("method", [*METHODS, "cp-sat"])
def test_agrees_on_thousands(method, part):
    seeds = range(1000 + 400 * part, 1400 + 400 * part)
    if method == "cp-sat":
        pytest.importorskip("ortools", reason="OR-Tools is not installed (extra cp-sat)")
    answered = compare_cp_sat(seeds) if method == "cp-sat" else compare(method, seeds)
    assert answered["total"] >= 100
