"""Functions of the user on their way to a worker process: by value, as lambdas need."""

import pickle
from collections.abc import Callable, Sequence
from typing import Any

from kvcore.errors import BadInput

Constraint = Callable[[Any], Any]
"""Takes the Pyomo model of `batch-bigm` and adds rows to it; or returns rows."""


def pack(functions: Sequence[Constraint]) -> bytes:
    """Return the functions as bytes; BadInput for what is none, or cannot be pickled."""
    import cloudpickle

    for function in functions:
        if not callable(function):
            raise BadInput(f"a constraint is a function of the model, not {function!r}")
    try:
        packed: bytes = cloudpickle.dumps(tuple(functions))
    except Exception as error:
        raise BadInput(f"the constraints cannot be sent to a worker process: {error}") from None
    return packed


def unpack(packed: bytes) -> tuple[Constraint, ...]:
    """Return the functions; BadInput where their module cannot be imported here."""
    try:
        functions: tuple[Constraint, ...] = pickle.loads(packed)
    except ImportError as error:
        raise BadInput(
            f"the constraints cannot be loaded in a worker process: {error}; define them in the script or the "
            "notebook, or put the folder of their module on PYTHONPATH"
        ) from None
    return functions


def name_of(function: Constraint) -> str:
    """Name a function for people."""
    return getattr(function, "__name__", type(function).__name__)
