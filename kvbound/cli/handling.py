"""`--handling` of the commands that make instances: how every call is handled."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from kvcore.errors import BadInput
from kvcore.files import valid
from kvcore.instance import Handling, Instance

HANDLINGS = ("min-waste", "preserve", "discard", "swap", "free")
CallHandlingOption = Annotated[
    str | None,
    typer.Option(
        "--handling",
        metavar="|".join(HANDLINGS),
        help="of every call (default: free where the machine evicts, else min-waste)",
    ),
]


def with_handling(instance: Instance, handling: str | None) -> Instance:
    """Return the instance with one handling for all calls, or with InferCept's choice of least waste for each.

    None: free where the machine evicts, so that a policy may choose as it goes, else least waste.
    """
    from heuristics import with_min_waste_handlings

    if handling is None:
        handling = "free" if instance.machine.evict else "min-waste"
    if handling not in HANDLINGS:
        raise BadInput(f"--handling is one of {', '.join(HANDLINGS)}, not {handling!r}")
    if handling in ("min-waste", "free"):
        return with_min_waste_handlings(instance) if handling == "min-waste" else instance
    with valid(f"--handling {handling}"):
        return instance.with_calls_handled(cast(Handling, handling))
