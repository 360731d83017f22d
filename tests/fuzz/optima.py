"""Every way to an optimum that is cheap enough, against the exhaustive search."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any
from unittest import mock

from formulations.horizon import sufficient_batches
from heuristics import best_schedule, get_policy, run_policy
from kvcore import Schedule, objective_value, verify_schedule
from kvcore.certificates.budget import Most
from kvcore.certificates.events import EventSearch
from kvcore.certificates.splits import whole_prefills
from kvcore.metrics import Value, tail_of
from kvcore.rigid import RIGID
from solvers.exact import exact
from solvers.messages import Bound, Found, SolveJob
from solvers.ways import WAYS
from tests.fuzz.case import Case, Part, Skip, Wrong
from tests.fuzz.draw import AIMED, CORNERS, NEEDED, SCALE, objective, tiny, traits, untwinned
from tests.support.boundaries import outcome
from tests.support.exhaustive import exhaustive_optimum, least_percentile
from tests.support.random_schedules import random_schedule

STATES = 1500
"""States of the exhaustive search that a case may take."""
ENOUGH = 200_000
"""States of the search over batch boundaries."""
OFF = {
    "symmetry": ("kvcore.certificates.events.alike", lambda requests: [[i] for i in range(len(requests))]),
    "splits": ("kvcore.certificates.events.whole_prefills", lambda instance, objective: False),
}
"""What the search over batch boundaries leaves out, and what keeps it."""
EVERY = 6
"""One case in so many goes to the models, which take longer."""


def make(draw: Random) -> Iterator[Case]:
    corner, instance = tiny(draw, twins=0.05)
    yield Case(instance, objective(draw, corner), draw.randrange(2**30))


def optimum(case: Case, states: int = STATES) -> tuple[Value, Schedule]:
    """Return the optimum by the exhaustive search (TooManyStates); of a twin, that of the tiny one, scaled."""
    base = untwinned(case.instance)
    if base is not None:
        value, schedule = optimum(case.of(base), states)
        return value if case.objective == "late-requests" else value * SCALE, schedule
    if tail_of(case.objective) is not None:
        return least_percentile(case.instance, case.objective, max_states=states)
    return exhaustive_optimum(case.instance, case.objective, max_states=states)


def count_case(case: Case, seen: Counter[str]) -> None:
    """Count what the case has, its corner included."""
    seen.update(traits(case.instance, case.objective))
    if case.instance.name in (*CORNERS, "twin"):
        seen[f"corner {case.instance.name}"] += 1


def check(case: Case, seen: Counter[str]) -> None:
    """Raise Wrong where a way gives anything but the optimum."""
    aimed = case.instance.name in AIMED
    value, schedule = optimum(case, 4 * STATES if aimed else STATES)
    draw = Random(case.seed)
    with mock.patch.object(Most, "states", ENOUGH):
        by_exact(case, value, seen, draw)
    by_every_tick(case, value, seen, every_tick=untwinned(case.instance) is None)
    by_improving(case, value, seen, draw)
    if RIGID.why_not("configurations", case.instance, case.objective) is None:
        by_configurations(case, value, seen)
    if case.seed % EVERY == 0 and len(schedule.batches) <= (8 if aimed else 6):
        by_models(case, value, len(schedule.batches), seen, draw)
    count_case(case, seen)


def expect(what: str, case: Case, found: Schedule | None, bound: Value, value: Value, *, proved: bool = True) -> None:
    """Raise Wrong unless the schedule is worth the optimum and the bound meets it (`proved`: it has to)."""
    held = None if found is None else objective_value(verify_schedule(case.instance, found), case.objective)
    if bound > value:
        raise Wrong(f"{what}: bound above the optimum", f"{bound} > {value}")
    if held is not None and held < value:
        raise Wrong(f"{what}: value below the exhaustive optimum", f"{held} < {value}")
    if proved and (held, bound) != (value, value):
        raise Wrong(f"{what}: not the optimum", f"value {held}, bound {bound}, optimum {value}")


def by_exact(case: Case, value: Value, seen: Counter[str], draw: Random) -> None:
    """Each exact search, as a worker; all of them, as they follow each other; and without one of their reductions."""
    for name in ("slots", "events"):
        if WAYS[name, name].declines(case.instance, case.objective) is None:
            seen[f"method {name}"] += by_task(case, value, name, name)
    start = draw.choice([None, some_start(case, draw)])
    result = exact(case.instance, case.objective, start=start, time_limit=60.0)
    assert result.certified_bound is not None
    expect("exact", case, result.schedule, result.certified_bound, value, proved=result.stopped != "time limit")
    seen["method exact"] += result.status == "optimal"
    can_split = whole_prefills(case.instance, case.objective) and draw.random() < 0.8
    off, search = "splits" if can_split else "symmetry", EventSearch(case.instance, case.objective, ENOUGH)
    search.run()
    with mock.patch(*OFF[off]):
        without = EventSearch(case.instance, case.objective, ENOUGH)
        other = outcome(without)
    expect(f"events without {off}", case, other.schedule, other.bound, value, proved=other.is_over)
    seen[f"reduction {off} off"] += 1
    seen[f"reduction {off} prunes"] += without.frontier.labels.count.tolist() != search.frontier.labels.count.tolist()


def by_every_tick(case: Case, value: Value, seen: Counter[str], *, every_tick: bool) -> None:
    """The exhaustive search with every start time; of a twin, of which there are too many, the search itself."""
    again, _ = exhaustive_optimum(case.instance, case.objective, max_states=3 * STATES, every_tick=every_tick)
    if again != value:
        raise Wrong("exhaustive, every tick or scaled: another optimum", f"{again}, not {value}")
    seen["method exhaustive, every tick" if every_tick else "method exhaustive, scaled"] += 1


def some_start(case: Case, draw: Random) -> Schedule:
    """Return the best policy's schedule, or a poor one: random, or one request after another, and late."""
    if draw.random() < 0.3:
        return best_schedule(case.instance, case.objective)[1]
    start = run_policy(case.instance, get_policy("serial"))
    if untwinned(case.instance) is None:
        with contextlib.suppress(AssertionError):  # it would take more batches than are drawn
            start = random_schedule(draw, case.instance)
    later = draw.choice([0, 0, 1, 7, 50])
    return start.replace(batches=tuple(batch.replace(start=batch.start + later) for batch in start.batches))


