"""Calibration: features as the referee counts them, known costs recovered, floors and hidden swaps by hand."""

import json
from fractions import Fraction
from itertools import count
from types import SimpleNamespace

import pytest

from costmodels import get_cost
from costmodels.cost_files import read_cost
from costmodels.models import LLAMA_1B, TINY
from gpu_validation.bandwidth import floor_of, swap_rows
from gpu_validation.calibration import SIZES, VISITS, Measured, Point, fitted, grid, measure
from gpu_validation.engine import Engine
from kvbound.cli.calibrate import knees, point_rows
from kvcore.cost import Features
from tests.support.commands import kvbound, one_line
from tests.support.random_schedules import random_trace

RATES = {"read": 4.3e12, "matmul": 790e12, "device to host": 50e9, "host to device": 40e9}
BUSY = ((1, 64),) * 8


def test_features_are_those_of_the_referee():
    kinds = dict.fromkeys(("decode", "prefill", "out", "in"), 0)
    for seed in range(120):
        trace = random_trace(seed)
        steps = [step for request in trace.requests for step in request.steps]
        moves = [move for request in trace.requests for move in request.moves]
        for j, batch in enumerate(trace.batches):
            here = [step for step in steps if step.batch == j]
            out, back = (
                [move.tokens for move in moves if (move.batch, move.kind) == (j, kind)]
                for kind in ("swap_out", "swap_in")
            )
            if len(out) > 1 or len(back) > 1 or not all(step.generated for step in here):
                continue  # an engine's batch has one move each way, and generates a token for each request
            work = tuple((step.tokens, step.resident) for step in here)
            assert Point("", work, sum(out), sum(back)).features == batch.features
            kinds["decode"] += batch.features.decode_requests > 1
            kinds["prefill"] += batch.features.prefill_kv > 0
            kinds["out"] += bool(out)
            kinds["in"] += bool(back)
    assert min(kinds.values()) > 10, kinds


def test_the_features_of_a_mixed_batch_by_hand():
    point = Point("mixed", ((1, 10), (1, 20), (5, 7), (1, 0)), swap_out=33)
    assert point.features == Features(
        busy=1, any_decode=1, any_prefill=1, tokens=8, generated=4, decode_requests=2, prefill_requests=2,
        decode_kv=30, prefill_kv=7, prefill_pairs=5 * 5 + 2 * 5 * 7 + 1, swap_out_tokens=33, swap_outs=1,
    )  # fmt: skip
    assert point.name == "1 x 1 at 10, 1 x 1 at 20, 1 x 5 at 7, 1 x 1 at 0, 33 out"
    assert point.memory(16) == 16 + 32 + 16 + 16 + 48


@pytest.mark.parametrize("sizes", SIZES.values())
def test_a_grid_has_every_kind_and_each_point_once(sizes):
    points = grid(sizes, 10**7, 16)
    assert len(set(points)) == len(points) >= 20
    assert {point.label for point in points} == {"decode", "prefill", "mixed", "swap", "swap beside work"}


def test_what_does_not_fit_is_left_out():
    everything, some = grid(SIZES["cuda", False], 10**7, 16), grid(SIZES["cuda", False], 100_000, 16)
    assert max(point.memory(16) for point in some) <= 100_000
    assert [point for point in everything if point.memory(16) <= 100_000] == some != everything
    assert Point("decode", ((1, 2048),) * 64) in everything


class Planted:
    """An engine whose batches take what a cost says; it notes what it was asked."""

    def __init__(self, slow=frozenset()):
        self.asked = []
        self.slow = slow

    def time_batch(self, work, swap_out_tokens, swap_in_tokens, repeats, block):
        point = Point("", tuple(work), swap_out_tokens, swap_in_tokens)
        self.asked.append(point)
        x = point.features
        busy = 800 * x.busy + 4 * x.tokens + 30 * max(0, x.tokens - 40) + x.decode_kv / 16 + 9 * x.decode_requests
        link = max(5 * x.swap_outs + x.swap_out_tokens, 6 * x.swap_ins + 2 * x.swap_in_tokens)
        return [1e-6 * max(busy, link) * factor for factor in (1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0)[:repeats]]


def test_a_known_cost_is_recovered():
    measured, _ = measure(Planted(), grid(SIZES["cpu", True], 8192, 16), repeats=7)
    found = fitted(measured, "cuda")
    assert found.report.shape in ("hinge", "max")
    assert found.report.held_out is not None
    assert found.report.held_out.worst < 0.03
    linear = found.report.shapes["linear"].held_out
    assert linear is not None
    assert linear.mean > 0.05
    batch = Point("", ((1, 100), (50, 0)), swap_in=700).features
    assert found.predict(batch) == pytest.approx(1406e-6, rel=0.02)  # the link: 6 + 2 x 700 microseconds


