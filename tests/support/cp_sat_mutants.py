"""Planted errors in the constraint program, in a process of its own (see `cp_sat_answers`).

Every statement that adds a constraint is a place, named after its method and its number there, as in `working/3`, with
the limit that it is for. A mutant drops all that is added there, or moves the finite ends of its linear constraints by
one, up or down. `python -m tests.support.cp_sat_mutants` reads a JSON list of (place, kind, seed) and writes which of
them are caught; with arguments FIRST LAST TRIES it looks for questions that catch each mutant, and prints them.
"""

import ast
import inspect
import json
import sys
from collections import Counter, defaultdict

from formulations import cp_sat
from formulations.cp_sat import CpSat, cp_model
from kvcore import InvalidSchedule, objective_value, verify_schedule
from kvcore.limits import Limit
from tests.support.differential import MADE, drawn, question

KINDS = ("dropped", "up", "down")
ADDS = (
    "add", "add_bool_and", "add_bool_or", "add_implication", "add_max_equality", "add_min_equality",
    "add_multiplication_equality",
)  # fmt: skip
FORMS = ("linear", "bool_and", "bool_or", "lin_max", "int_prod")
INFINITE = 2**62


def places():
    """Return the name of the place of each statement that adds a constraint, by its first line."""
    found = {}
    tree = ast.parse(inspect.getsource(cp_sat))
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
        lines = {c.lineno for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr in ADDS}
        found |= {line: f"{function.name}/{k}" for k, line in enumerate(sorted(lines), 1)}
    return found


PLACES = places()
ADDED = defaultdict(list)
"""The indices of the constraints of the latest model, by place."""


def note(name):
    """Wrap a method of CpModel so that it notes where it is called from."""
    original = getattr(cp_model.CpModel, name)

    def noted(model, *arguments):
        frame = sys._getframe(1)
        place, limit = PLACES.get(frame.f_lineno), frame.f_locals.get("limit")
        place = f"{place}/{limit.key}" if isinstance(limit, Limit) else place
        ADDED[place].append(len(model.Proto().constraints))
        return original(model, *arguments)

    return noted


def program_of(seed, batches):
    """Return the program of a question, and the constraints by place; every second has the optimum as upper bound."""
    ADDED.clear()
    instance, objective = drawn(seed)
    bound = question(seed).optimum if isinstance(seed, int) and seed % 2 else None
    return CpSat(instance, objective, batches, upper_bound=bound), {p: list(a) for p, a in ADDED.items() if p}


def plant(constraint, kind):
    """Drop a constraint, or move its ends."""
    if kind == "dropped":
        for form in FORMS:
            if getattr(constraint, f"has_{form}")():
                getattr(constraint, f"clear_{form}")()
    elif constraint.has_linear():
        domain = constraint.linear.domain
        for k, end in enumerate(list(domain)):
            if abs(end) < INFINITE:
                domain[k] = end + (1 if kind == "up" else -1)


def is_caught(place, kind, seed):
    """Whether the planted error changes the answer; None if it changes no constraint of this model."""
    asked = question(seed)
    program, added = program_of(seed, asked.batches)
    constraints = [program.model.Proto().constraints[k] for k in added.get(place, ())]
    if not any(kind == "dropped" or constraint.has_linear() for constraint in constraints):
        return None
    for constraint in constraints:
        plant(constraint, kind)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    if solver.solve(program.model) != cp_model.OPTIMAL:
        return True
    proved = program.objective_value(round(solver.objective_value))
    try:
        trace = verify_schedule(asked.instance, program.schedule(solver.value))
    except InvalidSchedule:
        return True
    return not proved == objective_value(trace, asked.objective) == asked.optimum


def scan(first, last, tries):
    """Print each mutant with the first seed that catches it, and at the end those that none does."""
    alive, caught = Counter(), set()
    seeds = [*MADE, *range(first, last), *(f"shared {seed}" for seed in range(first, last))]
    for asked in filter(None, map(question, seeds)):
        _, added = program_of(asked.seed, asked.batches)
        for mutant in ((place, kind) for place in sorted(added) for kind in KINDS):
            if mutant in caught or alive[mutant] >= tries:
                continue
            outcome = is_caught(*mutant, asked.seed)
            if outcome:
                caught.add(mutant)
                print("cp-sat", *mutant, asked.seed, sep=",", flush=True)
            elif outcome is False:
                alive[mutant] += 1
    for mutant in sorted(alive.keys() - caught):
        print("cp-sat", *mutant, None, sep=",")


if __name__ == "__main__":
    for name in ADDS:
        setattr(cp_model.CpModel, name, note(name))
    if len(sys.argv) > 1:
        scan(*map(int, sys.argv[1:]))
    else:
        json.dump([is_caught(*mutant) for mutant in json.load(sys.stdin)], sys.stdout)
