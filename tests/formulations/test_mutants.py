"""A planted error in any one formulation is caught: each mutant gives a wrong answer to a question listed for it.

What survives is listed here too, with its reason: rows that only tighten, and rows that others imply. Dropping these
must change no optimum, and a step in the wrong direction must be caught.
"""

import csv
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pyomo.environ as pyo
import pytest

from kvcore.limits import BUDGETS
from tests.support.differential import question, questions
from tests.support.few import ALL, few
from tests.support.mutants import KINDS, Mutant, answer, is_caught, mutants_of, mutate, program_of

KILLERS = {"batch-bigm": {}, "batch-bigm:plain": {}, "cp-sat": {}}
"""Planted errors by model: the place, what is done to it, and the question that catches it.

Those of contents, which nothing tightens, are the plain model's.
"""
with (Path(__file__).parents[1] / "data" / "killers.csv").open() as rows:
    for model, place, kind, found in list(csv.reader(rows))[1:]:
        KILLERS[model][place, kind] = int(found) if found.isdigit() else found
CP_SAT = KILLERS["cp-sat"]
MODELS = {model: KILLERS[model] for model in ("batch-bigm", "batch-bigm:plain")}

TIGHTENS = {
    "batch-bigm": {
        "batch_order", "batches_until_the_end", "generation_packing", "identical_requests_end_in_order",
        "longest_flow_of_the_last", "no_pause_by_token", "pairs_by_token", "phase_tokens", "prefill_batches",
        "prefills_fit", "progress_takes_time", "resident_packing", "rest_takes_time", "some_phase", "time_is_spent",
        "tokens_by_token",
    },
    "batch-bigm:plain": {"batch_order"},
}  # fmt: skip
"""Rows that only cut off fractional solutions or symmetric ones: loosened or dropped, the optimum stays."""

IMPLIED = {
    "batch-bigm": {
        "call_before_next_token": "readiness forbids the work that would generate the token",
        "device_memory": "the packing rows bound the contexts of those who generate",
        "extension_phase": "phase_tokens and tokens_to_process together leave no prefill of one token",
        "least_duration": "progress_takes_time and rest_takes_time ask for as much of every batch with work",
        "readiness": "call_before_next_token and the windows forbid the tokens",
        "time_of_token": "time_is_spent adds up to the same time",
        "token_order": "token_generation asks for the context of the token that is made, in order",
        "work_takes_tokens": "token_generation asks for tokens where one is generated",
    }
}
"""Rows that the tightening rows imply on every small question; the plain model, which has none, needs them."""

SURVIVES = {
    ("prefill_batches", "tighter"): "more prefills than needed are free wherever another one is in the batch",
    ("pairs_of_fresh_prefills", "looser"): "pairs_by_token asks for the pair, unless KV is recomputed",
}
"""Single mutants that no question caught, with the reason."""

NOT_NEEDED = {
    "__init__/1": "the upper bound only helps",
    "calls/1": "a start after the return comes after the end of the segment",
    "calls/3": "a call that counts as running forbids more and allows nothing",
    "duration_is_the_cost/2": "a longer batch gains nothing",
    "identical_requests_end_in_order/1": "symmetry",
    "moving/4": "what is left on the device and the host is not negative",
    "moving/6": "what is left on the host is not negative",
    "moving/7": "unused batches come last",
    "progress/4": "one side of an equivalence: first_token gains nothing from being set twice",
    "progress/5": "the same",
    "rule_9_handling/2": "nobody has KV in the first batch",
    "rule_9_handling/5": "a call starts with no KV on the host",
    "time/2": "symmetry: unused batches come last",
    "working/5": "working/8 and working/9 say it case by case",
    "working/7": "whoever is ready has a token to process",
}
"""Statements of the constraint program that its other statements imply, or that allow only what gains nothing."""


def cases():
    """Every mutant with a question that catches it."""
    return [(model, *mutant, seed) for model, table in MODELS.items() for mutant, seed in table.items()]


@cache
def program(model, seed):
    """The model of a question."""
    return program_of(model, question(seed))


@cache
def constraints(model):
    """All constraints that some question has rows of."""
    asked = [*questions(range(60)), *map(question, sorted({*MODELS[model].values()}, key=str))]
    programs = [program_of(model, each) for each in asked if each is not None]
    return {mutant.constraint for built in programs for mutant in mutants_of(built)}


