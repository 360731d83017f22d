"""Which request holds which block: tokens [0, m) of a request on the device, [m, m + h) on the host.

Block k of a request holds the tokens from k * b on; if m lies within, it is on both sides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens [first, last) of block `index` of a request, which move between `device` and `host`.

    `whole`: nothing else that counts lies in that block at the destination, so all of it may be copied.
    """

    request: int
    index: int
    device: int
    host: int
    first: int
    last: int
    whole: bool


class Blocks:
    """Free blocks by number, made when none is free; last freed, first taken, so that tables get permuted.

    `lowest`: the lowest first, which keeps blocks in one run.
    """

    def __init__(self, lowest: bool = False) -> None:
        self.made = 0
        self.held = 0
        self._free: list[int] = []
        self._freed: list[int] = []
        self._lowest = lowest

    def take(self) -> int:
        """Return a free block."""
        self.held += 1
        if self._free:
            return heappop(self._free) if self._lowest else self._free.pop()
        self.made += 1
        return self.made - 1

    def give(self, blocks: Sequence[int]) -> None:
        """Free blocks; those of a request are taken again in their order."""
        self.held -= len(blocks)
        self._freed += blocks
        for block in reversed(blocks):
            if self._lowest:
                heappush(self._free, block)
            else:
                self._free.append(block)

    def collect(self) -> list[int]:
        """Return the blocks freed since the last call."""
        freed, self._freed = self._freed, []
        return freed


class Allocator:
    """The blocks of all requests, numbered from 0. Each move returns the pieces to copy."""

    def __init__(self, requests: int, block: int) -> None:
        self.block = block
        self.device = Blocks()
        self.host = Blocks(lowest=True)
        self._tables: list[tuple[int, ...]] = [()] * requests
        self._hosted: list[dict[int, int]] = [{} for _ in range(requests)]  # index of the block: host block
        self._m = [0] * requests
        self._h = [0] * requests

    @property
    def host_tokens(self) -> int:
        """Tokens on the host."""
        return sum(self._h)

    def resident(self, i: int) -> int:
        """Return a request's tokens on the device."""
        return self._m[i]

    def table(self, i: int) -> tuple[int, ...]:
        """Return a request's device blocks in order of its context."""
        return self._tables[i]

    def tail(self, i: int) -> list[tuple[int, int]]:
        """Return a request's last device block and its first token that is not held, if any."""
        return [(self._tables[i][-1], self._m[i] % self.block)] if self._m[i] % self.block else []

    def grow(self, i: int, tokens: int) -> None:
        """Let a request hold more device tokens."""
        self._m[i] += tokens
        missing = -(-self._m[i] // self.block) - len(self._tables[i])
        self._tables[i] += tuple(self.device.take() for _ in range(missing))

    def drop(self, i: int, tokens: int) -> None:
        """Forget a request's last tokens, those on the host first."""
        from_host = min(self._h[i], tokens)
        self._h[i] -= from_host
        self._m[i] -= tokens - from_host
        self._release(i)

    def swap_out(self, i: int, tokens: int) -> list[Piece]:
        """Send a request's last device tokens to the host."""
        pieces = []
        for index, first, last in self._ranges(self._m[i] - tokens, self._m[i]):
            whole = index not in self._hosted[i]
            if whole:
                self._hosted[i][index] = self.host.take()
            pieces.append(Piece(i, index, self._tables[i][index], self._hosted[i][index], first, last, whole))
        self._m[i] -= tokens
        self._h[i] += tokens
        self._release(i)
        return pieces

    def swap_in(self, i: int, tokens: int) -> list[Piece]:
        """Bring a request's first host tokens back to the device."""
        had, start = len(self._tables[i]), self._m[i]
        self.grow(i, tokens)
        pieces = [
            Piece(i, index, self._tables[i][index], self._hosted[i][index], first, last, index >= had)
            for index, first, last in self._ranges(start, self._m[i])
        ]
        self._h[i] -= tokens
        self._release(i)
        return pieces

    def finish(self, i: int) -> None:
        """Free all blocks of a request."""
        self.drop(i, self._m[i] + self._h[i])

    def _ranges(self, start: int, end: int) -> list[tuple[int, int, int]]:
        b = self.block
        blocks = range(start // b, -(-end // b)) if end > start else ()
        return [(index, max(start - index * b, 0), min(end - index * b, b)) for index in blocks]

    def _release(self, i: int) -> None:
        keep = -(-self._m[i] // self.block)
        if keep < len(self._tables[i]):
            self.device.give(self._tables[i][keep:])
            self._tables[i] = self._tables[i][:keep]
        held = {index for index, _, _ in self._ranges(self._m[i], self._m[i] + self._h[i])}
        gone = sorted(self._hosted[i].keys() - held)
        self.host.give([self._hosted[i].pop(index) for index in gone])
