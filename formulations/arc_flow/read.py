"""Reading a schedule off the flows."""

from __future__ import annotations

from collections import Counter

import pyomo.environ as pyo

from formulations.arc_flow.flows import Flows
from formulations.arc_flow.graph import SINK, Arc
from formulations.arc_flow.transitions import Action
from formulations.timing import MOVES, Event, batches_of, end_at, start_early
from kvcore.schedule import Schedule

Actions = dict[int, tuple[Action, bool]]
"""What a request does, by layer: its action, and whether it begins there."""


def read_schedule(program: Flows) -> Schedule:
    """Return the schedule of the values of the variables; drops in a layer that is no batch join the next one."""
    doings = [path for c in range(len(program.graphs)) for path in paths(program, c)]
    done = [
        (id, events(actions, hosted)) for hosted, (_, id, actions) in zip(_places(program, doings), doings, strict=True)
    ]
    layers, batches = batches_of(done)
    if program.paced:
        return end_at(program.instance, batches, [program.origin + t + 1 for t in layers]).schedule
    return start_early(program.instance, batches).schedule


Path = tuple[int, str, Actions]
"""The class and id of a request, and its actions."""


def paths(program: Flows, c: int) -> list[Path]:
    """Return a path for each request of class c, by taking the flow apart."""
    graph, flow = program.graphs[c], _flow(program, c)
    leaving = graph.leaving()
    found = []
    for id in graph.ids:
        actions: Actions = {}
        node = graph.source
        while node != SINK:
            arc = next((arc for arc in leaving[node] if flow[arc] > 0), None)
            if arc is None:
                break  # rounding: the referee will say what is missing
            flow[arc] -= 1
            for layer, span, action in arc.steps:
                actions |= {t: (action, t == layer) for t in range(layer, layer + span)}
            node = arc.head
        found.append((c, id, actions))
    return found


def _flow(program: Flows, c: int) -> Counter[Arc]:
    flow: Counter[Arc] = Counter()
    for a, (owner, arc) in enumerate(program.arcs):
        if owner == c and (n := round(pyo.value(program.x[a]))):
            flow[arc] = n
    return flow


def _places(program: Flows, doings: list[Path]) -> list[set[int]]:
    """Return for each request the layers in which its KV of a window is on the host.

    Of those that may be there, the ones that are there already come first, so that few swaps are made.
    """
    hosted: list[set[int]] = [set() for _ in doings]
    for t in sorted(program.in_layer):
        rooms = {key[:2]: round(pyo.value(program.model.offloaded[key])) for key in program.offloaded_at[t]}
        waiting = [r for r, (_, _, actions) in enumerate(doings) if t in actions and actions[t][0].place >= 0]
        for r in sorted(waiting, key=lambda r: t - 1 not in hosted[r]):
            c, _, actions = doings[r]
            room = rooms.get((c, actions[t][0].place), 0)
            if program.setting.hosted or room:
                hosted[r].add(t)
                rooms[c, actions[t][0].place] = room - 1
    return hosted


def events(actions: Actions, hosted: set[int]) -> list[Event]:
    """Return (layer, kind, tokens) of all that one request does; changes of place in windows become swaps."""
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
