"""Lower bounds on what a request needs in any schedule: contexts, batches, time.

They share no code with those of the checkers (`kvcore/certificates/least.py`).
"""

from functools import cached_property
from itertools import accumulate

from formulations.refills import drops_need_batches
from kvcore.cost import Cost, CostFunction, Features
from kvcore.instance import Instance, Machine, Request


class Chain:
    """The tokens 1..O of one request, generated in this order, at most one a batch.

    `context[q]` is A_q: the KV resident when token q is generated, whatever happened before; A_0 = 0. `ends[k]` is the
    last token of segment k. After token q-1, at least `least_tokens[q]` tokens are processed in at least `steps[q]`
    batches, and the last generates token q; `waits[q]` ticks of a call lie between the two. A path has `reusable`
    tokens.
    """

    def __init__(self, machine: Machine, request: Request, reusable: int = 0) -> None:
        self.machine = machine
        self.request = request
        self.reusable = reusable
        self.outputs = request.output
        self.ends = list(accumulate(segment.decode for segment in request.segments))
        self.context = [0, request.prompt]
        self.least_tokens = [0, self._processed(request.prompt, 0)]
        self.steps = [0, chunks(machine, self.least_tokens[1])]
        self.waits = [0, 0]
        calls = dict(zip(self.ends, request.calls, strict=False))
        for q in range(2, self.outputs + 1):
            call = calls.get(q - 1)
            self.context.append(self.context[-1] + 1 + (0 if call is None else call.returns))
            discarded = call is not None and call.handling == "discard"
            self.least_tokens.append(self._processed(self.context[q], 0 if discarded else self.context[q - 1]))
            self.steps.append(chunks(machine, self.least_tokens[q]))
            self.waits.append(0 if call is None else call.duration)

    def _processed(self, context: int, kept: int) -> int:
        return context - min(context - 1, max(kept, self.reusable))

    @cached_property
    def batches(self) -> int:
        """Least number of batches with its work."""
        return sum(self.steps)

    @cached_property
    def tokens(self) -> int:
        """Least number of tokens processed."""
        return sum(self.least_tokens)

    @cached_property
    def least_pairs(self) -> list[int]:
        """Least attention pairs of the prefills of each token; with chunks its last token is a decode."""
        calls = dict(zip(self.ends, self.request.calls, strict=False))
        pairs = [0, max(1, (self.context[1] - self.machine.chunked) ** 2)]
        for q in range(2, self.outputs + 1):
            call, whole = calls.get(q - 1), self.context[q] - self.machine.chunked
            if call is not None and call.handling == "discard":
                pairs.append(whole**2)
            else:
                pairs.append(whole**2 - self.context[q - 1] ** 2 if call is not None and call.returns else 0)
        return pairs

    @cached_property
    def settled(self) -> int:
        """Least tokens resident after its last prefill (one less with chunks), unless KV is swapped."""
        calls = zip(self.ends, self.request.calls, strict=False)
        prefills = [end for end, call in calls if call.returns or call.handling == "discard"]
        return max(1, self.context[max(prefills, default=0) + 1] - self.machine.chunked)

    @cached_property
    def most_tokens(self) -> int:
        """Most tokens processed, on a machine that evicts only in calls."""
        return self.request.peak + sum(
            self.context[self.ends[k]]
            for k, call in enumerate(self.request.calls)
            if call.handling in ("discard", "free")
        )


