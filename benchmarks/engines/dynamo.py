"""NVIDIA's Dynamo, its simulator of vLLM, beside `vllm-v1` and vLLM's own scheduler: when requests are answered.

A wheel of ai-dynamo-runtime lies unpacked in a folder. Prompts are whole, nothing is cached; a batch takes 1 µs if it
prefills and 1 ms if it decodes. Dynamo refuses blocks of one token and moves the first arrival to 0.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.engines.vllm import Step
from heuristics import get_policy, trace_policy
from kvcore import Instance
from kvcore.metrics import evictions
from kvcore.trace import Trace

PREFILL, DECODE = 1, 1000  # microseconds, which are ticks
MOST = 10**6  # tokens of a batch: no limit
HASHED = 512  # tokens of a hash in a trace


class Answered(NamedTuple):
    """A request: its arrival and lengths, and when it had its first token and its last, in ticks."""

    arrival: int
    prompt: int
    output: int
    first: int
    last: int


class Dynamo:
    """The simulator of the wheel that lies unpacked in a folder."""

    def __init__(self, root: Path) -> None:
        sys.path.insert(0, str(root))
        self.core = import_module("dynamo._core")
        self.name = "Dynamo " + next(root.glob("ai_dynamo_runtime-*.dist-info")).name.split("-")[1].removesuffix(
            ".dist"
        )

    def run(self, instance: Instance) -> list[Answered]:
        """Return all requests, sorted: those of equal arrival and lengths have no names there."""
        machine, timing = instance.machine, {"type": "fixed", "prefill_ms": PREFILL / 1000, "decode_ms": DECODE / 1000}
        engine = {
            "backend": "vllm", "num_gpu_blocks": machine.block_limit, "block_size": machine.block,
            "timing_model": timing,
            "max_num_seqs": machine.batch_requests, "max_num_batched_tokens": MOST, "enable_prefix_caching": False,
            "enable_chunked_prefill": False,
        }  # fmt: skip
        config = self.core._normalize_mocker_config({"engine": engine})
        with TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.jsonl"
            trace.write_text("".join(f"{json.dumps(row)}\n" for row in rows(instance)))
            report = self.core.run_mocker_trace_replay([str(trace)], extra_engine_args=config, capture_per_request=True)
        return sorted(
            Answered(
                ticks(one["arrival_time_ms"]), one["input_length"], one["output_length"], ticks(one["first_token_ms"]),
                ticks(one["last_token_ms"]),
            )
            for one in report.per_request
        )  # fmt: skip


def rows(instance: Instance) -> Iterable[dict[str, object]]:
    """Yield the requests as Mooncake's trace has them; no two share a hash."""
    for k, one in enumerate(instance.requests):
        hashes = [MOST * k + j for j in range(-(-one.prompt // HASHED))]
        yield {"timestamp": one.arrival // 1000, "input_length": one.prompt, "output_length": one.output} | {
            "hash_ids": hashes
        }


def ticks(milliseconds: float) -> int:
    """Return a time of a report in ticks."""
    return round(1000 * milliseconds)


def timed(instance: Instance) -> Instance:
    """Return the instance with whole prompts, these times, blocks of two tokens at least, and a first arrival at 0."""
    machine, first = instance.machine, min(one.arrival for one in instance.requests)
    block = max(2, machine.block)
    return instance.replace(
        machine=machine.replace(batch_tokens=MOST, block=block, memory=(machine.block_limit or 0) * block),
        requests=tuple(one.replace(arrival=1000 * (one.arrival - first)) for one in instance.requests),
        cost=({"any_prefill": PREFILL, "any_decode": DECODE},),
    )


Run = Callable[[Instance], list[Step]]


class Difference(NamedTuple):
    """A workload that both answer at other times."""

    instance: Instance
    theirs: list[Answered]
    ours: list[Answered]

    def size(self) -> tuple[int, int]:
        """Return its requests and their tokens."""
        return len(self.ours), sum(one.prompt + one.output for one in self.ours)


def answers(trace: Trace) -> list[Answered]:
    """Return the requests of a trace, sorted."""
    return sorted(
        Answered(one.request.arrival, one.request.prompt, one.request.output, one.first_token, one.completion)
        for one in trace.requests
    )


def beside(dynamo: Dynamo, instances: Iterable[Instance], vllm: Run, ours: Run) -> None:
    """Print how many workloads Dynamo answers as `vllm-v1` does, where that differs from vLLM, and the two smallest."""
    counts, differ, unlike = Counter[tuple[bool, bool]](), list[Difference](), 0
    for instance in map(timed, instances):
        trace = trace_policy(instance, get_policy("vllm-v1"))
        unlike += [step[:2] for step in vllm(instance)] != [step[:2] for step in ours(instance)]
        found = Difference(instance, dynamo.run(instance), answers(trace))
        alike = found.theirs == found.ours
        counts[evictions(trace) > 0, alike] += 1
        differ += [found] * (not alike)
    print(f"vLLM and vllm-v1 differ in {unlike} of {counts.total()} workloads")
    for preempted, words in ((False, "nobody preempted"), (True, "preempted")):
        print(f"{dynamo.name}, {words}: {counts[preempted, True]} equal, {counts[preempted, False]} differ")
    for found in sorted(differ, key=Difference.size)[:2]:
        machine = found.instance.machine
        print(
            f"{found.instance.name}: {machine.block_limit} blocks of {machine.block}, {machine.batch_requests} requests"
        )
        for one, other in zip(found.theirs, found.ours, strict=True):
            print(f"  {tuple(one)}, vllm-v1 {tuple(other[3:])}")
