"""What requests on given ways take of each slot, and the room that they leave: the exact rules R5 to R7."""

from __future__ import annotations

import numpy as np

from solvers.lagrange.kernels import Array, add_use
from solvers.lagrange.network import DEVICE, HOST, PLACE_BLOCKS, PLACE_TOKENS, RESOURCES, Class, Network

UNLIMITED = 2**50


class Packing:
    """Requests on ways, slot by slot. Movable KV lies wherever it fits: any set of it may be on the host."""

    def __init__(self, network: Network, slots: int) -> None:
        self.network, self.slots = network, slots
        self.block = network.instance.machine.block
        self.limits = np.where(network.is_limited, network.limits, UNLIMITED)
        self.taken = np.zeros((slots, len(RESOURCES)), np.int64)
        self.movable: list[list[int]] = [[] for _ in range(slots)]
        self._sums: dict[int, int] = {}

    def add(self, c: Class, way: Array, sign: int = 1) -> None:
        """Add a request on a way, or take it away again (sign -1)."""
        kinds = np.zeros((self.slots, len(c.uses)), np.int64)
        add_use(kinds, way, 1, c.span, c.kind)
        self.taken += sign * (kinds @ c.uses[:, : len(RESOURCES)])
        for t, k in np.argwhere(kinds[:, c.places]):
            tokens = int(c.uses[c.places[k], PLACE_TOKENS])
            if sign > 0:
                self.movable[t].append(tokens)
            else:
                self.movable[t].remove(tokens)
            self._sums.pop(int(t), None)

    def allows(self, c: Class) -> Array:
        """Return (slots x kinds) whether a request of class c may use each kind in each slot beside the others."""
        left = self.limits - self.taken
        resident, hosted = self._movable_device(left[:, HOST])
        room = left[:, DEVICE] - resident + hosted
        need = c.uses[:, : len(RESOURCES)]
        fits = (need[:, DEVICE] == 0) | (need[:, DEVICE] <= room[:, None])
        for r in range(HOST, len(RESOURCES)):
            if self.network.is_limited[r]:
                fits &= (need[:, r] == 0) | (need[:, r] <= left[:, r, None])
        for k in c.places:
            fits[:, k] = self._place_fits(int(c.uses[k, PLACE_BLOCKS]), int(c.uses[k, PLACE_TOKENS]), room, left)
        return fits

    def _movable_device(self, host_room: Array) -> tuple[Array, Array]:
        """Return the blocks of all movable KV in each slot, and the most of them that the host can take over."""
        total, off = np.zeros(self.slots, np.int64), np.zeros(self.slots, np.int64)
        for t, items in enumerate(self.movable):
            if items:
                total[t] = sum(self.blocks(m) for m in items)
                off[t] = self._most_hosted(t, int(host_room[t]))
        return total, off

    def _place_fits(self, blocks: int, tokens: int, room: Array, left: Array) -> Array:
        fits = blocks <= room
        for t in np.nonzero(~fits & (left[:, HOST] >= tokens))[0]:
            total = sum(self.blocks(m) for m in self.movable[t])
            off = self._most_hosted(int(t), int(left[t, HOST]) - tokens)
            fits[t] = total - off <= left[t, DEVICE]
        return fits

    def blocks(self, tokens: int) -> int:
        """Return the blocks that so many tokens occupy."""
        return -(-tokens // self.block)

    def _most_hosted(self, t: int, room: int) -> int:
        """Return the most blocks of movable KV that `room` tokens of the host can take over in slot t."""
        items = self.movable[t]
        if room >= sum(items):
            return sum(self.blocks(m) for m in items)
        if room <= 0:
            return 0
        if self.block > 1:
            return sum(self.blocks(items[i]) for i in self.hosted(items, room))
        if t not in self._sums:
            sums = 1  # bit n: some of the items add up to n tokens
            for m in items:
                sums |= sums << m
            self._sums[t] = sums
        return (self._sums[t] & ((2 << room) - 1)).bit_length() - 1

    def hosted(self, items: list[int], room: int) -> list[int]:
        """Return which items (by index) to host, at most `room` tokens: a set with the most blocks."""
        best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}  # by tokens: blocks, and which
        for i, m in enumerate(items):
            for tokens, (blocks, which) in list(best.items()):
                there = best.get(tokens + m, (-1, ()))
                if tokens + m <= room and blocks + self.blocks(m) > there[0]:
                    best[tokens + m] = blocks + self.blocks(m), (*which, i)
        return list(max(best.values())[1])
