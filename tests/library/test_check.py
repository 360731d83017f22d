"""`library/check.py` agrees with the referee and the checker, on random schedules and certificates and on mutants."""

import ast
import gzip
import json
import random
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import get_args

import pytest

import kvbound as kv
from bounds.slot_solver import climb
from bounds.task import Proposal, Task
from kvcore import Cost, CostFunction, Instance, Machine, Request, Schedule, Segment, Slo
from kvcore.certificates import Alone, Certificate, Configurations, Events, InvalidCertificate, Shares, Speed, certify
from kvcore.certificates.certificate import AnyProof
from kvcore.errors import BadInput
from kvcore.files import parse
from kvcore.metrics import scale_of
from library import Library, check
from solvers.ways import WAYS
from tests.bounds.test_configuration_search import priced
from tests.fuzz.certificates import WORTHLESS, both, differ
from tests.support.contents import IDLE
from tests.support.drawer import PROFILES, tiny_instance
from tests.support.exhaustive import exhaustive_optimum
from tests.support.few import few
from tests.support.rigid import rigid
from workloads.builtin import builtin_instance

FILE = Path(check.__file__)
FLOW = "total-flow-time"
SEARCHED = check.KINDS["events"][2]


def loaded(instance):
    return check.read_instance(json.loads(instance.to_json()))


