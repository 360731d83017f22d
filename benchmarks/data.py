"""Where the public traces are: the folder KVBOUND_DATA, or `shared/data` beside the repository."""

from __future__ import annotations

import os
from pathlib import Path


def data_file(name: str) -> Path:
    """Return the path of a file of the traces, such as `azure2023/AzureLLMInferenceTrace_conv.csv`, there or not."""
    return Path(os.environ.get("KVBOUND_DATA", Path(__file__).parents[2] / "shared" / "data")) / name
