"""Every exact method proves the optimum of the exhaustive search, on random tiny instances of every profile.

The methods share the nouns and the referee, and otherwise little: where two disagree, one of them is wrong. CP-SAT
cannot be loaded beside HiGHS; it is compared in `test_cp_sat.py`.
"""

from functools import cache, partial

import pytest

from formulations import PYOMO
from formulations.horizon import sufficient_batches
from kvbound import OBJECTIVES, BadInput, objective_value, verify_schedule
from solvers import milp
from solvers.search import search
from solvers.task import Bound, Found, Task
from tests.exhaustive import TooManyStates, exhaustive_optimum
from tests.tiny_instances import PROFILES, tiny_instance

NAMES = list(OBJECTIVES)
SMALL = {"prompt": (1, 2), "decode": (1, 2)}
MOST_BATCHES = 5
"""What a mixed-integer program solves at once."""


def by_search(instance, objective, optimum):
    """The search over states, from no schedule."""
    found = search(instance, objective)
    return found.schedule, found.bound


def by_milp(formulation, instance, objective, optimum):
    """A formulation on HiGHS, with enough batches for the optimum and one more (if more are of any use)."""
    value, schedule = optimum
    horizon = sufficient_batches(instance, objective, value).batches
    batches = max(len(schedule.batches), min(horizon, len(schedule.batches) + 1))
    if batches > MOST_BATCHES:
        return None
    sent, upper_bound = [], int(value) if value == int(value) else None
    task = Task(instance, objective, formulation, "highs", batches, upper_bound, None, 120.0, 4000, threads=1, seed=0)
    try:
        milp.run(task, sent.append)
    except BadInput:
        return None
    schedules = [message.schedule for message in sent if isinstance(message, Found)]
    return schedules[-1], max(message.value for message in sent if isinstance(message, Bound))


METHODS = {"search": by_search} | {name: partial(by_milp, name) for name in PYOMO}
"""Each takes an instance, an objective and the optimum (value, schedule) of the exhaustive search, and returns its
schedule and its lower bound; or None for what it does not do."""


@cache
def question(profile, seed):
    """An instance, an objective and the optimum; None if the exhaustive search would take long."""
    instance = tiny_instance(seed, **SMALL | PROFILES[profile])
    objective = NAMES[seed % len(NAMES)]
    try:
        return instance, objective, exhaustive_optimum(instance, objective, max_states=1000)
    except TooManyStates:
        return None


def compare(method, profile, seeds):
    """Compare on every seed; return how many answers there were."""
    answers = 0
    for instance, objective, optimum in filter(None, (question(profile, seed) for seed in seeds)):
        answer = METHODS[method](instance, objective, optimum)
        if answer is not None:
            schedule, bound = answer
            value = objective_value(verify_schedule(instance, schedule), objective)
            assert (value, bound) == (optimum[0], optimum[0]), (instance.name, profile, objective)
            answers += 1
    return answers


@pytest.mark.parametrize("method", METHODS)
def test_all_methods_agree(method):
    answers = sum(compare(method, profile, range(8)) for profile in PROFILES)
    assert answers >= (50 if method == "search" else 4)


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("method", METHODS)
def test_all_methods_agree_on_many(method, profile):
    compare(method, profile, range(8, 400))
