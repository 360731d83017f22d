"""Random valid schedules, and random mutations of schedules.

Everything is drawn from a `random.Random`, so a seed repeats a case. The schedules are grown batch by batch, piece by
piece, each piece kept only if the second referee finds no rule broken.
"""

import hashlib
import random
from functools import cache
from typing import Any

from kvcore import Batch, Instance, Schedule, Trace, verify_schedule
from tests.support.drawer import draw_instance
from tests.support.second_referee import KINDS, World

DICTS = ("work", *KINDS)


# --- valid schedules ---------------------------------------------------------------------------------------------
def random_schedule(draw: random.Random, instance: Instance, carriers: float = 0.0) -> Schedule:
    """A random valid schedule; the requests one after another if four random tries end in a deadlock.

    `carriers`: how often a batch is tried that a swap there and back makes, with drops of others.
    """
    for _ in range(4):
        batches = _grow(draw, instance, one_by_one=False, carriers=carriers)
        if batches is not None:
            return _schedule(instance, batches)
    batches = _grow(draw, instance, one_by_one=True)
    assert batches is not None, "running the requests one after another always works"
    return _schedule(instance, batches)


@cache
def random_trace(seed: int) -> Trace:
    """The trace of a random schedule of a random instance."""
    draw = random.Random(seed)
    drawn = draw_instance(draw)
    return verify_schedule(drawn, random_schedule(draw, drawn))


def _schedule(instance: Instance, batches: list[Batch]) -> Schedule:
    return Schedule(instance_sha256=instance.sha256, batches=tuple(batches))


def _grow(draw: random.Random, instance: Instance, one_by_one: bool, carriers: float = 0.0) -> list[Batch] | None:
    world, batches = World(instance), []
    moods = {"rest": draw.choice([0.0, 0.3, 0.6]), "evict": draw.choice([0.0, 0.1, 0.3])}
    while any(life.completion is None for life in world.lives.values()):
        if not one_by_one and draw.random() < 0.1:
            world.idle_until(world.tick + draw.randint(1, 3))
        world.return_calls()
        pieces = _alone(world) if one_by_one else _pieces(draw, world, moods)
        holders = [(id, life.device) for id, life in world.lives.items() if life.device]
        batch = None
        if carriers and holders and draw.random() < carriers:
            id, held = draw.choice(holders)
            drops = [("drop", other, draw.choice([n, n, draw.randint(1, n)])) for other, n in holders if other != id]
            batch = _fill(world, [*_forced(world), ("swap_out", id, held), ("swap_in", id, held)], drops)
        batch = batch or _fill(world, _forced(world), pieces)
        if batch is not None:
            world.run(batch)
            batches.append(batch)
            continue
        events = [life.calls[-1].end for life in world.lives.values() if life.calling(world.tick)]
        events += [life.request.arrival for life in world.lives.values() if life.request.arrival > world.tick]
        if len(batches) > 80 or (not events and draw.random() < 0.1):
            return None
        world.idle_until(min(events, default=world.tick + 1))
    return batches


def _forced(world: World) -> list[tuple[str, str, int]]:
    """The moves that the handling of a call orders in this batch."""
    ordered = ((id, life.ordered_move()) for id, life in world.lives.items())
    return [(move[0], id, move[1]) for id, move in ordered if move is not None]


def _alone(world: World) -> list[tuple[str, str, int]]:
    """The next step of the first request that is not done: bring back its KV, process what the budgets take."""
    id, life = next((id, life) for id, life in world.lives.items() if life.completion is None)
    ordered, tokens = life.ordered_move() or (None, 0)
    on_host = tokens if ordered == "swap_out" else life.host
    if life.status(world.tick) != "ready":
        return []
    missing = life.known - (0 if ordered == "drop" else life.device + on_host)
    machine = world.machine
    limits = [limit for limit in (machine.batch_tokens, machine.prefill_tokens) if limit is not None]
    work = ("work", id, min([missing, *limits]) if missing > 1 else missing)
    return [("swap_in", id, on_host), work] if on_host else [work]


def _pieces(draw: random.Random, world: World, moods: dict[str, float]) -> list[tuple[str, str, int]]:
    """Random pieces of a batch; those that turn out to break a rule are left out later."""
    pieces = []
    for id, life in world.lives.items():
        ordered, _ = life.ordered_move() or (None, 0)
        held = life.device + life.host
        on_host = held if ordered == "swap_out" else life.host
        if held and draw.random() < moods["evict"]:
            kind = draw.choice(KINDS[:2])
            pieces.append((kind, id, draw.choice([held, life.device, draw.randint(1, held)])))
        elif draw.random() >= moods["rest"]:
            if on_host:
                pieces.append(("swap_in", id, draw.choice([on_host, on_host, draw.randint(1, on_host)])))
            missing = life.known - (0 if ordered == "drop" else held)
            if missing:
                pieces.append(("work", id, draw.choice([missing, missing, draw.randint(1, missing)])))
                pieces.append(("work", id, missing))
    draw.shuffle(pieces)
    must = [] if world.machine.pause else sorted(world.must_work())
    return [("work", id, 1) for id in must if draw.random() < 0.8] + pieces


