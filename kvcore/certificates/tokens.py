"""Requests as chains of output tokens, each with the tokens that it is the first to process."""

from typing import Any, NamedTuple

import numpy as np

from kvcore.certificates.budget import InvalidCertificate, Most
from kvcore.instance import Instance, Request


def check_size(instance: Instance) -> None:
    """Raise InvalidCertificate for a hopeless search."""
    if len(instance.requests) > Most.order_requests:
        raise InvalidCertificate(f"orders of batches take {Most.order_requests} requests at the most")
    if sum(request.output for request in instance.requests) > Most.order_tokens:
        raise InvalidCertificate(f"orders of batches take {Most.order_tokens} tokens to generate at the most")


def fixed_of(instance: Instance, function: int) -> int:
    """Return what a function of the cost takes for any batch that works."""
    line = instance.cost.functions[function]
    return line.busy + min(line.any_decode, line.any_prefill)


def swaps_of(instance: Instance, function: int, moves: int) -> tuple[int, int]:
    """Return what a swapped token takes, in units of `function`."""
    line, divisor = instance.cost.functions[moves], instance.cost.functions[function].divisor
    return line.swap_out_tokens * divisor // line.divisor, line.swap_in_tokens * divisor // line.divisor


class Tokens(NamedTuple):
    """Of each token of each request: in time the call after it and what is left, and all tokens processed by then."""

    length: list[int]
    call: Any
    rest: Any
    context: Any
    token: int  # what one takes that is generated


def tokens_of(instance: Instance, objective: str, function: int) -> Tokens:
    """Return all tokens that count, in unbounded integers."""
    line, machine, busy = instance.cost.functions[function], instance.machine, fixed_of(instance, function)
    chains = [chain_of(request, objective) for request in instance.requests]
    token, longest = line.generated + min(line.decode_requests, line.prefill_requests), max(map(len, chains))
    call, rest, context = np.zeros((3, len(chains), longest), dtype=object)
    budget = machine.batch_tokens if machine.chunked else None
    for i, chain in enumerate(chains):
        for k, (new, duration) in enumerate(chain):
            call[i, k], context[i, k] = duration * line.divisor, new + (context[i, k - 1] if k else 0)
        for k in reversed(range(len(chain) - 1)):
            new = chain[k + 1][0]
            work = busy * (-(-new // budget) if budget else 1) + line.tokens * new + token
            rest[i, k] = call[i, k] + work + rest[i, k + 1]
    return Tokens([len(chain) for chain in chains], call, rest, context, token)


def chain_of(request: Request, objective: str = "") -> list[tuple[int, int]]:
    """Return the fresh tokens of each token that counts, and the ticks of the call after it."""
    if objective == "total-ttft":
        return [(request.prompt, 0)]
    chain, fresh = list[tuple[int, int]](), request.prompt
    for segment in request.segments:
        duration, returns = (segment.call.duration, segment.call.returns) if segment.call else (0, 0)
        chain += [(fresh if k == 0 else 1, 0) for k in range(segment.decode)]
        chain[-1] = chain[-1][0], duration
        fresh = 1 + returns
    return chain
