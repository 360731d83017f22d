"""The CPU as a device: its attention beside the clear twin, its clock, and replays predicted by what was timed."""

import time

import pytest
import torch

from costmodels.fitted import Observation
from costmodels.models import TINY
from gpu_validation.backend import ROWS, CpuBackend, TorchBackend
from gpu_validation.calibration import Point, Timings, fitted
from gpu_validation.engine import Engine
from gpu_validation.measure import DeviceClock
from gpu_validation.plan import make_plan
from gpu_validation.replay import execute
from gpu_validation.scenarios import WAYS, laid_out, workload
from kvcore.referee import verify_schedule
from tests.gpu_validation.paged import TOLERANCE, Batch, error, inputs_of

BATCHES = [
    Batch(((33, 1), (64, 1), (5, 1))),
    Batch(((2 * ROWS + 45, 2 * ROWS + 45), (ROWS, ROWS))),  # whole prompts in several blocks of rows
    Batch(((400, ROWS + 3), (70, 2), (129, 1), (17, 0)), heads=6, kv_heads=2, width=32, block=64),
    Batch(((40, 7), (9, 9)), heads=3, kv_heads=3, block=1),
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch", BATCHES)
def test_attention_is_that_of_the_twin(batch, dtype):
    backend = CpuBackend()
    for seed in (0, 1):  # the second time with the masks of the first
        assert error(backend, inputs_of(batch, dtype, seed)) <= TOLERANCE[dtype]


def test_an_engine_on_it_generates_the_tokens_of_the_twin():
    made = workload(requests=3)
    for way in WAYS:
        plan = make_plan(made, laid_out(made, way, chunk=5))
        runs = [Engine(TINY, b, dtype=torch.float64).run(plan, poison=True) for b in (CpuBackend(), TorchBackend())]
        assert runs[0].tokens == runs[1].tokens


def test_the_clock_does_not_run_while_others_do():
    """Half a second in which this thread has no processor is no time of a batch."""
    clock = DeviceClock(torch.device("cpu"))
    start = clock.mark()
    time.sleep(0.5)
    assert 0 <= clock.seconds(start, clock.mark()) < 0.4


def test_a_token_that_was_never_written_is_no_row_of_the_embedding():
    """-1 would read the last one."""
    made = workload(requests=1)
    engine, plan = Engine(TINY, TorchBackend(), dtype=torch.float64), make_plan(made, laid_out(made))
    unwritten = torch.full((1 + len(plan.ids) * plan.width,), -1)
    with pytest.raises(IndexError):
        engine.run(plan, teacher=unwritten)


def test_what_is_timed_in_turn_predicts(monkeypatch):
    """The grid is gone through once a round, and the prediction is that of the fit to it, not of the cost."""
    made = workload(requests=2)
    trace = verify_schedule(made, laid_out(made, chunk=4))
    engine = Engine(TINY, TorchBackend(), dtype=torch.float32)
    points = [Point("decode", ((1, m),) * n) for n in (1, 2, 3) for m in (4, 16)] + [
        Point("prefill", ((c, 0),)) for c in (2, 4, 8, 16)
    ]
    timings = Timings(engine, points, 1, block=4)
    monkeypatch.setattr(engine, "time_batch", lambda work, *rest, block: [1e-3 * sum(c for c, _ in work)])
    [replayed], _ = execute(engine, {"s": trace}, made.cost, made.tick_seconds, 2, 1, timings)
    assert [len(one.samples) for one in timings.measured()] == [3] * len(points)
    found = fitted([*timings.measured()], "cpu")
    assert [float(p) for p in replayed.predicted] == [found.predict(b.features) for b in trace.batches]
    assert replayed.predicted[0] == pytest.approx(1e-3 * trace.batches[0].features.tokens, rel=1e-6)
    assert timings.measured()[0].observation == Observation(points[0].features, 1e-3, "decode")
