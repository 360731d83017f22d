"""From a way for each request to a schedule."""

from __future__ import annotations

from collections.abc import Iterable

from formulations.arc_flow.read import Actions, batches_of
from formulations.timing import start_early
from kvcore.schedule import Schedule
from solvers.lagrange.kernels import Array
from solvers.lagrange.network import DEVICE, HOST, Class
from solvers.lagrange.packing import Packing


def read_schedule(packing: Packing, owners: Iterable[Class], ways: list[Array]) -> Schedule:
    """Return the schedule of requests on `ways`, which together are the packing, started as early as possible."""
    ids = [request.id for c in packing.network.classes for request in c.requests]
    lives = [_life(c, way) for c, way in zip(owners, ways, strict=True)]
    _, batches = batches_of(zip(ids, lives, _places(packing, lives), strict=True))
    return start_early(packing.network.instance, batches).schedule


def _life(c: Class, way: Array) -> Actions:
    found: Actions = {}
    for t, o in way:
        found |= {int(u): (c.options[o].action, u == t) for u in range(t, t + c.options[o].span)}
    return found


def _places(packing: Packing, lives: list[Actions]) -> list[set[int]]:
    """Return for each request the slots in which its movable KV is on the host: in each slot as little as is needed."""
    hosted: list[set[int]] = [set() for _ in lives]
    for t in range(packing.slots):
        movable = [r for r, life in enumerate(lives) if t in life and life[t][0].place >= 0]
        if packing.network.setting.hosted:
            for r in movable:
                hosted[r].add(t)
            continue
        over = sum(packing.blocks(lives[r][t][0].device) for r in movable)
        over -= int(packing.limits[DEVICE] - packing.taken[t, DEVICE])
        if over > 0:
            room = int(packing.limits[HOST] - packing.taken[t, HOST])
            stayed = sorted(movable, key=lambda r: t - 1 not in hosted[r])
            for i in packing.hosted([lives[r][t][0].device for r in stayed], room):
                hosted[stayed[i]].add(t)
    return hosted
