"""What is not listed is declined; and of what is listed, the drawer of each kind of proof has met each two together."""

import json
import random
from collections import Counter
from contextlib import suppress
from functools import partial
from itertools import combinations
from typing import get_args
from unittest.mock import patch

import pytest

from bounds import just_in_time
from heuristics import POLICIES, Unsuited, run_policy
from kvcore.certificates import (
    Alone,
    AnyProof,
    Configurations,
    Enumeration,
    Events,
    InOrder,
    InvalidCertificate,
    LateTail,
    LateWindows,
    Pairs,
    Potentials,
    Shares,
    SlotDual,
    Slots,
    Speed,
    certify,
    verify_certificate,
)
from kvcore.certificates.certificate import rounded
from kvcore.cost import Cost, CostFunction, OwnCost
from kvcore.errors import BadInput
from kvcore.features import CALLS, NAMED, NOTHING, RULES, Feature, features
from kvcore.features import OBJECTIVES as WHOLE
from kvcore.instance import Call, Instance, KvGroup, KvLayout, Machine, Node, Request, Segment, Slo
from kvcore.metrics import OBJECTIVES, SUMS, scale_of, tail_of
from library import check
from solvers import neighbourhoods, steering
from solvers.choice import choose
from solvers.ways import BOUND, ENUMERATION, IMPROVE, WAYS
from tests.bounds.test_tails import NAMES
from tests.fuzz.certificates import differ
from tests.kvcore import test_orders as of_orders
from tests.kvcore.test_configurations import OBJECTIVES as STARTS
from tests.kvcore.test_configurations import random_proof
from tests.kvcore.test_late_windows import LATE, MANY, urgent
from tests.kvcore.test_slots_certificate import drawn as slotted
from tests.support import random_proofs
from tests.support.build import instance, request
from tests.support.contents import with_contents
from tests.support.drawer import LAID, PROFILES, TIGHT, draw_instance, tiny_instance
from tests.support.exhaustive import TooManyStates, exhaustive_optimum, least_percentile
from tests.support.few import ALL
from tests.support.rigid import RIGID, rigid

Drawn = tuple[Instance, str]
MOST = 300
"""States of an enumeration."""
STEPS = 3 * 10**6
"""Those of `library/check.py`."""
SEARCHES = (Enumeration, Events, LateTail, Potentials, Slots)
"""Kinds of which one checker may look further than the other."""
EVERY = {Enumeration: 4, Events: 9}
"""Of how many proofs `library/check.py` looks at one, as it would look at the others in the same way."""