def test_it_needs_nothing_but_the_standard_library():
    for node in ast.walk(ast.parse(FILE.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) else []
        assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


# --- schedules (random ones: tests/fuzz/referee.py) --------------------------------------------------------------
@pytest.mark.parametrize("changes", [
    {"speed": 2}, {"tick_seconds": 0.001}, {"machine": {"memory": 1}}, {"requests": []},
    {"cost": []}, {"version": True}, {"machine": {"memory": 99, "evict": 1}},
    {"requests": [{"id": "R1", "prompt": 1, "segments": [{"decode": 1, "call": {"duration": 1}}]}]},
    {"requests": [{"id": "R1", "prompt": 1, "segments": [{"decode": 1}]}] * 2},
    {"requests": [{"id": "R1", "prompt": 1, "segments": []}]},
])  # fmt: skip
def test_both_refuse_what_is_no_instance(changes):
    given = json.loads(tiny_instance(1).to_json()) | changes
    with pytest.raises(BadInput):
        parse(Instance, json.dumps(given), "i.json")
    with pytest.raises(check.Bad):
        check.read_instance(given)


# --- certificates ------------------------------------------------------------------------------------------------
def same_certificate(instance, file):
    """Assert that both checkers say the same of a file; what kvbound's says."""
    ours, theirs = both(instance, file, check.MOST_STEPS)
    assert not differ(file, ours, theirs), (ours, theirs, json.dumps(file))
    return ours


OBJECTIVE_OF = {"late-windows": "late-requests", "late-tail": "p99-flow-time"}


@pytest.mark.parametrize("kind", [proof.model_fields["kind"].default for proof in get_args(get_args(AnyProof)[0])])
def test_both_check_a_certificate_of_each_kind(kind):
    """The first that its way proposes."""
    instance, objective = builtin_instance("hindsight:n=4,M=12,seed=0"), OBJECTIVE_OF.get(kind, "total-flow-time")
    if kind == "late-windows":
        instance = instance.replace(requests=tuple(one.replace(slo=Slo(latency=8)) for one in instance.requests))
    if kind == "enumeration":
        instance = IDLE
    if kind == "potentials":
        instance = instance.replace(cost=Cost((CostFunction(busy=1, tokens=1),)))
    proposed = WAYS[kind, kind if (kind, kind) in WAYS else "bound"].proposals(Task(instance, objective))
    proof = next(each.proof for each in proposed if isinstance(each, Proposal))
    assert proof.kind == kind
    certificate = certify(instance, objective, proof)
    assert same_certificate(instance, json.loads(certificate.to_json())) == certificate.value


def read(proof):
    return check.proof(json.loads(proof.model_dump_json()), "proof")


def main(folder, instance, other):
    """Return the exit code for two documents."""
    files = folder / "i.json", folder / "other.json"
    for file, data in zip(files, (instance, other), strict=True):
        file.write_text(data if isinstance(data, str) else json.dumps(data))
    return check.main(files)


def test_exact_fits_are_exact():
    """Three ticks hold three tokens, one a tick, in pieces whose widths are no binary fractions."""
    proof = read(Speed(functions=(0, 1023), slot=1, scale=1, price=(1, 0, 1), ratios=(200, 310)))
    pieces, room, _ = check.Batches(proof, Fraction(1023, 1024), Fraction(1023, 1024)).pieces(0)
    assert room == check.ONE <= sum(width for _, width in pieces)


def test_the_last_prefill_before_a_decode_holds_its_blocks():
    """Prompts of a block, in parts of a token: two prefills and a decode hold three blocks in all."""
    requests = tuple(Request(id=name, prompt=3, segments=(Segment(decode=1),)) for name in "ABCD")
    machine, cost = Machine(memory=6, block=3, batch_tokens=1), Cost((CostFunction(busy=4, prefill_requests=3),))
    instance, proof = Instance(machine=machine, cost=cost, requests=requests), Shares(functions=(1024, 0), memory=1024)
    assert check.prove(loaded(instance), read(proof), "busy-time") == proof.value(instance, "busy-time")


@pytest.mark.parametrize("seed", few(range(12), 4))
def test_like_requests_and_whole_prefills(seed):
    """Requests that may change places, and prefills of which not every part is tried, as the costs allow it or not."""
    draw = random.Random(seed)
    names = ("any_decode", "any_prefill", "tokens", "decode_requests", "prefill_requests", "decode_kv", "prefill_pairs")
    coefficients = {name: draw.randint(0, 4) for name in names}
    cost = CostFunction(divisor=draw.choice([1, 3]), busy=draw.randint(1, 20), prefill_kv=seed % 4, **coefficients)
    prompt, many = (3, 2) if seed % 2 else (1, 3)
    slo = Slo(latency=draw.randint(2, 60))
    requests = tuple(Request(id=f"R{k}", prompt=prompt, segments=(Segment(decode=2),), slo=slo) for k in range(many))
    machine = Machine(memory=draw.choice([4, 5, 6]), evict=seed % 3 > 0, pause=seed % 2 > 0, hybrid=draw.random() < 0.8)
    instance = Instance(machine=machine, cost=Cost((cost,)), requests=requests)
    for objective in SEARCHED:
        optimum = exhaustive_optimum(instance, objective, max_states=300_000)[0]
        proof = check.Box(kind="events", states=1, claim=optimum + 1)
        assert check.prove(loaded(instance), proof, objective) == optimum


@pytest.mark.parametrize("objective", SEARCHED)
def test_a_search_without_a_limit_of_memory(objective):
    instance = tiny_instance(1, requests=2, calls=0)
    instance = instance.replace(machine=instance.machine.replace(memory=None))
    best, _ = exhaustive_optimum(instance, objective)
    assert check.prove(loaded(instance), check.Box(kind="events", states=10**4, claim=best), objective) == best


def test_a_search_that_ends_too_early_says_so(monkeypatch):
    monkeypatch.setattr(check, "MOST_TRIED", 30)
    instance = kv.load_instance("mars-figure1")
    file = {"kind": "events", "states": 1, "claim": 29}
    with pytest.raises(check.NotChecked, match="it claims 29; so far it is known that no schedule is below 2"):
        check.prove(loaded(instance), check.Box(file), "total-flow-time")


# --- slots
SLOTTED = check.KINDS["slots"][2]


def slots_file(instance, objective, claim, unit=1, **changes):
    proof = {"kind": "slots", "target": claim, "scale": 1, "prices": [{"since": 0}], "states": 10**5, "tries": 10**7}
    made = Certificate(instance_sha256=instance.sha256, objective=objective, bound="0", proof=Alone(), made_by="")
    return json.loads(made.to_json()) | {"bound": str(Fraction(claim, unit)), "proof": proof | changes}


def slot_vectors(draw, instance, scale, unit):
    """Random prices of what is limited, for some slots."""
    machine = instance.machine
    limits = {"device": machine.memory, "host": machine.host_memory, "tokens": machine.batch_tokens,
              "prefill_tokens": machine.prefill_tokens, "requests": machine.batch_requests}  # fmt: skip
    limited = [name for name, most in limits.items() if most is not None]

    def vector(since):
        rows = {name: [unit * draw.choice([0, draw.randint(0, scale)]) for _ in range(draw.randint(0, 9))]
                for name in limited if draw.random() < 0.6}  # fmt: skip
        return {"since": since, **rows}

    return [vector(0), *(vector(draw.randint(0, 5)) for _ in range(draw.choice([0, 1, 14])))]


@pytest.mark.parametrize("objective", SLOTTED)
@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "slow-costs"])
@pytest.mark.parametrize("seed", few(range(8)))
def test_searches_over_slots_prove_the_optimum_and_no_more(objective, profile, seed):
    """Both accept an optimum, whatever the prices are, and neither a claim above it."""
    draw = random.Random(f"{objective} {profile} {seed}")
    sizes = {"requests": 2, "prompt": (1, 2), "decode": (1, 2), "calls": (0, int(profile != "partial")), "cost": "unit"}
    instance = tiny_instance(draw.randint(0, 999), **PROFILES[profile] | sizes)
    data, scale = loaded(instance), draw.choice([1, 5, 64])
    optimum = exhaustive_optimum(instance, objective, max_states=300_000)[0]
    unit = scale_of(instance.requests, objective)
    for more, strict in ((0, True), (1, False), (1, True)):
        numbers = {"scale": scale, "strict": strict, "prices": slot_vectors(draw, instance, scale, unit)}
        file = slots_file(instance, objective, int(optimum * unit) + more, unit, **numbers)
        refused = same_certificate(instance, file) == "refused"
        hard = objective == "total-ttft"  # after all first tokens there may be no way to the end
        assert refused == (more > 0) or (refused and hard)
        with pytest.raises(check.Broken, match="claims"):  # a claim above the target
            check.verify_certificate(data, file | {"bound": str(Fraction(int(optimum * unit) + more + 1, unit))})


