"""The engine on the CPU: the tokens are those of decoding without a cache, whatever the schedule does."""

import importlib.util
import random
from types import SimpleNamespace

import pytest
import torch

import gpu_validation.engine
import gpu_validation.swap
from costmodels.models import MODELS, TINY
from gpu_validation import devices, swap
from gpu_validation.allocator import Allocator, Piece
from gpu_validation.backend import TorchBackend
from gpu_validation.cache import Cache, layer_groups
from gpu_validation.engine import Engine
from gpu_validation.model import Decoder, parameters
from gpu_validation.plan import BatchPlan, make_plan
from gpu_validation.scenarios import WAYS, laid_out, workload
from kvcore import BadInput, MissingTool
from tests.gpu_validation.lazy import LazySwapper
from tests.gpu_validation.reference import decoded
from tests.gpu_validation.test_plan import in_and_out_again
from tests.support.build import batch, instance, request, schedule
from tests.support.drawer import draw_instance
from tests.support.few import few
from tests.support.mars_schedules import PUBLISHED, mars
from tests.support.random_schedules import random_schedule

torch.set_num_threads(1)


@pytest.fixture
def engine():
    return Engine(TINY, TorchBackend(), dtype=torch.float64)


def workload_plan(way, block=4, **options):
    made = workload(block=block)
    return make_plan(made, laid_out(made, way, **options))


def same_logits(a, b, within=1e-12):
    return a.logits.keys() == b.logits.keys() and all(
        bool((row - b.logits[key]).abs().max() <= within) for key, row in a.logits.items()
    )


# --- the tokens are right ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_schedules_generate_the_tokens_of_the_reference(engine, name):
    plan = make_plan(mars(), PUBLISHED[name].schedule(mars()))
    run = engine.run(plan, poison=True, check=True)
    assert run.tokens == decoded(engine.decoder, plan, engine.seed)
    assert len(run.swapped) == 2
    assert all(token.before == token.after for token in run.swapped)


@pytest.mark.parametrize("block", [1, 2, 16])
def test_the_ways_of_a_workload_generate_the_tokens_of_the_reference(engine, block):
    reference = decoded(engine.decoder, workload_plan("preserve", block), engine.seed)
    assert len({token for tokens in reference.values() for token in tokens}) > 50  # greedy decoding does not cycle
    for way in WAYS:
        run = engine.run(workload_plan(way, block), poison=True, check=True)
        assert run.tokens == reference
        assert (len(run.swapped) > 0) == way.startswith("swap")
    assert engine.run(workload_plan("recompute", block, chunk=5), poison=True).tokens == reference


def test_random_schedules_generate_the_tokens_of_the_reference(engine):
    swapped = 0
    for seed in few(range(100, 400), 20):
        draw = random.Random(seed)
        made = draw_instance(draw)
        plan = make_plan(made, random_schedule(draw, made))
        run = engine.run(plan, poison=True, check=True)
        assert run.tokens == decoded(engine.decoder, plan, engine.seed)
        assert all(token.before == token.after for token in run.swapped)
        swapped += len(run.swapped)
    assert swapped > 0


def test_an_untied_and_a_tied_model_decode(engine):
    tied = Engine(TINY.__class__(**{**vars(TINY), "tied": True}), TorchBackend(), dtype=torch.float64)
    assert tied.decoder.head is tied.decoder.embedding
    plan = workload_plan("preserve")
    assert tied.run(plan).tokens == decoded(tied.decoder, plan, tied.seed)
    assert tied.run(plan).tokens != engine.run(plan).tokens


# --- mutants -----------------------------------------------------------------------------------------------------


MOVE = swap.move


def _forgets_a_block(cache, pieces, out, layers):
    MOVE(cache, pieces if out else pieces[:-1], out)


