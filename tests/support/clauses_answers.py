"""Solve tiny instances by prices and CP-SAT in a process of its own: OR-Tools and highspy cannot be loaded in one.

`python -m tests.support.clauses_answers PROFILE FIRST END` writes, for each seed from FIRST to END that has an optimum,
that the program alone found, with neither prices nor repairs: the seed, the optimum, the value, and the bound.
"""

import json
import sys

from kvcore import BadInput, objective_value, verify_schedule
from solvers.lagrange.network import PathNetwork
from solvers.lagrange.scope import OBJECTIVES
from solvers.lagrange.solve import PricesAndClauses
from solvers.task import Bound, Found, Task
from tests.support.optima import optima

HERE = {"partial": False, "pause": True, "hybrid": True, "cost": "unit"}


class Alone(PricesAndClauses):
    def _improve(self, seconds):
        pass

    def _find_prices(self, rounds):
        pass


def answer(instance, objective):
    sent = []
    Alone(Task(instance, objective, "arc-flow", "cp-sat", None, None, None, 1e6, 4000, 1, 0), sent.append).run()
    schedules = [message.schedule for message in sent if isinstance(message, Found)]
    value = min(objective_value(verify_schedule(instance, schedule), objective) for schedule in schedules)
    return value, max(message.value for message in sent if isinstance(message, Bound))


def answers(profile, first, end):
    for seed, instance, objective, optimum in optima(profile, range(first, end), OBJECTIVES, 1500, **HERE):
        try:
            PathNetwork(instance, objective)
        except BadInput:
            continue
        yield seed, optimum, *answer(instance, objective)


if __name__ == "__main__":
    json.dump(list(answers(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))), sys.stdout)
