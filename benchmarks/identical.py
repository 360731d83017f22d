"""How far the proof for like requests reaches: their number, outputs, prompts and memory, and two kinds at once."""

from __future__ import annotations

from typing import Any

import solvers
from benchmarks.record import timed
from kvcore.errors import BadInput
from kvcore.instance import Instance, Request, Segment
from workloads.builtin import builtin_instance

TIME_LIMIT = 30.0

SIZES = (
    *((n, 32, 8, 128) for n in (8, 16, 32, 64, 128, 256, 1024)),
    *((16, 32, 8, M) for M in (64, 96, 160, 192, 256)),
    *((16, prompt, 8, 4 * prompt) for prompt in (8, 16, 64)),
    *((16, 32, outputs, 128) for outputs in (4, 12, 16, 32)),
    (32, 32, 8, 256),
    (64, 32, 8, 512),
)
"""Requests, prompt, outputs and memory; the machine and the cost are those of `identical`."""

MIXED = (((8, 32, 8), (8, 24, 6)), ((8, 32, 8), (8, 48, 4)), ((4, 32, 8), (4, 24, 6), (4, 40, 4)))
"""Several kinds on one device of 128 tokens: requests, prompt and outputs of each."""


def cases() -> list[Instance]:
    """Instances of one kind of request, then of several, then those of INFERMAX's Figure 15."""
    return [
        *(builtin_instance("identical:n={},I={},O={},M={}".format(*size)) for size in SIZES),
        *(mixed(kinds) for kinds in MIXED),
        *(builtin_instance(f"infermax-figure15:I={2**k}") for k in range(11)),
    ]


def mixed(kinds: tuple[tuple[int, int, int], ...]) -> Instance:
    """Return requests of several kinds in one device."""
    lengths = [(prompt, outputs) for n, prompt, outputs in kinds for _ in range(n)]
    return builtin_instance("identical:n=1,I=32,O=8,M=128").replace(
        name="mixed:" + "+".join(f"{n}x({prompt},{outputs})" for n, prompt, outputs in kinds),
        requests=tuple(
            Request(id=f"R{i}", prompt=prompt, segments=(Segment(decode=outputs),))
            for i, (prompt, outputs) in enumerate(lengths, 1)
        ),
    )


def run() -> list[dict[str, Any]]:
    """Solve each case once by the search."""
    return [_measure(instance) for instance in cases()]


def _measure(instance: Instance) -> dict[str, Any]:
    try:
        result, seconds = timed(
            lambda: solvers.solve(instance, "busy-time", formulation="search", time_limit=TIME_LIMIT), 1
        )
    except BadInput as error:
        return {"case": instance.name, "status": "not run", "why": str(error)}
    return {
        "case": instance.name, "status": result.status, "value": result.value, "bound": result.bound,
        "gap": result.gap, "seconds": seconds["seconds_median"],
    }  # fmt: skip