def _copies_the_wrong_block(cache, pieces, out, layers):
    hosts = [piece.host for piece in pieces]
    turned = [Piece(p.request, p.index, p.device, h, p.first, p.last, p.whole)
              for p, h in zip(pieces, hosts[1:] + hosts[:1], strict=True)]  # fmt: skip
    MOVE(cache, pieces if out else turned, out)


def _copies_parts_whole(cache, pieces, out, layers):
    MOVE(cache, [Piece(p.request, p.index, p.device, p.host, p.first, p.last, True) for p in pieces], out)


BAD_MOVERS = {f.__name__.strip("_"): f for f in (_forgets_a_block, _copies_the_wrong_block, _copies_parts_whole)}


def swapped_twice():
    """Two blocks of one request leave in three parts, so that a block holds tokens on both sides, and come back."""
    made = instance(request("R1", 7, 3), block=4, evict=True, partial=True)
    return make_plan(made, schedule(
        made, batch(0, R1=7), batch(1, out={"R1": 1}), batch(2, out={"R1": 1}), batch(3, out={"R1": 3}),
        batch(4, back={"R1": 1}), batch(5, back={"R1": 4}), batch(6, R1=1), batch(7, R1=1),
    ))  # fmt: skip


@pytest.mark.parametrize("name", BAD_MOVERS)
def test_a_wrong_mover_is_caught_by_checksums_and_logits(engine, name, monkeypatch):
    plan = swapped_twice()
    good = engine.run(plan, keep_logits=True, poison=True, check=True)
    monkeypatch.setattr(swap, "move", BAD_MOVERS[name])
    bad = engine.run(plan, keep_logits=True, poison=True, check=True)
    assert any(token.before != token.after for token in bad.swapped)
    assert not same_logits(good, bad)


def _slot_off_by_one(self, block):
    return SLOTS(self, block) ^ 1


def _position_off_by_one(self):
    """Only decodes: a shift of all positions would change nothing."""
    return POSITIONS(self) + all(work.tokens == 1 for work in self.work)


def _other_table(self, i):
    """Turned around once there are four blocks. (Two full blocks exchanged change nothing: keys know their place.)"""
    table = TABLE(self, i)
    return table if len(table) < 4 else table[::-1]


SLOTS, POSITIONS, TABLE = BatchPlan.slots, BatchPlan.positions, Allocator.table
BAD_PLANS = {
    "slot off by one": (BatchPlan, "slots", _slot_off_by_one),
    "position off by one": (BatchPlan, "positions", _position_off_by_one),
    "table in another order": (Allocator, "table", _other_table),
}


@pytest.mark.parametrize("name", BAD_PLANS)
def test_a_wrong_plan_is_caught_by_the_reference(engine, name, monkeypatch):
    good = engine.run(workload_plan("recompute"), keep_logits=True, poison=True)
    assert good.tokens == decoded(engine.decoder, workload_plan("recompute"), engine.seed)
    monkeypatch.setattr(*BAD_PLANS[name])
    bad = engine.run(workload_plan("recompute"), keep_logits=True, poison=True)
    assert not same_logits(good, bad)


def test_what_nobody_wrote_is_nan_where_it_is_poisoned(engine):
    plan = workload_plan("swap")
    engine.run(plan, poison=True)
    assert engine.cache.pool.flatten(1).isnan().all(1).any()


# --- streams -----------------------------------------------------------------------------------------------------
def lazy_run(engine, plan, first, monkeypatch):
    """Run a plan with every transfer as late as its waits allow, on pools full of NaN; `first`: out first, or in."""
    made = []

    def make(*arguments):
        made.append(LazySwapper(*arguments, first=first))
        return made[-1]

    engine.reserve([plan])
    engine.cache.poison_all()
    monkeypatch.setattr(gpu_validation.engine, "Swapper", make)
    return engine.run(plan, keep_logits=True), made[0]


