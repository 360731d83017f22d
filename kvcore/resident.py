"""Blocks of contents on the device, and the requests that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kvcore.instance import Instance


class Resident:
    """Resident blocks, always the first of a node."""

    def __init__(self, instance: Instance) -> None:
        self.same_batch = instance.machine.same_batch
        self.blocks = {node.id: 0 for node in instance.contents}  # resident, of each node
        self.retained = 0  # resident, and held by no request
        self._parts = instance.parts
        self._size = {node.id: node.blocks for node in instance.contents}
        self._children: dict[str, list[str]] = {node.id: [] for node in instance.contents}
        for node in instance.contents:
            if node.parent is not None:
                self._children[node.parent].append(node.id)
        self.holders: dict[str, dict[int, int]] = {node.id: {} for node in instance.contents}  # blocks by position

    def length(self, position: int) -> int:
        """Return the blocks of a request's path."""
        return sum(part.blocks for part in self._parts[position])

    def held_of(self, node: str) -> int:
        """Return the held blocks of a node."""
        return max(self.holders[node].values(), default=0)

    def hold(self, position: int, blocks: int) -> None:
        """Let a request hold its path's first `blocks`."""
        for part in self._parts[position]:
            holders, found = self.holders[part.node], part.of(blocks)
            if found != holders.get(position, 0):
                self.retained += self.held_of(part.node)
                holders[position] = found
                if not found:
                    del holders[position]
                self.retained -= self.held_of(part.node)

    def with_blocks(self, holders: Iterable[tuple[int, int]]) -> dict[str, int]:
        """Return the nodes that gain blocks, and their number, once requests have these of their paths."""
        found: dict[str, int] = {}
        for position, blocks in holders:
            for part in self._parts[position]:
                if part.of(blocks) > found.get(part.node, self.blocks[part.node]):
                    found[part.node] = part.of(blocks)
        return found

    def more(self, found: Mapping[str, int]) -> int:
        """Return how many blocks these add."""
        return sum(blocks - self.blocks[node] for node, blocks in found.items())

    def add(self, found: Mapping[str, int]) -> None:
        """Let these be resident."""
        self.retained += self.more(found)
        self.blocks.update(found)

    def forget(self, node: str, blocks: int) -> None:
        """Take the last resident `blocks` of a node away."""
        self.retained -= blocks
        self.blocks[node] -= blocks

    def why_not_forget(self, node: str) -> str | None:
        """Return why a node has too few blocks after all forgets."""
        left, held = self.blocks[node], self.held_of(node)
        if left < held:
            return f"forget leaves {left} blocks of node {node}, requests hold {held}"
        below = [child for child in self._children[node] if self.blocks[child]]
        if left < self._size[node] and below:
            return f"forget leaves {left} of {self._size[node]} blocks of node {node}, and node {below[0]} is resident"
        return None

    def lacks(self, position: int, blocks: int, works: Iterable[tuple[int, int, int]]) -> str | None:
        """Return the first node that lacks one of a path's first `blocks`, which `works` may complete."""
        made = sorted(works, key=lambda work: work[1]) if self.same_batch else []
        for part in self._parts[position]:
            there, asked = self.blocks[part.node], part.of(blocks)
            for worker, before, after in made if there < asked else ():
                for other in self._parts[worker]:
                    if other.node == part.node and other.of(before) <= there:
                        there = max(there, other.of(after))
            if there < asked:
                return part.node
        return None
