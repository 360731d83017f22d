"""The steps of schedules below a target, as the arcs of a flow."""

from typing import Any

import numpy as np

from kvcore.certificates.slot_graph import Graphs, Integers
from kvcore.certificates.slot_kernels import NEVER
from kvcore.certificates.slot_search import SlotSearch
from kvcore.limits import DEVICE, HOST, SHARED
from solvers.slot_flow.arc_kernels import IDLE, Arcs, cheap_arcs


class FlowArcs:
    """The arcs left between nodes (state, tick), sorted by tick and state: `table` [arcs, 4].

    `node` and `head` [arcs] are numbers of nodes; 0 is the end, and `start` [kinds] where each kind begins. `use`
    [arcs, resources] is the use of each limit, `cost` [arcs] in units of the target. An arc that `batches` needs a
    batch, one that `idles` none; a wait is possible in both.
    """

    def __init__(self, search: SlotSearch, table: Arcs, every_tick: bool) -> None:
        """With `every_tick` each tick is a batch, even one of drops or of rest alone."""
        graphs, self.slots, self.rest = search.graphs, search.slots, rest_options(search.graphs)
        self.table = table = table[self._kept(table, every_tick or not _some_must_act(search.local.graphs))]
        tick, state, head, option = table.T
        waits = option == IDLE
        self.kind = search.reduced.kind[state]
        self.batches, self.idles = ~waits, waits & (self.rest[state] < 0)
        held = np.zeros((len(table), SHARED), np.int64)
        held[:, DEVICE], held[:, HOST] = graphs.blocks[state], graphs.host[state]
        self.use = np.where(waits[:, None], held, graphs.use[option])
        self.decodes, self.prefills = ~waits & graphs.decodes[option], ~waits & graphs.prefills[option]
        self.cost = np.where(~waits & graphs.ends[option], graphs.rate[state] * (tick + 1), 0)
        size = len(graphs.idle)
        is_last = graphs.done[head] | (tick + 1 == self.slots)
        nodes = np.unique(np.append(search.reduced.start, tick * size + state))
        self.node = np.searchsorted(nodes, tick * size + state) + 1
        self.head = np.where(is_last, 0, np.searchsorted(nodes, (tick + 1) * size + head) + 1)
        self.start = np.searchsorted(nodes, search.reduced.start) + 1
        self.nodes = len(nodes) + 1

    def _kept(self, table: Arcs, every_tick: bool) -> Any:
        """Idling stands for the same rest in a batch, too."""
        _, state, _, option = table.T
        return np.where(option == IDLE, (self.rest[state] >= 0) | (not every_tick), self.rest[state] != option)


def rest_options(graphs: Graphs) -> Integers:
    """Return each state's option that equals idling, but in a batch (-1: none)."""
    owner = np.repeat(np.arange(len(graphs.idle)), np.diff(graphs.first))
    rests = (graphs.next == graphs.idle[owner]) & ~graphs.acts & ~graphs.ends
    rests &= (graphs.use[:, DEVICE] == graphs.blocks[owner]) & (graphs.use[:, HOST] == graphs.host[owner])
    found = np.full(len(graphs.idle), IDLE)
    found[owner[rests]] = np.flatnonzero(rests)
    return found


def _some_must_act(graphs: Graphs) -> bool:
    """Only then a tick without a batch allows more than one with it."""
    return bool((rest_options(graphs) < 0).any())


def arcs_below(search: SlotSearch, most: int) -> Arcs | None:
    """Return the arcs of schedules below the target, by the first prices (None: more than `most`)."""
    graphs, prices, start = search.graphs, search.vectors[0].prices, search.reduced.start
    cheapest = search.value_rows(0)
    worth, counts = cheapest[0, start], search.local.counts
    if (worth >= NEVER).any():
        return np.empty((0, 4), np.int64)
    slack = search.goal * search.scale - (int(counts @ worth) - int(search.later[0][0]))
    allowed = (worth + slack)[search.reduced.kind]
    arcs, size = cheap_arcs(graphs, prices, search.scale, start, allowed, cheapest, most)
    return None if size > most else arcs
