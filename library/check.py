"""Check a schedule or a certificate of kvbound without kvbound: one file, the standard library, exact numbers.

    python library/check.py INSTANCE.json SCHEDULE.json       execute it; print its objectives, or the first broken rule
    python library/check.py INSTANCE.json CERTIFICATE.json    recompute its bound
    python library/check.py --all library/                    every record of the library

Files may end in .gz. Exit code 0: valid; 1: a rule is broken, or a claim is not proved; 2: no such file, or bad input.

It is written from the documentation (docs/semantics.md, formats.md, certificates.md, bounds.md, configurations.md, the
heads of alone.py, evictions.py, events.py, potentials.py in kvcore/certificates), whose symbols it uses, and shares no
code with kvbound, so that an error in one is no error in the other. It checks the kinds, fields and objectives that
certificates of the library have (`KINDS`), and says of others that it does not. It is slow: a search (`events`,
`slots`) has a budget of its own, and where that is spent the answer is "not checked". It rounds on the way by 2^-64 at
most: it may prove more than kvbound, which rounds more; less only by that rounding of shares. An instance that
no schedule can serve is taken: each schedule of it breaks a rule, and each bound of it is true.

What is above a limit `MOST_..` is "not checked", whatever it claims: files (unpacked) of 128 MiB or 10^7 values, for
bounds 5 * 10^6 output tokens, 2^18 slots of `prices`, and for each schedule or certificate `MOST_STEPS`: at most an
hour, and some GB. What a file asks for is counted before it is done.
"""

# Made of library/checker/ by `python -m docs.make`: edit it there.

from __future__ import annotations

import gzip
import hashlib
import heapq
import json
import re
import sys
import zlib
from array import array
from bisect import bisect, bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from fractions import Fraction
from functools import cache, lru_cache
from itertools import accumulate, combinations, groupby, product
from math import ceil, inf, lcm
from operator import add, le, mul, neg, sub
from pathlib import Path
from typing import Any, NamedTuple

# --- Errors, the budget of steps, and files: their JSON and the shapes of what is in it (docs/formats.md). ------------


def one_line(text: str) -> str:
    """At most 400 letters of a text, with a question mark for what a terminal may obey."""
    text = " ".join(text[:2000].split())
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:400]


class Bad(Exception):
    """The input is not what docs/formats.md asks for: exit code 2."""

    def __init__(self, detail: str) -> None:
        super().__init__(one_line(detail))


class Broken(Exception):
    """A rule is broken, or a claim is not proved: exit code 1."""

    def __init__(
        self, detail: str, rule: int | None = None, batch: int | None = None, request: str | None = None
    ) -> None:
        where = f", request {request}: " if request else ": "
        said = detail if rule is None else f"rule R{rule} is broken in batch {batch}{where}{detail}"
        super().__init__(one_line(said))
        self.rule, self.batch = rule, batch


class NotChecked(Broken):
    """The claim may be true, but this file cannot say."""


class Box(dict[str, Any]):
    """An object of a file; its keys are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        """What is at a key."""
        return self[name]


Shape = Callable[[Any, str], Any]
Amount = int | Fraction
MOST_BYTES, MOST_VALUES, MOST_TOKENS = 2**27, 10**7, 5 * 10**6
MOST_STEPS = 5 * 10**9  # of about 0.1 microseconds, or of 10 bytes
MOST_TRIED = 2 * 10**7  # batches that are tried in one search: some ten minutes
ONE = 2**64
spent = [0]


def spend(steps: int, what: str) -> None:
    """Count what is about to be done for one schedule or certificate."""
    spent[0] += steps
    if spent[0] > MOST_STEPS:
        raise NotChecked(f"{what} would take more than the {MOST_STEPS} steps that are taken")


def shaped(value: Any, shape: Any, where: str) -> Any:
    """What a value of a file means, if it has a shape.

    A shape is a check; [shape] of a list; {str: shape} of a map; else the keys of an object and what is at them:
    a shape, or (shape, default) of what may be left out.
    """
    if callable(shape):
        return shape(value, where)
    if not isinstance(value, type(shape)):
        raise Bad(f"{where}: give {'a list' if isinstance(shape, list) else 'an object'}")
    if isinstance(shape, list):
        return [shaped(item, shape[0], f"{where}[{index}]") for index, item in enumerate(value)]
    if str in shape:
        return {key: shaped(item, shape[str], f"{where}.{key}") for key, item in value.items()}
    if value.keys() - shape.keys():
        raise Bad(f"{where}: give no other keys than {', '.join(shape)}")
    result = Box()
    for key, inner in shape.items():
        inner, *default = inner if isinstance(inner, tuple) else (inner,)
        if key not in value and not default:
            raise Bad(f"{where}: {key} is missing")
        result[key] = shaped(value.get(key, *default), inner, f"{where}.{key}")
    return result


def check(test: Callable[[Any], object], what: str) -> Shape:
    """The shape of a value that passes a test."""

    def checked(value: Any, where: str) -> Any:
        if not test(value):
            raise Bad(f"{where}: give {what} (it is {value!r})")
        return value

    return checked


def integer(least: float, most: int = 10**15) -> Shape:
    """The shape of a whole number."""
    return check(lambda value: type(value) is int and least <= value <= most, f"an integer from {least} to {most}")


def one_of(*values: object) -> Shape:
    """The shape of one of some values."""
    return check(lambda value: (type(value), value) in [(type(known), known) for known in values], f"one of {values}")


def optional(shape: Any) -> Shape:
    """The shape of a value or null."""
    return lambda value, where: None if value is None else shaped(value, shape, where)


def headed(kind: str) -> dict[str, Any]:
    """The keys with which a file begins."""
    return {"format": (one_of(f"kvbound-{kind}"), f"kvbound-{kind}"), "version": (one_of(1), 1)}


def ratio(value: Any, where: str) -> Fraction:
    """A fraction, as text or as a whole number."""
    return claim(str(value) if type(value) is int else value, where)


def claim(value: Any, where: str) -> Fraction:
    """A fraction in text."""
    if isinstance(value, str) and len(value) <= 400 and re.fullmatch("-?[0-9]+(/0*[1-9][0-9]*)?", value):
        return Fraction(value)
    raise Bad(f"{where}: give a whole number, or a fraction in text (it is {value!r})")


text = check(
    lambda value: isinstance(value, str) and len(value) <= 200 and value.isprintable(),
    "a text of 200 letters at most on one line",
)
switch, limit, number = one_of(True, False), optional(integer(1)), integer(0)


def load(path: str | Path) -> Any:
    """What a file of JSON holds."""
    try:
        with (gzip.open if str(path).endswith(".gz") else open)(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES or sum(map(data.count, (b",", b":", b"[", b"{"))) > MOST_VALUES:
            raise NotChecked(f"{path}: more than {MOST_BYTES} bytes or {MOST_VALUES} values are not read")
        return json.loads(data.decode("utf-8"), object_pairs_hook=once, parse_constant=refused)
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise Bad(f"{path}: {error}") from None


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys differ."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return dict(pairs)


def refused(constant: str) -> Any:
    """Refuse what is no number, as NaN."""
    raise ValueError(f"{constant} is not a number that a file may hold")


# --- Instances (docs/formats.md), and how long a batch lasts (docs/semantics.md). -------------------------------------


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


# --- The values of schedules (docs/semantics.md). ---------------------------------------------------------------------


Times = list[tuple[int, int]]  # of the first and the last token of each request, after its arrival
RATES: dict[
    str, Callable[[Box], Amount]
] = {  # what a tick adds to a sum, from the arrival to the last token (to the first, for total-ttft)
    "total-flow-time": lambda one: 1,
    "weighted-flow-time": lambda one: one.weight,
    "total-ttft": lambda one: 1,
    "normalized-latency": lambda one: Fraction(1, output(one)),
}
MOST_OF = {"total-ttft": 1}  # tokens of a request that matter
AVERAGES = ("normalized-latency",)  # whose values may be fractions
PLAIN = ("makespan", "busy-time", "max-flow-time", "late-requests")  # those that are no sums
OBJECTIVES = (*PLAIN, *RATES)
TAILS = ("p99-flow-time", "p99-ttft")
TAIL = "pNN-flow-time or pNN-ttft"


def is_late(one: Box, first: int, last: int) -> bool:
    """Whether a request exceeds any SLO: `first` and `last` are its TTFT and its latency."""
    limits, o = one.slo or {}, output(one)
    tpot = Fraction(last - first, o - 1) if o > 1 else 0
    spans = {"ttft": first, "latency": last, "normalized_latency": Fraction(last, o), "tpot": tpot}
    return any(limits.get(name) is not None and span > limits[name] for name, span in spans.items())


def by_objective(ones: list[Box], times: Times, busy: int) -> dict[str, Amount]:
    """The value of every objective, from the first and last token of each request, after its arrival."""
    firsts, lasts = zip(*times, strict=True)
    return {
        "makespan": max(one.arrival + last for one, last in zip(ones, lasts, strict=True)),
        "busy-time": busy,
        "max-flow-time": max(lasts),
        "late-requests": sum(is_late(one, *both) for one, both in zip(ones, times, strict=True)),
    } | {
        name: sum(map(mul, map(rate, ones), firsts if name == "total-ttft" else lasts)) for name, rate in RATES.items()
    }


def rates_of(instance: Box, objective: str) -> tuple[list[int], int]:
    """What a tick of each request adds to a sum, in parts of its unit, and how many of them one is."""
    rates = [Fraction(RATES[objective](one)) for one in instance.requests]
    unit = lcm(*(rate.denominator for rate in rates))
    return [int(unit * rate) for rate in rates], unit


def tail_of(objective: str) -> Any:
    """The percent and the time that a percentile is of, or None."""
    return re.fullmatch("p([1-9][0-9]?)-(flow-time|ttft)", objective)


def spared(objective: str, n: int) -> int:
    """How many of n requests may take longer than the percentile: it is the least time for which no more do."""
    return n * (100 - int(tail_of(objective)[1])) // 100


def percentile(objective: str, times: Times) -> int:
    """The percentile of the first or last tokens, after the arrivals."""
    firsts, lasts = zip(*times, strict=True)
    return sorted(firsts if tail_of(objective)[2] == "ttft" else lasts, reverse=True)[spared(objective, len(times))]


# --- The least that a request needs (docs/bounds.md, Shares of time). -------------------------------------------------


class Token(NamedTuple):
    """An output token: A tokens resident when it comes; low to own of them since the one before, `wait` ticks ago.

    Work for a first token counts from `free` on. `lead` blocks are others'.
    """

    A: int
    own: int
    low: int
    wait: int
    free: int | None
    lead: int


Line = Mapping[str, Amount]
Job = tuple[Amount, Amount, Amount, int]


def tokens_of(one: Box, machine: Box) -> list[Token]:
    """The output tokens of a request, in order."""
    b = machine.block
    spend(20 * output(one), "its tokens")
    result, before, A, kept, wait = list[Token](), 0, one.prompt, 0, 0
    prefix = one.get("prefix") or Box(path=0, others=0, earlier=0, free=0)
    drops = machine.evict or any(segment.call.handling in ("discard", "free") for segment in one.segments[:-1])
    for segment in one.segments:
        for _ in range(segment.decode):
            hit = max(min(prefix.path, before), min(prefix.others, A - 1))
            own, low, free = max(kept, hit // b * b), 0 if drops else kept, None if result else prefix.free
            result.append(Token(A, own, low, wait, free, prefix.earlier // b))
            before, A, kept, wait = A, A + 1, A, 0
        if after := segment.call:
            A, wait = A + after.returns, after.duration
            kept = 0 if after.handling == "discard" else kept
    return result


def lines_of(cost: list[Box]) -> Iterator[dict[str, Fraction]]:
    """The lines of each cost function, as prices: `base` of a batch, `prefill` of one with a prefill, and of work."""
    for function in cost:
        q, over = function.divisor, function.tokens_above
        base = function.busy + min(function.any_decode, function.any_prefill)
        line = {name: Fraction(function[name], q) for name in WORK}
        line |= {"base": Fraction(base, q), "prefill": Fraction(max(0, function.any_prefill - function.any_decode), q)}
        yield line
        if over and over.coefficient:
            fixed = over.knee * over.coefficient
            x = Fraction(1) if base >= fixed else Fraction(base, fixed)
            yield line | {"base": (base - x * fixed) / q, "tokens": line["tokens"] + x * over.coefficient / q}
    yield dict.fromkeys((*WORK, "prefill"), Fraction(0)) | {"base": Fraction(1)}


class Tariff:
    """What work costs: prices of what is done, of a `batch`, of `prefill` and a `block` of KV in it, of `packed`."""

    def __init__(self, machine: Box, prices: Line, packs: int = 1) -> None:
        self.machine, self.P, self.packs = machine, most_prefill(machine), packs
        given = {name: Fraction(price) for name, price in prices.items() if price and name not in ("base", "packed")}
        self.unit = lcm(*(price.denominator for price in given.values()))
        self.prices = {name: int(price * self.unit) for name, price in given.items()}  # so that ways are whole numbers
        self.packed, self.least = Fraction(prices.get("packed", 0)), cache(self.cheapest)

    def cheapest(self, token: Token) -> Fraction:
        """The least that the work for a token costs, over all ways to generate it."""
        spend(50, "what tokens cost")
        return Fraction(min(self.ways(token)), self.unit) + self.packing(token)

    def last(self, token: Token) -> Fraction:
        """The least that the one batch costs which generates a token: a decode, or a prefill of all from m on."""
        A, block = token.A, self.held(token, token.A)
        ways = [{"tokens": 1, "decode_requests": 1, "decode_kv": A - 1}]
        if token.low < A - 1:  # KV may have been dropped, or there is more than one token to process
            refill = {"prefill": 1, "prefill_requests": 1}
            amounts = ({"tokens": A - m, "prefill_token": A - m, "prefill_kv": m} for m in (0, A - 2))
            ways += [refill | each | {"prefill_pairs": A * A - each["prefill_kv"] ** 2} for each in amounts]
        least = min(sum(price * way.get(name, 0) for name, price in self.prices.items()) for way in ways)
        each = sum(self.prices.get(name, 0) * amount for name, amount in (("generated", 1), ("block", block)))
        return Fraction(least + each, self.unit) + self.packing(token)

    def held(self, token: Token, tokens: int, times: int = 1) -> int:
        """Its own blocks, at least, for tokens in several batches together."""
        return max(0, occupied(tokens, self.machine) - token.lead * times)

    def packing(self, token: Token) -> Fraction:
        """The price of the memory of its last batch by the dual feasible function u."""
        if not self.packed:
            return Fraction(0)
        k, x = self.packs, Fraction(self.held(token, token.A), self.machine.memory // self.machine.block)
        return self.packed * (x if ((k + 1) * x).denominator == 1 else Fraction((k + 1) * x // 1, k))

    def ways(self, token: Token) -> Iterator[int]:
        """The costs to generate a token by a decode (1) or by a prefill (0), from s tokens of KV on."""
        P, chunked, partial = self.P, self.machine.chunked, self.machine.partial
        A, own, low, free = token.A, token.own, token.low, token.free
        for decodes in (1, 0):
            end = A - decodes  # where the prefills end
            if free is not None:
                starts = {free} if not decodes or (chunked and A > 1) or own == end > 0 else ()
            elif decodes:
                starts = {s for s in (low, own) if s == end or chunked} if A > 1 else ()
            else:
                most = min(own, A - 2) if partial else own
                starts = {s for s in (low, most) if low <= s and (s == 0 or s <= A - 2)}
            for s in starts:
                count = -(-(end - own) // P) if P else int(end > own)  # prefills
                count = count if decodes else max(1, count)
                n = count - (not decodes)  # prefills before the last batch, and the KV after each of them, summed
                held = n * end - (P or 0) * n * (n - 1 + 2 * (not decodes)) // 2
                last = end if decodes and count else 0  # what the last prefill before a decode holds
                rest = self.held(token, held - last, n - (last > 0))
                amounts = {
                    "generated": 1, "batch": count + decodes, "tokens": A - s, "decode_requests": decodes,
                    "decode_kv": decodes * end, "prefill": count, "prefill_requests": count, "prefill_token": end - s,
                    "prefill_kv": s * (end > s) * (free is None), "prefill_pairs": end**2 - s**2,
                    "block": self.held(token, A) + self.held(token, last) + rest,
                }  # fmt: skip
                yield sum(price * amounts[name] for name, price in self.prices.items())


def ticks_of(instance: Box) -> Callable[[Token], int]:
    """d, by token: the least total duration of the batches in which a request works for it."""
    batches = Tariff(instance.machine, {"batch": 1}).least
    lines = [(line["base"], Tariff(instance.machine, line).least) for line in lines_of(instance.cost)]
    return cache(lambda token: max(ceil(base * batches(token) + least(token)) for base, least in lines))


class Work:
    """Of (`most`) tokens of a request: d, what `ticks` counts; release and tail in such; share, by a tariff."""

    def __init__(
        self, one: Box, machine: Box, ticks: Any, shares: Any, most: int | None = None, calls: bool = True
    ) -> None:
        self.one, self.tokens = one, tokens_of(one, machine)[:most]
        self.d: list[int] = [*map(ticks, self.tokens)]
        self.share: list[Fraction] = [*map(shares, self.tokens)]
        ends = list(accumulate(d + token.wait * calls for d, token in zip(self.d, self.tokens, strict=True)))
        self.chain, self.release = ends[-1], list(map(sub, ends, self.d))
        self.tail = [self.chain - end for end in ends]


def least_step(instance: Box) -> int:
    """e: ticks that every batch with work lasts: one decode on the least KV, or the first token of a prefill."""
    shortest = min(one.prompt for one in instance.requests)
    decode = {"any_decode": 1, "decode_requests": 1, "generated": 1}
    decode["decode_kv"] = max(1, shortest - (instance.machine.chunked or bool(instance.contents)))
    prefill = {"any_prefill": 1, "prefill_requests": 1, "prefill_pairs": 1}
    return min(duration(instance.cost, {"busy": 1, "tokens": 1, **work}) for work in (decode, prefill))


def served(jobs: Collection[Job]) -> Iterator[tuple[Amount, int, int, int, int]]:
    """What one machine that may interrupt works on, the lowest rank first: (rank, owner, from, to, unit) by piece.

    Jobs are (release, work, rank, owner); from and to are whole numbers of 1 / unit.
    """
    unit, ready, now = lcm(*{job[1].denominator for job in jobs}), list[Any](), 0
    waiting = sorted((int(release * unit), int(work * unit), rank, owner) for release, work, rank, owner in jobs)
    waiting.reverse()
    while waiting or ready:
        now = now if ready else max(now, waiting[-1][0])
        while waiting and waiting[-1][0] <= now:
            _, work, rank, owner = waiting.pop()
            heapq.heappush(ready, [rank, owner, -len(waiting), work])
        rank, owner, _, left = ready[0]
        step = min(left, waiting[-1][0] - now) if waiting else left
        yield rank, owner, now, now + step, unit
        now += step
        ready[0][3] -= step
        if not ready[0][3]:
            heapq.heappop(ready)


def fresh_tokens(one: Box, most: int | None = None) -> list[tuple[int, int]]:
    """Of (`most`) output tokens of a request, the tokens processed for it for the first time, and the call after it."""
    tokens = tokens_of(one, Box(block=1, evict=False))[:most]
    befores, waits = [0, *(token.A for token in tokens)], [*(token.wait for token in tokens[1:]), 0]
    return [(token.A - before, wait) for before, token, wait in zip(befores, tokens, waits, strict=False)]


# --- Kind `alone` (the head of kvcore/certificates/alone.py). ---------------------------------------------------------


def alone(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `alone`: each request takes its own batches, each of least duration, its whole prompt, and its calls."""
    step, P = least_step(instance), most_prefill(instance.machine)
    smooth = [Box(function, tokens_above=None) for function in instance.cost]
    busy, times = [], []
    for one in instance.requests:
        tokens = tokens_of(one, instance.machine)
        free = tokens[0].free or 0
        batches = [blocks(token.A - token.own, P) if P else 1 for token in tokens]
        whole = {"busy": 1, "generated": 1, "tokens": one.prompt - free}
        if one.prompt - free != 1 or not free:  # else it may be a decode
            whole |= {"any_prefill": 1, "prefill_requests": 1, "prefill_pairs": max(1, (one.prompt - 1) ** 2 - free**2)}
        first = max(batches[0] * step, duration(smooth, whole))
        times.append((first, first + step * sum(batches[1:]) + sum(token.wait for token in tokens)))
        busy.append(step * sum(batches))
    if tail_of(objective):
        return percentile(objective, times)
    return by_objective(instance.requests, times, max(busy))[objective]


