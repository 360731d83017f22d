"""The hour of Azure conversations on Llama-2-7B: CPU seconds and memory of every policy, beside other simulators.

Seconds grow with the requests present; `ms_per_batch_first` and `.._last`, of the first and the last quarter of the
decisions, say how much.

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

from benchmarks.simulate import GROWTH, measured
from heuristics import POLICIES


def run() -> list[dict[str, Any]]:
    """Return a row for each policy and each other simulator."""
    if "KVBOUND_DATA" not in os.environ:
        return [{"simulator": "none: set KVBOUND_DATA for the trace (docs/data.md)"}]
    return [*ours(), *others()]


def ours() -> Iterator[dict[str, Any]]:
    """Yield the times of our policies, each in a process of its own, the referee's rules included."""
    for policy in POLICIES:
        row = measured("hour", policy)
        if row is not None:
            seconds = round(row["seconds"] - row["seconds_referee"], 2) if "seconds" in row else row["error"]
            kept = {key: row.get(key) for key in ("peak_mib", "batches", *GROWTH)}
            yield {"simulator": f"kvbound {policy}", "cpu_seconds": seconds, **kept}


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
