"""Instances for the corners that matter, and what an instance has, in words."""

import contextlib
import json
from copy import deepcopy
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

from pydantic import ValidationError

from heuristics import get_policy, trace_policy
from kvcore import OBJECTIVES, Cost, Instance, Request, Slo
from kvcore.cost import CostFunction, TokensAbove
from kvcore.metrics import makespan, tail_of
from tests.support.drawer import COMMON, FEATURES, RATIOS, SWITCHES, TINY, draw_instance, traits_of

PLAIN = {"evict": False, "partial": False, "hybrid": True, "pause": True, "cost": "unit"}
"""What programs over ways of requests, and prices of slots, ask for."""
SCALE = 10**13
"""By how much the times of a twin are longer."""

SMALL: dict[str, Any] = {
    "requests": (1, 2, 2, 3), "prompt": (1, 2), "decode": (1, 1, 2), "calls": (0, 1), "duration": (0, 1, 2),
    "returns": (0, 1), "arrival": (0, 0, 1, 2), "partial": (False, True), "block": (1, 1, 2, 3),
    "memory": (*("between",) * 18, "odd", None),
}  # fmt: skip
NO_BUDGETS: dict[str, Any] = {"batch_tokens": None, "prefill_tokens": None, "batch_requests": None}

CORNERS: dict[str, dict[str, Any]] = {
    "any": {},
    "host at its sum": {"handling": ("swap", "swap", "free"), "calls": (0, 1, 1), "host_memory": "all swaps"},
    "cheap refills": {"evict": True, "partial": (False, True, True), "cost": "refills"},
    "tpot deadlines": {
        "slo": True, "decode": (2, 3), "requests": 2, "targets": (2, 3),
        "due": {"tpot": RATIOS, "latency": range(2, 13), "ttft": range(5)},
    },
    "ordered swaps": {"handling": "swap", "calls": (1, 1, 2), "prompt": 1},
    "partial without pause": {"partial": True, "evict": True, "pause": False, "handling": ("free", "swap")},
    "late segments": PLAIN | {"batch_requests": None, "prefill_tokens": None, "batch_tokens": (None, 4, 6, 8),
                              "duration": (1, 3, 5), "calls": (0, 1)},
    "blocks": {"block": (2, 3, 4), "prompt": (1, 2, 3, 5)},
    "odd memory": {"block": 3, "memory": "odd", "prompt": (1, 2, 3, 4)},
    "no limits": NO_BUDGETS | {"host_memory": "no limit", "memory": (None, "between")},
    "features": {"requests": 2, "cost": ("some 1", "some 1", "some 2", "some 3")},
    "many functions": {"requests": 2, "cost": ("some 3", "some 4", "some 5")},
    "gaps": {"arrival": (0, 0, 4, 9, 17), "duration": (4, 7, 12, 30), "calls": (0, 1, 1)},
    "four": {
        "requests": 4, "prompt": (1, 1, 2), "calls": (0, 0, 0, 1), "evict": (False, False, True),
        "partial": (False, False, False, True), "batch_requests": (None, 1, 2), "cost": ("unit", "unit", "some 1"),
    },
    "plain": PLAIN,
    "plain, no pause": PLAIN | NO_BUDGETS | {"pause": False},
    "rigid": PLAIN | {"chunked": False, "calls": 0, "pause": False, "requests": (2, 3, 4), "decode": (1, 2, 3, 4)},
    "rigid, online": PLAIN
    | {"chunked": False, "calls": 0, "pause": False, "batch_tokens": None, "prefill_tokens": None, "requests": (2, 3)},
    "alike": {"calls": 0, "arrival": 0, "slo": False},
    "ample": {
        "host_memory": "no limit", "cost": "unit", "batch_tokens": None, "prefill_tokens": None, "hybrid": True,
        "evict": (True, True, False), "memory": (None, "between"),
    },
    "carriers": {
        "evict": True, "chunked": True, "partial": (False, False, False, True), "requests": (2, 2, 2, 3),
        "prompt": (1, 1, 2), "decode": (3, 3, 4), "calls": (0, 0, 0, 0, 1), "arrival": (0, 0, 0, 0, 1), "block": 1,
        "batch_tokens": (None, 2, 2), "prefill_tokens": None, "batch_requests": None,
        "host_memory": ("none", "none", "none", "some"), "hybrid": (True, True, True, True, False),
        "pause": (True, True, True, True, False), "memory": "near",
        "cost": (*("batches",) * 5, *("batches, pairs",) * 4, "linear"),
    },
    "near": {},
}  # fmt: skip
"""What the draw of each corner fixes of a `TINY` instance."""
TWIN: dict[str, Any] = {"cost": "whole", "slo": (False, False, True)}
AIMED = ("carriers", "near")
"""Where optima were false: drops that need a batch, chunks smaller than what was held, budgets that bind."""
FALSE = [path for name in ("drops", "drops2", "finish") for path in Path(__file__).parents[1].glob(f"data/{name}.json")]


