"""InferCept's profiled cost models: GPT-J-6B on one A100, and Vicuna-13B on two.

A batch of S tokens takes c + a S milliseconds, whatever KV it reads; a token takes 0.04 ms from or to the host:
constants of the released benchmark and its solver (4e-5 s a token, for the 6B model). A token of Vicuna-13B has 800 KiB
of KV against 448 KiB, and takes 800/448 of that time, 1/14 ms. The solver's 976 tokens that may be swapped for nothing
are left out.

A tick is 100 ns: every constant is a whole number over a divisor of 7 or 1.
"""

from fractions import Fraction

from costmodels.models import MODELS
from costmodels.rounding import Function, rounded
from kvcore.cost import Cost

TICK = Fraction(1, 10_000)  # milliseconds
TRANSFER_6B = Fraction("0.04")  # milliseconds a token, out or in
KV_6B, KV_13B = MODELS["gpt-j-6b"].kv_bytes(), MODELS["vicuna-13b"].kv_bytes()  # bytes of KV a token, 448 and 800 KiB


def infercept_6b(overlapped: bool = True) -> Cost:
    """Return 10 ms + 0.0463 ms a token for GPT-J-6B on an A100; transfers overlap work or are added."""
    return _cost(Fraction(10), Fraction("0.0463"), TRANSFER_6B, overlapped)


def infercept_13b(overlapped: bool = True) -> Cost:
    """Return 15.4 ms + 0.0279 ms a token for Vicuna-13B on two A100; transfers overlap work or are added."""
    return _cost(Fraction("15.4"), Fraction("0.0279"), TRANSFER_6B * KV_13B / KV_6B, overlapped)


def _cost(fixed: Fraction, token: Fraction, transfer: Fraction, overlapped: bool) -> Cost:
    work = {"busy": fixed, "tokens": token}
    moves = {"swap_out_tokens": transfer, "swap_in_tokens": transfer}
    functions = (Function(work), Function(moves)) if overlapped else (Function(work | moves),)
    return rounded(functions, TICK).cost
