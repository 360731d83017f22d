"""Two groups of requests, shuffled, as in INFERMAX's Section 4.6: short or long prompts with short or long outputs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

from kvcore.errors import BadInput
from kvcore.instance import Request, Segment

SHORT, LONG = (8, 16), (512, 1024)
"""The lengths, in tokens, that are equally likely in a group."""
GROUPS = {"siso": (SHORT, SHORT), "silo": (SHORT, LONG), "liso": (LONG, SHORT), "lilo": (LONG, LONG)}
"""Lengths of prompts and of outputs: S(mall) or L(ong) I(nput), S(mall) or L(ong) O(utput)."""
MIXES = tuple("+".join(pair) for pair in combinations(GROUPS, 2))


def infermax_mix(draw: random.Random, tick: Fraction, n: int | None, *, mix: str = "siso+lilo") -> Iterator[Request]:
    """Yield `n` requests, half of each group of the mix (the first has one more if n is odd), in a random order."""
    groups = tuple(mix.lower().split("+"))
    if len(groups) != 2 or groups[0] == groups[1] or not set(groups) <= set(GROUPS):
        raise BadInput(f"--mix is two of {', '.join(GROUPS)}, such as siso+lilo, not {mix!r}")
    if n is None:
        raise BadInput("infermax-mix needs --n, the number of requests, half of them of each group")
    return _shuffled(draw, groups, {groups[0]: n - n // 2, groups[1]: n // 2})


def _shuffled(draw: random.Random, groups: tuple[str, ...], left: dict[str, int]) -> Iterator[Request]:
    """Draw from an urn with so many `left` of each group: every order is equally likely."""
    for number in range(1, sum(left.values()) + 1):
        group = groups[draw.randrange(sum(left.values())) >= left[groups[0]]]
        left[group] -= 1
        prompts, outputs = GROUPS[group]
        prompt, output = draw.choice(prompts), draw.choice(outputs)
        yield Request(id=f"{group}-{number}", prompt=prompt, segments=(Segment(decode=output),))