def tiny(draw: Random, corner: str | None = None, twins: float = 0.0) -> tuple[str, Instance]:
    """Return a corner and an instance of it that an exhaustive search may take; `twins`: how often it is a twin."""
    if draw.random() < twins:
        return "twin", twin(draw)
    corner = corner or draw.choice([*CORNERS, *3 * AIMED])
    if corner == "near":
        return corner, near(draw)
    sizes = {} if draw.random() < 0.3 else SMALL
    made = drawn(draw, corner, sizes)
    return corner, twins_of(draw, made) if corner == "alike" else made


def drawn(draw: Random, corner: str, sizes: dict[str, Any], **more: Any) -> Instance:
    """Return an instance of a corner; what it does not fix is of some sizes."""
    at_once = {"arrival": draw.choice((0, 0, 1, 2))} if corner == "rigid" else {}
    return draw_instance(draw, TINY.but(**sizes | CORNERS.get(corner, {}) | at_once | more), corner)


def twin(draw: Random) -> Instance:
    """Return a tiny instance with all times `SCALE` times as long: its optimum is, too."""
    while True:
        base = drawn(draw, draw.choice(("any", "gaps", "odd memory", "blocks")), SMALL, **TWIN)
        if base.cost != Cost.unit() and makespan(trace_policy(base, get_policy("serial"))) < 80:
            return retimed(base, Fraction(SCALE)).replace(name="twin")


def untwinned(instance: Instance) -> Instance | None:
    """Return the instance of which it is a twin (None: of none)."""
    lines, moves = instance.cost.functions, ("busy", "swap_out_tokens", "swap_in_tokens")
    if any(line.divisor > 1 for line in lines) or any(not any(getattr(x, name) for x in lines) for name in moves):
        return None
    with contextlib.suppress(ValueError):
        return retimed(instance, Fraction(1, SCALE))
    return None


def retimed(instance: Instance, by: Fraction) -> Instance:
    """Return the instance with all times multiplied (ValueError: some are then not whole)."""

    def ticks(time: int) -> int:
        if (time * by).denominator > 1:
            raise ValueError(f"{time} ticks")
        return int(time * by)

    def line(function: CostFunction) -> CostFunction:
        made: dict[str, Any] = {
            name: ticks(rate) for name in FEATURES if isinstance(rate := getattr(function, name), int)
        }
        if (above := function.tokens_above) is not None:
            made["tokens_above"] = TokensAbove(knee=above.knee, coefficient=ticks(above.coefficient))
        return CostFunction(divisor=function.divisor, **made)

    def request(one: Request) -> Request:
        slo = {name: limit * by if isinstance(limit, Fraction) else ticks(limit)
               for name, limit in one.slo or () if limit is not None}  # fmt: skip
        timed = one.with_calls(lambda call: call.replace(duration=ticks(call.duration)))
        return timed.replace(arrival=ticks(one.arrival), slo=Slo(**slo) if one.slo else None)

    return instance.replace(
        cost=Cost(tuple(map(line, instance.cost.functions))), requests=tuple(map(request, instance.requests))
    )


def near(draw: Random) -> Instance:
    """Return an instance of which a way once said something false, with some of its numbers and switches changed."""
    document = json.loads(draw.choice(FALSE).read_text(encoding="utf-8")) | {"name": "near"}
    while True:
        made = deepcopy(document)
        for _ in range(draw.choice([1, 2, 3])):
            place = draw.choice([made["machine"], *made["requests"], *made["requests"], *made["cost"]])
            if draw.random() < 0.5 and "segments" in place:
                place = draw.choice(place["segments"])
                place = place["call"] if draw.random() < 0.5 and "call" in place else place
            numbers = [name for name, value in place.items() if type(value) is int]
            if place is made["machine"] and draw.random() < 0.4:
                switch = draw.choice(SWITCHES)
                place[switch] = not place.get(switch, switch in ("hybrid", "chunked", "pause"))
            elif place in made["requests"] and draw.random() < 0.2 and len(made["requests"]) > 2:
                made["requests"].remove(place)
            elif numbers:
                name = draw.choice(numbers)
                place[name] = max(0, place[name] + draw.choice([-1, 1]))
        try:
            return Instance.model_validate_json(json.dumps(made))
        except ValidationError:  # no such instance can be carried out
            continue


