"""Check a schedule or a certificate of kvbound without kvbound: one file, the standard library, exact numbers.

    python library/check.py INSTANCE.json SCHEDULE.json       execute it; print its objectives, or the first broken rule
    python library/check.py INSTANCE.json CERTIFICATE.json    recompute its bound
    python library/check.py --all library/                    every record of the library

Files may end in .gz. Exit code 0: valid; 1: a rule is broken, or a claim is not proved; 2: no such file, or bad input.

It is written from the documentation (docs/semantics.md, formats.md, certificates.md, bounds.md, start_time.md,
coarsening.md, the head of kvcore/certificates/evictions.py), whose symbols it uses, and shares no code with kvbound, so
that an error in one is no error in the other. It is slow, sets no limit on time and memory, and rounds nothing before
the end: it may prove more than kvbound, which rounds on the way; less only by that rounding of shares. Kind
`exhaustive` is left out.
"""

# mypy: ignore-errors
# ruff: noqa: B905, C408, D102, D103, E741
# fmt: off

import gzip
import hashlib
import heapq
import json
import re
import sys
from collections import namedtuple
from fractions import Fraction
from functools import cache
from itertools import accumulate, zip_longest
from math import ceil, lcm
from pathlib import Path

MOST = 10**15
SUMS = ("total-flow-time", "weighted-flow-time", "total-ttft", "late-requests", "normalized-latency")
OBJECTIVES = ("makespan", "busy-time", "max-flow-time", *SUMS)


class Bad(Exception):
    """The input is not what docs/formats.md asks for: exit code 2."""


class Box(dict):
    """An object of a file; its keys are attributes, too."""

    __getattr__ = dict.__getitem__


class Broken(Exception):
    """A rule is broken, or a claim is not proved: exit code 1."""

    def __init__(self, detail, rule=None, batch=None, request=None):
        where = f", request {request}: " if request else ": "
        super().__init__(detail if rule is None else f"R{rule} is broken in batch {batch}{where}{detail}")
        self.rule, self.batch, self.request = rule, batch, request


# --- files (docs/formats.md, docs/schemas.md): a check takes a value and where it stands, and gives what it means -----


def check(test, what):
    """A value as it is, if it passes a test."""
    def checked(value, where):
        if not test(value):
            raise Bad(f"{where}: give {what} (it is {value!r})")
        return value
    return checked


def integer(least, most=MOST):
    return check(lambda value: type(value) is int and least <= value <= most, f"an integer from {least} to {most}")


def one_of(*values):
    return check(lambda value: (type(value), value) in [(type(known), known) for known in values], f"one of {values}")


def text(least, most):
    return check(lambda value: isinstance(value, str) and least <= len(value) <= most and value.isprintable(),
                 f"{least} to {most} printable characters")


def fraction(positive, longest):
    """A fraction in text; a positive one may be an integer, and has numbers of at most 10^15."""
    def checked(value, where):
        given = str(value) if positive and type(value) is int else value
        if isinstance(given, str) and len(given) <= longest and re.fullmatch("-?[0-9]+(/0*[1-9][0-9]*)?", given):
            number = Fraction(given)
            if not positive or (number > 0 and max(number.numerator, number.denominator) <= MOST):
                return number
        raise Bad(f"{where}: give {'a positive' if positive else 'a'} whole number, or a fraction in text")
    return checked


def optional(check):
    return lambda value, where: None if value is None else check(value, where)


def list_of(check, least=0, most=MOST):
    def checked(value, where):
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise Bad(f"{where}: give a list of {least} to {most} items")
        return [check(item, f"{where}[{index}]") for index, item in enumerate(value)]
    return checked


def map_of(check):
    def checked(value, where):
        if not isinstance(value, dict):
            raise Bad(f"{where}: give an object")
        return {key: check(item, f"{where}.{key}") for key, item in value.items()}
    return checked


def record(**fields):
    """An object with these keys: each is a check, and what stands for it if it is left out (none: it is required)."""
    def checked(value, where):
        if not isinstance(value, dict) or value.keys() - fields.keys():
            raise Bad(f"{where}: give an object with no other keys than {', '.join(fields)}")
        result = Box()
        for key, (check, *default) in fields.items():
            if key not in value and not default:
                raise Bad(f"{where}: {key} is missing")
            result[key] = check(value.get(key, *default), f"{where}.{key}")
        return result
    return checked


words = check(lambda value: isinstance(value, str), "a text")
switch = one_of(True, False)
limit = optional(integer(1))
ratio = fraction(True, 40)
claim = fraction(False, 400)
WORK = ("tokens", "generated", "decode_requests", "prefill_requests", "decode_kv", "prefill_kv", "prefill_pairs")
SWAPS = ("swap_out_tokens", "swap_in_tokens", "swap_outs", "swap_ins")
COEFFICIENTS = ("busy", "any_decode", "any_prefill", *WORK, *SWAPS)
hinge = record(knee=(integer(0),), coefficient=(integer(0),))
cost_function = record(
    divisor=(integer(1), 1), tokens_above=(optional(hinge), None), **{name: (integer(0), 0) for name in COEFFICIENTS}
)
machine = record(
    memory=(limit,), block=(integer(1), 1), host_memory=(optional(integer(0)), 0), batch_tokens=(limit, None),
    prefill_tokens=(limit, None), batch_requests=(limit, None), hybrid=(switch, True), chunked=(switch, True),
    evict=(switch, False), partial=(switch, False), pause=(switch, True),
)
handling = one_of("preserve", "discard", "swap", "free")
call = record(duration=(integer(0),), returns=(integer(0), 0), handling=(handling, "free"))
slo = record(ttft=(optional(integer(0)), None), latency=(optional(integer(0)), None), tpot=(optional(ratio), None),
             normalized_latency=(optional(ratio), None))
request = record(
    id=(text(1, 200),), arrival=(integer(0), 0), prompt=(integer(1),), weight=(integer(1), 1), max_new=(limit, None),
    slo=(optional(slo), None), segments=(list_of(record(decode=(integer(1),), call=(optional(call), None)), 1),),
)
offsets = map_of(integer(-MOST))
coarsening = record(
    direction=(one_of("relax", "restrict"),), block_tokens=(integer(1),), slot_ticks=(integer(1),),
    headroom_ticks=(integer(0), 0), fine_tick_seconds=(ratio,),
    completion_offset=(offsets, {}), flow_offset=(offsets, {}),
)
instance_file = record(
    format=(one_of("kvbound-instance"), "kvbound-instance"), version=(one_of(1), 1), name=(text(0, 200), "instance"),
    tick_seconds=(ratio, 1), machine=(machine,), cost=(list_of(cost_function, 1), [{"busy": 1}]),
    requests=(list_of(request, 1),), coarsening=(optional(coarsening), None),
)
amounts = map_of(integer(-MOST))
batch = record(start=(integer(-MOST),), work=(amounts, {}), drop=(amounts, {}), swap_out=(amounts, {}),
               swap_in=(amounts, {}), repeat=(integer(1, 10**9), 1))
schedule_file = record(
    format=(one_of("kvbound-schedule"), "kvbound-schedule"), version=(one_of(1), 1),
    instance_sha256=(words,), batches=(list_of(batch),),
)


def load(path, floats=False):
    """Read a JSON file, refusing what docs/formats.md refuses."""
    def unique(pairs):
        if len(dict(pairs)) < len(pairs):
            raise Bad(f"{path}: a key stands twice in one object")
        return dict(pairs)

    def no_float(text):
        raise Bad(f"{path}: {text} is no integer")

    try:
        with (gzip.open if str(path).endswith(".gz") else open)(path, "rb") as file:
            return json.loads(file.read(), object_pairs_hook=unique, parse_float=float if floats else no_float,
                              parse_constant=no_float)
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise Bad(f"{path}: {error}") from None


