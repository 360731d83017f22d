"""A radix tree of contents."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import count

Key = Sequence[Hashable]


class TreeNode:
    """A run of blocks."""

    def __init__(self, parent: TreeNode | None, key: Key, locks: int, used: int) -> None:
        self.parent, self.key, self.locks, self.used = parent, key, locks, used
        self.children: dict[Hashable, TreeNode] = {}


class RadixTree:
    """Blocks by contexts; whole leaves are evicted, the longest unused first."""

    def __init__(self) -> None:
        self.clock = count()
        self.root = TreeNode(None, (), 1, next(self.clock))
        self.evictable = 0  # blocks that none locks

    def walk(self, key: Key) -> tuple[int, TreeNode]:
        """Use the longest run that is there; return its blocks and its node."""
        now, node, found = next(self.clock), self.root, 0
        while found < len(key) and (child := node.children.get(key[found])) is not None:
            child.used = now
            same = next((k for k, (a, b) in enumerate(zip(child.key, key[found:], strict=False)) if a != b), None)
            same = min(len(child.key), len(key) - found) if same is None else same
            found += same
            node = child if same == len(child.key) else self._split(child, same)
        return found, node

    def _split(self, node: TreeNode, at: int) -> TreeNode:
        assert node.parent is not None
        upper = TreeNode(node.parent, node.key[:at], node.locks, node.used)
        node.parent.children[node.key[0]] = upper
        node.parent, node.key = upper, node.key[at:]
        upper.children[node.key[0]] = node
        return upper

    def insert(self, key: Key) -> tuple[int, TreeNode]:
        """Add a run; return the blocks that were there, and its node."""
        found, node = self.walk(key)
        if found < len(key):
            leaf = node.children[key[found]] = TreeNode(node, key[found:], 0, node.used)
            leaf.used = next(self.clock)
            self.evictable += len(leaf.key)
            node = leaf
        return found, node

    def lock(self, node: TreeNode, holders: int = 1) -> None:
        """Add holders to a node and all above."""
        while node.parent is not None:
            before, node.locks = node.locks, node.locks + holders
            self.evictable += (not node.locks) * len(node.key) - (not before) * len(node.key)
            node = node.parent

    def evict(self, blocks: int) -> int:
        """Evict leaves until `blocks` have gone, if possible; return how many went."""
        line = [(node.used, id(node), node) for node in self.nodes() if not (node.children or node.locks)]
        heapify(line)
        gone = 0
        while gone < blocks and line:
            node = heappop(line)[-1]
            gone += len(node.key)
            parent = node.parent
            assert parent is not None
            del parent.children[node.key[0]]
            if not (parent.children or parent.locks):
                heappush(line, (parent.used, id(parent), parent))
        self.evictable -= gone
        return gone

    def nodes(self) -> Iterator[TreeNode]:
        """Yield all nodes."""
        stack = [*self.root.children.values()]
        while stack:
            node = stack.pop()
            yield node
            stack += node.children.values()