def medium(draw: Random) -> tuple[str, Instance]:
    """Return a corner and an instance of it of 5 to 12 requests; memory is what the largest needs, and little more."""
    sizes: dict[str, Any] = {
        "requests": tuple(range(5, 13)), "prompt": tuple(range(1, 9)), "decode": (1, 2, 3, 5, 8), "calls": (0, 0, 1),
        "duration": (0, 1, 3, 8), "returns": (0, 1, 3), "arrival": (0, 0, 1, 4, 9), "batch_tokens": (None, 6, 9),
        "prefill_tokens": (None, 6), "chunked": (True, False),
        "memory": ("largest", "double", "double", "triple", None),
    }  # fmt: skip
    corner = draw.choice(
        ["any", "blocks", "odd memory", "ordered swaps", "plain", "late segments", "gaps", "many functions",
         "rigid", "rigid", "rigid, online"]
    )  # fmt: skip
    sized = {name: sizes[name] for name in ("requests", "prompt", "decode")}
    return corner, drawn(draw, corner, sizes, **sized)


def objective(draw: Random, corner: str, tails: float = 0.0) -> str:
    """Return an objective that goes with the corner; `tails`: how often it is a percentile."""
    if draw.random() < tails:
        return f"p{draw.choice([99, 90, 74, 66, 50, 30, 10])}-{draw.choice(['flow-time', 'ttft'])}"
    if corner == "tpot deadlines":
        return "late-requests"
    if corner in AIMED and draw.random() < 0.8:
        return draw.choice(["busy-time", "weighted-flow-time"])
    if corner in ("rigid", "rigid, online", "plain", "plain, no pause", "late segments") and draw.random() < 0.7:
        return draw.choice(["total-flow-time", "weighted-flow-time", "total-ttft"])
    if corner == "alike" and draw.random() < 0.7:
        return draw.choice(["busy-time", "makespan"])
    return draw.choice(list(OBJECTIVES))


def twins_of(draw: Random, made: Instance) -> Instance:
    """Return the instance with two to four requests of one or two kinds instead."""
    rates = ("tokens", "decode_kv", "generated", "prefill_requests", "prefill_kv", "decode_requests")
    cost = Cost((CostFunction(busy=draw.choice([1, 3, 10, 30]), **{name: draw.randint(0, 2) for name in rates}),))
    requests = tuple(draw.choice(made.requests[:2]).replace(id=f"R{i}", weight=1)
                     for i in range(1, draw.choice([2, 3, 4]) + 1))  # fmt: skip
    plain = NO_BUDGETS | {"hybrid": True, "pause": True} if draw.random() < 0.7 else {}
    machine = made.machine.replace(memory=made.machine.memory and made.machine.memory + draw.randint(0, 3), **plain)
    return made.replace(requests=requests, machine=machine, cost=cost if draw.random() < 0.7 else made.cost)


def traits(instance: Instance, objective: str | None = None) -> set[str]:
    """Return what a case exercises: objective, switches, limits, cost features, handlings and the like."""
    machine, lines, tail = instance.machine, instance.cost.functions, objective and tail_of(objective)
    found = traits_of(instance) | {f"feature {name}" for line in lines for name in FEATURES if getattr(line, name)}
    if tail:
        found.add(PERCENTILES[tail.spared(len(instance.requests)) > 0])
    elif objective is not None:
        found.add(f"objective {objective}")
    return found | {name for name, met in {
        "block 3, odd memory": machine.block == 3 and (machine.memory or 0) % 3,
        "divisor > 1": any(line.divisor > 1 for line in lines),
        "two cost functions": len(lines) > 1, "three cost functions": len(lines) > 2,
        "weight > 1": any(request.weight > 1 for request in instance.requests),
        "arrival > 3": any(request.arrival > 3 for request in instance.requests),
        "call > 3": any(call.duration > 3 for request in instance.requests for call in request.calls),
        "four requests": len(instance.requests) == 4,
    }.items() if met}  # fmt: skip


PERCENTILES = ("percentile of all", "percentile that spares some")
TRAITS = COMMON | {f"objective {name}" for name in OBJECTIVES} | {f"feature {name}" for name in FEATURES} | {
    "block 3, odd memory", "divisor > 1", "two cost functions", "three cost functions", "weight > 1", "arrival > 3",
    "call > 3", "four requests",
}  # fmt: skip
NEEDED = TRAITS | {f"corner {name}" for name in (*CORNERS, "twin")}
