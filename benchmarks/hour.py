"""The hour of Azure conversations on Llama-2-7B: CPU seconds of the policies, beside those of other simulators.

`KVBOUND_SIMULATORS` names a TOML file with a command for each, such as

    vidur = "cd ~/vidur && python -m vidur.main --request_generator_config_type trace_replay .."

for Vidur's release and INFERMAX's fork of it, with the trace `data/processed_traces/splitwise_conv.csv` of both.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.simulate import measured

OURS = ("vllm", "vllm-v1", "sarathi-serve", "infermax", "infercept", "mars", "augserve", "fcfs")


def run() -> list[dict[str, Any]]:
    """Return a row for each policy and each other simulator."""
    if "KVBOUND_DATA" not in os.environ:
        return [{"simulator": "none: set KVBOUND_DATA for the trace (docs/data.md)"}]
    return [*ours(), *others()]


def ours() -> Iterator[dict[str, Any]]:
    """Yield the times of our policies, each in a process of its own, the referee's rules included."""
    for policy in OURS:
        row = measured("hour", policy) or {}
        seconds = round(row["seconds"] - row["seconds_referee"], 2) if "seconds" in row else row.get("error")
        yield {"simulator": f"kvbound {policy}", "cpu_seconds": seconds, "peak_mib": row.get("peak_mib")}


def others() -> Iterator[dict[str, Any]]:
    """Yield the times of the commands that are given; one line says so where none is."""
    path = os.environ.get("KVBOUND_SIMULATORS")
    if path is None:
        yield {"simulator": "Vidur, INFERMAX: not compared, KVBOUND_SIMULATORS names no file with their commands"}
        return
    for name, command in tomllib.loads(Path(path).read_text(encoding="utf-8")).items():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        status = subprocess.run(command, shell=True, stdout=subprocess.DEVNULL, check=False).returncode
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        yield {"simulator": name, "cpu_seconds": f"failed with {status}" if status else round(seconds, 2)}
