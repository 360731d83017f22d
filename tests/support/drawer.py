"""One drawer of random instances: `draw_instance(draw, profile)`. A profile says from what each quantity is drawn.

Everything comes from one `random.Random`, so a seed repeats an instance. `tiny_instance(seed)` is small enough for the
exhaustive search and rich enough to reach every rule; `tiny_instance(seed, **PROFILES["evict"])` fixes what is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

from pydantic import ValidationError

from kvcore.cost import Cost, CostFunction, TokensAbove
from kvcore.instance import Call, Instance, KvGroup, KvLayout, Machine, Request, Segment, Slo

SWITCHES = ("hybrid", "chunked", "evict", "partial", "pause")
FEATURES = tuple(name for name in CostFunction.model_fields if name != "divisor")

LIMITS = ("memory", "host_memory", "batch_tokens", "prefill_tokens", "batch_requests")
HANDLINGS = ("preserve", "discard", "swap", "free")

Values = Sequence[Any]
"""From what a quantity is drawn; repeated values are likelier."""
Line = Mapping[str, Values]
"""From what a function of the cost is drawn, by feature; for `tokens_above`, knees and coefficients."""

RATIOS = tuple(Fraction(n, d) for n in range(1, 13) for d in range(1, 5))

MEMORY: dict[str, Callable[[Random, int, int, int], int]] = {
    "between": lambda draw, least, most, block: draw.randint(least, most), "odd": lambda draw, least, most,
    block: draw.randrange(least, most + 1, block) + draw.randrange(block), "largest": lambda draw, least, most,
    block: least, "near": lambda draw, least, most, block: least + draw.randint(0, 3 * block), "double": lambda draw,
    least, most, block: least + draw.randint(0, least), "triple": lambda draw, least, most, block: 3 * least,
    "sum": lambda draw, least, most, block: most,
}  # fmt: skip
"""Memories by name, from the blocks of the largest request and of all; "odd" may have tokens over."""
HOSTS: dict[str, Callable[[Random, int, list[int]], int | None]] = {
    "none": lambda draw, some, swaps: 0, "some": lambda draw, some, swaps: some, "no limit": lambda draw, some,
    swaps: None, "swapped": lambda draw, some, swaps: max(swaps), "near": lambda draw, some,
    swaps: max(swaps) + draw.randint(0, 6), "all swaps": lambda draw, some,
    swaps: max(0, sum(swaps) - draw.choice((0, 0, 1, 2))),
}  # fmt: skip
"""Host memories by name, from a part of what the largest request holds, and the sizes of ordered swaps."""

WORK: Line = {
    "divisor": (1, 2, 3), "busy": (0, 1, 2), "any_decode": (0, 1), "any_prefill": (0, 1), "tokens": (0, 1),
    "tokens_above": ((1, 2, 3), (0, 1, 2)), "generated": (0, 1), "decode_requests": (0, 1), "prefill_requests": (0, 1),
    "decode_kv": (0, 1), "prefill_kv": (0, 1), "prefill_pairs": (0, 1),
}  # fmt: skip
SWAPS: Line = {"swap_out_tokens": (0, 1, 2), "swap_in_tokens": (0, 1, 2), "swap_outs": (0, 1), "swap_ins": (0, 1)}
SOME: Line = dict.fromkeys(FEATURES, (0, 0, 0, 0, 0, 0, 1, 2, 3)) | {
    "tokens_above": (range(5), (0, 0, 0, 1, 2, 3)), "divisor": (1, 1, 2, 3, 5, 7)}  # fmt: skip
LARGE: Line = {"busy": range(9), "tokens": range(4), "decode_kv": (0, 1), "divisor": range(1, 6)}
LARGE_SWAPS: Line = {"swap_out_tokens": range(4), "swap_in_tokens": range(4), "swap_outs": (1,)}
FRESH: Line = {
    "busy": (0, 1, 2, 4), "tokens": (1, 2, 3), "divisor": (1, 1, 2), "any_decode": (0, 0, 1), "any_prefill": (0, 0, 2),
    "generated": (0, 0, 1), "decode_requests": (0, 0, 1), "prefill_requests": (0, 0, 1),
}  # fmt: skip
MOVED: Line = {"swap_out_tokens": (0, 1, 2), "swap_in_tokens": (1, 2, 3)}
COSTS: dict[str, tuple[Line, ...]] = {
    "unit": ({"busy": (1,)},),
    "linear": (WORK | SWAPS,),
    "two-functions": (WORK, SWAPS | {"divisor": (1, 2)}),
    **{f"some {n}": (SOME,) * n for n in range(1, 6)},
    "large": (LARGE | LARGE_SWAPS,),
    "large, apart": (LARGE, LARGE_SWAPS | {"divisor": range(1, 6)}),
    "busy": ({
        "busy": range(2, 41), "any_decode": range(16), "any_prefill": range(41), "tokens": range(26),
        "decode_requests": range(10), "decode_kv": range(10), "prefill_pairs": range(3), "divisor": (3, 10),
    },),
    "fresh": (FRESH,),
    "fresh, swaps": (FRESH, {"busy": (1, 3), "swap_out_tokens": (1,), "swap_in_tokens": (1,)}),
    "fresh, moved": (FRESH | MOVED,),
    "fresh, moved apart": (FRESH, MOVED | {"divisor": (1, 2)}),
    "refills": ({"busy": (0, 1), "any_decode": (0, 9), "decode_kv": range(4), "swap_in_tokens": range(5),
                 "swap_outs": (0, 5), "divisor": (1, 2, 5)},),
    "batches": ({"busy": (2, 3, 10), "tokens": (0, 0, 1)},),
    "batches, pairs": ({"busy": (2, 3, 10), "tokens": (0, 0, 1)},
                       {"divisor": (1, 2), "tokens": range(4), "prefill_pairs": (1, 2)}),
    "whole": tuple({"busy": (1, 2), "swap_out_tokens": (1, 2), "swap_in_tokens": (1, 3)} | more
                   for more in ({"tokens": (0, 1, 2)}, {"decode_kv": (0, 1), "prefill_pairs": (0, 1)})),
}  # fmt: skip
"""Costs by name, function by function; "some 3": three functions of a few features each; "whole": no batch is free."""


@dataclass(frozen=True)
class Profile:
    """From what each quantity of an instance is drawn."""

    requests: Values = (2, 2, 3)
    prompt: Values = (1, 2, 3)
    decode: Values = (1, 2, 3)
    calls: Values = (0, 1, 1, 2)
    """Of each request."""
    duration: Values = (0, 1, 2, 3)
    returns: Values = (0, 1, 2)
    handling: Values = HANDLINGS
    arrival: Values = (0, 0, 1, 2, 3)
    weight: Values = (1, 1, 2, 3)
    slo: Values = (False, True)
    targets: Values = (1, 2)
    """How many of `due` a request with an SLO has."""
    due: Line = field(default_factory=lambda: {
        "ttft": range(1, 6), "latency": range(2, 11), "tpot": [Fraction(n, 2) for n in range(2, 7)],
        "normalized_latency": [Fraction(n, 2) for n in range(3, 13)],
    })  # fmt: skip
    block: Values = (1, 1, 2)
    memory: Values = ("between",)
    """Of `MEMORY`, or a number, or None."""
    host_memory: Values = ("none", "some", "no limit")
    """Of `HOSTS`, or a number."""
    batch_tokens: Values = (None, 1, 2, 3, 4)
    """Also "enough": for whole prefills where they are not chunked, and little more."""
    prefill_tokens: Values = (None, None, 1, 2, 3)
    batch_requests: Values = (None, None, 1, 2)
    hybrid: Values = (False, True, True)
    chunked: Values = (False, True, True)
    evict: Values = (False, True)
    partial: Values = (False, False, True)
    pause: Values = (False, True)
    drop_and_work: Values = (False,)
    layout: Values = (None,)
    """Also "some": random windows and states."""
    cost: Values = ("unit", "linear", "two-functions")
    """Of `COSTS`, or functions."""

    def but(self, **fixed: Any) -> Profile:
        """Return the profile with other values of some quantities; one that is no sequence is the only one."""
        return replace(self, **{name: v if isinstance(v, tuple | range | dict) else (v,) for name, v in fixed.items()})


TINY = Profile()
"""What the exhaustive search takes in a moment."""
ANY = Profile(
    requests=(1, 2, 2, 3, 3, 4), prompt=range(1, 7), decode=(1, 1, 2, 2, 3, 3, 4), calls=(0, 0, 0, 1, 1, 2),
    duration=(0, 0, 0, 1, 1, 1, *range(2, 9)), returns=(0, 0, 0, 1, 2, 3), arrival=(*(0,) * 8, *range(9)),
    weight=range(1, 6), targets=(1, 1, 2, 2, 3, 4), block=(1, 1, 2, 3), memory=(None, "largest", "double", "near"),
    due={"ttft": range(11), "latency": range(31), "tpot": RATIOS, "normalized_latency": RATIOS},
    host_memory=("no limit", "swapped", "near", "near"), batch_tokens=(None, "enough"),
    prefill_tokens=(None, "enough"), hybrid=(False, True), partial=(False, True),
    cost=("unit", "some 1", "two-functions", "some 2", "some 3"),
)  # fmt: skip
"""Larger ones of every switch, for the referee; their limits are between the need of one request and that of all."""
CROWDED = Profile(
    requests=range(3, 11), prompt=range(1, 13), decode=range(1, 9), calls=(0, 1, 1, 2, 3),
    duration=(*(0, 1) * 19, *range(2, 21)), returns=(*(0,) * 10, *range(1, 6)), arrival=(*(0,) * 31, *range(31)),
    weight=(1,), slo=(False,), block=(1, 1, 2, 4), memory=("largest", "double", "triple", None),
    host_memory=("swapped", "near", "no limit"), batch_tokens=(None, "enough"), prefill_tokens=(None, "enough"),
    batch_requests=(None, None, 1, 3), hybrid=(False, True), evict=(False, False, True),
    cost=("unit", "large", "large, apart"),
)  # fmt: skip
"""More requests than memory: what policies have to cope with."""

FRESH = Profile(
    requests=(2, 2, 2, 3), prompt=range(1, 6), decode=(1, 1, 2), calls=(0, 0, 1, 1, 2), duration=(0, 2, 5, 9, 14),
    returns=(0, 0, 1, 3), handling=("free", "free", "preserve", "discard", "swap"), arrival=(0, 0, 1, 4, 8),
    weight=(1, 1, 2), slo=(False,), block=(1,), memory=("largest", "near", "sum", "sum"),
    host_memory=("swapped", "near", "no limit"), batch_tokens=(None, None, 2, 3, 4), prefill_tokens=(None,),
    batch_requests=(None,), hybrid=(True, False), chunked=(True, True, True, False), evict=(True, False),
    partial=(True, False), pause=(True, False), cost=("fresh", "fresh", "fresh, swaps"),
)  # fmt: skip
"""Calls longer than batches, and prefills in parts; memory may bind."""
TIGHT = FRESH.but(
    memory="near", block=(1, 1, 2), partial=False, host_memory=("swapped", *("no limit",) * 4),
    cost=("fresh, moved", "fresh, moved apart", "fresh, moved apart"),
)  # fmt: skip
"""Contexts that do not fit together, and KV that moves as a whole; swaps take time."""
BUSY = Profile(
    requests=range(1, 5), prompt=range(1, 5), calls=(0,), arrival=(*(0,) * 26, *range(13)), weight=(1, 2, 3),
    slo=(False,), memory=(None, "between", "odd"), host_memory=("none",), batch_tokens=(None, 4, 6),
    prefill_tokens=(None,), batch_requests=(None,), chunked=(True, True, False), partial=(False,), pause=(True,),
    cost=("busy",),
)  # fmt: skip
"""Batches that cost much, and a little for what is in them: as measured ones do."""
LAID: dict[str, Any] = {"layout": "some", "partial": False}
"""What `tiny_instance` must fix for windows and states."""

PROFILES: dict[str, dict[str, Any]] = {
    "any": {},
    "no-calls": {"calls": 0, "requests": 3},
    "calls-fixed": {"calls": 1, "handling": ("preserve", "discard", "swap"), "evict": False},
    "calls-free": {"calls": 1, "handling": ("free",)},
    "two-calls": {"calls": 2, "requests": 2, "decode": 1, "prompt": 1},
    "evict": {"calls": (0, 0, 1), "evict": True, "partial": False},
    "partial": {"calls": (0, 1), "requests": 2, "evict": True, "partial": True},
    "slow-costs": {"cost": ("linear", "two-functions"), "requests": 2},
}
"""What each named profile of tiny instances fixes; the rest is drawn."""


def tiny_instance(seed: int, **fixed: Any) -> Instance:
    """Return the tiny instance of that seed; a fixed quantity is a value, or a tuple to draw from instead."""
    return draw_instance(Random(seed), TINY.but(**fixed), f"tiny-{seed}")


def crowded_instance(seed: int, most: int = 10) -> Instance:
    """Return the crowded instance of that seed, of up to `most` requests."""
    return draw_instance(Random(seed), CROWDED.but(requests=range(3, most + 1)), f"crowded-{seed}")


def draw_instance(draw: Random, profile: Profile = ANY, name: str = "drawn", *, attempts: int = 1000) -> Instance:
    """Return a random instance of a profile; what no schedule can carry out is drawn again (ValueError: too often)."""
    for _ in range(attempts):
        try:
            requests = tuple(_request(draw, profile, f"R{i}") for i in range(1, draw.choice(profile.requests) + 1))
            machine = _machine(draw, profile, requests)
            return Instance(name=name, machine=machine, cost=_cost(draw, profile), requests=requests)
        except ValidationError:
            continue
    raise ValueError(f"{attempts} draws gave no instance that can be carried out: {profile}")


def _request(draw: Random, profile: Profile, id: str) -> Request:
    names = ("duration", "returns", "handling")
    calls = [Call(**{name: draw.choice(getattr(profile, name)) for name in names})
             for _ in range(draw.choice(profile.calls))]  # fmt: skip
    segments = tuple(Segment(decode=draw.choice(profile.decode), call=call) for call in [*calls, None])
    return Request(
        id=id, arrival=draw.choice(profile.arrival), prompt=draw.choice(profile.prompt),
        weight=draw.choice(profile.weight), slo=_slo(draw, profile) if draw.choice(profile.slo) else None,
        segments=segments,
    )  # fmt: skip


def _slo(draw: Random, profile: Profile) -> Slo:
    values = {name: draw.choice(each) for name, each in profile.due.items()}
    return Slo(**{name: values[name] for name in draw.sample(sorted(values), draw.choice(profile.targets))})


def _machine(draw: Random, profile: Profile, requests: tuple[Request, ...]) -> Machine:
    block, layout = draw.choice(profile.block), _one(draw, profile.layout)
    layout = _layout(draw) if layout == "some" else layout
    units = layout or KvLayout(groups=(KvGroup(),))
    blocks = [units.units(request.peak, block) * block for request in requests]
    budgets = {name: draw.choice(getattr(profile, name)) for name in ("batch_tokens", "prefill_tokens")}
    some, memory = draw.randint(1, max(blocks)), _one(draw, profile.memory)
    if memory in MEMORY:
        memory = MEMORY[memory](draw, max(blocks), sum(blocks), block)
    host = draw.choice(profile.host_memory)
    if host in HOSTS:
        host = HOSTS[host](draw, some, [0, *(tokens for request in requests for tokens in _swaps(request))])
    batch_requests = draw.choice(profile.batch_requests)
    switches = {switch: draw.choice(getattr(profile, switch)) for switch in SWITCHES}
    least = 1 if switches["chunked"] else max(map(_longest_prefill, requests))
    budgets = {name: least + draw.randint(0, 4) if n == "enough" else n for name, n in budgets.items()}
    if None not in budgets.values():
        budgets["prefill_tokens"] = min(budgets.values())
    switches["drop_and_work"] = _one(draw, profile.drop_and_work)
    return Machine(memory=memory, block=block, host_memory=host, batch_requests=batch_requests, layout=layout,
                   **budgets, **switches)  # fmt: skip


def _layout(draw: Random) -> KvLayout:
    groups = (
        KvGroup(weight=draw.choice((1, 1, 2, 3)), window=draw.choice((None, 1, 2, 3, 4)))
        for _ in range(draw.choice((0, 1, 1, 2)))
    )
    state, groups = draw.choice((0, 0, 1, 2)), tuple(groups)
    return KvLayout(state=state if groups else max(1, state), groups=groups)


def _swaps(request: Request) -> list[int]:
    """Return the KV that its calls order to be swapped out."""
    return [request.context_at_call(k) for k, call in enumerate(request.calls) if call.handling == "swap"]


def _longest_prefill(request: Request) -> int:
    """Return the tokens of the longest prefill that may be needed at once (with any handling of the calls)."""
    return max(request.prompt, *(known + 1 for known in request.known[1:]), 1)


def _cost(draw: Random, profile: Profile) -> Cost:
    kind = draw.choice(profile.cost)
    return Cost(tuple(_function(draw, line) for line in (COSTS[kind] if isinstance(kind, str) else kind)))


def _function(draw: Random, line: Line) -> CostFunction:
    made: dict[str, Any] = {}
    for name, values in line.items():
        if name == "tokens_above":
            knee, coefficient = (draw.choice(each) for each in values)
            made[name] = TokensAbove(knee=knee, coefficient=coefficient)
        else:
            made[name] = _one(draw, values)
    return CostFunction(**made)


def _one(draw: Random, values: Values) -> Any:
    """Return one of some values; where there is one alone, nothing is drawn."""
    return values[0] if len(values) == 1 else draw.choice(values)


def fixed_handlings(instance: Instance) -> Iterator[tuple[tuple[str, ...], Instance]]:
    """Yield every vector of handlings, call by call, with the instance that has it; not those that cannot be met."""
    calls = sum(len(request.calls) for request in instance.requests)
    for vector in product(("preserve", "discard", "swap"), repeat=calls):
        handlings = iter(vector)
        try:
            yield vector, instance.with_calls(lambda call, each=handlings: call.replace(handling=next(each)))
        except ValidationError:  # the host cannot hold it, or the refill is above the budget and not chunked
            continue


def traits_of(instance: Instance) -> set[str]:
    """Return what an instance has, in words: some of `COMMON`."""
    machine, requests = instance.machine, instance.requests
    calls = [call for request in requests for call in request.calls]
    limits = {f"limit {n}={'null' if getattr(machine, n) is None else 'some'}" for n in LIMITS}
    return limits | {f"switch {name}={getattr(machine, name)}" for name in SWITCHES} | {
        f"slo {name}" for one in requests for name, value in one.slo or () if value is not None
    } | {f"handling {call.handling}" for call in calls} | {name for name, met in {
        "block 1": machine.block == 1, "block > 1": machine.block > 1, "host 0": machine.host_memory == 0,
        "returns": any(call.returns for call in calls), "arrival > 0": any(one.arrival for one in requests),
    }.items() if met}  # fmt: skip


COMMON = frozenset(
    {f"switch {name}={value}" for name in SWITCHES for value in (True, False)}
    | {f"limit {name}={value}" for name in LIMITS for value in ("null", "some")}
    | {f"handling {name}" for name in HANDLINGS} | {f"slo {name}" for name in Slo.model_fields}
    | {"block 1", "block > 1", "host 0", "returns", "arrival > 0"}
)  # fmt: skip
"""What tests of random instances ask whether it was met."""
