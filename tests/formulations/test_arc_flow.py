"""The arc-flow model: exact on tiny instances, with and without its reductions; its graphs; its warm start."""

import numpy as np
import pytest

import solvers
from formulations import make
from formulations.arc_flow.graph import SINK
from formulations.arc_flow.program import ArcFlow
from formulations.batch_start import broken
from formulations.timing import start_early
from heuristics import best_schedule
from kvcore import BadInput, Call, Instance, Machine, Request, Segment, objective_value, verify_schedule
from kvcore.schedule import Batch
from solvers import highs
from solvers.matrix import MatrixModel
from solvers.task import Task
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import ALL, few
from tests.support.few_batches import look_at
from tests.support.tiny_instances import PROFILES, tiny_instance
from workloads.builtin import builtin_instance

MARS = builtin_instance("mars-figure1")
PROFILE_NAMES = list(PROFILES)


def solve(program, time_limit=1e6):
    """Solve with HiGHS; return the referee's value of the schedule read off, and the bound (None, None: infeasible)."""
    instance, objective = program.instance, program.objective_name
    matrix, found, bounds = MatrixModel(program.model), [], []
    task = Task(instance, objective, "arc-flow", "highs", 1, None, None, time_limit, 4000, 1, 0)

    def on_solution(x):
        matrix.load(x)
        found.append(objective_value(verify_schedule(instance, program.schedule()), objective))

    done = highs.minimise(matrix, task, on_solution, bounds.append)
    if done.infeasible:
        return None, None
    return (found[-1], program.objective_bound(bounds[-1])) if done.stop == "proved" else ("time limit", "time limit")


def supported(seed, objective):
    """Return the tiny instance of a seed, fixed to what arc-flow supports for the objective."""
    fixed = dict(PROFILES[PROFILE_NAMES[seed % len(PROFILE_NAMES)]])
    if objective != "busy-time":
        fixed |= {"cost": "unit"}
    return tiny_instance(seed, **fixed)


