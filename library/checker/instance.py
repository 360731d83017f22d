"""Instances (docs/formats.md), and how long a batch lasts (docs/semantics.md)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from library.checker.files import (
    Bad,
    Box,
    check,
    headed,
    integer,
    limit,
    number,
    one_of,
    optional,
    ratio,
    shaped,
    switch,
    text,
)

WORK = ("tokens", "generated", "decode_requests", "prefill_requests", "decode_kv", "prefill_kv", "prefill_pairs")
SWAPS = ("swap_out_tokens", "swap_in_tokens", "swap_outs", "swap_ins")
COEFFICIENTS = ("busy", "any_decode", "any_prefill", *WORK, *SWAPS)
BATCH = {"tokens": "batch_tokens", "prefill_tokens": "prefill_tokens", "requests": "batch_requests"}
RESOURCES = ("device", "host", *BATCH)
cost_function = {
    "divisor": (integer(1), 1),
    "tokens_above": (optional({"knee": number, "coefficient": number}), None),
    **dict.fromkeys(COEFFICIENTS, (number, 0)),
}
layout = {"state": (number, 0), "groups": ([{"weight": (integer(1), 1), "window": (limit, None)}], [])}
machine = {
    "memory": limit, "block": (integer(1), 1), "host_memory": (optional(number), 0),
    **dict.fromkeys(BATCH.values(), (limit, None)), "hybrid": (switch, True), "chunked": (switch, True),
    "evict": (switch, False), "partial": (switch, False), "pause": (switch, True), "same_batch": (switch, True),
    "drop_and_work": (switch, False),
    "layout": (optional(layout), None),
}  # fmt: skip
handling = one_of("preserve", "discard", "swap", "free")
call = {"duration": number, "returns": (number, 0), "handling": (handling, "free")}
slo = dict.fromkeys(("ttft", "latency"), (optional(number), None))
slo |= dict.fromkeys(("tpot", "normalized_latency"), (optional(ratio), None))
request = {
    "id": text, "arrival": (number, 0), "prompt": integer(1), "weight": (integer(1), 1), "max_new": (limit, None),
    "slo_class": (optional(text), None),
    "slo": (optional(slo), None), "segments": [{"decode": integer(1), "call": (optional(call), None)}],
    "path": (optional(check(lambda value: isinstance(value, list) and len(value) == 2, "a node and its blocks")), None),
}  # fmt: skip
shared_node = {"id": text, "parent": (optional(text), None), "blocks": integer(1)}
instance_file = headed("instance") | {
    "version": (one_of(1, 2), 1), "contents": ([shared_node], []),
    "name": (text, "instance"), "tick_seconds": (ratio, 1), "machine": machine,
    "cost": ([cost_function], [{"busy": 1}]), "requests": [request],
    "coarsening": (lambda value, where: value, None),  # where it is from, which nothing here depends on
}  # fmt: skip


def read_instance(data: Any) -> Box:
    """The instance with all defaults written out."""
    instance = shaped(data, instance_file, "instance")
    memory, block = instance.machine.memory, instance.machine.block
    if not (instance.cost and instance.requests):
        raise Bad("an instance has a cost function and a request")
    if len({one.id for one in instance.requests}) < len(instance.requests):
        raise Bad("two requests have the same id")
    for one in instance.requests:
        if not one.segments or any((each.call is None) != (each is one.segments[-1]) for each in one.segments):
            raise Bad(f"{one.id}: every segment but the last ends with a call")
        if memory is not None and occupied(peak(one), instance.machine) > memory // block:
            raise Bad(f"{one.id} can never fit: its peak of {peak(one)} tokens is above the memory")
    layout = instance.machine.layout
    if layout and (instance.machine.partial or instance.contents or not (layout.state or layout.groups)):
        raise Bad("a layout occupies memory, and goes with neither partial moves nor contents")
    read_contents(instance)
    return instance


def read_contents(instance: Box) -> None:
    """Refuse contents but in their one spelling; note the nodes of each path, with its blocks there, as `parts`."""
    nodes = {node.id: node for node in instance.contents}
    most = dict.fromkeys(nodes, 0)
    first_use: dict[str, None] = {}
    for one in instance.requests:
        one["parts"] = []
        id, k = one.path or (None, 0)
        while id is not None:
            if id not in nodes or type(k) is not int or not 1 <= k <= nodes[id].blocks or len(one.parts) > len(nodes):
                raise Bad(f"{one.id}: its path takes no {k!r} blocks of node {id!r}")
            one.parts.insert(0, (id, k))
            most[id] = max(most[id], k)
            id = nodes[id].parent
            k = nodes[id].blocks if id in nodes else 0
        first_use |= dict.fromkeys(id for id, _ in one.parts)
        if sum(k for _, k in one.parts) * instance.machine.block > peak(one):
            raise Bad(f"{one.id}: its path is longer than its peak")
    parents = [node.parent for node in instance.contents]
    spelled = [node.id for node in instance.contents] == [*first_use]
    spelled &= all(most[id] == node.blocks and parents.count(id) != 1 for id, node in nodes.items())
    if not spelled or instance.version != 1 + bool(nodes) or not (nodes or instance.machine.same_batch):
        raise Bad("contents are not in their one spelling, in which kvbound writes them")


def limits_of(machine: Box) -> dict[str, int | None]:
    """How much there is of each of RESOURCES in a batch; None: no limit."""
    device = None if machine.memory is None else machine.memory // machine.block
    return {"device": device, "host": machine.host_memory} | {name: machine[key] for name, key in BATCH.items()}


def blocks(tokens: int, block: int) -> int:
    """The blocks that tokens take."""
    return -(-tokens // block)


def occupied(tokens: int, machine: Box, block: int | None = None) -> int:
    """The blocks (by default the machine's) that a request's tokens occupy."""
    layout, block = machine.layout, block or machine.block
    if not layout:
        return blocks(tokens, block)
    kept = (min(tokens, tokens if group.window is None else group.window) for group in layout.groups)
    each = zip(kept, layout.groups, strict=True)
    return layout.state * (tokens > 0) + sum(group.weight * blocks(most, block) for most, group in each)


def hosted(tokens: int, machine: Box) -> int:
    """The host's tokens that a request's tokens there occupy."""
    state = machine.layout.state * (machine.block - 1) if machine.layout and tokens else 0
    return occupied(tokens, machine, 1) + state


def output(one: Box) -> int:
    """How many tokens a request generates."""
    return sum(segment.decode for segment in one.segments)


def peak(one: Box) -> int:
    """The most tokens that a request holds."""
    return one.prompt + output(one) + sum(segment.call.returns for segment in one.segments[:-1]) - 1


def prefill_budget(machine: Box) -> int | None:
    """The most prefill tokens of a batch; None: no limit."""
    return machine.batch_tokens if machine.prefill_tokens is None else machine.prefill_tokens


ONLY_GIVEN: dict[str, Any] = {"max_new": None, "slo_class": None, "path": None, "same_batch": True, "contents": [],
                              "drop_and_work": False, "layout": None}  # fmt: skip


def given(each: Box) -> Box:
    """The keys of a file: those of ONLY_GIVEN, where they do not say the usual."""
    return Box(
        (key, value)
        for key, value in each.items()
        if key not in ("parts", "prefix") and value != ONLY_GIVEN.get(key, ...)
    )


def sha256(instance: Box) -> str:
    """The hash of the canonical JSON (docs/formats.md)."""
    machine, *ones = map(given, (instance.machine, *instance.requests))
    whole = Box(given(instance), machine=machine, requests=ones)
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def duration(cost: list[Box], features: dict[str, int]) -> int:
    """How many ticks a batch of these features lasts."""
    longest = 1
    for function in cost:
        value = sum(function[name] * features.get(name, 0) for name in COEFFICIENTS)
        if over := function.tokens_above:
            value += over.coefficient * max(0, features.get("tokens", 0) - over.knee)
        longest = max(longest, -(-value // function.divisor))
    return longest


def most_prefill(machine: Box) -> int | None:
    """P: the most prefill tokens of one request in a batch; None: no limit, since one batch takes all."""
    return prefill_budget(machine) if machine.chunked else None


def but_id(one: Box) -> str:
    """The same text for requests that are alike: they may differ in their ids only."""
    return json.dumps(dict(one, id=""), default=str)


def always_one_tick(cost: list[Box]) -> bool:
    """Whether no batch lasts longer than a tick."""
    fixed = ("busy", "any_decode", "any_prefill")
    return all(
        sum(function[name] for name in fixed) <= function.divisor
        and not any(function[name] for name in COEFFICIENTS if name not in fixed)
        and not (function.tokens_above and function.tokens_above.coefficient)
        for function in cost
    )
