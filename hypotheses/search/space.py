"""A bounded family of instances, its members numbered and listed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations_with_replacement, permutations, product
from math import comb, prod
from typing import Any, get_args

from pydantic import ValidationError

from kvcore.cost import Cost
from kvcore.errors import BadInput
from kvcore.instance import Call, Handling, Instance, Machine, Request, Segment

HANDLINGS = (*get_args(Handling), "any")  # any: each call in a fixed way of its own
FIXED = ("preserve", "discard", "swap")
CallShape = tuple[int, int, int, int]  # duration, returns, number of the handling, tokens decoded after it
Shape = tuple[int, int, int, tuple[CallShape, ...]]  # arrival, prompt, tokens before the first call, the calls
MACHINE = Machine(memory=None, host_memory=0, evict=True)
UNIT = Cost.unit()


@dataclass(frozen=True)
class SearchSpace:
    """All instances within the bounds; the first request arrives at tick 0.

    `requests` is exact. `memory` is a maximum, and at least what each request needs alone; `prompt` and `decode`
    (tokens of a segment) go from 1 to their bounds, `calls` of a request, `duration` (ticks), `returns` (tokens) and
    `arrival` (ticks) from 0. `machine` gives the rest of the machine.
    """

    requests: int = 3
    memory: int = 8
    prompt: int = 3
    decode: int = 4
    calls: int = 0
    duration: int = 4
    returns: int = 0
    arrival: int = 2
    handling: str = "free"
    machine: Machine = MACHINE
    cost: Cost = UNIT

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise BadInput(f"a family has {name} of at least {least}, not {getattr(self, name)}")
        if self.handling not in HANDLINGS:
            raise BadInput(f"handling is one of {', '.join(HANDLINGS)}, not {self.handling!r}")

    def instance(self, memory: int, shapes: Sequence[Shape]) -> Instance | None:
        """Return the member with these requests, the first at tick 0; None if one can never fit.

        Memory is raised to the need of the largest request, up to the bound.
        """
        first = min(shape[0] for shape in shapes)
        try:
            requests = tuple(self._request(i, shape, first) for i, shape in enumerate(shapes, 1))
            needed = max(self.machine.blocks(request.peak) for request in requests) * self.machine.block
            if needed > self.memory:
                return None
            machine = self.machine.replace(memory=max(memory, needed))
            return Instance(name="an instance of the family", machine=machine, cost=self.cost, requests=requests)
        except ValidationError:  # a prefill above the budget, or a swap above the host's memory
            return None

    def _request(self, number: int, shape: Shape, first: int) -> Request:
        arrival, prompt, decode, parts = shape
        decodes = [decode, *(after for _, _, _, after in parts)]
        calls = [
            Call(duration=duration, returns=returns, handling=self._handlings[how])
            for duration, returns, how, _ in parts
        ]
        segments = tuple(Segment(decode=d, call=call) for d, call in zip(decodes, [*calls, None], strict=True))
        return Request(id=f"R{number}", arrival=arrival - first, prompt=prompt, segments=segments)

    @property
    def _handlings(self) -> tuple[Any, ...]:
        return FIXED if self.handling == "any" else (self.handling,)

    # --- by numbers, for the annealing ---------------------------------------------------------------------------

    def axes(self) -> list[range]:
        """Return the values of each coordinate: memory, then request after request."""
        request = [*self._request_axes, range(self.calls + 1), *self._call_axes * self.calls]
        return [range(1, self.memory + 1), *request * self.requests]

    def member(self, numbers: Sequence[int]) -> Instance | None:
        """Return the member at these coordinates, or None; calls beyond a request's number do not count."""
        rest = iter(numbers)
        memory = next(rest)
        return self.instance(memory, [self._shape(rest) for _ in range(self.requests)])

    def _shape(self, numbers: Iterator[int]) -> Shape:
        arrival, prompt, decode, calls = (next(numbers) for _ in range(4))
        parts = [(next(numbers), next(numbers), next(numbers), next(numbers)) for _ in range(self.calls)]
        return arrival, prompt, decode, tuple(parts[:calls])

    @property
    def _request_axes(self) -> tuple[range, range, range]:
        return range(self.arrival + 1), range(1, self.prompt + 1), range(1, self.decode + 1)

    @property
    def _call_axes(self) -> tuple[range, range, range, range]:
        return range(self.duration + 1), range(self.returns + 1), range(len(self._handlings)), range(1, self.decode + 1)

    # --- all of them ---------------------------------------------------------------------------------------------

    def shapes(self) -> list[Shape]:
        """Return every possible request."""
        part = list(product(*self._call_axes))
        later = [parts for k in range(self.calls + 1) for parts in product(part, repeat=k)]
        return list(product(*self._request_axes, later))

    def count(self) -> int:
        """Return an upper bound on the number of members, up to the order of requests."""
        part, request = (prod(map(len, axes)) for axes in (self._call_axes, self._request_axes))
        shapes = request * sum(part**k for k in range(self.calls + 1))
        return comb(shapes + self.requests - 1, self.requests) * self.memory

    def members(self) -> Iterator[Instance]:
        """Yield every member once; those that differ only in the order of requests follow one another.

        A policy's ties may depend on that order.
        """
        for shapes in combinations_with_replacement(self.shapes(), self.requests):
            smallest = self.instance(1, shapes)
            if smallest is None or min(shape[0] for shape in shapes) > 0:
                continue
            least = smallest.machine.memory or 1
            orders = sorted(set(permutations(shapes)))
            for memory in range(least, self.memory + 1, self.machine.block):
                yield from (member for order in orders if (member := self.instance(memory, order)) is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the bounds, JSON-ready."""
        made = {**asdict(self), "machine": self.machine.model_dump(mode="json")}
        return {**made, "cost": self.cost.model_dump(mode="json")}


LEAST = {
    "requests": 1, "memory": 1, "prompt": 1, "decode": 1, "calls": 0, "duration": 0, "returns": 0, "arrival": 0,
}  # fmt: skip
