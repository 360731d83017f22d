"""The numbers that steer searches have names, users can set them, and none is left at the top of a module."""

import ast
import json
from pathlib import Path

import pytest

import kvbound as kv
from benchmarks.options import CASES, RECORD
from bounds.tuning import chosen
from library.library import table_rows
from solvers import option_names
from solvers.messages import SolveOptions
from solvers.option_names import rows_of_options
from tests.support.commands import run_kvbound
from workloads.builtin import builtin_instance

MARS = builtin_instance("mars-figure1")
ROOT = Path(__file__).parents[2]
CONSTANTS = {
    "bounds/clock.py: CLOCK": "the clock's end of a limit in processor seconds: tells no search what to do",
    "bounds/clock.py: SECOND": "the unit of counted work",
    "bounds/just_in_time_kernels.py: MOST_OPTIONS": "room for all options there can be",
    "bounds/speed_kernels.py: FAR": "stands for infinity",
    "solvers/gurobi.py: SIZE_LIMIT": "of the licence inside Gurobi's wheel",
    "solvers/gurobi.py: _MODEL_TOO_LARGE": "Gurobi's number of an error",
    "solvers/neighbourhoods/scope.py: MOST_TOKENS": "no sum of 64 bits overflows",
    "solvers/steering_kernels.py: CLOSE": "what rounding of floats may add to a batch",
    "solvers/messages.py: NO_TIME_LIMIT": "stands for infinity, in seconds",
}
"""Numbers at the top of a module that are no options, and why: another value would be wrong."""


def trees():
    for package in ("bounds", "solvers"):
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def has_numbers(value):
    """Whether an expression is made of numbers alone, or of containers of them."""
    plain = (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.Load)
    parts = [each for each in ast.walk(value) if not isinstance(each, plain)]
    return bool(parts) and all(isinstance(e, ast.Constant) and isinstance(e.value, int | float) for e in parts)


def test_no_number_stands_at_the_top_of_a_module():
    found = set()
    for path, tree in trees():
        for line in tree.body:
            if isinstance(line, ast.Assign | ast.AnnAssign) and line.value is not None and has_numbers(line.value):
                targets = line.targets if isinstance(line, ast.Assign) else [line.target]
                found.add(f"{path}: {', '.join(ast.unparse(target).strip('()') for target in targets)}")
    assert found == set(CONSTANTS)


def test_every_class_of_options_is_in_the_list():
    classes = [
        f"{path.removesuffix('.py').replace('/', '.')}:{node.name}"
        for path, tree in trees()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "Options" for base in node.bases)
    ]
    assert sorted(classes) == sorted(option_names.GROUPS.values())


def test_every_option_has_its_measurement():
    measured = [(row["option"], row["default"]) for row in table_rows(RECORD)]
    wanted = [row[:2] for row in rows_of_options()]
    assert measured == wanted, "python -m benchmarks.options GROUP"
    assert set(CASES) == set(option_names.GROUPS)


def test_every_option_has_an_effect_and_takes_its_default():
    rows = list(option_names.rows_of_options())
    assert len({name for name, *_ in rows}) == len(rows) < 40
    assert all(effect and values for _, _, effect, values in rows)
    for group in option_names.GROUPS:
        for name, one in option_names.names_of(group).items():
            assert option_names.parsed({name: one.default}) == {name: one.default}
            assert name.partition(".")[2].isidentifier()


@pytest.mark.parametrize(("given", "why"), [
    ({"slot.rounds": 1}, "no search called 'slot' has options; is it slots.*; there are those of solve, "),
    ({"slot-dual.round": 1},
     "no option is called 'slot-dual.round'; is it slot-dual.rounds.*`kvbound options slot-dual`"),
    ({"slot-dual": 1}, "no option is called 'slot-dual'"),
    ({"slot-dual.rounds": 1.5}, "the option slot-dual.rounds is a whole number above 0, not 1.5"),
    ({"slot-dual.rounds": "many"}, "the option slot-dual.rounds is a whole number above 0, not 'many'"),
    ({"slot-dual.rounds": True}, "not True"),
    ({"slot-dual.rounds": 0}, "not 0"),
    ({"speed.step": float("nan")}, "the option speed.step is a number above 0, not nan"),
    ({"speed.step": "1e999"}, "not '1e999'"),
    ({"speed.step": None}, "not None"),
    ({"solve.policies": 2}, "the option solve.policies is a number of at least 0 and at most 1, not 2"),
    ({"speed.slots": "1,2"}, "the option speed.slots is 3 numbers, each a number above 0, not '1,2'"),
])  # fmt: skip
def test_a_wrong_option_is_one_clear_line(given, why):
    for search in (kv.solve, kv.bound, kv.improve):
        with pytest.raises(kv.BadInput, match=why) as raised:
            search(MARS, options=given)
        assert "\n" not in str(raised.value)


def test_options_hold_in_the_search_and_not_after_it():
    found = [kv.bound(MARS, method="slot-dual", options=given) for given in ({}, {"slot-dual.rounds": "1"}, None)]
    assert found[1].bound < found[0].bound == found[2].bound
    assert found[1].options == {"slot-dual.rounds": 1}
    assert "options" not in found[0].to_json()


def test_options_reach_the_workers_and_the_result():
    found = [kv.solve(MARS, formulation="slot-dual", options=given) for given in ({"slot-dual.rounds": 1}, {})]
    assert found[0].bound < found[1].bound
    assert [each.options for each in found] == [{"slot-dual.rounds": 1}, {}]


def test_options_on_the_command_line(tmp_path):
    out = tmp_path / "out.json"
    code, _ = run_kvbound(["improve", "mars-figure1", "--seconds", "0.1", "--json", str(out),
                           "--option", "improve.restarts=2", "--option", "speed.slots=3,2,1"])  # fmt: skip
    given = {"improve.restarts": 2, "speed.slots": [3, 2, 1]}
    assert (code, json.loads(out.read_text())["options"]) == (0, given)
    assert run_kvbound(["bound", "mars-figure1", "--option", "slot-dual.rounds"]) == (
        2, "kvbound: --option slot-dual.rounds: write NAME=NUMBER, such as speed.step=0.2\n",
    )  # fmt: skip
    assert "2000" in run_kvbound(["options", "slot-dual"])[1]


def test_the_innermost_choice_holds():
    with chosen(SolveOptions(certify=3.0)):
        with chosen(SolveOptions(certify=4.0)):
            assert SolveOptions.given().certify == 4.0
        assert SolveOptions.given().certify == 3.0
    assert SolveOptions.given() == SolveOptions()


@pytest.mark.parametrize(("command", "said"), [
    ("bound mars-figure1 --option speed.step=1 --option speed.step=2", "is given twice"),
    ("show hindsight:n=3,n=4", "is given twice"),
    ("generate fixed --n 2 --cost roofline:layers=1,layers=2 --out o.json", "is given twice"),
    (f"search --policy fcfs --n 1 --memory {10**20}", "less than or equal to 1000000000000000"),
    (f"search --policy fcfs --n 1 --batch-tokens {10**20}", "less than or equal to 1000000000000000"),
])  # fmt: skip
def test_what_is_given_twice_or_too_large_is_one_line(command, said):
    code, err = run_kvbound(command.split())
    assert (code, said in err, err.count("\n")) == (2, True, 1)