def test_prices_after_the_last_end_give_nothing_back():
    """An end at the target or above it is not over for less, whatever the memory costs later."""
    requests = tuple(Request(id=f"R{k}", prompt=1, segments=(Segment(decode=2),)) for k in range(3))
    instance = Instance(machine=Machine(memory=2, chunked=False), requests=requests)
    late = {"strict": True, "prices": [{"since": 0, "device": [0] * 6 + [9]}]}
    assert same_certificate(instance, slots_file(instance, FLOW, 12, **late)) == 12
    with pytest.raises(check.Broken, match="it claims 13, but requests can be over for less by tick 6"):
        check.verify_certificate(loaded(instance), slots_file(instance, FLOW, 13, **late))


def test_searches_that_kvbound_proposes():
    """With the states that its prices leave, and one above the optimum."""
    instance = kv.load_instance("mars-figure1")
    for objective, optimum in (("total-flow-time", 29), ("makespan", 14), ("busy-time", 12)):
        *_, last = (step.proof for step in climb(Task(instance, objective)) if hasattr(step, "proof"))
        file = json.loads(certify(instance, objective, last).to_json())
        assert file["bound"] == str(optimum)
        assert same_certificate(instance, file) == optimum
        more = file | {"bound": str(optimum + 1), "proof": file["proof"] | {"target": optimum + 1}}
        with pytest.raises(check.Broken, match=f"it claims {optimum + 1}, but requests can be over for less by tick"):
            check.verify_certificate(loaded(instance), more)


@pytest.mark.parametrize(("changes", "said"), [
    ({"target": 0}, "proof.target: give an integer from 1"),
    ({"target": 1.5}, "proof.target: give an integer from 1"),
    ({"scale": 0}, "proof.scale: give an integer from 1"),
    ({"speed": 1}, "give no other keys"),
    ({"strict": 1}, "proof.strict: give one of"),
    ({"prices": [{"since": -1}]}, "since: give an integer from 0"),
    ({"prices": [{"since": 0, "tokens": [0, -1]}]}, r"tokens\[1\]: give an integer from 0"),
    ({"prices": [{"since": 0, "blocks": [1]}]}, "give no other keys"),
    ({"prices": [{"since": 1}]}, "the first prices are not of use from slot 0 on"),
    ({"prices": []}, "the first prices are not of use from slot 0 on"),
    ({"prices": [{"since": 0}, {"since": 3, "host": [0, 1]}]}, "there are prices of what has no limit"),
])  # fmt: skip
def test_what_is_no_search_over_slots_is_refused(changes, said):
    figure = kv.load_instance("mars-figure1")
    instance = figure.replace(machine=figure.machine.replace(host_memory=None))
    with pytest.raises((check.Broken, check.Bad), match=said):
        check.verify_certificate(loaded(instance), slots_file(instance, "total-flow-time", 1, **changes))


