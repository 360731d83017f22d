"""Make a counterexample smaller while it stays as bad."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from pydantic import ValidationError

from hypotheses.search.ratio import Claim
from kvcore.instance import Instance, Noun, Request

Judge = Callable[[Instance], Claim | None]  # what an instance shows; None where the policy gives no schedule
Shrunk = TypeVar("Shrunk", bound=Noun)


def shrink(claim: Claim, judge: Judge) -> Claim:
    """Return a claim of at least the same ratio (of `at_least`) that no one step makes smaller.

    Each step of `smaller` takes away from the instance, so this ends.
    """
    while (better := _step(claim, judge)) is not None:
        claim = better
    return claim


def _step(claim: Claim, judge: Judge) -> Claim | None:
    for instance in smaller(claim.instance):
        found = judge(instance)
        if found is not None and found.at_least >= claim.at_least:
            return found
    return None


def smaller(instance: Instance) -> Iterator[Instance]:
    """Yield the possible instances that are one step smaller, the largest steps first."""
    requests = instance.requests
    if len(requests) > 1:
        for i in range(len(requests)):
            yield from _made(instance, [*requests[:i], *requests[i + 1 :]])
    for i, request in enumerate(requests):
        for less in _less(request):
            yield from _made(instance, [*requests[:i], less, *requests[i + 1 :]])
    memory = instance.machine.memory
    if memory is not None and memory > 1:
        yield from _made(instance, list(requests), memory - 1)


def _made(instance: Instance, requests: list[Request], memory: int | None = None) -> Iterator[Instance]:
    first = min(request.arrival for request in requests)
    numbered = tuple(r.replace(id=f"R{i}", arrival=r.arrival - first) for i, r in enumerate(requests, 1))
    machine = instance.machine if memory is None else instance.machine.replace(memory=memory)
    try:
        yield instance.replace(requests=numbered, machine=machine)
    except ValidationError:  # a request would no longer fit
        return


def _less(request: Request) -> Iterator[Request]:
    segments = request.segments
    for k, segment in enumerate(segments):
        if segment.call is not None:
            yield request.replace(segments=(*segments[:k], *segments[k + 1 :]))
    yield from _with_less(request, arrival=0, prompt=1)
    for k, segment in enumerate(segments):
        smaller = [*_with_less(segment, decode=1)]
        if segment.call is not None:
            smaller += [segment.replace(call=call) for call in _with_less(segment.call, duration=0, returns=0)]
        yield from (request.replace(segments=(*segments[:k], less, *segments[k + 1 :])) for less in smaller)


def _with_less(noun: Shrunk, **leasts: int) -> Iterator[Shrunk]:
    for name, least in leasts.items():
        number = getattr(noun, name)
        lower = {less for less in (number // 2, number - 1) if least <= less < number}
        yield from (noun.replace(**{name: less}) for less in sorted(lower))
