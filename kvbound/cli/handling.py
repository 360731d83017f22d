"""`--handling` of the commands that make instances: how every call is handled."""

from __future__ import annotations

from typing import cast

from pydantic import ValidationError

from kvcore.errors import BadInput
from kvcore.files import first_error
from kvcore.instance import Handling, Instance

HANDLINGS = ("min-waste", "preserve", "discard", "swap", "free")


def with_handling(instance: Instance, handling: str) -> Instance:
    """Return the instance with one handling for all calls, or with InferCept's choice of least waste for each."""
    from heuristics import with_min_waste_handlings

    if handling not in HANDLINGS:
        raise BadInput(f"--handling is one of {', '.join(HANDLINGS)}, not {handling!r}")
    if handling in ("min-waste", "free"):
        return with_min_waste_handlings(instance) if handling == "min-waste" else instance
    try:
        return instance.with_calls_handled(cast(Handling, handling))
    except ValidationError as error:
        raise BadInput(f"--handling {handling}: {first_error(error)}") from None
