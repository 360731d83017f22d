"""Reading a schedule off the flows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyomo.environ as pyo

from formulations.arc_flow.graph import SINK, Arc
from formulations.arc_flow.life import Action
from formulations.timing import end_at, start_early
from kvcore.schedule import Batch, Schedule

if TYPE_CHECKING:
    from formulations.arc_flow.program import ArcFlow

KINDS = ("drop", "swap_out", "swap_in")

Actions = dict[int, tuple[Action, bool]]
"""What a request does, by layer: its action, and whether it begins there."""


def read_schedule(program: ArcFlow) -> Schedule:
    """Return the schedule of the values of the variables; drops in a layer that is no batch join the next one."""
    lives = [life for c in range(len(program.graphs)) for life in paths(program, c)]
    done = [(id, actions, places) for places, (_, id, actions) in zip(_places(program, lives), lives, strict=True)]
    layers, batches = batches_of(done)
    if program.paced:
        return end_at(program.instance, batches, [program.origin + t + 1 for t in layers]).schedule
    return start_early(program.instance, batches).schedule


def batches_of(lives: Iterable[tuple[str, Actions, set[int]]]) -> tuple[list[int], list[Batch]]:
    """Return the layers that are batches, and these, from each request's id, actions and layers on the host.

    Drops in a layer that is no batch join the next one.
    """
    layers: dict[int, dict[str, dict[str, int]]] = defaultdict(lambda: {kind: {} for kind in ("work", *KINDS)})
    for id, actions, hosted in lives:
        for t, kind, tokens in events(actions, hosted):
            layers[t][kind][id] = tokens
    batches: dict[int, Batch] = {}
    dropped: Counter[str] = Counter()
    for t in sorted(layers):
        layer = layers[t]
        dropped += Counter(layer["drop"])
        if layer["work"] or layer["swap_out"] or layer["swap_in"]:
            batches[t] = Batch.model_validate({"start": 0, **layer, "drop": dict(dropped)})
            dropped = Counter()
    return list(batches), list(batches.values())


Path = tuple[int, str, Actions]
"""The class and id of a request, and its actions."""


def paths(program: ArcFlow, c: int) -> list[Path]:
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


def _flow(program: ArcFlow, c: int) -> Counter[Arc]:
    flow: Counter[Arc] = Counter()
    for a, (owner, arc) in enumerate(program.arcs):
        if owner == c and (n := round(pyo.value(program.x[a]))):
            flow[arc] = n
    return flow


def _places(program: ArcFlow, lives: list[Path]) -> list[set[int]]:
    """Return for each request the layers in which its KV of a window is on the host.

    Of those that may be there, the ones that are there already come first, so that few swaps are made.
    """
    hosted: list[set[int]] = [set() for _ in lives]
    for t in sorted(program.in_layer):
        rooms = {key[:2]: round(pyo.value(program.model.offloaded[key])) for key in program.offloaded_at(t)}
        waiting = [r for r, (_, _, actions) in enumerate(lives) if t in actions and actions[t][0].place >= 0]
        for r in sorted(waiting, key=lambda r: t - 1 not in hosted[r]):
            c, _, actions = lives[r]
            room = rooms.get((c, actions[t][0].place), 0)
            if program.setting.hosted or room:
                hosted[r].add(t)
                rooms[c, actions[t][0].place] = room - 1
    return hosted


def events(actions: Actions, hosted: set[int]) -> list[tuple[int, str, int]]:
    """Return (layer, kind, tokens) of all that one request does; changes of place in windows become swaps."""
    events: list[tuple[int, str, int]] = []
    held, on_host = 0, False
    for t, (action, begins) in sorted(actions.items()):
        if (t in hosted) != on_host:
            on_host = not on_host
            events.append((t, "swap_out" if on_host else "swap_in", held))
        if action.place < 0:
            held = action.device
            events += [(t, kind, n) for kind in ("work", *KINDS) if begins and (n := getattr(action, kind))]
    return events
