"""The engine: follows a plan batch by batch on the device, and says how long each batch and each transfer took.

    engine = Engine(model, backend, dtype=torch.bfloat16, seed=0)
    run = engine.run(make_plan(instance, schedule))
    run.batch_seconds, run.wall_seconds, run.tokens

Arrivals and calls are clocks that are not waited for: the order of the batches already respects them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

from costmodels.models import Model
from gpu_validation.allocator import Piece
from gpu_validation.backend import Backend, TorchBackend
from gpu_validation.cache import Cache
from gpu_validation.clock import DeviceClock, Mark, new_stream
from gpu_validation.devices import check_device_memory, check_host_memory
from gpu_validation.graphs import DecodeGraph, padded_size
from gpu_validation.model import Decoder, Inputs, parameters
from gpu_validation.movers import movers
from gpu_validation.plan import BatchPlan, Plan, synthetic_plan
from gpu_validation.sampling import check_sampler, choose
from gpu_validation.swap import Swapper, pick_mover
from kvcore.errors import BadInput

KEPT = 16
"""Plans kept on the device."""

Transfers = Literal["overlapped", "sync", "pipelined"]
"""How the transfers of a batch stand to its work: see `Engine.run`."""


@dataclass
class ReplayResult:
    """What a replay gave. Seconds are of the device: of every batch, and of every transfer out and in."""

    batch_seconds: list[float]
    out_seconds: list[float]
    in_seconds: list[float]
    wall_seconds: float
    """From before the first batch was started to when all was done, by the host's clock."""
    graph_batches: int
    """Batches that ran as a captured graph."""
    tokens: dict[str, list[int]]
    """The whole context of each request: prompt, generated and returned tokens; -1 where none was written."""
    logits: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """With keep_logits: those that the token of (request, position) was chosen by, on the host."""
    swapped: list[Swapped] = field(default_factory=list)
    """With check: what was swapped, token by token."""


@dataclass
class Swapped:
    """A token that was swapped in: the checksums of its KV before it went out and after it came back."""

    request: str
    position: int
    before: int
    after: int


@dataclass
class _DeviceBatch:
    """A batch on the device: what it reads, and the graph that runs it, if one does."""

    batch: BatchPlan
    places: Tensor
    inputs: Inputs
    targets: Tensor
    graph: DecodeGraph | None = None
    packed: Tensor | None = None


@dataclass
class _Loaded:
    """A plan on the device, kept for the next replays of it."""

    plan: Plan
    known: Tensor
    """The history at the start, on the device."""
    steps: list[_DeviceBatch]


@dataclass
class _Options:
    transfers: Transfers
    keep_logits: bool
    sampler: str
    writes: bool
    poison: bool
    check: bool

    def __post_init__(self) -> None:
        check_sampler(self.sampler)
        if self.transfers not in get_args(Transfers):
            raise BadInput(f"no transfers {self.transfers!r}; choose one of {', '.join(get_args(Transfers))}")


