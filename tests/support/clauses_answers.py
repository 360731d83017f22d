"""Solve tiny instances by prices and CP-SAT in a process of its own: OR-Tools and highspy cannot be loaded in one.

`python -m tests.support.clauses_answers FIRST END PROFILE ..` writes by profile, for each seed from FIRST to END that
has an optimum, what the program alone found, with neither prices nor repairs: seed, optimum, value, and bound. Those of
"budgets" have token budgets that bind although every prefill fits; of "no-pause" neither budgets nor `pause`.
"""

import json
import sys
from contextlib import suppress

from kvcore import BadInput, objective_value, verify_schedule
from solvers.lagrange.network import PathNetwork
from solvers.lagrange.scope import OBJECTIVES
from solvers.lagrange.solve import PricesAndClauses
from solvers.task import Bound, Found, Task
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.optima import optima
from tests.support.tiny_instances import tiny_instance

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


def budgets(seeds):
    """Yield what `optima` does."""
    fixed = HERE | {"chunked": True, "batch_requests": None, "prefill_tokens": None, "calls": (0, 1)}
    for seed in seeds:
        instance = tiny_instance(seed, **fixed)
        peak = max(request.peak for request in instance.requests)
        instance = instance.replace(machine=instance.machine.replace(batch_tokens=peak))
        with suppress(TooManyStates):
            yield seed, instance, OBJECTIVES[0], exhaustive_optimum(instance, OBJECTIVES[0], max_states=1500)[0]


NO_PAUSE = {"pause": False, "batch_tokens": None, "prefill_tokens": None, "batch_requests": None, "calls": (0, 1)}


def answers(profile, first, end):
    seeds = range(first, end)
    fixed, drawn = (HERE | NO_PAUSE, "any") if profile == "no-pause" else (HERE, profile)
    asked = budgets(seeds) if profile == "budgets" else optima(drawn, seeds, OBJECTIVES, 1500, **fixed)
    for seed, instance, objective, optimum in asked:
        try:
            PathNetwork(instance, objective)
        except BadInput:
            continue
        yield seed, optimum, *answer(instance, objective)


if __name__ == "__main__":
    first, end, *profiles = sys.argv[1:]
    json.dump({profile: list(answers(profile, int(first), int(end))) for profile in profiles}, sys.stdout)
