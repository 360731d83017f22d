"""Transfers of KV between device and host: seconds a token and seconds a move.

`overlapped`: each direction is a function of its own: the link is full-duplex. `sync`: transfers are added to every
function of the work.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from costmodels.least_squares import columns, fit_function, table_of
from costmodels.rounding import Function
from kvcore.cost_file import Observation
from kvcore.errors import BadInput

Transfers = Literal["overlapped", "sync"]
OUT, IN = ("swap_out_tokens", "swap_outs"), ("swap_in_tokens", "swap_ins")  # tokens, moves


def bandwidth_functions(token_bytes: int, bandwidth: Fraction, move_bytes: int = 0) -> tuple[Function, ...]:
    """Return the functions of a link of `bandwidth` bytes per second one way, with more bytes for each move."""
    moved = move_bytes / bandwidth
    return tuple(
        Function({tokens: token_bytes / bandwidth, **({move: moved} if moved else {})}) for tokens, move in (OUT, IN)
    )


def fit_transfers(observations: Sequence[Observation]) -> tuple[Function, ...]:
    """Fit the functions of a link to batches that only move KV, by non-negative least squares on relative errors.

    Each direction is fitted to batches that go its way only. BadInput if a direction is never alone, or if there is
    nothing.
    """
    features, seconds = table_of(observations)
    if not len(seconds):
        raise BadInput("no batch that only moves KV was measured; transfers cannot be fitted")
    out, back = (columns(names[:1], features, None)[:, 0] > 0 for names in (OUT, IN))  # who moves tokens that way
    found = []
    for names, moved, opposite in ((OUT, out, back), (IN, back, out)):
        alone = moved & ~opposite
        if moved.any() and not alone.any():
            raise BadInput(f"{names[0]}: no batch with transfers of this direction alone was measured")
        if alone.any():
            found.append(fit_function(names, features[alone], seconds[alone]))
    return tuple(found)


def joined(work: Sequence[Function], moves: Sequence[Function], how: Transfers) -> tuple[Function, ...]:
    """Return the functions of work and transfers together: side by side, or the transfers added to each."""
    if how == "overlapped":
        return (*work, *moves)
    total = list(work)
    for move in moves:
        total = [function.plus(move) for function in total]
    return tuple(total)