def tiny(objectives, **fixed):
    """Return what draws an instance of each profile in turn, with each objective in turn."""

    def draw(seed):
        profile = [*PROFILES.values()][seed % len(PROFILES)]
        return tiny_instance(seed, **profile | fixed), objectives[seed // len(PROFILES) % len(objectives)]

    return draw


def in_turn(*kinds):
    return lambda seed: kinds[seed % len(kinds)](seed // len(kinds))


def with_slos(instance, draw):
    """Return the instance with SLOs that the objective does not see, for about half of its requests."""
    drawn = (tiny_instance(draw.randrange(10**6), slo=True).requests[0].slo for _ in instance.requests)
    requests = (r.replace(slo=draw.choice((r.slo, slo))) for r, slo in zip(instance.requests, drawn, strict=True))
    return instance.replace(requests=tuple(requests))


def sharing(seed):
    instance, objective = tiny([*OBJECTIVES], calls=(0, 0, 1))(seed)
    return with_contents(random.Random(seed), instance) if seed % 8 else instance, objective


def starting(seed):
    draw, online = random.Random(seed), seed % 2 > 0
    instance = rigid(seed, online=online)
    machine = instance.machine.replace(partial=draw.random() < 0.5, host_memory=draw.choice((0, 3, None)))
    return with_slos(instance.replace(machine=machine), draw), draw.choice(STARTS[: 2 if online else 3])


def ordered(kind):
    return lambda seed: (kind(seed), SUMS[seed % len(SUMS)])


def cut(seed):
    return draw_instance(random.Random(seed), TIGHT.but(partial=True), f"cut-{seed}")


def urgently(seed):
    return urgent(tiny_instance(seed, **MANY), random.Random(seed)), LATE


def on_paths(kind):
    """Return what draws an instance as it is, then the next one with contents that requests share."""

    def draw(seed):
        instance, objective = kind(seed)
        return with_contents(random.Random(seed), instance), objective

    return in_turn(kind, draw)


DRAWERS = {
    Alone: in_turn(on_paths(tiny([*OBJECTIVES, *NAMES], drop_and_work=(False, True))),
                   tiny([*OBJECTIVES, *NAMES], drop_and_work=(False, True), **LAID)),
    Shares: in_turn(on_paths(tiny([*OBJECTIVES])), tiny([*OBJECTIVES], **LAID)),
    LateWindows: on_paths(urgently),
    LateTail: on_paths(lambda seed: (tiny_instance(seed, **MANY), NAMES[seed % len(NAMES)])),
    Speed: in_turn(on_paths(tiny([*SUMS, "max-flow-time"])), tiny([*SUMS, "max-flow-time"], **LAID)),
    InOrder: tiny(SUMS),
    Potentials: in_turn(tiny(SUMS), *map(ordered, (
        of_orders.drawn, of_orders.tight, cut, of_orders.gapped, partial(of_orders.gapped, partial=True)))),
    Pairs: tiny(SUMS, cost="unit"),
    SlotDual: tiny(SUMS, cost="unit"),
    Slots: slotted,
    Configurations: starting,
    Events: tiny([*OBJECTIVES]),
    Enumeration: in_turn(sharing, tiny([*OBJECTIVES], **LAID)),
}  # fmt: skip


def proofs(kind, draw, instance, objective, best):
    """Yield proofs of a kind with random numbers."""
    drawers = {
        Alone: Alone,
        Pairs: Pairs,
        Shares: lambda: Shares(**random_proofs.random_division(draw, instance)),
        InOrder: lambda: random_proofs.random_in_order(draw, instance),
        Potentials: lambda: random_proofs.random_potentials(draw, instance),
        LateWindows: lambda: random_proofs.random_late_windows(draw, instance),
        LateTail: lambda: random_proofs.random_tail(draw, instance, objective),
        Speed: lambda: random_proofs.random_speed(draw, instance).replace(
            within=draw.choice((int(best), draw.randint(0, int(best)))) if objective == "max-flow-time" else 0),
        SlotDual: lambda: random_proofs.random_dual(draw, instance, objective),
        Events: lambda: random_proofs.random_events(draw).replace(free_drops=draw.random() < 0.5),
        Enumeration: lambda: random_proofs.random_enumeration(draw),
        Configurations: lambda: random_proof(instance, objective, draw),
    }  # fmt: skip
    if kind is Slots:
        target = int(best * scale_of(instance.requests, objective))
        for more in (0, 1):
            for strict in (False, True):
                yield random_proofs.random_slots(draw, instance, objective, target + more, strict)
    else:
        for _ in range({Alone: 1, Pairs: 1, Configurations: 12}.get(kind, 3)):
            yield (proof := drawers[kind]())
            if isinstance(proof, Speed):
                yield random_proofs.with_lines(draw, instance, proof)
        if kind is Events:
            yield from (Events(states=20_000), Events(states=20_000, free_drops=True))
        if kind is Enumeration:
            yield Enumeration(states=20_000)
        if kind is LateTail:
            search = (Enumeration if instance.contents else Events)(states=20_000)
            yield from (LateTail(within=max(0, int(best) + k), proof=search) for k in (-1, 0))
        if kind is Configurations:
            for target in (int(best), int(best) + 1):
                yield random_proof(instance, objective, draw).replace(target=max(1, target), tries=10**6)


def truth(instance, objective):
    find = exhaustive_optimum if tail_of(objective) is None else least_percentile
    return find(instance, objective, max_states=MOST)[0]


def second(proof, instance, objective, best):
    """What `library/check.py` proves, if it takes the proof; AssertionError if that is more than the optimum."""
    data, found = check.read_instance(json.loads(instance.to_json())), []
    for claim in (best, best + 1):
        with suppress(check.Bad, check.Broken, check.NotChecked), patch.object(check, "MOST_STEPS", STEPS):
            read = check.proof(json.loads(proof.model_dump_json()), "proof")
            check.spent[0] = 0
            bound = check.prove(data, check.Box(read, claim=claim), objective)
            assert bound <= best, (proof, claim)
            assert not isinstance(proof, Events | Enumeration) or bound == best
            found.append(rounded(bound, objective))
    return found


def refute(kind, seed, instance, objective, seen):
    """Whether some proof was taken; AssertionError if one is above the optimum."""
    best, taken = truth(instance, objective), 0
    for k, proof in enumerate(proofs(kind, random.Random(seed), instance, objective, best)):
        others = second(proof, instance, objective, best) if k % EVERY.get(kind, 1) == 0 else []
        seen["by both"] += len(others)
        try:
            value = proof.value(instance, objective)
        except InvalidCertificate as reason:
            taken += "all requests may end within" in str(reason)
            continue
        assert value <= best, (kind, seed, proof)
        assert value == best or proof != Enumeration(states=20_000), seed
        if others and kind not in SEARCHES and getattr(proof, "target", None) is None:
            said = {"proof": {"kind": named(kind)}, "objective": objective, "bound": "0"}
            assert not differ(said, rounded(value, objective), others[0]), (kind, seed, proof)
        taken += 1
    return taken > 0


EXCLUSIVE = (
    frozenset(WHOLE | {Feature.PERCENTILE}), frozenset({Feature.PAUSE, Feature.NO_PAUSE}),
    frozenset({Feature.SHARED, Feature.LAYOUT}), frozenset({Feature.PARTIAL, Feature.LAYOUT}),
)  # fmt: skip


def together(some):
    """Return the features, and each two of them."""
    return {frozenset(pair) for size in (1, 2) for pair in combinations(some, size)}


def to_meet(takes):
    """Return the features that are taken, and each two of them that are taken and do not exclude each other."""
    never = {frozenset(pair) for group in EXCLUSIVE for pair in combinations(group, 2)}
    for one, other in takes.apart:
        never |= {frozenset({one, each}) for each in (CALLS if other is Feature.CALLS else {other})}
    return together(takes.features) - never


def named(kind):
    return str(kind.model_fields["kind"].default)


@pytest.mark.parametrize("kind", DRAWERS, ids=named)
def test_each_two_features_that_a_proof_takes_were_met_together(kind):
    """Instances that have something new are compared with their optimum, until nothing is left."""
    left, drawer, seen = to_meet(kind.takes), DRAWERS[kind], Counter[str]()
    enough = 100 if ALL and kind not in SEARCHES else 10 if kind in SEARCHES else 25
    left = left if ALL else {pair for pair in left if len(pair) == 1}
    for seed in range(4000):
        with suppress(TooManyStates, ValueError):
            instance, objective = drawer(seed)
            found = features(instance, objective)
            new = left & together(found) or seen["by both"] < enough
            if new and kind.takes.missing(found) is None and refute(kind, seed, instance, objective, seen):
                left -= together(found)
        if not left and seen["by both"] >= enough:
            return
    assert not left
    assert seen["by both"] >= enough


# --- what is new ------------------------------------------------------------------------------------------------------
class NewMachine(Machine):
    """A machine with a switch that nobody has heard of."""

    turbo: bool = False


class NewRequest(Request):
    """A request with a field that nobody has heard of."""

    deadline: int | None = None


PLAIN = instance(request("A", 1, 1), request("B", 1, 1), memory=4, **RIGID)
NEW = PLAIN.replace(machine=NewMachine(memory=4, **RIGID))
ALIKE = tuple(request(id, 1, 1, path=("a", 1)) for id in "AB")
SHARED = PLAIN.replace(contents=(Node(id="a", blocks=1),), requests=ALIKE)
WORDS = "a field that no feature names"
PREFIXES = "shared prefixes"
DROPS = PLAIN.replace(machine=PLAIN.machine.replace(drop_and_work=True))
NEWS = pytest.mark.parametrize(
    ("new", "words"), [(NEW, WORDS), (SHARED, PREFIXES), (DROPS, "drop_and_work")], ids=["a field", "contents", "drops"]
)
TAKEN = {LateWindows: LATE, LateTail: "p99-ttft"}


def test_all_kinds_of_proofs_are_here():
    assert set(get_args(get_args(AnyProof)[0])) == set(DRAWERS)


@NEWS
@pytest.mark.parametrize("kind", DRAWERS, ids=named)
def test_what_is_new_is_declined_by_each_proof(kind, new, words):
    objective = TAKEN.get(kind, "total-flow-time")
    if words in kind.takes.features:
        new, words = new.replace(machine=NEW.machine), WORDS
    proof = next(proofs(kind, random.Random(0), PLAIN, objective, 2))
    proof.value(PLAIN, objective)
    with pytest.raises(InvalidCertificate, match=f"^{named(kind)} is not proved with {words}$"):
        proof.value(new, objective)


def test_a_proof_inside_another_is_asked_too(monkeypatch):
    proof = LateTail(within=1, proof=Events(states=10))
    monkeypatch.setattr(Events, "takes", NOTHING)
    with pytest.raises(InvalidCertificate, match=r"^events is not proved with memory, .* SLOs and late-requests$"):
        proof.value(PLAIN, "p99-ttft")


@NEWS
def test_the_checker_declines_what_a_proposer_forgot(new, words):
    made = certify(new, "total-flow-time", Pairs(), 2)
    with pytest.raises(InvalidCertificate, match=f"^pairs is not proved with {words}$"):
        verify_certificate(new, made)


@NEWS
@pytest.mark.parametrize("way", WAYS.values(), ids=lambda way: way.label)
def test_what_is_new_is_declined_by_each_way(way, new, words):
    if words in way.takes.features:
        new, words = new.replace(machine=NEW.machine), WORDS
    for objective in [*OBJECTIVES, "p50-ttft"]:
        declined = way.declines(new, objective)
        assert declined is not None
        assert declined.startswith(f"{way.formulation} is not proved with ")
        assert words in declined


def test_no_way_takes_a_new_field():
    with pytest.raises(BadInput, match=f"^no way takes instance: .* is not proved with {WORDS}$"):
        choose(NEW, "makespan", "auto", "auto")


def test_an_enumeration_and_bounds_take_shared_prefixes():
    for objective in ("makespan", LATE):
        assert choose(SHARED, objective, "auto", "auto").lanes == ((ENUMERATION, BOUND), (IMPROVE,))


@NEWS
@pytest.mark.parametrize("name", POLICIES)
def test_what_is_new_is_declined_by_each_policy(name, new, words):
    if words in POLICIES[name].takes.features:
        new, words = new.replace(machine=NEW.machine), WORDS
    with pytest.raises(Unsuited, match=f"^policy {name} cannot run on instance: it is not made for {words}$"):
        run_policy(new, POLICIES[name])


def test_what_is_new_is_declined_by_searches_for_schedules():
    plain, new = Machine(memory=4, evict=True), NewMachine(memory=4, evict=True)
    for asked, taken in (
        (PLAIN.replace(machine=plain), True), (PLAIN.replace(machine=new), False),
        (SHARED.replace(machine=plain), False),
    ):  # fmt: skip
        assert steering.applies(asked, "total-flow-time") is taken
        assert just_in_time.applies(asked, "total-flow-time") is taken
        assert (neighbourhoods.why_not(asked, "total-flow-time") is None) is taken


@pytest.mark.parametrize("changes", [
    {"requests": (NewRequest(id="A", prompt=1, segments=(Segment(decode=1),)),)},
    {"requests": (request("A", 1, (1, 1, 0, "preserve"), 1).model_copy(update={"segments": (
        Segment.model_construct(decode=1, call=Call.model_construct(duration=1, returns=0, handling="compress")),
        Segment(decode=1))}),)},
], ids=["a field of a request", "a handling"])  # fmt: skip
def test_what_else_is_new(changes):
    assert Feature.UNNAMED in features(PLAIN.model_copy(update=changes), "makespan")


def test_every_field_is_named_and_none_that_is_gone():
    nouns = (Instance, Machine, Request, Slo, Segment, Call, CostFunction, KvLayout, KvGroup)
    for noun, table in zip(nouns, NAMED, strict=True):
        assert table.keys() == noun.model_fields.keys(), noun.__name__
    assert {*OBJECTIVES} == {*WHOLE}
    others = {
        Feature.PERCENTILE, Feature.OWN_COST, Feature.SHARED, Feature.DROP_AND_WORK, Feature.LAYOUT, Feature.UNNAMED,
    }  # fmt: skip
    assert {*Feature} == RULES | WHOLE | others


def test_the_first_rules_are_closed():
    """A feature that is new goes into the `takes` of each that is proved with it, not into what all have."""
    assert len(RULES) == 27


def test_a_cost_of_batches_of_one_tick_has_no_features():
    unit, two = Cost((CostFunction(busy=1), CostFunction(busy=2, divisor=2))), Cost((CostFunction(tokens=1),) * 2)
    assert features(PLAIN.replace(cost=unit), "makespan") == features(PLAIN, "makespan")
    more = features(PLAIN.replace(cost=two), "makespan") - features(PLAIN, "makespan")
    assert more == {Feature.LONG_BATCHES, Feature.FUNCTIONS}
    assert Feature.OWN_COST in features(PLAIN.replace(cost=OwnCost(lambda features: 1)), "makespan")


def test_two_that_are_taken_apart_only():
    assert Configurations.takes.missing({Feature.ARRIVALS}) is None
    assert Configurations.takes.missing({Feature.TTFT}) is None
    assert Configurations.takes.missing({Feature.ARRIVALS, Feature.TTFT}) == "arrivals and total-ttft"
