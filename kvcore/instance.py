"""The instance: a machine, the cost of a batch, and requests that pause for calls.

Every quantity is an exact integer: tokens, or ticks. `docs/semantics.md` defines each, and `docs/formats.md` the JSON
file, which only these classes read and write.
"""

from __future__ import annotations

import hashlib
import json
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from kvcore.contents import Part, Row, canonical, parts_of
from kvcore.cost import Cost, OwnCost
from kvcore.shown import Shown

LIMIT = 10**15
"""Largest token count or tick of an instance or a schedule."""

Count = Annotated[int, Field(ge=0, le=LIMIT)]
Positive = Annotated[int, Field(ge=1, le=LIMIT)]
Offset = Annotated[int, Field(ge=-LIMIT, le=LIMIT)]
Handling = Literal["preserve", "discard", "swap", "free"]
"""The KV of a request during a call; `free` leaves the choice to the schedule."""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("only printable characters (no line break, no control character)")
    return text


Name = Annotated[str, Field(max_length=200), AfterValidator(_printable)]
Identifier = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]


def _fraction(value: Any) -> Any:
    """Read a positive fraction from text (`"3/2"`) or an integer, not from a float."""
    if isinstance(value, bool) or not isinstance(value, int | str | Fraction):
        raise ValueError('give an integer or a fraction in text, such as "3/2"')
    if isinstance(value, str) and len(value) > 40:
        raise ValueError("a fraction in text has at most 40 characters")
    if isinstance(value, str) and not all(part.isdecimal() for part in value.split("/", 1)):
        raise ValueError('give an integer or a fraction in text, such as "3/2"')
    try:
        fraction = Fraction(value)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"not a fraction: {value!r}") from None
    if fraction <= 0:
        raise ValueError("must be above 0")
    if max(fraction.numerator, fraction.denominator) > LIMIT:
        raise ValueError(f"its numerator and denominator are at most {LIMIT}")
    return fraction


_FRACTION_SCHEMA = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": LIMIT},
        {"type": "string", "pattern": "^[0-9]+(/[0-9]+)?$", "maxLength": 40},
    ],
    "description": 'A positive fraction, exact: an integer, or text such as "3/2".',
}
PositiveFraction = Annotated[
    Fraction, PlainValidator(_fraction), PlainSerializer(str, return_type=str), WithJsonSchema(_FRACTION_SCHEMA)
]


_NO_FIELDS: set[str] = set()


def _fail_fast(schema: Any) -> None:
    if isinstance(schema, dict):
        if schema.get("type") in ("list", "tuple", "dict"):
            schema["fail_fast"] = True
        schema = list(schema.values())
    for part in schema if isinstance(schema, list) else ():
        _fail_fast(part)


class Noun(Shown, BaseModel):
    """All nouns are immutable, strict about types, and know no other key."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> Any:
        """Stop at the first error in a list or an object: a file may hold millions."""
        schema = handler(source)
        _fail_fast(schema)
        return schema

    def model_post_init(self, _: Any) -> None:
        """Forget which fields were given, a quarter of a schedule's memory."""
        object.__setattr__(self, "__pydantic_fields_set__", _NO_FIELDS)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed, validated anew (and without cached properties)."""
        return type(self)(**{name: getattr(self, name) for name in type(self).model_fields} | changes)


class KvGroup(Noun):
    """Layers that keep a request's last `window` tokens (None: all), `weight` device blocks for each block of them."""

    weight: Annotated[int, Field(ge=1, le=2**16)] = 1
    window: Positive | None = None


