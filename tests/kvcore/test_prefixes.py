"""Bounds of requests that share prefixes: cases in which plausible ones are false, errors planted, and random ones."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kvbound as kv
from bounds.shares import corners
from bounds.task import Proposal, Task
from kvcore.certificates import (
    Alone,
    InvalidCertificate,
    LateTail,
    LateWindows,
    Shares,
    Speed,
    certify,
    least,
    prefixes,
    shares,
    speed,
    steps,
    verify_certificate,
)
from kvcore.certificates.prefixes import Prefix
from kvcore.certificates.proof import Proof
from kvcore.instance import Instance, alike
from kvcore.metrics import OBJECTIVES, SUMS
from library import check
from solvers.ways import CERTIFYING
from tests.bounds.test_tails import NAMES
from tests.kvcore.test_features import refute
from tests.support.build import request
from tests.support.contents import shared, with_contents
from tests.support.drawer import tiny_instance
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import few

ROWS = json.loads((Path(__file__).parents[1] / "data" / "prefix_cases.json").read_text())
CASES = {row["name"]: row for row in ROWS}
KINDS: dict[type[Proof], Any] = {
    Alone: [*OBJECTIVES, *NAMES], Shares: [*OBJECTIVES], LateWindows: ["late-requests"], LateTail: NAMES,
    Speed: [*SUMS, "max-flow-time"],
}  # fmt: skip


def case(name: str) -> tuple[Instance, str, int]:
    row = CASES[name]
    return Instance.model_validate_json(json.dumps(row["instance"])), row["objective"], row["optimum"]


def proofs(name: str) -> Iterator[Proof]:
    """The proof that a false lemma made false, and others."""
    row = CASES[name]
    if "proof" in row:
        of = {"shares": Shares, "speed": Speed}[row["proof"]["kind"]]
        yield of.model_validate_json(json.dumps(row["proof"]))
    yield Alone()
    yield from corners(case(name)[0])


def by_second(instance: Instance, proof: Proof, objective: str) -> Any:
    read = check.proof(json.loads(proof.model_dump_json()), "proof")
    return check.prove(check.read_instance(json.loads(instance.to_json())), read, objective)


@pytest.mark.parametrize("name", CASES)
def test_no_bound_is_false_where_plausible_ones_are(name: str) -> None:
    instance, objective, best = case(name)
    assert exhaustive_optimum(instance, objective)[0] == best
    for proof in proofs(name):
        assert proof.value(instance, objective) <= best
        with suppress(check.NotChecked):
            assert by_second(instance, proof, objective) <= best


# --- errors planted: each condition of the theorem is needed ----------------------------------------------------------
def steps_with(change: Callable[[Any], None]) -> Callable[[pytest.MonkeyPatch], None]:
    """Return what lets steps be changed once they are made."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        made = steps.Steps.__init__

        def init(self: Any, *given: Any) -> None:
            made(self, *given)
            change(self)

        monkeypatch.setattr(steps.Steps, "__init__", init)

    return plant


def counted_from_free(made: Any) -> None:
    made.own = np.where(made.later, made.own, made.start)
    made.batches = -(-(made.context - made.own) // made.limit)


def never_prefilled_after_a_hit(made: Any) -> None:
    made.prefills &= (made.own < made.context - 1) | made.later


def only_drops_of_all(made: Any) -> None:
    made.prefills &= (made.own < made.context - 1) | ~made.later


def nothing_is_returned_by_others(made: Any) -> None:
    before = np.concatenate(([0], made.context[:-1]))
    made.own, made.start = (np.where(made.later, before, each) for each in (made.own, made.start))


def no_decode_without_chunks(made: Any) -> None:
    made.decodes &= made.later | made.machine.chunked


def first_tokens_read(monkeypatch: pytest.MonkeyPatch) -> None:
    price = steps.Steps._price

    def read(self: Any, *given: Any) -> Any:
        later, self.later = self.later, np.ones_like(self.later)
        found = price(self, *given)
        self.later = later
        return found

    monkeypatch.setattr(steps.Steps, "_price", read)


def all_memory_is_its_own(made: Any) -> None:
    made.earlier[:] = 0


def all_is_chargeable(monkeypatch: pytest.MonkeyPatch) -> None:
    found = prefixes.prefixes
    monkeypatch.setattr(steps, "prefixes", lambda given: [each._replace(free=each.earlier) for each in found(given)])


def held_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def held(given: Instance) -> int:
        return found(given.model_copy(update={"contents": ()}))

    found = shares.most_prefill
    monkeypatch.setattr(shares, "most_prefill", held)


def groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "groups_of", lambda given: alike(given.requests))