def _fill(world: World, forced: list[tuple[str, str, int]], pieces: list[tuple[str, str, int]]) -> Batch | None:
    """Put together a batch from the forced pieces and as many of the others as break no rule."""
    content: dict[str, dict[str, int]] = {what: {} for what in DICTS}
    for what, id, tokens in forced:
        content[what][id] = tokens
    whole = False  # whether what it has so far is known to break no rule
    for what, id, tokens in pieces:
        if id in content[what]:
            continue
        content[what][id] = tokens
        refusal = world.broken(Batch.unchecked(world.tick, **{name: dict(part) for name, part in content.items()}))
        # R10: a lone drop is kept, work may join it; R5: one that must work may still be added.
        if refusal is None:
            whole = True
        elif _may_be_mended(refusal.rule, refusal.requests, what, world):
            whole = False
        else:
            del content[what][id]
    batch = Batch(start=world.tick, **content)
    return batch if whole or world.broken(batch) is None else None


def _may_be_mended(rule: int, who: set[str | None], what: str, world: World) -> bool:
    return (rule == 10 and what == "drop" and who == {None}) or (rule == 5 and None not in who)


# --- mutations ---------------------------------------------------------------------------------------------------

Mutable = list[dict[str, Any]]


def mutate(draw: random.Random, instance: Instance, schedule: Schedule) -> Schedule:
    """One to three random changes; the result may be valid or not."""
    batches: Mutable = [batch.model_dump() for batch in schedule.batches]
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        if _items(batches):
            draw.choice(MUTATIONS)(draw, instance, batches)
    return Schedule(instance_sha256=instance.sha256, batches=tuple(Batch(**batch) for batch in batches))


def fold(schedule: Schedule) -> Schedule:
    """The schedule with equal batches, one right after the other, written as one that is repeated where it can be."""
    batches: Mutable = [batch.model_dump() for batch in schedule.batches]
    _fold(random.Random(0), None, batches)
    return schedule.model_copy(update={"batches": tuple(Batch(**batch) for batch in batches)})


def tighten(draw: random.Random, instance: Instance, peak: dict[str, int]) -> dict[str, Any]:
    """A change of the machine: one limit at what the schedule needs (`peak`) or just below, or one switch turned."""
    name = draw.choice([*peak, "hybrid", "chunked", "evict", "partial", "pause"])
    if name in peak:
        return {name: max(int(name != "host_memory"), peak[name] - draw.randint(0, 1))}
    return {name: not getattr(instance.machine, name)}


def _items(batches: Mutable, *which: str) -> list[tuple[int, str, str]]:
    return [(j, what, id) for j, batch in enumerate(batches) for what in which or DICTS for id in batch[what]]


def _shift_start(draw: random.Random, instance: Instance, batches: Mutable) -> None:
    j = draw.randrange(len(batches))
    later = draw.random() < 0.5
    by = draw.choice([-1, 1])
    for batch in batches[j:] if later else batches[j : j + 1]:
        batch["start"] += by


def _change_tokens(draw: random.Random, instance: Instance, batches: Mutable) -> None:
    j, what, id = draw.choice(_items(batches))
    batches[j][what][id] += draw.choice([-1, 1])


def _relocate(draw: random.Random, instance: Instance, batches: Mutable) -> None:
    """Move a work item or a move to a neighbouring or any other batch."""
    j, what, id = draw.choice(_items(batches))
    near = [k for k in (j - 1, j + 1) if 0 <= k < len(batches)] or [j]
    tokens = batches[j][what].pop(id)
    batches[draw.choice([*near, draw.randrange(len(batches))])][what][id] = tokens


def _delete_batch(draw: random.Random, instance: Instance, batches: Mutable) -> None:
    del batches[draw.randrange(len(batches))]


def _duplicate_batch(draw: random.Random, instance: Instance, batches: Mutable) -> None:
    j = draw.randrange(len(batches))
    batches.insert(j, {key: dict(value) if isinstance(value, dict) else value for key, value in batches[j].items()})
    if draw.random() < 0.7:
        for batch in batches[j + 1 :]:
            batch["start"] += draw.randint(1, 3)


def _change_kind(draw: random.Random, instance: Instance, batches: Mutable) -> None:
    moves = _items(batches, *KINDS)
    if moves:
        j, what, id = draw.choice(moves)
        batches[j][draw.choice(KINDS)][id] = batches[j][what].pop(id)


def _remove_item(draw: random.Random, instance: Instance, batches: Mutable) -> None:
    j, what, id = draw.choice(_items(batches, *draw.choice([("work",), KINDS])) or _items(batches))
    del batches[j][what][id]


