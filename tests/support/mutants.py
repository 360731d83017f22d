"""Planted errors: one constraint of a formulation dropped or shifted, one piece of the search switched or moved.

A mutant is caught by a question if the answer is not the optimum of the exhaustive search with a valid schedule.
`python -m tests.support.mutants FORMULATION [FIRST LAST TRIES]` looks for questions that catch its mutants and prints
them as rows of `tests/data/killers.csv`.
"""

import sys
from collections import Counter
from typing import NamedTuple

import pyomo.environ as pyo
from pyomo.common.errors import InfeasibleConstraintException

from formulations import make
from kvcore import InvalidSchedule, objective_value, verify_schedule
from solvers import highs
from solvers.matrix import MatrixModel
from solvers.messages import SolveJob
from tests.support.differential import MADE, question

KINDS = ("dropped", "tighter", "looser")
"""What is done to all rows of a constraint; an equation has no tighter side, and is shifted up or down."""


class Mutant(NamedTuple):
    """A constraint (by the name of its method) and what is done to it."""

    constraint: str
    kind: str


def program_of(formulation, asked):
    """Return the model of a question, with its upper bound for every second seed."""
    upper_bound = asked.optimum if isinstance(asked.seed, int) and asked.seed % 2 else None
    return make(formulation, asked.instance, asked.objective, asked.batches, upper_bound=upper_bound)


def mutants_of(program):
    """Return the mutants of a model: for every constraint that has rows in it, one of each kind."""
    names = [rows.name for rows in program.model.component_objects(pyo.Constraint) if len(rows)]
    return [Mutant(name, kind) for name in names for kind in KINDS]


def mutate(program, mutant):
    """Plant the error; return a function that takes it back."""
    rows = list(program.model.component(mutant.constraint).values())
    before = [(row, (row.lower, row.body, row.upper)) for row in rows]
    step = {"dropped": 0, "tighter": -1, "looser": 1}[mutant.kind]
    for row, (lower, body, upper) in before:
        if mutant.kind == "dropped":
            row.deactivate()
        elif row.equality:
            row.set_value(body == upper + step)
        else:
            low, high = (None if lower is None else lower - step), (None if upper is None else upper + step)
            row.set_value((low, body, high))

    def undo():
        for row, (lower, body, upper) in before:
            row.activate()
            row.set_value(body == upper if lower is not None and upper is not None else (lower, body, upper))

    return undo


def answer(program, asked):
    """Solve the model with HiGHS; return the referee's value of its schedule and its bound, or why there is none."""
    try:
        matrix, found, bounds = MatrixModel(program.model), [], []
    except InfeasibleConstraintException:  # a row without variables is broken
        return "infeasible", None
    job = SolveJob(asked.instance, asked.objective, program.name, "highs", 1, None, None, 1e6, 4000, 1, 0)
    done = highs.minimise(matrix, job, found.append, bounds.append)
    if done.infeasible or not found:
        return "infeasible", None
    for variable in program.model.component_data_objects(pyo.Var):  # what no row mentions any more is no column
        variable.set_value(variable.lb or 0, skip_validation=True)
    matrix.load(found[-1])
    try:
        value = objective_value(verify_schedule(asked.instance, program.schedule()), asked.objective)
    except InvalidSchedule as broken:
        return f"R{broken.rule}", None
    return value, program.objective_bound(bounds[-1])


def is_caught(program, asked, mutant):
    """Whether the planted error changes the answer."""
    undo = mutate(program, mutant)
    try:
        return answer(program, asked) != (asked.optimum, asked.optimum)
    finally:
        undo()


def killers(formulation, seeds, tries, only=()):
    """Yield each mutant with the first seed whose question catches it, and at the end those that none caught (None).

    A mutant that survived `tries` questions is not tried again.
    """
    caught, alive = set(), Counter()
    for asked in filter(None, map(question, seeds)):
        program = program_of(formulation, asked)
        for mutant in mutants_of(program):
            if mutant in caught or alive[mutant] >= tries or (only and "/".join(mutant) not in only):
                continue
            if is_caught(program, asked, mutant):
                caught.add(mutant)
                yield mutant, asked.seed
            else:
                alive[mutant] += 1
    yield from ((mutant, None) for mutant in sorted(alive.keys() - caught))


def main(formulation, first="0", last="200", tries="20", *only):
    numbers = range(int(first), int(last))
    seeds = [*MADE, *numbers, *(f"shared {number}" for number in numbers)]
    for mutant, seed in killers(formulation, seeds, int(tries), only):
        print(formulation, *mutant, seed, sep=",", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