def test_searches_over_slots_that_are_not_made(monkeypatch):
    instance = kv.load_instance("mars-figure1")
    with pytest.raises(check.NotChecked, match="a proof of kind slots is not checked here for late-requests"):
        check.verify_certificate(loaded(instance), slots_file(instance, "late-requests", 1))
    slow = instance.replace(cost=Cost((CostFunction(busy=1, tokens=1),)))
    with pytest.raises(check.Broken, match="a search over slots is for batches that last one tick"):
        check.verify_certificate(loaded(slow), slots_file(slow, "makespan", 1))
    with pytest.raises(check.NotChecked, match="a proof of kind pairs is not checked here with drop_and_work"):
        check.prove(loaded(tiny_instance(1, drop_and_work=True)), check.Box(kind="pairs"), "total-flow-time")
    alike = tuple(Request(id=f"R{k}", prompt=1, segments=(Segment(decode=1),)) for k in range(101))
    many = Instance(machine=Machine(memory=6), requests=alike)
    with pytest.raises(check.NotChecked, match="more than 100 requests are not searched"):
        check.verify_certificate(loaded(many), slots_file(many, "makespan", 1))
    for limit, said in (
        ("MOST_OPTIONS", "more than 3 options of a request are not searched"),
        ("MOST_VALUED", "values of [0-9]+ options are not computed"),
        ("MOST_CHOSEN", "more than 3 options are not tried"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(check, limit, 3)
            with pytest.raises(check.NotChecked, match=said):
                check.verify_certificate(loaded(instance), slots_file(instance, "total-flow-time", 29))


@pytest.mark.parametrize("seed", few(range(12), 4))
def test_states_that_are_as_good_decide_nothing(seed, monkeypatch):
    """Without the comparison of states a search ends in the same way."""
    instance = tiny_instance(seed, requests=2, prompt=(1, 2), decode=(1, 2), calls=(0, 1), cost="unit")
    objective = SLOTTED[seed % 6]
    optimum = exhaustive_optimum(instance, objective, max_states=300_000)[0]
    for most in (0, check.MOST_PAIRS):
        monkeypatch.setattr(check, "MOST_PAIRS", most)
        file = slots_file(instance, objective, optimum, strict=True)
        if objective != "total-ttft":
            assert check.verify_certificate(loaded(instance), file) == (objective, optimum)
        with pytest.raises(check.Broken, match="can be over for less"):
            check.verify_certificate(loaded(instance), slots_file(instance, objective, optimum + 1, strict=True))


BRANCH = {"request": "R1", "segment": 0, "slot": 5}


@pytest.mark.parametrize("nodes", [
    [BRANCH, {}], [BRANCH], [{}] * 2, [], [BRANCH, {}, BRANCH, {}], [7],
    *([BRANCH | wrong, {}, {}] for wrong in ({"slot": -1}, {"slot": 2**16 + 1}, {"request": "nobody"})),
])  # fmt: skip
def test_what_are_no_cases_is_refused(nodes):
    instance = kv.load_instance("mars-figure1")
    file = {"kind": "slot-dual", "scale": 1, "prices": nodes}
    with pytest.raises((check.Broken, check.Bad)):
        check.prove(loaded(instance), check.proof(file, "proof"), "total-flow-time")


# --- the command -------------------------------------------------------------------------------------------------
def command(*arguments):
    return subprocess.run([sys.executable, FILE, *arguments], capture_output=True, text=True)


def test_the_command_and_a_library(tmp_path):
    instance = kv.load_instance("mars-figure1")
    schedule = kv.simulate(instance, "mars-order").schedule
    certificate = Certificate(instance_sha256=instance.sha256, objective=FLOW, bound="22", proof=Alone())
    base = tmp_path / "records" / "mars" / "mars-figure1"
    base.parent.mkdir(parents=True)
    files = {"instance": instance, "total-flow-time.schedule": schedule, "total-flow-time.certificate": certificate}
    for name, made in files.items():
        Path(f"{base}.{name}.json.gz").write_bytes(gzip.compress(made.to_json().encode()))
    shown = command(f"{base}.instance.json.gz", f"{base}.total-flow-time.schedule.json.gz")
    assert shown.returncode == 0
    assert "total-flow-time 30" in shown.stdout
    shown = command(f"{base}.instance.json.gz", f"{base}.total-flow-time.certificate.json.gz")
    assert (shown.returncode, shown.stdout) == (0, "valid: total-flow-time is at least 22\n")

    broken = tmp_path / "a.broken.json"
    broken.write_text(Schedule(instance_sha256=instance.sha256, batches=schedule.batches[:-1]).to_json())
    shown = command(f"{base}.instance.json.gz", broken)
    assert shown.returncode == 1
    assert "R11 is broken in batch 11" in shown.stdout
    assert command(broken, broken).returncode == 2

    record = {"format": "kvbound-record", "version": 1, "name": "mars-figure1", "instance_sha256": instance.sha256}
    record |= {"family": "mars", "source": "", "origin": "", "licence": "", "requests": 3, "calls": 3}
    made = {"by": "", "how": "", "seconds": 0.5, "date": "2026-11-22"}
    entry = {"value": 30, "bound": 22, "status": "open", "schedule": made, "certificate": made}
    Path(f"{base}.json").write_text(json.dumps(record | {"objectives": {"total-flow-time": entry}}))
    shown = command("--all", tmp_path)
    assert (shown.returncode, shown.stdout.splitlines()[-1]) == (0, "1 records, 0 of them wrong or not checked")
    Path(f"{base}.json").write_text(json.dumps(record | {"objectives": {"total-flow-time": entry | {"value": 29}}}))
    shown = command("--all", tmp_path)
    assert shown.returncode == 1
    assert "the schedule has 30, the record says 29" in shown.stdout


def test_configurations_are_of_whole_files():
    """A price for two requests that are alike must be the same: both refuse."""
    twice = rigid(3)
    twice = twice.replace(requests=tuple(one.replace(id=f"{one.id}{k}") for one in twice.requests for k in (1, 2)))
    proof = Configurations(scale=4, memory=(), starts=tuple(range(5, 5 + len(twice.requests))))
    file = Certificate(instance_sha256=twice.sha256, objective=FLOW, bound=WORTHLESS, proof=proof)
    assert same_certificate(twice, json.loads(file.to_json())) == "refused"


def test_a_search_for_starts_is_made_again():
    """Both prove the same targets: the optimum, where no budget binds, and none above it."""
    draw, proved = random.Random(3), 0
    for seed in range(60):
        instance = rigid(seed, online=seed % 2 == 1, budgets=seed % 3 == 0)
        target = exhaustive_optimum(instance, "total-flow-time", max_states=300_000)[0] + draw.choice((-1, 0, 0, 1))
        proof = priced(instance, "total-flow-time", draw, max(1, int(target)))
        try:
            expected = proof.value(instance, "total-flow-time")
        except InvalidCertificate:
            with pytest.raises(check.Broken, match="all requests can start below"):
                check.prove(loaded(instance), read(proof), "total-flow-time")
            continue
        assert check.prove(loaded(instance), read(proof), "total-flow-time") == expected == target
        proved += 1
    assert 25 < proved < 55


def test_a_search_for_starts_ends_at_its_limit(monkeypatch):
    monkeypatch.setattr(check, "MOST_TRIED", 3)
    instance = rigid(3)
    with pytest.raises(check.NotChecked, match="more than 3 starts are not tried"):
        check.prove(loaded(instance), read(priced(instance, "total-flow-time", random.Random(1), 9)), "total-flow-time")


@pytest.mark.parametrize(
    ("limit", "said"),
    [("MOST_CONFIGURATIONS", "more than 3 configurations"), ("MOST_STARTS", "starts at [0-9]+ ticks")],
)
def test_networks_that_are_too_large_are_not_looked_at(monkeypatch, limit, said):
    monkeypatch.setattr(check, limit, 3)
    instance = rigid(3)
    proof = read(Configurations(scale=1, memory=(), starts=(1000,) * len(instance.requests)))
    with pytest.raises(check.NotChecked, match=f"{said} are not looked at"):
        check.prove(loaded(instance), proof, "total-flow-time")


def test_what_is_not_checked_is_said(tmp_path, capsys):
    with pytest.raises(check.Bad, match="no proof of kind 'coarse' is checked here"):
        check.proof({"kind": "coarse"}, "proof")
    with pytest.raises(check.NotChecked, match="a proof of kind shares is not checked here for makespan"):
        check.prove(loaded(tiny_instance(1)), read(Shares(functions=(1024, 0))), "makespan")
    alike = tuple(Request(id=f"R{k}", prompt=1, segments=(Segment(decode=1),)) for k in range(33))
    many = Instance(machine=Machine(memory=6), cost=Cost((CostFunction(busy=1),)), requests=alike)
    with pytest.raises(check.NotChecked, match="more than 32 requests are not searched"):
        check.prove(loaded(many), check.Box(kind="events", states=1, claim=1), "makespan")
    paced = many.replace(requests=(alike[0].replace(slo=Slo(tpot=1)),))
    with pytest.raises(check.NotChecked, match="with a TPOT, waits that only make the first token late"):
        check.prove(loaded(paced), check.Box(kind="events", states=1, claim=1), "late-requests")
    claim = Certificate(instance_sha256=many.sha256, objective="makespan", bound="1", proof=Events(states=1))
    assert main(tmp_path, many.to_json(), claim.to_json()) == 1
    assert capsys.readouterr().out == "not checked: more than 32 requests are not searched\n"


# --- both say of the same records that they are broken ---------------------------------------------------------------
def at(*keys, to=None, drop=False):
    """Return what changes a value of a record: to something else, or it is left out."""

    def changed(text):
        record = inside = json.loads(text)
        for key in keys[:-1]:
            inside = inside[key]
        if drop:
            del inside[keys[-1]]
        else:
            inside[keys[-1]] = to
        return json.dumps(record).encode()

    return bytes_of(".json", changed)


def bytes_of(end, change):
    return lambda folder, base: Path(f"{base}{end}").write_bytes(change(Path(f"{base}{end}").read_bytes()))


def keys(end, **changes):
    return bytes_of(end, lambda file: gzip.compress(json.dumps(json.loads(gzip.decompress(file)) | changes).encode()))


def seconds(text):
    return bytes_of(".json", lambda record: re.sub(b'"seconds": [0-9.]+', b'"seconds": ' + text, record))


def whole(end, data):
    return bytes_of(end, lambda _: data)


def gone(end):
    return lambda folder, base: Path(f"{base}{end}").unlink()


def copied(to, end=".json"):
    def copy(folder, base):
        (folder / to).parent.mkdir(exist_ok=True)
        (folder / to).write_bytes(Path(f"{base}{end}").read_bytes())

    return copy


BEST, INSTANCE = ("objectives", FLOW), ".instance.json.gz"
S, C = f".{FLOW}.schedule.json.gz", f".{FLOW}.certificate.json.gz"
EMPTY = {"value": None, "bound": None, "status": "open", "schedule": None, "certificate": None}
MUTATIONS = {
    "nothing": (False, at("licence", to="MIT")),
    "a default left out": (False, at("format", drop=True)),
    "text for a number": (True, at(*BEST, "value", to="29/1")),
    "another objective": (False, at("objectives", "makespan", to=EMPTY)),
    "a file of another kind": (False, copied("mars/notes.md")),
    "a list": (True, whole(".json", b"[]")),
    "null": (True, whole(".json", b"null")),
    "nothing in it": (True, whole(".json", b"")),
    "no JSON": (True, whole(".json", b"{")),
    "no UTF-8": (True, whole(".json", b"\xff{}")),
    "UTF-16": (True, bytes_of(".json", lambda data: data.decode().encode("utf-16"))),
    "deep": (True, whole(".json", b"[" * 10**5)),
    "a key twice": (True, bytes_of(".json", lambda text: text.replace(b"{", b'{"format": "kvbound-record",', 1))),
    "format": (True, at("format", to="kvbound-instance")),
    "version": (True, at("version", to=2)),
    "unknown key": (True, at("extra", to=1)),
    "no name": (True, at("name", drop=True)),
    "another name": (True, at("name", to="other")),
    "a name that is a number": (True, at("name", to=5)),
    "another family": (True, at("family", to="other")),
    "no licence": (True, at("licence", drop=True)),
    "long origin": (True, at("origin", to="x" * 201)),
    "origin with an escape": (True, at("origin", to="\x1b[31m")),
    "hash": (True, at("instance_sha256", to="0" * 64)),
    "no hash": (True, at("instance_sha256", to=None)),
    "requests": (True, at("requests", to=4)),
    "requests as text": (True, at("requests", to="3")),
    "calls": (True, at("calls", to=0)),
    "no objectives": (True, at("objectives", to={})),
    "objectives as a list": (True, at("objectives", to=[])),
    "no such objective": (True, at("objectives", "speed", to=EMPTY)),
    "an objective of null": (True, at(*BEST, to=None)),
    "value": (True, at(*BEST, "value", to=28)),
    "value true": (True, at(*BEST, "value", to=True)),
    "value a float": (True, at(*BEST, "value", to=29.0)),
    "value null": (True, at(*BEST, "value", to=None)),
    "value over 0": (True, at(*BEST, "value", to="29/0")),
    "bound": (True, at(*BEST, "bound", to=28)),
    "bound above": (True, at(*BEST, "bound", to=30)),
    "status": (True, at(*BEST, "status", to="open")),
    "status of none": (True, at(*BEST, "status", to="done")),
    "no schedule": (True, at(*BEST, "schedule", to=None)),
    "who is too long": (True, at(*BEST, "schedule", "by", to="x" * 201)),
    "seconds": (True, at(*BEST, "schedule", "seconds", to=-1)),
    "seconds without end": (True, seconds(b"Infinity")),
    "more seconds than a float": (True, seconds(b"1e999")),
    "date": (True, at(*BEST, "certificate", "date", to="yesterday")),
    "no instance": (True, gone(INSTANCE)),
    "no schedule file": (True, gone(S)),
    "no certificate file": (True, gone(C)),
    "a file of nobody": (True, copied("mars/mars-figure1.makespan.schedule.json.gz", S)),
    "no gzip": (True, whole(S, b"{}")),
    "half a gzip": (True, bytes_of(S, lambda data: data[:-20])),
    "bad gzip": (True, whole(C, b"\x1f\x8b\x08" + b"\0" * 7 + b"\xff" * 20)),
    "instance name": (True, keys(INSTANCE, name="x" * 201)),
    "schedule of another": (True, keys(S, instance_sha256="0" * 64)),
    "batches": (True, keys(S, batches=[])),
    "claim": (True, keys(C, bound="30")),
    "less claimed": (True, keys(C, bound="28")),
    "objective of the certificate": (True, keys(C, objective="makespan")),
    "twice": (True, copied("a/mars-figure1.json")),
}  # fmt: skip


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_both_see_the_same_broken_records(mutation, tmp_path, capsys):
    broken, change = MUTATIONS[mutation]
    (tmp_path / "mars").mkdir()
    for path in (FILE.parent / "records" / "mars").glob("mars-figure1.*"):
        (tmp_path / "mars" / path.name).write_bytes(path.read_bytes())
    change(tmp_path, tmp_path / "mars" / "mars-figure1")
    try:
        library = Library(tmp_path)
        wrong = any(one.wrong for name in library.names for one in library.check(name))
    except BadInput:
        wrong = True
    assert (bool(check.main(["--all", tmp_path])), wrong) == (broken, broken)
    assert "Traceback" not in capsys.readouterr().out


# --- what is too large is not checked --------------------------------------------------------------------------------
def one_slot(**changes):
    """Return an instance of one tick a batch with one request, as JSON."""
    request = {"id": "R", "prompt": 1, "segments": [{"decode": 2}]} | changes.pop("request", {})
    machine = {"memory": 10**15, "batch_tokens": 4} | changes
    return {"machine": machine, "requests": [request]}


def claims(instance, proof, objective=FLOW):
    data = {"instance_sha256": check.sha256(check.read_instance(instance)), "objective": objective, "bound": "1000"}
    return data | {"proof": proof}


def many(decode, **changes):
    return one_slot(request={"segments": [{"decode": decode}]}, **changes)


IN_SLOTS = {"kind": "slots", "target": 10**15, "scale": 1, "prices": [{}], "states": 1, "tries": 1}
WIDE = one_slot(request={"prompt": 10**14}, batch_tokens=None, evict=True, partial=True, host_memory=1)
RIGID = {"chunked": False, "pause": False}
SPEED = {"kind": "speed", "functions": [1024, 0], "requests": 0, "slot": 1, "scale": 1, "within": 0,
         "ratios": list(range(65, 200)), "price": list(range(20_000, 0, -1))}  # fmt: skip
LARGE = {
    "tokens": (many(10**14), {"kind": "alone"}),
    "loads": (many(10**6, **RIGID), {"kind": "configurations", "memory": [], "starts": [None]}),
    "starts": (one_slot(**RIGID), {"kind": "configurations", "memory": [], "starts": [10**15]}),
    "a target of ticks": (one_slot(), IN_SLOTS),
    "what may be done in a tick": (WIDE, IN_SLOTS),
    "what may be done in a batch": (WIDE, {"kind": "events", "states": 1}),
    "prices of work": (many(10**6), SPEED),
}  # fmt: skip


TARGETS = {
    "events": ({"states": 1}, 2**60),
    "potentials": ({"scale": 1, "potentials": [], "labels": 1}, 2**58),
    "configurations": ({"memory": [], "starts": [None]}, 10**15),
    "slots": ({"scale": 1, "prices": [{}], "states": 1, "tries": 1}, 10**15),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_targets_may_be_as_large_as_kvbound_takes_them(kind):
    numbers, most = TARGETS[kind]
    fits, above = (claims(one_slot(), {"kind": kind, "target": target, **numbers}) for target in (most, most + 1))
    assert parse(Certificate, json.dumps(fits), "c.json").proof.target == check.proof(fits["proof"], "proof").target
    with pytest.raises(BadInput, match="target: must be less than or equal to"):
        parse(Certificate, json.dumps(above), "c.json")
    with pytest.raises(check.Bad, match="target: give an integer from"):
        check.proof(above["proof"], "proof")


def test_a_batch_may_start_late(tmp_path, capsys):
    """The second one of a request that arrives at 10^15, of other work than the first."""
    instance = one_slot(request={"arrival": 10**15, "prompt": 2})
    sha256 = check.sha256(check.read_instance(instance))
    batches = [{"start": 10**15 + t, "work": {"R": k}} for t, k in enumerate((2, 1))]
    assert main(tmp_path, instance, {"instance_sha256": sha256, "batches": batches}) == 0
    assert "total-flow-time 2" in capsys.readouterr().out.splitlines()
    batches[1]["start"] = 10**60 + 1
    assert main(tmp_path, instance, {"instance_sha256": sha256, "batches": batches}) == 2
    assert "start: give an integer from -inf to 1000" in capsys.readouterr().err


@pytest.mark.parametrize("what", LARGE)
def test_a_certificate_that_asks_for_too_much_is_not_checked(what, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(check, "MOST_STEPS", 10**7)  # seconds
    instance, proof = LARGE[what]
    assert main(tmp_path, instance, claims(instance, proof)) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("not checked: ")


def test_a_schedule_of_too_many_batches_is_not_checked(tmp_path, capsys):
    instance = many(10**14)
    sha256 = check.sha256(check.read_instance(instance))
    batches = [{"start": 0, "work": {"R": 1}, "repeat": 10**14}]
    assert main(tmp_path, instance, {"instance_sha256": sha256, "batches": batches}) == 1
    assert capsys.readouterr().out.startswith("not checked: its batches would take more than the 5000000000 steps")


@pytest.mark.parametrize("text", [b" " * 2**16, b"[" + b"[]," * 2**14 + b"[]]"])
def test_a_file_that_unpacks_to_too_much_is_not_read(text, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(check, "MOST_BYTES", 2**16 - 1)
    monkeypatch.setattr(check, "MOST_VALUES", 2**14)
    (tmp_path / "i.json.gz").write_bytes(gzip.compress(text))
    assert check.main([tmp_path / "i.json.gz", tmp_path / "i.json.gz"]) == 1
    assert "bytes or 16384 values are not read" in capsys.readouterr().out


@pytest.mark.parametrize("place", ['"coarsening": {}', '"name": {}', '"requests": {}', '"\\u001b[31m{:.9}\\n": 1'])
def test_it_says_one_line_whatever_is_in_the_file(place, tmp_path, capsys):
    """Also where Python reads what is nested, and writes it no more."""
    deep = ("[" * depth + "]" * depth for depth in range(940, 1000))
    for value in ('"' + "x" * 10**5 + '"', str([1] * 10**4), "9" * 4000, *deep):
        text = '{"machine": {"memory": 6}, "requests": [{"id": "R", "prompt": 1, "segments": [{"decode": 1}]}], '
        text = text.replace('"requests"', '"cost"', "requests" in place) + place.format(value) + "}"
        assert main(tmp_path, text, {"instance_sha256": "", "batches": []}) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.isprintable()
        assert len(line) <= 400


def test_a_folder_without_records_is_bad_input(tmp_path, capsys):
    assert check.main(["--all", tmp_path]) == check.main(["--all", tmp_path / "none"]) == 2
    assert "there is no record below it" in capsys.readouterr().err
