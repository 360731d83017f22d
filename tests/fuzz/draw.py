"""Instances for the corners that matter, and what an instance has, in words."""

from __future__ import annotations

import json
from copy import deepcopy
from fractions import Fraction
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from pydantic import ValidationError

from kvcore import OBJECTIVES, Cost, Instance, Request, Slo
from kvcore.cost import CostFunction, TokensAbove
from tests.support.like_requests import like_requests
from tests.support.tiny_instances import tiny_instance

LIMITS = ("memory", "host_memory", "batch_tokens", "prefill_tokens", "batch_requests")
SWITCHES = ("hybrid", "chunked", "evict", "partial", "pause")
FEATURES = tuple(name for name in CostFunction.model_fields if name != "divisor")
PLAIN = {"evict": False, "partial": False, "hybrid": True, "pause": True, "cost": "unit"}
"""What programs over ways of requests, and prices of slots, ask for."""

SMALL: dict[str, Any] = {
    "requests": (1, 2, 2, 3), "prompt": (1, 2), "decode": (1, 1, 2), "calls": (0, 1), "duration": (0, 1, 2),
    "returns": (0, 1), "arrival": (0, 0, 1, 2), "partial": (False, True), "block": (1, 1, 2, 3),
}  # fmt: skip

CORNERS: dict[str, dict[str, Any]] = {
    "any": {},
    "host at its sum": {"handling": ("swap", "swap", "free"), "calls": (0, 1, 1), "host_memory": "no limit"},
    "cheap refills": {"evict": True, "partial": (False, True, True)},
    "tpot deadlines": {"slo": True, "decode": (2, 3), "requests": 2},
    "ordered swaps": {"handling": "swap", "calls": (1, 1, 2), "prompt": 1},
    "partial without pause": {"partial": True, "evict": True, "pause": False, "handling": ("free", "swap")},
    "late segments": PLAIN | {"batch_requests": None, "prefill_tokens": None, "duration": (1, 3, 5), "calls": (0, 1)},
    "blocks": {"block": (2, 3, 4), "prompt": (1, 2, 3, 5)},
    "no limits": {"batch_tokens": None, "prefill_tokens": None, "batch_requests": None, "host_memory": "no limit"},
    "features": {"requests": 2},
    "plain": PLAIN,
    "plain, no pause": PLAIN | {"pause": False, "batch_tokens": None, "prefill_tokens": None, "batch_requests": None},
    "rigid": PLAIN | {"chunked": False, "calls": 0, "pause": False, "requests": (2, 3, 4), "decode": (1, 2, 3, 4)},
    "rigid, online": PLAIN
    | {"chunked": False, "calls": 0, "pause": False, "batch_tokens": None, "prefill_tokens": None, "requests": (2, 3)},
    "alike": {"calls": 0, "arrival": 0, "slo": False},
    "ample": {"host_memory": "no limit", "cost": "unit", "batch_tokens": None, "prefill_tokens": None, "hybrid": True},
    "carriers": {
        "evict": True, "chunked": True, "partial": (False, False, False, True), "requests": (2, 2, 2, 3),
        "prompt": (1, 1, 2), "decode": (3, 3, 4), "calls": (0, 0, 0, 0, 1), "arrival": (0, 0, 0, 0, 1), "block": 1,
        "batch_tokens": (None, 2, 2), "prefill_tokens": None, "batch_requests": None,
        "host_memory": ("none", "none", "none", "some"), "hybrid": (True, True, True, True, False),
        "pause": (True, True, True, True, False),
    },
    "near": {},
}  # fmt: skip
"""What the draw of each corner fixes of `tests/support/tiny_instances.py`; `_finish` does what that cannot say."""
AIMED = ("carriers", "near")
"""Where optima were false: drops that need a batch, chunks smaller than what was held, budgets that bind."""
FALSE = [path for name in ("drops", "drops2", "finish") for path in Path(__file__).parents[1].glob(f"data/{name}.json")]


