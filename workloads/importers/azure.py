"""The Azure LLM inference traces of 2023 and 2024: arrivals, prompt and output lengths.

Published with Splitwise (ISCA 2024); columns and licence in `docs/data.md`.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from kvcore.cost import Cost
from kvcore.instance import Instance, Machine
from workloads.importers.reader import TICK, read_requests
from workloads.importers.selection import Selection, read_map

COLUMNS = "arrival=TIMESTAMP,prompt=ContextTokens,decode=GeneratedTokens"
LAYOUT = replace(read_map(COLUMNS), letter="R")  # as in the records of the library
MACHINE = Machine(memory=118_784, host_memory=0, batch_tokens=512, evict=True)
"""KV of Llama-2-7B on an A100 with 80 GB: 29 requests of 4,096 tokens, as Vidur plans it; chunks of 512 tokens."""


def read_azure(
    path: str | Path,
    *,
    take: int | None = None,
    tick: Fraction = TICK,
    cost: Cost = Cost.unit(),
    machine: Machine = MACHINE,
) -> Instance:
    """Return the first `take` rows of the file (None: all) as an instance: ticks of `tick` seconds.

    A row is a request without calls; arrivals count from the first TIMESTAMP, rounded up to ticks. BadInput: the file
    is not such a table (with line and column), or an argument is out of range.
    """
    return read_requests(path, LAYOUT, selection=Selection(take=take), tick=tick).instance(machine, tick, cost)
