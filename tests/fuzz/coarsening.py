"""Coarsening: what `relax` bounds is below every schedule, and what `restrict` promises is carried out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

from kvcore import OBJECTIVES, BadInput, coarsen, objective_value, verify_schedule
from tests.fuzz.case import Case, Part, Skip, Wrong
from tests.fuzz.draw import TRAITS, traits
from tests.kvcore.test_coarsen import BOUNDED, completions, random_grid, some_schedule
from tests.support.coarse_instances import fine_for_relax, fine_for_restrict
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.projection import project

SIZES = ([2], [3], [4], [8])


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
    try:
        below, exact = (exhaustive_optimum(i, case.objective, max_states=1500)[0] for i in (coarse, fine))
    except TooManyStates:
        return
    if coarsen.fine_bound(coarse, case.objective, below) > exact:
        raise Wrong("relax: the bound is above the fine optimum", f"{below} coarse, {exact} fine")
    seen["relax against the optimum"] += 1


def restricted(case: Case, coarse, draw: Random, seen: Counter[str]) -> None:
    fine, slot = case.instance, coarse.coarsening.slot_ticks
    schedule = some_schedule(draw, coarse)
    below, trace = verify_schedule(coarse, schedule), verify_schedule(fine, coarsen.lift(schedule, fine, coarse))
    for id, completion in completions(below).items():
        if not slot * (completion - 1) < completions(trace)[id] <= slot * completion:
            raise Wrong("restrict: a completion is not in its slot", id)
    try:
        _, best = exhaustive_optimum(coarse, case.objective, max_states=1500)
        exact, _ = exhaustive_optimum(fine, case.objective, max_states=1500)
    except TooManyStates:
        return
    lifted = coarsen.lift(best, fine, coarse)
    if objective_value(verify_schedule(fine, lifted), case.objective) < exact:
        raise Wrong("restrict: a lifted schedule is better than the fine optimum")
    seen["restrict against the optimum"] += 1


OTHERS = ("feature ", "slo ", "two ", "divisor ", "switch chunked=False", "limit host_memory=null", "limit memory=null",
          *(f"objective {name}" for name in OBJECTIVES if name not in BOUNDED))  # fmt: skip
"""What no instance that is coarsened has."""
REACH = {trait for trait in TRAITS if not trait.startswith(OTHERS)} | {"relax", "restrict", "headroom"}
PART = Part(
    "coarsening",
    make,
    check,
    frozenset(REACH | {f"{d} against the optimum" for d in ("relax", "restrict")}),
    tries=1500,
)
