"""Prompts that begin alike, from the hashes of their blocks."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kvcore.errors import BadInput
from kvcore.files import valid
from kvcore.instance import Instance, Node
from workloads.own import what_is_shared

PIECE = 64  # tokens by which recorded inputs were compared
HASH = re.compile(r"[^\s,;\[\]\"']+")


class Hashes(NamedTuple):
    """The hashes of each request's blocks of `tokens` tokens."""

    tokens: int
    of: dict[str, Sequence[str]]

    def share(self, instance: Instance, source: str) -> tuple[Instance, str]:
        """Return the instance with prompts as contents, and a note. Raises BadInput."""
        block = instance.machine.block
        if self.tokens % block:
            raise BadInput(
                f"{source}: a hash is of {self.tokens} tokens, no whole blocks of {block}; "
                f"give --block-size {self.tokens}, or what divides it"
            )
        ids: dict[tuple[str | None, str], str] = {}  # of a node: that of its parent, and its hash
        taken: dict[str, int] = {}
        paths = dict[str, tuple[str, int]]()
        for request in instance.requests:
            node: str | None = None
            for each in self.of[request.id][: request.prompt // self.tokens]:
                if (node, each) not in ids:
                    taken[each] = taken.get(each, 0) + 1
                    ids[node, each] = each if taken[each] == 1 else f"{each}/{taken[each]}"
                node = ids[node, each]
            if node is not None:
                paths[request.id] = node, self.tokens // block
        nodes = (Node(id=id, parent=parent, blocks=self.tokens // block) for (parent, _), id in ids.items())
        return _with(instance, nodes, paths, source)


class Input(NamedTuple):
    """Tokens of a request's last input, and those in common with an earlier one."""

    tokens: int
    earlier: str | None = None
    common: int = 0


class Inputs(NamedTuple):
    """Inputs by request, each after its earlier one."""

    of: dict[str, Input]

    def share(self, instance: Instance, source: str) -> tuple[Instance, str]:
        """Return the instance with inputs as contents, and a note. Raises BadInput."""
        block = instance.machine.block
        if PIECE % block:
            raise BadInput(f"{source}: inputs are compared by {PIECE} tokens; give a --block-size that divides {PIECE}")
        spans: dict[str, list[tuple[str, int, int]]] = {}  # of each input: whose pieces, from and to which
        ends: dict[str, set[int]] = defaultdict(set)
        for id, (tokens, earlier, common) in self.of.items():
            kept = [(owner, start, min(end, common // PIECE)) for owner, start, end in spans.get(earlier or "", ())]
            kept = [span for span in kept if span[1] < span[2]]
            begin = kept[-1][2] if kept else 0
            spans[id] = kept + [(id, begin, tokens // PIECE)] * (begin < tokens // PIECE)
            for owner, _, end in spans[id]:
                ends[owner].add(end)
        nodes: dict[tuple[str, int], Node] = {}
        for found in spans.values():
            above: str | None = None
            for owner, start, last in found:
                for end in sorted(end for end in ends[owner] if start < end <= last):
                    if (owner, end) not in nodes:
                        blocks = (end - start) * PIECE // block
                        nodes[owner, end] = Node(id=f"{owner}#{end}", parent=above, blocks=blocks)
                    start, above = end, nodes[owner, end].id
        tails = {id: nodes[found[-1][0], found[-1][2]] for id, found in spans.items() if found}
        return _with(instance, nodes.values(), {id: (node.id, node.blocks) for id, node in tails.items()}, source)


def _with(
    instance: Instance, nodes: Iterable[Node], paths: Mapping[str, tuple[str, int]], source: str
) -> tuple[Instance, str]:
    with valid(source):
        requests = tuple(request.replace(path=paths.get(request.id)) for request in instance.requests)
        found = instance.replace(contents=tuple(nodes), requests=requests)
    return found, what_is_shared(found)


def hashes(text: str) -> Sequence[str]:
    """Return the hashes of a field: a list, or with spaces or commas between them."""
    return HASH.findall(text)