def read_instance(data):
    """The instance with all defaults written out; Bad if a request can never fit (docs/semantics.md, Requests)."""
    instance = instance_file(data, "instance")
    device = instance.machine
    memory, block, host = device.memory, device.block, device.host_memory
    if None not in (device.batch_tokens, device.prefill_tokens) and device.prefill_tokens > device.batch_tokens:
        raise Bad("prefill_tokens is above batch_tokens")
    if len({one.id for one in instance.requests}) < len(instance.requests):
        raise Bad("two requests have the same id")
    for one in instance.requests:
        if any((segment.call is None) != (segment is one.segments[-1]) for segment in one.segments):
            raise Bad(f"{one.id}: every segment but the last ends with a call")
        if one.max_new is not None and any(segment.decode > one.max_new for segment in one.segments):
            raise Bad(f"{one.id}: a segment exceeds max_new")
        if memory is not None and blocks(peak(one), block) > memory // block:
            raise Bad(f"{one.id} can never fit: its peak of {peak(one)} tokens is above the memory")
        held = one.prompt - 1
        for segment in one.segments[:-1]:
            held += segment.decode
            if segment.call.handling == "swap" and host is not None and held > host:
                raise Bad(f"{one.id} can never fit: a swap of {held} tokens is above the host's memory")
            held += segment.call.returns
        whole = None if device.chunked else prefill_budget(device)
        if whole is not None and any(token.A - token.kept > whole for token in tokens_of(one, device)):
            raise Bad(f"{one.id} can never fit: a prefill above {whole} tokens must be taken whole")
    return instance


