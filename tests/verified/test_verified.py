"""The referee and the checker proved in Coq, beside kvbound's own."""

import json
import random
import re
import tomllib
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from shutil import copy

import pytest

import kvbound as kv
from kvbound import machine_checked
from kvcore.certificates import Alone, Potential, Potentials, SlotDual, SlotPrices, certify
from kvcore.certificates.enumeration import Enumeration
from kvcore.certificates.events import Events
from kvcore.certificates.pairs import Pairs
from kvcore.certificates.shares import Shares
from kvcore.rules import RULES
from library import Library
from tests.support.build import batch, instance, requests_of, schedule
from tests.support.commands import kvbound
from tests.support.contents import IDLE
from tests.support.drawer import tiny_instance
from tests.support.exhaustive import TooManyStates, exhaustive_optimum
from tests.support.few import ALL
from tests.support.random_proofs import random_slots, random_speed
from tests.support.random_schedules import mutate, random_schedule

ROOT = Path(__file__).parents[2]
MARS = kv.builtin_instance("mars-figure1")
TWO = instance(*requests_of("A 2 2; B 1 2"), cost=(kv.CostFunction(busy=4, tokens=1),), memory=4, host_memory=0)
"""The example of the head of potentials.py."""
OBJECTIVES = tuple(map(str, machine_checked.OBJECTIVES))
SEARCHED = tuple(map(str, machine_checked.SEARCHED))


def claim(instance, objective, bound):
    """A certificate of this bound whose proof is to search again."""
    return certify(instance, objective, Events(states=1), bound)


def expected(instance, tried):
    """What the program must say, and the rule that is broken first."""
    try:
        trace = kv.verify_schedule(instance, tried)
    except kv.InvalidSchedule as broken:
        return " ".join(["invalid"] * len(OBJECTIVES)), broken.rule
    return " ".join(str(kv.objective_value(trace, objective)) for objective in OBJECTIVES), 0


def drawn(seed):
    """The lines of random schedules of a random instance, with what must be said of them."""
    draw = random.Random(seed)
    instance = tiny_instance(seed)
    try:
        valid = random_schedule(draw, instance)
    except AssertionError:  # it takes more batches than are drawn
        return
    for tried in (valid, *(mutate(draw, instance, valid) for _ in range(9))):
        try:
            yield machine_checked.judgement(instance, tried), *expected(instance, tried)
        except kv.BadInput:  # an entry below 1, an unknown request, `repeat`
            continue


def test_the_referees_agree():
    met = Counter()
    rows = [row for seed in range(1600 if ALL else 50) for row in drawn(seed)]
    said = machine_checked.run([line for line, *_ in rows]).splitlines()
    for (_, value, rule), answer in zip(rows, said, strict=True):
        assert answer == value
        met[rule] += 1
    assert sum(met.values()) > (10_000 if ALL else 250)
    assert met[0] > sum(met.values()) // 9
    missing = {*range(1, 12)} - {*met} - {10}  # what breaks R10 is rarely written
    assert not missing if ALL else len(missing) < 4


def test_an_empty_schedule_is_answered():
    assert machine_checked.judge(MARS, schedule(MARS)) is None


@pytest.mark.parametrize(
    ("tried", "words"),
    [
        (batch(0, R3=1).replace(drop={"R3": 0}), "no entry below 1"),
        (batch(0, R3=1).replace(repeat=2), "no batch with `repeat`"),
    ],
)
def test_what_the_lines_cannot_say_is_declined(tried, words):
    with pytest.raises(kv.BadInput, match=words):
        machine_checked.judge(MARS, schedule(MARS, tried))