class Engine:
    """A model on a device with its caches, which grow to what the plans need.

    `mover` copies blocks: "runs", "staging", "batch" (a GPU with CUDA 13) or "auto" (measured at the first plan that
    swaps). BadInput for a model that does not fit on the device, or a mover that is not there.
    """

    def __init__(
        self, model: Model, backend: Backend, *, dtype: torch.dtype = torch.bfloat16, seed: int = 0, mover: str = "auto"
    ) -> None:
        if not model.gated:
            raise BadInput(f"{model.name} has no gate in its feed-forward part, and the engine's decoder has one")
        self.model, self.backend, self.dtype, self.seed = model, backend, dtype, seed
        self.device = backend.device
        if mover not in ("auto", *movers(self.device)):
            raise BadInput(f"no mover {mover!r} here; choose auto or one of {', '.join(movers(self.device))}")
        check_device_memory(self.device, parameters(model) * dtype.itemsize, f"the weights of {model.name}")
        prepare = getattr(backend, "prepare", None)
        if prepare is not None:
            prepare(model.heads, model.kv_heads, model.head_width, dtype)
        self.decoder = Decoder(model, backend, dtype, seed)
        self.clock = DeviceClock(self.device)
        self.mover = mover
        self.mover_seconds: dict[str, float] = {}
        self.pads_decodes = self.device.type == "cuda" and not isinstance(backend, TorchBackend)
        """Whether batches of decodes run as graphs; plain torch attention synchronizes, and cannot be captured."""
        self.cache = Cache(model, 0, 0, 1, dtype, self.device)
        self._history = torch.zeros(1, dtype=torch.int64, device=self.device)
        self._graphs: dict[tuple[int, str, str], DecodeGraph] = {}  # by size, variant of the kernel and sampler
        self._longest: dict[tuple[int, str, str], int] = {}
        self._loaded: dict[tuple[int, bool, bool, str], _Loaded] = {}
        self._random = False  # whether the pools hold random numbers, as `time_batch` needs them
        on_gpu = self.device.type == "cuda"
        self._streams = (new_stream(self.device), new_stream(self.device)) if on_gpu else None

    def block_bytes(self, block: int) -> int:
        """Return the bytes of a block of so many tokens over all layers."""
        return self.model.kv_bytes(self.dtype.itemsize) * block

    # --- room ----------------------------------------------------------------------------------------------------

    def reserve(self, plans: Iterable[Plan]) -> None:
        """Make room for all of the plans at once: the pools, the history, the angles.

        BadInput if the device or the host has too little memory, with what it takes and what there is.
        """
        plans = list(plans)
        for block in sorted({plan.block for plan in plans}):
            same = [plan for plan in plans if plan.block == block]
            self._reserve_pools(block, max(p.blocks for p in same), max(p.host_blocks for p in same))
        self._reserve_history(max(1 + len(plan.ids) * plan.width for plan in plans))
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
        if host_blocks and self.mover == "auto":
            mover, self.mover_seconds = pick_mover(self.cache)
            self.mover = mover if self.mover_seconds else "auto"

    def _reserve_history(self, places: int) -> None:
        if places > len(self._history):
            self._forget()
            self._history = torch.zeros(places, dtype=torch.int64, device=self.device)

    def _forget(self) -> None:
        """Give up graphs and plans on the device: what they point to is about to move."""
        self._graphs.clear()
        self._loaded.clear()

    # --- a replay ------------------------------------------------------------------------------------------------

    def run(
        self,
        plan: Plan,
        *,
        graphs: bool = True,
        transfers: Transfers = "overlapped",
        keep_logits: bool = False,
        sampler: str = "greedy",
        teacher: Tensor | None = None,
        poison: bool = False,
        check: bool = False,
    ) -> ReplayResult:
        """Replay a plan.

        Args:
            plan: from `make_plan`.
            graphs: run batches of decodes as captured graphs, where the device and the backend can.
            transfers: "overlapped": beside the work that does not read them, and the batch ends when both are done;
                "sync": before the work; "pipelined": they may go on beside the batches after their own.
            keep_logits: keep those of every generated token.
            sampler: "greedy", or "gumbel" (seeded, keyed by request and position).
            teacher: int64 [1 + requests * width], the history to be forced (`Plan.history`'s places); nothing sampled
                is written then.
            poison: make free blocks NaN, before the run and whenever blocks are freed (slow, synchronous).
            check: compare the checksums of what is swapped (slow, synchronous).
        """
        self.reserve([plan])
        options = _Options(transfers, keep_logits, sampler, teacher is None, poison, check)
        loaded = self._load(plan, options, graphs and self.pads_decodes)
        known = loaded.known if teacher is None else teacher
        self._history[: len(known)].copy_(known)
        self._random = False
        if poison:
            self.cache.poison_all()
        return self._execute(plan, loaded.steps, options)

    def time_batch(
        self,
        work: Sequence[tuple[int, int]],
        swap_out_tokens: int = 0,
        swap_in_tokens: int = 0,
        repeats: int = 7,
        *,
        block: int = 16,
        transfers: Transfers = "overlapped",
        graphs: bool = True,
    ) -> list[float]:
        """Return the seconds of `repeats` runs of one batch, after 3 to warm up: until its transfers, too, are done.

        Each request of `work` = [(c, m), ..] processes c tokens on top of m; its KV is random. Tokens are swapped out
        of one more request, and into another.
        """
        plan = synthetic_plan(work, block, swap_out_tokens, swap_in_tokens)
        self.reserve([plan])
        if not self._random:
            self.cache.randomize(self.seed)
            self._random = True
        plan.batches = plan.batches * (3 + repeats)
        return self._timed_repeats(plan, graphs, transfers)[3:]

    def _timed_repeats(self, plan: Plan, graphs: bool, transfers: Transfers) -> list[float]:
        """Run the one batch of a plan as often as it is there, each run waiting for the transfers of the one before."""
        known = torch.from_numpy(plan.history(self.model.vocabulary, self.seed))
        self._history[: len(known)].copy_(known)
        options = _Options(transfers, False, "greedy", True, False, False)
        [step] = self._upload(Plan(**{**vars(plan), "batches": plan.batches[:1]}), options)
        if graphs and self.pads_decodes:
            self._use_graphs([step], "greedy")
        replay = _Replay(self, plan, options)
        self.clock.synchronize()
        marks: list[tuple[Mark, Mark]] = []
        for _ in plan.batches:
            start = self.clock.mark()
            replay.step(step)
            replay.swapper.wait_for_all()  # the work of the next run waits, and its transfers behind it
            marks.append((start, self.clock.mark()))
        self.clock.synchronize()
        return [self.clock.seconds(start, end) for start, end in marks]

    # --- before the clock starts ---------------------------------------------------------------------------------

    def _load(self, plan: Plan, options: _Options, graphs: bool) -> _Loaded:
        """Return the plan on the device; the last ones are kept."""
        key = (id(plan), options.writes, graphs, options.sampler)
        if key not in self._loaded:
            known = torch.from_numpy(plan.history(self.model.vocabulary, self.seed)).to(self.device)
            steps = self._upload(plan, options)
            if graphs:
                self._use_graphs(steps, options.sampler)
            if len(self._loaded) == KEPT:
                del self._loaded[next(iter(self._loaded))]
            self._loaded[key] = _Loaded(plan, known, steps)
        return self._loaded[key]

    def _upload(self, plan: Plan, options: _Options) -> list[_DeviceBatch]:
        """Put everything that the batches read on the device: all rows in one buffer, and the layouts."""
        columns: list[Tensor] = []
        for batch in plan.batches:
            places, sampled = batch.places(plan.width), batch.sampled()
            targets = places[sampled] + 1 if options.writes else 0 * sampled
            parts = (places, batch.positions(), batch.slots(plan.block), sampled, targets)
            columns += [torch.from_numpy(part) for part in parts]
        views = iter(_uploaded(columns, self.device))
        return [self._step(batch, *(next(views) for _ in range(5))) for batch in plan.batches]

    def _step(
        self, batch: BatchPlan, places: Tensor, positions: Tensor, slots: Tensor, sampled: Tensor, targets: Tensor
    ) -> _DeviceBatch:
        lengths = [work.resident + work.tokens for work in batch.work]
        layout = self.backend.layout(batch.starts(), lengths, [work.table for work in batch.work])
        return _DeviceBatch(batch, places, Inputs(places, positions, slots, sampled, layout), targets)

    def _use_graphs(self, steps: list[_DeviceBatch], sampler: str) -> None:
        """Give every batch of decodes its graph, captured where there is none yet; the largest first."""
        groups: dict[tuple[int, str, str], list[_DeviceBatch]] = {}
        for step in steps:
            size = padded_size(len(step.batch.work))
            if step.batch.decodes and size is not None:
                groups.setdefault((size, step.inputs.layout.variant, sampler), []).append(step)
        for key in sorted(groups, reverse=True):
            longest = max(groups[key], key=lambda step: _longest(step.batch))
            if key not in self._graphs or self._longest[key] < _longest(longest.batch):
                self._capture(key, longest)
            for step in groups[key]:
                step.graph = graph = self._graphs[key]
                step.packed = graph.packed(
                    step.places, step.inputs.positions, step.inputs.slots, step.targets, step.inputs.layout
                )

    def _capture(self, key: tuple[int, str, str], step: _DeviceBatch) -> None:
        """Capture a graph whose layout takes the contexts of this batch, and all shorter ones."""
        pool = next((graph.pool for graph in self._graphs.values()), None)
        width = step.inputs.layout.tables.shape[1]
        self._graphs[key] = DecodeGraph(
            self.decoder,
            self.cache,
            self._history,
            key[0],
            width,
            step.inputs.layout,
            key[2],
            self.seed,
            self.device.type == "cuda",
            pool,
        )
        self._longest[key] = _longest(step.batch)

    # --- while the clock runs ------------------------------------------------------------------------------------

    def _execute(self, plan: Plan, steps: list[_DeviceBatch], options: _Options) -> ReplayResult:
        replay = _Replay(self, plan, options)
        self.clock.synchronize()
        host = DeviceClock(torch.device("cpu"))
        begin, marks = host.mark(), list[tuple[Mark, Mark]]()
        for step in steps:
            start = self.clock.mark()
            replay.step(step)
            marks.append((start, self.clock.mark()))
        replay.swapper.wait_for_all()
        self.clock.synchronize()
        wall = host.seconds(begin, host.mark())
        out, back = replay.swapper.seconds()
        seconds = [self.clock.seconds(start, end) for start, end in marks]
        graphs = sum(step.graph is not None for step in steps)
        return ReplayResult(seconds, out, back, wall, graphs, self._tokens(plan), replay.named_logits(), replay.swapped)

    def _tokens(self, plan: Plan) -> dict[str, list[int]]:
        history = self._history[1 : 1 + len(plan.ids) * plan.width].reshape(-1, plan.width).tolist()
        ends = [max(last for _, last in ranges) for ranges in plan.given]
        if plan.trace is not None:
            ends = [request.peak + 1 for request in plan.trace.instance.requests]
        return {id: row[:end] for id, row, end in zip(plan.ids, history, ends, strict=True)}


