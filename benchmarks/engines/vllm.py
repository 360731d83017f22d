"""vLLM's own `Scheduler`, or `AsyncScheduler`, on the requests of an instance.

All are its own files, unmodified. A call ends a request; one of the same name with all its tokens comes when it ends.
The pool has M / block blocks and a null block.
"""

import contextlib
import logging
from heapq import heapify, heappop, heappush
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.engines.stand_ins import Engine, Loose
from heuristics.policies.vllm_v1 import VllmV1
from heuristics.policies.vllm_v1_prefix import VllmV1Prefix
from kvcore import Features, Instance, Request
from kvcore.instance import LIMIT

REAL = (
    "vllm.v1.core.", "vllm.v1.request", "vllm.v1.kv_cache_interface", "vllm.v1.kv_cache_spec_registry",
    "vllm.v1.kv_cache_layout", "vllm.utils.math_utils", "vllm.utils.hashing", "vllm.v1.hisparse.block_pool",
)  # fmt: skip
MOST = 10**6  # what stands for no limit


class Step(NamedTuple):
    """A batch: its start, the work in order, and the tokens of KV that preempted requests lost."""

    start: int
    work: list[tuple[str, int]]
    lost: dict[str, int]


class Life:
    """Where a request is: its segment, and its tokens so far: the same ones where contents are."""

    def __init__(self, request: Request, number: int, path: list[int], block: int) -> None:
        self.request, self.segment, self.number = request, 0, number
        self.path, self.block = path, block
        self.tokens: list[int] = []
        self.known = request.prompt  # with the token of a batch that still runs
        self.grow(request.prompt)

    def grow(self, tokens: int) -> list[int]:
        """Add its next tokens, and return them."""
        start = len(self.tokens)
        for k in range(start, start + tokens):
            block, place = divmod(k, self.block)
            shared = self.path[block] * self.block + place if block < len(self.path) else (self.number + 1) * 10**7 + k
            self.tokens.append(shared)
        return self.tokens[start:]


class _Log(logging.LoggerAdapter[logging.Logger]):
    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class Live(list[Any]):
    """A view of a list that another holds."""

    def __init__(self, held: list[Any]) -> None:
        super().__init__()
        self.held = held

    def __getitem__(self, at: Any) -> Any:
        return self.held[at]

    def __len__(self) -> int:
        return len(self.held)

    def __iter__(self) -> Any:
        return iter(self.held)