def compare(seeds, max_states, pruned=True):
    """Compare with the exhaustive search where it answers at once; return the objectives and handlings compared."""
    seen = []
    for seed in seeds:
        objective = ArcFlow.OBJECTIVES[seed // 3 % len(ArcFlow.OBJECTIVES)]
        instance = supported(seed, objective)
        try:
            value, schedule = exhaustive_optimum(instance, objective, max_states=max_states)
            bound = value if pruned else None
            program = ArcFlow(instance, objective, len(schedule.batches), upper_bound=bound, pruned=pruned)
        except (TooManyStates, BadInput):
            continue
        if len(program.arcs) > 1500:
            continue
        assert program.warm_start(verify_schedule(instance, schedule)), (seed, objective)
        answer = solve(program)
        if answer[0] != "time limit":
            assert answer == (value, value), (seed, objective)
            seen.append((objective, *[call.handling for r in instance.requests for call in r.calls]))
    return seen


def test_agrees_with_the_exhaustive_search():
    seen = compare(few(range(60)), 600)
    assert len(seen) >= 5
    assert not ALL or {objective for objective, *_ in seen} == set(ArcFlow.OBJECTIVES)


@pytest.mark.slow
def test_agrees_with_the_exhaustive_search_without_reductions():
    assert len(compare(few(range(100, 140)), 400, pruned=False)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("pruned", [True, False])
def test_agrees_with_the_exhaustive_search_on_many(pruned):
    seen = compare(range(200, 400), 2000, pruned)
    assert len(seen) >= 50
    assert {handling for _, *handlings in seen for handling in handlings} == {"preserve", "discard", "swap", "free"}


@pytest.mark.parametrize(("handling", "optimum"), [("as-given", 29), ("free", 27)])
def test_proves_the_worked_example_through_the_driver(handling, optimum):
    result = solvers.solve(MARS, formulation="arc-flow", handling=handling)
    assert result.status == "optimal"
    assert result.value == optimum


def test_reductions_keep_the_optimum_and_shrink_the_model():
    free = MARS.with_free_calls()
    small, large = (ArcFlow(free, "total-flow-time", 15, upper_bound=27, pruned=pruned) for pruned in (True, False))
    assert 5 * MatrixModel(small.model).size[1] < MatrixModel(large.model).size[1]
    assert solve(small) == (27, 27)


def test_figure_15_of_infermax_is_solved_with_every_chunk_size():
    instance = builtin_instance("infermax-figure15:I=1")
    value, schedule = exhaustive_optimum(instance, "busy-time")
    program = ArcFlow(instance, "busy-time", len(schedule.batches), upper_bound=value)
    assert [graph.count for graph in program.graphs] == [4]
    assert program.warm_start(verify_schedule(instance, schedule))
    found, bound = solve(program)
    assert found == value
    assert 0 <= value - bound <= 2e-6 * value  # what `objective_bound` takes off for the solver's tolerance


@pytest.mark.parametrize("instance", [MARS, MARS.with_free_calls(), builtin_instance("hindsight:n=6,M=12,seed=1")])
def test_a_warm_start_keeps_every_row(instance):
    _, schedule, _ = best_schedule(instance, "total-flow-time")
    trace = verify_schedule(instance, schedule)
    value = objective_value(trace, "total-flow-time")
    program = make("arc-flow", instance, "total-flow-time", 60, upper_bound=value)
    assert program.warm_start(trace)
    assert list(broken(program.model)) == []
    matrix = MatrixModel(program.model)
    x = matrix.start()
    assert np.all(matrix.A @ x <= matrix.row_upper + 1e-9)
    assert round(matrix.c @ x + matrix.offset) <= value
    assert objective_value(verify_schedule(instance, program.schedule()), "total-flow-time") <= value


def test_a_schedule_beyond_the_horizon_is_no_warm_start():
    _, schedule, _ = best_schedule(MARS, "total-flow-time")
    assert not ArcFlow(MARS, "total-flow-time", 2).warm_start(verify_schedule(MARS, schedule))


def test_too_few_batches_are_infeasible_and_never_called_optimal(monkeypatch):
    assert solve(ArcFlow(MARS, "busy-time", 10)) == (None, None)
    look_at(12, monkeypatch)
    result = solvers.solve(MARS, "busy-time", formulation="arc-flow")
    assert result.value == 12
    assert result.status == "feasible"
    assert (result.formulation, result.bound) == ("alone", 6), "proved, though less than the 12 without a horizon"


@pytest.mark.parametrize("seed", range(6))
def test_every_path_is_the_life_of_a_request(seed):
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    instance = supported(seed, "total-flow-time")
    alone = instance.replace(requests=instance.requests[:1])
    program = ArcFlow(alone, "total-flow-time", 14)
    graph = program.graphs[0].networkx()
    assert networkx.is_directed_acyclic_graph(graph)
    assert {node for node in graph if not graph.pred[node]} == {graph.graph["source"]}
    assert {node for node in graph if not graph.succ[node]} == {SINK}
    for count, path in enumerate(networkx.all_simple_edge_paths(graph, graph.graph["source"], SINK)):
        if count == 40:
            break
        steps = [step for tail, head, key in path for step in graph.edges[tail, head, key]["arc"].steps]
        assert is_executable(alone, steps)


def is_executable(instance, steps):
    """Whether the referee accepts the actions of one request, drops that are alone joining the next batch."""
    id, batches, dropped = instance.requests[0].id, [], {}
    for _, _, action in steps:
        if action.drop:
            dropped = {id: action.drop}
        if action.is_batch:
            moves = {kind: {id: n} for kind in ("swap_out", "swap_in", "work") if (n := getattr(action, kind))}
            batches.append(Batch(start=0, drop=dropped, **moves))
            dropped = {}
        elif action.evicts:
            return True  # needs the batch of another request
    return start_early(instance, batches).requests[0].completion > 0


def test_identical_requests_are_one_flow_and_chunks_only_where_a_batch_can_be_full():
    request = Request(id="A", prompt=6, segments=(Segment(decode=2, call=Call(duration=3)), Segment(decode=2)))
    requests = tuple(request.replace(id=id) for id in "ABC")

    def parts(batch_tokens):
        machine = Machine(memory=12, host_memory=0, batch_tokens=batch_tokens)
        program = ArcFlow(Instance(machine=machine, requests=requests), "total-flow-time", 30)
        assert [graph.count for graph in program.graphs] == [3]
        actions = [step.action for _, arc in program.arcs for step in arc.steps]
        return {action.device for action in actions if action.work and not action.generated}

    assert parts(12) == set()
    assert parts(9) == {1, 2, 3}


@pytest.mark.parametrize(
    ("instance", "objective", "message"),
    [
        (MARS, "speed", "no objective is called 'speed'"),
        (builtin_instance("infermax-figure15:I=2"), "makespan", "only where every batch lasts one tick"),
    ],
)
def test_refuses_what_it_cannot_do(instance, objective, message):
    with pytest.raises(BadInput, match=message):
        ArcFlow(instance, objective, 20)


def test_refuses_a_graph_that_is_too_large(monkeypatch):
    monkeypatch.setattr("formulations.arc_flow.graph.MOST_ARCS", 1000)
    with pytest.raises(BadInput, match="the graph of request R1 has more than 1000 arcs by layer 1 of 20"):
        ArcFlow(builtin_instance("infermax-figure15:I=64"), "busy-time", 20)


def test_refuses_no_batches():
    with pytest.raises(BadInput, match="needs at least 1 batch, not 0"):
        ArcFlow(MARS, "makespan", 0)


def test_a_schedule_with_an_slo_on_tpot_is_read_off_with_its_waits():
    """Started early, a first token would come too long before the last."""
    drawn = {"requests": (2, 3), "prompt": (1, 2), "decode": (1, 2), "duration": (0, 1, 2), "returns": (0, 1)}
    instance = tiny_instance(9126, **drawn, arrival=(0, 0, 1, 2), slo=True, cost="unit")
    value, schedule = exhaustive_optimum(instance, "late-requests")
    assert value == 0
    program = ArcFlow(instance, "late-requests", len(schedule.batches))
    assert solve(program) == (0, 0)
    program.paced = False
    assert solve(program) == (1, 0)
