"""Contents that requests share, for instances drawn without them, and mutants of schedules that use them."""

import random
from typing import Any

from kvcore import Batch, CostFunction, Instance, Request, Schedule, Trace, verify_schedule
from kvcore.instance import Node
from tests.support import build
from tests.support.build import instance

TOKENS = (CostFunction(tokens=1),)
TREE = (("system", None, 2), ("tools", "system", 1), ("question", "system", 1))
MOVES = ("drop", "swap_out", "swap_in", "reuse")


def nodes(*rows: tuple[str, str | None, int]) -> tuple[Node, ...]:
    return tuple(Node(id=id, parent=parent, blocks=blocks) for id, parent, blocks in rows)


def shared(*requests: Request, tree: tuple[Any, ...] = TREE, cost: Any = TOKENS, **machine: Any) -> Instance:
    made = instance(*(each.replace(path=None) for each in requests), cost=cost, **machine | {"same_batch": True})
    kept = made.machine.replace(**machine)
    return made.replace(machine=kept, contents=nodes(*tree), requests=requests)


IDLE = shared(
    *(build.request(id, 3, 1, arrival=arrival, path=None if id == "B" else ("xy", 2))
      for id, arrival in zip("ABCD", (0, 3, 4, 5), strict=True)),
    tree=(("xy", None, 2),), memory=3, batch_requests=1,
)  # fmt: skip
"""Prompts of 3 tokens, a tick each: B would take the memory in which the others find their prefix."""


def idling() -> Trace:
    """Return its optimum, of 11 ticks."""
    batches = (
        Batch(start=0, work={"A": 3}), Batch(start=4, work={"C": 1}, reuse={"C": 2}),
        Batch(start=5, work={"D": 1}, reuse={"D": 2}), Batch(start=6, work={"B": 3}, forget={"xy": 2}),
    )  # fmt: skip
    return verify_schedule(IDLE, build.schedule(IDLE, *batches))


def called(*rest: Batch, handling: str = "discard") -> Trace:
    """A prefills 4 tokens in 5 ticks, then its call lasts from 5 to 25; B begins with the first three."""
    caller = build.request("A", 4, (1, 20, 0, handling), 1, path=("xy", 4))
    other = build.request("B", 4, 1, arrival=6, path=("xy", 3))
    on = shared(caller, other, tree=(("xy", None, 4),), cost=(CostFunction(busy=1, tokens=1),), memory=8)
    return verify_schedule(on, build.schedule(on, Batch(start=0, work={"A": 4}), *rest))


def with_contents(draw: random.Random, instance: Instance, most: int = 3) -> Instance:
    """Return the instance with a random forest; a path is as long as its peak allows, or shorter."""
    forest: dict[str, tuple[str | None, int]] = {}
    for k in range(draw.randint(1, most)):
        forest[f"n{k}"] = draw.choice([None, *forest, *forest]), draw.choice((1, 1, 2))
    requests = []
    for request in instance.requests:
        chain, node = [], draw.choice([*forest, *forest, None])
        while node is not None:
            chain.insert(0, node)
            node = forest[node][0]
        left, path = request.peak // instance.machine.block, None
        for node in chain:
            if left > 0:
                path = node, min(left, forest[node][1])
                left -= forest[node][1]
        requests.append(request.replace(path=path))
    machine = instance.machine.replace(same_batch=draw.random() < 0.6 or not any(r.path for r in requests))
    contents = nodes(*((id, parent, blocks) for id, (parent, blocks) in forest.items()))
    return instance.replace(machine=machine, contents=contents, requests=tuple(requests))


def mutate(draw: random.Random, instance: Instance, schedule: Schedule) -> Schedule:
    """Return the schedule with one to three random changes, of moves of contents above all."""
    batches: list[dict[str, Any]] = [{"forget": {}, "reuse": {}} | batch.model_dump() for batch in schedule.batches]
    for _ in range(draw.choice((1, 1, 2, 3))):
        j = draw.randrange(len(batches))
        what = draw.choice(("forget", "forget", "reuse", "reuse", "work", *MOVES, "start", "start", "split", "cut"))
        if what == "cut":
            del batches[max(1, j) :]
        elif what == "start":
            for batch in batches[j:]:
                batch["start"] += draw.choice((1, 1, -1))
        elif what == "split":
            other: dict[str, Any] = {"start": batches[j]["start"], "repeat": 1}
            for name in ("work", "forget", *MOVES):
                other[name] = {id: batches[j][name].pop(id) for id in [*batches[j][name]] if draw.random() < 0.5}
            for batch in batches[j:]:
                batch["start"] += 4
            batches.insert(j, other)
        else:
            known = [node.id for node in instance.contents] if what == "forget" else [r.id for r in instance.requests]
            id = draw.choice(known) if draw.random() < 0.97 else "nobody"
            batches[j][what][id] = batches[j][what].get(id, 0) + draw.choice((-1, 1, 1, 2))
            if batches[j][what][id] < 1 and draw.random() < 0.9:
                del batches[j][what][id]
    return Schedule(instance_sha256=instance.sha256, batches=tuple(Batch(**batch) for batch in batches))
