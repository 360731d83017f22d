"""What the engine asks of CUDA, recorded by stand-ins on the CPU: which stream waits for what, and what is captured."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import gpu_validation.graphs
from costmodels.models import TINY
from gpu_validation import swap
from gpu_validation.allocator import Piece
from gpu_validation.backend import TorchBackend
from gpu_validation.cache import Cache
from gpu_validation.engine import Engine
from tests.gpu_validation.test_engine import workload_plan
from tests.gpu_validation.test_plan import in_and_out_again


class Streams:
    """Streams and events that only write down what is done on which stream."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[tuple[str, str]] = []
        self.work, self.out, self.back = (Stream(self, name) for name in ("work", "out", "in"))
        self.current = self.work
        monkeypatch.setattr(torch.cuda, "current_stream", lambda *device: self.current)
        monkeypatch.setattr(torch.cuda, "stream", self.on)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: Event(self))

    @contextmanager
    def on(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before

    def note(self, what: str) -> None:
        self.log.append((self.current.name, what))


class Stream:
    def __init__(self, streams: Streams, name: str) -> None:
        self.streams, self.name = streams, name

    def wait_stream(self, other: Stream) -> None:
        self.streams.log.append((self.name, f"waits for all on {other.name}"))

    def wait_event(self, event: Event) -> None:
        self.streams.log.append((self.name, f"waits for {event.name}"))


class Event:
    """An event is named after the stream and the copies made on it so far."""

    name = ""

    def __init__(self, streams: Streams) -> None:
        self.streams = streams

    def record(self) -> None:
        stream = self.streams.current.name
        copies = sum(entry == (stream, "copies") for entry in self.streams.log)
        self.name = f"{stream} {copies - 1}"

    def elapsed_time(self, other: Event) -> float:
        return 2.0


def recorded(monkeypatch: pytest.MonkeyPatch) -> tuple[Engine, Streams]:
    engine, streams = Engine(TINY, TorchBackend(), dtype=torch.float64), Streams(monkeypatch)
    engine.clock.on_gpu, engine._streams = True, (streams.out, streams.back)

    def mover(cache: Any, pieces: Any, out: bool, layers: slice) -> None:
        streams.note("copies")
        swap.by_run(cache, pieces, out, layers)

    monkeypatch.setattr("gpu_validation.engine.movers", lambda device: {"runs": mover})
    forward = engine.decoder.forward

    def noted(*arguments: Any) -> Iterator[Any]:
        for part in forward(*arguments):
            streams.note("works")
            yield part

    monkeypatch.setattr(engine.decoder, "forward", noted)
    return engine, streams


def test_transfers_and_work_wait_as_the_plan_says(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, streams = recorded(monkeypatch)
    run = engine.run(in_and_out_again(), pipelined=True)
    assert streams.log == [
        ("work", "works"),
        ("out", "waits for all on work"), ("out", "copies"), ("work", "waits for out 0"), ("work", "works"),
        ("in", "waits for all on work"), ("in", "waits for out 0"), ("in", "copies"), ("work", "works"),
        ("out", "waits for all on work"), ("out", "waits for out 0"), ("out", "waits for in 0"), ("out", "copies"),
        ("in", "waits for all on work"), ("in", "waits for out 1"), ("in", "waits for in 0"), ("in", "copies"),
        ("in", "copies"),  # half of the layers each, as this batch reads what comes in
        ("work", "waits for out 1"), ("work", "waits for in 1"), ("work", "works"),
        ("work", "waits for in 2"), ("work", "works"),
        ("work", "works"),
        ("work", "waits for out 1"), ("work", "waits for in 2"),
    ]  # fmt: skip
    assert run.out_seconds == run.in_seconds == [0.002, 0.002]
    assert run.batch_seconds == [0.002] * 6


@pytest.mark.parametrize(
    ("pipelined", "after_the_copies"),
    [(False, ["waits for out 0", "works", "waits for out 0"]), (True, ["waits for out 0", "works"])],
)
def test_a_batch_ends_with_its_transfers_only_where_they_are_overlapped(
    pipelined: bool, after_the_copies: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, streams = recorded(monkeypatch)
    engine.run(in_and_out_again(), pipelined=pipelined)
    first, second = streams.log.index(("out", "copies")), streams.log.index(("in", "waits for all on work"))
    assert [what for name, what in streams.log[first:second] if name == "work"] == after_the_copies


def test_the_batch_copy_hands_over_pointers_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []

    def driver(
        target: Any, source: Any, sizes: Any, count: int, attributes: Any, first: Any, n: int, stream: int
    ) -> int:
        assert (n, first._obj.value, attributes._obj.order, stream) == (1, 0, 1, 77)
        assert ctypes.sizeof(attributes._obj) == 24
        for k in range(count):
            ctypes.memmove(target[k], source[k], sizes[k])
        calls.append((count, sum(sizes)))
        return 0

    pieces = [Piece(0, 0, 4, 2, 0, 4, True), Piece(0, 1, 5, 3, 0, 4, True), Piece(0, 2, 2, 0, 1, 3, False)]
    monkeypatch.setattr(swap, "_batch_copy", lambda: driver)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=77))
    for out in (True, False):
        pools = []
        for mover in (swap.by_run, swap.by_batch):
            cache = Cache(TINY, 6, 6, 4, torch.float32, torch.device("cpu"))
            cache.randomize(3)
            mover(cache, pieces, out)
            pools.append((cache.pool, cache.host))
        assert all(torch.equal(a, b) for a, b in zip(*pools, strict=True))
    parts = TINY.layers * 2 * TINY.kv_heads
    assert calls == [(1 + parts, 10 * TINY.kv_bytes(4))] * 2
    monkeypatch.setattr(swap, "_batch_copy", lambda: lambda *arguments: 1)
    with pytest.raises(RuntimeError, match="cuMemcpyBatchAsync failed with CUresult 1 for 9 copies"):
        swap.by_batch(cache, pieces, True)


class Graph:
    """A graph whose replay runs again what was captured, into the logits that the capture left."""

    run: Any = None
    logits: Any = None

    def pool(self) -> str:
        return "the pool"

    def replay(self) -> None:
        *_, logits = self.run()
        if self.logits is not None:
            self.logits.copy_(logits)


def test_a_batch_in_parts_is_a_graph_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    pools, captured = list[Any](), list[str]()

    class Part(Graph):
        def __init__(self) -> None:
            self.number = len(captured)

        def pool(self) -> str:
            return f"of graph {self.number}"

        def replay(self) -> None:
            captured.append(f"replays {self.number}")

    @contextmanager
    def capture(graph: Part, pool: Any) -> Iterator[None]:
        pools.append(pool)
        captured.append("captures")
        yield

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Part)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    logits = torch.ones(2)
    made = gpu_validation.graphs.BatchGraph(lambda: iter([None, None, logits]), None, True, 3)
    assert pools == [None, "of graph 0", "of graph 1"]
    stages = made.replay()
    assert next(stages) is None
    assert captured[3:] == ["replays 0"]
    assert next(stages) is None
    last = next(stages)
    assert captured[3:] == ["replays 0", "replays 1", "replays 2"]
    assert last is not logits
    assert torch.equal(last, logits)


