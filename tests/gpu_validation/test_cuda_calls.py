"""What the engine asks of CUDA, recorded by stand-ins on the CPU: which stream waits for what, and what is captured."""

from contextlib import contextmanager
from typing import Any

import pytest
import torch

import gpu_validation.cuda_graphs
from costmodels.models import TINY
from gpu_validation import swap
from gpu_validation.backend import TorchBackend
from gpu_validation.engine import Engine
from tests.gpu_validation.test_engine import workload_plan
from tests.gpu_validation.test_plan import in_and_out_again


class Streams:
    """Streams and events that only write down what is done on which stream."""

    def __init__(self, monkeypatch):
        self.log = []
        self.work, self.out, self.back = (Stream(self, name) for name in ("work", "out", "in"))
        self.current = self.work
        monkeypatch.setattr(torch.cuda, "current_stream", lambda *device: self.current)
        monkeypatch.setattr(torch.cuda, "stream", self.on)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: Event(self))

    @contextmanager
    def on(self, stream):
        before, self.current = self.current, stream
        yield
        self.current = before

    def note(self, what):
        self.log.append((self.current.name, what))


class Stream:
    def __init__(self, streams, name):
        self.streams, self.name = streams, name

    def wait_stream(self, other):
        self.streams.log.append((self.name, f"waits for all on {other.name}"))

    def wait_event(self, event):
        self.streams.log.append((self.name, f"waits for {event.name}"))


class Event:
    """An event is named after the stream and the copies made on it so far."""

    name = ""

    def __init__(self, streams):
        self.streams = streams

    def record(self):
        stream = self.streams.current.name
        copies = sum(entry == (stream, "copies") for entry in self.streams.log)
        self.name = f"{stream} {copies - 1}"

    def elapsed_time(self, other):
        return 2.0


def recorded(monkeypatch):
    engine, streams = Engine(TINY, TorchBackend(), dtype=torch.float64), Streams(monkeypatch)
    engine.clock.on_gpu, engine._streams = True, (streams.out, streams.back)

    move = swap.move

    def noted_move(*arguments):
        streams.note("copies")
        move(*arguments)

    monkeypatch.setattr(swap, "move", noted_move)
    forward = engine.decoder.forward

    def noted(*arguments):
        for part in forward(*arguments):
            streams.note("works")
            yield part

    monkeypatch.setattr(engine.decoder, "forward", noted)
    return engine, streams


def test_transfers_and_work_wait_as_the_plan_says(monkeypatch):
    engine, streams = recorded(monkeypatch)
    run = engine.run(in_and_out_again())
    assert streams.log == [
        ("work", "works"),
        ("out", "waits for all on work"), ("out", "copies"), ("work", "waits for out 0"), ("work", "works"),
        ("work", "waits for out 0"),
        ("in", "waits for all on work"), ("in", "copies"), ("work", "works"), ("work", "waits for in 0"),
        ("out", "waits for all on work"), ("out", "copies"),
        ("in", "waits for all on work"), ("in", "waits for out 1"), ("in", "copies"), ("in", "copies"),
        ("work", "waits for out 1"), ("work", "waits for in 1"), ("work", "works"),  # half of the layers each, as ..
        ("work", "waits for in 2"), ("work", "works"),  # .. this batch reads what comes in
        ("work", "waits for out 1"), ("work", "waits for in 2"),
        ("work", "works"),
    ]  # fmt: skip
    assert run.batch_seconds == [0.002] * 5


class Graph:
    """A graph whose replay runs again what was captured, into the logits that the capture left."""

    run: Any = None
    logits: Any = None

    def pool(self):
        return "the pool"

    def replay(self):
        *_, logits = self.run()
        if self.logits is not None:
            self.logits.copy_(logits)


def test_a_batch_in_parts_is_a_graph_for_each(monkeypatch):
    pools, captured = list[Any](), list[str]()

    class Part(Graph):
        def __init__(self):
            self.number = len(captured)

        def pool(self):
            return f"of graph {self.number}"

        def replay(self):
            captured.append(f"replays {self.number}")

    @contextmanager
    def capture(graph, pool):
        pools.append(pool)
        captured.append("captures")
        yield

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Part)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    logits = torch.ones(2)
    made = gpu_validation.cuda_graphs.BatchGraph(lambda: iter([None, None, logits]), None, True, 3)
    assert pools == [None, "of graph 0", "of graph 1"]
    stages = made.replay()
    assert next(stages) is None
    assert captured[3:] == ["replays 0"]
    assert next(stages) is None
    last = next(stages)
    assert captured[3:] == ["replays 0", "replays 1", "replays 2"]
    assert last is not logits
    assert torch.equal(last, logits)


@pytest.mark.parametrize("way", ["recompute", "swap-part"])
def test_every_batch_is_warmed_up_and_captured_once_in_one_pool(monkeypatch, way):
    plan = workload_plan(way)
    expected = Engine(TINY, TorchBackend(), dtype=torch.float64).run(plan, keep_logits=True)
    streams, pools = Streams(monkeypatch), list[Any]()

    @contextmanager
    def capture(graph, pool):
        pools.append(pool)
        streams.note("captures")
        yield

    class Recorded(gpu_validation.cuda_graphs.BatchGraph):
        def __init__(self, run, *rest):
            def noted():
                streams.note("works")
                yield from run()

            super().__init__(noted, *rest)
            self._graphs[0].run, self._graphs[0].logits = run, self._logits

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    monkeypatch.setattr("gpu_validation.engine.BatchGraph", Recorded)
    engine = Engine(TINY, TorchBackend(), dtype=torch.float64)
    engine.captures = True
    working = sum(bool(planned.work) for planned in plan.batches)
    for keep_logits in (True, False, False):
        run = engine.run(plan, keep_logits=keep_logits)
        assert run.tokens == expected.tokens
        assert run.graph_batches == working
        assert bool(run.logits) == keep_logits
        if keep_logits:
            assert run.logits.keys() == expected.logits.keys()
            assert all(torch.equal(row, expected.logits[key]) for key, row in run.logits.items())
    assert pools == [None] + ["the pool"] * (2 * working - 1)
    assert streams.log == [("work", what) for what in ("works", "captures", "works")] * 2 * working
    engine.captures = False
    assert engine.run(plan).graph_batches == 0
