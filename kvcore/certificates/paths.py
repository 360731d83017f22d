"""The cheapest path of one request through slots of time, if what it takes of each slot has a price.

One slot is one tick, and every batch lasts one. Without `evict`, let a segment of d tokens end in slot e, its first
token in slot f = e - d + 1 with A tokens resident. Then, in every schedule, the request pays at least for these.

1. *Its tokens.* In slot e - j, j < d, the device holds A + d - 1 - j tokens: a batch generates at most one, and from
   the first work on no KV leaves (R8, R9).
2. *Its prefill.* If m tokens were kept, the device holds max(m, A - j P) in slot f - j; or, where A - j P <= m, device
   or host hold m. A batch adds at most P prefill tokens (without `chunked` one batch takes all).
3. *A call before it.* Until the first work, preserved KV pays for the device, kept KV of `swap` and `free` calls for
   the cheaper of device and host. Dropped KV pays nothing, and all A tokens are processed. `free` takes the cheaper.
4. *Batches.* A - m tokens up to slot f, in as few batches as these need, and the j-th further token by slot f + j: each
   at the least price since the segment can have begun.

So payments depend on the ends of segments only, and the cheapest ends are found backwards, in O(slots) a segment. All
arrays are exact integers, indexed by slot.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kvcore.instance import Machine, Request

Array = npt.NDArray[np.int64]
Ends = Sequence[tuple[int, int]]
"""The first and the last slot in which each segment may end; none of the last is a slot after the last price."""
NEVER = 2**60
"""What a path costs that is not allowed: more than any other. Tables are cut off there."""
ANY_LATER = 2**62
"""The last slot of an end that may be in any."""


@dataclass(frozen=True)
class Start:
    """How a segment may begin: from its arrival, or after a call with its KV kept or dropped."""

    kept: int
    """Tokens of KV that are there."""
    need: int
    """Tokens to be processed for its first token."""
    slots: int
    """Slots that these take at the least."""


@dataclass(frozen=True)
class Leg:
    """One segment: `decode` tokens, of which the first is generated with `context` tokens resident; then its call."""

    context: int
    decode: int
    starts: tuple[Start, ...]
    handling: str | None
    """That of the call before it."""
    pause: int
    """Slots of the call after it."""

    @property
    def held(self) -> int:
        """Tokens of KV when it ends."""
        return self.context + self.decode - 1


class Course:
    """The segments of a request on a machine."""

    def __init__(self, machine: Machine, request: Request) -> None:
        self.part = machine.prefill_limit if machine.chunked else None
        legs: list[Leg] = []
        known = request.prompt
        handling, kept = None, 0
        for segment in request.segments:
            starts = self._starts(known, kept, handling)
            pause = 0 if segment.call is None else segment.call.duration
            legs.append(Leg(known, segment.decode, starts, handling, pause))
            kept = known + segment.decode - 1
            if segment.call is not None:
                known, handling = kept + 1 + segment.call.returns, segment.call.handling
        self.legs = tuple(legs)

    def _starts(self, known: int, kept: int, handling: str | None) -> tuple[Start, ...]:
        kept_tokens = {None: (0,), "discard": (0,), "free": (kept, 0)}.get(handling, (kept,))
        return tuple(Start(k, known - k, self.parts(known - k)) for k in kept_tokens)

    def parts(self, tokens: int) -> int:
        """Return slots in which so many tokens are processed at the least."""
        return 1 if self.part is None else -(-tokens // self.part)

    @cached_property
    def least(self) -> list[int]:
        """Slots from when each segment could begin to the completion, at the least."""
        least = [0]
        for leg in reversed(self.legs):
            first = min(start.slots for start in leg.starts)
            least.append(first + leg.decode - 1 + leg.pause + least[-1])
        return least[:0:-1]


@dataclass(frozen=True)
class SlotPrices:
    """Prices per slot, [slots]: of a device block, a host token, a token of the batch, a request of the batch."""

    device: Array
    host: Array | None
    """None: the host has no limit, and holding KV there costs nothing."""
    tokens: Array
    requests: Array

    @cached_property
    def device_sums(self) -> tuple[Array, Array]:
        """Sums over the slots before each, [slots + 1]: of the price, and of the price times the slot."""
        return prefix(self.device), prefix(self.device * np.arange(len(self.device)))


def prefix(values: Array) -> Array:
    """Return the sums of the values before each place, [n + 1]."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])


def cheapest(
    course: Course, machine: Machine, prices: SlotPrices, arrival: int, end: Callable[[Array], Array], ends: Ends = ()
) -> int:
    """Return what the cheapest path costs, from slot `arrival` on, with each segment in its `ends` (none: in any).

    `end(c)` is the cost of completing before slot c, never falling.
    After the last slot all prices are 0. Where no path is allowed, it costs `NEVER` or more.
    """
    slots = len(prices.device)
    earliest = earliest_slots(course, arrival)
    after = end
    for k in range(len(course.legs) - 1, -1, -1):
        leg = course.legs[k]
        first = np.arange(slots + 1)
        cost = _device(leg, machine, prices, first) + _decodes(leg, prices, first, earliest[k])
        cost += after(first + leg.decode)
        cost, late = allowed(cost, first + leg.decode, ends[k:]), late_end(end, ends[k:])
        options = [_Option(leg, start, machine, prices, course.part, cost, earliest[k]) for start in leg.starts]
        least = course.least[k] - min(start.slots for start in leg.starts)
        after = _After(options, 0 if k == 0 else course.legs[k - 1].pause, least, late, slots)
    assert isinstance(after, _After)
    return int(after(np.array([arrival]))[0])


