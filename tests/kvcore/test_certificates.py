"""The checker of certificates: what it proves is true, whatever the file says; and the commands that use it."""

import json
import random
from fractions import Fraction
from functools import cache

import pytest

import kvbound as kv
from formulations.chains import chains, least_times
from kvcore import BadInput, Call, Instance, Machine, Request, Segment
from kvcore.certificates import (
    Alone,
    Certificate,
    InvalidCertificate,
    SlotDual,
    certify,
    read_certificate,
    verify_certificate,
)
from kvcore.certificates.least import least_batches
from kvcore.certificates.prefixes import Prefix
from kvcore.files import parse
from solvers.ways import CERTIFYING
from tests.fuzz import bounds, certificates
from tests.fuzz.case import looked_at
from tests.support.commands import kvbound
from tests.support.drawer import PROFILES, tiny_instance
from tests.support.few import few
from workloads import builtin

MARS = builtin.builtin_instance("mars-figure1")


MANY = {"believed mutated": 200, "believed random": 80, "refused mutated": 80, "check.py believed": 200}
"""What is met at least in a few cases."""


def read(text):
    return parse(Certificate, text, "c.json")


@cache
def proof_of_mars():
    return kv.bound(MARS, method="events").certificate


def test_a_weaker_claim_is_verified_and_a_stronger_one_refused():
    rung = kv.bound(MARS, "total-flow-time", method="slot-dual", upper=28)
    assert rung.bound == 28
    assert verify_certificate(MARS, rung.certificate.replace(bound="27")) == 28
    with pytest.raises(InvalidCertificate, match="claims 29, but proves 28 only"):
        verify_certificate(MARS, rung.certificate.replace(bound="29"))
    with pytest.raises(InvalidCertificate, match="claims 57/2, but proves 28 only"):
        verify_certificate(MARS, rung.certificate.replace(bound="57/2"))


def test_it_is_of_one_instance():
    certificate = proof_of_mars()
    with pytest.raises(InvalidCertificate, match="of another instance"):
        verify_certificate(MARS.with_free_calls(), certificate)


def test_the_objective_is_one():
    with pytest.raises(BadInput, match="no objective is called"):
        verify_certificate(MARS, proof_of_mars().replace(objective="beauty"))


@pytest.mark.parametrize(("changes", "message"), [
    ({"proof": {"kind": "belief"}}, "belief"),
    ({"proof": {"kind": "prices"}}, "proof: kind 'prices' is not read, or no more; these are: 'alone', 'config"),
    ({"proof": {"kind": "alone", "why": "trust me"}}, "unknown key"),
    ({"bound": "28.0"}, "pattern"),
    ({"bound": 28}, "string"),
    ({"version": 2}, "less than or equal to 1"),
    ({"instance_sha256": "no"}, "pattern"),
    ({"proof": {"kind": "slot-dual", "scale": 0, "prices": {}}}, "greater than or equal to 1"),
    ({"proof": {"kind": "slot-dual", "scale": 10**15, "prices": {}}}, "less than or equal to"),
    ({"proof": {"kind": "slot-dual", "scale": 1, "prices": {"device": [-1]}}}, "greater than or equal to 0"),
    ({"proof": {"kind": "slot-dual", "scale": 1, "prices": {"device": [0.5]}}}, "integer"),
    ({"proof": {"kind": "slot-dual", "scale": 1, "prices": {"device": [True]}}}, "integer"),
    ({"proof": {"kind": "events", "states": 0}}, "greater than or equal to 1"),
    ({"proof": {"kind": "events", "states": 10**7}}, "less than or equal to 3000000"),
])  # fmt: skip
def test_what_is_no_certificate_file(changes, message):
    document = json.loads(proof_of_mars().to_json()) | changes
    with pytest.raises(BadInput, match=message) as caught:
        read(json.dumps(document))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("profile", PROFILES)
def test_alone_counts_as_chains_do(profile):
    for seed in range(30):
        instance = tiny_instance(seed, **PROFILES[profile])
        for chain in chains(instance):
            assert least_batches(instance.machine, chain.request, Prefix()) == (chain.steps[1], chain.batches)
        times = [least_times(instance, chain) for chain in chains(instance)]
        assert Alone().value(instance, "max-flow-time") == max(time[-1] for time in times)
        assert Alone().value(instance, "total-ttft") == sum(time[1] for time in times)


def test_sums_of_thousands_of_fractions_are_rounded_down():
    draw = random.Random(0)
    requests = [Request(id=f"R{i}", prompt=2, segments=(Segment(decode=draw.randint(1, 2000)),)) for i in range(1500)]
    many = Instance(name="many", machine=Machine(memory=5000, chunked=False), requests=tuple(requests))
    certificate = certify(many, "normalized-latency", Alone())
    exact = Alone().value(many, "normalized-latency")
    assert exact - Fraction(1, 10**17) < certificate.value <= exact
    assert verify_certificate(many, certificate) == certificate.value