def test_the_optimum_is_proved_and_one_more_is_refused():
    met = Counter()
    for seed in range(60 if ALL else 12):
        instance, objective = tiny_instance(seed), SEARCHED[seed % len(SEARCHED)]
        try:
            optimum, _ = exhaustive_optimum(instance, objective, max_states=300)
        except TooManyStates:
            continue
        assert kv.verify_certificate(instance, claim(instance, objective, optimum), proved=True) == optimum
        with pytest.raises(kv.InvalidCertificate, match=f"a schedule ends at {optimum}$"):
            kv.verify_certificate(instance, claim(instance, objective, optimum + 1), proved=True)
        met[objective] += 1
    assert sum(met.values()) >= (20 if ALL else 4)


def in_nanoseconds(instance, tick=10**6):
    """The same with a batch, which lasted a tick, of so many; arrivals and calls are as many times later and longer."""

    def longer(segment):
        call = segment.call and segment.call.replace(duration=segment.call.duration * tick)
        return segment.replace(call=call)

    requests = tuple(
        request.replace(arrival=request.arrival * tick, segments=tuple(map(longer, request.segments)))
        for request in instance.requests
    )
    return instance.replace(cost=kv.Cost((kv.CostFunction(busy=tick),)), requests=requests)


def test_batches_that_start_when_something_happens_prove_the_optimum_in_nanoseconds():
    met = Counter()
    for seed in range(10):
        instance, objective = tiny_instance(seed, cost="unit", requests=2), SEARCHED[seed % len(SEARCHED)]
        try:
            optimum, _ = exhaustive_optimum(instance, objective, max_states=300)
        except TooManyStates:
            continue
        fine, optimum = in_nanoseconds(instance), optimum * 10**6
        assert kv.verify_certificate(fine, claim(fine, objective, optimum), proved=True) == optimum
        with pytest.raises(kv.InvalidCertificate, match=f"a schedule ends at {optimum}$"):
            kv.verify_certificate(fine, claim(fine, objective, optimum + 1), proved=True)
        met[objective] += 1
    assert len(met) >= 3


def test_the_largest_flow_time_is_proved_where_batches_last_a_tick():
    met = Counter()
    for seed in range(80 if ALL else 14):
        instance = tiny_instance(seed, cost="unit")
        try:
            optimum, _ = exhaustive_optimum(instance, "max-flow-time", max_states=300)
        except TooManyStates:
            continue
        assert kv.verify_certificate(instance, claim(instance, "max-flow-time", optimum), proved=True) == optimum
        with pytest.raises(kv.InvalidCertificate, match=f"a schedule ends at {optimum} or before$"):
            kv.verify_certificate(instance, claim(instance, "max-flow-time", optimum + 1), proved=True)
        met[optimum] += 1
    assert len(met) >= (8 if ALL else 3)
    slow = kv.builtin_instance("infermax-figure15:I=1")
    with pytest.raises(kv.InvalidCertificate, match="not proved: the checker refuses what was found"):
        kv.verify_certificate(slow, claim(slow, "max-flow-time", 2), proved=True)


def test_any_prices_prove_the_optimum_at_most():
    met = Counter()
    for seed in range(30 if ALL else 10):
        draw, instance = random.Random(seed), tiny_instance(seed, cost="unit", requests=2)
        objective = draw.choice(("total-flow-time", "weighted-flow-time", "total-ttft"))
        try:
            optimum, _ = exhaustive_optimum(instance, objective, max_states=300)
        except TooManyStates:
            continue
        for more in (0, 1):
            proof = random_slots(draw, instance, objective, int(optimum) + more, strict=True)
            made = certify(instance, objective, proof, int(optimum) + more)
            if more:
                with pytest.raises(kv.InvalidCertificate, match=f"a schedule ends at {optimum}$"):
                    kv.verify_certificate(instance, made, proved=True)
            else:
                assert kv.verify_certificate(instance, made, proved=True) == optimum
        met[objective] += 1
    assert len(met) == 3