class Vllm:
    """The scheduler of the vLLM that lies unpacked in a folder."""

    def __init__(self, root: Path) -> None:
        Engine(root, "vllm", REAL)
        self.torch = import_module("torch")
        stand_ins: dict[str, dict[str, Any]] = {
            "vllm.v1.structured_output.request": {
                "StructuredOutputRequest": Loose(from_sampling_params=lambda _: None)
            },
            "vllm.utils": {"length_from_prompt_token_ids_or_embeds": lambda ids, _: len(ids)},
            "vllm.utils.torch_utils": {"get_dtype_size": lambda _: 2},
            "vllm.v1.utils": {
                "ConstantList": Live, "record_function_or_nullcontext": lambda _: contextlib.nullcontext(),
            },
            "vllm.envs": {"VLLM_KV_CACHE_LAYOUT": None, "VLLM_PREFIX_CACHE_RETENTION_INTERVAL": None},
            "vllm.logger": {"init_logger": lambda name: _Log(logging.getLogger(name), {})},
        }  # fmt: skip
        for module, given in stand_ins.items():
            vars(import_module(module)).update(given)
        core = "vllm.v1.core"
        self.classes = {
            False: import_module(f"{core}.sched.scheduler").Scheduler,
            True: import_module(f"{core}.sched.async_scheduler").AsyncScheduler,
        }
        self.request = import_module("vllm.v1.request").Request
        self.cache, self.blocks = import_module("vllm.v1.kv_cache_interface"), import_module(f"{core}.kv_cache_utils")
        self.sha256 = import_module("vllm.utils.hashing").sha256
        version = (root / "vllm" / "_version.py").read_text()
        self.name = "vLLM " + version.partition("__version__ = version = '")[2].partition("'")[0]

    def scheduler(self, instance: Instance, policy: VllmV1) -> Any:
        """Return a scheduler with the settings of a policy, on the machine of an instance."""
        machine = instance.machine
        blocks, tokens = (machine.block_limit or MOST) + 1, machine.batch_tokens or MOST
        config = Loose(
            scheduler_config=Loose(
                max_num_seqs=min(machine.batch_requests or MOST, policy.max_num_seqs), max_num_batched_tokens=tokens,
                long_prefill_token_threshold=policy.long_prefill_token_threshold, enable_chunked_prefill=True,
                long_prefill_token_threshold_adaptive=False, policy="priority" if policy.priority else "fcfs",
                scheduler_reserve_full_isl=policy.gate, watermark=policy.watermark,
                prefill_schedule_interval=policy.prefill_schedule_interval, async_scheduling=policy.ahead,
                max_num_partial_prefills=1, max_long_partial_prefills=1, disable_chunked_mm_input=False,
            ),
            cache_config=Loose(
                enable_prefix_caching=isinstance(policy, VllmV1Prefix), num_gpu_blocks=blocks, mamba_cache_mode="none",
                enable_mamba_shared_prefix_checkpoint=False, block_size=machine.block,
                prefix_caching_hash_algo="sha256", kv_sharing_fast_prefill=False,
            ),
            model_config=Loose(
                uses_mrope=False, is_encoder_decoder=False, max_model_len=LIMIT, runner_type="generate",
                is_diffusion=False, supports_multimodal_inputs=False, return_sampling_mask=False,
                is_multimodal_model=False, enable_return_routed_experts=False,
            ),
            parallel_config=Loose(
                data_parallel_index=0, data_parallel_rank=0, decode_context_parallel_size=1, data_parallel_size=1,
                prefill_context_parallel_size=1, pipeline_parallel_size=1, tensor_parallel_size=1,
            ),
            observability_config=Loose(
                per_request_spec_decode_metrics="none", kv_cache_metrics=False, enable_mfu_metrics=False,
                enable_logging_iteration_details=False,
            ),
            ec_manager_config=Loose(get_encoder_cache_manager_obj=lambda: None), aux_output_config=Loose(enabled=False),
            is_mm_encoder_only=False, max_concurrent_batches=2 if policy.ahead else 1, num_speculative_tokens=0,
            num_lookahead_tokens=0, num_prefill_lookahead_tokens=0, num_hash_lookahead_tokens=0,
            max_in_flight_tokens=2 * tokens, use_v2_model_runner=False,
        )  # fmt: skip
        spec = self.cache.FullAttentionSpec(
            block_size=machine.block, num_kv_heads=1, head_size=1, dtype=self.torch.float16
        )
        groups = [self.cache.KVCacheGroupSpec(["layer"], spec)]
        return self.classes[policy.ahead](
            vllm_config=config, block_size=machine.block,
            kv_cache_config=self.cache.KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=groups),
            structured_output_manager=Loose(
                accept_tokens=lambda *_: True, should_advance=lambda _: False,
            ),
        )  # fmt: skip

    def run(self, instance: Instance, policy: VllmV1) -> list[Step]:
        """Return the batches of the scheduler."""
        return _Run(self, instance, policy).steps()