def test_sums_of_fractions_stay_short():
    """One after another, 100 tokens-a-request counts of 50 bits would make a denominator of 5,000."""
    segments = [(Segment(decode=10**15 - 2 - i, call=Call(duration=1)), Segment(decode=1)) for i in range(100)]
    requests = tuple(Request(id=f"R{i}", prompt=1, segments=each) for i, each in enumerate(segments))
    many = Instance(machine=Machine(memory=None), requests=requests)
    found = Alone().value(many, "normalized-latency")
    assert found.denominator <= 10**40
    assert 100 < found < 100 + Fraction(101, 10**15)


@pytest.mark.parametrize(("part", "least"), [(bounds.PART, {"proves": 40}), (certificates.PART, MANY)])
def test_whoever_made_it_a_certificate_proves_at_most_the_optimum(part, least):
    """Proposed, drawn or changed, by both checkers."""
    seen = looked_at(part, few(range(90), 9))
    for word, enough in least.items():
        assert sum(number for name, number in seen.items() if name.startswith(word)) >= enough, (word, seen)


# --- commands --------------------------------------------------------------------------------------------------------
def test_bound_writes_a_certificate_that_verify_accepts(tmp_path):
    file = tmp_path / "c.json"
    assert "the best, 29 ticks, is by events" in kvbound("bound", "mars-figure1", "--certificate", file).stdout
    said = kvbound("verify", "mars-figure1", "--certificate", file).stdout
    assert "valid: total-flow-time of mars-figure1 is at least 29 ticks" in said
    answer = json.loads(kvbound("verify", "mars-figure1", "--certificate", file, "--json", "-").stdout)
    assert (answer["valid"], answer["bound"], answer["kind"]) == (True, "29", "events")


def test_bound_as_json_and_a_certificate_of_free_calls(tmp_path):
    asked = ("bound", "mars-figure1", "--handling", "free", "--certificate", file := tmp_path / "c.json")
    row = json.loads(kvbound(*asked, "--json", "-").stdout)
    assert (row["status"], row["bound"], row["bound_kind"]) == ("bound-only", 27, "certificate")
    assert row["horizon"]["sufficient"]
    assert [rung["method"] for rung in row["ladder"]] == [way.label for way in CERTIFYING if way.label != "speed"]
    assert "at least 27" in kvbound("verify", "mars-figure1", "--certificate", file).stdout


def test_a_false_certificate_fails(tmp_path):
    file = tmp_path / "c.json"
    kvbound("bound", "mars-figure1", "--method", "slot-dual", "--certificate", file)
    file.write_text(read_certificate(file).replace(bound="30").to_json())
    failed = kvbound("verify", "mars-figure1", "--certificate", file, code=1)
    assert failed.stdout == "invalid: it claims 30, but proves 28 only\n"


def test_values_of_certificates_are_exact():
    rung = kv.bound(MARS, "normalized-latency", method="events")
    assert isinstance(rung.bound, Fraction)
    assert isinstance(kv.bound(MARS, method="slot-dual", upper=28).certificate.proof, SlotDual)


def test_compare_finds_and_bounds_large_instances(tmp_path):
    """More than two hundred requests have a best found row too, and a line that says whose a gap may be."""
    name, file, made = "hindsight:n=201,M=300,P=30,T=100,seed=1", tmp_path / "report.html", tmp_path / "rows.json"
    command = ("compare", name, "--policies", "serial", "--work", 10**6, "--html", file, "--json", made)
    shown = kvbound(*command).stdout
    serial, found = json.loads(made.read_text())["rows"]
    assert (serial["label"], found["label"], found["status"]) == ("serial", "best found, as given", "feasible")
    over = [Fraction(found["value"], found["bound"]), Fraction(serial["value"], found["value"])]
    assert over[1] > 1
    bound, best = (f"{float(ratio):.3g} times the" for ratio in over)
    assert f"the best found is {bound} bound; serial {best} best found" in shown
    assert f"bound: {found['proved_by']}" in file.read_text()
    nothing = kvbound("compare", name, "--policies", "serial", "--no-optimum").stdout
    assert "nothing to measure against was looked for" in nothing


@pytest.mark.slow
def test_solve_writes_a_certificate_that_may_prove_less(tmp_path):
    file = tmp_path / "c.json"
    row = json.loads(kvbound("solve", "hindsight:n=9,M=18,seed=3", "--certificate", file, "--json", "-").stdout)
    proved = verify_certificate(builtin.builtin_instance("hindsight:n=9,M=18,seed=3"), read_certificate(file))
    assert row["status"] == "optimal"
    assert 0.8 * row["value"] < proved <= row["value"]
