"""Solve tiny instances with CP-SAT in a process of its own: OR-Tools and highspy cannot be loaded in one.

`python -m tests.support.cp_sat_answers` reads a JSON list of (seed, batches) and writes, for each, the seed, the value
that CP-SAT proved, and the referee's value of its schedule (or the rule that it breaks).
"""

import json
import sys

from formulations.cp_sat import CpSat, cp_model
from kvcore import InvalidSchedule, objective_value, verify_schedule
from tests.support.differential import drawn


def answer(seed, batches):
    instance, objective = drawn(seed)
    program = CpSat(instance, objective, batches)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(program.model)
    if status != cp_model.OPTIMAL:
        return seed, solver.status_name(status), None
    proved = program.objective_value(round(solver.objective_value))
    try:
        value = objective_value(verify_schedule(instance, program.schedule(solver.value)), objective)
    except InvalidSchedule as broken:
        return seed, str(proved), str(broken)
    return seed, str(proved), str(value)


if __name__ == "__main__":
    json.dump([answer(*question) for question in json.load(sys.stdin)], sys.stdout)
