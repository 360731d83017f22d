"""Requests whose prompts begin alike: system prompts, examples, and conversations sent again with each turn."""

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import NamedTuple, TypeVar

from kvcore.errors import BadInput
from kvcore.instance import Instance, Node, Request, Segment

SYSTEM, EXAMPLES, QUESTION, OUTPUT = (256, 2048), (128, 1024), (16, 256), (16, 512)
"""Least and most tokens, all equally likely."""

T = TypeVar("T")


class Part(NamedTuple):
    """A content, and the tokens of a context up to its end."""

    id: str
    end: int


class Turn(NamedTuple):
    """A request, and the contents with which its context begins, in order."""

    request: Request
    parts: Sequence[Part]


def turns_of(draw: random.Random, *, systems: int = 4, examples: int = 4, turns: int = 4) -> Iterator[Turn]:
    """Yield turns of conversations without end; a conversation has `turns` on average.

    The k-th of `systems` prompts is 1/k as likely as the first, and so are the `examples` that may follow it. BadInput:
    one of these is below 1.
    """
    for name, value in (("systems", systems), ("examples", examples), ("turns", turns)):
        if value < 1:
            raise BadInput(f"--{name} is at least 1, not {value}")
    heads = [_head(draw, f"system-{k}", examples) for k in range(1, systems + 1)]
    open_: list[list[Part]] = []
    for number in count(1):
        if open_ and draw.random() < 1 - 1 / turns:
            parts = draw.choice(open_)
        else:
            parts = [*_likely(draw, _likely(draw, heads))]
            open_.append(parts)
        prompt, output = parts[-1].end + draw.randint(*QUESTION), draw.randint(*OUTPUT)
        request = Request(id=f"prefixes-{number}", prompt=prompt, segments=(Segment(decode=output),))
        parts.append(Part(request.id, request.peak))
        yield Turn(request, tuple(parts))


def _head(draw: random.Random, name: str, examples: int) -> list[list[Part]]:
    system = Part(name, draw.randint(*SYSTEM))
    return [
        [system, Part(f"{name}/examples-{k}", system.end + draw.randint(*EXAMPLES))] for k in range(1, examples + 1)
    ]


def _likely(draw: random.Random, items: Sequence[T]) -> T:
    return draw.choices(items, [1 / k for k in range(1, len(items) + 1)])[0]


def with_parts(instance: Instance, turns: Iterable[Turn]) -> Instance:
    """Return the instance with the whole blocks of these parts as contents."""
    block, nodes, requests = instance.machine.block, dict[str, Node](), []
    for request, (_, parts) in zip(instance.requests, turns, strict=False):
        path: tuple[str, int] | None = None
        before = 0
        for part in parts:
            if blocks := part.end // block - before:
                nodes[part.id] = Node(id=part.id, parent=None if path is None else path[0], blocks=blocks)
                path, before = (part.id, blocks), before + blocks
        requests.append(request.replace(path=path))
    return instance.replace(contents=tuple(nodes.values()), requests=tuple(requests))


def what_is_shared(instance: Instance) -> str:
    """Say how many of the prompts' tokens, in whole blocks, begin an earlier prompt or context."""
    seen, shared = dict[str, int](), 0
    for request, parts in zip(instance.requests, instance.parts, strict=True):
        for part in parts:
            shared += min(seen.get(part.node, 0), part.of(request.prompt // instance.machine.block))
            seen[part.node] = max(seen.get(part.node, 0), part.blocks)
    tokens = sum(request.prompt for request in instance.requests)
    return f"{100 * shared * instance.machine.block / tokens:.1f} % of all prompt tokens begin an earlier context, too"
