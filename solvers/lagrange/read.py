"""From a path for each request to a schedule."""

from __future__ import annotations

from collections.abc import Iterable

from formulations.timing import MOVES, Event, batches_of, start_early
from kvcore.schedule import Schedule
from solvers.lagrange.kernels import Array
from solvers.lagrange.network import DEVICE, HOST, RequestClass
from solvers.lagrange.packing import Packing
from solvers.lagrange.transitions import Action

Actions = dict[int, tuple[Action, bool]]
"""What a request does, by slot: its action, and whether it begins there."""


def read_schedule(packing: Packing, owners: Iterable[RequestClass], paths: list[Array]) -> Schedule:
    """Return the schedule of requests on `paths`, which together are the packing, started as early as possible."""
    ids = [request.id for c in packing.network.classes for request in c.requests]
    doings = [_actions(c, path) for c, path in zip(owners, paths, strict=True)]
    hosted = _places(packing, doings)
    _, batches = batches_of((id, _events(a, h)) for id, a, h in zip(ids, doings, hosted, strict=True))
    return start_early(packing.network.instance, batches).schedule


def _actions(c: RequestClass, path: Array) -> Actions:
    found: Actions = {}
    for t, o in path:
        found |= {int(u): (c.options[o].action, u == t) for u in range(t, t + c.options[o].span)}
    return found


def _places(packing: Packing, doings: list[Actions]) -> list[set[int]]:
    """Return for each request the slots in which its movable KV is on the host: in each slot as little as is needed."""
    hosted: list[set[int]] = [set() for _ in doings]
    for t in range(packing.slots):
        movable = [r for r, actions in enumerate(doings) if t in actions and actions[t][0].place >= 0]
        if packing.network.setting.hosted:
            for r in movable:
                hosted[r].add(t)
            continue
        over = sum(packing.blocks(doings[r][t][0].device) for r in movable)
        over -= int(packing.limits[DEVICE] - packing.taken[t, DEVICE])
        if over > 0:
            room = int(packing.limits[HOST] - packing.taken[t, HOST])
            stayed = sorted(movable, key=lambda r: t - 1 not in hosted[r])
            for i in packing.hosted([doings[r][t][0].device for r in stayed], room):
                hosted[stayed[i]].add(t)
    return hosted


def _events(actions: Actions, hosted: set[int]) -> list[Event]:
    """Return (slot, kind, tokens) of all that one request does; changes of place in windows become swaps."""
    events: list[Event] = []
    held, on_host = 0, False
    for t, (action, begins) in sorted(actions.items()):
        if (t in hosted) != on_host:
            on_host = not on_host
            events.append((t, "swap_out" if on_host else "swap_in", held))
        if action.place < 0:
            held = action.device
            moves = ("evict", *MOVES[1:]) if action.evicts else MOVES
            acts = zip(("work", *moves), ("work", *MOVES), strict=True)
            events += [(t, kind, n) for kind, name in acts if begins and (n := getattr(action, name))]
    return events
