"""How long a request takes when it has the machine to itself: what policies estimate work and waste with.

Estimates only rank; no rule depends on them. They are exact where the cost does not depend on the resident KV, and
otherwise take the batches of a piece of work at the middle of its context.
"""

from __future__ import annotations

from typing import NamedTuple

from kvcore.cost import Cost, Features
from kvcore.instance import Machine


class Effort(NamedTuple):
    """A piece of work: the ticks of its batches, and the KV held in them over time, in token-ticks."""

    ticks: int
    area: int


class SoloEstimate:
    """The batches of one request that runs alone on a machine, under a cost."""

    def __init__(self, machine: Machine, cost: Cost) -> None:
        self.machine = machine
        self.cost = cost
        self._decode_ticks: dict[int, int] = {}  # of a decode batch, by the resident KV

    def others(self, context: int) -> int:
        """Return the KV of other requests beside `context` tokens in a full memory (0 where memory has no limit)."""
        return 0 if self.machine.memory is None else max(0, self.machine.memory - context)

    def run(self, resident: int, missing: int, decode: int) -> Effort:
        """Return the effort of processing `missing` tokens on top of `resident` ones and generating `decode` tokens."""
        if resident > 0 and missing == 1:
            return self.decode(resident, decode)
        first = self.prefill(resident, missing)
        rest = self.decode(resident + missing, decode - 1)
        return Effort(first.ticks + rest.ticks, first.area + rest.area)

    def decode(self, resident: int, tokens: int) -> Effort:
        """Return the effort of `tokens` decode batches."""
        middle = resident + tokens // 2
        ticks = self._decode_ticks.get(middle)
        if ticks is None:
            features = Features(busy=1, any_decode=1, tokens=1, generated=1, decode_requests=1, decode_kv=middle)
            ticks = self._decode_ticks[middle] = self.cost.duration(features)
        return Effort(tokens * ticks, ticks * (tokens * resident + tokens * (tokens + 1) // 2))

    def prefill(self, resident: int, tokens: int) -> Effort:
        """Return the effort of a prefill, in as few chunks as the budgets take."""
        limit = self.machine.prefill_limit or tokens
        full, last = divmod(tokens, min(limit, tokens))
        ticks = area = 0
        if full:
            size = min(limit, tokens)
            each = self._chunk(resident + (full - 1) * size // 2, size)
            ticks = full * each
            area = each * (full * resident + size * full * (full + 1) // 2)
        if last:
            each = self._chunk(resident + tokens - last, last)
            ticks += each
            area += each * (resident + tokens)
        return Effort(ticks, area)

    def _chunk(self, resident: int, tokens: int) -> int:
        pairs = tokens * tokens + 2 * tokens * resident
        return self.cost.duration(
            Features(
                busy=1, any_prefill=1, tokens=tokens, generated=1, prefill_requests=1, prefill_kv=resident,
                prefill_pairs=pairs,
            )
        )  # fmt: skip

    def swap_out(self, tokens: int) -> int:
        """Return the ticks that sending `tokens` to the host takes (0 where the cost does not count it)."""
        return self._transfer(Features(swap_out_tokens=tokens, swap_outs=1))

    def swap_in(self, tokens: int) -> int:
        """Return the ticks that bringing `tokens` back takes (0 where the cost does not count it)."""
        return self._transfer(Features(swap_in_tokens=tokens, swap_ins=1))

    def _transfer(self, features: Features) -> int:
        return self.cost.ticks(features)
