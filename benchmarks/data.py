"""Instances by what makes them; public traces are in KVBOUND_DATA, or `shared/data` beside the repository."""

import os
from pathlib import Path

from kvcore.instance import Instance
from library.families import make

MIXTURE = "infercept/merged_exp_uniform_lengths.csv"
CONVERSATIONS = "azure2023/AzureLLMInferenceTrace_conv.csv"
HOUR = f"import azure {CONVERSATIONS} --memory 100000 --batch-tokens 16384 --prefill-tokens 16384 --cost"
"""The hour of conversations on Llama-2 and an A100; the cost follows."""
DRAWN = f"import infercept {MIXTURE} --handling free"
AGENTS = "import agent-traces agent_traces/agent_requests.csv --handling free"


def data_file(name: str) -> Path:
    """Return the path of a file of the traces, such as `azure2023/AzureLLMInferenceTrace_conv.csv`, there or not."""
    return Path(os.environ.get("KVBOUND_DATA", Path(__file__).parents[2] / "shared" / "data")) / name


def made(source: str, name: str = "") -> Instance:
    """Return what a built-in name or a command makes; end with a line where its trace is not there."""
    words = source.split()
    if words[0] == "import":
        path = data_file(words[2])
        if not path.exists():
            raise SystemExit(f"{path} is not there; set KVBOUND_DATA (docs/data.md says how to get the traces)")
        words[2] = str(path)
    instance = make(" ".join(words))
    return instance.replace(name=name) if name else instance
