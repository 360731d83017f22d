"""The physical blocks of an engine's prefix cache."""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import islice
from typing import Any


class BlockCache:
    """A queue of free blocks: freed ones with a content go to its back, others to its front."""

    def __init__(self, blocks: int) -> None:
        self.new = blocks  # never taken so far
        self.holders: list[int] = []
        self.content: list[Hashable] = []  # None: nothing to be found again
        self.named: dict[Hashable, dict[int, None]] = {}
        self.gone: set[Hashable] = set()  # contents of which a block was lost since the set was cleared
        self.rank: Callable[[Any], Any] | None = None  # of contents: the least goes first
        self._empty: deque[int] = deque()
        self._kept: OrderedDict[int, None] = OrderedDict()

    @property
    def free(self) -> int:
        """Blocks that can be taken."""
        return len(self._empty) + self.new + len(self._kept)

    def find(self, contents: Iterable[Hashable]) -> list[int]:
        """Return each content's first block, up to a content without."""
        found = []
        for content in contents:
            if content not in self.named:
                break
            found.append(next(iter(self.named[content])))
        return found

    def held(self, blocks: Iterable[int]) -> int:
        """Count the held ones."""
        return sum(self.holders[block] > 0 for block in blocks)

    def take(self, count: int) -> list[int]:
        """Take free blocks, which lose their contents."""
        taken = []
        going = self._going(count - len(self._empty) - self.new)
        for _ in range(count):
            if self._empty:
                block = self._empty.popleft()
            elif self.new:
                self.new -= 1
                block = len(self.holders)
                self.holders.append(0)
                self.content.append(None)
            else:
                block = next(going)
                del self._kept[block]
                self.unname([block])
            self.holders[block] = 1
            taken.append(block)
        return taken

    def _going(self, count: int) -> Iterator[int]:
        if (rank := self.rank) is None or count <= 0:
            return iter([*islice(self._kept, max(0, count))])
        return iter(nsmallest(count, self._kept, key=lambda block: rank(self.content[block])))

    def hold(self, blocks: Sequence[int]) -> None:
        """Add a holder to blocks that were found."""
        for block in blocks:
            if not self.holders[block]:
                del self._kept[block]
            self.holders[block] += 1

    def name(self, block: int, content: Hashable) -> None:
        """Name the content of a block that has none."""
        if self.content[block] is None:
            self.content[block] = content
            self.named.setdefault(content, {})[block] = None

    def unname(self, blocks: Iterable[int]) -> None:
        """Take blocks their contents."""
        for block in blocks:
            content, self.content[block] = self.content[block], None
            self.gone.add(content)
            del self.named[content][block]
            if not self.named[content]:
                del self.named[content]

    def give(self, blocks: Sequence[int]) -> None:
        """Take a holder from a request's blocks, the last first."""
        empty = []
        for block in reversed(blocks):
            self.holders[block] -= 1
            if self.holders[block]:
                continue
            if self.content[block] is None:
                empty.append(block)
            else:
                self._kept[block] = None
        self._empty.extendleft(reversed(empty))