def test_requests_alone_prove_what_they_need_and_the_optimum_at_most():
    objectives = (*sorted({*OBJECTIVES} - {"busy-time"}), "p50-ttft", "p50-flow-time")
    met = Counter()
    for seed in range(120 if ALL else 16):
        instance, objective = tiny_instance(seed), objectives[seed % len(objectives)]
        made = certify(instance, objective, Alone())
        try:
            optimum = (
                made.value
                if objective in objectives[-2:]
                else exhaustive_optimum(instance, objective, max_states=300)[0]
            )
        except TooManyStates:
            continue
        assert kv.verify_certificate(instance, made, proved=True) == made.value  # kvbound's own
        with pytest.raises(kv.InvalidCertificate, match="not proved: alone, requests prove"):
            kv.verify_certificate(instance, certify(instance, objective, Alone(), optimum + 1), proved=True)
        met[objective] += 1
    assert len(met) >= (8 if ALL else 4)


def shares_of(draw, instance):
    """All of one function of the cost, its fixed part by one thing that is limited."""
    machine, functions = instance.machine, instance.cost.functions
    limits = {"memory": machine.memory, "packing": machine.memory, "tokens": machine.batch_tokens}
    by = [name for name, most in {**limits, "prefill_tokens": machine.prefill_limit}.items() if most is not None]
    whole = [0] * (len(functions) + 1)
    whole[draw.randrange(len(functions))] = 1024
    return Shares(functions=tuple(whole), packs=draw.randint(1, 3), **{draw.choice(by): 1024}) if by else None


def test_shares_prove_what_they_did_and_the_optimum_at_most():
    met = Counter()
    for seed in range(700 if ALL else 40):
        draw, instance = random.Random(seed), tiny_instance(seed, requests=2)
        objective = draw.choice(("busy-time", "makespan", "total-flow-time", "weighted-flow-time"))
        proof = shares_of(draw, instance)
        if proof is None or any(f.tokens_above for f in instance.cost.functions):
            continue
        try:
            optimum, _ = exhaustive_optimum(instance, objective, max_states=300)
        except TooManyStates:
            continue
        with pytest.raises(kv.InvalidCertificate, match="not proved by these shares"):
            kv.verify_certificate(instance, certify(instance, objective, proof, optimum + 1), proved=True)
        made = certify(instance, objective, proof)
        # elsewhere it may prove less: it takes it that KV may be dropped, and counts earlier blocks one by one
        if objective.endswith("flow-time") and instance.machine.evict and instance.machine.block == 1:
            assert kv.verify_certificate(instance, made, proved=True) == made.value
            met["proved"] += 1
        met[objective] += 1
    assert len(met) == 5 if ALL else met["proved"]


def test_prices_of_work_prove_the_optimum_at_most():
    met = Counter()
    for seed in range(700 if ALL else 120):
        draw, instance = random.Random(seed), tiny_instance(seed, requests=2, cost=("unit", "fresh", "fresh, moved"))
        objective = draw.choice(("total-flow-time", "weighted-flow-time"))
        whole = [0] * (len(instance.cost.functions) + 1)
        whole[draw.randrange(len(whole) - 1)] = 1024
        proof = random_speed(draw, instance).replace(functions=tuple(whole), lines=(), within=0)
        try:
            optimum, _ = exhaustive_optimum(instance, objective, max_states=300)
            made = certify(instance, objective, proof)
            kv.verify_certificate(instance, made, proved=True)
        except (TooManyStates, kv.BadInput):
            continue
        except kv.InvalidCertificate:
            met["not proved"] += 1
        else:
            met["proved"] += 1
        with pytest.raises(kv.InvalidCertificate, match="not proved by these prices of work"):
            kv.verify_certificate(instance, certify(instance, objective, proof, optimum + 1), proved=True)
        met[objective] += 1
    assert met["proved"] >= 5
    assert met["total-flow-time"] * met["weighted-flow-time"] > 0


