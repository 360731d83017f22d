"""`python -m benchmarks.phases PYTHON ..`: processor seconds of `vllm-v1` on the hour of Azure conversations, by phase.

Each PYTHON is the interpreter of a checkout, that of before first, or one with NVIDIA's ai-dynamo-runtime, which
replays the trace with 25 ms a batch. They take turns; a row has the least of some turns.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.data import CONVERSATIONS, made
from kvcore.instance import Instance

MACHINE = "--memory 118784 --block-size 16 --batch-tokens 2048 --prefill-tokens 2048 --batch-requests 256 --partial"
LOADS = {"light": "unit", "overloaded": "infermax-7b"}
TURNS = 2
MEASURE = """
import gc, importlib.util, json, sys, time
if importlib.util.find_spec("dynamo"):
    from dynamo._core import run_mocker_trace_replay
    fixed = {"type": "fixed", "prefill_ms": 25.0, "decode_ms": 25.0}
    engine = {"num_gpu_blocks": 7424, "block_size": 16, "max_num_seqs": 256, "max_num_batched_tokens": 2048,
              "enable_prefix_caching": False, "timing_model": fixed}
    ran = run_mocker_trace_replay([sys.argv[1] + "l"], extra_engine_args={"engine": engine}, trace_block_size=16)
    latency = ran.summary["mean_e2e_latency_ms"]
    sys.exit(print(json.dumps({"all": time.process_time(), "mean_latency_ms": latency})))
import kvbound.cli
gc.set_threshold(getattr(kvbound.cli, "COLLECTED", 700))
import kvbound.cli.simulate
from kvcore.files import read_instance
from kvcore.metrics import summary
from solvers import simulate_policy
marks = [0.0, time.process_time()]
def marked(found):
    marks.append(time.process_time())
    return found
instance = marked(read_instance(sys.argv[1]))
result = marked(simulate_policy(instance, "vllm-v1"))
marked(summary(result.trace))
phases = zip(("imports", "read", "policy", "summary"), marks, marks[1:])
row = {name: after - before for name, before, after in phases}
print(json.dumps({**row, "all": marks[-1], "value": str(result.value)}))
"""
"""What both checkouts run; the policy's seconds have the referee's and the instance's hash in them."""


def compare(pythons: list[str]) -> None:
    """Print a row for each load and interpreter, with all its seconds over those of the first."""
    with tempfile.TemporaryDirectory() as folder:
        for load, cost in LOADS.items():
            file = Path(folder, f"{load}.json")
            instance = made(f"import azure {CONVERSATIONS} {MACHINE} --cost {cost}")
            file.write_text(instance.to_json(), encoding="utf-8")
            Path(folder, f"{load}.jsonl").write_text("".join(mooncake(instance)), encoding="utf-8")
            turns = [[measured(python, file) for python in pythons] for _ in range(TURNS)]
            values = {row.pop("value", None) for turn in turns for row in turn} - {None}
            assert len(values) == 1, "checkouts schedule alike"
            rows = [{key: min(row[key] for row in own) for key in own[0]} for own in zip(*turns, strict=True)]
            for python, row in zip(pythons, rows, strict=True):
                said = {key: round(seconds, 2) for key, seconds in row.items()}
                print(
                    json.dumps({"load": load, "python": python, **said, "ratio": round(rows[0]["all"] / row["all"], 2)})
                )


def mooncake(instance: Instance) -> Iterator[str]:
    """Yield the lines of a trace in Mooncake's format; no request shares a block."""
    first = 0
    for request in instance.requests:
        blocks = -(-request.prompt // instance.machine.block)
        line = {"timestamp": float(request.arrival * instance.tick_seconds * 1000), "input_length": request.prompt,
                "output_length": request.output, "hash_ids": [*range(first, first + blocks)]}  # fmt: skip
        first += blocks
        yield f"{json.dumps(line)}\n"


def measured(python: str, file: Path) -> dict[str, Any]:
    """Return the seconds of each phase in one process."""
    ran = subprocess.run([python, "-P", "-c", MEASURE, str(file)], capture_output=True, text=True, check=True)
    row: dict[str, Any] = json.loads(ran.stdout)
    return row


if __name__ == "__main__":
    compare(sys.argv[1:])
