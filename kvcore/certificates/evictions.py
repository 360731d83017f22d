"""The cheapest path of one request on a machine that evicts, through slots of time where what it takes has a price.

As in `paths.py`, a slot is one tick, every batch lasts one, and the path pays no more than the request does in any
schedule. Here the checker follows it token by token, since KV may leave the device after any of them. Take a schedule,
and two tokens of a segment that come one after the other, in slots s < f, the later one with n tokens resident.

* **Kept.** If none of the KV is dropped in between, n - 1 tokens lie in each slot from s + 1 to f - 1 on the device or
  the host (`partial` is off: all of them in one place), and f processes one token, in one batch.
* **Dropped.** Else let x be the slot of the last drop: s < x < f, since no work goes with an eviction (R4), and after
  it all n tokens are processed, no more than P of them a slot. So if their first batch is in slot b > x, then
  f - b >= ceil(n / P) - 1, and in slot f - j at least n - j P tokens lie on the device or the host. What is paid before
  the last drop is at least 0. A path that drops in slot s + 1 costs no more, as it may wait as long as it likes.
* **The first token** of a segment comes after the arrival, where it is as if dropped, or after a call that ends in slot
  r, before which the request held m tokens in slots c to r - 1: on the device if they are preserved, or where it is
  cheaper. KV of a `free` call may be dropped at no cost at all, that of `discard` is. Otherwise a drop is an eviction,
  in slot r or later (R8), and work comes after it. If nothing is dropped, f - j has at least max(m, n - j P) tokens,
  and m lie somewhere in the slots before.
* **Batches.** Slot f processes one of the tokens, or all without `chunked`. The others come no earlier than the segment
  can have generated what it has, each at the least price since then.

So the least cost is found backwards over (tokens done, KV kept or not, slot). Swaps need no state of their own: KV on
the host is kept, unless it has no room at all. After the last slot all prices are 0, and only time is counted: a token
that comes there pays for no prefill.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kvcore.certificates.paths import (
    NEVER,
    Array,
    Course,
    Ends,
    Leg,
    SlotPrices,
    allowed,
    earliest_slots,
    late_end,
    least_since,
    prefix,
)
from kvcore.instance import Machine

End = Callable[[Array], Array]
"""The cost of completing before each of some slots, never falling."""


@dataclass(frozen=True)
class _Next:
    """What follows a token: its cost by the slot after the token [slots + 1], and the slots that it takes at least."""

    cost: Array
    rest: int
    end: End
    """That of completing, where the token is after the last slot."""


@dataclass(frozen=True)
class _Token:
    """The least cost from a token on that is generated in each slot or later, with KV that is `held` up to its work."""

    best: Array
    held: Array
    parts: int
    """Batches that it takes."""
    rest: int
    end: End

    def after(self, slot: Array) -> Array:
        """Return the cost where its work may begin in each of some slots, or later."""
        slots = len(self.held) - 1
        first = slot + self.parts - 1
        beyond = self.held[-1] + self.end(first + 1 + self.rest)
        cost: Array = np.where(first <= slots, self.best[np.minimum(first, slots)], beyond)
        return cost - self.held[np.minimum(slot, slots)]


@dataclass(frozen=True)
class Walk:
    """One request and the prices; `end(c)` is the cost of completing before slot c, `ends` are as in `paths`."""

    course: Course
    machine: Machine
    prices: SlotPrices
    end: End
    ends: Ends = ()

    def cheapest(self, arrival: int) -> int:
        """Return what the cheapest path costs, from slot `arrival` on."""
        legs, earliest = self.course.legs, earliest_slots(self.course, arrival)
        slot = np.arange(len(self.prices.device) + 1)
        then = _Next(self.end(slot), 0, self.end)
        for k in range(len(legs) - 1, -1, -1):
            ends = self.ends[k:]
            then = _Next(allowed(then.cost, slot, ends), then.rest, late_end(self.end, ends))
            for done in range(legs[k].decode - 1, 0, -1):
                resident, since = legs[k].context + done, earliest[k] + done
                kept = self._token(resident, resident - 1, since, then).after(slot)
                dropped = self._token(resident, 0, since, then).after(slot + 1)
                then = _Next(np.minimum(kept, dropped), then.rest + 1, then.end)
            if k > 0:
                then = self._call(legs[k], legs[k - 1].pause, earliest[k], then)
        return int(self._token(legs[0].context, 0, earliest[0], then).after(np.array([arrival]))[0])

    def _call(self, leg: Leg, pause: int, since: int, then: _Next) -> _Next:
        """Return what follows a segment that ends with a call: `then` is what follows this leg's first token."""
        slot = np.arange(len(self.prices.device) + 1)
        back = slot + pause
        dropped = self._token(leg.context, 0, since, then)
        if leg.handling == "discard":
            return _Next(dropped.after(back), pause + dropped.parts + then.rest, then.end)
        m = leg.starts[0].kept
        on_device = self.prices.device * self.machine.blocks(m)
        paid = prefix(on_device if leg.handling == "preserve" else self._somewhere(m))
        in_call = paid[np.minimum(back, slot[-1])] - paid
        kept = self._token(leg.context, m, since, then)
        anew = dropped.after(back) if leg.handling == "free" else in_call + dropped.after(back + 1)
        return _Next(np.minimum(in_call + kept.after(back), anew), pause + kept.parts + then.rest, then.end)

    def _token(self, resident: int, kept: int, since: int, then: _Next) -> _Token:
        """Return the costs of a token that is generated with so many tokens resident, some of which were kept.

        Nothing is processed for it before slot `since`.
        """
        prices, slots = self.prices, len(self.prices.device)
        need = resident - kept
        parts = self.course.parts(need)
        held = prefix(self._somewhere(kept))
        cost = held[np.maximum(np.arange(slots + 1) - parts + 1, 0)]
        cost[:-1] += prices.device * self.machine.blocks(resident) + np.minimum(then.cost[1:], NEVER)
        for j in range(1, min(parts, slots)):
            cost[j:-1] += self._somewhere(max(kept, resident - j * (self.course.part or 0)))[:-j]
        now = 1 if self.machine.chunked else need
        cost[:-1] += now * prices.tokens + (need - now) * least_since(prices.tokens, since)
        cost[:-1] += prices.requests + (parts - 1) * least_since(prices.requests, since)
        cost[-1:] += then.end(np.array([slots + 1 + then.rest]))
        return _Token(np.minimum.accumulate(cost[::-1])[::-1], held, parts, then.rest, then.end)

    def _somewhere(self, tokens: int) -> Array:
        """Return what KV pays in each slot where it is cheaper, on the device or the host, [slots]."""
        on_device: Array = self.prices.device * self.machine.blocks(tokens)
        if self.machine.host_memory == 0:
            return on_device
        on_host = 0 if self.prices.host is None else self.prices.host * tokens
        return np.minimum(on_device, on_host)
