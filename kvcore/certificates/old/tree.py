"""A tree that says when segments end, with prices of slots at its leaves: the least bound of a leaf is one of all.

A branch says that a segment of a request ends by some slot, or after it. Every schedule does one or the other, so it
is in one of the leaves, where each request pays at least for its cheapest path whose segments end as the branches
above the leaf say: `paths.py` counts payments by the slots in which segments end. A leaf in which some request has
no such path holds no schedule.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from kvcore.certificates.budget import Budget, Most, Work
from kvcore.certificates.old.paths import ANY_LATER, NEVER
from kvcore.certificates.old.prices import Prices, spend
from kvcore.certificates.proof import InvalidCertificate, Proof
from kvcore.features import CALLS, FLOWS, MACHINES, REQUESTS, Feature, Takes
from kvcore.instance import Instance, Name, Noun
from kvcore.metrics import Value

Ends = tuple[tuple[int, int], ...]
Paths = dict[int, dict[tuple[int, Ends], int]]


class Branch(Noun):
    """Segment `segment` (from 0) of a request ends by `slot`, counted from the first arrival; or after it."""

    request: Name
    segment: Annotated[int, Field(ge=0)]
    slot: Annotated[int, Field(ge=0, lt=Most.tree_slots)]


class Leaf(Noun):
    """The place in `Tree.prices` of the prices that hold here."""

    prices: Annotated[int, Field(ge=0)]


class Tree(Proof):
    """Each branch in `nodes` precedes all nodes of its side "by", then all of "after"."""

    kind: Literal["tree"] = "tree"
    takes: ClassVar = Takes((MACHINES - {Feature.EVICT, Feature.PARTIAL, Feature.BLOCKS}) | REQUESTS | CALLS | FLOWS)
    prices: Annotated[tuple[Prices, ...], Field(min_length=1, max_length=Most.nodes)]
    nodes: Annotated[tuple[Branch | Leaf, ...], Field(min_length=1, max_length=Most.nodes)]

    def prove(self, instance: Instance, objective: str, budget: Budget) -> Value:
        """Return the least bound of a leaf that has a path for each request."""
        like = {request.shape: i for i, request in enumerate(instance.requests)}
        kind = [like[request.shape] for request in instance.requests]
        paths = self._paths(instance, objective, kind, budget)
        alone = {leaf: sum(costs[i, ()] for i in kind) for leaf, costs in paths.items()}
        least: list[Fraction] = []
        for leaf, ends in self._leaves(instance):
            costs = [paths[leaf][kind[i], each] for i, each in ends.items()]
            if all(cost < NEVER for cost in costs):
                others = alone[leaf] - sum(paths[leaf][kind[i], ()] for i in ends)
                least.append(self.prices[leaf].bound(instance.machine, others + sum(costs)))
        if not least:
            raise InvalidCertificate("a tree without a schedule: in each leaf some request cannot end as it says")
        return min(least)

    def _paths(self, instance: Instance, objective: str, kind: list[int], budget: Budget) -> Paths:
        paths: Paths = {}
        for leaf, ends in self._leaves(instance):
            budget.spend(f"a tree of {len(self.nodes)} nodes", Work.visit * (1 + len(ends)))
            wanted = {(kind[i], each) for i, each in ends.items()}
            if leaf not in paths:
                wanted |= {(i, ()) for i in kind}
            for key in wanted - paths.setdefault(leaf, {}).keys():
                prices, paths[leaf][key] = self.prices[leaf], 0
                spend(budget, instance.machine, [instance.requests[key[0]]], prices.slots)
        for leaf, costs in paths.items():
            cheapest = self.prices[leaf].paths(instance, objective)
            costs.update({(i, each): cheapest(instance.requests[i], each) for i, each in costs})
        return paths

    def _leaves(self, instance: Instance) -> Iterator[tuple[int, dict[int, Ends]]]:
        places = {request.id: i for i, request in enumerate(instance.requests)}
        slots = min(prices.slots for prices in self.prices)
        ends: dict[int, Ends] = {}
        later: list[tuple[int, Ends, bool]] = []  # what to allow next, and whether that is a side "after"
        is_whole = False
        for node in self.nodes:
            if is_whole:
                raise InvalidCertificate("nodes that no branch of the tree leads to")
            if isinstance(node, Branch):
                i = places.get(node.request, -1)
                if i < 0 or node.segment >= len(instance.requests[i].segments) or node.slot >= slots:
                    raise InvalidCertificate(f"no request, segment or slot for the branch {node.model_dump()}")
                by, after = _sides(ends.get(i, ()), node, len(instance.requests[i].segments))
                later += [(i, ends.get(i, ()), False), (i, after, True)]
                ends[i] = by
                continue
            if node.prices >= len(self.prices):
                raise InvalidCertificate(f"a leaf with prices {node.prices}, of {len(self.prices)}")
            yield node.prices, ends
            is_after = False
            while later and not is_after:
                i, ends[i], is_after = later.pop()
            is_whole = not is_after
        if not is_whole:
            raise InvalidCertificate("a branch of the tree without its second side")

    @property
    def why(self) -> str:
        """The argument."""
        leaves = (len(self.nodes) + 1) // 2
        return f"a schedule ends segments in one of {leaves} ways; at prices of each, no request finds a cheaper path"


def _sides(ends: Ends, branch: Branch, segments: int) -> tuple[Ends, Ends]:
    every = ends or ((0, ANY_LATER),) * segments
    low, high = every[branch.segment]
    before, behind = every[: branch.segment], every[branch.segment + 1 :]
    by = (low, min(high, branch.slot))
    after = (max(low, branch.slot + 1), high)
    return (*before, by, *behind), (*before, after, *behind)