@pytest.mark.parametrize("way", ["swap", "swap-part"])
@pytest.mark.parametrize("block", [1, 4])
@pytest.mark.parametrize("first", [True, False])
def test_transfers_as_late_as_the_waits_allow_change_nothing(engine, way, block, first, monkeypatch):
    plan = workload_plan(way, block)
    eager = engine.run(plan, keep_logits=True)
    lazy, swapper = lazy_run(engine, plan, first, monkeypatch)
    assert swapper.late > 0
    assert lazy.tokens == eager.tokens
    assert same_logits(lazy, eager, 0.0)


@pytest.mark.parametrize("forgotten", ["work_after_out", "work_after_back", "back_after_out"])
def test_a_forgotten_wait_is_caught(engine, forgotten, monkeypatch):
    """The work forgets the transfer out or in that it waits for; the one in, the one out."""
    caught = 0
    for plan in (workload_plan("swap"), workload_plan("swap-part"), swapped_twice(), in_and_out_again()):
        eager = engine.run(plan, keep_logits=True)
        for planned in plan.batches:
            setattr(planned, forgotten, False)
        for first in (True, False):
            with monkeypatch.context() as patch:
                lazy, _ = lazy_run(engine, plan, first, patch)
            caught += not same_logits(lazy, eager, 0.0)
    assert caught > 0


# --- copies ------------------------------------------------------------------------------------------------------
def test_every_copy_is_of_contiguous_numbers():
    cache = Cache(TINY, 4, 4, 4, torch.float32, torch.device("cpu"))
    pieces = [Piece(0, 0, 1, 0, 0, 4, True), Piece(0, 1, 2, 1, 1, 3, False)]
    pairs = list(swap.copies(cache, pieces, swap.ALL))
    assert len(pairs) == 1 + TINY.layers * 2 * TINY.kv_heads
    assert all(a.is_contiguous() and b.is_contiguous() and a.shape == b.shape for a, b in pairs)
    halves = [list(swap.copies(cache, pieces, layers)) for layers in layer_groups(TINY.layers, 2)]
    assert all(a.is_contiguous() and b.is_contiguous() and a.shape == b.shape for half in halves for a, b in half)
    together = [sum(a.numel() for a, _ in part) for part in (pairs, halves[0] + halves[1])]
    assert together[0] == together[1]


def test_one_changed_bit_changes_the_checksum():
    cache = Cache(TINY, 1, 1, 2, torch.bfloat16, torch.device("cpu"))
    cache.randomize(0)
    piece = [Piece(0, 0, 0, 0, 0, 2, True)]
    before = cache.checksums(piece)
    cache.pool.view(torch.int16)[0, 1, 1, 0, 1, 5] ^= 1
    after = cache.checksums(piece)
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False]


# --- times -------------------------------------------------------------------------------------------------------
def test_a_batch_is_timed_as_often_as_asked(engine, monkeypatch):
    engine.run(workload_plan("swap"))
    steps = []
    step = gpu_validation.engine._Replay.step
    monkeypatch.setattr(
        gpu_validation.engine._Replay, "step", lambda self, *s, **o: (steps.append(s), step(self, *s, **o))[1]
    )
    seconds = engine.time_batch([(1, 20), (1, 3), (9, 4)], swap_out_tokens=40, swap_in_tokens=16, repeats=5)
    assert len(seconds) == 5
    assert min(seconds) > 0
    assert len(steps) == 6
    assert not engine.cache.pool.isnan().any()
    for work, out, back in (([], 8, 0), ([], 0, 8), ([(4, 0)], 0, 0)):
        assert len(engine.time_batch(work, out, back, 2)) == 2


# --- room and errors ---------------------------------------------------------------------------------------------
def test_pools_only_grow_and_change_with_the_block(engine):
    small, large = (make_plan(made, laid_out(made, "swap")) for made in (workload(2), workload(5)))
    engine.reserve([small, large])
    pool = engine.cache.pool
    engine.run(small)
    engine.run(large)
    assert engine.cache.pool is pool
    assert len(pool) == max(small.blocks, large.blocks)
    engine.run(workload_plan("swap", block=16))
    assert engine.cache.pool.shape[4] == 16
    assert engine.block_bytes(16) == engine.cache.pool[0].numel() * 8