def tiny(draw: Random, corner: str | None = None) -> tuple[str, Instance]:
    """Return a corner and an instance of it that an exhaustive search may take."""
    corner = corner or draw.choice([*CORNERS, *3 * AIMED])
    if corner == "near":
        return corner, near(draw)
    if corner == "alike" and draw.random() < 0.6:
        return corner, like_requests(draw.randrange(2**30)).replace(name=corner)
    sizes = {} if draw.random() < 0.3 else SMALL
    for _ in range(50):
        try:
            fixed = sizes | CORNERS[corner]
            return corner, _finish(draw, corner, tiny_instance(draw.randrange(2**40), **fixed)).replace(name=corner)
        except (ValueError, ValidationError):  # no such instance can be carried out
            continue
    return "any", tiny_instance(draw.randrange(2**40), **SMALL)


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
    """Return a corner and an instance of it of 5 to 12 requests."""
    sizes: dict[str, Any] = {
        "requests": tuple(range(5, 13)), "prompt": tuple(range(1, 9)), "decode": (1, 2, 3, 5, 8), "calls": (0, 0, 1),
        "duration": (0, 1, 3, 8), "returns": (0, 1, 3), "arrival": (0, 0, 1, 4, 9), "batch_tokens": (None, 6, 9),
        "prefill_tokens": (None, 6), "chunked": (True, False),
    }  # fmt: skip
    corner = draw.choice(
        ["any", "blocks", "ordered swaps", "plain", "late segments", "rigid", "rigid", "rigid, online"]
    )
    kept = {name: value for name, value in CORNERS[corner].items() if name not in ("requests", "prompt", "decode")}
    for _ in range(50):
        try:
            made = _finish(draw, corner, tiny_instance(draw.randrange(2**40), **sizes | kept)).replace(name=corner)
        except (ValueError, ValidationError):
            continue
        return corner, _crowd(draw, made)
    return tiny(draw)


def objective(draw: Random, corner: str) -> str:
    """Return an objective that goes with the corner."""
    if corner == "tpot deadlines":
        return "late-requests"
    if corner in AIMED and draw.random() < 0.8:
        return draw.choice(["busy-time", "weighted-flow-time"])
    if corner in ("rigid", "rigid, online", "plain", "plain, no pause", "late segments") and draw.random() < 0.7:
        return draw.choice(["total-flow-time", "weighted-flow-time", "total-ttft"])
    if corner == "alike" and draw.random() < 0.7:
        return draw.choice(["busy-time", "makespan"])
    return draw.choice(list(OBJECTIVES))


def _finish(draw: Random, corner: str, made: Instance) -> Instance:
    machine, requests = made.machine, made.requests
    if corner == "host at its sum":
        held = sum(r.context_at_call(k) for r in requests for k, c in enumerate(r.calls) if c.handling == "swap")
        return _with(made, host_memory=max(0, held - draw.choice([0, 0, 1, 2])), evict=draw.random() < 0.5)
    if corner == "cheap refills":
        cost = CostFunction(
            busy=draw.choice([0, 1]), any_decode=draw.choice([0, 9]), decode_kv=draw.randint(0, 3),
            swap_in_tokens=draw.randint(0, 4), swap_outs=draw.choice([0, 5]), divisor=draw.choice([1, 2, 5]),
        )  # fmt: skip
        return made.replace(cost=Cost((cost,)))
    if corner == "carriers" and draw.random() < 0.9:
        first = CostFunction(busy=draw.choice([2, 3, 10]), tokens=draw.choice([0, 0, 1]))
        second = CostFunction(divisor=draw.choice([1, 2]), tokens=draw.randint(0, 3), prefill_pairs=draw.randint(1, 2))
        made = made.replace(cost=Cost((first, second) if draw.random() < 0.4 else (first,)))
        return _with(made, memory=max(r.peak for r in requests) + draw.choice([0, 1, 1, 2]))
    if corner == "tpot deadlines":
        tpot = Fraction(draw.randint(1, 9), draw.randint(1, 4))
        return made.replace(requests=tuple(_due(draw, r, tpot) for r in requests))
    if corner == "no limits":
        return _with(made, memory=draw.choice([None, machine.memory]))
    if corner == "features":
        return made.replace(cost=_features(draw))
    if corner == "alike":
        cost = Cost((CostFunction(busy=draw.choice([1, 3, 30]), tokens=draw.randint(0, 3), decode_kv=draw.randint(0, 2),
                                  generated=draw.randint(0, 2), prefill_requests=draw.randint(0, 2)),))  # fmt: skip
        twins = tuple(r.replace(id=f"R{i}", weight=1) for r, i in zip(
            [draw.choice(requests[:2]) for _ in range(draw.choice([2, 3, 4]))], count(1)))  # fmt: skip
        memory = machine.memory and machine.memory + draw.randint(0, 3)
        plain = {"batch_tokens": None, "prefill_tokens": None, "batch_requests": None, "hybrid": True, "pause": True}
        made = _with(made.replace(requests=twins), memory=memory, **(plain if draw.random() < 0.7 else {}))
        return made.replace(cost=cost) if draw.random() < 0.7 else made
    if corner == "late segments":
        return _with(made, batch_tokens=draw.choice([None, max(r.peak for r in requests) + draw.randint(0, 2)]))
    if corner == "rigid":
        return made.replace(requests=tuple(r.replace(arrival=requests[0].arrival) for r in requests))
    if corner == "ample":
        return _with(made, evict=draw.random() < 0.7, memory=draw.choice([None, machine.memory]))
    return _with(made, memory=None) if draw.random() < 0.05 else made


