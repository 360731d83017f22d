"""Which request holds which block: the KV of a request is a prefix on the device, then one on the host, each in blocks.

Tokens [0, m) of a request are on the device and [m, m + h) on the host. Block k of it holds the tokens from k * b on;
it may be on both sides, if m lies within it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens [first, last) of block `index` of a request, which lies at `device` and at `host` and moves between them.

    `whole`: nothing else that counts lies in that block at the destination, so the whole block may be copied.
    """

    request: int
    index: int
    device: int
    host: int
    first: int
    last: int
    whole: bool


class Blocks:
    """Free blocks by number, made when none is free; the one freed last is taken first, so that tables get permuted.

    With `lowest` it is the lowest number, which keeps what is taken together in one run.
    """

    def __init__(self, lowest: bool = False) -> None:
        self.made = 0
        self.held = 0
        self._free: list[int] = []
        self._freed: list[int] = []
        self._lowest = lowest

    def take(self) -> int:
        """Return a block that no request holds."""
        self.held += 1
        if self._free:
            return heappop(self._free) if self._lowest else self._free.pop()
        self.made += 1
        return self.made - 1

    def give(self, blocks: Sequence[int]) -> None:
        """Take blocks back; those of a request are taken again in the order in which it held them."""
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
    """The blocks of all requests, which are numbered from 0. Each move says what is to be copied."""

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
        """Return the tokens of a request on the device."""
        return self._m[i]

    def table(self, i: int) -> tuple[int, ...]:
        """Return the device blocks of a request in the order of its context."""
        return self._tables[i]

    def tail(self, i: int) -> list[tuple[int, int]]:
        """Return the last device block of a request and its first token that is not held, if there is one."""
        return [(self._tables[i][-1], self._m[i] % self.block)] if self._m[i] % self.block else []

    def grow(self, i: int, tokens: int) -> None:
        """Let a request hold more tokens on the device."""
        self._m[i] += tokens
        missing = -(-self._m[i] // self.block) - len(self._tables[i])
        self._tables[i] += tuple(self.device.take() for _ in range(missing))

    def drop(self, i: int, tokens: int) -> None:
        """Forget the last tokens of a request, those on the host first."""
        from_host = min(self._h[i], tokens)
        self._h[i] -= from_host
        self._m[i] -= tokens - from_host
        self._release(i)

    def swap_out(self, i: int, tokens: int) -> list[Piece]:
        """Send the last tokens that a request holds on the device to the host."""
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
        """Bring the first tokens that a request holds on the host back to the device."""
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
        """Free all that a request holds."""
        self.drop(i, self._m[i] + self._h[i])

    def _ranges(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Return the blocks over the positions [start, end): (index, first token in it, last + 1)."""
        b = self.block
        blocks = range(start // b, -(-end // b)) if end > start else ()
        return [(index, max(start - index * b, 0), min(end - index * b, b)) for index in blocks]

    def _release(self, i: int) -> None:
        """Free the blocks in which no token of the request is left."""
        keep = -(-self._m[i] // self.block)
        if keep < len(self._tables[i]):
            self.device.give(self._tables[i][keep:])
            self._tables[i] = self._tables[i][:keep]
        held = {index for index, _, _ in self._ranges(self._m[i], self._m[i] + self._h[i])}
        gone = sorted(self._hosted[i].keys() - held)
        self.host.give([self._hosted[i].pop(index) for index in gone])
