"""What requests on given paths take of each slot, and whether they fit: the exact rules R5 to R7."""

from __future__ import annotations

import numpy as np

from solvers.lagrange.kernels import Array, add_use
from solvers.lagrange.network import DEVICE, HOST, PLACE_TOKENS, RESOURCES, PathNetwork, RequestClass

UNLIMITED = 2**50


class Packing:
    """Requests on paths, slot by slot. Movable KV lies wherever it fits: any set of it may be on the host."""

    def __init__(self, network: PathNetwork, slots: int) -> None:
        self.network, self.slots = network, slots
        self.block = network.instance.machine.block
        self.limits = np.where(network.is_limited, network.limits, UNLIMITED)
        self.taken = np.zeros((slots, len(RESOURCES)), np.int64)
        self.movable: list[list[int]] = [[] for _ in range(slots)]

    def add(self, c: RequestClass, path: Array) -> None:
        """Add a request on a path."""
        kinds = np.zeros((self.slots, len(c.uses)), np.int64)
        add_use(kinds, path, 1, c.span, c.kind)
        self.taken += kinds @ c.uses[:, : len(RESOURCES)]
        for t, k in np.argwhere(kinds[:, c.places]):
            self.movable[t].append(int(c.uses[c.places[k], PLACE_TOKENS]))

    def fits(self) -> bool:
        """Whether all requests fit together."""
        room = self.limits - self.taken
        return bool((room >= 0).all()) and all(
            self.least_resident(items, int(room[t, HOST])) <= room[t, DEVICE]
            for t, items in enumerate(self.movable)
            if sum(map(self.blocks, items)) > room[t, DEVICE]
        )

    def least_resident(self, items: list[int], host_room: int) -> int:
        """Return the blocks that movable KV takes of the device at the least."""
        hosted = set(self.hosted(items, host_room))
        return sum(self.blocks(tokens) for i, tokens in enumerate(items) if i not in hosted)

    def blocks(self, tokens: int) -> int:
        """Return the blocks that so many tokens occupy."""
        return -(-tokens // self.block)

    def hosted(self, items: list[int], room: int) -> list[int]:
        """Return which items (by index) to host, at most `room` tokens: a set with the most blocks."""
        best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}  # by tokens: blocks, and which
        for i, m in enumerate(items):
            for tokens, (blocks, which) in list(best.items()):
                known = best.get(tokens + m, (-1, ()))
                if tokens + m <= room and blocks + self.blocks(m) > known[0]:
                    best[tokens + m] = blocks + self.blocks(m), (*which, i)
        return list(max(best.values())[1])
