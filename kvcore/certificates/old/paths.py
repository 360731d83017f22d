"""The cheapest path of one request through slots of time with prices for resources.

One slot is one tick, and every batch lasts one. Without `evict`, `partial` and blocks, let a segment of d tokens end in
slot e, its first token in slot f = e - d + 1 with A tokens resident. In every schedule, the request pays at least for
these.

1. *Its tokens.* In slot e - j, j < d, the device holds A + d - 1 - j tokens: a batch generates at most one, and from
   the first work on no KV leaves (R8, R9).
2. *Its prefill.* If m tokens were kept, the device holds max(m, A - j P) in slot f - j; or, where A - j P <= m, device
   or host hold m. A batch adds at most P prefill tokens (without `chunked` one batch takes all).
3. *A call before it.* Until the first work, preserved KV pays for the device, kept KV of `swap` and `free` calls for
   the cheaper of device and host. Dropped KV pays nothing, and all A tokens are processed. `free` takes the cheaper.
4. *Batches.* A - m tokens up to slot f, and the j-th further token by slot f + j: each at the lowest price since the
   segment can have begun.

So payments depend on the ends of segments only, and the cheapest ends are found backwards, in O(slots) a segment
(`path_kernels.py`). All arrays are exact integers, indexed by slot.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kvcore.certificates.old import path_kernels as kernels
from kvcore.certificates.old.path_kernels import NEVER as NEVER
from kvcore.certificates.old.path_kernels import PriceArrays, Route, least_cost, least_costs, price_arrays
from kvcore.instance import Machine, Request

Array = npt.NDArray[np.int64]
Ends = Sequence[tuple[int, int]]
"""First and last slot in which each segment may end, none after the last price."""
ANY_LATER = 2**62
"""Last slot of an unbounded end."""


@dataclass(frozen=True)
class Start:
    """How a segment begins: from its arrival, or after a call with KV kept or dropped."""

    kept: int
    """Tokens of KV there."""
    need: int
    """Tokens to process for the first token."""
    slots: int
    """Their least slots."""


@dataclass(frozen=True)
class Leg:
    """One segment: `decode` tokens, the first generated with `context` tokens resident; then its call."""

    context: int
    decode: int
    starts: tuple[Start, ...]
    handling: str | None
    """Of the call before it."""
    pause: int
    """Slots of the call after it."""


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
        """Return the fewest slots that process `tokens`."""
        return 1 if self.part is None else -(-tokens // self.part)

    @cached_property
    def least(self) -> list[int]:
        """Least slots from each segment's start to completion."""
        least = [0]
        for leg in reversed(self.legs):
            first = min(start.slots for start in leg.starts)
            least.append(first + leg.decode - 1 + leg.pause + least[-1])
        return least[:0:-1]

    def route(self, arrival: int, rate: float, ends: Ends = ()) -> Route:
        """Return the kernels' request; `rate` is the cost of a slot of its time.

        Segments end before the last slot in which a later one may end.
        """
        legs, starts = np.zeros((len(self.legs), 9), np.int64), np.zeros((len(self.legs), 2, 3), np.int64)
        for k, (leg, earliest) in enumerate(zip(self.legs, earliest_slots(self, arrival), strict=True)):
            least = self.least[k] - min(start.slots for start in leg.starts)
            numbers = (leg.context, leg.decode, leg.pause, leg.handling == "preserve", len(leg.starts), least, earliest)
            legs[k, : kernels.LOW] = numbers
            for s, start in enumerate(leg.starts):
                starts[k, s] = start.kept, start.need, start.slots
        legs[:, kernels.LOW :] = ends or (0, ANY_LATER)
        legs[:, kernels.HIGH] = np.minimum.accumulate(legs[::-1, kernels.HIGH])[::-1]
        return Route(legs, starts, self.part or 0, arrival, rate)


@dataclass(frozen=True)
class PriceRows:
    """Prices [slots], named as in `prices.Prices`."""

    device: Array
    host: Array | None
    """None: no limit, and free."""
    tokens: Array

    @cached_property
    def arrays(self) -> PriceArrays:
        """The prices as the kernels take them."""
        host = np.zeros_like(self.device) if self.host is None else self.host
        return price_arrays(np.array([self.device, host, self.tokens]))


def cheapest(course: Course, prices: PriceRows, arrival: int, rate: int, ends: Ends = ()) -> int:
    """Return the cost of the cheapest path from slot `arrival` on, with each segment in its `ends` (none: any).

    Completing before slot c costs rate (c - arrival). After the last slot all prices are 0. `NEVER` or more: none is
    allowed.
    """
    route = course.route(arrival, rate, ends)
    return int(least_cost(route, least_costs(route, prices.arrays)))


def earliest_slots(course: Course, arrival: int) -> list[int]:
    """Return the earliest slot in which each segment can begin."""
    total = arrival + course.least[0]
    return [total - least for least in course.least]