def by_improving(case: Case, value: Value, seen: Counter[str], draw: Random) -> None:
    """Neighbourhoods from any schedule: never below the optimum, never worse than before."""
    from solvers.neighbourhoods import improve, why_not

    if why_not(case.instance, case.objective) is not None:
        return
    start = some_start(case, draw)
    before = objective_value(verify_schedule(case.instance, start), case.objective)
    after = improve(case.instance, case.objective, start, seconds=1e9, seed=case.seed, rounds=60)
    held = objective_value(verify_schedule(case.instance, after), case.objective)
    if not value <= held <= before:
        raise Wrong("neighbourhoods: worse than before, or below the optimum", held)
    seen["method neighbourhoods"] += 1
    seen["poor start"] += before > 2 * value


def by_task(
    case: Case, value: Value, formulation: str, solver: str, batches: int | None = None, upper: Value | None = None,
    seconds: float = 30.0, start: Schedule | None = None,
) -> bool:  # fmt: skip
    """Run a job of the driver in this process; say whether it has proved the optimum."""
    sent: list[Any] = []
    job = SolveJob(case.instance, case.objective, formulation, solver, batches, upper, start, seconds, 4000, 1, 0)
    done = WAYS[formulation, solver].runner()(job, sent.append)
    bound = max((message.value for message in sent if isinstance(message, Bound)), default=0)
    found = [start, *(message.schedule for message in sent if isinstance(message, Found))][-1]
    proved = done.stop == "proved"  # HiGHS keeps its own time
    expect(f"{formulation} on {solver}", case, found, bound, value, proved=proved)
    return proved


def by_configurations(case: Case, value: Value, seen: Counter[str]) -> None:
    """The search over starts, with every schedule and bound on the way."""
    by_task(case, value, "configurations", "configurations", seconds=15.0)
    seen["method configurations"] += 1


def by_models(case: Case, value: Value, batches: int, seen: Counter[str], draw: Random) -> None:
    """A program on HiGHS: at a horizon that is enough, with or without the optimum as what is known."""
    horizon = sufficient_batches(case.instance, case.objective, value)
    if horizon.sufficient and horizon.batches < batches:
        raise Wrong("horizon: an optimal schedule has more batches", f"{batches} > {horizon.batches}")
    name = draw.choice(["batch-bigm", "batch-bigm:plain"])
    enough = max(batches, min(horizon.batches, batches + 1))
    by_task(case, value, name, "highs", enough, draw.choice([value, None]))
    seen[f"method {name}"] += 1


def check_cp_sat(case: Case, seen: Counter[str]) -> None:
    """CP-SAT, which cannot be loaded beside HiGHS, in a process of its own."""
    from formulations.cp_sat import CpSat, cp_model

    value, schedule = optimum(case, 500)
    if len(schedule.batches) > 7:
        raise Skip
    program, solver = CpSat(case.instance, case.objective, len(schedule.batches)), cp_model.CpSolver()
    solver.parameters.num_workers, solver.parameters.max_deterministic_time = 1, 20.0
    status = solver.solve(program.model)
    if status == cp_model.UNKNOWN:
        raise Skip
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise Wrong("cp-sat: no schedule", solver.status_name(status))
    bound = program.objective_value(round(solver.best_objective_bound)) if status == cp_model.OPTIMAL else 0
    expect("cp-sat", case, program.schedule(solver.value), bound, value, proved=status == cp_model.OPTIMAL)
    count_case(case, seen)


METHODS = ("slots", "events", "exact", "exhaustive, every tick", "exhaustive, scaled", "neighbourhoods",
           "configurations", "batch-bigm", "batch-bigm:plain")  # fmt: skip
REACH = (
    NEEDED
    | {f"method {name}" for name in METHODS}
    | {f"reduction {name} {what}" for name in OFF for what in ("off", "prunes")}
    | {"poor start"}
)
PART = Part("optima", make, check, REACH)
CP_SAT = Part("cp-sat", make, check_cp_sat, NEEDED)
