"""A tree of ends of segments, the least bound first; `kvcore.certificates.Tree` is the proof.

A node has its own prices, and its parent's paths that end as its branches say; it generates more for a few rounds. It
branches on the end that differs most between the paths mixed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil

import numpy as np

from bounds.clock import now
from bounds.column_generation import Master, improve
from bounds.lagrangian import Floats, Ints, Oracle, PricePoint, RequestPath, SlotPricing, proof_of
from bounds.task import LadderOptions, Proposal, Task
from bounds.tuning import Options, option
from bounds.walks import FAR
from kvcore.certificates import Branch, Leaf, Prices, Tree
from kvcore.certificates.budget import MOST_WORK, Budget
from kvcore.certificates.path_kernels import CONTEXT, DECODE, HIGH, LOW, PAUSE
from kvcore.certificates.prices import kinds, spend
from kvcore.metrics import AVERAGES


@dataclass(frozen=True)
class TreeOptions(Options):
    """Branch and bound over the ends of segments, with strong branching."""

    most_leaves: int = option(1000, "open nodes, at the most")

    slack = 1e-3  # a bound counts as so much less, for what is lost when prices become whole numbers


@dataclass(eq=False)
class TreeNode:
    """The ends allowed, paths within them, the best prices, and any branch."""

    legs: list[Ints]
    point: PricePoint
    mixed: list[tuple[float, RequestPath]] = field(default_factory=list)
    branch: Branch | None = None
    sides: list[TreeNode] = field(default_factory=list)

    def __lt__(self, other: TreeNode) -> bool:
        return self.point.bound < other.point.bound


def propose_tree(task: Task, oracle: Oracle) -> Iterator[Proposal]:
    """Yield a tree that begins with the oracle's best prices, which must exist, one for each slot."""
    before, priced = oracle.pricing, np.flatnonzero(oracle.best.prices.any(axis=0))
    pricing = SlotPricing(before.instance, before.objective, apart=True)
    slots = min(oracle.slots, int(priced[-1]) * 3 // 2 + 16)  # half as many again as those that have a price
    search = TreeSearch(task, Oracle(pricing, slots, 1, 1), oracle.best.prices[:, :slots])
    try:
        search.run()
    finally:  # on KeyboardInterrupt too
        proof = search.proof()
        yield Proposal(proof if len(proof.nodes) > 1 else proof.prices[0])


class TreeSearch:
    """The open nodes of one instance."""

    def __init__(self, task: Task, oracle: Oracle, prices: Floats) -> None:
        self.task, self.oracle, self.options = task, oracle, TreeOptions.given()
        self.is_whole = task.objective not in AVERAGES
        self.cutoff = np.inf if task.upper is None else float(task.upper)
        self.master = Master(oracle)
        self.root = self._node(oracle.legs, prices)
        self.open = [self.root]
        pricing = oracle.pricing
        spend(count := Budget(), pricing.machine, kinds(pricing.instance), oracle.slots)
        self.check = (MOST_WORK - count.work) / MOST_WORK
        """Part of a checker's work for each leaf."""

    def run(self) -> None:
        """Branch until the bound cannot rise, or time is up."""
        self._improve(self.root, 100)
        while self._goes_on():
            node = self.open[0]
            bound = node.point.bound
            if self._branch(node):
                heapq.heapreplace(self.open, node.sides[0])
                heapq.heappush(self.open, node.sides[1])
            else:
                self._improve(node, 100)
                heapq.heapify(self.open)
                if node.point.bound == bound:
                    break

    def _goes_on(self) -> bool:
        least, work = self._value(self.open[0].point.bound), self.check * (len(self.open) + 2)
        left = self.task.deadline - now() - work * MOST_WORK / (LadderOptions.given().slack * 10**9)
        return least < self.cutoff and work < 1 and left > 0 and len(self.open) < self.options.most_leaves

    def _value(self, bound: float) -> float:
        return float(ceil(bound - self.options.slack)) if self.is_whole and bound < FAR else bound

    def _improve(self, node: TreeNode, rounds: int) -> None:
        self.oracle.legs = node.legs
        if node.point.bound < FAR:
            self.master.narrow(node.legs)
            node.point = improve(self.oracle, self.master, node.point, self.task.deadline, rounds, self._enough)
            node.mixed = self.master.mixed()

    def _enough(self, value: float, bound: float) -> bool:
        if self.is_whole and self._value(bound) < self._value(value):
            return self._value(bound) >= self.cutoff
        return value - bound < max(self.options.slack, 1e-6 * abs(value)) or self.is_whole

    def _branch(self, node: TreeNode) -> bool:
        best: tuple[float, Branch, list[TreeNode]] | None = None
        for k, segment, slot in self._candidates(node):
            sides = [self._side(node, k, segment, slot, after) for after in (False, True)]
            for side in sides:
                self._improve(side, 2)
            gains = [
                min(side.point.bound, self.cutoff + 1, 2 * abs(node.point.bound) + 9) - node.point.bound
                for side in sides
            ]
            score = max(min(gains), 1e-3) * max(max(gains), 1e-3)
            if best is None or score > best[0]:
                request = self.oracle.pricing.instance.requests[k].id
                best = score, Branch(request=request, segment=segment, slot=slot), sides
        if best is None:
            return False
        _, node.branch, node.sides = best
        for side in node.sides:
            self._improve(side, 12)
        return True

    def _candidates(self, node: TreeNode) -> list[tuple[int, int, int]]:
        """Requests, segments and slots, by how much the ends differ."""
        found: list[tuple[float, int, int, int]] = []
        mixed: dict[int, list[tuple[float, Ints]]] = {}
        for share, path in node.mixed:
            mixed.setdefault(path.kind, []).append((share, path.ends))
        for k, paths in mixed.items():
            shares, ends = np.array([share for share, _ in paths]), np.array([ends for _, ends in paths])
            mean = shares @ ends / shares.sum()
            spread = shares @ np.abs(ends - mean) / shares.sum()
            size = node.legs[k][:, CONTEXT] + node.legs[k][:, DECODE]
            for segment in np.flatnonzero(spread > 1e-6):
                slot = int(min(mean[segment], ends[:, segment].max() - 1))
                if slot < self.oracle.slots:
                    found.append((spread[segment] * size[segment], k, int(segment), slot))
        found.sort(reverse=True)
        return [each[1:] for each in found[:2]]  # two are tried before one is chosen

    def _side(self, node: TreeNode, k: int, segment: int, slot: int, after: bool) -> TreeNode:
        legs = list(node.legs)
        legs[k] = mine = legs[k].copy()
        if after:
            mine[segment, LOW] = max(mine[segment, LOW], slot + 1)
        else:
            mine[segment, HIGH] = min(mine[segment, HIGH], slot)
            for s in range(segment, 0, -1):
                before = mine[s, HIGH] - mine[s, DECODE] - mine[s - 1, PAUSE]
                mine[s - 1, HIGH] = min(mine[s - 1, HIGH], before)
        return self._node(legs, node.point.prices)

    def _node(self, legs: list[Ints], prices: Floats) -> TreeNode:
        self.oracle.legs = legs
        point = self.oracle.evaluate(prices)
        if point.bound < FAR:
            self.master.add(point.paths)
        return TreeNode(legs, point)

    def proof(self) -> Tree:
        """Return the tree without needless branches."""
        least = self._value(min(node.point.bound for node in self.open))
        prices, nodes = list[Prices](), list[Branch | Leaf]()
        pending = [self.root]
        while pending:
            node = pending.pop()
            if node.sides and self._value(node.point.bound) < least:
                assert node.branch is not None
                nodes.append(node.branch)
                pending += reversed(node.sides)
            else:
                nodes.append(Leaf(prices=len(prices)))
                prices.append(proof_of(self.oracle.pricing, self.oracle.spread(node.point.prices)))
        return Tree(prices=tuple(prices), nodes=tuple(nodes))
