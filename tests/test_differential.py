"""Every exact method finds the optimum of the exhaustive search, on random tiny instances of every profile.

Methods share the nouns and the referee, and otherwise little; where two disagree, one of them is wrong.
"""

import pytest

from formulations import FORMULATIONS
from formulations.horizon import sufficient_batches
from kvbound import OBJECTIVES, BadInput, objective_value, verify_schedule
from solvers import milp
from solvers.search import search
from solvers.task import Bound, Found, Task
from tests.exhaustive import TooManyStates, exhaustive_optimum
from tests.tiny_instances import PROFILES, tiny_instance

NAMES = list(OBJECTIVES)


def by_search(instance, objective, value, schedule):
    """The state search, from no schedule at all."""
    found = search(instance, objective)
    assert found.proved
    return found.schedule, found.bound


class ByMilp:
    """A formulation on HiGHS, in this process, with the batches that it proves to be enough for the optimum found."""

    def __init__(self, formulation, most_batches):
        self.formulation = formulation
        self.most_batches = most_batches

    def __call__(self, instance, objective, value, schedule):
        horizon = sufficient_batches(instance, objective, value).batches
        batches = max(len(schedule.batches), min(horizon, len(schedule.batches) + 2))
        if batches > self.most_batches or value != int(value):
            return None
        sent = []
        task = Task(
            instance, objective, self.formulation, "highs", batches, int(value), None, 120.0, 4000, 1, 0
        )
        try:
            milp.run(task, sent.append)
        except BadInput:
            return None
        return sent
