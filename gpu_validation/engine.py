"""The engine: follows a plan batch by batch on the device, and times each batch and transfer.

    engine = Engine(model, backend, dtype=torch.bfloat16, seed=0)
    run = engine.run(make_plan(instance, schedule))
    run.batch_seconds, run.wall_seconds, run.tokens

It waits for no arrival and no call.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from costmodels.models import Model
from gpu_validation.allocator import Piece
from gpu_validation.backend import TorchBackend
from gpu_validation.cache import Cache
from gpu_validation.cuda_graphs import BatchGraph, Stages
from gpu_validation.devices import check_device_memory, check_host_memory
from gpu_validation.measure import DeviceClock, Mark, cuda
from gpu_validation.model import Decoder, Inputs, parameters
from gpu_validation.plan import BatchPlan, EnginePlan, synthetic_plan
from gpu_validation.swap import Swapper

PARTS = 4  # groups of layers of a batch that reads what it swaps in: the KV of one comes while others work
KEPT = 16  # plans kept on the device
WARM_UP = {"cuda": 3, "cpu": 1}  # runs of a batch before it is timed, by the type of the device


@dataclass
class Swapped:
    """A token that was swapped in: its checksums before it went out and after it came back."""

    request: str
    position: int
    before: int
    after: int


@dataclass
class ReplayResult:
    """The results of a replay."""

    batch_seconds: list[float]  # of the device, with the transfers of the batch
    wall_seconds: float  # from before the first batch was started to when all was done, by the host's clock
    launch_seconds: list[float]  # by the host's clock, to start each batch, which bounds shorter ones
    graph_batches: int  # batches that ran as a captured graph
    tokens: dict[str, list[int]]  # the context of each request, returned tokens too; -1: none was written
    logits: dict[tuple[str, int], Tensor] = field(default_factory=dict)  # with keep_logits, on the host
    swapped: list[Swapped] = field(default_factory=list)  # with check: what was swapped, token by token


@dataclass
class _Step:
    batch: BatchPlan
    places: Tensor  # int64 [rows], where the tokens stand in the history; `targets` where those go that it generates
    inputs: Inputs
    targets: Tensor
    parts: int = 1  # groups of layers, each waits for its KV; more than one where the batch reads what it swaps in
    graph: BatchGraph | None = None


class _Loaded(NamedTuple):
    plan: EnginePlan
    known: Tensor
    steps: list[_Step]


class Engine:
    """A model on a device with its caches, which grow with the plans. BadInput if it does not fit."""

    def __init__(
        self, model: Model, backend: TorchBackend, *, dtype: torch.dtype = torch.bfloat16, seed: int = 0
    ) -> None:
        model.check_plain()
        self.model, self.backend, self.dtype, self.seed = model, backend, dtype, seed
        self.device = backend.device
        check_device_memory(self.device, parameters(model) * dtype.itemsize, f"the weights of {model.name}")
        backend.prepare(model.heads, model.kv_heads, model.head_width, dtype)
        self.decoder = Decoder(model, backend, dtype, seed)
        self.clock = DeviceClock(self.device)
        on_gpu = self.device.type == "cuda"
        self.captures = on_gpu and backend.captures  # whether batches run as graphs
        self.cache = Cache(model, 0, 0, 1, dtype, self.device)
        self._history = torch.zeros(1, dtype=torch.int64, device=self.device)
        self._loaded: dict[tuple[int, bool, bool, bool], _Loaded] = {}
        self._random = False  # whether the pools hold random numbers, as `time_batch` needs them
        self._streams = (cuda.Stream(self.device), cuda.Stream(self.device)) if on_gpu else None
        self._last: BatchGraph | None = None

    def block_bytes(self, block: int) -> int:
        """Return the bytes of a block of this many tokens over all layers."""
        return self.model.kv_bytes(self.dtype.itemsize) * block

    def reserve(self, plans: Iterable[EnginePlan]) -> None:
        """Make room for all plans: the pools, the history, the angles.

        BadInput if device or host has too little memory, with the bytes needed and free.
        """
        plans = list(plans)
        for block in sorted({plan.block for plan in plans}):
            same = [plan for plan in plans if plan.block == block]
            self._reserve_pools(block, max(p.blocks for p in same), max(p.host_blocks for p in same))
        places = max(1 + len(plan.ids) * plan.width for plan in plans)
        if places > len(self._history):
            self._forget()
            self._history = torch.zeros(places, dtype=torch.int64, device=self.device)
        if max(plan.width for plan in plans) > len(self.decoder.angles):
            self._forget()
            self.decoder.reach(max(plan.width for plan in plans))

    def _reserve_pools(self, block: int, blocks: int, host_blocks: int) -> None:
        pool, host = self.cache.pool, self.cache.host
        if block == self.cache.block:
            if blocks <= len(pool) and host_blocks <= len(host):
                return
            blocks, host_blocks = max(blocks, len(pool)), max(host_blocks, len(host))
        del pool, host
        self._forget()
        self.cache = Cache(self.model, 0, 0, block, self.dtype, self.device)  # the old pools go before new ones come
        size = self.block_bytes(block)
        what = f"blocks of {block} tokens ({size} bytes each)"
        check_device_memory(self.device, blocks * size, f"{blocks} KV {what}")
        check_host_memory(host_blocks * size, f"{host_blocks} swapped {what}", pinned=self.device.type == "cuda")
        self.cache = Cache(self.model, blocks, host_blocks, block, self.dtype, self.device)
        self._random = False

    def _forget(self) -> None:
        self._loaded.clear()
        self._last = None

    # --- a replay ------------------------------------------------------------------------------------------------

    def run(
        self, plan: EnginePlan, *, keep_logits: bool = False, teacher: Tensor | None = None, poison: bool = False,
        check: bool = False,
    ) -> ReplayResult:  # fmt: skip
        """Replay a plan.

        Args:
            plan: from `make_plan`.
            keep_logits: keep those of every generated token.
            teacher: int64 [1 + requests * width], a history to be forced (`EnginePlan.history`); it stays as it is.
            poison: make free blocks NaN, at first and whenever blocks are freed (slow, synchronous).
            check: compare the checksums of what is swapped (slow, synchronous).
        """
        self.reserve([plan])
        replay = _Replay(self, plan, keep_logits, poison, check)
        loaded = self._load(plan, teacher is None, keep_logits)
        known = loaded.known if teacher is None else teacher
        self._history[: len(known)].copy_(known)
        self._random = False
        if poison:
            self.cache.poison_all()
        self.clock.synchronize()
        marks, moments = [], [time.perf_counter()]
        for step in loaded.steps:
            marks.append(replay.step(step))
            moments.append(time.perf_counter())
        self.clock.synchronize()
        wall, launches = time.perf_counter() - moments[0], [end - begin for begin, end in pairwise(moments)]
        seconds = [self.clock.seconds(*both) for both in marks]
        graph_batches = sum(step.graph is not None for step in loaded.steps)
        tokens, logits = self._tokens(plan), replay.named_logits()
        return ReplayResult(seconds, wall, launches, graph_batches, tokens, logits, replay.swapped)

    def time_batch(
        self, work: Sequence[tuple[int, int]], swap_out_tokens: int = 0, swap_in_tokens: int = 0, repeats: int = 7, *,
        block: int = 16,
    ) -> list[float]:  # fmt: skip
        """Return the seconds of `repeats` runs of a batch, with its transfers, after `WARM_UP` others.

        Each request of `work` = [(c, m), ..] processes c tokens on top of m random ones. One more request is swapped
        out, and one in.
        """
        plan = synthetic_plan(work, block, swap_out_tokens, swap_in_tokens)
        self.reserve([plan])
        if not self._random:
            self.cache.randomize(self.seed)
            self._random = True
        known = torch.from_numpy(plan.history(self.model.vocabulary, self.seed))
        self._history[: len(known)].copy_(known)
        [step] = self._upload(plan, True, False)
        replay = _Replay(self, plan)
        self.clock.synchronize()
        warm_up = WARM_UP[self.device.type]
        marks = [replay.step(step) for _ in range(warm_up + repeats)]
        self.clock.synchronize()
        return [self.clock.seconds(*both) for both in marks[warm_up:]]

    # --- before the clock starts ---------------------------------------------------------------------------------

    def _load(self, plan: EnginePlan, writes: bool, keeps: bool) -> _Loaded:
        key = (id(plan), writes, keeps and self.captures, self.captures)
        if key not in self._loaded:
            known = torch.from_numpy(plan.history(self.model.vocabulary, self.seed)).to(self.device)
            if len(self._loaded) == KEPT:
                del self._loaded[next(iter(self._loaded))]
            self._loaded[key] = _Loaded(plan, known, self._upload(plan, writes, keeps))
        return self._loaded[key]

    def _upload(self, plan: EnginePlan, writes: bool, keeps: bool) -> list[_Step]:
        steps = []
        for batch in plan.batches:
            places, sampled = batch.places(plan.width), batch.sampled()
            targets = places[sampled] + 1 if writes else 0 * sampled
            lengths = [work.resident + work.tokens for work in batch.work]
            layout = self.backend.layout(batch.starts(), lengths, [work.table for work in batch.work])
            rows = (places, batch.positions(), batch.slots(plan.block), sampled, targets)
            put = [torch.from_numpy(row).to(self.device) for row in rows]
            parts = min(PARTS, self.model.layers) if batch.work_after_back and self._streams is not None else 1
            steps.append(_Step(batch, put[0], Inputs(put[0], put[1], put[2], put[3], layout), put[4], parts))
            if self.captures and batch.work:
                self._last = steps[-1].graph = BatchGraph(partial(self.forward, steps[-1]), self._last, keeps, parts)
        return steps

    # --- while the clock runs ------------------------------------------------------------------------------------

    def forward(self, step: _Step) -> Stages:
        """Run the rows kernel by kernel, and return the logits; generated tokens stay on the device."""
        step.inputs.tokens = self._history[step.places]
        for logits in self.decoder.forward(step.inputs, self.cache, step.parts):
            if logits is not None:
                self._history[step.targets] = logits.argmax(-1)
            yield logits

    def _tokens(self, plan: EnginePlan) -> dict[str, list[int]]:
        history = self._history[1 : 1 + len(plan.ids) * plan.width].reshape(-1, plan.width).tolist()
        ends = [max(last for _, last in ranges) for ranges in plan.given]
        if plan.trace is not None:
            ends = [request.peak + 1 for request in plan.trace.instance.requests]
        return {id: row[:end] for id, row, end in zip(plan.ids, history, ends, strict=True)}


class _Replay:
    def __init__(
        self, engine: Engine, plan: EnginePlan, keep_logits: bool = False, poison: bool = False, check: bool = False
    ) -> None:
        self.engine, self.plan, self.cache = engine, plan, engine.cache
        self.keep_logits, self.poison, self.check = keep_logits, poison, check
        self.swapper = Swapper(engine.cache, engine.clock, engine._streams)
        self.swapped: list[Swapped] = []
        self._sums: dict[tuple[int, int], int] = {}  # (request, position): checksum when it went out
        self._logits: list[tuple[BatchPlan, Tensor]] = []

    def step(self, step: _Step) -> tuple[Mark, Mark]:
        """Make the moves in the order of `docs/semantics.md`, start the work, return its marks in time."""
        start = self.engine.clock.mark()
        self._move(step.batch, step.parts)
        self.swapper.wait(out=step.batch.work_after_out, back=step.batch.work_after_back and step.parts == 1)
        stages = step.graph.replay() if step.graph is not None else self.engine.forward(step)
        for part in range(step.parts) if step.batch.work else ():
            if step.parts > 1:
                self.swapper.wait_for_part(part)
            logits = next(stages)
            if self.keep_logits and logits is not None:
                self._logits.append((step.batch, logits))
        self.swapper.end_batch()
        return start, self.engine.clock.mark()

    def _move(self, batch: BatchPlan, parts: int = 1) -> None:
        checked = self.poison or self.check
        if checked:
            self.engine.clock.synchronize()
        if self.poison:
            self.cache.host[batch.freed_host] = float("nan")
        if batch.out:
            if checked:
                self._sums |= zip(self._tokens_of(batch.out), self.cache.checksums(batch.out), strict=True)
            self.swapper.start(batch.out, True)
        if checked:
            self.engine.clock.synchronize()
        if self.poison:
            self.cache.pool[batch.freed] = float("nan")
        if batch.back:
            self.swapper.start(batch.back, False, batch.back_after_out, parts)
            if checked:
                self.engine.clock.synchronize()
                self._compare(batch.back)
        for block, offset in batch.tails if self.poison else ():
            self.cache.pool[block, ..., offset:, :] = float("nan")

    def _compare(self, pieces: list[Piece]) -> None:
        for (request, position), after in zip(self._tokens_of(pieces), self.cache.checksums(pieces), strict=True):
            before = self._sums[request, position]
            self.swapped.append(Swapped(self.plan.ids[request], position, before, after))

    def _tokens_of(self, pieces: list[Piece]) -> list[tuple[int, int]]:
        block = self.plan.block
        return [(p.request, p.index * block + offset) for p in pieces for offset in range(p.first, p.last)]

    def named_logits(self) -> dict[tuple[str, int], Tensor]:
        return {
            (self.plan.ids[work.request], work.resident + work.tokens): row
            for batch, logits in self._logits
            for work, row in zip([work for work in batch.work if work.samples], logits.cpu(), strict=True)
        }
