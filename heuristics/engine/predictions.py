"""The requests as a policy believes them to be.

`run_policy(.., predictions=predictions("noise:0.3", instance))`. Prompts, arrivals and the number of calls are known.
"""

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from fractions import Fraction

from kvcore.errors import BadInput
from kvcore.files import valid
from kvcore.instance import LIMIT, Instance, Request, Segment

KINDS = "exact, noise:P, types or bins:NxW"
NOISE = re.compile(r"noise:([0-9]{1,3}(?:\.[0-9]{1,9})?)")
BINS = re.compile(r"bins:([0-9]{1,9})x([0-9]{1,9})")
Guess = Callable[[Request, Segment], Segment]  # what is believed of a segment of a request


def predictions(text: str, instance: Instance, seed: int = 0) -> Instance | None:
    """Return the instance as it is believed to be (None: as it is).

    `exact`; `noise:P` adds to each decode length and call duration m an error drawn from N(0, P m) (P m is the standard
    deviation), rounded, and cut at the smallest value possible; `types` gives all requests of a type (the id before the
    first dash) its mean lengths, durations and returns; `bins:NxW` gives each decode length as the centre of its bin,
    of N bins of W tokens.

    A guess above the request's `max_new`, or too long to fit into the memory alone, is cut. The machine of the result
    has no limits.

    Raises:
        BadInput: the text is none of these.
    """
    if text == "exact":
        return None
    guess = _guess(text, instance, seed)
    if guess is None:
        raise BadInput(f"predictions are {KINDS}, not {text!r}")
    limits = ("memory", "host_memory", "batch_tokens", "prefill_tokens")
    unlimited = instance.machine.replace(**dict.fromkeys(limits))
    memory = instance.machine.longest
    with valid(f"predictions {text} of {instance.name}"):
        requests = tuple(_cut(_guessed(request, guess), memory) for request in instance.requests)
        return instance.replace(requests=requests, machine=unlimited)


def _guess(text: str, instance: Instance, seed: int) -> Guess | None:
    noise, bins = NOISE.fullmatch(text), BINS.fullmatch(text)
    if noise:
        return with_noise(Fraction(noise[1]), random.Random(f"{seed} noise"))
    if bins and int(bins[1]) and int(bins[2]):
        return in_bins(int(bins[1]), int(bins[2]))
    return by_type(instance.requests) if text == "types" else None


def with_noise(share: Fraction, draw: random.Random) -> Guess:
    """Return a guess with Gaussian errors in proportion to the value: MARS's and LAMPS's mispredictions."""

    def drawn(value: int, least: int) -> int:
        return max(least, value + round(draw.gauss(0.0, float(share * value))))

    def guess(request: Request, segment: Segment) -> Segment:
        decode, call = drawn(segment.decode, 1), segment.call
        if call is not None:
            call = call.replace(duration=drawn(call.duration, 0))
        return segment.replace(decode=decode, call=call)

    return guess


def in_bins(bins: int, width: int) -> Guess:
    """Return a guess that knows the bin of a decode length: an ideal classifier (LAMPS: 50 bins of 10)."""

    def guess(request: Request, segment: Segment) -> Segment:
        centre = min(segment.decode // width, bins - 1) * width + width // 2
        return segment.replace(decode=max(1, centre))

    return guess


def by_type(requests: Iterable[Request]) -> Guess:
    """Return a guess that knows each type's means, of segments with a call and of last ones apart."""
    found: dict[tuple[str, bool], list[Segment]] = defaultdict(list)
    for request in requests:
        for segment in request.segments:
            found[_type(request), segment.call is None].append(segment)
    means = {key: _mean(segments) for key, segments in found.items()}

    def guess(request: Request, segment: Segment) -> Segment:
        decode, duration, returns = means[_type(request), segment.call is None]
        call = segment.call and segment.call.replace(duration=duration, returns=returns)
        return segment.replace(decode=max(1, decode), call=call)

    return guess


def _guessed(request: Request, guess: Guess) -> Request:
    segments = (guess(request, segment) for segment in request.segments)
    limit = request.max_new or LIMIT
    return request.replace(segments=tuple(each.replace(decode=min(each.decode, limit)) for each in segments))


def _cut(request: Request, memory: int) -> Request:
    excess = request.peak - memory
    segments = list(request.segments)
    for k in reversed(range(len(segments))):
        if excess <= 0:
            break
        shorter = min(excess, segments[k].decode - 1)
        segments[k] = segments[k].replace(decode=segments[k].decode - shorter)
        excess -= shorter
        call = segments[k].call
        if call is not None and excess > 0:
            returned = min(excess, call.returns)
            segments[k] = segments[k].replace(call=call.replace(returns=call.returns - returned))
            excess -= returned
    return request.replace(segments=tuple(segments))


def _type(request: Request) -> str:
    return request.id.split("-", 1)[0]


def _mean(segments: list[Segment]) -> tuple[int, int, int]:
    calls = [segment.call for segment in segments if segment.call is not None]
    sums = (
        sum(segment.decode for segment in segments),
        sum(call.duration for call in calls),
        sum(call.returns for call in calls),
    )
    decode, duration, returns = (round(Fraction(total, len(segments))) for total in sums)
    return decode, duration, returns