class _Run:
    """One run: the clock, the requests, and the batches whose results the scheduler has not been given."""

    def __init__(self, engine: Vllm, instance: Instance, policy: VllmV1) -> None:
        self.engine, self.instance, self.policy = engine, instance, policy
        self.scheduler = engine.scheduler(instance, policy)
        names: dict[tuple[str, int], int] = {}
        paths = [
            [names.setdefault((part.node, k), len(names)) for part in parts for k in range(part.blocks)]
            for parts in instance.parts
        ]
        self.lives = {
            one.id: Life(one, number, path, instance.machine.block)
            for number, (one, path) in enumerate(zip(instance.requests, paths, strict=True))
        }
        self.events = [(life.request.arrival, 0, life.number, id) for id, life in self.lives.items()]
        heapify(self.events)
        self.place = count()
        self.running: list[tuple[Any, dict[str, bool], int]] = []  # planned: output, who generates, end
        self.lost: dict[str, int] = {}
        self.hasher = None
        if isinstance(policy, VllmV1Prefix):
            engine.blocks.init_none_hash(engine.sha256)
            self.hasher = engine.blocks.get_request_block_hasher(instance.machine.block, engine.sha256)
        preempt = self.scheduler._preempt_request

        def noted(request: Any, *given: Any, **named: Any) -> Any:
            self.lost[request.request_id] = request.num_computed_tokens
            return preempt(request, *given, **named)

        self.scheduler._preempt_request = noted

    def steps(self) -> list[Step]:
        now = free = 0  # when the next plan is made, and when the device is free
        found: list[Step] = []
        while True:
            while self.events and self.events[0][0] <= now:
                self.add(heappop(self.events)[-1])
            output = self.scheduler.schedule()
            tokens: dict[str, int] = output.num_scheduled_tokens
            if tokens:
                begin, ends = max(free, now), self.plan(tokens)
                free = begin + ends[1]
                found.append(Step(begin, [*tokens.items()], self.lost))
                self.lost = {}
                self.running.append((output, ends[0], free))
                if len(self.running) > self.policy.ahead:
                    now = self.finish()
            elif self.running:
                now = self.finish()
            elif self.events and not self.scheduler.requests:
                now = max(now, self.events[0][0])
            elif not self.scheduler.requests:
                return found
            elif not self.lost:
                raise RuntimeError("the scheduler has requests, and plans nothing")

    def add(self, id: str) -> None:
        life = self.lives[id]
        most = life.request.segments[life.segment].decode
        self.scheduler.add_request(
            self.engine.request(
                request_id=id, prompt_token_ids=[*life.tokens], pooling_params=None, block_hasher=self.hasher,
                sampling_params=Loose(max_tokens=most, min_tokens=0, stop_token_ids=()),
                arrival_time=float(next(self.place)), priority=-life.request.weight if self.policy.priority else 0,
            )
        )  # fmt: skip

    def plan(self, tokens: dict[str, int]) -> tuple[dict[str, bool], int]:
        sums: dict[str, int] = dict.fromkeys(("tokens", "generated", "decode_requests", "prefill_requests"), 0)
        sums |= dict.fromkeys(("decode_kv", "prefill_kv", "prefill_pairs"), 0)
        generates = {}
        for id, c in tokens.items():
            life, m = self.lives[id], self.scheduler.requests[id].num_computed_tokens - c
            phase = "decode" if m > 0 and life.known - m == 1 else "prefill"
            generates[id] = m + c == life.known
            sums["tokens"] += c
            sums["generated"] += generates[id]
            sums[f"{phase}_requests"] += 1
            sums[f"{phase}_kv"] += m
            sums["prefill_pairs"] += (c * c + 2 * c * m) if phase == "prefill" else 0
            life.known += generates[id]
        decodes, prefills = sums["decode_requests"] > 0, sums["prefill_requests"] > 0
        features = Features(busy=1, any_decode=decodes, any_prefill=prefills, **sums)
        return generates, self.instance.cost.duration(features)

    def finish(self) -> int:
        output, generates, end = self.running.pop(0)
        ids = [*output.num_scheduled_tokens]
        sampled = [self.lives[id].grow(generates[id]) for id in ids]
        self.scheduler.update_from_output(
            output,
            Loose(
                req_ids=ids, req_id_to_index={id: at for at, id in enumerate(ids)}, sampled_token_ids=sampled,
                prompt_logprobs_dict={}, prompt_token_id_logprobs_dict={}, pooler_output=[],
            ),
        )  # fmt: skip
        for id, given in zip(ids, sampled, strict=True):
            life = self.lives[id]
            if not given or id in self.scheduler.requests:
                continue
            call = life.request.segments[life.segment].call
            if call is not None:
                life.grow(call.returns)
                life.known += call.returns
                life.segment += 1
                heappush(self.events, (end + call.duration, 1, life.number, id))
        return end
