"""The least that a request needs in any schedule: the checkers' own."""

from kvcore.certificates.prefixes import Prefix
from kvcore.cost import Cost, Features
from kvcore.instance import Instance, Machine, Request


def chunks(machine: Machine, tokens: int) -> int:
    """Return the fewest batches that process `tokens` of one request."""
    if not machine.chunked or machine.prefill_limit is None:
        return 1
    return -(-tokens // machine.prefill_limit)


def least_batches(machine: Machine, request: Request, prefix: Prefix) -> tuple[int, int]:
    """Return the fewest batches up to the first token, and in all."""
    first = total = chunks(machine, request.prompt - prefix.reach(0, request.prompt))
    for k, segment in enumerate(request.segments):
        total += segment.decode - 1
        if segment.call is not None:
            held = request.context_at_call(k)
            kept = 0 if segment.call.handling == "discard" else held
            known = held + 1 + segment.call.returns
            total += chunks(machine, known - max(kept, prefix.reach(held, known)))
    return first, total


def least_work(instance: Instance) -> int:
    """Return the least ticks of a batch with work: a decode, or the start of a prefill."""
    prompt = min(request.prompt for request in instance.requests)
    resident = max(1, prompt - 1) if instance.machine.chunked or instance.contents else prompt
    decode = Features(busy=1, any_decode=1, tokens=1, generated=1, decode_requests=1, decode_kv=resident)
    prefill = Features(busy=1, any_prefill=1, tokens=1, prefill_requests=1, prefill_pairs=1)
    return min(instance.cost.duration(decode), instance.cost.duration(prefill))


def least_prefill(cost: Cost, tokens: int, free: int) -> int:
    """Return the least ticks of batches that process a request's first `tokens` tokens, less those that are free.

    f is superadditive over parts, except that the last token alone may be a decode, without pairs, and tokens above a
    knee may stay below it.
    """
    prefills = int(tokens == 1 or free < tokens - 1)
    pairs = max(prefills, (tokens - 1) ** 2 - free**2)
    whole = Features(
        busy=1, any_prefill=prefills, tokens=tokens - free, generated=1, prefill_requests=prefills, prefill_pairs=pairs
    )
    ticks = [-(-sum(c * whole[k] for k, c in function.terms) // function.divisor) for function in cost.functions]
    return max(1, *ticks)


def may_drop(machine: Machine, request: Request) -> bool:
    """Whether any KV of the request can be dropped before it is done."""
    return machine.evict or any(call.handling in ("discard", "free") for call in request.calls)