class KvLayout(Noun):
    """What a request that holds KV occupies: `state` blocks, and those of each group of layers."""

    state: Annotated[int, Field(ge=0, le=2**30)] = 0
    groups: Annotated[tuple[KvGroup, ...], Field(max_length=16)] = ()

    @model_validator(mode="after")
    def _occupies(self) -> Self:
        if not (self.state or self.groups):
            raise ValueError("a layout has a state or a group")
        return self

    def units(self, tokens: int, block: int = 1) -> int:
        """Return the blocks of a request with these tokens; subadditive, and 0 of none."""
        blocks = -(-tokens // block)
        windows = (blocks if g.window is None else min(blocks, -(-g.window // block)) for g in self.groups)
        return (self.state if tokens else 0) + sum(g.weight * n for g, n in zip(self.groups, windows, strict=True))


class Machine(Noun):
    """The device: its KV memory, the host's, the budgets of a batch, and the powers of a scheduler.

    `None` means no limit. Budgets are tokens (or requests) per batch; memories are tokens of KV.
    """

    memory: Positive | None
    block: Positive = 1
    host_memory: Count | None = 0
    batch_tokens: Positive | None = None
    prefill_tokens: Positive | None = None
    batch_requests: Positive | None = None
    hybrid: bool = True
    chunked: bool = True
    evict: bool = False
    partial: bool = False
    pause: bool = True
    drop_and_work: Annotated[bool, Field(exclude_if=lambda on: not on)] = False
    same_batch: Annotated[bool, Field(exclude_if=bool)] = True
    layout: Annotated[KvLayout | None, Field(exclude_if=lambda layout: layout is None)] = None
    """None: a block of tokens takes one block."""

    @model_validator(mode="after")
    def _prefill_within_batch(self) -> Self:
        if self.batch_tokens is not None and (self.prefill_tokens or 0) > self.batch_tokens:
            raise ValueError(f"prefill_tokens {self.prefill_tokens} exceeds batch_tokens {self.batch_tokens}")
        return self

    @model_validator(mode="after")
    def _moves_whole(self) -> Self:
        if self.layout is not None and self.partial:
            raise ValueError("with a layout KV moves as a whole: partial is false")
        return self

    def blocks(self, tokens: int) -> int:
        """Return the device blocks of a request with these tokens."""
        return -(-tokens // self.block) if self.layout is None else self.layout.units(tokens, self.block)

    @property
    def longest(self) -> int:
        """Most tokens of KV that a request holds."""
        if (limit := self.block_limit) is None:
            return LIMIT
        return limit * self.block if self.layout is None else bisect_right(range(LIMIT), limit, key=self.blocks) - 1

    def hosted(self, tokens: int) -> int:
        """Return the host memory of a request with these tokens there."""
        if self.layout is None:
            return tokens
        return self.layout.units(tokens) + (self.block - 1) * (self.layout.state if tokens else 0)

    @property
    def block_limit(self) -> int | None:
        """Blocks that fit in the device memory (None: no limit)."""
        return None if self.memory is None else self.memory // self.block

    @property
    def prefill_limit(self) -> int | None:
        """Most prefill tokens in a batch, also by the limit of all tokens (None: no limit)."""
        return self.batch_tokens if self.prefill_tokens is None else self.prefill_tokens


class Call(Noun):
    """An API (tool) call: `duration` ticks, `returns` tokens appended to the context, and a handling of the KV."""

    duration: Count
    returns: Count = 0
    handling: Handling = "free"


class Segment(Noun):
    """`decode` tokens to generate, then a call (every segment but the last)."""

    decode: Positive
    call: Call | None = None


class Slo(Noun):
    """Service-level objectives: `ttft` and `latency` in ticks, the others in ticks per token."""

    ttft: Count | None = None
    latency: Count | None = None
    tpot: PositiveFraction | None = None
    normalized_latency: PositiveFraction | None = None


class SloTicks(NamedTuple):
    """The most ticks from arrival to first token and to the end, and between the two (None: no limit)."""

    first: int | None
    last: int | None
    between: int | None


class Request(Noun):
    """Arrival, prompt, and segments."""

    id: Identifier
    arrival: Count = 0
    prompt: Positive
    weight: Positive = 1
    slo: Slo | None = None
    max_new: Annotated[Positive | None, Field(exclude_if=lambda limit: limit is None)] = None
    """Each segment's output limit, known to engines, unlike its length. It changes no rule."""
    slo_class: Annotated[Identifier | None, Field(exclude_if=lambda name: name is None)] = None
    """The class by which attained SLOs are counted. It changes no rule."""
    path: Annotated[tuple[str, Count] | None, Field(exclude_if=lambda path: path is None)] = None
    """The node of `contents` where it ends, and its blocks there."""
    segments: Annotated[tuple[Segment, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _calls_between_segments(self) -> Self:
        if self.segments[-1].call is not None:
            raise ValueError(f"request {self.id}: the last segment must not end with a call")
        for k, segment in enumerate(self.segments[:-1], 1):
            if segment.call is None:
                raise ValueError(f"request {self.id}: segment {k} must end with a call (only the last has none)")
        return self

    @model_validator(mode="after")
    def _within_the_limit(self) -> Self:
        for k, segment in enumerate(self.segments, 1):
            if self.max_new is not None and segment.decode > self.max_new:
                raise ValueError(f"request {self.id}: segment {k} decodes {segment.decode}, more than its max_new")
        return self

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """The calls, one fewer than the segments."""
        return tuple(segment.call for segment in self.segments if segment.call is not None)

    @cached_property
    def shape(self) -> Request:
        """The request without its id and class: alike requests share it."""
        return self.replace(id="-", slo_class=None)

    @cached_property
    def slo_ticks(self) -> SloTicks:
        """The SLOs in whole ticks: a request is late if and only if it exceeds one."""
        slo = self.slo or Slo()
        normalized = None if slo.normalized_latency is None else math.floor(slo.normalized_latency * self.output)
        last = min((ticks for ticks in (slo.latency, normalized) if ticks is not None), default=None)
        between = math.floor(slo.tpot * (self.output - 1)) if slo.tpot is not None and self.output > 1 else None
        return SloTicks(slo.ttft, last, between)

    def is_late(self, first: int, last: int) -> bool:
        """Whether its first and last tokens, this many ticks after its arrival, exceed an SLO."""
        taken = zip((first, last, last - first), self.slo_ticks, strict=True)
        return any(most is not None and ticks > most for ticks, most in taken)

    @cached_property
    def output(self) -> int:
        """Tokens generated."""
        return sum(segment.decode for segment in self.segments)

    @cached_property
    def peak(self) -> int:
        """KV tokens resident when the last token is generated (itself never processed)."""
        return self.prompt + self.output + sum(call.returns for call in self.calls) - 1

    @cached_property
    def call_time(self) -> int:
        """Ticks in calls."""
        return sum(call.duration for call in self.calls)

    @cached_property
    def known(self) -> tuple[int, ...]:
        """Tokens known at the start of each segment, returns of the call included."""
        return tuple(
            accumulate((s.decode + (s.call.returns if s.call else 0) for s in self.segments[:-1]), initial=self.prompt)
        )

    def with_calls(self, change: Callable[[Call], Call]) -> Request:
        """Return the request with every call changed, in order."""
        segments = (segment.replace(call=segment.call and change(segment.call)) for segment in self.segments)
        return self.replace(segments=tuple(segments))

    def context_at_call(self, k: int) -> int:
        """KV tokens at the start of call `k` (from 0): everything known but the token just generated."""
        return self.known[k] + self.segments[k].decode - 1


def alike(requests: Iterable[Request]) -> list[list[int]]:
    """Return the requests, by their places, in groups that differ in their ids only."""
    groups: dict[Request, list[int]] = {}
    for i, request in enumerate(requests):
        groups.setdefault(request.shape, []).append(i)
    return list(groups.values())


class Node(Noun):
    """Full blocks of KV that requests share, after its parent's last."""

    id: Identifier
    parent: str | None = None
    blocks: Positive


class Coarsening(Noun):
    """The rounding of an instance to blocks and slots (`workloads.coarsen`).

    `relax` and the offsets, rounded in favour of schedules, occur in older files only.
    """

    direction: Literal["relax", "restrict"]
    block_tokens: Positive
    slot_ticks: Positive
    headroom_ticks: Count = 0
    fine_tick_seconds: PositiveFraction
    completion_offset: dict[str, Offset] = {}
    flow_offset: dict[str, Offset] = {}


class Instance(Noun):
    """A machine, the cost of a batch, and the requests. `tick_seconds` only says how long a tick is.

    With an `OwnCost`, policies run on it, and it has no file, no optimum and no bound.
    """

    format: Literal["kvbound-instance"] = "kvbound-instance"
    version: Annotated[int, Field(ge=1, le=2)] = 1  # 2 with contents, else 1, whatever was given
    name: Name = "instance"
    tick_seconds: PositiveFraction = Fraction(1)
    machine: Machine
    cost: Cost = Cost.unit()
    contents: Annotated[tuple[Node, ...], Field(exclude_if=lambda contents: not contents)] = ()
    requests: Annotated[tuple[Request, ...], Field(min_length=1)]
    coarsening: Coarsening | None = None

    @model_validator(mode="after")
    def _unique_ids(self) -> Self:
        seen: set[str] = set()
        for request in self.requests:
            if request.id in seen:
                raise ValueError(f"two requests have the id {request.id}")
            seen.add(request.id)
        return self

    @model_validator(mode="after")
    def _every_request_fits_alone(self) -> Self:
        for request in self.requests:
            _check_fits(self.machine, request)
        return self

    @model_validator(mode="after")
    def _one_spelling(self) -> Self:
        given = {request.id: request.path for request in self.requests if request.path is not None}
        if self.contents or given:
            rows, paths = canonical([Row(node.id, node.parent, node.blocks) for node in self.contents], given)
            contents = tuple(Node(id=row.id, parent=row.parent, blocks=row.blocks) for row in rows)
            requests = tuple(
                request if request.path == paths.get(request.id) else request.replace(path=paths.get(request.id))
                for request in self.requests
            )
            vars(self).update(contents=contents, requests=requests)
            _check_paths(self)
        vars(self).update(version=2 if self.contents else 1)
        if self.contents and self.machine.layout is not None:
            raise ValueError("contents and a layout of KV are not for one instance")
        if not (self.contents or self.machine.same_batch):
            raise ValueError("same_batch is false, which takes contents on the path of a request")
        return self

    def __repr__(self) -> str:
        requests = self.requests
        calls, output = sum(len(each.calls) for each in requests), sum(each.output for each in requests)
        return (
            f"Instance({self.name!r}: {len(requests)} requests with {calls} calls, {output} tokens to generate, "
            f"largest peak {max(each.peak for each in requests)}, a tick is {self.tick_seconds} s, {self.machine}, "
            f"{self.cost})"
        )

    def request(self, id: str) -> Request:
        """Return the request of that id. Raises KeyError."""
        return self._by_id[id]

    @cached_property
    def _by_id(self) -> dict[str, Request]:
        return {request.id: request for request in self.requests}

    @cached_property
    def first_arrival(self) -> int:
        """Tick of the first arrival."""
        return min(request.arrival for request in self.requests)

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each request id."""
        return {request.id: i for i, request in enumerate(self.requests)}

    @cached_property
    def parts(self) -> tuple[tuple[Part, ...], ...]:
        """The parts of each request's path."""
        forest = {node.id: Row(node.id, node.parent, node.blocks) for node in self.contents}
        return tuple(parts_of(forest, request.path) for request in self.requests)

    def with_free_calls(self) -> Instance:
        """Return the instance with all calls `free`."""
        return self.with_calls_handled("free")

    def with_calls_handled(self, handling: Handling) -> Instance:
        """Return the instance with one handling for all calls."""
        return self.with_calls(lambda call: call.replace(handling=handling))

    def with_calls(self, change: Callable[[Call], Call]) -> Instance:
        """Return the instance with every call changed, in order."""
        return self.replace(requests=tuple(request.with_calls(change) for request in self.requests))

    def to_json(self, indent: int | None = 1) -> str:
        """Return the instance file as text, every key written. BadInput with an `OwnCost`."""
        self.cost.check_linear()
        return json.dumps(self.model_dump(mode="json"), indent=indent, ensure_ascii=False)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the canonical JSON."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()

    @property
    def canonical(self) -> str:
        """The canonical JSON: all keys, sorted, no white space, ASCII."""
        own = {"cost": self.cost.name} if isinstance(self.cost, OwnCost) else {}
        return json.dumps(self.model_dump(mode="json") | own, sort_keys=True, separators=(",", ":"))


def _check_fits(machine: Machine, request: Request) -> None:
    """Raise if no schedule can carry out `request` even alone; otherwise running it alone, from start to end, works.

    The request is the whole conflict (with one call of it, where its handling is to blame).
    """
    if machine.block_limit is not None and machine.blocks(request.peak) > machine.block_limit:
        raise ValueError(
            f"request {request.id} can never fit: its last token needs {request.peak} tokens of KV "
            f"({machine.blocks(request.peak)} blocks of {machine.block}), memory is {machine.memory} (rule R6); "
            f"it takes a memory of {machine.blocks(request.peak) * machine.block}"
        )
    limit = machine.prefill_limit
    if not machine.chunked and limit is not None:
        for what, tokens in _whole_prefills(request):
            if tokens > limit:
                raise ValueError(
                    f"request {request.id} can never fit: {what} is a prefill of {tokens} tokens, "
                    f"a batch takes {limit} and prefills are not chunked (rules R3 and R5); "
                    f"it takes a prefill budget of {tokens}, or chunked"
                )
    for k, call in enumerate(request.calls):
        if call.handling == "swap" and machine.host_memory is not None:
            held = machine.hosted(request.context_at_call(k))
            if held > machine.host_memory:
                raise ValueError(
                    f"request {request.id} can never fit: call {k + 1} swaps out {held} tokens, "
                    f"host_memory is {machine.host_memory} (rules R7 and R9); "
                    f"it takes a host_memory of {held}, or another handling"
                )


def _check_paths(instance: Instance) -> None:
    for request, parts in zip(instance.requests, instance.parts, strict=True):
        tokens = sum(part.blocks for part in parts) * instance.machine.block
        if tokens > request.peak:
            raise ValueError(
                f"request {request.id}: its path has {tokens} tokens, more than its peak of {request.peak}; "
                f"a path takes at most {request.peak // instance.machine.block} blocks"
            )


def _whole_prefills(request: Request) -> list[tuple[str, int]]:
    prefills = [("its prompt", request.prompt)]
    for k, call in enumerate(request.calls):
        if call.handling == "discard":
            prefills.append((f"the refill after call {k + 1}", request.context_at_call(k) + 1 + call.returns))
        elif call.returns:
            prefills.append((f"what call {k + 1} returns", call.returns + 1))
    return prefills
