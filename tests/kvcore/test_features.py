"""What is not listed is declined; and what is listed, the drawer of each kind of proof has met, each two together."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import combinations, count
from typing import Any

import pytest

from kvcore import certificates
from kvcore.certificates import (
    Alone,
    Configurations,
    Events,
    Fresh,
    InvalidCertificate,
    LateTail,
    LateWindows,
    Pairs,
    Prices,
    Shares,
    Slots,
    Speed,
    Tree,
)
from kvcore.certificates.fresh import most_fee
from kvcore.certificates.proof import Proof
from kvcore.features import OBJECTIVES as WHOLE
from kvcore.features import Feature, features
from kvcore.instance import Instance
from kvcore.metrics import FLOWS, OBJECTIVES, SUMS, Value, scale_of, tail_of
from tests.bounds.test_tails import NAMES
from tests.kvcore import test_fresh as of_fresh
from tests.kvcore.test_configurations import random_proof
from tests.kvcore.test_late_windows import LATE, MANY, urgent
from tests.kvcore.test_slots_certificate import drawn as slotted
from tests.support.exhaustive import TooManyStates, exhaustive_optimum, least_percentile
from tests.support.random_proofs import (
    PRICEABLE,
    random_division,
    random_events,
    random_late_windows,
    random_prices,
    random_slots,
    random_speed,
    random_tail,
    random_tree,
    with_lines,
)
from tests.support.rigid import rigid
from tests.support.tiny_instances import PROFILES, tiny_instance

Drawn = tuple[Instance, str]
MOST = 1000
"""States of an enumeration."""


def tiny(objectives: Sequence[str], **fixed: Any) -> Callable[[int], Drawn]:
    """Return what draws an instance of each profile in turn, with each objective in turn."""

    def draw(seed: int) -> Drawn:
        profile = [*PROFILES.values()][seed % len(PROFILES)]
        return tiny_instance(seed, **profile | fixed), objectives[seed // len(PROFILES) % len(objectives)]

    return draw


def in_turn(*kinds: Callable[[int], Drawn]) -> Callable[[int], Drawn]:
    return lambda seed: kinds[seed % len(kinds)](seed // len(kinds))


def with_slos(instance: Instance, draw: random.Random) -> Instance:
    """Return the instance with SLOs that the objective does not see, for about half of its requests."""
    drawn = (tiny_instance(draw.randrange(10**6), slo=True).requests[0].slo for _ in instance.requests)
    requests = (r.replace(slo=draw.choice((r.slo, slo))) for r, slo in zip(instance.requests, drawn, strict=True))
    return instance.replace(requests=tuple(requests))


def starting(seed: int) -> Drawn:
    draw, online = random.Random(seed), seed % 3 > 0
    instance, objective = rigid(seed, online=online), ("total-flow-time", "weighted-flow-time", "total-ttft")[seed % 3]
    if online and objective == "total-ttft":
        objective = draw.choice(("total-flow-time", "weighted-flow-time"))
    machine = instance.machine.replace(partial=draw.random() < 0.5, host_memory=draw.choice((0, 3, None)))
    return with_slos(instance.replace(machine=machine), draw), objective


def ordered(kind: Callable[[int], Instance]) -> Callable[[int], Drawn]:
    return lambda seed: (kind(seed), SUMS[seed % len(SUMS)])


def urgently(seed: int) -> Drawn:
    return urgent(tiny_instance(seed, **MANY), random.Random(seed)), LATE


priced = in_turn(tiny(FLOWS, **PRICEABLE), tiny(FLOWS, cost="unit", calls=0, evict=False, partial=True))
DRAWERS: dict[type[Proof], Callable[[int], Drawn]] = {
    Alone: tiny([*OBJECTIVES, *NAMES]),
    Shares: tiny([*OBJECTIVES]),
    LateWindows: urgently,
    LateTail: lambda seed: (tiny_instance(seed, **MANY), NAMES[seed % len(NAMES)]),
    Speed: tiny([*SUMS, "max-flow-time"]),
    Pairs: tiny(SUMS, cost="unit"),
    Prices: priced,
    Tree: priced,
    Slots: slotted,
    Configurations: starting,
    Events: tiny([*OBJECTIVES]),
    Fresh: in_turn(tiny(SUMS), *map(ordered, (of_fresh.drawn, of_fresh.tight, of_fresh.cut, of_fresh.gapped))),
}


def fresh(draw: random.Random, instance: Instance) -> Iterator[Fresh]:
    for memory in (False, True):
        for k in range(len(instance.cost.functions)):
            most = most_fee(instance, k)
            yield Fresh(function=k, fee=draw.choice((0, most)), memory=memory, labels=3000)
            yield Fresh(function=k, fee=draw.choice((0, most)), memory=memory, labels=draw.randint(1, 40))
    for levels in of_fresh.levels_of(instance):
        yield Fresh(memory=True, levels=levels, labels=1000)


def proofs(kind: type[Proof], draw: random.Random, instance: Instance, objective: str, best: Value) -> Iterator[Proof]:
    """Yield proofs of a kind with random numbers."""
    drawers: dict[type[Proof], Callable[[], Proof]] = {
        Alone: Alone,
        Pairs: Pairs,
        Shares: lambda: Shares(**random_division(draw, instance),
                               alone=tuple(draw.randint(0, 1024) for _ in instance.requests)),
        LateWindows: lambda: random_late_windows(draw, instance),
        LateTail: lambda: random_tail(draw, instance, objective),
        Speed: lambda: random_speed(draw, instance),
        Prices: lambda: random_prices(draw, instance),
        Tree: lambda: random_tree(draw, instance),
        Events: lambda: random_events(draw).replace(free_drops=draw.random() < 0.5),
        Configurations: lambda: random_proof(instance, objective, draw),
    }  # fmt: skip
    if kind is Slots:
        target = int(best * scale_of(instance.requests, objective))
        for more in (0, 1):
            for strict in (False, True):
                yield random_slots(draw, instance, objective, target + more, strict)
    elif kind is Fresh:
        yield from fresh(draw, instance)
    else:
        for _ in range(1 if kind in (Alone, Pairs) else 6):
            yield (proof := drawers[kind]())
            if isinstance(proof, Speed):
                yield with_lines(draw, instance, proof)
        if kind is Events:
            yield from (Events(states=20_000), Events(states=20_000, free_drops=True))
        if kind is LateTail:
            yield from (LateTail(within=max(0, int(best) + k), proof=Events(states=20_000)) for k in (-1, 0))
        if kind is Configurations:
            for target in (int(best), int(best) + 1):
                yield random_proof(instance, objective, draw).replace(target=max(1, target), tries=10**6)


def truth(instance: Instance, objective: str) -> Value:
    find = exhaustive_optimum if tail_of(objective) is None else least_percentile
    return find(instance, objective, max_states=MOST)[0]


def refute(kind: type[Proof], seed: int, instance: Instance, objective: str) -> bool:
    """Whether some proof was taken; AssertionError if one is above the optimum."""
    best, taken = truth(instance, objective), 0
    for proof in proofs(kind, random.Random(seed), instance, objective, best):
        with suppress(InvalidCertificate):
            value = proof.value(instance, objective)
            assert value <= best, (kind, seed, proof)
            taken += 1
    return taken > 0


if __name__ == "__main__":
    import sys, time, traceback

    names = {k.__name__: k for k in DRAWERS}
    kinds = [names[n] for n in sys.argv[3:]] or list(DRAWERS)
    first, seconds = int(sys.argv[1]), float(sys.argv[2])
    for kind in kinds:
        t, n, taken = time.process_time(), 0, 0
        seed = first
        while time.process_time() - t < seconds:
            seed += 1
            try:
                instance, objective = DRAWERS[kind](seed)
                if kind.takes.why_not("x", instance, objective):
                    continue
                taken += refute(kind, seed, instance, objective)
                n += 1
            except (TooManyStates, ValueError):
                continue
            except AssertionError as e:
                print(
                    "HOLE",
                    kind.__name__,
                    seed,
                    instance.name,
                    objective,
                    [str(f) for f in features(instance, objective)],
                    e,
                    flush=True,
                )
            except Exception:
                print("ERROR", kind.__name__, seed)
                traceback.print_exc(limit=3)
        print(kind.__name__, "seeds", first, seed, "compared", n, "taken", taken, flush=True)
