"""A tree of ends: the least bound first, each node with prices of its own; `kvcore.certificates.Tree` is the proof.

A node has the paths of the linear program above it that end as its branches say, and generates more for a few rounds.
It branches on the end of a segment that differs most between the paths that its program mixes.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np

from bounds import kernels
from bounds.generate import Master, improve
from bounds.kernels import DECODE, EARLIEST, FAR, HIGH, LOW, PAUSE, PriceArrays
from bounds.prices import Floats, Ints, Oracle, PricePoint, RequestPath, SlotPricing, proof_of
from bounds.task import LOOSE, Proposal, Task
from kvcore.certificates import Branch, Leaf, Tree
from kvcore.certificates.budget import MOST_WORK, Budget
from kvcore.certificates.prices import kinds, spend

ROUNDS = 12
"""Linear programs of a node, at the most."""
TRIALS, TRIAL_ROUNDS = 2, 2
"""Branchings that are tried before one is chosen, and linear programs for each side."""
MOST_LEAVES = 1000
SLACK = 1e-3
"""A bound counts as so much less, for what is lost when prices become whole numbers."""


@dataclass(eq=False)
class TreeNode:
    """What may end when, paths within that, the best prices, and the two sides of its branch, if it has one."""

    legs: list[Ints]
    point: PricePoint
    mixed: list[tuple[float, RequestPath]] = field(default_factory=list)
    branch: Branch | None = None
    sides: list[TreeNode] = field(default_factory=list)

    def __lt__(self, other: TreeNode) -> bool:
        return self.point.bound < other.point.bound


def propose_tree(task: Task, pricing: SlotPricing, prices: Floats) -> Iterator[Proposal]:
    """Yield a tree that begins with these prices [rows, slots]."""
    apart = SlotPricing(pricing.instance, pricing.objective, pricing.windows, apart=True)
    search = TreeSearch(task, Oracle(apart, np.arange(prices.shape[1] + 1), 1), prices)
    try:
        search.run()
    finally:  # on KeyboardInterrupt too
        proof = search.proof()
        yield Proposal(proof if len(proof.nodes) > 1 else proof.prices[0])


class TreeSearch:
    """The open nodes of one instance."""

    def __init__(self, task: Task, oracle: Oracle, prices: Floats) -> None:
        self.task, self.oracle = task, oracle
        self.is_whole = task.objective != "normalized-latency"
        self.cutoff = np.inf if task.upper is None else float(task.upper)
        self.master = Master(oracle)
        self.root = self._node(oracle.legs, prices)
        self.open = [self.root]
        pricing = oracle.pricing
        spend(count := Budget(), pricing.machine, kinds(pricing.instance), oracle.slots, len(pricing.windows))
        self.check = (MOST_WORK - count.work) / MOST_WORK
        """What part of the work that a checker may do each leaf takes."""

    def run(self) -> None:
        """Branch until the bound cannot rise, or time is up."""
        self._improve(self.root, 100)
        self.open = [self._fixed(self.root)]
        while self._goes_on():
            node = self.open[0]
            bound = node.point.bound
            if self._branch(node):
                heapq.heappop(self.open)
                for side in node.sides:
                    heapq.heappush(self.open, side)
            else:
                self._improve(node, 100)
                heapq.heapify(self.open)
                if node.point.bound == bound:
                    break

    def _goes_on(self) -> bool:
        """Whether the bound may rise, and there is time for it and for the check."""
        least, work = self._value(self.open[0].point.bound), self.check * (len(self.open) + 2)
        left = self.task.deadline - time.monotonic() - work * MOST_WORK / (LOOSE * 10**9)
        return least < self.cutoff and work < 1 and left > 0 and len(self.open) < MOST_LEAVES

    def _value(self, bound: float) -> float:
        """Return what a bound proves."""
        return float(ceil(bound - SLACK)) if self.is_whole and bound < FAR else bound

    def _improve(self, node: TreeNode, rounds: int) -> None:
        self.oracle.legs = node.legs
        if node.point.bound < FAR:
            self.master.narrow(node.legs)
            node.point = improve(self.oracle, self.master, node.point, self.task.deadline, rounds, self._enough)
            node.mixed = self.master.mixed()

    def _enough(self, value: float, bound: float) -> bool:
        if self.is_whole and self._value(bound) < self._value(value):
            return self._value(bound) >= self.cutoff
        return value - bound < max(SLACK, 1e-6 * abs(value)) or self.is_whole

    def _branch(self, node: TreeNode) -> bool:
        """Make the two sides of the most promising branching; say whether there is one."""
        best: tuple[float, Branch, list[TreeNode]] | None = None
        for k, segment, slot in self._candidates(node):
            sides = [self._side(node, k, segment, slot, after) for after in (False, True)]
            for side in sides:
                self._improve(side, TRIAL_ROUNDS)
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
            self._improve(side, ROUNDS)
        return True

    def _candidates(self, node: TreeNode) -> list[tuple[int, int, int]]:
        """Return requests, segments and slots between their ends; those first whose ends differ most."""
        found: list[tuple[float, int, int, int]] = []
        mixed: dict[int, list[tuple[float, Ints]]] = {}
        for share, path in node.mixed:
            mixed.setdefault(path.kind, []).append((share, path.ends))
        for k, paths in mixed.items():
            shares, ends = np.array([share for share, _ in paths]), np.array([ends for _, ends in paths])
            mean = shares @ ends / shares.sum()
            spread = shares @ np.abs(ends - mean) / shares.sum()
            size = node.legs[k][:, kernels.CONTEXT] + node.legs[k][:, DECODE]
            for segment in np.flatnonzero(spread > 1e-6):
                slot = int(min(mean[segment], ends[:, segment].max() - 1))
                if slot < self.oracle.slots:
                    found.append((spread[segment] * size[segment], k, int(segment), slot))
        found.sort(reverse=True)
        return [each[1:] for each in found[:TRIALS]]

    def _side(self, node: TreeNode, k: int, segment: int, slot: int, after: bool) -> TreeNode:
        return self._node(_cut(node.legs, k, segment, slot, after), node.point.prices)

    def _fixed(self, node: TreeNode) -> TreeNode:
        """Return the node below on which ends are left out that cost so much at its prices that it would be closed."""
        if not self.is_whole or self.cutoff == np.inf or node.point.bound >= FAR:
            return node
        arrays = self.oracle.arrays(node.point.prices)
        for k, path in enumerate(node.point.paths):
            self.oracle.legs = list(node.legs)
            slack = self.cutoff - 1 + 2 * SLACK - node.point.bound + self.oracle.path(k, arrays)[0]
            for segment, end in enumerate(path.ends):
                for after in (True, False):
                    slot = self._closed(node.legs, k, segment, int(end), after, slack, arrays)
                    if slot is None:
                        continue
                    kept, other = (
                        TreeNode(_cut(node.legs, k, segment, slot, a), node.point, mixed=node.mixed)
                        for a in (not after, after)
                    )
                    other.point = replace(node.point, bound=self.cutoff)
                    request = self.oracle.pricing.instance.requests[k].id
                    node.branch = Branch(request=request, segment=segment, slot=slot)
                    node.sides = [kept, other] if after else [other, kept]
                    node = kept
        return node

    def _closed(
        self, legs: list[Ints], k: int, segment: int, end: int, after: bool, slack: float, arrays: PriceArrays
    ) -> int | None:
        """Return the slot nearest to `end` such that ending on its far side costs more than `slack` (None: no use)."""
        first = int(legs[k][segment, EARLIEST] + legs[k][segment, DECODE] - 1)
        near, far = (end, self.oracle.slots - 1) if after else (end - 1, max(first, int(legs[k][segment, LOW])))
        if far * (1 if after else -1) < near * (1 if after else -1) or (after and legs[k][segment, HIGH] <= near):
            return None

        def closes(slot: int) -> bool:
            self.oracle.legs = _cut(legs, k, segment, slot, after)
            return self.oracle.path(k, arrays)[0] > slack

        if not closes(far):
            return None
        while near != far:
            middle = (near + far) // 2 if after else -(-(near + far) // 2)
            near, far = (near, middle) if closes(middle) else (middle + (1 if after else -1), far)
        return far

    def _node(self, legs: list[Ints], prices: Floats) -> TreeNode:
        self.oracle.legs = legs
        point = self.oracle.evaluate(prices)
        if point.bound < FAR:
            self.master.add(point.paths)
        return TreeNode(legs, point)

    def proof(self) -> Tree:
        """Return the tree, without branches that are not needed for its bound."""
        least = self._value(min(node.point.bound for node in self.open))
        prices, nodes = [], list[Branch | Leaf]()
        known: dict[int, int] = {}
        pending = [self.root]
        while pending:
            node = pending.pop()
            if node.sides and self._value(node.point.bound) < least:
                assert node.branch is not None
                nodes.append(node.branch)
                pending += reversed(node.sides)
            else:
                place = known.setdefault(id(node.point.prices), len(known))
                nodes.append(Leaf(prices=place))
                if place == len(prices):
                    prices.append(proof_of(self.oracle.pricing, self.oracle.spread(node.point.prices)))
        return Tree(prices=tuple(prices), nodes=tuple(nodes))


def _cut(legs: list[Ints], k: int, segment: int, slot: int, after: bool) -> list[Ints]:
    """Return legs with a segment of request k that ends by a slot, or after it."""
    legs = list(legs)
    legs[k] = mine = legs[k].copy()
    if after:
        mine[segment, LOW] = max(mine[segment, LOW], slot + 1)
        return legs
    mine[segment, HIGH] = min(mine[segment, HIGH], slot)
    for s in range(segment, 0, -1):
        mine[s - 1, HIGH] = min(mine[s - 1, HIGH], mine[s, HIGH] - mine[s, DECODE] - mine[s - 1, PAUSE])
    return legs
