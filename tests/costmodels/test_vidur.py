"""Vidur's profiles are read strictly, and the real ones give the published numbers."""

import json
from fractions import Fraction

import numpy as np
import pytest

from costmodels import get_cost
from costmodels.cost_files import read_cost
from costmodels.fitted import fit
from costmodels.infermax import FLOOR_7B, FLOOR_70B, LAYERS_7B, LAYERS_70B
from costmodels.models import MODELS
from costmodels.roofline import roofline_functions
from costmodels.vidur import DEVICES, SHAPE, TIMES, TOKENS, read_vidur
from kvcore import BadInput
from kvcore.cost import Features
from tests.support.commands import kvbound
from tests.support.data import real

LLAMA_2_7B, LLAMA_3_8B = "Llama-2-7b-hf", "Meta-Llama-3-8B"
COLUMNS = (*TIMES, "time_stats.emb.median", *SHAPE, TOKENS, DEVICES)


def profile(*rows):
    return "\n".join(",".join(map(str, row)) for row in (COLUMNS, *rows)) + "\n"


def row(tokens, devices=1, each=0.25, shape=(32, 32, 4096, 11008)):
    return (*[each] * len(TIMES), 9.5, *shape, tokens, devices)


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "mlp.csv"
        path.write_text(text)
        return path

    return write


def measured(device, model):
    return real(f"vidur_profiling/{device}_{model}_mlp.csv")


def test_a_layer_is_the_sum_of_nine_medians(file):
    """The embedding is in no layer; rows for other numbers of devices are another profile."""
    path = file(profile(row(8), row(1, each="1e-3"), row(8, devices=2, each=0.125)))
    found = read_vidur(path)
    assert found.layer == ((8, Fraction(9, 4000)), (1, Fraction(9, 10**6)))
    assert (found.shape, found.devices, found.model) == ((32, 32, 4096, 11008), 1, MODELS["llama-2-7b"])
    assert read_vidur(path, 2).layer == ((8, Fraction(9, 8000)),)


def test_observations_are_of_all_layers(file):
    found = read_vidur(file(profile(row(8), row(15), row(16)))).observations(layers=32)
    assert [one.label for one in found] == ["8+", "8+", "16+"]
    assert found[0].features == Features(busy=1, tokens=8)
    assert found[0].seconds == pytest.approx(32 * 2.25e-3)


@pytest.mark.parametrize(("text", "message"), [
    ("", "it is empty; the first line must name the columns"),
    ("a,b\n1,2\n", "line 1: no column time_stats.input_layernorm.median"),
    (profile(), "it has no rows below its header"),
    (profile(row(0)), "line 2: num_tokens must be at least 1, it is '0'"),
    (profile(row(1), row(2, each="fast")), "line 3: .* must be a decimal number, it is 'fast'"),
    (profile(row(1, each=0)), "line 2: .* must be above 0"),
    (profile(row(1), row(2, shape=(32, 8, 4096, 11008))), "it holds 2 shapes of layers"),
    (profile(row(1, devices=4)), "no layer is shared by 1 devices; there are 4"),
])  # fmt: skip
def test_a_bad_file_is_one_line(file, text, message):
    path = file(text)
    with pytest.raises(BadInput, match=message) as caught:
        read_vidur(path)
    assert str(caught.value).startswith(str(path))


def test_the_command_writes_a_cost_that_other_commands_take(file, tmp_path):
    path = file(profile(*[row(n, each=max(0.03, 0.0003 * n)) for n in range(1, 1001, 9)]))
    out = tmp_path / "cost.json"
    done = kvbound("import", "vidur", path, "--out", out)
    assert "32 layers, no attention" in done.stdout
    cost = read_cost(out)
    assert (cost.model, len(cost.observations)) == ("llama-2-7b", 112)
    assert cost.fit.held_out.worst < 0.02
    assert cost.cost.duration(Features(busy=1, tokens=1)) == pytest.approx(32 * 9 * 0.03e6, rel=0.01)
    kvbound("generate", "fixed", "--n", 2, "--cost", out, "--out", tmp_path / "I.json")
    assert json.loads((tmp_path / "I.json").read_text())["tick_seconds"] == "1/1000000000"