def test_the_grid_is_visited_there_and_back():
    engine, points = Planted(), [Point("decode", ((1, m),)) for m in (10, 500, 20, 30)]
    measured, _ = measure(engine, points, repeats=7, seed=3)
    _, _, *visits = [point.work[0][1] for point in engine.asked]
    assert visits[:4] == visits[4:8][::-1] == visits[8:]
    assert sorted(visits[:4]) == [10, 20, 30, 500] != visits[:4]
    assert [one.point for one in measured] == points
    assert {len(one.samples) for one in measured} == {VISITS * 3}


def test_what_needs_most_memory_goes_first():
    engine = Planted()
    points = [Point("decode", ((1, 10),)), Point("decode", ((1, 90),)), Point("swap", (), swap_in=40)]
    measure(engine, points, repeats=3)
    assert [point.features for point in engine.asked[:2]] == [points[1].features, points[2].features]


def test_what_was_not_timed_in_time_is_left_out():
    engine, points = Planted(), [Point("decode", ((1, m),)) for m in range(10, 20)]
    ticks = iter(range(1000))
    measured, _ = measure(engine, points, repeats=7, time_limit=14.5, clock=lambda: float(next(ticks)))
    assert len(engine.asked) == 2 + 14  # a second for each
    assert len(measured) == 10
    assert sorted(len(one.samples) for one in measured) == [3] * 6 + [6] * 4
    few, _ = measure(Planted(), points, repeats=7, time_limit=3.5, clock=iter(map(float, range(99))).__next__)
    assert len(few) == 3


def at(work, out, back, seconds, noise=0.0):
    return Measured(Point("", work, out, back), (seconds - noise, seconds, seconds + noise))


def test_hidden_swaps_by_hand():
    measured = [
        at(BUSY, 0, 0, 10.0, noise=0.5), at((), 64, 0, 4.0), at(BUSY, 64, 0, 10.1), at((), 128, 0, 8.0),
        at(BUSY, 128, 0, 12.0), at((), 256, 0, 16.0), at(BUSY, 256, 0, 10.2), at((), 64, 64, 0.5),
        at(BUSY, 64, 64, 10.0), at(BUSY, 0, 999, 10.0),
    ]  # fmt: skip
    rows = swap_rows(measured, TINY, {"device to host": 1e4, "host to device": 1e4, "both directions": 18e3})
    assert [(row["direction"], row["tokens"]) for row in rows] == [
        ("out", 64), ("out", 128), ("out", 256), ("both", 64),
    ]  # fmt: skip
    assert [row["hidden"] for row in rows[:3]] == pytest.approx([1 - 0.1 / 4, 1 - 2 / 8, 1 - 0.2 / 16])
    assert rows[3]["hidden"] is None  # 0.5 s alone is less than the noise of the batch
    assert [row["slowed"] for row in rows] == pytest.approx([0.01, 0.2, 0.02, 0.0])
    token = 2 * 2 * 2 * 16 * 2  # layers, keys and values, heads, width, bytes
    assert rows[0]["bytes_per_second"] == 64 * token / 4
    assert rows[3]["bytes_per_second"] == 128 * token / 0.5
    assert rows[0]["of_link"] == 64 * token / 4 / 1e4
    assert rows[3]["of_link"] == 128 * token / 0.5 / 18e3
    assert rows[0]["budget"] == int(10 * 1e4 / token) == 390
    assert rows[3]["budget"] == int(10 * 9e3 / token) == 351
    assert knees(rows) == {"out": 64, "both": 64}


@pytest.mark.parametrize(("point", "milliseconds"), [
    (Point("", ((1, 2047),) * 64), 1.574), (Point("", ((1, 2047),) * 256), 4.572), (Point("", ((1, 511),) * 64), 0.825),
    (Point("", ((2048, 0),)), 5.39), (Point("", ((8192, 0),)), 25.8), (Point("", ((2048, 6144),)), 7.5),
    (Point("", (), swap_out=2048), 1e3 * 2048 * 32_768 / 50e9),
    (Point("", ((1, 0),), swap_in=2048), 1e3 * 2048 * 32_768 / 40e9),
])  # fmt: skip
def test_the_floors_of_the_1b(point, milliseconds):
    assert 1e3 * floor_of(LLAMA_1B, RATES)(point.features) == pytest.approx(milliseconds, rel=4e-3)


