"""What others may compute of a request's context (`docs/bounds.md`, "What others compute")."""

from bisect import bisect_left
from collections import defaultdict
from itertools import accumulate
from typing import NamedTuple

from kvcore.contents import Part
from kvcore.instance import Instance


class Prefix(NamedTuple):
    """Leading tokens of a request's path: all, those with other users, with earlier ones, and what is not charged."""

    block: int = 1
    path: int = 0
    others: int = 0
    earlier: int = 0
    free: int = 0

    def reach(self, before: int, context: int) -> int:
        """Return the most that may be reused of a context, `before` of it processed earlier."""
        whole = max(min(self.path, before), min(self.others, context - 1))
        return whole // self.block * self.block


def prefixes(instance: Instance) -> list[Prefix]:
    """Return the prefix of each request."""
    requests, block = instance.requests, instance.machine.block
    users: defaultdict[str, list[tuple[int, Part, int]]] = defaultdict(list)
    for i in sorted(range(len(requests)), key=lambda i: requests[i].arrival):
        for part in instance.parts[i]:
            users[part.node].append((i, part, part.of((requests[i].prompt - 1) // block)))
    found = [[block * sum(part.blocks for part in parts), 0, 0, 0] for parts in instance.parts]
    for those in users.values():
        sizes = [part.blocks for _, part, _ in those]
        prior = [0, *accumulate(sizes, max)]
        later = [*accumulate(reversed([*sizes[1:], 0]), max)][::-1]
        unpaid = sorted((prompt, part.blocks) for _, part, prompt in those if prompt < part.blocks)
        ends = [0, *accumulate((blocks for _, blocks in unpaid), max)]
        for (i, part, prompt), before, after in zip(those, prior, later, strict=False):
            free = max(before, ends[bisect_left(unpaid, (prompt,))])
            for k, blocks in enumerate((max(before, after), before, min(free, prompt)), 1):
                if common := min(blocks, part.blocks):
                    found[i][k] = max(found[i][k], block * (part.before + common))
    return [Prefix(block, *each) for each in found]
