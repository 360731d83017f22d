"""SGLang's own `Scheduler` on the requests of an instance, with its radix cache on or off.

All decisions are its own code, unmodified. Requests, tensors and pages are plain ones. No calls; prefills and decodes
apart.
"""

from array import array
from collections import namedtuple
from heapq import heapify, heappop
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.engines.stand_ins import Engine, Loose
from benchmarks.engines.vllm import Life, Step
from heuristics.engine.serving import LONGEST_OUTPUT
from heuristics.policies.sglang import SGLang
from heuristics.policies.sglang_prefix import STEPS, SGLangPrefix
from kvcore import Features, Instance
from kvcore.instance import LIMIT

SRT = "sglang.srt"
REAL = (
    f"{SRT}.managers.scheduler", f"{SRT}.managers.schedule_batch", f"{SRT}.managers.schedule_policy",
    f"{SRT}.managers.scheduler_components.new_token_ratio_tracker", f"{SRT}.mem_cache.prefill_budget",
    f"{SRT}.environ", f"{SRT}.mem_cache.radix_cache", f"{SRT}.mem_cache.base_prefix_cache",
    f"{SRT}.mem_cache.cache_init_params", f"{SRT}.mem_cache.evict_policy",
)  # fmt: skip
ABSENT = (
    "zmq", "psutil", "setproctitle", "xgrammar", "triton", "orjson", "einops", "transformers", "requests", "aiohttp",
    "fastapi", "torchvision", "sgl_kernel", "compressed_tensors", "PIL", "pybase64", "IPython", "uvloop",
    "prometheus_client", "soundfile", "huggingface_hub", "tqdm", "dill",
)  # fmt: skip
MOST = 10**6  # what stands for no limit


def nothing(*_: Any, **__: Any) -> None:
    """Return None."""


