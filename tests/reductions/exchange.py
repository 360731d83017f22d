"""S: requests that differ in their ids alone change places."""

from itertools import combinations, pairwise

from kvcore import Instance, Schedule, verify_schedule
from tests.reductions.parts import MOVES, mutable, schedule_of


def exchanged(instance: Instance, schedule: Schedule, one: str, other: str) -> Schedule:
    """Return the schedule in which the two have changed places."""
    names = {one: other, other: one}
    _, batches = mutable(instance, schedule)
    for batch in batches:
        for kind in ("work", *MOVES):
            batch[kind] = {names.get(id, id): tokens for id, tokens in batch[kind].items()}
    return schedule_of(instance, batches)


def ends_in_order(instance: Instance, schedule: Schedule) -> Schedule:
    """Return a schedule in which, of alike requests, the one listed first is done no later."""
    while True:
        done = {r.request.id: r.completion for r in verify_schedule(instance, schedule).requests}
        alike = ((a.id, b.id) for a, b in combinations(instance.requests, 2) if a.shape == b.shape)
        pair = next(((a, b) for a, b in alike if done[a] > done[b]), None)
        if pair is None:
            return schedule
        schedule = exchanged(instance, schedule, *pair)


def is_in_order(instance: Instance, schedule: Schedule) -> bool:
    """Whether alike requests end in the order in which they are listed."""
    done = [(r.request.shape, r.completion) for r in verify_schedule(instance, schedule).requests]
    return all(a[1] <= b[1] for shape, _ in done for a, b in pairwise([one for one in done if one[0] == shape]))
