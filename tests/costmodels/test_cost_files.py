"""Cost files: what is written is read, what is wrong is one line, and every command takes one."""

import json
from fractions import Fraction

import pytest

from costmodels import COSTS, DEVICES, MODELS, get_cost
from costmodels.cost_files import as_model, cost_file, read_cost, write_cost
from costmodels.fitted import Observation, fit
from kvcore import BadInput, Machine
from kvcore.cost import Features
from kvcore.cost_file import CostFile
from kvcore.files import read_instance
from kvcore.schemas import schema_text
from tests.support.commands import kvbound

TICK = Fraction(1, 10**9)
MEASURED = [
    *(Observation(Features(busy=1, any_decode=1, tokens=n, decode_requests=n), max(5e-4, 3e-6 * n), "decode")
      for n in range(1, 400, 7)),
    *(Observation(Features(swap_out_tokens=n, swap_outs=1), 1e-5 + 1e-6 * n, "out") for n in range(10, 400, 40)),
]  # fmt: skip
MACHINE = Machine(memory=4096, block=16, host_memory=8192, batch_tokens=512, evict=True)


def a_file():
    return cost_file(
        fit(MEASURED), name="bench", tick=TICK, machine=MACHINE, model="tiny",
        device={"name": "a device", "memory": 1024, "clock": 1.5}, versions={"torch": "2.11"}, observations=MEASURED,
    )  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("costs") / "cost.json"
    write_cost(a_file(), path)
    return path


def test_what_is_written_is_read(path):
    found = read_cost(path)
    assert found == a_file()
    assert found.observations == tuple(MEASURED)
    assert (found.machine, found.model, found.device["clock"]) == (MACHINE, "tiny", 1.5)
    assert found.fit.held_out.worst < 0.01


def test_the_rounding_error_of_the_file_is_that_of_the_model(path):
    model = get_cost(str(path))
    assert 0 < model.rounding < 1e-6
    assert (model.make(), model.tick, model.machine, model.what) == (a_file().cost, TICK, MACHINE, "bench")
    assert model.source == str(path)


def test_the_least_that_a_file_holds_is_a_cost_and_its_tick(tmp_path):
    path = tmp_path / "small.json"
    path.write_text('{"tick_seconds": "1/1000", "cost": [{"busy": 3}]}')
    model = as_model(read_cost(path), "small")
    assert model.make().duration(Features(busy=1)) == 3
    assert model.machine is None


@pytest.mark.parametrize(("change", "message"), [
    ({"format": "kvbound-instance"}, r"format: .*'kvbound-cost' \(it is \"kvbound-instance\"\)"),
    ({"version": 2}, "version: must be less than or equal to 1"),
    ({"speed": 1}, "speed: unknown key"),
    ({"cost": []}, "cost: must have at least 1 item"),
    ({"cost": [{"busy": -1}]}, r"cost\[0\].busy: must be greater than or equal to 0"),
    ({"tick_seconds": 0.001}, "tick_seconds: give an integer or a fraction in text"),
    ({"rounding_error": -0.5}, "rounding_error: must be greater than or equal to 0"),
    ({"observations": [{"features": {"tokens": 1}, "seconds": 0}]}, r"observations\[0\].seconds: .* greater than 0"),
    ({"observations": [{"features": {"tokns": 1}, "seconds": 1}]}, "features are an object with keys among busy"),
    ({"observations": [{"features": {"tokens": 1.5}, "seconds": 1}]}, "tokens is a whole number from 0"),
    ({"observations": [{"features": {"tokens": 1}, "seconds": 1, "kind": ""}]}, "kind: unknown key"),
    ({"machine": {"memory": 0}}, "machine.memory: must be greater than or equal to 1"),
])  # fmt: skip
def test_what_is_wrong_with_a_file_is_one_line(path, tmp_path, change, message):
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(BadInput, match=message) as caught:
        read_cost(bad)
    assert str(caught.value).startswith(str(bad))
    assert "\n" not in str(caught.value)


def test_no_file_and_no_json_are_one_line(tmp_path):
    with pytest.raises(BadInput, match=r"nothing.json: cannot be read: No such file"):
        get_cost(str(tmp_path / "nothing.json"))
    (tmp_path / "text.json").write_text("cost")
    with pytest.raises(BadInput, match=r"text.json: not JSON"):
        get_cost(str(tmp_path / "text.json"))


def test_the_schema_accepts_a_file_and_refuses_a_bad_one(path):
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    schema = json.loads(schema_text("cost.schema.json"))
    jsonschema.Draft202012Validator.check_schema(schema)
    good = json.loads(path.read_text())
    jsonschema.validate(good, schema)
    for change in ({"speed": 1}, {"cost": []}, {"observations": [{"features": {"tokns": 1}, "seconds": 1.0}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(good | change, schema)


def test_every_command_takes_a_cost_file(path, tmp_path):
    kvbound("generate", "fixed", "--n", 3, "--prompt", 40, "--output", 4, "--cost", path, "--out", tmp_path / "I.json")
    made = read_instance(tmp_path / "I.json")
    assert (made.cost, made.tick_seconds, made.machine) == (a_file().cost, TICK, MACHINE)
    failed = kvbound("generate", "fixed", "--n", 1, "--cost", tmp_path / "no.json", "--out", "-", code=2)
    assert "no.json: cannot be read" in failed.stderr


# --- kvbound costs ---------------------------------------------------------------------------------------------------
def test_costs_lists_everything():
    rows = json.loads(kvbound("costs", "--json", "-").stdout)
    assert [row["name"] for row in rows["rows"]] == list(COSTS)
    assert [row["name"] for row in rows["devices"]] == list(DEVICES)
    assert [row["name"] for row in rows["models"]] == list(MODELS)
    shown = kvbound("costs").stdout
    assert all(name in shown for name in (*COSTS, *DEVICES, *MODELS))


def test_one_cost_in_microseconds():
    found = json.loads(kvbound("costs", "infermax-7b-floor", "--json", "-").stdout)
    assert [function["busy"] for function in found["microseconds"]] == [pytest.approx(2075.52), pytest.approx(9280)]
    assert (found["rounding_error"], found["machine"]["memory"], found["fit"]) == (0, 100_000, None)
    assert "the coefficients are exact" in kvbound("costs", "roofline:model=llama-3-8b,device=h100").stdout


def test_a_fitted_cost_shows_its_errors(path):
    found = json.loads(kvbound("costs", path, "--json", "-").stdout)
    assert found["fit"]["shape"] == a_file().fit.shape
    shown = kvbound("costs", path).stdout
    assert "a coefficient is off by at most" in shown
    for words in ("linear, fitted", "linear, held out", "transfers, held out", "decode, held out", "worst"):
        assert words in shown


def test_a_hinge_is_shown_with_its_knee(tmp_path):
    file = CostFile(tick_seconds=TICK, cost=fit(MEASURED, shape="hinge").rounded(TICK).cost)
    write_cost(file, tmp_path / "hinge.json")
    shown = kvbound("costs", tmp_path / "hinge.json").stdout
    assert f"tokens above {file.cost.functions[0].tokens_above.knee}" in shown
