"""Solve tiny instances by prices and CP-SAT in a process of its own: OR-Tools and highspy cannot be loaded in one.

`python -m tests.support.slot_flow_answers FIRST END PROFILE ..` writes by profile, for each seed from FIRST to END that
has an optimum, what the flow alone found, without repairs and with prices drawn at random: seed, optimum, value, and
bound. The objectives take turns. Those of "budgets" have token budgets that bind although every prefill fits; of
"no-pause" neither budgets nor `pause`.
"""

import json
import sys
from contextlib import suppress

import numpy as np

from kvcore import BadInput, objective_value, verify_schedule
from kvcore.certificates.slot_search import SlotSearch, Vector
from kvcore.limits import SHARED
from kvcore.metrics import FLOWS
from solvers.messages import Bound, Found, SolveJob
from solvers.slot_flow.solve import SlotFlow
from solvers.ways import SLOT_FLOW
from tests.support.drawer import tiny_instance
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.optima import optima

ROOMY = {"partial": False, "pause": True, "hybrid": True, "cost": "unit"}
NO_PAUSE = {"pause": False, "batch_tokens": None, "prefill_tokens": None, "batch_requests": None, "calls": (0, 1)}


class Drawn(SlotFlow):
    def _improve(self, seconds):
        pass

    def _priced(self, solver, rounds):
        search = SlotSearch(solver.local, self.cutoff, solver.options.scale)
        draw = np.random.default_rng(self.cutoff)
        prices = draw.integers(0, draw.integers(1, 20), (SHARED, search.slots)) * (solver.local.limits > 0)[:, None]
        search.add(Vector(0, prices * (draw.random(prices.shape) < 0.3)))
        return search


def answer(instance, objective):
    sent = []
    Drawn(SolveJob(instance, objective, "arc-flow", "cp-sat", None, None, None, 1e6, 4000, 1, 0), sent.append).run()
    schedules = [message.schedule for message in sent if isinstance(message, Found)]
    value = min(objective_value(verify_schedule(instance, schedule), objective) for schedule in schedules)
    return value, max(message.value for message in sent if isinstance(message, Bound))


def budgets(seeds):
    """Yield what `optima` does."""
    fixed = ROOMY | {"chunked": True, "batch_requests": None, "prefill_tokens": None, "calls": (0, 1)}
    for seed in seeds:
        instance = tiny_instance(seed, **fixed)
        peak = max(request.peak for request in instance.requests)
        instance = instance.replace(machine=instance.machine.replace(batch_tokens=peak))
        with suppress(TooManyStates):
            yield seed, instance, FLOWS[0], exhaustive_optimum(instance, FLOWS[0], max_states=1500)[0]


def answers(profile, first, end):
    seeds = range(first, end)
    fixed, drawn = (ROOMY | NO_PAUSE, "any") if profile == "no-pause" else ({"cost": "unit"}, profile)
    asked = budgets(seeds) if profile == "budgets" else optima(drawn, seeds, FLOWS, 1500, **fixed)
    for seed, instance, objective, optimum in asked:
        if SLOT_FLOW.declines(instance, objective):
            continue
        with suppress(BadInput):
            yield seed, str(optimum), *map(str, answer(instance, objective))


if __name__ == "__main__":
    first, end, *profiles = sys.argv[1:]
    json.dump({profile: list(answers(profile, int(first), int(end))) for profile in profiles}, sys.stdout)