def test_an_unknown_shape_needs_its_layers(file, tmp_path):
    path = file(profile(*[row(n, shape=(4, 4, 64, 96)) for n in range(1, 9)]))
    failed = kvbound("import", "vidur", path, "--out", tmp_path / "cost.json", code=2)
    assert "no known model has layers of this shape (4, 4, 64, 96); name their number (--layers)" in failed.stderr
    kvbound("import", "vidur", path, "--out", tmp_path / "cost.json", "--layers", 3)
    assert read_cost(tmp_path / "cost.json").model is None


# --- the real profiles -----------------------------------------------------------------------------------------------
@pytest.mark.data
@pytest.mark.parametrize(("device", "model", "fixed", "token", "r2", "floor"), [
    ("a100", LLAMA_2_7B, 0.1095, 0.001987, 0.9987, 0.29),
    ("h100", LLAMA_2_7B, 0.1146, 0.000621, 0.9956, 0.175),
    ("a100", LLAMA_3_8B, 0.2376, 0.002066, 0.9998, 0.303),
])  # fmt: skip
def test_plain_least_squares_give_the_known_lines(device, model, fixed, token, r2, floor):
    layer = read_vidur(measured(device, model)).layer
    tokens, milliseconds = np.array([(n, float(1000 * seconds)) for n, seconds in layer]).T
    slope, start = np.polyfit(tokens, milliseconds, 1)
    left = milliseconds - (start + slope * tokens)
    assert (start, slope) == (pytest.approx(fixed, abs=5e-5), pytest.approx(token, abs=5e-7))
    assert 1 - left.var() / milliseconds.var() == pytest.approx(r2, abs=5e-5)
    assert milliseconds[tokens == 1] == pytest.approx(floor, abs=5e-4)


@pytest.mark.data
@pytest.mark.parametrize(
    ("device", "model", "linear", "bent"),
    [("a100", LLAMA_2_7B, 0.061, 0.032), ("h100", LLAMA_2_7B, 0.056, 0.051), ("a100", LLAMA_3_8B, 0.033, 0.026)],
)
def test_a_bend_halves_the_error_of_a_layer(device, model, linear, bent):
    """Mean errors held out. What is left are the steps of matrix multiplications, which no bend has."""
    report = fit(read_vidur(measured(device, model)).observations(), names=("busy", "tokens")).report
    assert report.shapes["linear"].held_out.mean == pytest.approx(linear, abs=0.001)
    assert report.held_out.mean == pytest.approx(bent, abs=0.001)
    assert report.shape in ("hinge", "max")


@pytest.mark.data
def test_the_floor_of_infermax_is_what_was_measured():
    """One token: 9.28 ms in 32 layers, where the linear model has 2.14 ms; at 512 tokens both are the line."""
    layer = dict(read_vidur(measured("a100", LLAMA_2_7B)).layer)
    assert layer[1] * 1000 == Fraction(FLOOR_7B)


def test_the_floor_counts_where_the_line_is_below_it():
    plain, floored = (get_cost(name).make() for name in ("infermax-7b", "infermax-7b-floor"))
    one, many = Features(busy=1, tokens=1), Features(busy=1, tokens=512)
    assert plain.duration(one) == pytest.approx(32 * 1e6 * (0.00191 + 0.06486), abs=1)
    assert floored.duration(one) == LAYERS_7B * 1e6 * 0.29
    assert plain.duration(many) == floored.duration(many)
    decode = Features(busy=1, any_decode=1, tokens=8, decode_requests=8, decode_kv=8000)
    attention = 32 * 1e6 * (8.513e-6 * 8000 + 0.01921 + 0.00074 * 8)
    assert floored.duration(decode) == pytest.approx(LAYERS_7B * 1e6 * 0.29 + attention, abs=2)


def test_the_floor_of_70b_is_its_weights_on_four_devices():
    """Computed, not measured: weights over the bandwidth of four A100, a layer, without the logits."""
    from costmodels.devices import DEVICES as TABLE

    weights = roofline_functions(MODELS["llama-2-70b"], TABLE["a100-80gb"], 4)[0].value(Features(busy=1))
    assert float(weights * 1000 / LAYERS_70B) == pytest.approx(float(FLOOR_70B), abs=5e-5)
    assert get_cost("infermax-70b-floor").make().duration(Features(busy=1, tokens=1)) == LAYERS_70B * 210_600