@pytest.mark.parametrize(
    ("symbols", "extra"),
    [(("cuMemcpyBatchAsync_v2", "cuMemcpyBatchAsync"), 0), (("cuMemcpyBatchAsync",), 1), ((), None)],
)
def test_the_driver_s_newest_batch_copy_is_taken(
    symbols: tuple[str, ...], extra: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older one is given a place for the index of the copy that fails, before the stream."""
    asked = list[int]()
    functions = {name: lambda *arguments: asked.append(len(arguments)) or 0 for name in symbols}
    monkeypatch.setattr(swap.ctypes, "CDLL", lambda name: SimpleNamespace(**functions))
    swap._batch_copy.cache_clear()
    found = swap._batch_copy()
    swap._batch_copy.cache_clear()
    assert (found is None) == (extra is None)
    if found is not None:
        assert found(*range(8)) == 0
        assert asked == [8 + extra]


@pytest.mark.parametrize("way", ["recompute", "swap-part"])
def test_every_batch_is_warmed_up_and_captured_once_in_one_pool(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    plan = workload_plan(way)
    expected = Engine(TINY, TorchBackend(), dtype=torch.float64).run(plan, keep_logits=True)
    streams, pools = Streams(monkeypatch), list[Any]()

    @contextmanager
    def capture(graph: Graph, pool: Any) -> Iterator[None]:
        pools.append(pool)
        streams.note("captures")
        yield

    class Recorded(gpu_validation.graphs.BatchGraph):
        def __init__(self, run: Any, *rest: Any) -> None:
            def noted() -> Iterator[Any]:
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
