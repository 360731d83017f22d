"""Like requests, as in INFERMAX's Sections 4.2 to 4.5: `prompt` input and `output` generated tokens each."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import count

from kvcore.errors import BadInput
from kvcore.instance import LIMIT, Request, Segment


def fixed(
    draw: random.Random, tick: Fraction, n: int | None, *, prompt: int = 1024, output: int = 1024
) -> Iterator[Request]:
    """Yield like requests without end."""
    for what, tokens in (("--prompt", prompt), ("--output", output)):
        if not 1 <= tokens <= LIMIT:
            raise BadInput(f"{what} is from 1 to {LIMIT} tokens, not {tokens}")
    segments = (Segment(decode=output),)
    return (Request(id=f"fixed-{number}", prompt=prompt, segments=segments) for number in count(1))