class _Replay:
    """One replay under way: makes the moves of each batch, and runs its work."""

    def __init__(self, engine: Engine, plan: Plan, options: _Options) -> None:
        self.engine, self.plan, self.options = engine, plan, options
        self.cache = engine.cache
        mover = movers(engine.device)["runs" if engine.mover == "auto" else engine.mover]
        self.swapper = Swapper(engine.cache, mover, engine.clock, engine._streams)
        self.swapped: list[Swapped] = []
        self._sums: dict[tuple[int, int], int] = {}  # (request, position): checksum when it went out
        self._logits: list[tuple[BatchPlan, Tensor]] = []

    def step(self, step: _DeviceBatch) -> None:
        """Make the moves of a batch, in the order of `docs/semantics.md`, and start its work."""
        self._move(step.batch)
        if self.options.transfers == "sync":
            self.swapper.wait_for_all()
        else:
            self.swapper.wait(step.batch.after_out, step.batch.after_in)
        if step.batch.work:
            logits = self._work(step)
            if self.options.keep_logits:
                self._logits.append((step.batch, logits))
        if self.options.transfers == "overlapped":
            self.swapper.wait_for_all()

    def _move(self, batch: BatchPlan) -> None:
        if self.options.poison or self.options.check:
            self._move_checked(batch)
            return
        if batch.out is not None:
            self.swapper.out(batch.out)
        if batch.back is not None:
            self.swapper.back(batch.back)

    def _move_checked(self, batch: BatchPlan) -> None:
        """Make the moves one after another, poison what was freed, and compare what comes back with what went."""
        self.engine.clock.synchronize()
        if self.options.poison:
            self.cache.poison_host(batch.freed_host)
        if batch.out is not None:
            self._note(batch.out.pieces)
            self.swapper.out(batch.out)
            self.engine.clock.synchronize()
        if self.options.poison:
            self.cache.poison(batch.freed)
        if batch.back is not None:
            self.swapper.back(batch.back)
            self.engine.clock.synchronize()
            self._compare(batch.back.pieces)
        if self.options.poison:
            self.cache.poison_tails(batch.tails)

    def _note(self, pieces: list[Piece]) -> None:
        self._sums |= zip(self._tokens_of(pieces), self.cache.checksums(pieces, "device"), strict=True)

    def _compare(self, pieces: list[Piece]) -> None:
        for (request, position), after in zip(
            self._tokens_of(pieces), self.cache.checksums(pieces, "device"), strict=True
        ):
            before = self._sums[request, position]
            self.swapped.append(Swapped(self.plan.ids[request], position, before, after))

    def _tokens_of(self, pieces: list[Piece]) -> list[tuple[int, int]]:
        """Return (request, position) of every token of the pieces."""
        block = self.plan.block
        return [(p.request, p.index * block + offset) for p in pieces for offset in range(p.first, p.last)]

    def _work(self, step: _DeviceBatch) -> Tensor:
        """Run the rows of a batch; the tokens that it generates stay on the device."""
        engine, history = self.engine, self.engine._history
        if step.graph is not None and step.packed is not None:
            step.graph.fill(step.packed)
            logits = step.graph.replay()[: len(step.places)]
            return logits.clone() if self.options.keep_logits else logits
        step.inputs.tokens = history[step.places]
        logits = engine.decoder.forward(step.inputs, self.cache)
        if self.options.writes and len(step.targets):
            history[step.targets] = choose(logits, step.targets, self.options.sampler, engine.seed)
        return logits

    def named_logits(self) -> dict[tuple[str, int], Tensor]:
        """Return the logits that were kept by request and position of the token chosen by them."""
        return {
            (self.plan.ids[work.request], work.resident + work.tokens): row
            for batch, logits in self._logits
            for work, row in zip([work for work in batch.work if work.samples], logits.cpu(), strict=True)
        }


def _uploaded(columns: list[Tensor], device: torch.device) -> list[Tensor]:
    """Copy int64 columns in one buffer; each starts at 16 bytes, so that the kernels are compiled for that alone."""
    rooms = [len(column) + len(column) % 2 for column in columns]
    buffer = torch.cat([functional.pad(column, (0, len(column) % 2)) for column in columns]).to(device)
    return [view[: len(column)] for view, column in zip(torch.split(buffer, rooms), columns, strict=True)]


def _longest(batch: BatchPlan) -> int:
    """Return the longest context that a batch attends to."""
    return max(work.resident + work.tokens for work in batch.work)
