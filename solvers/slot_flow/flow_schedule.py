"""From a flow to a schedule."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from bounds.slot_solver import schedule_on
from kvcore.certificates.slot_graph import Integers
from kvcore.certificates.slot_search import SlotSearch
from kvcore.instance import Instance
from kvcore.schedule import Schedule
from solvers.slot_flow.arc_kernels import IDLE, TICK
from solvers.slot_flow.arcs import FlowArcs


def schedule_of(instance: Instance, search: SlotSearch, arcs: FlowArcs, flow: Integers) -> Schedule:
    """Return the schedule of a flow [arcs], as early as possible (InvalidSchedule: it breaks a rule)."""
    return schedule_on(instance, search, joint_path(search, arcs, flow))


def joint_path(search: SlotSearch, arcs: FlowArcs, flow: Integers) -> list[tuple[Any, Any]]:
    """Return the states of all requests after each tick, each with the options that led to them (-1: idling)."""
    kinds = enumerate(search.local.counts)
    paths = [path for kind, count in kinds for path in unit_paths(arcs, flow.copy(), kind, count)]
    batches = {int(arcs.table[s, TICK]) for s in np.flatnonzero((flow > 0) & arcs.batches)}
    key = search.start.copy()
    joint = [(key.copy(), np.full(len(key), IDLE))]
    for tick in range(max(map(len, paths))):
        chosen = np.full(len(key), IDLE)
        for place, path in enumerate(paths):
            if tick < len(path):
                _, state, key[place], option = arcs.table[path[tick]]
                rests = option == IDLE and tick in batches
                chosen[place] = arcs.rest[state] if rests else option
        joint.append((key.copy(), chosen))
    return joint


def unit_paths(arcs: FlowArcs, left: Integers, kind: int, count: int) -> Iterator[list[int]]:
    """Yield a path of arcs for each of the `count` requests of a kind; `left` is the flow left."""
    for _ in range(count):
        path, node = list[int](), int(arcs.start[kind])
        while node:
            out = range(*np.searchsorted(arcs.node, [node, node + 1]))
            arc = next(s for s in out if left[s] > 0)
            left[arc] -= 1
            path.append(arc)
            node = int(arcs.head[arc])
        yield path
