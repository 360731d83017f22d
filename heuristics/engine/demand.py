"""What a request demands up to its end, by segment, and how long that takes alone.

Estimates only rank. They are exact where the cost does not depend on the resident KV; otherwise all batches of a piece
of work count as its middle one.
"""

from typing import NamedTuple

from kvcore.cost import Cost, Features
from kvcore.instance import Machine, Request, Segment


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
        """Return the KV of others beside `context` tokens in a full memory (0 without a limit)."""
        return 0 if self.machine.memory is None else max(0, self.machine.memory - context)

    def run(self, resident: int, missing: int, decode: int) -> Effort:
        """Return the effort of processing `missing` tokens on top of `resident` ones and generating `decode`."""
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
        """Return the effort of a prefill, in the fewest chunks that the budgets allow."""
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
        """Return the ticks of sending `tokens` to the host."""
        return self._transfer(Features(swap_out_tokens=tokens, swap_outs=1))

    def swap_in(self, tokens: int) -> int:
        """Return the ticks of bringing `tokens` back."""
        return self._transfer(Features(swap_in_tokens=tokens, swap_ins=1))

    def _transfer(self, features: Features) -> int:
        return self.cost.ticks(features)


class Demand:
    """The demand of one request; every list is indexed by segment.

    It gives all its device memory back at its next **release**: a call handled by discard or swap, or its end. A free
    call counts as preserve.
    """

    __slots__ = ("area", "call_ticks", "decode", "durations", "end", "end_blocks", "estimate", "handlings",
                 "host_claim", "host_next", "peak", "release_blocks", "releases", "returns", "ticks")  # fmt: skip

    def __init__(self, request: Request, estimate: SoloEstimate) -> None:
        segments = request.segments
        last = len(segments) - 1
        self.estimate = estimate
        machine = estimate.machine
        most = machine.longest
        self.peak = min(most, request.peak)
        self.decode = [segment.decode for segment in segments]
        self.durations = [call.duration for call in request.calls]
        self.returns = [call.returns for call in request.calls]
        self.handlings = [call.handling for call in request.calls]
        self.end = [min(most, request.context_at_call(k)) for k in range(last)] + [self.peak]
        """KV tokens held when the segment ends, at most the device's."""
        self.end_blocks = [estimate.machine.blocks(tokens) for tokens in self.end]  # the device blocks of these tokens
        self.release_blocks = list(self.end_blocks)  # device blocks held at the next release: the claim
        self.releases = [True] * (last + 1)  # whether the segment's end is a release
        self.host_next = [0] * (last + 1)  # tokens that the next release sends to the host
        self.host_claim = [0] * (last + 1)  # the most tokens that any coming call sends to the host
        self.call_ticks = [0] * (last + 1)  # ticks of all coming calls
        self.ticks = [0] * (last + 1)  # of work after the segment's end, alone: refills and transfers, too
        self.area = [0] * (last + 1)  # memory-time after the segment's end, in token-ticks
        for k in reversed(range(last)):
            self._look_back(k, segments[k], segments[k + 1])

    def _look_back(self, k: int, segment: Segment, following: Segment) -> None:
        call, held = segment.call, self.end[k]
        assert call is not None  # for mypy: Request guarantees it of all segments but the last
        self.call_ticks[k] = call.duration + self.call_ticks[k + 1]
        self.host_claim[k] = self.host_claim[k + 1]
        self.releases[k] = call.handling in ("discard", "swap")
        if call.handling == "swap":
            self.host_next[k] = held
            self.host_claim[k] = max(held, self.host_claim[k])
        elif call.handling != "discard":
            self.release_blocks[k] = self.release_blocks[k + 1]
            self.host_next[k] = self.host_next[k + 1]
        paid = self._call(call.handling, held, call.duration)
        kept = 0 if call.handling == "discard" else held
        resumed = self.estimate.run(kept, held + 1 + call.returns - kept, following.decode)
        self.ticks[k] = paid.ticks + resumed.ticks + self.ticks[k + 1]
        self.area[k] = paid.area + resumed.area + self.area[k + 1]

    def _call(self, handling: str, held: int, duration: int) -> Effort:
        """Return the transfer ticks of a call, and the memory-time that it wastes: InferCept's (1) to (3).

        The KV of the refill after a discard counts with the work that resumes.
        """
        estimate = self.estimate
        if handling == "swap":
            ticks = estimate.swap_out(held) + estimate.swap_in(held)
            return Effort(ticks, ticks * (held + estimate.others(held)))
        if handling == "discard":
            return Effort(0, estimate.prefill(0, held).ticks * estimate.others(held))
        return Effort(0, duration * held)

    def remaining(self, segment: int, generated: int) -> int:
        """Return the tokens left to generate in the segment (at least 1, should a prediction be too low)."""
        return max(1, self.decode[segment] - generated)

    def effort(self, segment: int, resident: int, host: int, missing: int, generated: int) -> Effort:
        """Return the ticks of work and the memory-time up to the end."""
        now = self.estimate.run(resident + host, max(1, missing), self.remaining(segment, generated))
        back = self.estimate.swap_in(host) if host else 0
        return Effort(back + now.ticks + self.ticks[segment], now.area + self.area[segment])