def test_a_plan_is_put_on_the_device_once(engine, monkeypatch):
    plan, other, layouts = workload_plan("swap"), workload_plan("preserve"), []
    layout = TorchBackend.layout
    monkeypatch.setattr(TorchBackend, "layout", lambda self, *a: (layouts.append(1), layout(self, *a))[1])
    engine.reserve([plan, other])
    first = engine.run(plan)
    engine.run(other)
    layouts.clear()
    assert engine.run(plan, poison=True).tokens == first.tokens
    assert layouts == []
    engine.run(make_plan(*grown(workload(8))))
    assert engine.run(plan).tokens == first.tokens
    assert len(layouts) > len(plan.batches)


def grown(made):
    return made, laid_out(made)


def test_the_same_seed_gives_the_same_weights():
    first, again, other = (Decoder(TINY, TorchBackend(), torch.float32, seed) for seed in (1, 1, 2))
    assert torch.equal(first.layers[1].down, again.layers[1].down)
    assert not torch.equal(first.layers[1].down, other.layers[1].down)
    tensors = [first.embedding, first.head] + [t for layer in first.layers for t in vars(layer).values() if t.dim() > 1]
    assert sum(t.numel() for t in tensors) == parameters(TINY)


def test_a_billion_parameters_are_counted():
    assert parameters(MODELS["llama-3.2-1b"]) == pytest.approx(973e6 + 263e6, rel=1e-3)


def test_too_little_memory_is_one_line(engine, monkeypatch):
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (3 << 30, 80 << 30))
    with pytest.raises(BadInput, match=r"^the weights take 5\.0 GiB, the GPU has free 2\.0 GiB; use a smaller model"):
        devices.check_device_memory(torch.device("cuda"), 5 << 30, "the weights")
    devices.check_device_memory(torch.device("cuda"), 2 << 30, "the weights")
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=7 << 30))
    devices.check_host_memory(5 << 30, "5 blocks")
    with pytest.raises(BadInput, match=r"^5 blocks take 8\.0 GiB, the host has free 7\.0 GiB"):
        devices.check_host_memory(5 << 30, "5 blocks", pinned=True)
    with pytest.raises(BadInput, match=r"swapped blocks of 4 tokens \(4096 bytes each\) take .* the host has free"):
        engine._reserve_pools(4, 1, 1 << 40)


def test_devices_and_backends_that_are_not_there(monkeypatch):
    with pytest.raises(BadInput, match="there is no device 'tpu'; choose cuda or cpu"):
        devices.open_backend("tpu")
    with pytest.raises(BadInput, match="there is no backend 'jax'; choose one of triton, flashinfer, sdpa, torch"):
        devices.open_backend("cpu", "jax")
    with pytest.raises(BadInput, match="torch has no strict mode"):
        devices.open_backend("cpu", "torch", strict=True)
    with pytest.raises(BadInput, match="there is no dtype 'int8'; choose one of bfloat16"):
        devices.dtype_of("int8")
    assert devices.dtype_of("bfloat16") is torch.bfloat16
    assert isinstance(devices.open_backend("cpu", "torch"), TorchBackend)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(MissingTool, match="torch sees no GPU here; use --device cpu"):
        devices.open_backend("cuda", "torch")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(BadInput, match="set TRITON_INTERPRET=1, or use torch"):
        devices.open_backend("cpu", "triton")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingTool, match=r"PyTorch is not installed; install it with: pip install 'kvbound\[gpu\]'"):
        devices.open_backend("cpu", "torch")


def test_a_model_that_the_engine_has_not():
    plain = TINY.__class__(**{**vars(TINY), "gated": False})
    with pytest.raises(BadInput, match="tiny has no gate in its feed-forward part"):
        Engine(plain, TorchBackend())