def chunks(machine: Machine, tokens: int) -> int:
    """Return the least number of batches that process `tokens` tokens of a request."""
    if not machine.chunked or machine.prefill_limit is None:
        return 1
    return -(-tokens // machine.prefill_limit)


def apart(instance: Instance, all_chains: list[Chain]) -> list[Chain]:
    """Return requests that are pairwise *apart*: no two can have their last prefill in one batch.

    Theorem 3 of `docs/formulation.md` has the proof.
    """
    machine = instance.machine
    limit = machine.block_limit
    chosen: list[Chain] = []
    if limit is None:
        return chosen

    def collide(a: Chain, b: Chain) -> bool:
        return machine.blocks(a.request.peak) + machine.blocks(b.settled) > limit

    for chain in sorted(all_chains, key=lambda chain: chain.request.peak + chain.settled, reverse=True):
        if not may_swap(instance, chain.request) and all(collide(a, chain) and collide(chain, a) for a in chosen):
            chosen.append(chain)
    return chosen


def chains(instance: Instance) -> list[Chain]:
    """Return the chain of each request."""
    block, each = instance.machine.block, zip(instance.requests, instance.parts, strict=True)
    return [Chain(instance.machine, one, block * sum(part.blocks for part in parts)) for one, parts in each]


def may_drop(machine: Machine, request: Request) -> bool:
    """Whether KV of the request can ever be dropped before it is done."""
    return machine.evict or any(call.handling in ("discard", "free") for call in request.calls)


def may_swap(instance: Instance, request: Request) -> bool:
    """Whether KV of the request can ever be swapped out to some effect.

    Without host memory it comes back in the same batch: that excuses a pause (R5), and makes a batch of drops.
    """
    machine = instance.machine
    if machine.evict:
        return machine.host_memory != 0 or not machine.pause or drops_need_batches(instance)
    somewhere = machine.host_memory != 0 or not machine.pause
    return somewhere and any(call.handling in ("swap", "free") for call in request.calls)


def least_batch(instance: Instance) -> int:
    """Return the least ticks of a batch, also of transfers alone."""
    durations = [least_work(instance)]
    if any(may_swap(instance, request) for request in instance.requests):
        for transfer in (Features(swap_out_tokens=1, swap_outs=1), Features(swap_in_tokens=1, swap_ins=1)):
            durations.append(instance.cost.duration(transfer))
    return min(durations)


def least_work(instance: Instance) -> int:
    """Return the least ticks of a batch with work: one decode, or the start of one prefill."""
    prompt = min(request.prompt for request in instance.requests)
    read = max(1, prompt - 1) if instance.machine.chunked or instance.contents else prompt
    decode = Features(busy=1, any_decode=1, tokens=1, generated=1, decode_requests=1, decode_kv=read)
    prefill = Features(busy=1, any_prefill=1, tokens=1, prefill_requests=1, prefill_pairs=1)
    return min(instance.cost.duration(decode), instance.cost.duration(prefill))


def least_prefill(cost: Cost, tokens: int) -> int:
    """Return the least ticks of the batches in which a request processes its first `tokens` tokens.

    In any number of parts: f is superadditive over them, with two exceptions. The last token alone may be a decode,
    which costs no pairs; and tokens above a knee may stay below it.
    """
    features = Features(
        busy=1, any_prefill=1, tokens=tokens, generated=1, prefill_requests=1, prefill_pairs=max(1, (tokens - 1) ** 2)
    )
    return max(1, *(-(-_linear(function, features) // function.divisor) for function in cost.functions))


def _linear(function: CostFunction, features: Features) -> int:
    return sum(coefficient * features[k] for k, coefficient in function.terms)


def least_times(instance: Instance, chain: Chain) -> list[int]:
    """Return the least ticks from the arrival to the end of the batch that generates token q, for each."""
    step = least_work(instance)
    first = chain.steps[1] * step
    if not chain.reusable:
        first = max(first, least_prefill(instance.cost, chain.request.prompt))
    times = [0, first]
    for q in range(2, chain.outputs + 1):
        times.append(times[-1] + chain.waits[q] + chain.steps[q] * step)
    return times


def longest_batch(instance: Instance) -> int:
    """Return ticks that no batch exceeds: every feature at its largest."""
    peaks = [request.peak for request in instance.requests]
    n, kv, pairs = len(peaks), sum(peaks), sum(peak * peak for peak in peaks)
    return instance.cost.duration(Features(1, 1, 1, kv, n, n, n, kv, kv, pairs, kv, kv, n, n))