PLAIN_LATER = [pytest.param(m, marks=pytest.mark.slow) if m.endswith(":plain") else m for m in MODELS]
"""The plain Big-M, which nobody gets unless it is asked for, waits for the slow tests."""


def one_of_each(mutants):
    """Return the mutants and what catches them; in `make test`, the first one of each place."""
    return (
        mutants
        if ALL
        else {mutant: mutants[mutant] for mutant in {place: (place, k) for place, k in [*mutants][::-1]}.values()}
    )


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_planted_errors_are_caught(model):
    """A planted error takes a MILP of its own, and there are some hundred."""
    survived = [
        (mutant, seed)
        for mutant, seed in one_of_each(MODELS[model]).items()
        if not is_caught(program(model, seed), question(seed), Mutant(*mutant))
    ]
    assert survived == []


@pytest.mark.parametrize("model", PLAIN_LATER)
def test_every_constraint_has_its_mutants(model):
    """Each constraint is caught in every way, or listed above as one that only tightens or is implied."""
    excused = {(name, kind) for name in TIGHTENS[model] | set(IMPLIED.get(model, ())) for kind in ("dropped", "looser")}
    excused |= set(SURVIVES) | equations(model)
    wanted = {(name, kind) for name in constraints(model) for kind in KINDS} - excused
    assert wanted - set(MODELS[model]) == set()
    assert ("sequence", "dropped") in MODELS[model]


def equations(model):
    """Where tightening only shifts an equation the one way, the other way is enough."""
    return {(name, "tighter") for name in ("digits_of_tokens",) if (name, "looser") in MODELS[model]}


@pytest.mark.parametrize("model", PLAIN_LATER)
def test_rows_that_only_tighten_change_no_optimum(model):
    """All of them are dropped at once."""
    compared = 0
    for asked in questions(few(range(0, 160, 4), 6)):
        built = program_of(model, asked)
        for name in TIGHTENS[model]:
            if built.model.component(name) is not None:
                mutate(built, Mutant(name, "dropped"))
        assert answer(built, asked) == (asked.optimum, asked.optimum), asked.seed
        compared += 1
    assert compared >= 5


def test_what_is_implied_is_needed_by_the_plain_model():
    missing = {name for name in IMPLIED["batch-bigm"] if (name, "dropped") not in MODELS["batch-bigm:plain"]}
    assert missing == {"call_before_next_token", "token_order"}  # the plain model says both by segment_ends


def test_a_model_without_an_error_is_not_caught():
    for model in MODELS:
        asked = next(iter(questions(range(60))))
        assert answer(program_of(model, asked), asked) == (asked.optimum, asked.optimum)


def test_planted_errors_can_be_taken_back():
    asked = question(next(seed for seed in MODELS["batch-bigm"].values() if isinstance(seed, int)))
    built = program_of("batch-bigm", asked)
    for mutant in mutants_of(built):
        mutate(built, mutant)()
    assert len(list(built.model.component_data_objects(pyo.Constraint, active=True))) > 0
    assert answer(built, asked) == (asked.optimum, asked.optimum)


# --- the constraint program, in its own process -----------------------------------------------------------------------


def ask_cp_sat(mutants):
    command = [sys.executable, "-m", "tests.support.cp_sat_mutants"]
    process = subprocess.run(command, input=json.dumps(mutants), capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def test_planted_errors_in_the_constraint_program_are_caught():
    pytest.importorskip("ortools", reason="OR-Tools is not installed (extra cp-sat)")
    mutants = [(*mutant, seed) for mutant, seed in one_of_each(CP_SAT).items()]
    outcomes = ask_cp_sat(mutants)
    assert [mutant for mutant, caught in zip(mutants, outcomes, strict=True) if not caught] == []


def test_every_statement_of_the_constraint_program_has_a_mutant():
    pytest.importorskip("ortools", reason="OR-Tools is not installed (extra cp-sat)")
    script = "import json, tests.support.cp_sat_mutants as m; print(json.dumps(sorted(set(m.PLACES.values()))))"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    budgets = {place for place, _ in CP_SAT if place.startswith("rule_5_budgets/1/")}
    assert budgets == {f"rule_5_budgets/1/{limit.key}" for limit in BUDGETS}
    caught = {place for place, _ in CP_SAT} - budgets | {"rule_5_budgets/1"}
    assert set(json.loads(process.stdout)) - caught == set(NOT_NEEDED) - caught