# --- Kind `configurations` (docs/configurations.md, The network of configurations). -----------------------------------


Running = tuple[int, ...]
Kind = tuple[Running, int, int]  # what it loads, tick by tick; its release; its prompt
Kinds = dict[Kind, list[Any]]  # the price of a start, and how many there are


def configurations(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `configurations`: prices of starts and of memory, in a network of what can run together at a tick."""
    machine, ones, scale, memory = instance.machine, instance.requests, proof.scale, proof.memory
    start, block = min(one.arrival for one in ones), machine.block
    free = not machine.hybrid or machine.chunked or machine.evict or machine.pause
    if not always_one_tick(instance.cost) or any(len(one.segments) > 1 for one in ones) or free or (
        prefill_budget(machine) and any(one.arrival != start for one in ones)
    ):  # fmt: skip
        raise Broken("its schedules are not start times")
    if len(proof.starts) != len(ones):
        raise Broken("starts: give a price for each request, or null")
    spend(40 * sum(output(one) ** 2 for one in ones), "its loads")
    spend(len(ones) * (len(memory) + 1) * (1 + min(len(memory), max(map(output, ones)))), "its starts")
    kinds: Kinds = {}
    for one, y in zip(ones, proof.starts, strict=True):
        load = tuple(blocks(one.prompt + q, block) for q in range(output(one)))
        kind = (load, one.arrival - start, one.prompt)
        if kinds.setdefault(kind, [y, 0])[0] != y:
            raise Broken("requests that are alike have different prices")
        kinds[kind][1] += 1
    M = machine.memory // block if machine.memory else sum(kind[0][-1] * count for kind, (_, count) in kinds.items())
    total = -M * sum(memory)
    for kind, (y, count) in kinds.items():
        total += count * (cheapest_start(kind, kind[1], scale, memory) if y is None else y)
    inside = {kind: known for kind, known in kinds.items() if known[0] is not None}
    if proof.target is None:
        return Fraction(total + cheapest_path(inside, scale, memory, M)[0], scale)
    search_starts(kinds, inside, scale, memory, M, proof.target)
    return Fraction(proof.target)


def search_starts(kinds: Kinds, inside: Kinds, scale: int, memory: list[int], M: int, target: int) -> None:
    """Broken if all requests can start below the target, each once; `tries` is not believed, so not looked at.

    A state: what is held from now on, and how many of each kind are left, with the least g, and what runs of those
    inside. One is dropped if the bound of docs/configurations.md (The search) is not below the target.
    """
    known = [(kind, y, count) for kind, (y, count) in kinds.items()]
    layers: dict[int, list[int]] = {}
    _, loads, place = cheapest_path(inside, scale, memory, M, layers)
    number, longest = {load: e for e, load in enumerate(loads)}, max(len(kind[0]) for kind in kinds)
    spend(len(memory) ** 2, "its memory")
    supply = [M * sum(memory[t:]) for t in range(len(memory) + 1)]
    goal, tried = (target - 1) * scale, 0

    @cache
    def later(k: int, t: int) -> int:
        kind, y, _ = known[k]
        spend((len(memory) + 1) * (1 + min(len(memory), len(kind[0]))), "its starts")
        least = cheapest_start(kind, max(t, kind[1]), scale, memory) - (y or 0)
        return least if y is None else max(0, least)

    def bound(t: int, g: int, running: Running, left: Running, held: Running) -> int:
        if not any(left):
            return g
        g += sum(n * later(k, t) for k, n in enumerate(left) if n)
        g += sum(map(mul, memory[t:], held)) - supply[min(t, len(memory))]
        return g + (layers[t][place[running]] if t in layers else 0)

    every = sum(y * count for _, y, count in known if y is not None)
    t, layer = 0, {((0,) * longest, tuple(count for _, _, count in known)): (every, Running())}
    while layer:
        following: dict[tuple[Running, Running], tuple[int, Running]] = {}
        for (held, left), (g, running) in layer.items():
            sets = [(held, left, g, running, 0)]
            for holds, rest, cost, now, first in sets:  # in each, one more starts, of the same kind or a later one
                tried += 1
                spend(10 * longest + len(held), "its search")
                if tried > MOST_TRIED:
                    raise NotChecked(f"more than {MOST_TRIED} starts are not tried")
                if bound(t, cost, now, rest, holds) > goal:
                    continue
                if not any(rest):
                    raise Broken(f"all requests can start below {target}")
                after, to_come = (*holds[1:], 0), tuple(number[loads[e][1:]] for e in now if loads[e][1:])
                if bound(t + 1, cost, to_come, rest, after) <= goal:
                    following[after, rest] = min((cost, to_come), following.get((after, rest), (cost, to_come)))
                for k in range(first, len(known)):
                    kind, y, _ = known[k]
                    more = now if y is None else tuple(sorted((*now, number[kind[0]]), reverse=True))
                    taken = tuple(map(add, holds, kind[0] + (0,) * longest))
                    if rest[k] and t >= kind[1] and max(taken) <= M and more in place:
                        less = (*rest[:k], rest[k] - 1, *rest[k + 1 :])
                        paid = scale * (t + len(kind[0]) - kind[1]) - (y or 0)
                        sets.append((taken, less, cost + paid, more, k))
        layer, t = following, t + 1


def start_cost(kind: Kind, t: int, scale: int, memory: list[int]) -> int:
    """What a start at tick t costs, with the memory that it pays for."""
    load, release, _ = kind
    return scale * (t + len(load) - release) + sum(map(mul, memory[t:], load))


def cheapest_start(kind: Kind, first: int, scale: int, memory: list[int]) -> int:
    """What the cheapest start costs from a tick on."""
    return min(start_cost(kind, t, scale, memory) for t in range(first, max(first, len(memory)) + 1))


MOST_CONFIGURATIONS, MOST_STARTS = 3 * 10**6, 10**5  # about two minutes and 2 GB


def cheapest_path(
    kinds: Kinds, scale: int, memory: list[int], M: int, layers: dict[int, list[int]] | None = None
) -> tuple[int, list[Running], dict[Running, int]]:
    """The cheapest path from the empty configuration to itself, less the prices of starts; from the last tick back.

    Also the loads, and the places of configurations; `layers`, if given, gets what paths from them cost, by tick.

    Starts that cost no less than their price lower no path, so of each kind there is a last tick with starts. So that
    no more configurations are looked at than those that starts up to then can make, the last of them come last.
    """
    loads, found = network(kinds, M)
    number, until, costs = {load: e for e, load in enumerate(loads)}, [-1] * len(loads), {}
    for kind, (y, _) in kinds.items():
        load, release, _ = kind
        ticks = range(release, y // scale + release - len(load) + 1)
        if len(ticks) > MOST_STARTS:
            raise NotChecked(f"starts at {len(ticks)} ticks are not looked at")
        spend(len(ticks) * (1 + min(len(load), len(memory))), "its starts")
        costs[kind] = {t: cost for t in ticks if (cost := start_cost(kind, t, scale, memory) - y) < 0}
        for q in range(len(load) if costs[kind] else 0):
            until[number[load[q:]]] = max(until[number[load[q:]]], max(costs[kind]) + q)
    found.sort(key=lambda running: -min((until[e] for e in running), default=inf))  # parts of one stay before it
    ends = [-min((until[e] for e in running), default=inf) for running in found]
    end = max(map(max, filter(None, costs.values())), default=-1) + 1
    place = {running: i for i, running in enumerate(found)}
    later = [place[tuple(number[loads[e][1:]] for e in running if loads[e][1:])] for running in found]
    starts: dict[int, list[tuple[int, int]]] = {number[kind[0]]: [] for kind in kinds}  # places with it, and without
    for i, running in enumerate(found):
        for e in starts.keys() & running:
            k = running.index(e)
            starts[e].append((i, place[running[:k] + running[k + 1 :]]))
    least = [0] * len(found)  # of what follows
    for t in reversed(range(end)):
        size = bisect(ends, -t) if layers is None else len(found)
        spend((1 if layers is None else 10) * size, "its configurations")
        least = list(map(least.__getitem__, later[:size]))
        for kind, (_, count) in kinds.items():
            if cost := costs[kind].get(t):
                pairs = starts[number[kind[0]]]
                for more, fewer in pairs[: bisect(pairs, (size,))] * count:  # in each round one more starts, or none
                    if least[more] + cost < least[fewer]:
                        least[fewer] = least[more] + cost  # `more` is as in the round before: it comes later
        if layers is not None:
            layers[t] = least
    return least[0], loads, place


def network(kinds: Kinds, M: int) -> tuple[list[Running], list[Running]]:
    """Loads to come of an element, and all configurations of their numbers, the last to end first; small ones first."""
    alike, found = Counter[int](), [Running()]
    every = set[Running]()
    for (load, *_), (_, count) in kinds.items():
        alike[load[-1]] += count
        every.update(load[q:] for q in range(len(load)))
    loads = sorted(every, key=lambda load: (len(load), load[::-1]))  # one tick later they are in the same order
    lasting = [list(those) for _, those in groupby(range(len(loads)), lambda e: len(loads[e]))]  # 1, 2, .. ticks
    for running in found:
        if len(found) > MOST_CONFIGURATIONS:
            raise NotChecked(f"more than {MOST_CONFIGURATIONS} configurations are not looked at")
        last = running[-1] if running else len(loads) - 1
        for r in range(len(loads[last]) if loads else 0):  # what ends in r ticks, when it needs the most
            room = M - sum(loads[e][r] for e in running)
            if loads[lasting[r][0]][-1] > room:
                break  # there is less room later
            for e in lasting[r]:
                if e > last or loads[e][-1] > room:
                    break
                if sum(loads[other][-1] == loads[e][-1] for other in running) < alike[loads[e][-1]]:
                    found.append((*running, e))
    return loads, found


# --- The referee (docs/semantics.md). ---------------------------------------------------------------------------------


amounts = {str: check(lambda value: type(value) is int, "an integer")}
MOVES = ("drop", "swap_out", "swap_in")
Option = tuple[int, int, int, int]  # what a batch drops, swaps out, swaps in and processes of a request
WRITTEN = (*MOVES, "forget", "reuse", "work")
batch = {"start": integer(-inf, 10**60), "repeat": (integer(1), 1), **dict.fromkeys(WRITTEN, (amounts, {}))}
schedule_file = headed("schedule") | {"instance_sha256": text, "batches": [batch]}
ORDERED = {"discard": "drop", "swap": "swap_out"}


class State:
    """Where a request is: S tokens known, m on the device, h on the host; its segment; its call."""

    def __init__(self, one: Box) -> None:
        self.one, self.id, self.S, self.m, self.h = one, one.id, one.prompt, 0, 0
        self.segment, self.left, self.generated = 0, one.segments[0].decode, 0
        self.returns_at: int | None = None  # the tick at which the call ends, while it runs
        self.window = ""  # the handling of the last call, until the request next works
        self.due: int | None = None  # after a call that orders a move: the tokens that the next batch is to move
        self.first: int | None = None
        self.done: int | None = None
        self.path = [(node, k) for node, blocks in one.get("parts", ()) for k in range(blocks)]

    def had(self, m: int, block: int) -> list[tuple[str, int]]:
        """The blocks of its path that it holds with m tokens."""
        return self.path[: m // block]

    def private(self, m: int, machine: Box) -> int:
        """How many other blocks it holds with m tokens."""
        return occupied(m, machine) - len(self.had(m, machine.block))

    @property
    def ready(self) -> int:
        """The tick of its arrival, or of the end of its last call."""
        return max(self.one.arrival, self.returns_at or 0)

    def after_call(self, tick: int) -> tuple[int, int | None]:
        """S and the end of the call, None once it has ended, as they are at a tick."""
        if self.returns_at is None or self.returns_at > tick:
            return self.S, self.returns_at
        return self.S + self.one.segments[self.segment - 1].call.returns, None


Amounts = dict[State, int]


class Execution:
    """The machine while a schedule runs; `breach` notes a broken rule, and the batch ends with the lowest of them."""

    def __init__(self, instance: Box) -> None:
        self.cost, self.machine = instance.cost, instance.machine
        for one in instance.requests if instance.contents else ():
            spend(10 * sum(blocks for _, blocks in one.get("parts", ())), "the blocks of paths")
        self.sizes = {node.id: node.blocks for node in instance.contents}
        self.resident: frozenset[tuple[str, int]] = frozenset()  # nodes, and places in them
        self.states = {one.id: State(one) for one in instance.requests}
        self.j = self.clock = self.busy = self.blocks = self.host = 0  # blocks and tokens that all requests hold
        self.joined = False  # whether requests that are not among these may act in its batches, too
        self.calling: list[str] = []  # ids; `due`: of ordered moves, `worked`: of work to go on with
        self.due: list[str] = []
        self.worked: list[str] = []
        self.broken: list[tuple[int, str | None, str]] = []

    def copied(self) -> Execution:
        """One that goes on apart from this one."""
        other = copy(self)
        other.states = {id: copy(state) for id, state in self.states.items()}
        return other  # the lists of ids are replaced in each step before they grow

    def those(self, ids: Iterable[str]) -> list[State]:
        """The states of requests."""
        return [self.states[id] for id in ids]

    def run(self, batches: list[Box]) -> None:
        """Execute batches, until all requests are done."""
        for written in batches:
            each = 1 + len(self.cost) + sum(len(written[what]) for what in ("work", *MOVES))
            spend(50 * written.repeat * each, "its batches")
            self.step(written, written.start)
            for _ in range(written.repeat - 1):
                self.step(Box({what: {} for what in WRITTEN}, work=written.work), self.clock)
        for state in self.states.values():
            if state.done is None:
                raise Broken("it is not done at the end", 11, self.j, state.id)

    def breach(self, rule: int, state: State | None, detail: str) -> None:
        """Note a broken rule."""
        self.broken.append((rule, state.id if state else None, detail))

    def step(self, written: Box, start: int) -> None:
        """Execute one batch."""
        self.broken = []
        spend(len(self.calling) + len(self.due) + len(self.worked), "its batches")
        if start < self.clock:
            self.breach(1, None, f"it starts at {start}, before {self.clock}")
        for state in self.those(self.calling):
            state.S, state.returns_at = state.after_call(start)
        self.calling = [id for id in self.calling if self.states[id].returns_at is not None]
        reuse, forget = written.get("reuse", {}), written.get("forget", {})
        named = (written.work, reuse, *(written[what] for what in MOVES))
        for id in (id for each in named for id in each if id not in self.states):
            self.breach(10, None, f"there is no request {id!r}")
        for id in forget.keys() - self.sizes:
            self.breach(10, None, f"there is no node {id!r}")
        if not (written.work or written.swap_out or written.swap_in or self.joined):
            self.breach(10, None, "it has no work and no transfer")
        work = {self.states[id]: c for id, c in written.work.items() if id in self.states}
        spend(10 * sum(len(state.path) for state in work), "its batches")
        taken, evicted = self.move(written)
        self.reuse({self.states[id]: k for id, k in reuse.items() if id in self.states}, work)
        features = self.work(work, start, taken, evicted)
        if self.broken:
            rule, id, detail = min(self.broken, key=lambda item: item[0])
            raise Broken(detail, rule, self.j, id)
        ticks = duration(self.cost, features)
        self.clock, self.busy, self.j = start + ticks, self.busy + ticks, self.j + 1
        for state in self.those(self.due):
            state.due = None
        self.due, self.worked = [], []
        for state, c in work.items():
            self.grow(state, c)

    def hold(self, state: State, m: int, h: int) -> None:
        """Let a request hold so much KV on the device and on the host."""
        self.blocks += state.private(m, self.machine) - state.private(state.m, self.machine)
        self.host += hosted(h, self.machine) - hosted(state.h, self.machine)
        state.m, state.h = m, h

    def move(self, written: Box) -> tuple[dict[str, Amounts], set[State]]:
        """Make the moves (R8, R9, R10): what each took, by kind and request, and who was evicted."""
        taken: dict[str, Amounts] = {kind: {} for kind in MOVES}
        evicted = set()
        for kind, id in ((what, id) for what in MOVES for id in self.before(what, written) if id in self.states):
            state, asked = self.states[id], written[kind][id]
            there = {"drop": state.m + state.h, "swap_out": state.m, "swap_in": state.h}[kind]
            k = max(0, min(asked, there))
            if asked != k or k < 1:
                self.breach(10, state, f"{kind} of {asked} tokens, there are {there}")
            in_call = state.returns_at is not None
            if kind == "swap_in" and in_call and state.window == "preserve":
                self.breach(9, state, "swap_in during a call that preserves")
            ordered = state.due is not None and ORDERED.get(state.window) == kind
            if kind != "swap_in" and state.window != "free" and not ordered:
                if k and not (kind == "drop" and self.machine.drop_and_work):
                    evicted.add(state)
                if in_call or not self.machine.evict:
                    self.breach(8, state, f"{kind} that neither a call nor evict allows")
            if asked != there and not self.machine.partial:
                self.breach(8, state, f"{kind} of {asked} of {there} tokens without partial")
            if kind == "drop":
                self.hold(state, state.m - max(0, k - state.h), max(0, state.h - k))
            else:
                out = k if kind == "swap_out" else -k
                self.hold(state, state.m - out, state.h + out)
            if kind == "swap_in":
                self.resident |= {*state.had(state.m, self.machine.block)}
            if k:
                taken[kind][state] = k
        for state in self.those(self.due):
            kind = ORDERED[state.window]
            if written[kind].get(state.id) != state.due:
                self.breach(9, state, f"its call orders a {kind} of all {state.due} tokens in this batch")
        return taken, evicted

    def before(self, kind: str, written: Box) -> dict[str, int]:
        """The moves of a kind; the forgets come before the swap_ins."""
        if kind == "swap_in":
            self.forget({id: k for id, k in written.get("forget", {}).items() if id in self.sizes})
        moves: dict[str, int] = written[kind]
        return moves

    def forget(self, moves: dict[str, int]) -> None:
        """R12: what goes is resident and not held, and what stays has the block before it."""
        if not moves:
            return
        spend(10 * (len(self.states) + len(self.resident)), "its forgets")
        for node, k in moves.items():
            there = sorted(block for block in self.resident if block[0] == node)
            if not 1 <= k <= len(there):
                self.breach(12, None, f"forget of {k} blocks of node {node}, there are {len(there)}")
            self.resident -= {*there[max(0, len(there) - max(0, k)) :]}
        for state in self.states.values():
            if not self.resident.issuperset(state.had(state.m, self.machine.block)):
                self.breach(12, None, f"forget of what {state.id} holds")
            stays = [block in self.resident for block in state.path]
            if stays != sorted(stays, reverse=True):
                self.breach(12, None, f"a block on the path of {state.id} stays without the one before it")

    def reuse(self, moves: Amounts, work: Amounts) -> None:
        """R12: whole blocks of the path of one that works, which are there or completed by work."""
        block = self.machine.block
        for state, k in moves.items():
            self.hold(state, state.m + max(0, k), state.h)
        made = {each for state, c in work.items() for each in state.path[state.m // block : (state.m + c) // block]}
        there = self.resident | (made if self.machine.same_batch and moves else set())
        for state, k in moves.items():
            most = min(len(state.path) * block, state.S - 1)
            if state not in work or k < 1 or state.m % block or state.m > most:
                self.breach(12, state, f"reuse of {k} tokens up to {state.m}, of {most} at most")
            elif not there.issuperset(state.had(state.m, block)):
                self.breach(12, state, f"reuse up to {state.m} of what is not there")

    def work(self, work: Amounts, start: int, taken: dict[str, Amounts], evicted: set[State]) -> dict[str, int]:
        """The features of a batch; R2 to R7."""
        machine, block, prefilled, held = self.machine, self.machine.block, 0, self.blocks
        features = dict.fromkeys(COEFFICIENTS, 0)
        for state, c in work.items():
            if state.done is not None or state.returns_at is not None or start < state.one.arrival:
                self.breach(2, state, "it works, but it is done, in a call or has not arrived")
            if not 1 <= c <= state.S - state.m or (c < state.S - state.m and not machine.chunked):
                self.breach(3, state, f"it processes {c} of {state.S - state.m} tokens")
            if state.h or state in evicted:
                self.breach(4, state, "it works, but KV of it is on the host or is evicted in this batch")
            phase = "decode" if state.m > 0 and state.S - state.m == 1 else "prefill"
            features["busy"] = features["any_" + phase] = 1
            features["tokens"] += c
            features["generated"] += state.m + c == state.S
            features[phase + "_requests"] += 1
            features[phase + "_kv"] += state.m
            if phase == "prefill":
                features["prefill_pairs"] += c * c + 2 * c * state.m
                prefilled += c
            held += state.private(state.m + c, machine) - state.private(state.m, machine)
        shared = {each for state, c in work.items() if state.path for each in state.had(state.m + c, block)}
        held += len(self.resident | shared)
        for kind in ("swap_out", "swap_in"):
            features[kind + "_tokens"], features[kind + "s"] = sum(taken[kind].values()), len(taken[kind])
        for name, total in zip(BATCH.values(), (features["tokens"], prefilled, len(work)), strict=True):
            if machine[name] is not None and total > machine[name]:
                self.breach(5, None, f"{total} is above {name} = {machine[name]}")
        if not machine.hybrid and features["any_decode"] and features["any_prefill"]:
            self.breach(5, None, "prefills and decodes share the batch")
        for state in self.those(self.worked if not machine.pause else ()):
            if state not in work and state not in taken["drop"] and state not in taken["swap_out"]:
                self.breach(5, state, "it worked in the batch before and sits out")
        if machine.memory is not None and held > machine.memory // block:
            self.breach(6, None, f"the requests occupy {held} blocks of {block}")
        if machine.host_memory is not None and self.host > machine.host_memory:
            self.breach(7, None, f"the host holds {self.host} tokens")
        return features

    def grow(self, state: State, c: int) -> None:
        """The end of the batch for a request that works."""
        self.hold(state, state.m + c, state.h)
        if state.path:
            self.resident |= {*state.had(state.m, self.machine.block)}
        state.window = ""
        if token := state.m == state.S:
            state.S, state.left, state.generated = state.S + 1, state.left - 1, state.generated + 1
            state.first = self.clock if state.first is None else state.first
        if not token or state.left:
            self.worked.append(state.id)
            return
        after = state.one.segments[state.segment].call
        if after is None:
            state.done = self.clock
            self.hold(state, 0, 0)
            return
        state.segment += 1
        state.left = state.one.segments[state.segment].decode
        state.returns_at, state.window = self.clock + after.duration, after.handling
        self.calling.append(state.id)
        if after.handling in ORDERED:
            state.due = state.m
            self.due.append(state.id)


def verify_schedule(instance: Box, data: Any) -> dict[str, Amount]:
    """The values of a schedule by objective; Broken names the first rule that it breaks."""
    schedule = shaped(data, schedule_file, "schedule")
    if schedule.instance_sha256 != sha256(instance):
        raise Bad("the schedule is for another instance")
    spent[0], execution = 0, Execution(instance)
    execution.run(schedule.batches)
    times = [(state.first - state.one.arrival, state.done - state.one.arrival) for state in execution.states.values()]
    return by_objective(instance.requests, times, execution.busy) | {name: percentile(name, times) for name in TAILS}


# --- Kind `events` (the head of kvcore/certificates/events.py). -------------------------------------------------------


def exhaustive(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `events`: everything that the referee takes, from the states on that may lead to less than the claim.

    What the file says of the search is not looked at.
    """
    check_size(instance, objective)
    return explore(instance, proof, Search(instance, objective))


def check_size(instance: Box, objective: str) -> None:
    """Refuse what the searches do not take."""
    if len(instance.requests) > 32:
        raise NotChecked("more than 32 requests are not searched")
    if objective == "late-requests" and any((one.slo or {}).get("tpot") is not None for one in instance.requests):
        raise NotChecked("with a TPOT, waits that only make the first token late are not searched")


def explore(instance: Box, proof: Box, search: Search) -> Amount:
    """The claim, or the optimum where that is less. Of states waiting, the one of the least bound comes next."""
    first = Execution(instance)
    least = {search.key(first): search.rank(first)}  # of states that are as good as each other, the least
    waiting, tried = [(search.rank(first), 0, first)], 0
    while waiting and waiting[0][0][0] < proof.claim:
        known, _, execution = heapq.heappop(waiting)
        if all(state.done is not None for state in execution.states.values()):
            return known[0]
        for following in search.following(execution) if known == least[search.key(execution)] else ():
            tried += 1
            if tried > MOST_TRIED:
                raise NotChecked(f"it claims {proof.claim}; so far it is known that no schedule is below {known[0]}")
            if following is not None:
                key, rank = search.key(following), search.rank(following)
                if rank[0] < proof.claim and (key not in least or rank < least[key]):
                    spend(500 * len(instance.requests), "its states")
                    least[key] = rank
                    heapq.heappush(waiting, (rank, -tried, following))
    return proof.claim


class Search:
    """States of the referee between batches: what may follow one, and a lower bound from there."""

    def __init__(self, instance: Box, objective: str) -> None:
        self.machine, self.objective, self.whole = instance.machine, objective, takes_whole(instance, objective)
        self.limits = [limits_of(self.machine)[name] for name in ("device", "tokens", "requests")]
        self.kinds, self.lines = list(map(but_id, instance.requests)), list(lines_of(instance.cost))
        self.ticks, self.need = ticks_of(instance), cache(self.needs)
        self.works = [Work(one, self.machine, self.ticks, self.ticks) for one in instance.requests]
        prices: list[Line] = [{"batch": 1}, {"prefill": 1}, *(line | {"prefill": 0} for line in self.lines)]
        tariffs = [Tariff(self.machine, each) for each in prices]
        tariffs += [Tariff(self.machine, {"packed": 1}, packs) for packs in (1, 2, 3, 64) if self.machine.memory]
        self.measures = [tariff.least for tariff in tariffs]

    def needs(self, i: int, generated: int, kept: int) -> tuple[int, int, list[Amount]]:
        """What a request with so much KV needs: ticks for its next token, ticks after it, and in all of `measures`.

        These are batches, prefills, prices by line, and parts of the memory by `packs`.
        """
        token, *others = self.works[i].tokens[generated:]
        token = token._replace(own=kept, low=0, wait=0, free=None)
        needs: list[Amount] = [sum(map(least, [token, *others])) for least in self.measures]
        return self.ticks(token), self.works[i].tail[generated], needs

    def together(self, needs: list[list[Amount]]) -> Iterator[int]:
        """Lower bounds of the ticks to come until one request is done, until two are, ..

        When the k-th is done, k of them have had all that they need: as many batches and prefills as one of them needs
        that needs no less than k - 1 others, the work of the k cheapest, and batches for what they hold as their
        tokens come, where what fits together is at most one batch (docs/bounds.md, Sharing what is fixed).
        """
        batches, prefills, *sums = map(sorted, zip(*needs, strict=True))
        sums = [list(accumulate(column)) for column in sums]
        prices, packed = sums[: len(self.lines)], sums[len(self.lines) :]
        for k, (most, filled) in enumerate(zip(batches, prefills, strict=True)):
            most = max([most, *(ceil(column[k]) for column in packed)])
            each = zip(prices, self.lines, strict=True)
            yield max(ceil(column[k] + line["base"] * most + line["prefill"] * filled) for column, line in each)

    def bound(self, execution: Execution) -> Amount:
        """No schedule from here on is below it: of each request alone, and of all together."""
        if self.objective == "late-requests":
            return sum(self.is_late(i, state, execution.clock) for i, state in enumerate(execution.states.values()))
        flows, ends, needs, clock, makespan = [], [], [], execution.clock, 0
        for i, state in enumerate(execution.states.values()):
            _, end = self.soonest(i, state, clock)
            if state.done is None:
                ends.append(end)
                needs.append(self.need(i, state.generated, state.m + state.h)[2])
            makespan = max(makespan, end)
            flows.append(end - state.one.arrival)
        busy = list(self.together(needs)) if needs else [0]
        if self.objective == "total-flow-time":
            return sum(flows) + sum(max(0, clock + least - end) for least, end in zip(busy, sorted(ends), strict=False))
        return {
            "busy-time": execution.busy + busy[-1],
            "makespan": max(makespan, clock + busy[-1]),
            "max-flow-time": max(flows),
        }[self.objective]

    def soonest(self, i: int, state: State, clock: int) -> tuple[int, int]:
        """The first and the last token of a request, at the earliest."""
        if state.first is not None and state.done is not None:
            return state.first, state.done
        ticks, tail, _ = self.need(i, state.generated, state.m + state.h)
        token = max(clock, state.ready) + ticks
        return token if state.first is None else state.first, token + tail

    def is_late(self, i: int, state: State, clock: int) -> bool:
        """Whether a request is late whatever follows."""
        return is_late(state.one, *(tick - state.one.arrival for tick in self.soonest(i, state, clock)))

    def rows(self, execution: Execution) -> list[tuple[Any, ...]]:
        """By request what decides its options, and whether it is late for good, where that counts."""
        late, clock = self.objective == "late-requests", execution.clock
        each = enumerate(zip(self.kinds, execution.states.values(), strict=True))
        return [(kind, *row_of(state, execution), late and self.is_late(i, state, clock)) for i, (kind, state) in each]

    def key(self, execution: Execution) -> tuple[Any, ...]:
        """What decides what may follow. Of two states with the same key, the one of the lower rank is as good.

        For what follows one may follow the other, as much later or earlier, and then both cost as much more than their
        bounds, or the earlier no more; but for max-flow-time they are compared at the same tick.
        """
        return (execution.clock if self.objective == "max-flow-time" else 0), *sorted(self.rows(execution))

    def rank(self, execution: Execution) -> tuple[Amount, int]:
        """The bound; of as many late requests, the earlier state."""
        return self.bound(execution), execution.clock if self.objective == "late-requests" else 0

    def following(self, execution: Execution) -> Iterator[Execution | None]:
        """What may be next: after a wait for the next arrival or return, or a batch at once (None if it breaks a rule).

        No other start is needed: each batch of a schedule may start as soon as the one before has ended, the requests
        that it works on have arrived, and the calls have returned that had, of requests that it works on or moves.
        """
        events = (state.ready for state in execution.states.values())
        later = min((tick for tick in events if tick > execution.clock), default=None)
        if later is not None:
            waited = execution.copied()
            waited.clock = later
            yield waited
        choices: list[Any] = []  # like requests next to each other
        each = zip(self.rows(execution), execution.states.values(), strict=True)
        for row, state in sorted(each, key=lambda one: one[0]):
            alike = choices and choices[-1][0] == row
            options = choices[-1][2] if alike else list(options_of(state, execution, self.whole))
            choices.append((row, state.id, options))
        for plan in self.plans(choices, (0, 0, 0)):
            amounts = ({id: option[k] for id, option in plan if option[k]} for k in range(4))
            following = execution.copied()
            try:
                following.step(Box(zip((*MOVES, "work"), amounts, strict=True)), execution.clock)
                yield following
            except Broken:
                yield None

    def plans(self, choices: list[Any], taken: tuple[int, ...], first: int = 0) -> Iterator[list[tuple[str, Option]]]:
        """What requests may do in a batch in which others have taken so much: (id, option) for each.

        Of like requests none takes an option before that of its neighbour. The referee knows the other rules.
        """
        if not choices:
            yield []
            return
        (row, id, options), *others = choices
        for k, (option, takes) in enumerate(options[first:], first):
            spend(10, "its batches")
            amounts = tuple(map(sum, zip(taken, takes, strict=True)))
            if all(most is None or amount <= most for amount, most in zip(amounts, self.limits, strict=True)):
                for plan in self.plans(others, amounts, k if others and others[0][0] == row else 0):
                    yield [(id, option), *plan]


def row_of(state: State, execution: Execution) -> tuple[Any, ...]:
    """What decides the options of a request: those that are alike and have the same row may change places."""
    wait, worked = max(0, state.ready - execution.clock), not execution.machine.pause and state.id in execution.worked
    return state.generated, state.m, state.h, wait, state.window, state.due or 0, worked


def options_of(state: State, execution: Execution, whole: bool = False) -> Iterator[tuple[Option, tuple[int, ...]]]:
    """What a request may do in a batch, (drop, swap_out, swap_in, work), and its use of the limits."""
    machine = execution.machine
    S, _ = state.after_call(execution.clock)
    works = state.ready <= execution.clock and state.done is None
    free = state.window == "free" or state.due is not None  # whether KV may leave in a batch in which it works

    def some(most: int) -> Iterable[int]:
        return range(most + 1) if machine.partial else {0, most}

    for drop in some(state.m + state.h) if free or machine.evict else [0]:
        h = max(0, state.h - drop)
        m = state.m + state.h - drop - h
        for out in some(m) if free or machine.evict else [0]:
            for into in some(h + out):
                held = m - out + into
                left = S - held if works and h + out == into and (free or not drop + out) else 0
                parts = range(left + 1) if machine.chunked else {0, left}
                if whole and left > 1:
                    parts = {0, left - 1, left, *([] if held else [1])}
                for c in parts:
                    spend(1000, "what a request may do")
                    yield (drop, out, into, c), (occupied(held + c, machine), c, c > 0)


def takes_whole(instance: Box, objective: str) -> bool:
    """Whether all or all but one of the tokens that a request lacks, or one on no KV, are the only parts to be tried.

    kvcore/certificates/splits.py says when.
    """
    machine, peaks = instance.machine, [peak(one) for one in instance.requests]
    cost, k = instance.cost[0], 1 if machine.partial else max(peaks)
    swaps = cost.swap_outs + cost.swap_ins + k * (cost.swap_out_tokens + cost.swap_in_tokens)
    enough = min(sum(peaks), machine.memory or inf)
    simple = (
        len(instance.cost) == 1 and not cost.tokens_above and all(len(one.segments) == 1 for one in instance.requests)
    )
    dear = cost.busy >= max(1, swaps) and cost.prefill_kv >= cost.divisor - 1
    ample = all(most is None or most >= enough for most in (machine.batch_tokens, prefill_budget(machine)))
    stays = not machine.evict or (machine.pause and machine.host_memory == 0)
    at_once = objective == "busy-time" or len({one.arrival for one in instance.requests}) == 1
    return machine.chunked and simple and dear and ample and stays and at_once


# --- Kind `slots` (docs/bounds.md, A search to run again). ------------------------------------------------------------


SHARED = len(RESOURCES)
Limits = list[int | None]
Joint = tuple[int, ...]
Layer = dict[Joint, int]
Use = tuple[tuple[int, ...], bool, int]  # needs, whether the request is over by it, the next state
MOST_OPTIONS, MOST_PAIRS, MOST_VALUED, MOST_CHOSEN = 3 * 10**5, 10**7, 2 * 10**8, 10**7  # minutes


def slots(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `slots`: no choice of what requests do, tick by tick, leads to less than the target.

    What the file says of the size of the search is not looked at. Of states that are as good as each other, only those
    of as many tokens and the same wait are compared.
    """
    search = SlotSearch(instance, proof, objective)
    if not search.is_proved_at_once():
        layer, vectors, tried = {(0,) * len(search.joint): 0}, [*map(search.vector, proof.prices)], [0]
        for t in range(search.last_tick() + 1):
            use = [each for each in vectors if each.since <= t]
            layer = search.following(layer, t, use[:1] + use[1:][-12:], tried)
            if not layer:
                break
    return search.claim


def at_once(segment: Box) -> Box:
    """The same segment with a call that takes no time."""
    return Box(segment, call=segment.call and Box(segment.call, duration=0))


class SlotSearch:
    """The requests of an instance, `joint` one after another, and the cost up to which states are followed."""

    def __init__(self, instance: Box, proof: Box, objective: str) -> None:
        machine, ones, self.proof = instance.machine, instance.requests, proof
        limits = list(limits_of(machine).values())
        if not always_one_tick(instance.cost):
            raise Broken("a search over slots is for batches that last one tick")
        if not proof.prices or proof.prices[0].since:
            raise Broken("the first prices are not of use from slot 0 on")
        free = [name for name, most in limits_of(machine).items() if most is None]
        if any(any(each[name]) for each in proof.prices for name in free):
            raise Broken("there are prices of what has no limit")
        if len(ones) > 100:
            raise NotChecked("more than 100 requests are not searched")
        if objective == "busy-time":  # the makespan, where neither arrivals nor calls take time
            ones = [Box(one, arrival=0, segments=list(map(at_once, one.segments))) for one in ones]
        self.start = min(one.arrival for one in ones)
        unit = lcm(*(Fraction(RATES[objective](one)).denominator for one in ones)) if objective in RATES else 1
        self.kinds = {
            kind: Alone(one, instance, objective, self.start, unit, proof.strict, limits)
            for kind, one in {but_id(one): one for one in ones}.items()
        }
        self.joint = [self.kinds[kind] for kind in sorted(map(but_id, ones))]  # those that are alike are neighbours
        self.all_limits, self.claim, self.valued = limits, Fraction(proof.target, unit), 0
        self.leave_out_limits()
        for path in self.kinds.values():
            path.simplify(self.limits)
        self.set_deadlines(objective)

    def leave_out_limits(self) -> None:
        """Limits that cannot bind, as all together or another limit is less, count no more; `moved` says to which."""
        every = {needs for path in self.joint for needs in path.needs}
        self.limits, self.moved = list(self.all_limits), []
        for r in (2, 3, 4, 1, 0):
            most = self.limits[r]
            if most is None:
                continue
            enough = sum(max(needs[r] for needs in path.needs) for path in self.joint) <= most
            others = [(q, other) for q, other in enumerate(self.limits) if q != r and other and not enough]
            implied = (q for q, other in others if all(needs[r] * other <= needs[q] * most for needs in every))
            q = next(implied, None)
            if enough or q is not None:
                self.moved.append((r, q))
                self.limits[r] = None

    def set_deadlines(self, objective: str) -> None:
        """By when each request is over, and what all cost, in a schedule below the target."""
        scale, target = self.proof.scale, self.proof.target
        self.goal = scale * sum(path.w * path.arrival for path in self.joint)
        if self.joint[0].w:
            self.goal += scale * (target - 1)
            spare = target - 1 - sum(path.w * (path.earliest - path.arrival) for path in self.joint)
        for path in self.kinds.values():
            if path.w:
                path.deadline = path.earliest + max(0, spare // path.w)
            else:
                path.deadline = target - 1 + (path.arrival if objective == "max-flow-time" else -self.start)

    def last_tick(self) -> int:
        """The last tick by which a request may be over."""
        return max(path.deadline for path in self.joint)

    def vector(self, prices: Box) -> Values:
        """The values of states by some prices; those of a limit left out are of the one that implies it, or none."""
        T, rows = self.last_tick(), [list(prices[name]) for name in RESOURCES]
        for r, q in self.moved:
            if q is not None:
                rows[q] += [0] * (len(rows[r]) - len(rows[q]))
                for t, p in enumerate(rows[r]):
                    rows[q][t] += p * self.all_limits[r] // self.all_limits[q]
            rows[r] = []
        spend(50 * max(1, T) * sum(len(path.leads) for path in self.kinds.values()), "the values of its states")
        self.valued += max(1, T) * sum(sum(map(len, path.leads)) for path in self.kinds.values())
        if self.valued > MOST_VALUED:
            raise NotChecked(f"values of {self.valued} options are not computed")
        folded = Box(prices, **dict(zip(RESOURCES, rows, strict=True)))
        return Values(folded, T, self.kinds.values(), self.joint, self.limits, self.proof.scale)

    def is_proved_at_once(self) -> bool:
        """Whether the first prices alone prove the target; else they lower the deadlines, as often as they can."""
        last = inf
        while last > self.last_tick():
            first, last = self.vector(self.proof.prices[0]), self.last_tick()
            f = first.least(0, (0,) * len(self.joint), 0)
            if f > self.goal:
                return True
            for path in self.kinds.values():
                if path.w:
                    latest = (self.goal - f + first.V[path][0][0]) // (path.w * self.proof.scale)
                    path.deadline = min(path.deadline, latest)
        return False

    def following(self, before: Layer, t: int, vectors: list[Values], tried: list[int]) -> Layer:
        """The joint states of the next tick, and their costs, of those from which the goal may be met yet."""
        layer: Layer = {}
        for states, cost in before.items():
            better = ((i, a) for i, s in enumerate(states) for a in self.joint[i].better[s])
            if any(before.get(self.in_order((*states[:i], a, *states[i + 1 :])), inf) <= cost for i, a in better):
                continue
            values = max(vectors, key=lambda each: each.least(t, states, cost))
            left = self.goal - values.least(t, states, cost)
            if left < 0 or cost > self.goal:  # what it cost is not had back by prices of later slots
                continue
            if all(path.over[s] for path, s in zip(self.joint, states, strict=True)):
                raise Broken(f"it claims {self.claim}, but requests can be over for less by tick {self.start + t}")
            for to, paid in values.choices(t, states, left, tried):
                after = self.in_order(to)
                layer[after] = min(layer.get(after, cost + paid), cost + paid)
        return layer

    def in_order(self, states: Iterable[int]) -> Joint:
        """A joint state in which the states of requests that are alike increase."""
        groups = groupby(zip(self.joint, states, strict=True), lambda each: id(each[0]))
        return tuple(s for _, those in groups for s in sorted(s for _, s in those))


class Alone:
    """What one request may do in a tick, by the referee, in each of its states; the first has number 0.

    Options are (needs, whether the request is over by it, the next state): `idle` is that between batches. Needs are
    the use of RESOURCES with a limit; whether it shows a phase that may not meet the other one; -1 if it acts.
    """

    def __init__(
        self, one: Box, instance: Box, objective: str, start: int, unit: int, strict: bool, limits: Limits
    ) -> None:
        machine, block = instance.machine, instance.machine.block
        self.arrival, self.first = one.arrival - start, objective == "total-ttft"
        self.w = int(unit * RATES[objective](one)) if objective in RATES else 0
        self.over, self.idle, self.options = list[bool](), list[Use](), list[list[Use]]()
        self.earliest: Any = inf  # of ticks
        self.deadline, self.size = 0, 0
        begin = Execution(Box(instance, requests=[one]))
        begin.clock, begin.joined = start, True
        numbers, queue = {self.key(begin): 0}, [begin]
        for execution in queue:  # those of an earlier tick first
            (state,) = execution.states.values()
            over, (S, _), found = self.is_over(execution), state.after_call(execution.clock), dict[Any, None]()
            if over:
                self.earliest = min(self.earliest, execution.clock - start)
            for option in (None, *(option for option, _ in options_of(state, execution))):
                after, (drop, out, into, c) = execution.copied(), option or (0, 0, 0, 0)
                try:
                    if option:
                        moves = ({state.id: k} if k else {} for k in option)
                        after.step(Box(zip((*MOVES, "work"), moves, strict=True)), execution.clock)
                    else:
                        after.clock += 1
                except Broken:
                    continue
                m = state.m + state.h - drop - after.host  # before the batch, after its moves
                decode = c > 0 and m > 0 and S - m == 1
                use = (blocks(m + c, block), after.host, c, 0 if decode else c, int(c > 0))
                apart = (0, 0) if machine.hybrid or not c else (int(decode), int(not decode))
                acts = -1 if option and (c or out or into or not strict) else 0
                needs = (*(0 if most is None else k for k, most in zip(use, limits, strict=True)), *apart, acts)
                to = numbers.setdefault(self.key(after), len(numbers))
                if to == len(queue):
                    queue.append(after)
                found[option is None, needs, not over and self.is_over(after), to] = None
            (idle, *options) = (each[1:] for each in found)
            self.over.append(over)
            self.idle.append(idle)
            self.options.append(options)
            self.size += len(found)
            if self.size > MOST_OPTIONS:
                raise NotChecked(f"more than {MOST_OPTIONS} options of a request are not searched")
        self.alike = [(key[0], key[3]) for key in numbers]
        self.needs = {needs for options in self.options for needs, _, _ in options}

    def index(self) -> None:
        """Number what options use and whether the request is over by it."""
        uses = {(needs[:SHARED], ends): None for each in (self.idle, *self.options) for needs, ends, _ in each}
        self.uses, place = list(uses), {use: k for k, use in enumerate(uses)}
        every = ((idle, *options) for idle, options in zip(self.idle, self.options, strict=True))
        self.leads = [[(place[needs[:SHARED], ends], to) for needs, ends, to in each] for each in every]

    def is_over(self, execution: Execution) -> bool:
        """Whether what the objective counts of the request is done."""
        (state,) = execution.states.values()
        return (state.first if self.first else state.done) is not None

    def key(self, execution: Execution) -> tuple[Any, ...]:
        """What decides what may follow: of the window of a call only whether moves are free that there may be."""
        (state,) = execution.states.values()
        generated, m, h, wait, window, due, worked = row_of(state, execution)
        return generated, m, h, wait, window == "free" and m + h > 0, due, worked

    def simplify(self, limits: Limits) -> None:
        """Leave out options for better ones, and states for those that are as good; `better`: those still better.

        "a is as good as b" only where `alike`, of as many tokens and the same wait, so that they are over together.
        """

        def left(each: Use) -> Use:
            needs, ends, to = each
            counted = (0 if most is None else k for k, most in zip(needs, limits, strict=False))
            return (*counted, *needs[SHARED:]), ends, to

        alike, groups = self.alike, dict[tuple[Any, ...], list[int]]()
        self.idle, self.options = [*map(left, self.idle)], [[*map(left, options)] for options in self.options]
        for s, group in enumerate(alike):
            groups.setdefault(group, []).append(s)
        pairs = sum(sum(len(self.options[s]) for s in group) ** 2 for group in groups.values())
        good = {(a, b) for group in groups.values() for a in group for b in (group if pairs < MOST_PAIRS else [a])}

        def beats(one: Use, other: Use) -> bool:
            return (one[2], other[2]) in good and all(map(le, one[0], other[0]))

        def as_good(a: int, b: int) -> bool:
            mine, idle = self.options[a], self.idle[b]
            waits = (self.idle[a][2], idle[2]) in good and any(beats(each, idle) for each in (self.idle[a], *mine))
            return waits and all(any(beats(each, other) for each in mine) for other in self.options[b])

        while wrong := {(a, b) for a, b in good if a != b and not as_good(a, b)}:
            good -= wrong
        self.better, stands = [set[int]() for _ in alike], list(range(len(alike)))
        for a, b in good:
            if (b, a) in good:
                stands[b] = min(stands[b], a)
            else:
                self.better[b].add(a)
        for s, options in enumerate(self.options):
            kept = list[Use]()
            for each in options:
                if not any(beats(other, each) for other in kept):
                    kept = [*(other for other in kept if not beats(each, other)), each]
            self.options[s] = [(needs, ends, stands[to]) for needs, ends, to in kept]
        self.idle = [(needs, ends, stands[to]) for needs, ends, to in self.idle]
        self.better = [{stands[a] for a in those} for those in self.better]
        self.index()


class Values:
    """The value of each state of a request at each slot, by a vector of prices, and what joint states lead to."""

    def __init__(
        self, prices: Box, T: int, kinds: Iterable[Alone], joint: list[Alone], limits: Limits, scale: int
    ) -> None:
        columns = [(prices[name] + [0] * max(0, T))[: max(0, T)] for name in RESOURCES]
        self.since, self.rows, self.joint, self.scale = prices.since, list(zip(*columns, strict=True)), joint, scale
        self.limits = [*(inf if most is None else most for most in limits), inf, inf, 0]
        paid = [sum(p * most for p, most in zip(row, limits, strict=True) if p) for row in self.rows]
        self.supply, self.known = [*accumulate(reversed(paid), initial=0)][::-1], dict[Any, Any]()
        self.V: dict[Alone, list[list[float]]] = {}
        for path in kinds:
            V = [[0 if over else inf for over in path.over]]
            for t in reversed(range(T)):
                cost, after = self.costs(path, t), V[-1]
                V.append([min([cost[use] + after[to] for use, to in leads]) for leads in path.leads])
            self.V[path] = V[::-1]

    def costs(self, path: Alone, t: int) -> list[float]:
        """What each use costs a request in slot t, with what the objective counts if it is over by it."""
        end = self.scale * path.w * (t + 1) if t < path.deadline else inf
        return [sum(map(mul, self.rows[t], use)) + (end if over else 0) for use, over in path.uses]

    def least(self, t: int, states: Joint, cost: int) -> float:
        """f: the least cost of a schedule that is at tick t in a joint state with so much cost, all times the scale."""
        return cost + sum([self.V[path][t][s] for path, s in zip(self.joint, states, strict=True)]) - self.supply[t]

    def reduced(self, path: Alone, t: int, s: int) -> Any:
        """The options in a state as (reduced cost, needs, cost, next state), the least first; that between batches."""
        if (path, t, s) not in self.known:
            costs, V, after, end = self.costs(path, t), self.V[path][t][s], self.V[path][t + 1], path.w * (t + 1)
            idle, *each = [
                (costs[k] + after[to] - V, needs, self.scale * end * ends, to)
                for (k, to), (needs, ends, _) in zip(path.leads[s], (path.idle[s], *path.options[s]), strict=True)
            ]
            self.known[path, t, s] = sorted(each), idle
        return self.known[path, t, s]

    def choices(self, t: int, states: Joint, left: float, tried: list[int]) -> Iterator[tuple[list[int], int]]:
        """What a joint state leads to, and at what cost, where the reduced costs are no more than what is left."""
        every = [self.reduced(path, t, s) for path, s in zip(self.joint, states, strict=True)]
        if sum(idle[0] for _, idle in every) <= left:
            yield [idle[3] for _, idle in every], 0
        rows = [options for options, _ in every]

        def choose(
            i: int, first: int, left: float, used: tuple[int, ...], to: list[int], paid: int
        ) -> Iterator[tuple[list[int], int]]:
            if i == len(rows):
                if used[-1]:
                    yield to, paid
                return
            like = i + 1 < len(rows) and rows[i + 1] is rows[i]  # none of those takes an option before that of this
            for k in range(first, len(rows[i])):
                r, needs, cost, following = rows[i][k]
                if r > left:
                    break
                tried[0] += 1
                total = tuple(map(add, used, needs))
                if all(map(le, total, self.limits)) and not all(total[SHARED:-1]):
                    yield from choose(i + 1, k if like else 0, left - r, total, [*to, following], paid + cost)
            if tried[0] > MOST_CHOSEN:
                raise NotChecked(f"more than {MOST_CHOSEN} options are not tried")

        yield from choose(0, 0, left, (0,) * (SHARED + 3), [], 0)


# --- Kind `slot-dual` (docs/bounds.md, Prices of slots). --------------------------------------------------------------


def slot_dual(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `slot-dual`: each request pays for its use of each slot, and takes its cheapest way.

    Of several cases, each with prices, the least counts; in one, segments have ended by the end of slots, or have not.
    """
    limits = limits_of(instance.machine)
    if not always_one_tick(instance.cost):
        raise Broken("prices of slots are for batches of one tick")
    start = min(one.arrival for one in instance.requests)
    unit = lcm(*(Fraction(RATES[objective](one)).denominator for one in instance.requests))
    paths, least = dict[str, Alone](), list[Any]()
    for one in instance.requests:
        there = Box(one, arrival=start)
        if but_id(there) not in paths:
            path = Alone(there, instance, objective, start, unit, False, list(limits.values()))
            path.index()
            paths[but_id(there)] = path
    left = {kind: ticks_left(path) for kind, path in paths.items()}
    ones = {one.id: one for one in instance.requests}
    for prices, cases in cases_of([proof.prices] if isinstance(proof.prices, dict) else proof.prices):
        points = [point(branch, ended, ones) for branch, ended in cases]
        if prices.since or any(most is None and any(prices[name]) for name, most in limits.items()):
            raise Broken("there are prices of what has no limit, or none from slot 0 on")
        slots = max(*(len(prices[name]) for name in RESOURCES), *(tick for _, tick, _, _ in points))
        rows = [*zip(*(prices[name] + [0] * (slots - len(prices[name])) for name in RESOURCES), strict=True)]
        total: Any = -sum((most or 0) * sum(prices[name]) for name, most in limits.items())
        alike = dict[Any, list[int]]()
        for one in instance.requests:
            known = tuple(each for each in points if each[0] == one.id)
            alike.setdefault((but_id(Box(one, arrival=start)), known), []).append(one.arrival - start)
        for (kind, known), arrivals in alike.items():
            total += paid_by(paths[kind], left[kind], rows, proof.scale, arrivals, known)
        least.append(total)
    return Fraction(min(least), proof.scale * unit)


Point = tuple[str, int, int, bool]  # request, tick, tokens, whether it has these tokens then


def cases_of(nodes: list[Any]) -> Iterator[tuple[Any, tuple[tuple[Box, bool], ...]]]:
    """The prices of each case, and whether it is the first of branches: one precedes its first, then the other."""
    later: list[tuple[tuple[Box, bool], ...]] = [()]
    for each in nodes:
        if not later:
            raise Broken("there are prices of no case")
        known = later.pop()
        spend(200 * (1 + len(known)), "its cases")
        if "request" in each:
            later += [(*known, (each, first)) for first in (False, True)]
        else:
            yield each, known
    if later:
        raise Broken("a case has no prices")


def point(branch: Box, has: bool, ones: dict[str, Box]) -> Point:
    """What a case of a branch says."""
    if branch.request not in ones:
        raise Broken(f"there is no request {branch.request}")
    segments = ones[branch.request].segments
    tokens = sum(segment.decode for segment in segments[: branch.segment + 1]) + (branch.segment >= len(segments))
    return branch.request, branch.slot + 1, tokens, has


def ticks_left(path: Alone) -> list[float]:
    """The least ticks of each state until the request is over."""
    left, before = [0.0 if over else inf for over in path.over], list[float]()
    while left != before:
        spend(5 * path.size, "the ticks of a request alone")
        before = left
        left = [min(n, 1 + min([before[to] for _, to in leads])) for n, leads in zip(left, path.leads, strict=True)]
    return left


def paid_by(
    path: Alone, left: list[float], rows: list[Any], scale: int, arrivals: list[int], known: tuple[Point, ...]
) -> Any:
    """The least that requests of these arrivals cost and pay, if each is as the points say."""
    slots, rate = len(rows), scale * path.w
    spend(5 * path.size * (slots + 1), "the values of its states")
    values: list[Any] = [0 if not n else inf if n == inf else rate * (slots + int(n)) for n in left]
    total: Any = sum(rate * int(left[0]) for t in arrivals if t >= slots)
    for t in reversed(range(slots)):
        for _, tick, tokens, has in known:
            if tick == t + 1:
                values = [v if (n >= tokens) == has else inf for v, (n, _) in zip(values, path.alike, strict=True)]
        costs = [sum(map(mul, rows[t], use)) + (rate * (t + 1) if over else 0) for use, over in path.uses]
        values = [min([costs[use] + values[to] for use, to in leads]) for leads in path.leads]
        if count := arrivals.count(t):
            total += (values[0] - rate * t) * count
    return total


# --- Kind `enumeration` (the head of kvcore/certificates/enumeration.py). ---------------------------------------------


def enumerated(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `enumeration`: as `events`, with contents."""
    check_size(instance, objective)
    return explore(instance, proof, SharingSearch(instance, objective))


class SharingSearch(Search):
    """States with resident blocks."""

    def __init__(self, instance: Box, objective: str) -> None:
        self.machine, self.objective = instance.machine, objective
        limits = limits_of(self.machine)
        self.limits = [None, limits["tokens"], limits["requests"]]  # what paths share counts once
        self.kinds = list(map(but_id, instance.requests))
        self.least = duration(instance.cost, {"busy": 1, "tokens": 1, "generated": 1})

    def soonest(self, i: int, state: State, clock: int) -> tuple[int, int]:
        """The first and the last token, each after a batch of the least ticks."""
        if state.first is not None and state.done is not None:
            return state.first, state.done
        token = max(clock, state.ready) + self.least
        left = self.least * (output(state.one) - state.generated - 1)
        calls = sum(segment.call.duration for segment in state.one.segments[state.segment : -1])
        return token if state.first is None else state.first, token + left + calls

    def bound(self, execution: Execution) -> Amount:
        """No schedule from here on is below it: of each request alone."""
        states = [*execution.states.values()]
        if self.objective == "late-requests":
            return sum(self.is_late(i, state, execution.clock) for i, state in enumerate(states))
        ends = [self.soonest(i, state, execution.clock) for i, state in enumerate(states)]
        if self.objective == "busy-time":
            return execution.busy + self.least * max(output(state.one) - state.generated for state in states)
        if self.objective == "makespan":
            return max(end for _, end in ends)
        if self.objective == "max-flow-time":
            return max(end - state.one.arrival for (_, end), state in zip(ends, states, strict=True))
        which = self.objective != "total-ttft"
        rates = map(RATES[self.objective], (state.one for state in states))
        return sum(
            rate * (each[which] - state.one.arrival) for rate, each, state in zip(rates, ends, states, strict=True)
        )

    def key(self, execution: Execution) -> tuple[Any, ...]:
        """What decides what may follow."""
        return execution.resident, *super().key(execution)

    def following(self, execution: Execution) -> Iterator[Execution | None]:
        """What may be next: of what a batch can forget, all that leaves most."""
        events = [state.ready for state in execution.states.values() if state.ready > execution.clock]
        if events:
            waited = execution.copied()
            waited.clock = min(events)
            yield waited
        each = zip(self.rows(execution), execution.states.values(), strict=True)
        rows = sorted(each, key=lambda one: one[0])  # like requests next to each other
        choices = [(row, state.id, list(sharing(state, execution))) for row, state in rows]
        for plan in self.plans(choices, (0, 0, 0)):
            in_vain = (each[1] and each[2] and execution.states[id].due is None for id, each in plan)
            if self.machine.pause and any(each[3] for _, each in plan) and any(in_vain):
                continue  # the net move does as much
            amounts = ({id: option[k] for id, option in plan if option[k]} for k in range(5))
            yield from self.forgetting(execution, Box(zip((*MOVES, "work", "reuse"), amounts, strict=True)))

    def forgetting(self, execution: Execution, batch: Box) -> Iterator[Execution | None]:
        """What may follow a batch: it forgets more only where less breaks R6."""
        held, found = Counter[str](), list[Execution]()
        for id, state in execution.states.items():
            m = state.m - max(0, batch.drop.get(id, 0) - state.h) - batch.swap_out.get(id, 0)
            held |= Counter(node for node, _ in state.had(m, self.machine.block))
        loose = Counter(node for node, _ in execution.resident) - held
        good: list[tuple[int, ...]] = []
        for gone in sorted(product(*(range(loose[id] + 1) for id in execution.sizes)), key=sum):
            spend(100, "its forgets")
            if any(all(map(le, less, gone)) for less in good):
                continue
            forget = {id: k for id, k in zip(execution.sizes, gone, strict=True) if k}
            after, rule = execution.copied(), 0
            try:
                after.step(Box(batch, forget=forget), execution.clock)
            except Broken as broken:
                rule = broken.rule or 0
                yield None
            if not rule:
                good.append(gone)
                if not any(after.resident <= other.resident for other in found):
                    found.append(after)
                    yield after
            if not forget and rule != 6:
                return


def sharing(state: State, execution: Execution) -> Iterator[tuple[Any, tuple[int, ...]]]:
    """What a request may do in a batch, (drop, swap_out, swap_in, work, reuse), and its use of the limits."""
    block = execution.machine.block
    S, _ = state.after_call(execution.clock)
    for (drop, out, into, c), takes in options_of(state, execution):
        most = execution.machine.host_memory
        if most is not None and hosted(max(0, state.h - drop) + out - into, execution.machine) > most:
            continue
        yield (drop, out, into, c, 0), takes
        held = state.m - max(0, drop - state.h) - out + into
        for end in range(block, min(len(state.path) * block, S - 1) + 1, block) if c else ():
            left = S - end
            if end > held and (c <= left if execution.machine.chunked else c == S - held):
                work = c if execution.machine.chunked else left
                yield (drop, out, into, work, end - held), (0, work, 1)


# --- Kind `in-order` (docs/bounds.md, Prices in order). ---------------------------------------------------------------


Run = tuple[list[int], int]  # what the first k units pay at a price of 1, and the call after all
Place = tuple[int, int, bool, int]  # run, its units before, is there more than one fresh token, call


class Units:
    """The units of a line: d and a slot, in parts of a tick, q of them, from the first arrival on."""

    def __init__(self, instance: Box, proof: Box, divisor: int = 1) -> None:
        lines, self.block, self.packs = list(lines_of(instance.cost)), instance.machine.block, proof.packs
        if proof.line >= len(lines):
            raise Broken("there is no such line")
        a, b = lines[proof.line]["base"], lines[proof.line]["tokens"]
        self.q = lcm(a.denominator, b.denominator, divisor)
        self.a, self.b, self.n = int(self.q * a), int(self.q * b), proof.most
        self.d = self.a + self.b
        if not self.d:
            raise Broken("the line gives batches no time")
        self.slot, self.L = self.n * self.d, limits_of(instance.machine)["device"]
        self.begin = min(one.arrival for one in instance.requests)

    def runs(self, one: Box, objective: str) -> tuple[list[Run], list[Place]]:
        """The runs of a request, and where in these its tokens are."""
        runs, sums, places, context = list[Run](), [0], list[Place](), 0
        for new, call in fresh_tokens(one, MOST_OF.get(objective)):
            context += new
            places.append((len(runs), len(sums) - 1, new > 1, self.q * call))
            m, u = (self.a + self.b * new) // self.d, packing(blocks(context, self.block), self.L, self.packs)
            spend(20 + m, "units in order")
            sums += [1024 * (self.a * u + self.b * new) // m] * m
            if call:
                runs, sums = [*runs, (list(accumulate(sums)), self.q * call)], [0]
        return [*runs, (list(accumulate(sums)), 0)], places

    def point(self, time: int, slots: int) -> tuple[int, int]:
        """The slot of a time, or the end of all, and for how many units of a request it then has room."""
        s = min(time // self.slot, slots)
        return s, min(self.n, -(-((s + 1) * self.slot - time) // self.d))


def in_order(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `in-order`: a request does whole units one after another, each pays the price of its slot."""
    units, (rates, unit), price = Units(instance, proof), rates_of(instance, objective), proof.price
    total = -1024 * units.slot * sum(price)
    for rate, one in zip(rates, instance.requests, strict=True):
        runs, _ = units.runs(one, objective)
        arrival, rate = units.q * (one.arrival - units.begin), 1024 * proof.scale * rate
        late = max(0, arrival - len(price) * units.slot)
        total += InSlots(units, runs, price, rate).at(0, 0, *units.point(arrival, len(price))) + rate * (late - arrival)
    return Fraction(total, 1024 * proof.scale * units.q * unit)


def packing(held: int, L: int | None, k: int) -> Fraction:
    """The dual feasible function u of blocks (0 where there is no limit)."""
    x = Fraction(held, L) if L else Fraction(0)
    return x if not k or ((k + 1) * x).denominator == 1 else Fraction((k + 1) * x // 1, k)


class InSlots:
    """The least that a request pays and its end costs, by run, slot, and units of the run that are done before it."""

    def __init__(self, units: Units, runs: list[Run], price: list[int], rate: int) -> None:
        self.units, self.runs, self.price, self.rate, n, S = units, runs, price, rate, units.n, len(price)
        rest = sum(units.d * (len(paid) - 1) + wait for paid, wait in runs)
        most = rate * (S * units.slot + rest) + max(price, default=0) * sum(paid[-1] for paid, _ in runs)
        kept: Any = list if most >= 2**63 else lambda row: array("q", row)
        self.rows: list[list[Any]] = [[] for _ in runs]
        rest = 0  # after a run
        for j, (paid, wait) in reversed([*enumerate(runs)]):
            end, rest = len(paid) - 1, rest + wait
            rows = [kept(rate * (S * units.slot + units.d * k + rest) for k in range(end, 0, -1))]
            rest += units.d * end
            for s in reversed(range(S)):
                spend((18 + n.bit_length()) * end, "units in order")
                ways, width = [known + price[s] * each for known, each in zip(rows[-1], paid, strict=False)], 1
                while width <= n:  # each is the least of so many from it on
                    step = min(width, n + 1 - width)
                    ways, width = [*map(min, ways, ways[step:]), *ways[max(0, end - step) :]], width + step
                for g in range(1, min(n, end) + 1):
                    ways[end - g] = min(ways[end - g], price[s] * paid[end] + self.after(j, s, g))
                rows.append(kept(way - price[s] * each for way, each in zip(ways, paid, strict=False)))
            self.rows[j] = rows[::-1]

    def after(self, j: int, s: int, g: int) -> int:
        """What follows a run that ends with g units in a slot."""
        time = (s * self.units.n + g) * self.units.d
        if j == len(self.runs) - 1:
            return self.rate * time
        return self.at(j + 1, 0, *self.units.point(time + self.runs[j][1], len(self.price)))

    def at(self, j: int, k: int, s: int, room: int) -> int:
        """What follows k units of a run, in a slot in which there is room for some."""
        paid, rows = self.runs[j][0], self.rows[j]
        if s == len(self.price) or room == self.units.n:
            return int(rows[s][k])
        best, end = int(rows[s + 1][k]), len(paid) - 1
        for g in range(1, min(room, end - k) + 1):
            later = rows[s + 1][k + g] if k + g < end else self.after(j, s, g)
            best = min(best, self.price[s] * (paid[k + g] - paid[k]) + later)
        return best


class WhatIsLeft:
    """Prices in order of what is left of labels (the head of kvcore/certificates/potentials.py)."""

    def __init__(self, instance: Box, proofs: list[Box], objective: str, divisor: int) -> None:
        first, self.S = proofs[0], len(proofs[0].price)
        if any(Box(each, price=0) != Box(first, price=0) or len(each.price) != self.S for each in proofs):
            raise Broken("prices in order of what is left differ in more than prices")
        if not self.S:
            raise Broken("prices in order of what is left are of no slots")
        self.units = units = Units(instance, first, divisor)
        self.part, self.begin, self.known = units.q // divisor, units.q * units.begin, lru_cache(2**14)(self.known_of)
        prices = [each.price for each in proofs]
        left = ([*accumulate(price[::-1], initial=0)][::-1] for price in prices)
        self.prices, self.left = [*zip(*prices, strict=True), (0,) * len(prices)], [*zip(*left, strict=True)]
        self.scale, self.places, self.tables = 1024 * first.scale, list[list[Place]](), list[list[InSlots]]()
        self.rates, _ = rates_of(instance, objective)
        for rate, one in zip(self.rates, instance.requests, strict=True):
            runs, places = units.runs(one, objective)
            self.places.append(places)
            self.tables.append([InSlots(units, runs, price, rate * self.scale) for price in prices])

    def known_of(self, i: int, j: int, k: int, s: int, room: int) -> list[int]:
        """What follows k units of a run of a request, by each of the prices."""
        spend(5 * self.units.n * len(self.tables[i]), "what is left")
        return [table.at(j, k, s, room) for table in self.tables[i]]

    def least(self, label: Any, left: list[int]) -> int:
        """The least sum of ends of those left, in the time of labels."""
        T, units, all_V = label.time * self.part - self.begin, self.units, list[list[int]]()
        spend(5 * (len(left) + 2) * len(self.prices[0]), "what is left")
        for i in left:
            j, k, may_be_begun, call = self.places[i][label.tokens[i]]
            at = max(T, label.ready[i] * self.part - self.begin)
            if may_be_begun and label.tokens[i] + 1 == len(self.places[i]):
                all_V.append([self.scale * self.rates[i] * (at + units.d)] * len(self.prices[0]))
                continue
            if may_be_begun:
                (j, k, _, _), at = self.places[i][label.tokens[i] + 1], at + units.d + call
            all_V.append(self.known(i, j, k, *units.point(at, self.S)))
        s = min(max(0, T) // units.slot, self.S)
        gone = max(0, T) - s * units.slot  # of slot s
        each = zip(map(sum, zip(*all_V, strict=True)), self.left[s], self.prices[s], strict=True)
        most = max(0, *(V - 1024 * (left * units.slot - price * gone) for V, left, price in each))
        return -(-most // (self.scale * self.part)) + sum(self.rates[i] for i in left) * self.begin // self.part


# --- Kind `pairs` (the head of kvcore/certificates/pairs.py). ---------------------------------------------------------


Ticks = tuple[list[tuple[int, int]], int]  # (blocks, ticks) in order, and the rate


def pairs(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `pairs`: each two requests, tick by tick, in one batch only where their contexts fit together."""
    machine, given, n = instance.machine, instance.requests, len(instance.requests)
    if not always_one_tick(instance.cost):
        raise Broken("batches may last more than a tick")
    if n < 2:
        raise Broken("there are no two requests")
    room = inf if machine.memory is None else machine.memory // machine.block
    budget, begin = machine.batch_tokens if machine.chunked else None, min(one.arrival for one in given)
    chains, alone = [], 1 in (machine.batch_requests, machine.batch_tokens)
    rates, unit = rates_of(instance, objective)
    for one in given:
        held, context = [(0, one.arrival - begin)], 0  # blocks (0: no batch) and how many ticks
        for new, call in fresh_tokens(one, MOST_OF.get(objective)):
            context += new
            before = blocks(new, budget) - 1 if budget else 0
            held += [(1, before), (blocks(context, machine.block), 1), (0, call)]
            spend(10, "chains of ticks")
        runs = groupby((run for run in held if run[1]), lambda run: run[0])
        chains.append([(size, sum(ticks for _, ticks in same)) for size, same in runs])
    total = Fraction(sum(pair(*two, room, alone) for two in combinations(zip(chains, rates, strict=True), 2)), n - 1)
    return (total - sum(rate * (one.arrival - begin) for rate, one in zip(rates, given, strict=True))) / unit


def pair(one: Ticks, other: Ticks, room: float, alone: bool) -> int:
    """The least sum of the ends of two chains, each times its rate.

    T(u, v), the least steps to there, does not fall in u or v, and grows by at most 1 from a place to the next. So
    in a rectangle of places that alike allow a step of both, or do not, the last steps are of both as long as there are
    any, or all of one and then all of the other: its far sides follow from its near ones.
    """
    (mine, p), (its, q) = one, other
    n, m = (sum(ticks for _, ticks in chain) for chain in (mine, its))
    spend(2 * (len(mine) * (m + len(its)) + len(its) * n), "steps of pairs of requests")
    row, u, ends = list(range(m + 1)), 0, [q * m + p * (m + n)]
    for held, a in mine:
        left, far, v = [row[0] + i for i in range(a + 1)], [row[0] + a], 0
        with_it = [(not (held and its_held) or (not alone and held + its_held <= room), b) for its_held, b in its]
        for fits, same in groupby(with_it, lambda run: run[0]):
            b = sum(ticks for _, ticks in same)
            near = row[v : v + b + 1]
            if fits:
                top = [j + left[a - j] for j in range(min(a, b + 1))] + [a + t for t in near[: max(0, b + 1 - a)]]
                left = [i + near[b - i] for i in range(min(b, a + 1))] + [b + t for t in left[: max(0, a + 1 - b)]]
            else:
                top = [min(t + a, left[a] + j) for j, t in enumerate(near)]
                left = [min(near[b] + i, t + b) for i, t in enumerate(left)]
            far += top[1:]
            v += b
        ends += [q * t + p * (t + n - u - i) for i, t in enumerate(left)]
        row, u = far, u + a
    return min(*ends, *(p * t + q * (t + m - v) for v, t in enumerate(row)))


# --- Orders of batches: requests as chains of tokens, and the search for the best order (kind `potentials`). ----------


def best_first(search: Any, instance: Box, claim: Fraction) -> Amount:
    """The bound of the first label in which all are completed, the best label first; the claim, where none is below.

    What the file says of the search is not looked at. Of labels with the same tokens, those that another one covers
    are left out.
    """
    before = sum(rate * one.arrival for rate, one in zip(search.rates, instance.requests, strict=True))
    goal, first = (claim * search.unit + before) * search.divisor, search.first()
    waiting, known, tried = [(search.least(first), first)], {first.tokens: [first]}, 0
    while waiting and waiting[0][0] < goal:
        bound, label = heapq.heappop(waiting)
        if not search.left(label):
            return (Fraction(bound, search.divisor) - before) / search.unit
        for following in search.followers(label) if label in known[label.tokens] else ():
            tried += 1
            if tried > MOST_TRIED:
                raise NotChecked(f"more than {MOST_TRIED} batches are not tried")
            labels = known.setdefault(following.tokens, []) if following else []
            spend(100 * len(labels) + 500, "its labels")
            if not following or any(search.covers(one, following) for one in labels):
                continue
            least = max(bound, search.least(following))
            if least < goal:
                labels[:] = [one for one in labels if not search.covers(following, one)] + [following]
                heapq.heappush(waiting, (least, following))
    return claim


class Orders:
    """What is the same in all labels: of each request the tokens, as far as they count; times are ticks times divisor.

    `fresh` tokens are processed for each for the first time, `contexts` in all; `wait` is the call after it, `rest`
    the least that follows its end. A batch takes `busy`, b for a token processed, `token` for one generated.
    """

    def __init__(self, instance: Box, proof: Box, objective: str) -> None:
        if not proof.function < len(instance.cost):
            raise Broken(f"the cost has no function {proof.function}")
        if len(instance.requests) > 8:
            raise NotChecked("orders of batches of more than 8 requests are not tried")
        line, machine, self.given = instance.cost[proof.function], instance.machine, instance.requests
        self.machine, self.room = machine, inf if machine.memory is None else machine.memory // machine.block
        self.host = inf if machine.host_memory is None else machine.host_memory
        self.rates, self.unit = rates_of(instance, objective)
        chains = [fresh_tokens(one, MOST_OF.get(objective)) for one in self.given]
        self.fresh, self.divisor = [[new for new, _ in chain] for chain in chains], line.divisor
        self.contexts = [list(accumulate(news)) for news in self.fresh]
        self.wait = [[call * line.divisor for _, call in chain] for chain in chains]
        self.busy, self.b = line.busy + min(line.any_decode, line.any_prefill), line.tokens
        self.token = min(line.decode_requests, line.prefill_requests) + line.generated
        each = zip(self.wait, self.fresh, strict=True)
        tails = (map(self.later_token, calls[-2::-1], news[:0:-1]) for calls, news in each)
        self.rest = [[0, *accumulate(tail)][::-1] for tail in tails]
        ends = [accumulate(each.decode for each in one.segments) for one in self.given]
        calls = [[each.call and each.call.handling for each in one.segments] for one in self.given]
        self.discards = [
            {end for end, how in zip(*each, strict=True) if how == "discard"} for each in zip(ends, calls, strict=True)
        ]

    def later_token(self, call: int, new: int) -> int:
        """What a token takes after a call, in as many batches as the budget asks for."""
        batches = blocks(new, self.machine.batch_tokens or new) if self.machine.chunked else 1
        return call + self.busy * batches + self.b * new + self.token

    def left(self, label: Any) -> list[int]:
        """Those that are not completed."""
        return [i for i, news in enumerate(self.fresh) if label.tokens[i] < len(news)]


# --- Kind `potentials` (the head of kvcore/certificates/potentials.py). -----------------------------------------------


APART, DEVICE, HOST = range(3)  # places of requests
Gains = tuple[list[tuple[int, int]], list[tuple[int, int]], list[tuple[int, int]]]


class Known(NamedTuple):
    """What is known after a batch; `ends`: those of completed requests, times rates; `worth` of each potential.

    `places` are those of the requests' KV; that of a completed one is apart.
    """

    ends: int
    time: int
    tokens: tuple[int, ...]
    ready: tuple[int, ...]
    worth: tuple[Any, ...]
    places: tuple[int, ...] = ()


def potentials(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `potentials`: all orders of batches below the claim."""
    return best_first(WithPrices(instance, proof, objective), instance, proof.claim)


class Changes(dict[int, Gains | None]):
    """How v changes from one class to others, by number, when asked for; None if they are not of its kind."""

    def __init__(self, one: Any, classes: list[Any], places: tuple[int, ...]) -> None:
        self.one, self.classes, self.places = one, classes, places

    def __missing__(self, k: int) -> Gains | None:
        """What a token gains."""
        spend(100, "its potentials")
        (kind, side), (its_kind, its) = self.one, self.classes[k]
        self[k] = gained(side, its, self.places) if its_kind == kind else None
        return self[k]


class WithPrices(Orders):
    """What is the same in all labels: the potentials (y, g, w, p, q); the first has no prices."""

    def __init__(self, instance: Box, proof: Box, objective: str) -> None:
        super().__init__(instance, proof, objective)
        n, self.U, self.one = len(self.given), proof.scale, self.b + self.token
        if not proof.moves < len(instance.cost):
            raise Broken(f"the cost has no function {proof.moves}")
        if proof.places and self.machine.partial:
            raise Broken("with partial, KV of a request need not be in one place")
        swaps, block = instance.cost[proof.moves], self.machine.block
        out, back = (Fraction(swaps[name] * self.divisor, swaps.divisor) for name in SWAPS[:2])
        self.given_room, self.values = self.room * block, lru_cache(2**16)(self.values_of)
        self.sides, self.alike, self.changes = cache(self.sides_of), cache(self.alike_of), cache(self.changes_of)
        self.own, self.lows, self.apart = lru_cache(2**10)(self.own_of), lru_cache(2**12)(self.lows_of), (APART,) * n
        self.has_places = proof.places
        # of each request, tokens before a call (as a count), and its time
        self.pauses = [[(k, wait) for k, wait in enumerate(waits[:-1], 1) if wait] for waits in self.wait]
        self.prices: list[Any] = [(self.U, 0, None, (0,) * n, (0,) * n)]
        for each in proof.potentials:
            y, g, w, p, q = each.compute, each.wait, each.request, each.device, each.host
            z = self.U - y - g
            if z < 0 or len(p) != n or len(q) != n or (w is None) != (g == 0) or (w is not None and w >= n):
                raise Broken("a potential has other weights, requests or prices than there are")
            if any(m > y * self.b or h - m > z * out or m - h > z * back for m, h in zip(p, q, strict=True)):
                raise Broken("a token's price is above its time")
            self.prices.append((y, g, w, tuple(p), tuple(q)))
        parts = [proof.in_order] if proof.in_order else []
        self.in_order = [WhatIsLeft(instance, each, objective, self.divisor) for each in parts]
        self.waited = {w for _, _, w, _, _ in self.prices}
        self.pairs = [tuple(zip(p, q, strict=True)) for _, _, _, p, q in self.prices]

    def first(self) -> Any:
        """The label of the start."""
        ready = tuple(one.arrival * self.divisor for one in self.given)
        start: Any = Known(0, 0, (0,) * len(ready), ready, (), self.apart)
        return start._replace(worth=tuple(self.worths(start, 0, self.left(start), self.apart)))

    def rises(self, gains: Gains, limits: tuple[int, ...], room: Any, host: Any) -> tuple[int, int]:
        """The most by which v of one potential exceeds another's, or 0, in two ways: both are true."""
        device, there, moved = gains
        if not there:
            return (greedy(device, limits, room),) * 2 if device else (0, 0)
        sides = greedy(there, limits, host) + (greedy(device, limits, room) if device else 0)
        whole = greedy(there, limits, inf)  # all on the host, and some of them moved
        return sides, whole + greedy(moved, limits, room) if moved else whole

    def context(self, label: Any, i: int) -> int:
        """K."""
        return self.contexts[i][label.tokens[i]]

    def kept(self, label: Any, places: tuple[int, ...]) -> tuple[int, ...]:
        """The k of each in its place; 0 where it is apart."""
        if places == self.apart:
            return places
        return tuple(self.contexts[i][label.tokens[i] - 1] if place else 0 for i, place in enumerate(places))

    def lows_of(self, places: tuple[int, ...], kept: tuple[int, ...]) -> list[int]:
        """The sum of low of all in a place, by each potential."""
        spend(30 * len(self.prices), "its potentials")
        those = [(i, place - 1, k) for i, (place, k) in enumerate(zip(places, kept, strict=True)) if place]
        return [sum(pairs[i][side] * k for i, side, k in those) for pairs in self.pairs]

    def own_of(self, places: tuple[int, ...]) -> list[Gains]:
        """What a token gains by each potential over nothing."""
        spend(30 * len(self.prices), "its potentials")
        nothing = ((0, 0),) * len(places)
        return [gained(pairs, nothing, places) for pairs in self.pairs]

    def limits(self, label: Any, at: Any, those: list[int]) -> tuple[int, ...]:
        """The most KV of those requests at a time."""
        limits = [0] * len(self.given)
        for i in those:
            done = label.tokens[i]
            early = self.contexts[i][done - 1] if done and done not in self.discards[i] else 0
            limits[i] = early if at <= label.ready[i] else self.contexts[i][done] - 1
        return tuple(limits)

    def values_of(
        self, limits: tuple[int, ...], left: tuple[int, ...], places: tuple[int, ...], kept: tuple[int, ...]
    ) -> list[Any]:
        """V of each potential; of one whose request is over no worth is known."""
        spend(30 * len(self.prices), "its potentials")
        over = {w for w in self.waited if w is not None and w not in left}
        rooms = self.rooms(places, kept, self.given_room)
        limits = (*map(sub, limits, kept),)
        each = zip(self.prices, self.own(places), self.lows(places, kept), strict=True)
        return [
            inf if w in over else low + min(self.rises(gains, limits, *rooms)) for (_, _, w, _, _), gains, low in each
        ]

    def rooms(self, places: tuple[int, ...], kept: tuple[int, ...], room: Any) -> Any:
        """The tokens that a room and the host have left beside those in a place; None where these do not fit."""
        if places == self.apart:
            return None if room < 0 else (room, self.host)
        here, there = ([k for k, at in zip(kept, places, strict=True) if at == side] for side in (DEVICE, HOST))
        if sum(blocks(k, self.machine.block) for k in here) * self.machine.block > room or sum(there) > self.host:
            return None
        return room - sum(here), self.host - sum(there)

    def worths(self, label: Any, at: int, left: list[int], places: tuple[int, ...]) -> list[Any]:
        """Lemma 2, of all potentials, with requests in these places."""
        values = self.values(self.limits(label, at, left), tuple(left), places, self.kept(label, places))
        return [
            (self.U - g) * at + g * label.ready[w or 0] - V
            for (_, g, w, _, _), V in zip(self.prices, values, strict=True)
        ]

    def sides_of(self, left: tuple[int, ...]) -> list[Any]:
        """For those left: what a batch is worth, its requests as bits, and their p."""
        found = list[Any]()
        for y, _, w, p, q in self.prices:
            those = [k for k, i in enumerate(left) if p[i] or q[i] or i == w]
            known = y * (self.busy + self.one * len(those))
            found.append((known, sum(1 << k for k in those), tuple(p[i] for i in left)))
        return found

    def alike_of(self, left: tuple[int, ...], F: tuple[int, ...]) -> tuple[list[Any], list[Any], list[int]]:
        """For a batch: y' of each potential, p of F, and its class or None; the classes; those of no w.

        Lemma 3 asks only for w and g, or neither, and the prices of others: of those alike in these the best counts.
        """
        classes, rows = dict[Any, int](), list[Any]()
        others = set(left) - set(F)
        for y, g, w, p, q in self.prices:
            kind = (w, g) if w is not None and w not in F else None
            side = tuple((p[i], q[i]) if i in others else (0, 0) for i in range(len(p)))
            one = classes.setdefault((kind, side), len(classes)) if w is None or w in left else None
            rows.append((y + (g if w in F else 0), tuple(p[i] for i in F), one))
        return rows, [*classes], [c for (kind, _), c in classes.items() if kind is None]

    def changes_of(self, left: tuple[int, ...], F: tuple[int, ...], places: tuple[int, ...]) -> list[Changes]:
        """Of each class, with others in these places."""
        classes = self.alike(left, F)[1]
        return [Changes(one, classes, places) for one in classes]

    def least(self, label: Any) -> int:
        """What is left."""
        left, U = self.left(label), self.U
        when, cost = [0] * 2 ** len(left), [0]  # of each set: when all have their next tokens; the smallest sum
        place = {i: 1 << k for k, i in enumerate(left)}
        for i in left:
            when[place[i]] = max(label.time, label.ready[i]) + self.busy + self.one
        spend(5 * len(self.prices) + (30 << len(left)), "what is left")
        K = [self.context(label, i) - 1 for i in left]
        for (known, bits, p), worth in zip(self.sides(tuple(left)), label.worth, strict=True):
            if worth > -inf:
                when[bits] = max(when[bits], -(-(known + worth + sum(map(mul, p, K))) // U))
        for bits in range(1, 2 ** len(left)):
            without = [(bits & ~place[i], i) for i in left if bits & place[i]]
            when[bits] = max(when[bits], *(when[less] for less, _ in without))
            cost.append(min(cost[less] + self.rates[i] * when[bits] for less, i in without))
        after = sum(self.rates[i] * self.rest[i][label.tokens[i]] for i in left)
        more = [self.crowd(label, left), *(each.least(label, left) for each in self.in_order)] if left else [0]
        return label.ends + max(cost[-1] + after, *more)

    def crowd(self, label: Any, left: list[int]) -> int:
        """Crowds: the ends without waiting, and how much all must wait."""
        d, n, T, calls, alone = self.busy + self.one, len(left), label.time, list[tuple[int, int]](), dict[int, int]()
        tokens = {i: len(self.fresh[i]) - label.tokens[i] for i in left}  # a
        for i in left:
            mine = [(0, label.ready[i] - T)] if label.ready[i] > T else []
            mine += [(k - label.tokens[i], wait) for k, wait in self.pauses[i] if k > label.tokens[i]]
            alone[i] = d * tokens[i] + sum(wait for _, wait in mine)
            calls += mine
        spend(30 * len(calls) + 60 * n, "a crowd")
        few = min(tokens.values())
        X = min(sum(tokens.values()), self.given_room + n - sum(self.context(label, i) for i in left))
        over, lost = 0, 0  # E(m), and what is lost for the best m
        for m, wait in [*sorted(calls), (few, 0)]:
            lost = max(lost, min(min(m, few) * d, -((over * (n - 1) - X * d) // n)))
            over += wait
        waiting = min(alone.values()) - sum(wait for _, wait in calls) - lost
        least = min(self.rates[i] for i in left)
        return sum(self.rates[i] * (T + alone[i]) for i in left) + least * max(0, waiting)

    def followers(self, label: Any) -> Iterator[Any]:
        """All labels that may follow."""
        left = self.left(label)
        for bits in range(1, 2 ** len(left)):
            F = [i for k, i in enumerate(left) if bits >> k & 1]
            for places in self.choices(label, F):
                yield self.following(label, left, F, places)

    def choices(self, label: Any, F: list[int]) -> Iterator[tuple[int, ...]]:
        """The places in which others may be after a batch."""
        if label.places == self.apart:
            return iter([self.apart])
        all_of = (APART, DEVICE, HOST)
        return product(*(all_of if place and i not in F else (APART,) for i, place in enumerate(label.places)))

    def following(self, label: Any, left: list[int], F: list[int], places: tuple[int, ...]) -> Any:
        """Lemma 3, where others are in these places after it."""
        block, K, kept = self.machine.block, {i: self.context(label, i) for i in F}, self.kept(label, places)
        room = (self.room - sum(blocks(each, block) for each in K.values())) * block
        rooms = self.rooms(places, kept, room)
        if rooms is None:
            return None
        S = max(label.time, *(label.ready[i] for i in F))
        moments = {S, *(label.ready[i] for i in left if label.time < label.ready[i] < S)}
        spend(20 * len(self.prices), "its potentials")
        before = [*label.worth]
        if label.places != places:  # what becomes apart; of F nothing does
            lost = tuple(
                was if i not in K and not now else APART
                for i, (was, now) in enumerate(zip(label.places, places, strict=True))
            )
            before = [*map(add, before, self.lows(lost, self.kept(label, lost)))]
        for at in moments:
            before = [*map(max, before, self.worths(label, at, left, self.apart))]
        rows, classes, alone = self.alike(tuple(left), tuple(F))
        less, whole = [K[i] - 1 for i in F], self.busy + self.one * len(F)
        low = self.lows(places, kept)
        each = zip(before, low, rows, strict=True)
        known = [worth + sure + y * whole + sum(map(mul, p, less)) for worth, sure, (y, p, _) in each]
        most = [-inf] * len(classes)  # with the batch and what v counts of those in a place, of all that are alike
        for worth, (_, _, one) in zip(known, rows, strict=True):
            if one is not None and worth > most[one]:
                most[one] = worth
        time = max(S, *(-(-most[one] // self.U) for one in alone))
        tokens = tuple(done + (i in K) for i, done in enumerate(label.tokens))
        ready = tuple(time + self.wait[i][label.tokens[i]] if i in K else at for i, at in enumerate(label.ready))
        over = {i for i in F if tokens[i] == len(self.fresh[i])}
        after = Known(label.ends + time * sum(self.rates[i] for i in over), time, tokens, ready, (), self.apart)
        stay = {i for i in F if i not in over and tokens[i] not in self.discards[i]}
        if self.has_places:
            after = after._replace(places=tuple(DEVICE if i in stay else at for i, at in enumerate(places)))
        others = tuple(
            self.context(label, i) - 1 - kept[i] if i in left and i not in K else 0 for i in range(len(tokens))
        )
        best = self.changed(most, self.changes(tuple(left), tuple(F), places), others, *rooms)
        last, gone = [i for i in left if i not in over], [K[i] if i in stay else 0 for i in F]
        worth = self.worths(after, time, last, after.places)
        for c, (_, p, one) in enumerate(rows):
            if one is not None and worth[c] > -inf:
                _, g, w, _, _ = self.prices[c]
                more = g * self.wait[w][label.tokens[w]] if w in K else 0
                worth[c] = max(worth[c], best[one] - low[c] + more - sum(map(mul, p, gone)))
        return after._replace(worth=tuple(worth))

    def changed(
        self, most: list[Any], changes: list[Changes], others: tuple[int, ...], room: Any, host: Any
    ) -> list[Any]:
        """What each class is worth as itself or another of its kind, less what v rises.

        What v rises by way of d is no less than at once: from d that k is as good as, either way, nothing is tried.
        """
        best, kept = [*most], list[int]()
        for c in sorted(range(len(most)), key=most.__getitem__, reverse=True):
            is_needed, of_c = True, changes[c]
            for k in kept:
                if most[k] <= best[c]:
                    break
                if gains := of_c[k]:
                    low, high = sorted(self.rises(gains, others, room, host))
                    best[c] = max(best[c], most[k] - low)
                    is_needed = is_needed and most[k] - high < most[c]
            if is_needed:
                kept.append(c)
        spend(10 * len(best) * len(kept), "its potentials")
        return best

    def covers(self, one: Any, other: Any) -> bool:
        """Whether one label says no more than another, which may have lost what one has in a place."""
        if one.ends > other.ends or one.time > other.time or not all(map(le, one.worth, other.worth)):
            return False
        ready = [(one.ready[i], other.ready[i], i) for i in self.left(one)]
        if not all(its <= others or (its < one.time and i not in self.waited) for its, others, i in ready):
            return False
        if one.places == other.places:
            return True
        those = [
            (k, i, a - 1, b - 1)
            for i, (k, a, b) in enumerate(zip(self.kept(one, one.places), one.places, other.places, strict=True))
            if a and a != b
        ]
        spend(30 * len(self.prices), "its potentials")
        return all(
            its + sum(k * max(0, pairs[i][a] - (pairs[i][b] if b >= 0 else 0)) for k, i, a, b in those) <= others
            for its, others, pairs in zip(one.worth, other.worth, self.pairs, strict=True)
        )


def gained(one: Any, other: Any, places: tuple[int, ...]) -> Gains:
    """What a token beyond k gains by one potential over another: on the device; on the host; on the device over it.

    Those on the host gain nothing on the device, and the other way round.
    """
    rows = [
        ((a - c) * (place != HOST), (b - d) * (place != DEVICE), i)
        for i, ((a, b), (c, d), place) in enumerate(zip(one, other, places, strict=True))
    ]
    there = [(dq, i) for _, dq, i in rows if dq > 0]
    device = [(dp, i) for dp, _, i in rows if dp > 0]
    moved = [(dp - max(0, dq), i) for dp, dq, i in rows if dp > max(0, dq)]
    return sorted(device, reverse=True), sorted(there, reverse=True), sorted(moved, reverse=True)


def greedy(gains: list[tuple[int, int]], limits: tuple[int, ...], room: Any) -> int:
    """The most that tokens gain in a room, of each request up to its limit."""
    total = 0
    for gain, i in gains:
        if limits[i] >= room:
            return total + gain * room if room else total
        room -= limits[i]
        total += gain * limits[i]
    return total


# --- What requests need not process themselves (docs/bounds.md, What others compute). ---------------------------------


def note_prefixes(instance: Box) -> Box:
    """The instance with each request's `prefix`, in tokens."""
    if not instance.contents:
        return instance
    b, ones = instance.machine.block, sorted(instance.requests, key=lambda one: one.arrival)
    paths = [[(id, place) for id, k in one.parts for place in range(k)] for one in ones]
    spend(20 * sum(map(len, paths)), "its paths")
    users = defaultdict(list)
    for i, path in enumerate(paths):
        for block in path:
            users[block].append(i)
    shortest = {block: min((ones[i].prompt - 1) // b for i in those) for block, those in users.items()}
    for i, (one, path) in enumerate(zip(ones, paths, strict=True)):
        not_charged = (
            k + 1
            for k, block in enumerate(path[: (one.prompt - 1) // b])
            if users[block][0] != i or shortest[block] <= k
        )
        one["prefix"] = Box(
            path=b * len(path),
            others=b * sum(len(users[block]) > 1 for block in path),
            earlier=b * sum(users[block][0] != i for block in path),
            free=b * max(not_charged, default=0),
        )
    return Box(instance, machine=Box(instance.machine, partial=True))  # a drop and a reuse are like a drop of a part


# --- Kind `shares` (docs/bounds.md, Shares of time). ------------------------------------------------------------------


PARTS = ("memory", "tokens", "prefill_tokens", "requests", "packing")


class Division:
    """How the time of a batch is divided: a weighted mean of lines, and the parts of its base that are shared."""

    def __init__(self, instance: Box, proof: Box) -> None:
        machine, lines = instance.machine, list(lines_of(instance.cost))
        if len(proof.functions) != len(lines) or sum(proof.functions) > 1024:
            raise Broken(f"functions: give {len(lines)} numbers, of 1024 at most together")
        self.machine, self.packs = machine, proof.packs
        weights = [Fraction(weight, 1024) for weight in proof.functions]
        self.line = {name: sum(map(mul, weights, (line[name] for line in lines))) for name in lines[0]}
        peaks = sum(peak(one) for one in instance.requests)
        L = limits_of(machine)["device"]
        some = instance.contents or machine.layout  # several may process what is held once, or windows hold less
        held = L * machine.block if L and not some else peaks
        self.P = min(peaks, prefill_budget(machine) or peaks, held)
        self.limits = limits_of(machine) | {"prefill_tokens": self.P, "memory": L, "packing": L}
        self.part = {name: Fraction(proof[name], 1024) for name in PARTS}
        if sum(self.part.values()) > 1 or any(part and not self.limits[name] for name, part in self.part.items()):
            raise Broken("the parts are above 1024 together, or of what has no limit")

    def tariff(self, line: Line) -> Tariff:
        """Of a line, the share of a token: what work costs, and the parts of `base` and of `prefill` that it takes."""
        each = {name: line["base"] * part / self.limits[name] if part else 0 for name, part in self.part.items()}
        p = {name: line.get(name, 0) for name in (*WORK, "prefill")}
        for name, part in (("tokens", "tokens"), ("decode_requests", "requests"), ("prefill_requests", "requests")):
            p[name] += each[part]
        p["prefill_token"] = each["prefill_tokens"] + Fraction(p["prefill"]) / self.P
        p |= {"prefill": 0, "block": each["memory"], "packed": line["base"] * self.part["packing"]}
        return Tariff(self.machine, p, self.packs)


def shares(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `shares`: what runs together in a batch shares its time, and time runs once."""
    division, ticks = Division(instance, proof), ticks_of(instance)
    tariff = division.tariff(division.line).least
    works = [Work(one, instance.machine, ticks, tariff, most=MOST_OF.get(objective)) for one in instance.requests]
    if objective == "busy-time":
        return max(shared_batches(instance, division), *(sum(work.d) for work in works))
    half, total, jobs = Fraction(least_step(instance), 2), Fraction(0), list[Job]()
    density: dict[int, Fraction] = {}
    for i, work in enumerate(works):
        rate = RATES[objective](work.one)
        if not any(work.share):
            total += rate * work.chain
            continue
        density[i] = rate / Fraction(sum(work.share))
        total += rate * (half - work.one.arrival)
        total += density[i] * sum(map(mul, work.share, work.tail))
        each = zip(work.release, work.share, strict=True)
        jobs += [(work.one.arrival + release, share, -density[i], i) for release, share in each if share]
    for _, i, begin, end, unit in served(jobs):  # the integral of t over the time at which its work is done
        total += density[i] * Fraction(end**2 - begin**2, 2 * unit**2)
    return total


def shared_batches(instance: Box, division: Division) -> int:
    """Busy time: the prices of all work, base for each batch, and prefill for each that the prefill tokens need."""
    machine, line, parts = instance.machine, division.line, division.tariff({"base": 1}).least
    prices, prefill, batch = (
        Tariff(machine, each).least for each in (line | {"prefill": 0}, {"prefill_token": 1}, {"batch": 1})
    )
    works = [Work(one, machine, batch, parts, calls=False) for one in instance.requests]
    jobs = [(*job, 0) for work in works for job in zip(work.release, work.share, map(neg, work.tail), strict=True)]
    ends = (Fraction(end, unit) - rank for rank, _, _, end, unit in served(jobs))  # with the largest tail first
    batches = max(ceil(max(ends)), *(work.chain for work in works))
    tokens = [token for work in works for token in work.tokens]
    filled = ceil(sum(map(prefill, tokens)) / division.P)
    return ceil(sum(map(prices, tokens)) + line["base"] * batches + line["prefill"] * filled)


# --- Kind `speed` (docs/bounds.md, Speed has a price). ----------------------------------------------------------------


Pieces = list[tuple[int, int]]  # (price, room)


def speed(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `speed`: while a batch of length D runs, each request in it pays for its work by its speed, and fees.

    For total-ttft there is no token but the first.
    """
    if sorted(set(proof.ratios)) != proof.ratios:
        raise Broken("the ratios do not increase")
    if any(len(line.price) > len(proof.price) for line in proof.lines):
        raise Broken("a line has prices of more slots than the first")
    ticks, division = ticks_of(instance), Division(instance, proof)
    tariff, base = division.tariff(division.line), division.line["base"]
    batches = Batches(proof, base, base * (1 - sum(division.part.values())))
    rows = [other_line(instance, proof, line) for line in proof.lines]
    start, alike = min(one.arrival for one in instance.requests), dict[str, list[Box]]()
    total = -proof.slot * sum(sum(each.price) for each in (batches, *(row for row, _ in rows)))
    for one in instance.requests:
        alike.setdefault(one.id if instance.contents else but_id(one), []).append(one)
    for those, a in zip(alike.values(), parts_of_fixed(alike.values(), proof, start), strict=True):
        work = Work(those[0], instance.machine, ticks, tariff.least, most=MOST_OF.get(objective))
        if rows:  # only the last batch of tokens after the first is looked at
            work.share[1:] = map(tariff.last, work.tokens[1:])
        first, *later = work.tokens
        lines = [(row, other.least(first), min(map(other.last, later), default=Fraction(0))) for row, other in rows]
        rate = int(RATES[objective](those[0]) * proof.scale)
        total += len(those) * batches.least(those[0].arrival - start, rate, work, a, lines)
    return Fraction(total) / proof.scale


def other_line(instance: Box, proof: Box, line: Box) -> tuple[Batches, Tariff]:
    """Of another line with prices: its batches, and what work costs in it."""
    division = Division(instance, Box(proof, **dict.fromkeys(PARTS, 0), functions=line.functions))
    price, base = line.price + [0] * (len(proof.price) - len(line.price)), division.line["base"]
    return Batches(Box(proof, ratios=[], fee=1024, price=price), base, base), division.tariff(division.line)


def parts_of_fixed(groups: Collection[list[Box]], proof: Box, start: int) -> list[dict[int, Fraction]]:
    """a: by group of like requests and slot, each one's part of what is fixed in a batch. `fees` are weights."""
    if proof.fees and len(proof.fees) != len(groups):
        raise Broken("fees: give a list for each group of requests that differ in their ids only, or none")
    rows, together = list[dict[int, int]](), Counter[int]()
    for those, row in zip(groups, proof.fees or [[] for _ in groups], strict=True):  # in the order of the first of each
        arrival = (those[0].arrival - start) // proof.slot
        rows.append({arrival + k: weight for k, weight in enumerate(row) if weight})
        for s, weight in rows[-1].items():
            together[s] += weight * len(those)
    return [{s: Fraction(weight, together[s]) for s, weight in row.items()} for row in rows]


Priced = tuple["Batches", Fraction, Fraction]


class Batches:
    """Of length at least F, f of it shared by none, and the prices of work in slots of time."""

    def __init__(self, proof: Box, F: Amount, f: Amount) -> None:
        self.F, self.f, self.ordered, self.fee = F, f, proof.ordered, Fraction(proof.fee, 1024)
        self.slot, self.cells, self.price = proof.slot, proof.cells, proof.price
        self.level = Fraction(proof.level, 1024)
        self.ratios = [Fraction(1), *(Fraction(ratio, 64) for ratio in proof.ratios)]
        self.pieces = cache(self.in_pieces)

    def in_pieces(self, w: Amount, least: Amount = 0) -> tuple[Pieces, int, Pieces]:
        """What speed costs a token of work w where the price is 1, in units of 1 / ONE.

        (Price, room in a tick) by piece; the room of all; and (time, price) for a token in the pieces up to each.
        """
        most, x, paid = Fraction(1) / max(Fraction(1), self.F, self.f + w, least), Fraction(0), Fraction(0)
        pieces, last = Pieces(), Pieces()
        for g, following in zip(self.ratios, [*self.ratios[1:], None], strict=True):
            end = most if following is None or not self.f else min(most, (1 - 2 / (g + following)) / self.f)
            if end > x:
                price, width = w * ((1 - self.fee) * g * g + self.fee), end - x
                x, paid = end, paid + price * width
                pieces.append((int(ONE * price), ceil(ONE * width)))
                last.append((int(ONE / x), int(ONE * paid / x)))
        return pieces, ceil(ONE * x), last

    def least(self, r: int, rate: int, work: Work, a: dict[int, Fraction], lines: list[Priced]) -> Fraction:
        """The least of rate times the flow time plus what a request pays; `r` is its arrival, `a` its parts of f.

        `lines` are others with prices, with its work for the first token and the least for another in them.
        Sums of what is paid are whole numbers of 1 / ONE: prices and tokens are rounded down, and what has room up.
        """
        slot, S, w, others, chain = self.slot, len(self.price), work.share[0], work.share[1:], work.chain
        best: Any = inf
        begin = r + work.d[0] if others else r
        rest = r + chain - begin  # what is left at the least when `others` may begin
        level = min(others) + self.level * (max(others) - min(others)) if others else w
        count = sum(min(Fraction(1), each / level) if level else 1 for each in others) if others else 1
        more = sorted((int(ONE * (each / level - 1)) for each in others if each > level), reverse=True) if level else []
        fees = {s: int(ONE * self.fee * self.f * part) for s, part in a.items()}
        heads = [Tokens(row, each, 1, r) for row, each, _ in lines]
        heads += [Tokens(self, w, 1, r, fees)] if others else []
        ordered, rate, later = self.ordered and bool(others), rate * ONE, work.chain - work.d[0]
        besides = [(row, each) for row, _, each in lines if others]
        known = [0] * (S + 1)  # what the others pay at the least, by the slot of the end: no less if they begin later
        for ready, close in self.firsts(begin) if ordered else [(begin, None)]:
            if rate * (ready + rest - r) >= best:
                break
            fixed = all_by(heads, close) if close else 0
            if fixed is None:
                continue
            tail, growth = Tokens(self, level, count, ready, fees, besides), Tokens(self, level, len(more), ready)
            for s in range(min(ready // slot, S), S + 1):
                end, time = (s + 1) * slot, rate * (max(s * slot, ready) - r) + fixed
                if time >= best:
                    break
                if (s < S and end < ready + rest) or time + known[s] >= best:
                    continue
                early = all_by(heads, end - later) if not ordered and s < S else 0
                timed = tail.ending(s, self.price[s] if s < S else 0, rate)
                known[s] = max(known[s], timed or 0)
                if early is not None and timed is not None and time + timed + early < best:
                    best = min(best, time + timed + early + (growth.heaviest(s, more) if more and s < S else 0))
        return Fraction(max(best if best < inf else 0, rate * chain), ONE)

    def firsts(self, begin: int) -> Iterator[tuple[int, int | None]]:
        """When the first token comes, none before `begin`: from and before a tick (None: after all slots), by cell."""
        slot, n, S = self.slot, self.cells, len(self.price)
        for k in range(min(begin // slot, S) * n, S * n):
            if -(-slot * (k + 1) // n) > begin:
                yield max(begin, slot * k // n), -(-slot * (k + 1) // n)
        yield max(begin, S * slot), None


def all_by(heads: list[Tokens], tick: int) -> int | None:
    """What all of these tokens pay if they are done by a tick; None: too early for one."""
    paid = [head.by(tick) for head in heads]
    return None if None in paid else sum(filter(None, paid))


class Tokens:
    """Parts of tokens of work w that none begins before `begin`, each at the cheapest speeds.

    `fees`: what one pays in a slot for the part of f that is its own, where the price is 1. `besides`: its work in
    other lines, which have prices of their own.
    """

    def __init__(
        self, batches: Batches, w: Amount, count: Amount, begin: int, fees: dict[int, int] | None = None,
        besides: Sequence[tuple[Batches, Amount]] = (),
    ) -> None:  # fmt: skip
        self.batches, self.count, self.begin, self.fees = batches, int(count * ONE), begin, fees or {}
        self.done, self.found, self.besides = begin // batches.slot, Pieces(), besides  # `found`: before slot `done`
        self.pieces, self.widest, self.last = batches.pieces(w, max((row.F + each for row, each in besides), default=0))

    def ticks(self, s: int, end: int) -> int:
        """How many ticks of slot s there are for them, up to a tick in it."""
        return max(0, end - max(self.begin, s * self.batches.slot))

    def pass_by(self, s: int) -> None:
        """Take in all slots before s, as (price, room), and forget what is beyond the count."""
        for each in range(self.done, s):
            self.found = self.cheapest(self.offer(each, (each + 1) * self.batches.slot))
        self.done = max(self.done, s)

    def offer(self, s: int, end: int) -> Pieces:
        """The pieces of slot s, as (price, room), up to a tick in it."""
        ticks, price, fee = self.ticks(s, end), self.batches.price[s], self.fees.get(s, 0)
        more = self.more(s) if ticks else 0
        return [(price * (cost + fee) + more, width * ticks) for cost, width in self.pieces] if ticks else []

    def more(self, s: int) -> int:
        """What a token pays in other lines in slot s."""
        return int(ONE * sum(row.price[s] * each for row, each in self.besides)) if s < len(self.batches.price) else 0

    def cheapest(self, more: Pieces) -> Pieces:
        """The cheapest of what was found and of more pieces, as many as have room for the count."""
        spend(10 * (1 + len(self.found) + len(more)), "its prices")
        pieces = sorted(self.found + more)
        return pieces[: bisect_left(list(accumulate(room for _, room in pieces)), self.count) + 1]

    def paid(self, more: Pieces) -> int | None:
        """What they pay with these pieces, too; None: there is too little room."""
        pieces = self.cheapest(more)
        over = sum(room for _, room in pieces) - self.count
        return None if over < 0 else (sum(price * room for price, room in pieces) - pieces[-1][0] * over) // ONE

    def by(self, tick: int) -> int | None:
        """What they pay if they are done by a tick; None: too early."""
        s = min(max(0, tick // self.batches.slot), len(self.batches.price))
        self.pass_by(s)
        return self.paid(self.offer(s, tick) if s < len(self.batches.price) else [])

    def ending(self, s: int, price: int, rate: int) -> int | None:
        """What they pay if the last is done in slot s, where a tick up to it costs `rate`; None: too little room."""
        self.pass_by(s)
        each = min(rate * time // ONE + price * paid for time, paid in self.last) + price * self.fees.get(s, 0)
        each += self.more(s)
        most = self.widest * self.ticks(s, (s + 1) * self.batches.slot)
        return self.paid([(each, most if s < len(self.batches.price) else self.count)])

    def heaviest(self, s: int, more: list[int]) -> int:
        """What work beyond w pays by the end of slot s: one after the other, at the lowest price that has room left."""
        self.pass_by(s + 1)
        spend(len(self.found) + len(more), "its prices")
        paid = room = k = 0
        for price, width in self.found:
            room += width
            while k < len(more) and k * ONE < room:
                paid, k = paid + price * more[k], k + 1
        return paid // ONE


# --- Kind `late-windows` (docs/bounds.md, Too much for a window). -----------------------------------------------------


def late_windows(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `late-windows`: of those whose work is due in a window, more than fits into it, some are late."""
    if any(s > t for s, t, *_ in proof.rows):
        raise Broken("a window ends before it begins")
    division, ticks, late, due = Division(instance, proof), ticks_of(instance), 0, []
    tariff = division.tariff(division.line).least
    for one in instance.requests:
        work, slo, o = Work(one, instance.machine, ticks, tariff), one.slo or {}, output(one)
        if is_late(one, work.d[0], work.chain):
            late += 1
            continue
        limit = {name: inf if slo.get(name) is None else slo[name] for name in ("ttft", "latency")}
        spans = [limit["latency"]]
        if slo.get("tpot") is not None:
            spans.append(limit["ttft"] + slo["tpot"] * (o - 1) // 1)
        if slo.get("normalized_latency") is not None:
            spans.append(slo["normalized_latency"] * o // 1)
        d = one.arrival + min(spans)
        e = min(one.arrival + limit["ttft"], d - (work.chain - work.d[0]))
        due.append((one.arrival, e, d, Fraction(work.share[0]), Fraction(sum(work.share))))
    gained, g = 0, [0] * len(due)
    for s, t, y, z in proof.rows:
        spend(20 * len(due), "its windows")
        w = [(W if d <= t else F if e <= t else 0) if r >= s else 0 for r, e, d, F, W in due]
        if (X := sum(w) - (t - s)) > 0:
            k = bisect_left(list(accumulate(sorted(w, reverse=True))), X) + 1
            gained += ONE * (y + z * k)
            paid = (y * ceil(ONE * min(amount, X) / X) + z * ONE * (amount > 0) for amount in w)
            g = list(map(add, g, paid))
    spared = sum(max(0, each - ONE * 2**20) for each in g)
    return late + Fraction(max(0, gained - spared), ONE * 2**20)


# --- Kind `late-tail` (docs/bounds.md, Percentiles). ------------------------------------------------------------------


INSIDE = {"enumeration": enumerated, "events": exhaustive, "late-windows": late_windows}


def late_tail(instance: Box, proof: Box, objective: str) -> Amount:
    """Kind `late-tail`: if all had to be on time `within` ticks, more would be late than the percentile spares."""
    slo = {"ttft" if tail_of(objective)[2] == "ttft" else "latency": proof.within}
    due = Box(instance, requests=[Box(one, slo=slo) for one in instance.requests])
    may, function = spared(objective, len(due.requests)), INSIDE[proof.proof.kind]
    return proof.within + 1 if function(due, Box(proof.proof, claim=may + 1), "late-requests") > may else 0


# --- Certificates (docs/certificates.md): the table of kinds, and what a file proves. ---------------------------------


part, price = integer(0, 1024), integer(0, 2**50)
DIVISION = {"functions": [part], "packs": (integer(1), 1), **dict.fromkeys(PARTS, (part, 0))}
SLOTS = {"since": (integer(0, 2**16), 0), **dict.fromkeys(RESOURCES, ([price], []))}
BRANCH = {"request": text, "segment": number, "slot": integer(0, 2**16)}
SPEED = {
    **DIVISION, "slot": integer(1), "scale": integer(1), "price": [price], "level": (part, 0),
    "cells": (integer(1, 64), 1), "ratios": ([integer(65)], []), "ordered": (switch, False), "within": (number, 0),
    "fee": (part, 0), "fees": ([[number]], []), "lines": ([{"functions": [part], "price": ([price], [])}], []),
}  # fmt: skip
CONFIGURATIONS = {
    "scale": (integer(1), 1), "memory": [number], "starts": [optional(integer(-inf))],
    "target": (optional(integer(1)), None), "tries": (integer(0, 10**9), 0),
}  # fmt: skip
EVENTS = {"states": integer(1), "target": (optional(integer(0, 2**60)), None), "free_drops": (switch, False)}
weight, amount = integer(0, 2**20), integer(0, 2**58)
POTENTIAL = {
    "compute": weight, "wait": (weight, 0), "request": (optional(number), None), "device": [amount], "host": [amount],
}  # fmt: skip
SEARCH = {
    "target": integer(1), "scale": integer(1, 2**30), "prices": [SLOTS], "strict": (switch, False),
    "states": integer(0, 4 * 10**6), "tries": integer(0, 10**9),
}  # fmt: skip
WITH_CONTENTS = {"alone", "enumeration", "shares", "late-windows", "late-tail", "speed"}
WITH_LAYOUT = {"alone", "enumeration", "shares", "speed"}
none = check(lambda value: value == [], "an empty list: more is not checked here")


def window(value: Any, where: str) -> Any:
    """Start and end of a window, and the weights of its two inequalities."""
    row = shaped(value, [number], where)
    if len(row) != 4:
        raise Bad(f"{where}: give start, end and two weights")
    return row


def windows(value: Any, where: str) -> Any:
    """The proof inside one of kind `late-tail`."""
    value = proof(value, where)
    if value.kind not in INSIDE:
        raise Bad(f"{where}: give windows or a search")
    return value


def cases(value: Any, where: str) -> Any:
    """Prices of slots, or branches to several."""
    if isinstance(value, list):
        return [
            shaped(each, BRANCH if isinstance(each, dict) and "request" in each else SLOTS, where) for each in value
        ]
    return shaped(value, SLOTS, where)


IN_ORDER = {
    "line": (number, 0), "packs": (integer(0, 1000), 0), "most": (integer(1, 2**20), 1), "scale": integer(1, 2**30),
    "price": [price],
}  # fmt: skip
POTENTIALS = {
    "function": (number, 0), "moves": (number, 0), "places": (switch, False), "scale": integer(1, 2**20),
    "potentials": [POTENTIAL],
    "in_order": ([{"kind": one_of("in-order"), **IN_ORDER}], []), "labels": integer(1),
    "target": (optional(amount), None),
}  # fmt: skip
KINDS: dict[str, tuple[Callable[[Box, Box, str], Amount], dict[str, Any], tuple[str, ...]]] = {
    # a proof's function, its keys, and the objectives for which it is checked
    "alone": (alone, {}, (*OBJECTIVES, TAIL)),
    "shares": (shares, {**DIVISION, "alone": (none, []), "windows": (none, [])}, ("busy-time", *RATES)),
    "late-windows": (late_windows, {**DIVISION, "rows": ([window], [])}, ("late-requests",)),
    "late-tail": (late_tail, {"within": number, "proof": windows}, (TAIL,)),
    "slot-dual": (slot_dual, {"scale": integer(1, 2**40), "prices": cases}, tuple(RATES)),
    "speed": (speed, SPEED, tuple(RATES)),
    "configurations": (configurations, CONFIGURATIONS, ("total-flow-time",)),
    "events": (exhaustive, EVENTS, (*PLAIN, "total-flow-time")),
    "enumeration": (enumerated, {"states": integer(1)}, OBJECTIVES),
    "in-order": (in_order, IN_ORDER, tuple(RATES)),
    "pairs": (pairs, {}, tuple(RATES)),
    "potentials": (potentials, POTENTIALS, tuple(RATES)),
    "slots": (slots, SEARCH, ("makespan", "busy-time", "max-flow-time", *RATES)),
}


def proof(value: Any, where: str) -> Box:
    """A proof of any kind."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise Bad(f"{where}: no proof of kind {kind!r} is checked here")
    return shaped(value, {"kind": text, **KINDS[kind][1]}, where)


named = check(
    lambda value: isinstance(value, str) and (value in OBJECTIVES or tail_of(value)),
    f"one of {', '.join((*OBJECTIVES, TAIL))}",
)
certificate_file = headed("certificate") | {
    "instance_sha256": text, "objective": named, "bound": claim, "proof": proof,
    **dict.fromkeys(("why", "horizon", "made_by"), (text, "")),
}  # fmt: skip


def prove(instance: Box, proof: Box, objective: str) -> Amount:
    """The lower bound that the numbers of a proof give, whatever they are; Broken where its argument does not hold."""
    function, _, objectives = KINDS[proof.kind]
    if (TAIL if tail_of(objective) else objective) not in objectives:
        raise NotChecked(f"a proof of kind {proof.kind} is not checked here for {objective}")
    kinds = {proof.kind, proof.get("proof", proof).kind}
    if instance.machine.drop_and_work and kinds != {"alone"}:
        raise NotChecked(f"a proof of kind {proof.kind} is not checked here with drop_and_work")
    if instance.contents and not kinds <= WITH_CONTENTS:
        raise NotChecked(f"a proof of kind {' '.join(sorted(kinds - WITH_CONTENTS))} is not checked here with contents")
    if instance.machine.layout and not kinds <= WITH_LAYOUT:
        raise NotChecked(f"a proof of kind {' '.join(sorted(kinds - WITH_LAYOUT))} is not checked here with a layout")
    return function(instance if "enumeration" in kinds else note_prefixes(instance), proof, objective)


def verify_certificate(instance: Box, data: Any) -> tuple[str, Amount]:
    """What a certificate proves; Broken if that is less than it claims."""
    certificate = shaped(data, certificate_file, "certificate")
    objective = certificate.objective
    if certificate.instance_sha256 != sha256(instance):
        raise Broken("the certificate is for another instance (or for this one with its calls freed)")
    spent[0] = 0
    if sum(map(output, instance.requests)) > MOST_TOKENS:
        raise NotChecked(f"bounds of more than {MOST_TOKENS} output tokens are not checked")
    bound = prove(instance, Box(certificate.proof, claim=certificate.bound), objective)
    bound = bound if objective in AVERAGES else ceil(bound)  # all other values are whole numbers
    if bound < certificate.bound:
        raise Broken(f"it claims {certificate.bound}, but proves {bound} only")
    return objective, bound


# --- The command: an instance with a schedule or a certificate, or every record of the library. -----------------------


def held(path: Path, claimed: object, objective: str, kind: str) -> Any:
    """What a record claims: with the claim in its name, while it is not yet in its place."""
    new = path.with_name(f".{path.stem}.{objective}.{kind}.{claimed}.json.gz".replace("/", "_"))
    return load(new if new.exists() else path.with_name(f"{path.stem}.{objective}.{kind}.json.gz"))


def matches(pattern: str) -> Shape:
    """The shape of a text of a pattern."""
    return check(lambda value: isinstance(value, str) and re.fullmatch(pattern, value), f"a text like {pattern}")


seconds = check(lambda value: type(value) in (int, float) and 0 <= value < inf, "a number of seconds")
made = optional({"by": text, "how": text, "seconds": seconds, "date": matches(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")})
best = {
    **dict.fromkeys(("value", "bound"), (optional(ratio), None)), "status": (one_of("solved", "open"), "open"),
    **dict.fromkeys(("schedule", "certificate"), (made, None)),
}  # fmt: skip
record_file = headed("record") | {
    **dict.fromkeys(("name", "family"), matches("[A-Za-z0-9-]{1,100}")),
    **dict.fromkeys(("source", "origin", "licence", "instance_sha256"), text),
    "requests": integer(1), "calls": number, "objectives": {str: best},
}  # fmt: skip


def check_record(path: Path) -> str:
    """Check what a record of the library (docs/library.md) claims; return what was checked, in words."""
    data = load(path)
    record = shaped(data, record_file, "record")
    instance = read_instance(load(path.with_name(f"{path.stem}.instance.json.gz")))
    calls = sum(len(one.segments) - 1 for one in instance.requests)
    if (record.family, record.name) != (path.parent.name, path.stem):
        raise Broken(f"it says that it is {record.family}/{record.name}")
    if (record.instance_sha256, record.requests, record.calls) != (sha256(instance), len(instance.requests), calls):
        raise Broken("it is of another instance")
    if not record.objectives or record.objectives.keys() - set(OBJECTIVES):
        raise Broken(f"its objectives are {list(record.objectives)}")
    done, known = [], {f"{path.stem}.instance.json.gz"}
    for objective, claimed in record.objectives.items():
        written = data["objectives"][objective]
        for kind, value in (("schedule", claimed.value), ("certificate", claimed.bound)):
            known |= {f"{path.stem}.{objective}.{kind}.json.gz"} if value is not None else set()
            if (value is None) != (claimed[kind] is None):
                raise Broken(f"{objective}: it has a {kind} and no value of it, or a value and no {kind}")
        if claimed.value is not None:
            value = verify_schedule(instance, held(path, written["value"], objective, "schedule"))[objective]
            if value != claimed.value:
                raise Broken(f"{objective}: the schedule has {value}, the record says {claimed.value}")
        if claimed.bound is not None:
            said = held(path, written["bound"], objective, "certificate")
            of, _ = verify_certificate(instance, said)
            bound = claim(said["bound"], "bound")
            if (of, bound if of in AVERAGES else ceil(bound)) != (objective, claimed.bound):
                raise Broken(f"{objective}: the certificate claims {of} >= {said['bound']}, not {claimed.bound}")
        if (claimed.status == "solved") != (claimed.value is not None and written["value"] == written.get("bound")):
            raise Broken(f"{objective}: it is called {claimed.status} with {claimed.value} and bound {claimed.bound}")
        done.append(f"{objective} {claimed.value} >= {claimed.bound}")
    for each in path.parent.glob(f"{path.stem}.*.gz"):
        if each.name not in known:
            raise Broken(f"no objective of it has the file {each.name}")
    return ", ".join(done)


def check_all(folder: str) -> int:
    """Check every record below a folder; the exit code."""
    wrong, records = 0, sorted(path for path in Path(folder).rglob("*.json") if path.name.count(".") == 1)
    if not records:
        raise Bad(f"{folder}: there is no record below it")
    names = Counter(path.stem for path in records)
    for path in records:
        try:
            if names[path.stem] > 1:
                raise Broken("two records have this name")
            print(f"{path.stem}: {check_record(path)}", flush=True)
        except (Bad, Broken, RecursionError, MemoryError) as error:
            wrong += 1
            what = "NOT CHECKED" if isinstance(error, NotChecked | MemoryError) else "WRONG"
            print(f"{path.stem}: {what}: {error or 'there is too little memory'}", flush=True)
    print(f"{len(records)} records, {wrong} of them wrong or not checked")
    return int(wrong > 0)


def main(arguments: list[str]) -> int:
    """Run the command; the exit code."""
    try:
        if len(arguments) == 2 and arguments[0] == "--all":
            return check_all(arguments[1])
        if len(arguments) != 2:
            print(__doc__, file=sys.stderr)
            return 2
        instance, data = read_instance(load(arguments[0])), load(arguments[1])
        if isinstance(data, dict) and ("proof" in data or data.get("format") == "kvbound-certificate"):
            objective, bound = verify_certificate(instance, data)
            print(f"valid: {objective} is at least {bound}")
        else:
            for objective, value in verify_schedule(instance, data).items():
                print(f"{objective} {value}")
    except Broken as error:
        print(f"{'not checked' if isinstance(error, NotChecked) else 'invalid'}: {error}")
        return 1
    except (Bad, RecursionError) as error:
        print(error, file=sys.stderr)
        return 2
    except MemoryError:
        print("not checked: there is too little memory")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