def test_the_floor_of_fp32_reads_twice_as_much():
    decode = Point("", ((1, 2047),) * 64).features
    assert floor_of(LLAMA_1B, RATES, size=4)(decode) == pytest.approx(2 * floor_of(LLAMA_1B, RATES)(decode))


def test_a_row_holds_what_it_is_made_of():
    told = SimpleNamespace(predict=lambda features: 3.0)
    [row] = point_rows([at(((1, 10),), 0, 0, 2.0, noise=0.5)], told, lambda features: 1.0)
    assert (row["seconds_median"], row["error"], row["over_floor"]) == (2.0, 0.5, 2.0)
    assert (row["seconds_p10"], row["seconds_p90"]) == (pytest.approx(1.6), pytest.approx(2.4))
    assert (row["tokens"], row["decode_kv"], row["batch"]) == (1, 10, "1 x 1 at 10")


def test_calibrating_this_cpu(tmp_path):
    done = kvbound(
        "calibrate", "--device", "cpu", "--quick", "--repeats", 2, "--tick", "1/1000000000", "--memory", 4100,
        "--out", tmp_path / "cost.json", "--json", tmp_path / "all.json", "--plot", tmp_path / "fit.svg",
    )  # fmt: skip
    assert "sdpa backend, float32" in done.stdout
    everything, file = json.loads((tmp_path / "all.json").read_text()), read_cost(tmp_path / "cost.json")
    rows = everything["rows"]
    assert (everything["memory"], everything["device"]["device_type"]) == (4096, "cpu")
    assert {row["label"] for row in rows} == {"decode", "prefill", "mixed", "swap", "swap beside work"}
    assert all(row["seconds_median"] > 0 and row["floor"] > 0 and row["repeats"] == 6 for row in rows)
    assert len(everything["swaps"]) == 6
    assert {row["of_link"] for row in everything["swaps"]} == {None}
    assert (file.model, file.tick_seconds) == ("small", Fraction(1, 10**9))
    assert file.machine is not None
    assert (file.machine.memory, file.machine.block, file.machine.batch_tokens) == (4096, 16, 128)
    assert file.fit is not None
    assert file.fit.transfers == "sync"
    assert set(file.fit.shapes) == {"linear", "hinge", "max"}
    assert file.observations is not None
    assert [one.seconds for one in file.observations] == [row["seconds_median"] for row in rows]
    cost = get_cost(str(tmp_path / "cost.json")).make()
    for row, one in zip(rows, file.observations, strict=True):
        assert cost.duration(one.features) == pytest.approx(1e9 * row["predicted"], rel=1e-4, abs=2)
    assert "error, % of measured" in (tmp_path / "fit.svg").read_text()


@pytest.mark.parametrize(("batches", "kept"), [(0, False), (15, True)])
def test_ctrl_c_keeps_what_was_timed_if_a_fit_can_be_made(monkeypatch, tmp_path, batches, kept):
    timed = count()

    def time_batch(self, work, out, back, runs, block):
        if next(timed) == 2 + batches:  # two come before, untimed
            raise KeyboardInterrupt
        return [1e-3 + 1e-6 * (out + back + sum(tokens for tokens, _ in work))] * runs

    monkeypatch.setattr(Engine, "time_batch", time_batch)
    kvbound("calibrate", "--device", "cpu", "--quick", "--memory", 4100, "--out", tmp_path / "cost.json", code=130)
    assert (tmp_path / "cost.json").exists() == kept
    if kept:
        assert len(read_cost(tmp_path / "cost.json").observations) == batches


@pytest.mark.parametrize(("arguments", "code", "message"), [
    ((), 4, "torch sees no GPU here"),
    (("--device", "cpu", "--memory", "64"), 2, "--memory 64: only 6 batches of the grid fit; at least 20"),
    (("--device", "cpu", "--tick", "0"), 2, "--tick 0: write a number above 0"),
    (("--device", "cpu", "--model", "gpt-j-6b"), 2, "gpt-j-6b has no gate"),
    (("--device", "cpu", "--backend", "triton"), 2, "in the interpreter: set TRITON_INTERPRET=1"),
    (("--device", "cpu", "--out", "nowhere/c.json"), 2, "there is no folder"),
])  # fmt: skip
def test_what_cannot_be_calibrated_is_one_line(arguments, code, message, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert message in one_line("calibrate", *arguments, code=code)
