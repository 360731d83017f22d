"""Best-first search over labels, compiled by numba where it is installed.

A label is what is known after some steps. A use keeps columns of its own for it, beside `Labels`, and brings three
functions. `expand(p, f, at)` writes each label that may follow one to the free row, with its key and what is left of
it, gives it to `add`, and returns the first code that is not `EMPTY`. `covers(p, f, one, other)` says whether one label
is as good as another of the same key: whatever follows the other ends no lower than something that follows it.
`least(p, f, at)` is a lower bound of all ends that follow a label.

So no end below the target is below the bound of the first label in the heap. What follows a label that is left out
follows one that covers it, at no more; of labels that cover each other the first stays. Where there is no room for a
label, the one before it stays in the heap.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kvcore.compiled import compiled, inlined
from kvcore.metrics import Value

NO = -1
ROWS, HEAP, TRIED, FREE, MOST, MOST_TRIED, TARGET = range(7)
"""Labels held, in the heap, and tried; the free row; most labels, and most tried; no end of so much is wanted."""
EMPTY, FOUND, FULL, TIRED, PAUSED, INCONSISTENT = range(6)
"""Ends of a search: nothing left, an end is next, no more labels, no more tries, a pause, or an error of `least`."""
TRIES = 300
"""What is tried for each label, on average."""
TOP, LARGE = 2**60, 2**58
"""Labels are below `TOP`, and what a step adds is below `LARGE`."""


class Labels(NamedTuple):
    """The labels held, and those to follow as a heap. Chains of labels with like keys count from 1."""

    bound: Any
    left: Any  # steps to an end: 0 is one, and of equal bounds the least goes first
    parent: Any
    is_open: Any  # to be followed
    key: Any
    next: Any
    heads: Any
    heap: Any
    place: Any
    count: Any  # ROWS .. TARGET


class End(NamedTuple):
    """How a search ended: no end is below `bound`, which takes this many labels to say."""

    code: int
    bound: Value
    labels: int

    @property
    def is_found(self) -> bool:
        """Whether the next label is an end."""
        return self.code == FOUND

    @property
    def is_over(self) -> bool:
        """Whether more labels prove no more."""
        return self.code in (EMPTY, FOUND)


def numbers(*shape: int) -> Any:
    """Return whole numbers; only what is written takes memory."""
    return np.zeros(shape, dtype=np.int64)


def room(labels: int) -> Labels:
    """Return arrays for these labels."""
    names = ("bound", "left", "parent", "key", "next", "heap", "place")
    is_open, heads = np.zeros(labels + 1, dtype=np.bool_), numbers(2 * labels + 1)
    return Labels(**{name: numbers(labels + 1) for name in names}, is_open=is_open, heads=heads, count=numbers(7))


def begin(x: Labels, target: int) -> None:
    """Put the label of row 0 into the heap; labels of `target` are left out."""
    x.parent[0], x.is_open[0], x.heads[x.key[0] % len(x.heads)] = NO, True, 1
    x.count[:] = 0
    x.count[ROWS] = x.count[FREE] = 1
    x.count[MOST], x.count[TARGET] = len(x.bound) - 1, target
    push(x, 0)


def run(search: Any, p: Any, f: Any, most: int, stops: Callable[[], bool], slice: int = 2**20) -> End:
    """Search until it is over, there are `most` labels, or `stops` says so after a slice of tries; can be continued."""
    x, code = f.labels, PAUSED
    x.count[MOST], x.count[MOST_TRIED] = most, most * TRIES
    while code == PAUSED and not stops():
        code = search(p, f, int(x.count[TRIED]) + slice)
    target, rows, tried = (int(x.count[which]) for which in (TARGET, ROWS, TRIED))
    reached = target if code == EMPTY else min(target, int(x.bound[x.heap[0]]))
    needed = max(rows, -(-tried // TRIES)) if code in (EMPTY, FOUND, PAUSED) else most
    return End(code, reached, max(1, min(most, needed)))


def searching(expand: Any) -> Any:
    """Return the search that follows labels by `expand`."""

    @compiled
    def search(p, f, pause):
        """Follow labels, the least bound first, until one is an end."""
        x = f.labels
        while x.count[HEAP]:
            at = x.heap[0]
            if x.is_open[at]:
                if x.left[at] == 0:
                    return FOUND
                if x.count[TRIED] >= pause:
                    return PAUSED
            pop(x)
            if x.is_open[at]:
                x.is_open[at], x.left[at] = False, abs(x.left[at])
                code = expand(p, f, at)
                if code != EMPTY:  # it is to go first again
                    x.is_open[at], x.left[at] = True, -x.left[at]
                    push(x, at)
                    return code
        return EMPTY

    return search


def adding(covers: Any, least: Any) -> Any:
    """Return what keeps the label in the free row, if it is of use."""

    @inlined
    def add(p, f, at):
        """Keep the label after `at` if it is below the target and none covers it, in place of those that it covers."""
        x = f.labels
        new, freed, before = x.count[FREE], NO, NO
        x.bound[new] = max(x.bound[at], least(p, f, new))
        if x.bound[new] >= x.count[TARGET]:
            return EMPTY
        chain, is_full = x.key[new] % len(x.heads), x.count[ROWS] >= x.count[MOST]
        other = x.heads[chain] - 1
        while other != NO:
            if x.key[other] == x.key[new]:
                x.count[TRIED] += 1
                if covers(p, f, other, new):
                    return EMPTY
                if is_full and x.is_open[other] and x.bound[new] <= x.bound[other] and covers(p, f, new, other):
                    is_full = False
            other = x.next[other] - 1
        if is_full:
            return FULL
        other = x.heads[chain] - 1
        while other != NO:
            after = x.next[other] - 1
            if x.key[other] != x.key[new] or not covers(p, f, new, other):
                before = other
            else:
                if before == NO:
                    x.heads[chain] = after + 1
                else:
                    x.next[before] = after + 1
                if x.is_open[other] and freed == NO and x.bound[new] <= x.bound[other]:
                    freed = other
                x.is_open[other] = False
            other = after
        x.next[new], x.heads[chain] = x.heads[chain], new + 1
        x.parent[new], x.is_open[new] = at, True
        if freed == NO:
            push(x, new)
            x.count[ROWS] += 1
            x.count[FREE] = x.count[ROWS]
        else:
            rise(x, x.place[freed], new)
            x.count[FREE] = freed
        return EMPTY

    return add


@inlined
def is_tired(x):
    """Count a try; whether there were too many."""
    x.count[TRIED] += 1
    return x.count[TRIED] > x.count[MOST_TRIED]


@inlined
def mixed(key, number):
    """Return the key with a number mixed in, below 2^61 (40 bits and 20, and a number)."""
    return ((key ^ (key >> 20)) * 1_000_003 + number) & (2**40 - 1)


@compiled
def goes_first(x, one, other):
    """Whether a label goes first: least bound, then least left, then oldest."""
    if x.bound[one] != x.bound[other]:
        return x.bound[one] < x.bound[other]
    if x.left[one] != x.left[other]:
        return x.left[one] < x.left[other]
    return one < other


@compiled
def push(x, row):
    """Put a row into the heap."""
    x.count[HEAP] += 1
    rise(x, x.count[HEAP] - 1, row)


@compiled
def rise(x, place, row):
    """Move a row up the heap from a place."""
    while place and goes_first(x, row, x.heap[(place - 1) // 2]):
        above = x.heap[(place - 1) // 2]
        x.heap[place], x.place[above] = above, place
        place = (place - 1) // 2
    x.heap[place], x.place[row] = row, place


@compiled
def pop(x):
    """Take the first row out of the heap."""
    x.count[HEAP] -= 1
    size = x.count[HEAP]
    if size == 0:
        return
    row, place = x.heap[size], 0
    while 2 * place + 1 < size:
        below = 2 * place + 1
        if below + 1 < size and goes_first(x, x.heap[below + 1], x.heap[below]):
            below += 1
        if not goes_first(x, x.heap[below], row):
            break
        x.heap[place], x.place[x.heap[below]] = x.heap[below], place
        place = below
    x.heap[place], x.place[row] = row, place