class Sglang:
    """The scheduler of the SGLang that lies unpacked in a folder."""

    def __init__(self, root: Path) -> None:
        self.torch = import_module("torch")
        Engine(root, "sglang", REAL, ABSENT)
        self.schedule = Loose(
            schedule_conservativeness=1.0, retraction_policy="length", schedule_policy="fcfs",
            schedule_low_priority_values_first=False,
        )  # fmt: skip
        self.parallel = Loose(dcp_enabled=False)
        features = Loose(enable_encoder_swa_bounded_replay=False)
        stand_ins: dict[str, dict[str, Any]] = {
            f"{SRT}.runtime_context": {
                "get_schedule": lambda: self.schedule, "get_parallel": lambda: self.parallel,
                "get_context": lambda: Loose(is_config_namespace_published=lambda _: False),
                "get_exec": lambda: Loose(features=features, mamba=Loose(enable_mamba_extra_buffer=False)),
                "get_disagg": lambda: Loose(disaggregation_mode="null"),
                "get_memory": lambda: Loose(radix_eviction_policy="lru"),
            },
            f"{SRT}.mem_cache.utils": {
                "get_eviction_strategy": lambda *_: import_module(f"{SRT}.mem_cache.evict_policy").LRUStrategy(),
                "split_node_hash_value": lambda *_: (None, None),
            },
            f"{SRT}.mem_cache.common": {"match_kv_cache": self.match, "touch_waiting_prefix": self.touch},
            f"{SRT}.mem_cache.allocator.page_interleave": {"page_interleave_shard_size": lambda _: 1},
            f"{SRT}.mem_cache.allocator.swa": {"is_swa_req_ring": lambda *_: False},
            f"{SRT}.utils": {
                "get_bool_env_var": lambda *_: False, "is_hip": lambda: False, "is_gfx95_supported": lambda: False,
            },
        }  # fmt: skip
        for module, given in stand_ins.items():
            vars(import_module(module)).update(given)
        self.base = import_module(f"{SRT}.mem_cache.base_prefix_cache")
        self.radix = import_module(f"{SRT}.mem_cache.radix_cache")
        managers = f"{SRT}.managers"
        batch, self.policy = import_module(f"{managers}.schedule_batch"), import_module(f"{managers}.schedule_policy")
        scheduler = import_module(f"{managers}.scheduler")
        self.ratio = import_module(f"{managers}.scheduler_components.new_token_ratio_tracker").NewTokenRatioTracker
        self.budget = import_module(f"{SRT}.mem_cache.prefill_budget").PrefillBudget
        log = SimpleNamespace(warning=nothing, info=nothing)
        vars(batch).update(beam_retraction_order=lambda order, _: order, num_beam_member_rows=lambda _: 0, logger=log)
        vars(self.policy).update(split_cached_prefix_by_tier=lambda **_: (0, 0, 0))
        vars(scheduler).update(
            set_time_batch=nothing, PrefillStats=SimpleNamespace(from_adder=nothing), logger=log,
            NextBatchPlan=namedtuple("NextBatchPlan", "batch_to_run running_batch"),
        )  # fmt: skip
        own = (
            "get_next_batch_to_run", "get_new_batch_prefill", "_get_new_batch_prefill_raw", "update_running_batch",
            "get_num_allocatable_reqs", "_should_defer_prefill",
        )  # fmt: skip
        self.run_class: Any = type("Run", (_Run,), {name: vars(scheduler.Scheduler)[name] for name in own})
        decides = (
            "retract_decode",
            "check_decode_mem",
            "new_tokens_required_next_decode",
            "_get_decode_retraction_order",
        )
        self.batch_class: Any = type("Batch", (_Batch,), {name: vars(batch.ScheduleBatch)[name] for name in decides})
        vars(scheduler)["ScheduleBatch"] = self.batch_class
        self.name = "SGLang " + version(root)

    def match(self, req: "_Req", tree: Any, tokens: Any = None, *, max_prefix_len: int | None = None) -> Any:
        """Match a request's tokens, as `match_kv_cache`."""
        tokens = req.origin_input_ids + req.output_ids if tokens is None else tokens
        found = tree.match_prefix(
            self.base.MatchPrefixParams(key=self.radix.RadixKey(tokens, None, limit=max_prefix_len))
        )
        req.prefix_len, req.last_node = found.device_prefix_len, found.last_device_node
        req.num_matched_prefix_tokens = min(req.prefix_len, len(tokens) - 1)
        return found

    def touch(self, req: "_Req", tree: Any) -> None:
        """Use the blocks of a request's tokens, as `touch_waiting_prefix`."""
        tree.touch_prefix(self.radix.RadixKey(req.origin_input_ids + req.output_ids, None))

    def run(self, instance: Instance, policy: SGLang) -> list[Step]:
        """Return the batches of the scheduler."""
        self.schedule.schedule_conservativeness = policy.schedule_conservativeness
        run = self.run_class(self, instance, policy)
        self.batch_class.run = run
        run.running_batch = self.batch_class()
        steps: list[Step] = run.steps()
        return steps


def version(root: Path) -> str:
    """Return the release that lies in a folder."""
    found = next(iter((root / "sglang").glob("_version.py")), None)
    return found.read_text().partition("__version__ = version = '")[2].partition("'")[0] if found else "of that folder"


class _Req:
    num_matched_prefix_tokens: int
    last_node: Any = None
    lock: Any = None

    def __init__(self, engine: Sglang, life: Life, most: int, *, ignore_eos: bool) -> None:
        self.engine, self.life, self.request = engine, life, life.request
        self.rid = life.request.id
        self.origin_input_ids, self.output_ids = array("q", life.tokens), array("q")
        self.sampling_params = Loose(max_new_tokens=most, ignore_eos=ignore_eos)
        self.prefix_len = self.extend_end = self.inflight_middle_chunks = 0
        self.host_hit_length = self.swa_host_hit_length = self.storage_hit_length = 0
        self.auxiliary_swa_host_hit_length = self.mamba_host_hit_length = self.storage_hit_start = 0
        self.full_untruncated_fill_ids = array("q")
        self.kv = Loose(
            kv_committed_len=0, kv_allocated_len=0, holds_mamba=False, holds_kv=False, cache_protected_len=0,
            cache_inserted_len=0, swa_evict_floor=0, req_pool_idx=life.number,
        )  # fmt: skip
        self.retracted_stain = False
        self.time_stats = Loose(set_wait_queue_entry_time=nothing)

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)

    @property
    def extend_len(self) -> int:
        return self.extend_end - self.prefix_len

    def init_next_round_input(self, tree_cache: Any = None) -> None:
        self.full_untruncated_fill_ids = self.origin_input_ids + self.output_ids
        if tree_cache is not None and tree_cache.supports_prefix_sharing():
            known = self.full_untruncated_fill_ids
            self.engine.match(self, tree_cache, known, max_prefix_len=len(known) - 1)
            self.kv.cache_protected_len = self.prefix_len

    def finished(self) -> bool:
        return len(self.output_ids) >= self.request.output

    def needs_host_load_back(self) -> bool:
        return False

    def materialized_host_hit_len(self) -> int:
        return 0

    def fulfilled_storage_hit_len(self, prefix_len: int) -> int:
        return 0

    def next_output_finishes_by_length(self) -> bool:
        return False


