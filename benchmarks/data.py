"""Where the public traces are: the folder KVBOUND_DATA, or `shared/data` beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

from kvcore.instance import Machine

MIXTURE = "infercept/merged_exp_uniform_lengths.csv"
CONVERSATIONS = "azure2023/AzureLLMInferenceTrace_conv.csv"
LLAMA_A100 = Machine(memory=100_000, batch_tokens=16384, prefill_tokens=16384, evict=True)
"""The machine of the conversations."""


def data_file(name: str) -> Path:
    """Return the path of a file of the traces, such as `azure2023/AzureLLMInferenceTrace_conv.csv`, there or not."""
    return Path(os.environ.get("KVBOUND_DATA", Path(__file__).parents[2] / "shared" / "data")) / name


def trace_file(name: str) -> Path:
    """Return the path of a file of the traces; end with a line where it is not there."""
    path = data_file(name)
    if not path.exists():
        raise SystemExit(f"{path} is not there; set KVBOUND_DATA (docs/data.md says how to get the traces)")
    return path


def released(name: str) -> Path | None:
    """Return the path of a file of the traces if KVBOUND_DATA names their folder and it is there."""
    path = Path(os.environ.get("KVBOUND_DATA", "")) / name
    return path if path.is_file() else None