def blocks(tokens, block):
    return -(-tokens // block)


def output(one):
    return sum(segment.decode for segment in one.segments)


def peak(one):
    return one.prompt + output(one) + sum(segment.call.returns for segment in one.segments[:-1]) - 1


def prefill_budget(machine):
    """The most prefill tokens of a batch; None: no limit."""
    return machine.batch_tokens if machine.prefill_tokens is None else machine.prefill_tokens


def sha256(instance):
    """The hash of the canonical JSON (docs/formats.md); `max_new` is in it only where it is given."""
    ones = [{key: value for key, value in one.items() if key != "max_new" or value} for one in instance.requests]
    text = json.dumps(Box(instance, requests=ones), sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def with_free_calls(instance):
    free = json.loads(json.dumps(instance, default=str), object_hook=Box)
    for call in (segment.call for one in free.requests for segment in one.segments[:-1]):
        call["handling"] = "free"
    return read_instance(free)


# --- the referee (docs/semantics.md) ----------------------------------------------------------------------------------


def duration(cost, features):
    """How many ticks a batch of these features lasts."""
    longest = 1
    for function in cost:
        value = sum(function[name] * features.get(name, 0) for name in COEFFICIENTS)
        if over := function.tokens_above:
            value += over.coefficient * max(0, features.get("tokens", 0) - over.knee)
        longest = max(longest, -(-value // function.divisor))
    return longest


MOVES = ("drop", "swap_out", "swap_in")
ORDERED = {"discard": "drop", "swap": "swap_out"}


class State:
    """Where a request is: S tokens known, m on the device, h on the host; its segment; its call."""

    def __init__(self, one):
        self.one, self.id, self.S, self.m, self.h = one, one.id, one.prompt, 0, 0
        self.segment, self.left = 0, one.segments[0].decode
        self.returns_at = None  # the tick at which the call ends, while it runs
        self.window = None  # the handling of the last call, until the request next works
        self.due = None  # after a call that orders a move: the tokens that the next batch is to move
        self.first = self.done = None


class Execution:
    """The machine while a schedule runs; `breach` notes a broken rule, and the batch ends with the lowest of them."""

    def __init__(self, instance):
        self.cost, self.machine = instance.cost, instance.machine
        self.states = {one.id: State(one) for one in instance.requests}
        self.j = self.clock = self.busy = self.blocks = self.host = 0  # blocks and tokens that all requests hold
        self.calling, self.due, self.worked = set(), [], []

    def run(self, batches):
        for written in batches:
            self.step(written, written.start)
            for _ in range(written.repeat - 1):
                self.step(Box(drop={}, swap_out={}, swap_in={}, work=written.work), self.clock)
        for state in self.states.values():
            if state.done is None:
                raise Broken("it is not done at the end", 11, self.j, state.id)

    def breach(self, rule, state, detail):
        self.broken.append((rule, state and state.id, detail))

    def step(self, written, start):
        """Execute one batch."""
        self.broken = []
        if start < self.clock:
            self.breach(1, None, f"it starts at {start}, before {self.clock}")
        for state in [state for state in self.calling if state.returns_at <= start]:
            state.S += state.one.segments[state.segment - 1].call.returns
            state.returns_at = None
            self.calling.discard(state)
        for id in (id for what in ("work", *MOVES) for id in written[what] if id not in self.states):
            self.breach(10, None, f"there is no request {id!r}")
        if not (written.work or written.swap_out or written.swap_in):
            self.breach(10, None, "it has no work and no transfer")
        work = {self.states[id]: c for id, c in written.work.items() if id in self.states}
        features = self.work(work, start, *self.move(written))
        if self.broken:
            rule, id, detail = min(self.broken, key=lambda item: item[0])
            raise Broken(detail, rule, self.j, id)
        ticks = duration(self.cost, features)
        self.clock, self.busy, self.j = start + ticks, self.busy + ticks, self.j + 1
        for state in self.due:
            state.due = None
        self.due, self.worked = [], []
        for state, c in work.items():
            self.grow(state, c)

    def hold(self, state, m, h):
        block = self.machine.block
        self.blocks += blocks(m, block) - blocks(state.m, block)
        self.host += h - state.h
        state.m, state.h = m, h

    def move(self, written):
        """Make the moves (R8, R9, R10): what each took, by kind and request, and who was evicted."""
        taken, evicted = {kind: {} for kind in MOVES}, set()
        for kind, id in ((what, id) for what in MOVES for id in written[what] if id in self.states):
            state, asked = self.states[id], written[kind][id]
            there = {"drop": state.m + state.h, "swap_out": state.m, "swap_in": state.h}[kind]
            k = max(0, min(asked, there))
            if asked != k or k < 1:
                self.breach(10, state, f"{kind} of {asked} tokens, there are {there}")
            in_call = state.returns_at is not None
            if kind == "swap_in" and in_call and state.window == "preserve":
                self.breach(9, state, "swap_in during a call that preserves")
            ordered = state.due is not None and ORDERED[state.window] == kind
            if kind != "swap_in" and state.window != "free" and not ordered:
                if k:
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
            if k:
                taken[kind][state] = k
        for state in self.due:
            kind = ORDERED[state.window]
            if written[kind].get(state.id) != state.due:
                self.breach(9, state, f"its call orders a {kind} of all {state.due} tokens in this batch")
        return taken, evicted

    def work(self, work, start, taken, evicted):
        """The features of a batch; R2 to R7."""
        machine, block, prefilled, occupied = self.machine, self.machine.block, 0, self.blocks
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
            occupied += blocks(state.m + c, block) - blocks(state.m, block)
        for kind in ("swap_out", "swap_in"):
            features[kind + "_tokens"], features[kind + "s"] = sum(taken[kind].values()), len(taken[kind])
        totals = {"batch_tokens": features["tokens"], "prefill_tokens": prefilled, "batch_requests": len(work)}
        for name, total in totals.items():
            if machine[name] is not None and total > machine[name]:
                self.breach(5, None, f"{total} is above {name} = {machine[name]}")
        if not machine.hybrid and features["any_decode"] and features["any_prefill"]:
            self.breach(5, None, "prefills and decodes share the batch")
        for state in self.worked if not machine.pause else ():
            if state not in work and state not in taken["drop"] and state not in taken["swap_out"]:
                self.breach(5, state, "it worked in the batch before and sits out")
        if machine.memory is not None and occupied > machine.memory // block:
            self.breach(6, None, f"the requests occupy {occupied} blocks of {block}")
        if machine.host_memory is not None and self.host > machine.host_memory:
            self.breach(7, None, f"the host holds {self.host} tokens")
        return features

    def grow(self, state, c):
        """The end of the batch for a request that works."""
        self.hold(state, state.m + c, state.h)
        state.window = None
        if generated := state.m == state.S:
            state.S, state.left = state.S + 1, state.left - 1
            state.first = self.clock if state.first is None else state.first
        if not generated or state.left:
            self.worked.append(state)
            return
        after = state.one.segments[state.segment].call
        if after is None:
            state.done = self.clock
            self.hold(state, 0, 0)
            return
        state.segment += 1
        state.left = state.one.segments[state.segment].decode
        state.returns_at, state.window = self.clock + after.duration, after.handling
        self.calling.add(state)
        if after.handling in ORDERED:
            state.due = state.m
            self.due.append(state)


def is_late(one, first, last):
    """Whether a request exceeds any SLO: `first` and `last` are its TTFT and its latency."""
    limits, o = one.slo or {}, output(one)
    spans = {"ttft": first, "latency": last, "normalized_latency": Fraction(last, o),
             "tpot": Fraction(last - first, o - 1) if o > 1 else 0}
    return any(limits.get(name) is not None and span > limits[name] for name, span in spans.items())


def by_objective(ones, times, busy):
    """The value of every objective, from the first and last token of each request, after its arrival."""
    firsts, lasts = zip(*times)
    return {
        "makespan": max(one.arrival + last for one, last in zip(ones, lasts)),
        "busy-time": busy,
        "total-flow-time": sum(lasts),
        "weighted-flow-time": sum(one.weight * last for one, last in zip(ones, lasts)),
        "max-flow-time": max(lasts),
        "total-ttft": sum(firsts),
        "late-requests": sum(is_late(one, *both) for one, both in zip(ones, times)),
        "normalized-latency": sum(Fraction(last, output(one)) for one, last in zip(ones, lasts)),
    }


def verify_schedule(instance, data):
    """The values of a schedule by objective; Broken names the first rule that it breaks."""
    schedule = schedule_file(data, "schedule")
    if schedule.instance_sha256 != sha256(instance):
        raise Bad("the schedule is for another instance")
    execution = Execution(instance)
    execution.run(schedule.batches)
    times = [(state.first - state.one.arrival, state.done - state.one.arrival) for state in execution.states.values()]
    return by_objective(instance.requests, times, execution.busy)


# --- what a request needs at the least (docs/bounds.md, Shares of time) -----------------------------------------------


Token = namedtuple("Token", "A kept low wait")
"""An output token: A tokens resident when it comes; low to kept of them since the one before, `wait` ticks ago."""


def tokens_of(one, machine):
    """The output tokens of a request, in order."""
    result, A, kept, wait = [], one.prompt, 0, 0
    drops = machine.evict or any(segment.call.handling in ("discard", "free") for segment in one.segments[:-1])
    for segment in one.segments:
        for _ in range(segment.decode):
            result.append(Token(A, kept, 0 if drops else kept, wait))
            A, kept, wait = A + 1, A, 0
        if after := segment.call:
            A, wait = A + after.returns, after.duration
            kept = 0 if after.handling == "discard" else kept
    return result


def lines_of(cost):
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
    yield dict.fromkeys((*WORK, "prefill"), 0) | {"base": 1}


def most_prefill(machine):
    """P: the most prefill tokens of one request in a batch; None: no limit, since one batch takes all."""
    return prefill_budget(machine) if machine.chunked else None


class Tariff:
    """What work costs: prices of what is done, of a `batch`, of `prefill` and a `block` of KV in it, of `packed`."""

    def __init__(self, machine, prices, packs=1):
        self.machine, self.P, self.block, self.packs = machine, most_prefill(machine), machine.block, packs
        given = {name: Fraction(price) for name, price in prices.items() if price and name not in ("base", "packed")}
        self.unit = lcm(*(price.denominator for price in given.values()))
        self.prices = {name: int(price * self.unit) for name, price in given.items()}  # so that ways are whole numbers
        self.packed, self.least = prices.get("packed", 0), cache(self.least)

    def least(self, token):
        """The least that the work for a token costs, over all ways to generate it."""
        return Fraction(min(self.ways(token.A, token.kept, token.low)), self.unit) + self.packing(token.A)

    def packing(self, tokens):
        """The price of so many tokens by the dual feasible function u."""
        if not self.packed:
            return 0
        k, x = self.packs, Fraction(blocks(tokens, self.block), self.machine.memory // self.block)
        return self.packed * (x if ((k + 1) * x).denominator == 1 else Fraction((k + 1) * x // 1, k))

    def ways(self, A, kept, low):
        """What it costs to generate a token by a decode (1) or by a prefill (0), from s tokens of KV on."""
        P, chunked, partial = self.P, self.machine.chunked, self.machine.partial
        for decodes in (1, 0):
            end = A - decodes  # where the prefills end
            if decodes:
                starts = {s for s in (low, kept) if s == end or chunked} if A > 1 else ()
            else:
                most = min(kept, A - 2) if partial else kept
                starts = {s for s in (low, most) if low <= s and (s == 0 or s <= A - 2)}
            for s in starts:
                count = -(-(end - kept) // P) if P else int(end > kept)  # prefills
                count = count if decodes else max(1, count)
                n = count - (not decodes)  # prefills before the last batch, and the KV after each of them, summed
                held = n * end - (P or 0) * n * (n - 1 + 2 * (not decodes)) // 2
                last = end if decodes and count else 0  # what the last prefill before a decode holds
                amounts = {
                    "generated": 1, "batch": count + decodes, "tokens": A - s, "decode_requests": decodes,
                    "decode_kv": decodes * end, "prefill": count, "prefill_requests": count, "prefill_token": end - s,
                    "prefill_kv": s * (count > 0), "prefill_pairs": end**2 - s**2,
                    "block": blocks(A, self.block) + blocks(last, self.block) + blocks(held - last, self.block),
                }
                yield sum(price * amounts[name] for name, price in self.prices.items())


def ticks_of(instance):
    """d, by token: how long the batches last, together and at the least, in which a request works for it."""
    batches = Tariff(instance.machine, {"batch": 1}).least
    lines = [(line["base"], Tariff(instance.machine, line).least) for line in lines_of(instance.cost)]
    return cache(lambda token: max(ceil(base * batches(token) + least(token)) for base, least in lines))


class Work:
    """Of a request's tokens: d, ticks or whatever `ticks` counts; release and tail in them; share, by a tariff."""

    def __init__(self, one, machine, ticks, shares, calls=True):
        self.one, self.tokens = one, tokens_of(one, machine)
        self.d, self.share = ([least(token) for token in self.tokens] for least in (ticks, shares))
        self.wait = [token.wait * calls for token in self.tokens]
        self.chain = sum(self.d) + sum(self.wait)
        ends = list(accumulate(d + wait for d, wait in zip(self.d, self.wait)))
        self.release, self.tail = [end - d for end, d in zip(ends, self.d)], [self.chain - end for end in ends]


def least_step(instance):
    """e: ticks that every batch with work lasts: one decode on the least KV, or the first token of a prefill."""
    shortest = min(one.prompt for one in instance.requests)
    decode = dict(any_decode=1, decode_requests=1, generated=1, decode_kv=max(1, shortest - instance.machine.chunked))
    prefill = dict(any_prefill=1, prefill_requests=1, prefill_pairs=1)
    return min(duration(instance.cost, {"busy": 1, "tokens": 1, **work}) for work in (decode, prefill))


def alone(instance, proof, objective):
    """Kind `alone`: each request takes its own batches, each of least duration, its whole prompt, and its calls."""
    step, P = least_step(instance), most_prefill(instance.machine)
    smooth = [Box(function, tokens_above=None) for function in instance.cost]
    busy, times = [], []
    for one in instance.requests:
        tokens, I = tokens_of(one, instance.machine), one.prompt
        batches = [blocks(token.A - token.kept, P) if P else 1 for token in tokens]
        whole = dict(busy=1, any_prefill=1, tokens=I, prefill_requests=1, prefill_pairs=max(1, I - 1) ** 2, generated=1)
        first = max(batches[0] * step, duration(smooth, whole))
        times.append((first, first + step * sum(batches[1:]) + sum(token.wait for token in tokens)))
        busy.append(step * sum(batches))
    return by_objective(instance.requests, times, max(busy))[objective]


# --- kind `shares` (docs/bounds.md, Shares of time) -------------------------------------------------------------------


class Division:
    """How the time of a batch is divided: a weighted mean of lines, and the parts of its base that are shared."""

    def __init__(self, instance, proof):
        machine, lines = instance.machine, list(lines_of(instance.cost))
        if len(proof.functions) != len(lines) or sum(proof.functions) > 1024:
            raise Broken(f"functions: give {len(lines)} numbers, of 1024 at most together")
        self.machine, self.packs = machine, proof.packs
        self.line = {name: sum(Fraction(weight, 1024) * line[name] for line, weight in zip(lines, proof.functions))
                     for name in lines[0]}
        peaks = sum(peak(one) for one in instance.requests)
        L = None if machine.memory is None else machine.memory // machine.block
        self.P = min(peaks, prefill_budget(machine) or peaks, L * machine.block if L else peaks)
        self.limits = {"memory": L, "tokens": machine.batch_tokens, "prefill_tokens": self.P,
                       "requests": machine.batch_requests, "packing": L}
        self.part = {name: Fraction(proof[name], 1024) for name in self.limits}
        if sum(self.part.values()) > 1 or any(part and not self.limits[name] for name, part in self.part.items()):
            raise Broken("the parts are above 1024 together, or of what has no limit")

    def tariff(self, line):
        """Of a line, the share of a token: what work costs, and the parts of `base` and of `prefill` that it takes."""
        each = {name: line["base"] * part / self.limits[name] if part else 0 for name, part in self.part.items()}
        p = {name: line.get(name, 0) for name in (*WORK, "prefill")}
        taken = dict(tokens=p["tokens"] + each["tokens"], prefill=0, block=each["memory"],
                     decode_requests=p["decode_requests"] + each["requests"],
                     prefill_requests=p["prefill_requests"] + each["requests"],
                     prefill_token=each["prefill_tokens"] + Fraction(p["prefill"]) / self.P,
                     packed=line["base"] * self.part["packing"])
        return Tariff(self.machine, p | taken, self.packs).least


def served(jobs):
    """What one machine that may interrupt works on, the lowest rank first: (rank, owner, from, to, unit) by piece.

    Jobs are (release, work, rank, owner); from and to are whole numbers of 1 / unit.
    """
    unit, ready, now, i = lcm(*{job[1].denominator for job in jobs}), [], 0, 0
    jobs = sorted((int(release * unit), int(work * unit), rank, owner) for release, work, rank, owner in jobs)
    while i < len(jobs) or ready:
        now = now if ready else max(now, jobs[i][0])
        while i < len(jobs) and jobs[i][0] <= now:
            heapq.heappush(ready, [jobs[i][2], jobs[i][3], i, jobs[i][1]])
            i += 1
        rank, owner, _, left = ready[0]
        step = min(left, jobs[i][0] - now) if i < len(jobs) else left
        yield rank, owner, now, now + step, unit
        now += step
        ready[0][3] -= step
        if not ready[0][3]:
            heapq.heappop(ready)


def heads_and_tails(works, start=lambda work: 0, by_flow=False):
    """The least time by which all are done if what is shared takes one machine (largest tail first)."""
    jobs = [(start(work) + release, share, start(work) * by_flow - tail, 0)
            for work in works for release, share, tail in zip(work.release, work.share, work.tail)]
    return ceil(max(Fraction(end, unit) - rank for rank, _, _, end, unit in served(jobs)))


def weights(instance, objective):
    if objective == "normalized-latency":
        return [Fraction(1, output(one)) for one in instance.requests]
    return [one.weight if objective == "weighted-flow-time" else 1 for one in instance.requests]


def shares(instance, proof, objective):
    """Kind `shares`: what runs together in a batch shares its time, and time runs once."""
    division, ticks = Division(instance, proof), ticks_of(instance)
    tariff = division.tariff(division.line)
    works = [Work(one, instance.machine, ticks, tariff) for one in instance.requests]
    if objective == "late-requests":
        return shared_late(works, proof)
    if objective not in ("makespan", "busy-time", "max-flow-time"):
        return shared_sum(instance, proof, objective, works)
    busy = max(shared_batches(instance, division), *(sum(work.d) for work in works))
    if objective == "busy-time":
        return busy
    arrivals, by_flow = [work.one.arrival for work in works], objective == "max-flow-time"
    chains = [work.chain + arrival * (not by_flow) for arrival, work in zip(arrivals, works)]
    bound = max(heads_and_tails(works, lambda work: work.one.arrival, by_flow), *chains)
    return bound if by_flow else max(bound, min(arrivals) + busy)


def shared_sum(instance, proof, objective, works):
    """Sums of flow times, or of first tokens."""
    count = 1 if objective == "total-ttft" else None
    parts = [Fraction(part, 1024) for part in proof.alone or [0] * len(works)]
    if len(parts) != len(works):
        raise Broken("alone: give a number for each request, or none")
    half, total, jobs, density = Fraction(least_step(instance), 2), 0, [], {}
    for i, (work, weight, part) in enumerate(zip(works, weights(instance, objective), parts)):
        chain, whole, arrival = sum(work.d[:count]) + sum(work.wait[:count]), sum(work.share[:count]), work.one.arrival
        rest = weight * (1 - part)
        if not whole or not rest:
            total += weight * chain
            continue
        density[i] = rest / whole
        total += weight * part * chain + rest * (half - arrival)
        if count is None:
            total += density[i] * sum(share * tail for share, tail in zip(work.share, work.tail))
        jobs += [(arrival + release, share, -density[i], i)
                 for release, share in zip(work.release[:count], work.share[:count]) if share]
    moments, unit = dict.fromkeys(density, 0), 1  # the integral of 2 t over the time at which its work is done
    for _, i, begin, end, unit in served(jobs):  # noqa: B007
        moments[i] += end**2 - begin**2
    return total + sum(Fraction(density[i] * moment, 2 * unit**2) for i, moment in moments.items())


def shared_batches(instance, division):
    """Busy time: the prices of all work, base for each batch, and prefill for each that the prefill tokens need."""
    machine, line, parts = instance.machine, division.line, division.tariff({"base": 1})
    prices, prefill, batch = (
        Tariff(machine, each).least for each in (line | {"prefill": 0}, {"prefill_token": 1}, {"batch": 1})
    )
    works = [Work(one, machine, batch, parts, calls=False) for one in instance.requests]
    batches = max(heads_and_tails(works), *(work.chain for work in works))
    tokens = [token for work in works for token in work.tokens]
    filled = ceil(sum(map(prefill, tokens)) / division.P)
    return ceil(sum(map(prices, tokens)) + line["base"] * batches + line["prefill"] * filled)


def shared_late(works, proof):
    """Requests that are late alone, and in disjoint windows those that are too many (Moore and Hodgson)."""
    late, found, last = {work.one.id for work in works if is_late(work.one, work.d[0], work.chain)}, 0, -1
    for start, end in proof.windows:
        if start < last or end <= start:
            raise Broken("the windows are not disjoint and in order")
        last, jobs, taken, used = end, [], [], 0
        for work in works:
            one, limits = work.one, work.one.slo
            if one.id in late or one.arrival < start or not limits:
                continue
            due, share = deadline(one), sum(work.share)
            if due is None or due > end:
                due, share = None if limits.ttft is None else one.arrival + limits.ttft, work.share[0]
            if due is not None and due <= end:
                jobs.append((due, share))
        for due, share in sorted(jobs):
            heapq.heappush(taken, -share)
            used += share
            if used > due - start:
                used += heapq.heappop(taken)
                found += 1
    return len(late) + found


def deadline(one):
    """The last tick at which a request can end on time; None: any."""
    limits, o, ends = one.slo, output(one), []
    if limits.latency is not None:
        ends.append(limits.latency)
    if limits.normalized_latency is not None:
        ends.append(limits.normalized_latency * o)
    if limits.ttft is not None and limits.tpot is not None:
        ends.append(limits.ttft + limits.tpot * (o - 1))
    return one.arrival + int(min(ends)) if ends else None


# --- kind `speed` (docs/bounds.md, Speed has a price) -----------------------------------------------------------------


def speed(instance, proof, objective):
    """Kind `speed`: while a batch of length D runs, each request in it pays for its work by its speed, and fees."""
    longest = objective == "max-flow-time"
    if (objective not in SUMS and not longest) or objective == "late-requests":
        raise Broken("prices of work are for sums over requests and the largest flow time")
    if sorted(set(proof.ratios)) != proof.ratios:
        raise Broken("the ratios do not increase")
    division, ticks = Division(instance, proof), ticks_of(instance)
    tariff, F = division.tariff(division.line), division.line["base"]
    batches = Batches(proof, F, F * (1 - sum(division.part.values())))
    start, total = min(one.arrival for one in instance.requests), 0
    for one, weight, a in zip(instance.requests, weights(instance, objective), parts_of_fixed(instance, proof, start)):
        work = Work(one, instance.machine, ticks, tariff)
        w = work.share[:1] if objective == "total-ttft" else work.share
        r, rate = one.arrival - start, int(weight * proof.scale)
        total += batches.least(r, 0, work, w, a, r + proof.within) if longest else batches.least(r, rate, work, w, a)
    bound = Fraction(total - proof.slot * sum(proof.price)) / proof.scale
    if longest and bound <= 0:
        raise Broken(f"all requests may end within {proof.within} ticks")
    return proof.within + 1 if longest else bound


def parts_of_fixed(instance, proof, start):
    """a: by request and slot its part of what is fixed in a batch. `fees` are weights, the same for all of a kind."""
    kinds = [json.dumps(dict(one, id=""), default=str) for one in instance.requests]
    first = {kind: one.arrival - start for kind, one in zip(kinds, instance.requests)}  # in the order of the first
    if proof.fees and len(proof.fees) != len(first):
        raise Broken("fees: give a list for each group of requests that differ in their ids only, or none")
    rows, together = {}, {}
    for (kind, arrival), row in zip(first.items(), proof.fees or [[] for _ in first]):
        rows[kind] = {arrival // proof.slot + k: weight for k, weight in enumerate(row) if weight}
        for s, weight in rows[kind].items():
            together[s] = together.get(s, 0) + weight * kinds.count(kind)
    parts = {kind: {s: Fraction(weight, together[s]) for s, weight in row.items()} for kind, row in rows.items()}
    return [parts[kind] for kind in kinds]


class Batches:
    """Of length F at the least, of which f is shared by none, and the prices of work in slots of time."""

    def __init__(self, proof, F, f):
        self.F, self.f, self.ordered, self.fee = F, f, proof.ordered, Fraction(proof.fee, 1024)
        self.slot, self.price, self.level = proof.slot, proof.price, Fraction(proof.level, 1024)
        self.ratios = [Fraction(1), *(Fraction(ratio, 64) for ratio in proof.ratios)]

    def pieces(self, w):
        """What pieces of speed cost: (for a token of work w where the price is 1, how many tokens a tick have room)."""
        most, x, result = 1 / max(Fraction(1), self.F, self.f + w), 0, []
        for g, following in zip(self.ratios, [*self.ratios[1:], None]):
            end = most if following is None or not self.f else min(most, (1 - 2 / (g + following)) / self.f)
            if end > x:
                result.append((w * ((1 - self.fee) * g * g + self.fee), end - x))
            x = max(x, end)
        return result

    def least(self, r, rate, work, w, a, due=None):
        """The least of rate times the flow time plus what a request pays; `r` is its arrival, `a` its parts of f.

        It is done by `due`, or counts 0 where it cannot be.
        """
        d, slot, S, others, best = work.d[0], self.slot, len(self.price), w[1:], None
        chain = work.chain if others else d
        rest = chain - d if others else chain  # what is left at the least when `others` may begin
        level = min(others) + self.level * (max(others) - min(others)) if others else w[0]
        count = sum(min(1, each / level) if level else 1 for each in others) if others else 1
        more = sorted((each - level for each in others if each > level), reverse=True) if level else []
        head, begin, ordered = Tokens(self, w[0], 1, r, a), r + chain - rest, self.ordered and bool(others)
        bounded, stop = due is not None, S if due is None else (due - 1) // slot
        if bounded and stop >= S:
            return 0
        for T in range(min(begin // slot, S), stop + 1) if ordered else [0]:
            ready = max(begin, T * slot)
            if best is not None and rate * (ready + rest - r) >= best:
                break
            fixed = head.by((T + 1) * slot) if ordered and T < S else 0
            if fixed is None:
                continue
            tail, growth = Tokens(self, level, count, ready, a), Tokens(self, level, len(more), ready, {})
            for s in range(min(ready // slot, S), S + 1) if not bounded else [stop]:
                end = due if bounded else (s + 1) * slot
                time = rate * (max(s * slot, ready) - r) + fixed
                if best is not None and time >= best:
                    break
                if s < S and (s + 1) * slot < ready + rest:
                    continue
                early = head.by(end - rest) if others and not ordered and s < S else 0
                timed = tail.by(end) if bounded else tail.ending(s, self.price[s] if s < S else 0, rate)
                if early is not None and timed is not None:
                    cost = time + timed + early + (growth.heaviest(s, more) if more and s < S else 0)
                    best = cost if best is None else min(best, cost)
        return max(best or 0, rate * chain)


class Tokens:
    """Parts of tokens of work w that none begins before `begin`, each at the cheapest speeds."""

    def __init__(self, batches, w, count, begin, a):
        self.batches, self.w, self.count, self.begin, self.a = batches, w, count, begin, a
        self.tangents, self.done, self.found = batches.pieces(w), 0, []  # all slots before `done` are in `found`

    def fee(self, s):
        """What a token pays in slot s for the part of f that is its own, where the price is 1."""
        return self.batches.fee * self.batches.f * self.a.get(s, 0)

    def ticks(self, s, end):
        """How many ticks of slot s there are for them, up to a tick in it."""
        return max(0, end - max(self.begin, s * self.batches.slot))

    def pass_by(self, s):
        """Take in all slots before s, as (price, room), and forget what is beyond the count."""
        for each in range(self.done, s):
            self.found = self.cheapest(self.offer(each, (each + 1) * self.batches.slot))[0]
        self.done = max(self.done, s)

    def offer(self, s, end):
        """The pieces of slot s, as (price, room), up to a tick in it."""
        ticks, price, fee = self.ticks(s, end), self.batches.price[s], self.fee(s)
        return [(price * (cost + fee), width * ticks) for cost, width in self.tangents] if ticks else []

    def cheapest(self, more):
        """The cheapest pieces with room for the count, their price (None: there is too little room)."""
        taken, paid, left = [], 0, self.count
        for price, room in heapq.merge(self.found, sorted(more)):
            if left <= 0:
                break
            taken.append((price, room))
            paid += price * min(room, left)
            left -= room
        return taken, None if left > 0 else paid

    def by(self, tick):
        """What they pay if they are done by a tick; None: too early."""
        s = min(max(0, tick // self.batches.slot), len(self.batches.price))
        self.pass_by(s)
        return self.cheapest(self.offer(s, tick) if s < len(self.batches.price) else [])[1]

    def ending(self, s, price, rate):
        """What they pay if the last is done in slot s, where a tick up to it costs `rate`; None: too little room."""
        self.pass_by(s)
        x, paid, each = 0, 0, []
        for cost, width in self.tangents:
            x, paid = x + width, paid + cost * width
            each.append((rate + price * paid) / x + price * self.fee(s))
        room = x * self.ticks(s, (s + 1) * self.batches.slot) if s < len(self.batches.price) else self.count
        return self.cheapest([(min(each), room)])[1]

    def heaviest(self, s, more):
        """What work beyond w pays by the end of slot s: one after the other, at the least price that has room left."""
        self.pass_by(s + 1)
        paid = room = k = 0
        for price, width in self.found:
            room += width
            while k < min(room, len(more)):
                paid, k = paid + price * more[k], k + 1
        return paid / self.w


# --- kind `prices` (docs/bounds.md, Prices of slots; the head of kvcore/certificates/evictions.py) --------------------


NEVER = float("inf")
ANY = (0, NEVER)  # the first and the last slot in which a segment may end


def always_one_tick(cost):
    fixed = ("busy", "any_decode", "any_prefill")
    return all(sum(function[name] for name in fixed) <= function.divisor
               and not any(function[name] for name in COEFFICIENTS if name not in fixed)
               and not (function.tokens_above and function.tokens_above.coefficient) for function in cost)


def sums(values):
    return list(accumulate(values, initial=0))


def slot_prices(instance, proof, objective):
    """Kind `prices`: every request pays for what it takes of each slot, and takes its cheapest path."""
    return priced_slots(instance, proof, objective)({})


def priced_slots(instance, proof, objective):
    """The bound that prices give where segments, (request, number), end in windows of slots; infinite if none can."""
    machine, calls = instance.machine, any(len(one.segments) > 1 for one in instance.requests)
    if objective not in ("total-flow-time", "weighted-flow-time", "normalized-latency"):
        raise Broken("prices of slots are for sums of flow times")
    if not always_one_tick(instance.cost) or (machine.partial and (calls or machine.evict)):
        raise Broken("prices of slots are for batches of one tick, without partial where there are calls or evict")
    if proof.windows and machine.evict:
        raise Broken("prices of windows are for machines without evict")
    T, scale, rows, total = proof.slots, proof.scale, {}, 0
    limits = {"device": machine.memory and machine.memory // machine.block, "host": machine.host_memory,
              "tokens": machine.batch_tokens, "requests": machine.batch_requests}
    for name, most in limits.items():
        row = priced_row(proof[name], T)
        if most is None and proof[name] and name != "host":
            raise Broken(f"{name} has a price and no limit")
        rows[name] = row if most is not None else [0] * T  # a host without a limit is free
        total -= (most or 0) * sum(row)
    families = [(family, sums(priced_row(family.price, T))) for family in proof.windows]
    total -= sum(family.most * paid[-1] for family, paid in families)
    start = min(one.arrival for one in instance.requests)
    rates = [int(weight * scale) for weight in weights(instance, objective)]

    @cache
    def paid(i, windows):
        one = instance.requests[i]
        return Course(one, machine, rows, T, rates[i], one.arrival - start, families).cheapest(windows)

    def bound(windows):
        each = [paid(i, tuple(windows.get((one.id, k), ANY) for k in range(len(one.segments))))
                for i, one in enumerate(instance.requests)]
        return NEVER if NEVER in each else Fraction(total + sum(each), scale)

    return bound


def tree(instance, proof, objective):
    """Kind `tree`: segments end in a slot or before, or after it, and each leaf has prices."""
    prices = cache(lambda p: priced_slots(instance, proof.prices[p], objective))  # none that no leaf names
    slots = min(each.slots for each in proof.prices)
    places = {(one.id, k) for one in instance.requests for k in range(len(one.segments))}
    sides, least = [{}], NEVER  # windows of the nodes to come, the next one last
    for node in proof.nodes:
        if not sides:
            raise Broken("there are nodes that no branch leads to")
        windows = sides.pop()
        if "request" in node:
            where, t = (node.request, node.segment), node.slot
            if where not in places or t >= slots:
                raise Broken(f"there is no segment {where}, or no slot {t} with prices")
            first, last = windows.get(where, ANY)
            sides += [windows | {where: (max(first, t + 1), last)}, windows | {where: (first, min(last, t))}]
        elif node.prices >= len(proof.prices):
            raise Broken(f"there are no prices {node.prices}")
        else:
            least = min(least, prices(node.prices)(windows))
    if sides or least == NEVER:
        raise Broken("a branch lacks a side" if sides else "no leaf has a schedule")
    return least


def priced_row(prices, T):
    if len(prices) > T:
        raise Broken("a row has more prices than there are slots")
    return prices + [0] * (T - len(prices))


class Course:
    """The cheapest path of a request; after slot T all is free but time.

    What follows a leg is a list: the least cost from there on, by slot; beyond its end only time counts.
    """

    def __init__(self, one, machine, rows, T, rate, arrival, families):
        self.one, self.machine, self.rows, self.T, self.rate = one, machine, rows, T, rate
        self.arrival, self.families, self.P, self.block = arrival, families, most_prefill(machine), machine.block
        self.paid = sums(rows["device"])
        self.moment = sums(z * price for z, price in enumerate(rows["device"]))

    def between(self, paid, first, last):
        """Of running sums, the sum over slots first .. last - 1."""
        return paid[max(0, min(self.T, last))] - paid[max(0, min(self.T, first))]

    def cheapest(self, windows):
        A, m, legs, earliest, before = self.one.prompt, 0, [], self.arrival, None
        for segment in self.one.segments:
            ways = [(0, "discard")] if before is None or before.handling == "discard" else [(m, before.handling)]
            if before and before.handling == "free":
                ways.append((0, "discard"))
            wait, kept = before.duration if before else 0, ways[0][0]
            legs.append((A, segment.decode, wait, earliest + wait, ways))
            earliest += wait + (blocks(A - kept, self.P) if self.P else 1) + segment.decode - 1
            m, before = A + segment.decode - 1, segment.call
            A = m + 1 + (before.returns if before else 0)
        d, h = self.one.segments[-1].decode, blocks(peak(self.one), self.block)
        after = [self.end(c - 1, h, d) for c in range(self.T + 2)]
        for leg, (first, last) in zip(reversed(legs), reversed(windows)):
            after = self.leg(*leg, [cost if first < c <= last + 1 else NEVER for c, cost in enumerate(after)])
        return self.at(after, self.arrival)

    def at(self, after, c):
        return after[c] if c < len(after) else after[-1] + self.rate * (c - len(after) + 1)

    def end(self, e, h, d):
        """What an end in slot e costs: the flow time, and the windows."""
        total, memory = self.rate * (e + 1 - self.arrival), self.machine.memory
        for family, paid in self.families if e < self.T and memory else ():
            behind = min(family.reach, blocks(h - memory // self.block, family.most) + family.shift)
            ahead = min(h - family.shift, d - family.reach)
            if ahead + behind > 0:
                total += self.between(paid, e - ahead, e + behind)
        return total

    def leg(self, A, d, wait, earliest, ways, after):
        """By slot c after the end of the segment before: the least from there on; `ways` are (KV kept in a call, how).

        With `evict` KV may leave before any token, so it goes token by token, each with its KV kept or dropped.
        """
        slots, evict, best = range(self.T + 2), self.machine.evict, []
        for i in range(d - 1, 0, -1) if evict else ():
            kept, dropped = (self.tokens(A + i, m, 1, earliest + i, after, "swap") for m in (A + i - 1, 0))
            after = [min(kept(c), dropped(c + 1)) for c in slots]
        for m, how in ways:
            hold = sums(self.holding(z, m, how) for z in range(self.T))
            work = self.tokens(A, m, 1 if evict else d, earliest, after, "swap" if evict and m else how)
            least = [work(c + wait) for c in slots]
            if evict and m:  # what is dropped later than the call ends takes a slot without work
                dropped = self.tokens(A, 0, 1, earliest, after, "swap")
                least = [min(one, dropped(c + wait + 1)) for c, one in zip(slots, least)]
            best.append([one + self.between(hold, c, c + wait) for c, one in zip(slots, least)])
        return [min(each) for each in zip(*best)]

    def tokens(self, A, m, d, earliest, after, how):
        """The least from slot c on, a function of c, if then the work for d tokens may begin.

        The first of them comes with A resident; m tokens are held until its work begins.
        """
        T, P, evict, n = self.T, self.P, self.machine.evict, blocks(A - m, self.P) if self.P else 1
        grows = "swap" if evict else "preserve"
        hold = sums(self.holding(z, m, how) for z in range(T))
        places = []  # prices of a place in a batch, the least of them so far, how many are taken, and in the last batch
        for name, taken, now in (("tokens", A - m, 1 if self.machine.chunked else A - m), ("requests", n, 1)):
            row = self.rows[name]
            places.append((row, [0] * min(earliest, T) + list(accumulate(row[earliest:], min)), taken, now * evict))
        cost = []  # by f, the slot of the first token (T: any later one), with what is held from slot 0 on
        for f in range(T):
            paid = hold[max(0, f - n + 1)] + self.decodes(f, A, d) + self.at(after, f + d)
            paid += sum(self.holding(f - j, A - j * P, grows) for j in range(1, min(n, f + 1)))
            for row, least, taken, now in places:
                paid += now * row[f] + (taken - now) * least[f] + sum(least[f + 1 : f + d])
            cost.append(paid)
        cost.append(hold[max(0, T - n + 1) if evict else T] + self.at(after, T + d))
        cost = list(accumulate(reversed(cost), min))[::-1]

        def since(c):
            f = c + n - 1
            return (cost[f] if f <= T else hold[T] + self.at(after, f + d)) - hold[min(T, c)]

        return since

    def holding(self, z, m, how):
        """What m tokens of KV pay in slot z: on the device, or on the host where that is cheaper and allowed."""
        if how == "discard" or z >= self.T:
            return 0
        device = self.rows["device"][z] * blocks(m, self.block)
        stays = how == "preserve" or (self.machine.evict and self.machine.host_memory == 0)
        return device if stays else min(device, self.rows["host"][z] * m)

    def decodes(self, f, A, d):
        """What d tokens, the first in slot f with A resident, pay for the device."""
        if self.block == 1:
            return (A - f) * self.between(self.paid, f, f + d) + self.between(self.moment, f, f + d)
        steps = range(-A % self.block + 1, d, self.block)  # a block more from each of these tokens on
        grown = sum(self.between(self.paid, f + i, f + d) for i in steps)
        return grown + blocks(A, self.block) * self.between(self.paid, f, f + d)


# --- kind `configurations` (docs/start_time.md, The network of configurations) ----------------------------------------


def configurations(instance, proof, objective):
    """Kind `configurations`: prices of starts and of memory, in a network of what can run together at a tick."""
    machine, ones, scale, memory = instance.machine, instance.requests, proof.scale, proof.memory
    start, block = min(one.arrival for one in ones), machine.block
    late = any(one.arrival != start for one in ones)
    if (not always_one_tick(instance.cost) or any(len(one.segments) > 1 for one in ones) or not machine.hybrid
            or machine.chunked or machine.evict or machine.pause
            or objective not in ("total-flow-time", "weighted-flow-time", "total-ttft")
            or (late and (objective == "total-ttft" or machine.batch_tokens or machine.prefill_tokens))):
        raise Broken("its schedules are not start times")
    if len(proof.starts) != len(ones):
        raise Broken("starts: give a price for each request, or null")
    kinds = {}  # what requests that are alike share: [the price of a start, how many there are]
    for one, weight, y in zip(ones, weights(instance, objective), proof.starts):
        load = tuple(blocks(one.prompt + q, block) for q in range(output(one)))
        kind = (load, one.arrival - start, weight, 1 if objective == "total-ttft" else output(one), one.prompt)
        if kinds.setdefault(kind, [y, 0])[0] != y:
            raise Broken("requests that are alike have different prices")
        kinds[kind][1] += 1
    M = machine.memory // block if machine.memory else sum(kind[0][-1] * count for kind, (_, count) in kinds.items())
    total = -M * sum(memory)
    for kind, (y, count) in kinds.items():
        ticks = range(kind[1], max(kind[1], len(memory)) + 1)
        total += count * (min(start_cost(kind, t, scale, memory) for t in ticks) if y is None else y)
    inside = {kind: known for kind, known in kinds.items() if known[0] is not None}
    return Fraction(total + cheapest_path(inside, scale, memory, M), scale)


def start_cost(kind, t, scale, memory):
    """What a start at tick t costs, with the memory that it pays for."""
    load, release, weight, span, _ = kind
    return scale * weight * (t - release + span) + sum(p * held for p, held in zip(memory[t : t + len(load)], load))


def cheapest_path(kinds, scale, memory, M):
    """The cheapest path from the empty configuration on, less the prices of starts."""
    alike = {}  # of each last load, how many requests there are with it
    for kind, (_, count) in kinds.items():
        alike[kind[0][-1]] = alike.get(kind[0][-1], 0) + count
    best = {(): 0}  # by what runs on (the loads to come, sorted): the least paid so far
    lasts = [len(memory) + y // (scale * kind[2]) + kind[1] for kind, (y, _) in kinds.items()]
    for t in range(max(lasts, default=-1) + 1):
        options = [(kind, cost - y, count) for kind, (y, count) in kinds.items()
                   if t >= kind[1] and (cost := start_cost(kind, t, scale, memory)) < y]  # no other start lowers a cost
        following = {}
        for running, paid in best.items():
            totals = [sum(held) for held in zip_longest(*running, fillvalue=0)]
            for loads, cost in with_starts(running, totals, options, 0, alike, M):
                later = tuple(sorted(load[1:] for load in loads if len(load) > 1))
                following[later] = min(paid + cost, following.get(later, paid + cost))
        best = following
    return min(best.values())


def with_starts(running, totals, options, i, alike, M):
    """Every configuration that starts from options i, i + 1, .. make of what runs, and what they cost.

    `totals` are the blocks that what runs takes, now and at later ticks.
    """
    yield running, 0
    for each in range(i, len(options)):
        kind, cost, most = options[each]
        load = kind[0]
        if most == 0 or sum(other[-1] == load[-1] for other in running) == alike[load[-1]]:
            continue
        more = [total + held for total, held in zip_longest(totals, load, fillvalue=0)]
        if max(more[: len(load)]) <= M:
            left = [*options[:each], (kind, cost, most - 1), *options[each + 1 :]]
            for loads, others in with_starts((*running, load), more, left, each, alike, M):
                yield loads, cost + others


# --- kinds made of others: `parts` (docs/certificates.md) and `coarse` (docs/coarsening.md) ---------------------------


def parts(instance, proof, objective):
    """Kind `parts`: disjoint parts of the requests, each without the others."""
    if instance.machine.evict:
        raise Broken("parts are for machines without evict")
    ones, listed = instance.requests, [i for part in proof.parts for i in part.requests]
    if len(set(listed)) < len(listed) or max(listed) >= len(ones):
        raise Broken("the parts share a request, or there is none of such a number")
    bounds = [prove(Box(instance, requests=[ones[i] for i in part.requests]), part.proof, objective)
              for part in proof.parts]
    return sum(bounds) if objective in SUMS else max(bounds)


def coarse(instance, proof, objective):
    """Kind `coarse`: a bound of the instance rounded in the schedule's favour gives one of the instance."""
    if objective not in ("makespan", "total-flow-time", "weighted-flow-time", "max-flow-time"):
        raise Broken("a coarse bound says nothing about this objective")
    if not always_one_tick(instance.cost) or instance.coarsening or any(one.slo for one in instance.requests):
        raise Broken("coarse is for batches of one tick, without SLOs, of an instance that is not coarse")
    s = proof.slot_ticks
    rounded, offsets = relax(instance, proof.block_tokens, s)
    bound = s * whole(prove(rounded, proof.proof, objective), objective)
    if objective == "makespan":
        return bound + min(offsets)
    flows = [t + s * one.arrival - fine.arrival
             for t, one, fine in zip(offsets, rounded.requests, instance.requests)]
    if objective == "max-flow-time":
        return bound + min(flows)
    return bound + sum(flow * weight for flow, weight in zip(flows, weights(instance, objective)))


def relax(instance, b, s):
    """The coarse instance, and of each request the time t that its completion leaves out."""
    machine, n = instance.machine, len(instance.requests)
    ones, offsets, extra, merged = zip(*(relax_request(fine, b, s, machine.evict) for fine in instance.requests))
    extras, free = sum(extra), s > b or any(merged)
    M, H, C, P = machine.memory, machine.host_memory, machine.batch_tokens, machine.prefill_tokens
    small = Box(machine, chunked=True, hybrid=True, pause=True,
                batch_requests=machine.batch_requests * s if machine.batch_requests and not free else None)
    if machine.evict:
        total = M if s == 1 else None if None in (M, H, C) else M + H + C * (s - 1)
        small.update(block=1, host_memory=0, batch_tokens=None, prefill_tokens=None,
                     memory=None if total is None else total // b + extras)
    else:
        block = machine.block // b if machine.block % b == 0 else 1
        room = None if H is None else 0 if H == 0 else (H + n * (b - 1) * machine.partial) // b + extras
        C = None if C is None or free else (C * s + 3 * n * (b - 1)) // b
        P = None if P is None or free else (P * s + n * (3 * b - 2)) // b
        P = P if None in (C, P) else min(C, P)
        small.update(block=block, host_memory=room, batch_tokens=C, prefill_tokens=P,
                     memory=None if M is None else M // b + extras * block)
    return Box(instance, machine=small, requests=list(ones), cost=[cost_function({"busy": 1}, "cost")]), offsets


def relax_request(fine, b, s, evict):
    """A coarse request, its t, whether it is an extra, and whether any segment was merged."""
    u, segments = max(b, s), fine.segments
    spans = [segment.call.duration if segment.call else 0 for segment in segments]
    kept = [k for k, segment in enumerate(segments) if segment.decode >= u]
    if not kept:
        e = fine.arrival + output(fine) + sum(spans)
        arrival = max(0, e // s - 1)
        stand_in = Box(fine, arrival=arrival, prompt=1, segments=[Box(decode=1, call=None)])
        return stand_in, e - s * (arrival + 1), True, True
    known, K = [fine.prompt], []
    for segment in segments[:-1]:
        known.append(known[-1] + segment.decode + segment.call.returns)
    for k in kept:
        least = K[-1] + segments[kept[len(K) - 1]].decode // u if K else 1
        K.append(max(known[k] // b, least))
    result = []
    for i, k in enumerate(kept):
        d, call, following = segments[k].decode, None, kept[i + 1] if i + 1 < len(kept) else len(segments)
        time = d % u + sum(spans[k:following]) + sum(segment.decode for segment in segments[k + 1 : following])
        if following < len(segments):
            handlings = [segment.call.handling for segment in segments[k:following]]
            alike = set(handlings) == {"preserve"} or handlings[-1] == "discard"
            call = Box(duration=time // s, returns=K[i + 1] - K[i] - d // u,
                       handling=handlings[-1] if alike and not evict else "free")
        result.append(Box(decode=d // u, call=call))
    before = sum(segments[k].decode + spans[k] for k in range(kept[0]))
    one = Box(fine, arrival=(fine.arrival + before) // s, prompt=K[0], segments=result)
    return one, time, known[kept[0]] < b, len(kept) < len(segments)


# --- certificates (docs/certificates.md) ------------------------------------------------------------------------------


part = integer(0, 1024)
price = integer(0, 2**50)
DIVISION = dict(functions=(list_of(part, 1, 1000),), memory=(part, 0), tokens=(part, 0), prefill_tokens=(part, 0),
                requests=(part, 0), packing=(part, 0), packs=(integer(1, 1000), 1))
BRANCH = dict(request=(words,), segment=(integer(0),), slot=(integer(0),))
row = list_of(price, 0, 2**21)
signed = integer(-(10**9), 10**9)
family = record(most=(integer(1, 10**6),), shift=(signed,), reach=(signed,), price=(row,))

PRICES = dict(scale=(integer(1, 2**40),), slots=(integer(1, 2**21),), device=(row, []), host=(row, []),
              tokens=(row, []), requests=(row, []), windows=(list_of(family, 0, 100), []))


def node(value, where):
    """A node of a tree: a branch or a leaf."""
    fields = BRANCH if isinstance(value, dict) and "request" in value else dict(prices=(integer(0),))
    return record(**fields)(value, where)


def proof(value, where):
    """A proof of any kind."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise Bad(f"{where}: no proof of kind {kind!r} is checked here")
    return record(kind=(one_of(kind),), **KINDS[kind][1])(value, where)


KINDS = {
    "alone": (alone, {}),
    "shares": (shares, dict(DIVISION, alone=(list_of(part, 0, 10**6), []),
                            windows=(list_of(list_of(integer(0), 2, 2), 0, 10**5), []))),
    "prices": (slot_prices, PRICES),
    "tree": (tree, dict(prices=(list_of(record(kind=(one_of("prices"), "prices"), **PRICES), 1, 2**15),),
                        nodes=(list_of(node, 1, 2**15),))),
    "speed": (speed, dict(DIVISION, slot=(integer(1),), scale=(integer(1, 2**40),), price=(list_of(price, 0, 2**18),),
                          level=(part, 0), ratios=(list_of(integer(65, 2**20), 0, 64), []), ordered=(switch, False),
                          within=(integer(0), 0), fee=(part, 0),
                          fees=(list_of(list_of(integer(0, 2**20), 0, 2**18), 0, 10**6), []))),
    "configurations": (configurations, dict(scale=(integer(1, 10**6), 1), memory=(list_of(integer(0), 0, 10**5),),
                                            starts=(list_of(optional(integer(-MOST)), 1, 10**5),))),
    "parts": (parts, dict(parts=(list_of(record(requests=(list_of(integer(0), 1),), proof=(proof,)), 1),))),
    "coarse": (coarse, dict(block_tokens=(integer(1, 10**9),), slot_ticks=(integer(1, 10**9),), proof=(proof,))),
}
certificate_file = record(
    format=(one_of("kvbound-certificate"), "kvbound-certificate"), version=(one_of(1), 1), instance_sha256=(words,),
    objective=(one_of(*OBJECTIVES),), bound=(claim,), why=(words, ""), horizon=(words, ""),
    made_by=(words, ""), proof=(proof,),
)


def prove(instance, proof, objective):
    """The lower bound that the numbers of a proof give, whatever they are; Broken where its argument does not hold."""
    return KINDS[proof.kind][0](instance, proof, objective)


def whole(bound, objective):
    """The bound rounded up, where every value of the objective is a whole number."""
    return bound if objective == "normalized-latency" else ceil(bound)


def verify_certificate(instance, data):
    """What a certificate proves; Broken if that is less than it claims."""
    certificate = certificate_file(data, "certificate")
    objective = certificate.objective
    if certificate.instance_sha256 != sha256(instance):
        instance = with_free_calls(instance)
        if certificate.instance_sha256 != sha256(instance):
            raise Broken("the certificate is for another instance")
    bound = whole(prove(instance, certificate.proof, objective), objective)
    if bound < certificate.bound:
        raise Broken(f"it claims {certificate['bound']}, but proves {bound} only")
    return objective, bound


# --- the command ------------------------------------------------------------------------------------------------------


def check_record(path):
    """Check what a record of the library (docs/library.md) claims; return what was checked, in words."""
    made = load(path, floats=True)
    base = path.with_name(path.name.removesuffix(".json"))
    instance = read_instance(load(f"{base}.instance.json.gz"))
    if made["instance_sha256"] != sha256(instance):
        raise Broken("it is of another instance")
    done = []
    for objective, claimed in made["objectives"].items():
        value = bound = None
        if claimed["value"] is not None:
            value = verify_schedule(instance, load(f"{base}.{objective}.schedule.json.gz"))[objective]
            if value != Fraction(claimed["value"]):
                raise Broken(f"{objective}: the schedule has {value}, the record says {claimed['value']}")
        if claimed["bound"] is not None:
            said, bound = load(f"{base}.{objective}.certificate.json.gz"), Fraction(claimed["bound"])
            if '"kind": "exhaustive"' in json.dumps(said):
                done.append(f"{objective} {value}, its bound {bound} is exhaustive and not checked")
                continue
            if verify_certificate(instance, said)[0] != objective or Fraction(said["bound"]) < bound:
                raise Broken(f"{objective}: the certificate claims {said['objective']} >= {said['bound']}, not {bound}")
        if (claimed["status"] == "solved") != (value is not None and value == bound):
            raise Broken(f"{objective}: it is called {claimed['status']} with value {value} and bound {bound}")
        done.append(f"{objective} {value} >= {bound}")
    return ", ".join(done)


def check_all(folder):
    """Check every record below a folder; the exit code."""
    wrong, records = 0, sorted(path for path in Path(folder).rglob("*.json") if path.name.count(".") == 1)
    for path in records:
        try:
            print(f"{path.stem}: {check_record(path)}", flush=True)
        except (Bad, Broken, KeyError) as error:
            wrong += 1
            print(f"{path.stem}: WRONG: {error}", flush=True)
    print(f"{len(records)} records, {wrong} of them wrong")
    return int(wrong > 0)


def main(arguments):
    try:
        if len(arguments) == 2 and arguments[0] == "--all":
            return check_all(arguments[1])
        if len(arguments) != 2:
            raise Bad(__doc__)
        instance, data = read_instance(load(arguments[0])), load(arguments[1])
        if isinstance(data, dict) and ("proof" in data or data.get("format") == "kvbound-certificate"):
            objective, bound = verify_certificate(instance, data)
            print(f"valid: {objective} is at least {bound}")
        else:
            for objective, value in verify_schedule(instance, data).items():
                print(f"{objective} {value}")
    except Broken as error:
        print(f"invalid: {error}")
        return 1
    except Bad as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