class _Batch:
    run: "_Run"

    def __init__(self, reqs: list[_Req] | None = None) -> None:
        self.reqs = reqs or []
        self.batch_is_full = self.is_prefill_only = self.return_logprob = self.extends = False
        self.chunked_req = self.input_embeds = self.req_to_token_pool = None
        self.token_to_kv_pool_allocator, self.tree_cache = self.run.pages, self.run.tree_cache
        self.spec_algorithm = self.run.spec_algorithm
        self.forward_mode = Loose(is_extend=lambda *_, **__: self.extends)
        self.work: list[tuple[_Req, int, int]] = []

    @classmethod
    def init_new(cls, reqs: list[_Req], *_: Any, chunked_req: Any = None, **__: Any) -> "_Batch":
        new = cls(list(reqs))
        new.chunked_req = chunked_req
        return new

    def batch_size(self) -> int:
        return len(self.reqs)

    def is_empty(self) -> bool:
        return not self.reqs

    def filter_batch(self, reqs_to_exclude: Any = None, keep_indices: Any = None) -> None:
        if keep_indices is None:
            out = reqs_to_exclude or []
            keep_indices = [at for at, req in enumerate(self.reqs) if not req.finished() and req not in out]
        self.reqs = [self.reqs[at] for at in keep_indices]

    def merge_batch(self, other: "_Batch") -> None:
        self.reqs = self.reqs + other.reqs

    def prepare_for_extend(self) -> None:
        self.extends = True
        self.work = [(req, req.extend_len, req.prefix_len) for req in self.reqs]
        self.run.pages.make_room(sum(req.extend_len for req in self.reqs), len(self.reqs))
        for req in self.reqs:
            if not req.kv.holds_kv:
                req.kv.kv_committed_len = req.prefix_len
            self.run.pages.grow(req, req.extend_end)

    def prepare_for_decode(self) -> None:
        self.extends = False
        self.work = [(req, 1, req.kv.kv_committed_len) for req in self.reqs]
        self.run.pages.make_room(len(self.reqs) if self.run.page_size == 1 else 0, len(self.reqs))
        for req in self.reqs:
            self.run.pages.grow(req, req.kv.kv_committed_len + 1)

    def release_req(self, at: int, left: int, **_: Any) -> bool:
        req = self.reqs[at]
        self.run.lost[req.rid] = req.kv.kv_committed_len
        self.run.release(req)
        self.run.pages.evict(left * STEPS)
        req.prefix_len = req.extend_end = 0
        req.retracted_stain = True
        return True