def _add_item(draw: random.Random, instance: Instance, batches: Mutable) -> None:
    """Add a move or work with a number of tokens that the schedule uses, or a small one."""
    numbers = [batches[j][what][id] for j, what, id in _items(batches)]
    id = draw.choice([request.id for request in instance.requests])
    batches[draw.randrange(len(batches))][draw.choice(DICTS)][id] = draw.choice([*numbers, draw.randint(1, 4)])


def _move_nothing(draw: random.Random, instance: Instance, batches: Mutable) -> None:
    """Add a move of less than a token, and leave out the work of the request there or not."""
    batch, id = draw.choice(batches), draw.choice([request.id for request in instance.requests])
    batch[draw.choice(KINDS)][id] = draw.choice([0, 0, -1])
    if draw.random() < 0.5:
        batch["work"].pop(id, None)


def _evict(draw: random.Random, instance: Instance, batches: Mutable) -> None:
    """Drop, or swap out and bring back in the batch after, what a request holds there (all or part of it)."""
    j, id = draw.randrange(len(batches)), draw.choice([request.id for request in instance.requests])
    world = World(instance)
    for batch in batches[:j]:
        if world.tick <= batch["start"] and world.broken(Batch(**batch)) is None:
            world.idle_until(batch["start"])
            world.run(Batch(**batch))
    held = world.lives[id].device
    if held:
        batches[j][draw.choice(KINDS[:2])][id] = k = draw.choice([held, held, draw.randint(1, held)])
        if draw.random() < 0.5:
            batches[min(j + draw.randint(0, 1), len(batches) - 1)]["swap_in"][id] = k


def _exchange(draw: random.Random, instance: Instance, batches: Mutable) -> None:
    """Exchange two neighbouring batches, with or without their starts."""
    if len(batches) > 1:
        j = draw.randrange(len(batches) - 1)
        batches[j], batches[j + 1] = batches[j + 1], batches[j]
        if draw.random() < 0.7:
            batches[j]["start"], batches[j + 1]["start"] = batches[j + 1]["start"], batches[j]["start"]


def _split(draw: random.Random, instance: Instance, batches: Mutable) -> None:
    """Put some of the items of a batch into a batch of their own, and delay all that follow."""
    j = draw.randrange(len(batches))
    new: dict[str, Any] = {"start": batches[j]["start"], **{what: {} for what in DICTS}}
    for what in DICTS:
        for id in list(batches[j][what]):
            if draw.random() < 0.5:
                new[what][id] = batches[j][what].pop(id)
    for batch in batches[j:]:
        batch["start"] += draw.randint(1, 2)
    batches.insert(j, new)


def _fold(draw: random.Random, instance: Instance | None, batches: Mutable) -> None:
    """Let equal batches without moves, one after the other, become one that is repeated; valid if nothing idles."""
    k = 0
    while k + 1 < len(batches):
        batch, following = batches[k], batches[k + 1]
        if batch["work"] == following["work"] and not any(following[kind] for kind in DICTS if kind != "work"):
            batch["repeat"] = batch.get("repeat", 1) + following.get("repeat", 1)
            del batches[k + 1]
        else:
            k += 1


def _repeat(draw: random.Random, instance: Instance, batches: Mutable) -> None:
    batch = draw.choice(batches)
    batch["repeat"] = batch.get("repeat", 1) + draw.choice([1, 1, 2, 5])


def _delay_all(draw: random.Random, instance: Instance, batches: Mutable) -> None:
    """Open a gap in front of a batch: always valid where nothing must continue."""
    by = draw.randint(1, 5)
    for batch in batches[draw.randrange(len(batches)) :]:
        batch["start"] += by


def _unknown_id(draw: random.Random, instance: Instance, batches: Mutable) -> None:
    j, what, id = draw.choice(_items(batches))
    batches[j][what]["nobody"] = batches[j][what].pop(id)


def _cut(draw: random.Random, instance: Instance, batches: Mutable) -> None:
    del batches[draw.randint(max(0, len(batches) - 2), len(batches)) :]


MUTATIONS = (
    _shift_start, _change_tokens, _change_tokens, _relocate, _delete_batch, _duplicate_batch, _change_kind,
    _remove_item, _remove_item, _add_item, _evict, _evict, _exchange, _split, _delay_all, _unknown_id, _cut,
    _fold, _fold, _repeat, _move_nothing,
)  # fmt: skip


def digest_of_some() -> str:
    """Return a digest of random schedules and mutants of them."""
    digest = hashlib.sha256()
    for seed in range(15):
        draw = random.Random(seed)
        instance = draw_instance(draw)
        schedule = random_schedule(draw, instance)
        digest.update(schedule.to_json().encode() + mutate(draw, instance, schedule).to_json().encode())
    return digest.hexdigest()
