"""What requests need not process themselves (docs/bounds.md, What others compute)."""

from __future__ import annotations

from collections import defaultdict

from library.checker.files import Box, spend


def note_prefixes(instance: Box) -> Box:
    """The instance with each request's `prefix`, in tokens."""
    if not instance.contents:
        return instance
    b, ones = instance.machine.block, sorted(instance.requests, key=lambda one: one.arrival)
    paths = [[(id, place) for id, k in one.parts for place in range(k)] for one in ones]
    spend(20 * sum(map(len, paths)), "its paths")
    users = defaultdict(list)
    for i, path in enumerate(paths):
        for block in path:
            users[block].append(i)
    shortest = {block: min((ones[i].prompt - 1) // b for i in those) for block, those in users.items()}
    for i, (one, path) in enumerate(zip(ones, paths, strict=True)):
        not_charged = (
            k + 1
            for k, block in enumerate(path[: (one.prompt - 1) // b])
            if users[block][0] != i or shortest[block] <= k
        )
        one["prefix"] = Box(
            path=b * len(path),
            others=b * sum(len(users[block]) > 1 for block in path),
            earlier=b * sum(users[block][0] != i for block in path),
            free=b * max(not_charged, default=0),
        )
    return Box(instance, machine=Box(instance.machine, partial=True))  # a drop and a reuse are like a drop of a part
