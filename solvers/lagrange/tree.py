"""Branch and bound over what the prices leave open: when each segment of each request starts.

Every node is a selection of arcs with prices of its own; its bound is exact. A branch says that a segment starts by
some slot, or after it (on a machine that evicts, also that it ends); where all is settled, that one arc is taken,
or not.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from bounds.ascent import Floats, ascend
from solvers.lagrange.arcs import DEVICE, SLOT, STARTS, TAIL, Arcs, LiveArcs, can_exceed, relax, within, workspace
from solvers.lagrange.kernels import Array
from solvers.lagrange.network import PathNetwork
from solvers.lagrange.packing import UNLIMITED, Packing
from solvers.lagrange.scope import UNIT

STRONG = 8
"""Branchings that are tried before one is chosen."""
TRIAL_ROUNDS, ROUNDS = 8, 30
"""Rounds of pricing for a trial, and for a node."""


@dataclass(eq=False)
class TreeNode:
    """Arcs that are left (rows of the table, by request), prices, the bound in units, and how often arcs are used."""

    live: Array
    part: Array
    prices: Array
    bound: int
    weight: Array

    def __lt__(self, other: TreeNode) -> bool:
        return self.bound < other.bound


class Tree:
    """The open nodes. `cutoff` is the value of the best schedule known: only better ones are looked for.

    `settled` holds the paths of nodes where nothing is left open but that break a budget that the relaxation left out:
    their bound stays.
    """

    def __init__(self, network: PathNetwork, arcs: Arcs, prices: Array, cutoff: int) -> None:
        self.network, self.arcs, self.cutoff = network, arcs, cutoff
        self.floor: int | None = None
        self.nodes = 0
        self.open: list[TreeNode] = []
        live, part = np.arange(len(arcs.table)), arcs.first
        root = self._solve(live, part, prices, 150)
        if root is not None:
            self.open.append(root)

    @property
    def bound(self) -> int:
        """No schedule has a smaller value, in ticks, unless it is the best known."""
        least = self.cutoff
        if self.open:
            least = min(least, -(-self.open[0].bound // UNIT))
        return least if self.floor is None else min(least, self.floor)

    def run(self, go_on: Callable[[], bool], found: Callable[[list[Array]], int]) -> None:
        """Branch until nothing is open or `go_on()` says no.

        `found` is called with the paths of a settled node and returns the value of the best schedule known.
        """
        while self.open and go_on():
            node = heapq.heappop(self.open)
            if -(-node.bound // UNIT) >= self.cutoff:
                continue
            self.nodes += 1
            sides = self._branch(node)
            if sides is None:
                self.cutoff = min(self.cutoff, self._settle(node, found))
                continue
            for side in sides:
                child = self._solve(side.live, side.part, side.prices, ROUNDS)
                if child is not None:
                    child.bound = max(child.bound, node.bound)
                    heapq.heappush(self.open, child)

    def _settle(self, node: TreeNode, found: Callable[[list[Array]], int]) -> int:
        """One path is left for each request: if they fit together, that is a schedule of the relaxation."""
        paths = [self.arcs.path(r, self._follow(node, r)) for r in range(len(self.arcs.source))]
        packing = Packing(self.network, self.arcs.slots)
        packing.limits = np.where(self.network.is_priced, packing.limits, UNLIMITED)
        for c, path in zip(self.arcs.owner, paths, strict=True):
            packing.add(c, path)
        if not packing.fits():
            return self.cutoff
        value = -(-node.bound // UNIT)
        cutoff = found(paths)
        if cutoff > value:  # it breaks a budget that is left out: the bound cannot rise above it
            self.floor = value if self.floor is None else min(self.floor, value)
        return cutoff

    def _follow(self, node: TreeNode, r: int) -> Array:
        mine = node.live[node.part[r] : node.part[r + 1]]
        return mine[np.argsort(self.arcs.table[mine, SLOT], kind="stable")]

    # --- nodes ---------------------------------------------------------------------------------------------------

    def _solve(self, live: Array, part: Array, prices: Array, rounds: int) -> TreeNode | None:
        """Price a selection of arcs and leave out those that cannot be part of something better; None: all can't."""
        arcs, network, most = self.arcs, self.network, (self.cutoff - 1) * UNIT
        priced = can_exceed(arcs.table, live, part, arcs.slots, network.limits, network.is_priced)
        prices = np.where(priced, prices, 0)
        selection = LiveArcs(arcs.table, live, part, arcs.node, arcs.source, np.argwhere(priced))
        bound, prices, weight = self._improve(selection, prices, most, rounds)
        if bound > most:
            return None
        bound, keep = within(selection, prices, network.limits, most)
        sums = np.concatenate([[0], np.cumsum(keep)])
        return TreeNode(live[keep], sums[part], prices, int(bound), weight[keep])

    def _improve(self, selection: LiveArcs, prices: Array, most: int, rounds: int) -> tuple[int, Array, Array]:
        """Return the best bound (FAR: some request has no path left), its prices, and how often arcs were taken."""
        network, live = self.network, len(selection.live)
        slot, resource = selection.rows.T
        rounded, work, demand = prices.copy(), workspace(selection), np.empty_like(prices)
        taken, weight = np.empty(live, np.int64), np.zeros(live)

        def evaluate(x: Floats) -> tuple[int, Floats]:
            rounded[slot, resource] = np.rint(x).astype(np.int64)
            bound = int(relax(selection, rounded, network.limits, work, demand, taken))
            weight[:] = 0.9 * weight + 0.1 * taken
            return bound, (demand[slot, resource] - network.limits[resource]).astype(float)

        start, high = prices[slot, resource].astype(float), network.dearest[resource].astype(float)
        bound, x = ascend(
            evaluate, start, most, rounds=rounds, high=high, margin=UNIT, worth=UNIT // 50, step=0.2, momentum=0.6,
            stalled=5, shrink=0.7, go_on=lambda best: best <= most,
        )  # fmt: skip
        rounded[slot, resource] = np.rint(x).astype(np.int64)
        return bound, rounded, weight

    def _branch(self, node: TreeNode) -> list[TreeNode] | None:
        """Return the two sides of the most promising branching (None: everything is settled)."""
        best: tuple[float, list[TreeNode]] | None = None
        for r, by, after in self._candidates(node):
            sides = [n for n in (self._side(node, r, by), self._side(node, r, after)) if n is not None]
            closed = 2 - len(sides)
            gains = [n.bound - node.bound for n in sides] + [self.cutoff * UNIT - node.bound] * closed
            score = float(max(min(gains), 1)) * max(max(gains), 1)
            if best is None or score > best[0]:
                best = score, sides
            if closed:
                break
        if best is not None:
            return best[1]
        return self._by_arc(node)

    def _side(self, node: TreeNode, r: int, keep: Array) -> TreeNode | None:
        """Return a node with only some arcs of request r left, priced in a few rounds."""
        selected = np.ones(len(node.live), np.bool_)
        selected[node.part[r] : node.part[r + 1]] = keep
        sums = np.concatenate([[0], np.cumsum(selected)])
        return self._solve(node.live[selected], sums[node.part], node.prices, TRIAL_ROUNDS)

    def _candidates(self, node: TreeNode) -> list[tuple[int, Array, Array]]:
        """Return requests with the arcs left if a segment starts by a slot, or after it; the most undecided first."""
        scored: list[tuple[float, int, int, int]] = []
        for r in range(len(self.arcs.source)):
            mine = slice(node.part[r], node.part[r + 1])
            rows = self.arcs.table[node.live[mine]]
            scored += [(*c[:1], r, *c[1:]) for c in undecided(rows, node.weight[mine])]
        scored.sort(reverse=True)
        found = []
        for _, r, segment, slot in scored[:STRONG]:
            rows = self.arcs.table[node.live[node.part[r] : node.part[r + 1]]]
            is_start, is_late = rows[:, STARTS] == segment, rows[:, SLOT] > slot
            found.append((r, ~(is_start & is_late), ~(is_start & ~is_late)))
        return found

    def _by_arc(self, node: TreeNode) -> list[TreeNode] | None:
        """Where all starts are settled: an arc that can be gone round is taken, or not."""
        for r in range(len(self.arcs.source)):
            rows = self.arcs.table[node.live[node.part[r] : node.part[r + 1]]]
            tails, counts = np.unique(rows[:, TAIL], return_counts=True)
            if (counts > 1).any():
                a = int(np.argmax(rows[:, TAIL] == tails[counts > 1][0]))
                others = rows[:, TAIL] == rows[a, TAIL]
                others[a] = False
                sides = (self._side(node, r, ~others), self._side(node, r, np.arange(len(rows)) != a))
                return [side for side in sides if side is not None]
        return None


def undecided(rows: Array, weight: Array) -> Iterator[tuple[float, int, int]]:
    """Yield for each open start (or end): how open it is (times its memory), its column STARTS, a slot to split at."""
    for segment in np.unique(rows[:, STARTS]):
        which = rows[:, STARTS] == segment
        slots, share = rows[which, SLOT], weight[which]
        if segment < 0 or slots.min() == slots.max():
            continue
        total = share.sum()
        mean = float(slots @ share / total) if total > 0 else float(slots.mean())
        spread = float(np.sqrt(max(0.0, share @ (slots - mean) ** 2 / total))) if total > 0 else 0.0
        split = min(max(int(np.floor(mean)), int(slots.min())), int(slots.max()) - 1)
        yield (spread + 1e-3) * float(1 + rows[which, DEVICE].max()), int(segment), split