def allowed(cost: Array, c: Array, ends: Ends) -> Array:
    """Return the cost of a segment that ends before slot c, `NEVER` where that is not one of the first of `ends`."""
    if not ends:
        return cost
    low, high = ends[0]
    cut: Array = np.where((low < c) & (c - 1 <= high), np.minimum(cost, NEVER), NEVER)
    return cut


def late_end(end: Callable[[Array], Array], ends: Ends) -> Callable[[Array], Array]:
    """Return `end` for segments after the last slot: `NEVER` if one of them must end by some slot."""
    return end if all(high == ANY_LATER for _, high in ends) else lambda c: np.full(len(c), NEVER)


def earliest_slots(course: Course, arrival: int) -> list[int]:
    """Return the slot in which each segment can begin at the earliest."""
    total = arrival + course.least[0]
    return [total - least for least in course.least]


def _device(leg: Leg, machine: Machine, prices: SlotPrices, first: Array) -> Array:
    """Return sum over j < d of price[f + j] * blocks(A + j), for each slot f of the first token."""
    slots, (sums, moments) = len(prices.device), prices.device_sums
    last = np.minimum(first + leg.decode, slots)
    if machine.block == 1:
        return (leg.context - first) * (sums[last] - sums[first]) + moments[last] - moments[first]
    cost = machine.blocks(leg.context) * (sums[last] - sums[first])
    for j in range(machine.block - (leg.context - 1) % machine.block, leg.decode, machine.block):
        cost += sums[last] - sums[np.minimum(first + j, slots)]
    return cost


def _decodes(leg: Leg, prices: SlotPrices, first: Array, earliest: int) -> Array:
    """Return what the tokens after the first take of batches: a token and a place each, at the least prices so far."""
    slots = len(prices.device)
    sums = prefix(least_since(prices.tokens, earliest) + least_since(prices.requests, earliest))
    later = np.minimum(first + 1, slots)
    return sums[np.maximum(np.minimum(first + leg.decode, slots), later)] - sums[later]


def least_since(price: Array, earliest: int) -> Array:
    """Return the least price in the slots from `earliest` to each, or 0 before."""
    least = np.zeros_like(price)
    least[earliest:] = np.minimum.accumulate(price[earliest:])
    return least


class _Option:
    """The cost of each slot of the first token under one start, of the slots before it too; `best`: from there on.

    The last entry stands for all slots after the last one, whose parts of prefills may lie there too: these are free,
    but what is kept is held up to the last slot.
    """

    def __init__(
        self, leg: Leg, start: Start, machine: Machine, prices: SlotPrices, part: int | None, cost: Array, earliest: int
    ) -> None:
        slots = len(prices.device)
        self.start = start
        held = _holding(leg, start, machine, prices)
        self.held = prefix(held)
        first = np.arange(slots + 1)
        begin = np.maximum(first - start.slots + 1, 0)
        begin[-1] = slots
        mine = cost + self.held[begin]
        mine[:-1] += start.need * least_since(prices.tokens, earliest)
        mine[:-1] += start.slots * least_since(prices.requests, earliest)
        for j in range(1, min(start.slots, slots)):
            tokens = leg.context - j * (part or 0)
            fee = held if tokens <= start.kept else prices.device * machine.blocks(tokens)
            mine[j:slots] += fee[: slots - j]
        self.best = np.minimum.accumulate(mine[::-1])[::-1]


def _holding(leg: Leg, start: Start, machine: Machine, prices: SlotPrices) -> Array:
    """Return what KV kept through a call pays per slot: on the device, or where it may go, the cheaper place."""
    if not start.kept:
        return np.zeros_like(prices.device)
    device = prices.device * machine.blocks(start.kept)
    if leg.handling == "preserve":
        return device
    return np.zeros_like(device) if prices.host is None else np.minimum(device, prices.host * start.kept)


@dataclass(frozen=True)
class _After:
    """The cost of what follows, by the slot c before which the segment before ended."""

    options: list[_Option]
    pause: int
    least: int
    """Slots from the first token of the segment that follows to the completion."""
    end: Callable[[Array], Array]
    slots: int

    def __call__(self, c: Array) -> Array:
        least: Array = np.min([self._one(option, c) for option in self.options], axis=0)
        return least

    def _one(self, option: _Option, c: Array) -> Array:
        first = c + self.pause + option.start.slots - 1
        inside = option.best[np.minimum(first, self.slots)]
        beyond = option.held[-1] + self.end(first + self.least + 1)
        cost: Array = np.where(first <= self.slots, inside, beyond) - option.held[np.minimum(c, self.slots)]
        return cost