PLANTED = {
    "shares_parts": steps_with(counted_from_free), "shares_prefill_requests": steps_with(counted_from_free),
    "shares_plain_first": steps_with(never_prefilled_after_a_hit), "shares_no_partial": steps_with(only_drops_of_all),
    "shares_returns": steps_with(nothing_is_returned_by_others),
    "shares_unchunked_pairs": steps_with(no_decode_without_chunks), "shares_kept_sum": all_is_chargeable,
    "shares_reads": first_tokens_read, "shares_prefill_tokens": held_once,
    "shares_memory": steps_with(all_memory_is_its_own), "speed_alike": groups,
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_each_condition_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    instance, objective, best = case(name)
    assert next(proofs(name)).value(instance, objective) <= best
    PLANTED[name](monkeypatch)
    assert next(proofs(name)).value(instance, objective) > best


def test_a_hit_makes_a_decode_on_less() -> None:
    instance = case("least_work")[0]
    assert least.least_work(instance) == 2
    assert (
        least.least_work(instance.replace(contents=(), requests=tuple(r.replace(path=None) for r in instance.requests)))
        == 4
    )


# --- prefixes ---------------------------------------------------------------------------------------------------------
def test_prefixes_by_hand() -> None:
    """Blocks of 2: of the system's 2 and the tools' 1 the first pays for 2, as the third needs its own last one."""
    requests = (
        request("R2", 9, 1, arrival=1, path=("tools", 1)), request("R1", 9, 1, path=("tools", 1)),
        request("R3", 4, 1, arrival=2, path=("system", 2)), request("R4", 9, 1, arrival=3, path=("question", 1)),
    )  # fmt: skip
    found = prefixes.prefixes(shared(*requests, block=2))
    assert found[1] == Prefix(2, path=6, others=6, earlier=0, free=4)
    assert found[0] == Prefix(2, path=6, others=6, earlier=6, free=6)
    assert found[2] == Prefix(2, path=4, others=4, earlier=4, free=2)
    assert found[3] == Prefix(2, path=6, others=4, earlier=4, free=4)
    assert found[1].reach(0, 9) == 6
    assert found[3].reach(0, 9) == 4
    assert found[3].reach(7, 9) == 6


def drawn(seed: int, **fixed: Any) -> Instance:
    draw = random.Random(seed)
    return with_contents(draw, tiny_instance(seed, **{"prompt": (1, 2, 3, 4), "decode": (1, 1, 2)} | fixed), 2)


def test_two_ways_to_count_prefixes_agree() -> None:
    seen = Counter[Any]()
    for seed in few(range(900)):
        instance = drawn(seed, requests=(2, 3, 4, 5))
        if not instance.contents:
            continue
        read = check.note_prefixes(check.read_instance(json.loads(instance.to_json())))
        for ours, theirs in zip(prefixes.prefixes(instance), read.requests, strict=True):
            assert ours._asdict() == {"block": instance.machine.block, **theirs.prefix}
            seen[ours.free > ours.earlier, ours.others > ours.earlier] += 1
    assert len(seen) == 3


def test_contents_of_its_own_change_no_bound_where_nothing_is_lost() -> None:
    for seed in few(range(90)):
        plain = tiny_instance(seed, calls=0, evict=False, chunked=True, batch_tokens=3, memory="sum", requests=3)
        for proof in (Alone(), *corners(plain)):
            for objective in ("total-flow-time", "busy-time", "makespan"):
                assert proof.value(kv.own(plain), objective) == proof.value(plain, objective)


# --- random ones ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.model_fields["kind"].default)
def test_no_random_proof_is_above_the_optimum(kind: type[Proof]) -> None:
    seen, proved = Counter[str](), 0
    for seed in few(range(180), 18 if kind is LateTail else 9):  # it searches again
        objective = KINDS[kind][seed % len(KINDS[kind])]
        fixed = (
            {"slo": True, "decode": 1, "calls": 0} if kind is LateWindows else {"cost": ("linear", "some 1", "some 2")}
        )
        with suppress(TooManyStates, ValueError):
            instance = drawn(seed, **fixed)
            proved += bool(instance.contents) and refute(kind, seed, instance, objective, seen)
    assert proved > 4
    assert seen["by both"] > 9


@pytest.mark.parametrize("method", ["alone", "shares", "speed", "late-tail"])
def test_both_checkers_take_what_a_way_proposes(method: str) -> None:
    instance, objective, best = case("speed_alike")
    objective, best = ("p99-ttft", 6) if method == "late-tail" else (objective, best)
    way = next(way for way in CERTIFYING if way.formulation == method)
    proposal = next(p for p in way.proposals(Task(instance, objective)) if isinstance(p, Proposal))
    made = certify(instance, objective, *proposal)
    assert 0 < verify_certificate(instance, made) <= best
    read = check.read_instance(json.loads(instance.to_json()))
    assert check.verify_certificate(read, json.loads(made.to_json())) == (objective, made.value)


def test_a_search_inside_a_tail_is_declined() -> None:
    instance = case("shares_memory")[0]
    inside = {"kind": "late-tail", "within": 1, "proof": {"kind": "events", "states": 9}}
    with pytest.raises(InvalidCertificate, match="events is not proved with shared prefixes"):
        LateTail.model_validate_json(json.dumps(inside)).value(instance, "p99-ttft")
    with pytest.raises(check.NotChecked, match="a proof of kind events is not checked here with contents"):
        by_second(instance, LateTail.model_validate_json(json.dumps(inside)), "p99-ttft")
