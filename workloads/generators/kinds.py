"""The kinds of requests: each a function `draw(random, tick, n, **parameters)` that yields them."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from inspect import Parameter, signature
from itertools import combinations, count
from typing import Any

from kvcore.errors import BadInput
from kvcore.instance import LIMIT, Request, Segment
from workloads.generators.calls import CallType, Moments
from workloads.generators.prefixes import turns_of

TYPES = {
    "math": CallType(Moments(9e-5, 6e-5), Moments(3.75, 1.3), Moments(1422, 738), 125, 21),
    "qa": CallType(Moments(0.69, 0.17), Moments(2.52, 1.73), Moments(1846, 428), 183, 57),
    "ve": CallType(Moments(0.09, 0.014), Moments(28.18, 15.2), Moments(2185, 115), 4, 9),
    "chat": CallType(Moments(28.6, 15.6), Moments(4.45, 1.96), Moments(753, 703), 114, 40),
    "image": CallType(Moments(20.03, 7.8), Moments(6.91, 3.93), Moments(1247, 792), 33, 18),
    "tts": CallType(Moments(17.24, 7.6), Moments(6.91, 3.93), Moments(1251, 792), 33, 18),
}
"""Seconds of a call, calls of a request, context at a call (InferCept, Table 1); decode and returned tokens.

The lengths between the calls are the means of the released mixture (`kvbound import infercept`).
"""
QA = TYPES["qa"]
TOOLBENCH = CallType(Moments(1.72, 3.33), Moments(2.45, 1.81), QA.context, QA.decode, QA.returns)
"""Moments of LAMPS (Table 2) and MARS (Table 1) for ToolBench; lengths are those of the closest type of InferCept,
`qa`.
"""
SHORT, LONG = (8, 16), (512, 1024)  # the lengths, in tokens, that are equally likely in a group of INFERMAX's mixes
GROUPS = {"siso": (SHORT, SHORT), "silo": (SHORT, LONG), "liso": (LONG, SHORT), "lilo": (LONG, LONG)}
"""Lengths of prompts and of outputs: S(mall) or L(ong) I(nput), S(mall) or L(ong) O(utput)."""
MIXES = tuple("+".join(pair) for pair in combinations(GROUPS, 2))


def infercept(draw: random.Random, tick: Fraction, n: int | None) -> Iterator[Request]:
    """Yield requests of six types without end, equally likely, as in InferCept's mixture."""
    names = tuple(TYPES)
    for number in count(1):
        name = names[draw.randrange(len(names))]
        yield TYPES[name].request(f"{name}-{number}", draw, tick)


def toolbench(draw: random.Random, tick: Fraction, n: int | None) -> Iterator[Request]:
    """Yield requests that call web services, without end."""
    return (TOOLBENCH.request(f"toolbench-{number}", draw, tick) for number in count(1))


def mixed(draw: random.Random, tick: Fraction, n: int | None, *, share: Fraction = Fraction(1, 2)) -> Iterator[Request]:
    """Yield InferCept's without end; with probability `share` one makes no calls (MARS, Appendix C.2) and is `plain`.

    It generates all its tokens in one segment, and nothing is returned.
    """
    if not 0 <= share <= 1:
        raise BadInput(f"--share, of requests without calls, is from 0 to 1, not {share}")
    chance = float(share)
    return (_without_calls(each) if draw.random() < chance else each for each in infercept(draw, tick, n))


def _without_calls(request: Request) -> Request:
    _, _, number = request.id.partition("-")
    return request.replace(id=f"plain-{number}", segments=(Segment(decode=request.output),))


def fixed(
    draw: random.Random, tick: Fraction, n: int | None, *, prompt: int = 1024, output: int = 1024
) -> Iterator[Request]:
    """Yield identical requests without end, as in INFERMAX's Sections 4.2 to 4.5."""
    for what, tokens in (("--prompt", prompt), ("--output", output)):
        if not 1 <= tokens <= LIMIT:
            raise BadInput(f"{what} is from 1 to {LIMIT} tokens, not {tokens}")
    segments = (Segment(decode=output),)
    return (Request(id=f"fixed-{number}", prompt=prompt, segments=segments) for number in count(1))


def infermax_mix(draw: random.Random, tick: Fraction, n: int | None, *, mix: str = "siso+lilo") -> Iterator[Request]:
    """Yield `n` requests, half of each group of the mix (one more of the first if n is odd), in a random order.

    As in INFERMAX's Section 4.6.
    """
    groups = tuple(mix.lower().split("+"))
    if len(groups) != 2 or groups[0] == groups[1] or not set(groups) <= set(GROUPS):
        raise BadInput(f"--mix is two of {', '.join(GROUPS)}, such as siso+lilo, not {mix!r}")
    if n is None:
        raise BadInput("infermax-mix needs --n, the number of requests, half of them of each group")
    return _shuffled(draw, groups, {groups[0]: n - n // 2, groups[1]: n // 2})


def _shuffled(draw: random.Random, groups: tuple[str, ...], left: dict[str, int]) -> Iterator[Request]:
    for number in range(1, sum(left.values()) + 1):
        group = groups[draw.randrange(sum(left.values())) >= left[groups[0]]]
        left[group] -= 1
        prompts, outputs = GROUPS[group]
        prompt, output = draw.choice(prompts), draw.choice(outputs)
        yield Request(id=f"{group}-{number}", prompt=prompt, segments=(Segment(decode=output),))


def prefixes(
    draw: random.Random, tick: Fraction, n: int | None, *, systems: int = 4, examples: int = 4, turns: int = 4
) -> Iterator[Request]:
    """Yield the requests of `turns_of`."""
    return (turn.request for turn in turns_of(draw, systems=systems, examples=examples, turns=turns))


@dataclass(frozen=True)
class GeneratorKind:
    """A kind of requests: its drawing function, its description, and its source."""

    draw: Callable[..., Iterator[Request]]
    what: str
    source: str

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the kind, with their defaults."""
        found = signature(self.draw).parameters.values()
        return {given.name: given.default for given in found if given.kind is Parameter.KEYWORD_ONLY}


KINDS = {
    "infercept": GeneratorKind(infercept, "six types of calls", "InferCept, Table 1"),
    "toolbench": GeneratorKind(toolbench, "calls of web services", "LAMPS, Table 2; MARS, Table 1"),
    "mixed": GeneratorKind(mixed, "infercept, of which a share makes no calls", "MARS, Appendix C.2"),
    "fixed": GeneratorKind(fixed, "like requests without calls", "INFERMAX, Sections 4.2 to 4.5"),
    "infermax-mix": GeneratorKind(infermax_mix, "two groups without calls, shuffled", "INFERMAX, Section 4.6"),
    "prefixes": GeneratorKind(prefixes, "turns of conversations, with shared prefixes", "this project"),
}
