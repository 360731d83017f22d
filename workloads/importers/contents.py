"""Prompts that begin alike, from the hashes of their blocks."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from kvcore.errors import BadInput
from kvcore.files import valid
from kvcore.instance import Instance, Node

HASH = re.compile(r"[^\s,;\[\]\"']+")


class Hashes(NamedTuple):
    """The hashes of each request's blocks of `tokens` tokens."""

    tokens: int
    of: dict[str, Sequence[str]]

    def share(self, instance: Instance, source: str) -> tuple[Instance, str]:
        """Return the instance with prompts as contents, and a note on what they share. Raises BadInput."""
        block = instance.machine.block
        if self.tokens % block:
            raise BadInput(
                f"{source}: a hash is of {self.tokens} tokens, no whole blocks of {block}; "
                f"give --block-size {self.tokens}, or what divides it"
            )
        ids: dict[tuple[str | None, str], str] = {}  # of a node: that of its parent, and its hash
        taken: dict[str, int] = {}
        paths, shared, tokens = dict[str, tuple[str, int]](), 0, 0
        for request in instance.requests:
            node, old = None, True
            for each in self.of[request.id][: request.prompt // self.tokens]:
                old &= (node, each) in ids
                shared += self.tokens * old
                if not old:
                    taken[each] = taken.get(each, 0) + 1
                    ids[node, each] = each if taken[each] == 1 else f"{each}/{taken[each]}"
                node = ids[node, each]
            if node is not None:
                paths[request.id] = node, self.tokens // block
            tokens += request.prompt
        nodes = (Node(id=id, parent=parent, blocks=self.tokens // block) for (parent, _), id in ids.items())
        with valid(source):
            requests = tuple(request.replace(path=paths.get(request.id)) for request in instance.requests)
            found = instance.replace(contents=tuple(nodes), requests=requests)
        return found, f"{100 * shared / tokens:.1f} % of all prompt tokens begin an earlier prompt, too"


def hashes(text: str) -> Sequence[str]:
    """Return the hashes of a field: a list, or with spaces or commas between them."""
    return HASH.findall(text)
