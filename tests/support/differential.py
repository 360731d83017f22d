"""Questions for all exact methods: tiny instances that span every switch, each with an objective and its optimum."""

import random
from functools import cache
from typing import NamedTuple

from formulations.horizon import sufficient_batches
from kvcore import OBJECTIVES, Call, Cost, Instance, Machine, Request, Schedule, Segment, Slo
from kvcore.cost import CostFunction
from tests.support.contents import with_contents
from tests.support.drawer import COMMON, tiny_instance, traits_of
from tests.support.exhaustive import TooManyStates, exhaustive_optimum

NAMES = list(OBJECTIVES)
SIZES = {
    "requests": (1, 2, 2, 3), "prompt": (1, 2), "decode": (1, 1, 2), "calls": (0, 1), "duration": (0, 1, 2),
    "returns": (0, 1), "arrival": (0, 0, 1, 2), "partial": (False, True),
}  # fmt: skip
"""Smaller than the defaults, so that few batches are needed."""

STRESSED = (  # their order decides what seeds draw
    {"partial": True, "evict": True}, {"pause": False}, {"hybrid": False},
    {"host_memory": "some", "handling": ("free", "swap")}, {"host_memory": "none", "evict": True},
    {"chunked": True, "batch_tokens": (1, 2)}, {"chunked": False, "prefill_tokens": (1, 2)},
    {"batch_requests": 1}, {"block": 2}, {"slo": True},
)  # fmt: skip
"""What the draw of a question fixes besides, up to two of them: corners that chance alone reaches seldom."""


MADE = ("full host", "small host", "dear decodes", "refills", "phases", "between events")
"""Questions made by hand."""
COVERING = (
    0, 1, 2, 3, 4, 7, 9, 10, 12, 13, 14, 15, 16, 17, 18, 19, 21, 22, 23, 24, 25, 26, 28, 29, 31, 32, 33, 34, 35, 36,
    37, 38, 39, 40, 42, 43, 45, 46, 47, 52, 53, 54, 56, 57, 70, 75, 82, 89, 91, 94, 140, 167, 169, 256, 324, 343,
    473, 534, 598,
)  # fmt: skip
"""Seeds whose questions have every trait three times."""


class Question(NamedTuple):
    """An instance, an objective, and what the exhaustive search answers; `batches` is a horizon that is enough."""

    seed: int | str
    instance: Instance
    objective: str
    optimum: object
    schedule: Schedule
    batches: int


def made(name):
    """Return an instance and an objective for a corner that chance reaches too seldom."""

    def request(id, prompt, decode, handling=None, arrival=0, slo=None):
        call = None if handling is None else Call(duration=2, handling=handling)
        segments = (Segment(decode=1, call=call),) if call else ()
        return Request(id=id, arrival=arrival, prompt=prompt, segments=(*segments, Segment(decode=decode)), slo=slo)

    swaps = (request("A", 1, 1, "swap"), request("B", 1, 1, "swap"), request("C", 2, 1))
    frees = (request("A", 1, 1, "free"), request("B", 1, 1, "free"), request("C", 1, 1, arrival=3))
    phases = {"hybrid": False, "chunked": True, "evict": False, "batch_tokens": None, "prefill_tokens": None}
    sizes = {"requests": (2, 3, 3), "prompt": (1, 2, 3), "decode": (1, 2), "calls": (0, 0, 1), "partial": True}
    reads = Cost((CostFunction(tokens=1, decode_kv=1),))
    apart = (request("A", 1, 2, slo=Slo(latency=8, tpot=3)), request("B", 1, 1, arrival=5, slo=Slo(ttft=3)))
    dear = Cost((CostFunction(any_decode=9, tokens=1),))
    return {
        "full host": (Instance(machine=Machine(memory=2, host_memory=1), requests=swaps), "total-flow-time"),
        "small host": (Instance(machine=Machine(memory=2, host_memory=1), requests=frees), "total-flow-time"),
        "dear decodes": (
            Instance(machine=Machine(memory=9, evict=True), cost=dear, requests=(request("A", 1, 2),)), "busy-time",
        ),
        "refills": (
            Instance(machine=Machine(memory=9, evict=True, partial=True), cost=reads, requests=(request("A", 3, 2),)),
            "busy-time",
        ),
        "between events": (  # A has to start at tick 2, where nothing happens
            Instance(machine=Machine(memory=9), cost=Cost((CostFunction(busy=3),)), requests=apart), "late-requests",
        ),
        "phases": (tiny_instance(10, **SIZES | phases | sizes, cost="unit"), "total-flow-time"),
    }[name]  # fmt: skip


def drawn(seed):
    """Return the instance and the objective of a seed; objectives take turns, and so do unit and other costs.

    That of "shared 12" is that of 12 with contents.
    """
    if seed in MADE:
        return made(seed)
    if isinstance(seed, str):
        number = int(seed.removeprefix("shared "))
        instance, objective = drawn(number)
        return with_contents(random.Random(number), instance), objective
    draw = random.Random(seed)
    fixed = dict(SIZES)
    for stress in draw.sample(STRESSED, draw.choice((0, 1, 2))):
        fixed |= stress
    fixed["cost"] = ("linear", "two-functions") if seed // len(NAMES) % 2 else "unit"
    instance, objective = tiny_instance(seed, **fixed), NAMES[seed % len(NAMES)]
    if draw.random() < 0.1:
        instance = instance.replace(machine=instance.machine.replace(memory=None))
    return instance, objective


@cache
def question(seed, most_batches=6, max_states=2000):
    """Return the question of a seed; None where the exhaustive search, or the models, would take long.

    The horizon is the optimum's number of batches and one more, or as many as are proved to be enough.
    """
    try:
        instance, objective = drawn(seed)
        value, schedule = exhaustive_optimum(instance, objective, max_states=3000 if seed in MADE else max_states)
    except (TooManyStates, ValueError):
        return None
    needed = len(schedule.batches)
    horizon = sufficient_batches(instance, objective, value)
    assert needed <= horizon.batches or not horizon.sufficient, (seed, horizon)
    batches = max(needed, min(horizon.batches, needed + 1))
    small = seed in MADE or batches <= most_batches
    return Question(seed, instance, objective, value, schedule, batches) if small else None


def questions(seeds):
    """Return the questions of the seeds that have one."""
    return [found for found in map(question, seeds) if found is not None]


def traits(asked):
    """Return what a question exercises, in words: its objective, cost and moves, and what its instance has."""
    instance, cost = asked.instance, "unit" if asked.instance.cost.always_one_tick else "other"
    slos = asked.objective == "late-requests"
    found = {trait for trait in traits_of(instance) if slos or not trait.startswith("slo ")}
    if any(request.path for request in instance.requests):
        found |= {"a path", f"same_batch {instance.machine.same_batch}"}
    found |= {move for batch in asked.schedule.batches for move in ("reuse", "forget") if getattr(batch, move)}
    return found | {asked.objective, f"{cost} cost", f"{asked.objective}, {cost} cost"}


TRAITS = (
    COMMON
    | {*NAMES}
    | {f"{more}{cost} cost" for more in ("", *(f"{n}, " for n in NAMES)) for cost in ("unit", "other")}
)
"""What every method has to be asked about, unless it declines it."""
SHARED = {"a path", "same_batch True", "same_batch False", "reuse", "forget"}
"""What a method that takes contents has to be asked about, too."""
