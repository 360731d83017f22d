"""Contents that requests share (`docs/semantics.md`): a forest of nodes, and paths into it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

Path = tuple[str, int]


class Row(NamedTuple):
    """A node; its first block follows its parent's last."""

    id: str
    parent: str | None
    blocks: int


class Part(NamedTuple):
    """The part of a path in one node."""

    node: str
    before: int  # blocks of the path before it
    blocks: int

    def of(self, blocks: int) -> int:
        """Return the number of the path's first `blocks` that are in it."""
        return max(0, min(blocks - self.before, self.blocks))


def canonical(rows: Iterable[Row], paths: Mapping[str, Path]) -> tuple[list[Row], dict[str, Path]]:
    """Return the one spelling of a forest and of the paths of requests. Raises ValueError."""
    forest = _forest(rows)
    ends = {id: end for id, path in paths.items() if (end := _end(forest, id, path)) is not None}
    used = _used(forest, ends.values())
    children = Counter(forest[id].parent for id in used)
    places: dict[str, Path] = {}  # of each node: the node that it goes on, and the blocks before it there
    found: dict[str, Row] = {}
    for id, blocks in used.items():
        parent = forest[id].parent
        if parent is None or children[parent] > 1:
            places[id] = id, 0
            found[id] = Row(id, parent and places[parent][0], blocks)
        else:
            head, before = places[parent]
            places[id] = head, before + forest[parent].blocks
            found[head] = found[head]._replace(blocks=places[id][1] + blocks)
    return [*found.values()], {id: (places[node][0], places[node][1] + k) for id, (node, k) in ends.items()}


def _forest(rows: Iterable[Row]) -> dict[str, Row]:
    forest: dict[str, Row] = {}
    for row in rows:
        if row.id in forest:
            raise ValueError(f"two nodes of contents have the id {row.id}")
        forest[row.id] = row
    rooted: set[str | None] = {None}
    for row in forest.values():
        trail: dict[str, None] = {}
        node: Row | None = row
        while node is not None and node.id not in rooted:
            if node.id in trail:
                raise ValueError(f"the parents of node {node.id} form a circle")
            trail[node.id] = None
            if node.parent is not None and node.parent not in forest:
                raise ValueError(f"node {node.id}: no node has the id {node.parent} of its parent")
            node = forest[node.parent] if node.parent is not None else None
        rooted |= trail.keys()
    return forest


def _above(forest: Mapping[str, Row], node: str) -> Path | None:
    parent = forest[node].parent
    return None if parent is None else (parent, forest[parent].blocks)


def _end(forest: Mapping[str, Row], request: str, path: Path) -> Path | None:
    node, blocks = path
    if node not in forest:
        raise ValueError(f"request {request}: its path ends in node {node}, which contents lack")
    if blocks > forest[node].blocks:
        raise ValueError(
            f"request {request}: its path takes {blocks} blocks of node {node}, which has {forest[node].blocks}"
        )
    return path if blocks else _above(forest, node)


def _used(forest: Mapping[str, Row], ends: Iterable[Path]) -> dict[str, int]:
    used: dict[str, int] = {}
    for end in ends:
        trail: list[Path] = []
        at: Path | None = end
        while at is not None:
            trail.append(at)
            at = None if at[0] in used else _above(forest, at[0])
        for node, blocks in reversed(trail):
            used[node] = max(used.get(node, 0), blocks)
    return used


def parts_of(forest: Mapping[str, Row], path: Path | None) -> tuple[Part, ...]:
    """Return the parts of a path in order."""
    backwards: list[Path] = []
    while path is not None:
        backwards.append(path)
        path = _above(forest, path[0])
    parts: list[Part] = []
    before = 0
    for node, blocks in reversed(backwards):
        parts.append(Part(node, before, blocks))
        before += blocks
    return tuple(parts)