class _Pages:
    def __init__(self, engine: Sglang, pages: int, size: int) -> None:
        self.engine, self.left, self.page_size, self.device = engine, pages, size, "cpu"
        self.tree: Any = None

    def available_size(self) -> int:
        return self.left * self.page_size

    def create_prefill_budget(self, tree_cache: Any, **given: int) -> Any:
        return self.engine.budget(self, tree_cache, **given)

    def request_slot_reserve(self, **_: Any) -> int:
        return 0

    def evict(self, tokens: int) -> None:
        if self.tree is not None and tokens > self.available_size():
            self.tree.evict(self.engine.base.EvictParams(num_tokens=tokens - self.available_size()))

    def make_room(self, tokens: int, requests: int) -> None:
        self.evict(tokens + (requests * self.page_size if self.page_size > 1 else 0))

    def free_segment(self, slots: Any, start_pos: int) -> None:
        self.left += -(-len(slots) // self.page_size)

    def check_decode_capacity(self, *, num_tokens: int, **_: Any) -> bool:
        self.evict(num_tokens)
        return self.available_size() >= num_tokens

    def grow(self, req: _Req, tokens: int) -> None:
        self.left -= -(-tokens // self.page_size) - -(-req.kv.kv_committed_len // self.page_size)
        if self.left < 0:
            raise RuntimeError(f"there is no page for request {req.rid}")
        req.kv.kv_committed_len = req.kv.kv_allocated_len = tokens
        req.kv.holds_kv = True

    def release(self, req: _Req) -> None:
        self.left += -(-req.kv.kv_committed_len // self.page_size) - req.kv.cache_protected_len // self.page_size
        req.kv.kv_committed_len = req.kv.kv_allocated_len = req.kv.cache_protected_len = req.kv.cache_inserted_len = 0
        req.kv.holds_kv = False


class _Run:
    running_batch: _Batch
    get_next_batch_to_run: Any

    def __init__(self, engine: Sglang, instance: Instance, policy: SGLang) -> None:
        machine = self.machine = instance.machine
        self.engine, self.instance, self.settings = engine, instance, policy
        size, most = machine.block, min(machine.batch_requests or MOST, policy.max_running_requests, MOST)
        self.pages = self.token_to_kv_pool_allocator = _Pages(engine, machine.block_limit or MOST, size)
        self.tree_cache = Loose(
            supports_mamba=lambda: False, supports_prefix_sharing=lambda: False, evictable_size=lambda: 0,
            disable=not policy.ignore_eos, lock=nothing, unlock=nothing, finish_storage_prefetch_admission=nothing,
            discard_storage_prefetch_accounting=nothing, req_to_token_pool=Loose(),
        )  # fmt: skip
        self.cached = isinstance(policy, SGLangPrefix)
        self.spec_algorithm = Loose(is_none=lambda: True)
        self.alive: dict[str, _Req] = {}
        held = self.alive.values
        longest = max(one.peak for one in instance.requests) + 2 * size
        table = engine.torch.zeros((len(instance.requests), longest), dtype=engine.torch.int64)
        self.req_to_token_pool = Loose(
            available_size=lambda: most - sum(bool(req.kv.holds_kv) for req in held()), req_to_token=table,
            write=table.__setitem__,
        )  # fmt: skip
        engine.parallel.pp_max_micro_batch_size = self.max_running_requests = most
        self.page_size, self.max_prefill_tokens = size, MOST
        self.chunked_prefill_size = min(policy.prefill_tokens or MOST, machine.prefill_limit or MOST)
        self.waiting_queue: list[_Req] = []
        self.chunked_req = self.last_batch = None
        self.new_token_ratio_tracker = engine.ratio.from_config()
        self.policy = Loose(calc_priority=nothing, shortest_prefill_chunk_limit=nothing)
        if isinstance(policy, SGLangPrefix):
            self.tree_cache = self.pages.tree = engine.radix.RadixCache(
                Loose(
                    disable=False, req_to_token_pool=self.req_to_token_pool, token_to_kv_pool_allocator=self.pages,
                    page_size=size, is_eagle=False, eviction_policy="lru",
                )
            )  # fmt: skip
            order = "lpm" if policy.by_prefix else "fcfs"
            self.policy = engine.policy.SchedulePolicy(order, self.tree_cache, False, False, False)
        self.grammar_manager = Loose(has_waiting_grammars=lambda: False)
        self.beam_coordinator = Loose(pending_member_rows=lambda _: 0, retire_group=nothing)
        self.tp_worker = Loose(model_runner=Loose(attn_backend=Loose(extend_attention_block_m=64)))
        self.load_inquirer = Loose(_get_num_pending_tokens=lambda **_: 0)
        self.metrics_reporter = Loose(enable_metrics=False)
        same = {"maybe_prepare_mlp_sync_batch": _first, "maybe_convert_decode_to_extend": _first}
        self.dp_attn_adapter, self.ngram_embedding_manager = Loose(**same), Loose(prepare_for_forward=_first)
        self.max_prefill_bs = self._prefill_decode_interval_remaining = 0
        self.priority_scheduling_preemption_threshold = 0
        self.process_pending_chunked_abort = self._process_hicache_events = nothing
        self._arm_prefill_decode_interval = nothing
        self.lost: dict[str, int] = {}
        names: dict[tuple[str, int], int] = {}
        paths = [
            [names.setdefault((part.node, k), len(names)) for part in parts for k in range(part.blocks)]
            for parts in instance.parts
        ]
        self.lives = [Life(one, at, paths[at], size) for at, one in enumerate(instance.requests)]
        self.events = [(one.arrival, at, one) for at, one in enumerate(instance.requests)]
        heapify(self.events)

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)

    def get_prefill_adder_class(self) -> Any:
        return self.engine.policy.PrefillAdder

    def _reqs_finishing_inflight(self, _: Any) -> list[Any]:
        return []

    def send_abort_output(self, *_: Any) -> None:
        raise RuntimeError("the scheduler ends a request")

    def _add_request_to_queue(self, req: _Req, **_: Any) -> None:
        self.waiting_queue.append(req)

    def stash_chunked_request(self, req: _Req) -> None:
        if self.cached:
            self.tree_cache.checkpoint(req, up_to=req.extend_end)
        req.prefix_len = req.extend_end

    def release(self, req: _Req, *, checkpoint: bool = False) -> None:
        if self.cached and checkpoint:
            req.init_next_round_input()
            self.tree_cache.checkpoint(req, up_to=req.kv.kv_committed_len)
        self.pages.release(req)
        if self.cached:
            self.tree_cache.unlock(req.lock)
            req.lock = None

    def steps(self) -> list[Step]:
        now, found, empty = 0, list[Step](), False
        while True:
            while self.events and self.events[0][0] <= now:
                self.add(heappop(self.events)[1])
            self.lost = {}
            batch, self.running_batch = self.get_next_batch_to_run(self.running_batch, self.last_batch)
            self.last_batch = batch
            if batch:
                found.append(Step(now, [(req.rid, tokens) for req, tokens, _ in batch.work], self.lost))
                now += self.duration(batch)
                self.finish(batch)
            elif empty and not self.events:
                if self.alive:
                    raise RuntimeError("the scheduler has requests, and plans nothing")
                return found
            elif empty:
                now = max(now, self.events[0][0])
            if not (batch or self.alive):  # a request that comes as the last one ends finds no idle engine
                self.new_token_ratio_tracker.reset()
            empty = not batch

    def add(self, number: int) -> None:
        request = self.instance.requests[number]
        size = self.machine.block
        memory = LIMIT if self.machine.block_limit is None else self.machine.block_limit * size
        room = memory - self.machine.blocks(request.prompt) * size - size - 1
        most = max(0, min(request.max_new or LONGEST_OUTPUT, room))
        self.alive[request.id] = _Req(self.engine, self.lives[number], most, ignore_eos=bool(self.settings.ignore_eos))
        self.waiting_queue.append(self.alive[request.id])

    def duration(self, batch: _Batch) -> int:
        sums = dict.fromkeys(("tokens", "generated", "decode_requests", "prefill_requests"), 0)
        sums |= dict.fromkeys(("decode_kv", "prefill_kv", "prefill_pairs"), 0)
        for req, c, m in batch.work:
            known = len(req.origin_input_ids) + len(req.output_ids)
            phase = "decode" if m > 0 and known - m == 1 else "prefill"
            sums["tokens"] += c
            sums["generated"] += m + c == known
            sums[f"{phase}_requests"] += 1
            sums[f"{phase}_kv"] += m
            sums["prefill_pairs"] += (c * c + 2 * c * m) if phase == "prefill" else 0
        decodes, prefills = sums["decode_requests"] > 0, sums["prefill_requests"] > 0
        return self.instance.cost.duration(Features(busy=1, any_decode=decodes, any_prefill=prefills, **sums))

    def finish(self, batch: _Batch) -> None:
        for req in batch.reqs:
            if batch.extends and req.inflight_middle_chunks > 0:
                req.inflight_middle_chunks -= 1
                continue
            req.output_ids.extend(req.life.grow(1))
            if req.finished():
                self.release(req, checkpoint=True)
                del self.alive[req.rid]
            elif batch.extends:
                self.stash_chunked_request(req)


def _first(given: Any, *_: Any, **__: Any) -> Any:
    return given
