"""Coarsening: what `relax` bounds is below every schedule, and what `restrict` promises is carried out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

from heuristics import PolicyError, Unsuited, get_policy, run_policy
from kvcore import OBJECTIVES, BadInput, Instance, Schedule, coarsen, objective_value, verify_schedule
from kvcore.trace import Trace
from tests.fuzz.case import Case, Part, Skip, Wrong
from tests.fuzz.draw import TRAITS, traits
from tests.support.coarse_instances import fine_for_relax, fine_for_restrict
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.projection import project
from tests.support.random_schedules import random_schedule

SIZES = ([2], [3], [4], [8])
STATES = 400
"""States of an exhaustive search of a case."""
BOUNDED = ("makespan", "total-flow-time", "weighted-flow-time", "max-flow-time")
PARALLEL = ("fcfs", "sjf", "mars-order")
EVICTING = ("vllm", "sarathi", "infercept", "mars", "augserve")
HARD = ("parallel", "drop", "swap_out", "swap_in", "full", "early")
"""What schedules that are lifted should have: work in parallel, moves of each kind, a full memory, an early end."""


def some_schedule(draw: Random, of: Instance) -> Schedule:
    """A random schedule, which is often serial; or that of a policy, which works in parallel."""
    try:
        if draw.random() < 0.5:
            return run_policy(of, get_policy(draw.choice(EVICTING if of.machine.evict else PARALLEL)))
        return random_schedule(draw, of)
    except (PolicyError, Unsuited, AssertionError):  # it deadlocks, or is too long to be drawn
        return run_policy(of, get_policy("serial"))


def completions(trace: Trace) -> dict[str, int]:
    return {item.request.id: item.completion for item in trace.requests}


def random_grid(draw: Random, sizes: list[int]) -> dict[str, int]:
    block = draw.choice(sizes)
    slot = draw.choice([block, block, block, 2 * block, max(1, block // 2), block + 1])
    return {"block_tokens": block, "slot_ticks": slot, "headroom_ticks": draw.choice([0, min(block, slot) // 2, None])}


def make(draw: Random) -> Iterator[Case]:
    """A fine instance; its grid and direction are drawn from the seed."""
    seed = draw.randrange(2**30)
    direction, grid = drawn(Random(seed))
    block, longest = grid["block_tokens"], 3 * grid["block_tokens"]
    few = draw.random() < 0.4
    counts, calls = ([1, 2, 2], [0, 0, 1]) if few else ([1, 2, 3, 4], [0, 1, 1, 2])
    try:
        if direction == "relax":
            fine = fine_for_relax(draw, block, counts, calls, longest - 1)
        else:
            fine, _ = fine_for_restrict(draw, grid, counts, calls, longest)
    except ValueError:  # no such instance can be carried out
        return
    yield Case(fine, draw.choice(BOUNDED), seed)


def drawn(draw: Random) -> tuple[str, dict[str, int]]:
    """Return the direction and the grid of a seed."""
    return draw.choice(["relax", "restrict"]), random_grid(draw, draw.choice(SIZES))


def check(case: Case, seen: Counter[str]) -> None:
    """Raise Wrong where a bound is above a schedule, or a coarse schedule is not carried out as promised."""
    draw = Random(case.seed)
    direction, grid = drawn(draw)
    if direction == "relax":
        del grid["headroom_ticks"]
    try:
        coarse = coarsen.coarsen(case.instance, direction=direction, **grid)
    except BadInput:
        raise Skip from None
    (relaxed if direction == "relax" else restricted)(case, coarse, draw, seen)
    seen.update(traits(case.instance, case.objective))
    seen[direction] += 1
    if direction == "restrict" and grid["headroom_ticks"]:
        seen["headroom"] += 1


def relaxed(case: Case, coarse, draw: Random, seen: Counter[str]) -> None:
    fine, slot = case.instance, coarse.coarsening.slot_ticks
    schedule = some_schedule(draw, fine)
    trace, image = verify_schedule(fine, schedule), verify_schedule(coarse, project(schedule, fine, coarse))
    for id, completion in completions(image).items():
        if slot * completion + coarse.coarsening.completion_offset[id] > completions(trace)[id]:
            raise Wrong("relax: a completion is later than in the fine schedule", id)
    for objective in BOUNDED:
        bound = coarsen.fine_bound(coarse, objective, objective_value(image, objective))
        if bound > objective_value(trace, objective):
            raise Wrong(f"relax: {objective} above that of the fine schedule", bound)
    if not small(fine, coarse):
        return
    try:
        below, exact = (exhaustive_optimum(i, case.objective, max_states=STATES)[0] for i in (coarse, fine))
    except TooManyStates:
        return
    if coarsen.fine_bound(coarse, case.objective, below) > exact:
        raise Wrong("relax: the bound is above the fine optimum", f"{below} coarse, {exact} fine")
    seen["relax against the optimum"] += 1


def small(fine: Instance, coarse: Instance) -> bool:
    """Whether an exhaustive search is tried."""
    return len(fine.requests) <= 2 and coarse.coarsening.block_tokens <= 3


def restricted(case: Case, coarse, draw: Random, seen: Counter[str]) -> None:
    fine, slot = case.instance, coarse.coarsening.slot_ticks
    schedule = some_schedule(draw, coarse)
    below, trace = verify_schedule(coarse, schedule), verify_schedule(fine, coarsen.lift(schedule, fine, coarse))
    for id, completion in completions(below).items():
        if not slot * (completion - 1) < completions(trace)[id] <= slot * completion:
            raise Wrong("restrict: a completion is not in its slot", id)
        seen["early"] += slot * completion > completions(trace)[id]
    seen["parallel"] += any(len(batch.work) > 1 for batch in trace.schedule.batches)
    seen["full"] += any(batch.device == coarse.machine.memory for batch in below.batches)
    for kind in ("drop", "swap_out", "swap_in"):
        seen[kind] += any(getattr(batch, kind) for batch in trace.schedule.batches)
    if not small(fine, coarse):
        return
    try:
        _, best = exhaustive_optimum(coarse, case.objective, max_states=STATES)
        exact, _ = exhaustive_optimum(fine, case.objective, max_states=STATES)
    except TooManyStates:
        return
    lifted = coarsen.lift(best, fine, coarse)
    if objective_value(verify_schedule(fine, lifted), case.objective) < exact:
        raise Wrong("restrict: a lifted schedule is better than the fine optimum")
    seen["restrict against the optimum"] += 1


OTHERS = ("feature ", "slo ", "two ", "divisor ", "switch chunked=False", "limit host_memory=null", "limit memory=null",
          *(f"objective {name}" for name in OBJECTIVES if name not in BOUNDED))  # fmt: skip
"""What no instance that is coarsened has."""
REACH = {*HARD} | {trait for trait in TRAITS if not trait.startswith(OTHERS)} | {"relax", "restrict", "headroom"}
PART = Part(
    "coarsening",
    make,
    check,
    frozenset(REACH | {f"{d} against the optimum" for d in ("relax", "restrict")}),
    tries=1500,
)