def _with(made: Instance, **changes: Any) -> Instance:
    return made.replace(machine=made.machine.replace(**changes))


def _due(draw: Random, request: Request, tpot: Fraction) -> Request:
    more = draw.choice([{}, {}, {"latency": draw.randint(2, 12)}, {"ttft": draw.randint(0, 4)}])
    return request.replace(slo=Slo(tpot=tpot, **more))


def _features(draw: Random) -> Cost:
    """A cost of one to three functions of a few features each, among all that there are."""
    functions = []
    for _ in range(draw.choice([1, 1, 2, 3])):
        chosen: dict[str, Any] = {name: draw.randint(1, 3) for name in draw.sample(FEATURES, draw.randint(1, 4))}
        if "tokens_above" in chosen:
            chosen["tokens_above"] = TokensAbove(knee=draw.randint(0, 3), coefficient=draw.randint(1, 3))
        functions.append(CostFunction(divisor=draw.choice([1, 1, 2, 7]), **chosen))
    return Cost(tuple(functions))


def _crowd(draw: Random, made: Instance) -> Instance:
    """Let memory be what the largest request needs, and little more; then large requests are apart."""
    machine = made.machine
    largest = max(machine.blocks(request.peak) for request in made.requests) * machine.block
    memory = draw.choice([largest, largest + draw.randint(0, largest), 2 * largest, 3 * largest])
    return _with(made, memory=memory) if machine.memory is not None else made


def traits(instance: Instance, objective: str | None = None) -> set[str]:
    """Return what a case exercises: objective, switches, limits, cost features, handlings and the like."""
    machine = instance.machine
    found = {f"switch {name}={getattr(machine, name)}" for name in SWITCHES}
    found |= {f"limit {n}={'null' if getattr(machine, n) is None else 'some'}" for n in LIMITS}
    found |= {"block > 1" if machine.block > 1 else "block 1"}
    found |= {"host 0"} if machine.host_memory == 0 else set()
    found |= set() if objective is None else {f"objective {objective}"}
    for function in instance.cost.functions:
        found |= {f"feature {name}" for name in FEATURES if getattr(function, name)}
        found |= {"divisor > 1"} if function.divisor > 1 else set()
    found |= {"two cost functions"} if len(instance.cost.functions) > 1 else set()
    for request in instance.requests:
        found |= {f"handling {call.handling}" for call in request.calls}
        found |= {"weight > 1"} if request.weight > 1 else set()
        found |= {"arrival > 0"} if request.arrival else set()
        found |= {f"slo {name}" for name, value in request.slo or () if value is not None}
    return found


TRAITS = frozenset(
    {f"objective {name}" for name in OBJECTIVES}
    | {f"switch {name}={value}" for name in SWITCHES for value in (True, False)}
    | {f"limit {name}={value}" for name in LIMITS for value in ("null", "some")}
    | {f"feature {name}" for name in FEATURES}
    | {f"handling {name}" for name in ("preserve", "discard", "swap", "free")}
    | {f"slo {name}" for name in Slo.model_fields}
    | {"block 1", "block > 1", "host 0", "divisor > 1", "two cost functions", "weight > 1", "arrival > 0"}
)
NEEDED = TRAITS | {f"corner {name}" for name in CORNERS}