def test_prices_of_work_of_the_library_are_proved():
    library = Library()
    record = library.record("equal-I16-O16")
    instance, made = library.instance(record), library.certificate(record, "total-flow-time")
    assert kv.verify_certificate(instance, made, proved=True) == made.value
    for wrong in (made.value * 11 // 10, made.value * 2):
        with pytest.raises(kv.InvalidCertificate, match="not proved by these prices of work"):
            kv.verify_certificate(instance, certify(instance, "total-flow-time", made.proof, wrong), proved=True)


@pytest.mark.parametrize("objective", ["busy-time", "total-flow-time"])
def test_shares_of_the_library_are_proved(objective):
    library = Library()
    record = library.record("identical-n32-I32-O8-M256")
    instance, made = library.instance(record), library.certificate(record, objective)
    assert kv.verify_certificate(instance, made, proved=True) == made.value
    with pytest.raises(kv.InvalidCertificate, match="not proved by these shares"):
        kv.verify_certificate(instance, certify(instance, objective, made.proof, made.value + 1), proved=True)


@pytest.mark.parametrize(("free", "proof", "value"), [
    (TWO, Potentials(scale=1, potentials=(Potential(compute=1, device=(1, 0), host=(1, 0)),), labels=99), 29),
    (MARS.with_calls_handled("free"), Enumeration(states=100_000), 27),
])  # fmt: skip
def test_what_other_searches_prove_is_searched_again(free, proof, value):
    made = certify(free, "total-flow-time", proof)
    assert kv.verify_certificate(free, made, proved=True) == made.value == value
    with pytest.raises(kv.InvalidCertificate, match=f"a schedule ends at {value}"):
        kv.verify_certificate(free, certify(free, "total-flow-time", proof, value + 1), proved=True)
    wide = free.machine.replace(memory=40, host_memory=40, batch_tokens=40, prefill_tokens=40)
    long = free.replace(machine=wide, requests=tuple(each.replace(prompt=20) for each in free.requests))
    for large in (long, free.replace(machine=free.machine.replace(partial=True))):
        with pytest.raises(kv.BadInput, match=f"kind {proof.kind} above 16 tokens, or with `partial`"):
            kv.verify_certificate(large, certify(large, "total-flow-time", proof, 1), proved=True)


def test_another_instance_is_refused():
    other = MARS.replace(name="another")
    with pytest.raises(kv.InvalidCertificate, match="it is of another instance"):
        kv.verify_certificate(other, claim(MARS, "total-flow-time", 29), proved=True)


def test_what_is_not_proved_is_declined():
    for proof in (Pairs(), SlotDual(scale=1, prices=(SlotPrices(),))):
        with pytest.raises(kv.BadInput, match=f"takes no certificate of the kind {proof.kind}"):
            kv.verify_certificate(MARS, certify(MARS, "total-flow-time", proof, 20), proved=True)
    for functions, more in (((0, 1024), {}), ((1024, 0), {}), ((1024, 0), {"memory": 1, "tokens": 1})):
        with pytest.raises(kv.BadInput, match="takes shares of one function, without a knee, by one resource"):
            kv.verify_certificate(
                MARS, certify(MARS, "total-flow-time", Shares(functions=functions, **more), 20), proved=True
            )
    with pytest.raises(kv.BadInput, match="not proved with busy-time"):
        kv.verify_certificate(MARS, certify(MARS, "busy-time", Alone(), 1), proved=True)
    with pytest.raises(kv.BadInput, match="not proved with late-requests"):
        kv.verify_certificate(MARS, claim(MARS, "late-requests", 1), proved=True)
    with pytest.raises(kv.BadInput, match="not proved with shared prefixes"):
        machine_checked.judge(IDLE, schedule(IDLE))


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """What a wheel has of verified/, and an empty cache."""
    shipped = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    (tmp_path / "verified").mkdir()
    for file, place in shipped["targets"]["wheel"]["force-include"].items():
        copy(ROOT / file, tmp_path / place)
    monkeypatch.setattr(machine_checked, "FOLDER", tmp_path / "verified")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.usefixtures("installed")
def test_an_installed_copy_builds_the_program_once(monkeypatch, tmp_path):
    assert kv.verify_certificate(MARS, claim(MARS, "total-flow-time", 29), proved=True) == 29
    assert [*(tmp_path / "cache/kvbound").iterdir()] == [machine_checked.program()]
    monkeypatch.setenv("PATH", "")
    assert kv.verify_certificate(MARS, claim(MARS, "total-flow-time", 29), proved=True) == 29


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_prices_of_work_that_take_too_long_are_declined():
    source, library = machine_checked.FOLDER / "speed.ml", Library()
    source.write_text(source.read_text(encoding="utf-8").replace("4_000_000_000", "4_000_000"), encoding="utf-8")
    record = library.record("equal-I16-O16")
    instance, made = library.instance(record), library.certificate(record, "total-flow-time")
    with pytest.raises(kv.InvalidCertificate, match="not proved: more than 4000000 steps"):
        kv.verify_certificate(instance, made, proved=True)


@pytest.mark.usefixtures("installed")
def test_without_ocaml_there_is_one_line(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(kv.MissingTool, match="takes OCaml, ocamlfind and zarith to build"):
        kv.verify_certificate(MARS, claim(MARS, "total-flow-time", 29), proved=True)


def test_the_command_says_machine_checked(tmp_path):
    file = tmp_path / "c.json"
    file.write_text(claim(MARS, "total-flow-time", 29).to_json())
    done = kvbound("verify", "mars-figure1", "--certificate", file, "--proved", "--json", "-")
    assert json.loads(done.stdout)["machine_checked"]
    assert "valid, machine-checked: " in kvbound("verify", "mars-figure1", "--certificate", file, "--proved").stdout


@pytest.mark.parametrize(
    "command", ["bound mars-figure1 --method alone", pytest.param("solve mars-figure1", marks=pytest.mark.slow)]
)
def test_results_say_machine_checked(command):
    for more in ([], ["--proved"]):
        found = json.loads(kvbound(*command.split(), *more, "--json", "-").stdout)
        assert found.get("machine_checked", False) is bool(more)


@pytest.mark.slow
def test_a_report_says_machine_checked(tmp_path):
    file = tmp_path / "r.html"
    kvbound("compare", "mars-figure1", "--policies", "fcfs", "--proved", "--html", file)
    assert ", machine-checked: at least " in file.read_text(encoding="utf-8")


def test_a_declined_certificate_is_not_marked():
    made = certify(MARS, "total-flow-time", Shares(functions=(0, 0)), 1)
    result = kv.Result(MARS, "total-flow-time", bound=1, bound_kind="certificate", certificate=made)
    machine_checked.mark(result)
    assert not result.machine_checked


def test_the_table_names_what_there_is():
    page = (ROOT / "docs/verified.md").read_text(encoding="utf-8")
    spec, rules = ((ROOT / name).read_text(encoding="utf-8") for name in ("verified/Spec.v", "kvcore/rules.py"))
    rows = re.findall(r"^\| (R\d+) \| (.+) \| (.+) \|$", page, flags=re.M)
    assert [int(rule[1:]) for rule, *_ in rows] == [*range(1, 12)]
    for rule, coq, python in rows:
        assert RULES[int(rule[1:])]
        for name in re.findall(r"`(\w+)`", coq):
            assert f"Definition {name} " in spec
        for name in re.findall(r"`(\w+)`", python):
            assert f"def {name}(" in rules


@pytest.mark.parametrize("said", ["not proved: a schedule ends at 29", "more than 200000 states"])
def test_a_schedule_below_a_bound_is_said_and_an_end_without_a_verdict_marks_nothing(said, monkeypatch, tmp_path):
    (tmp_path / "kvcheck").write_text(f"#!/bin/sh\necho '{said}'\n")
    (tmp_path / "kvcheck").chmod(0o755)
    monkeypatch.setattr(machine_checked, "program", lambda: tmp_path / "kvcheck")
    result = kv.bound(MARS, method="alone")
    with pytest.raises(kv.InvalidCertificate, match="ends at 29") if "ends" in said else nullcontext():
        machine_checked.mark(result)
    assert not result.machine_checked
