"""INFERMAX's linear cost model, with the coefficients that its released simulator uses (Llama-2-7B on one A100).

The time of a batch is the number of layers times

    a_o S + b_o  +  [a decode] (a_d K_d + b_d + s_d n_d)  +  [a prefill] (a_p P + b_p + s_p n_p + m_p K_p)

milliseconds, with S the tokens of the batch, n_d and n_p its decode and prefill requests, K_d and K_p the KV that
they read, and P the sum of c*c + 2*c*m over prefills. At single-token batches it is far below what was measured
(2.1 ms against 9.3 ms): the weights have to be read, which the linear form does not know.
"""

from __future__ import annotations

from fractions import Fraction

from kvbound.cost import Cost, CostFunction

LAYERS_7B = 32
MILLISECONDS_PER_LAYER_7B = {
    "tokens": "0.00191",  # a_o
    "busy": "0.06486",  # b_o
    "decode_kv": "8.513e-6",  # a_d
    "any_decode": "0.01921",  # b_d
    "decode_requests": "0.00074",  # s_d
    "prefill_pairs": "1.6773e-7",  # a_p
    "any_prefill": "0.0926",  # b_p
    "prefill_requests": "0.001534",  # s_p
    "prefill_kv": "9.224e-6",  # m_p
}


def infermax_7b() -> Cost:
    """Return the 7B model at a tick of 1 ns: coefficients over a divisor of 100,000, which represent it exactly."""
    divisor = 100_000
    nanoseconds = 1_000_000
    coefficients: dict[str, int] = {}
    for feature, milliseconds in MILLISECONDS_PER_LAYER_7B.items():
        scaled = Fraction(milliseconds) * LAYERS_7B * nanoseconds * divisor
        if scaled.denominator != 1:
            raise ArithmeticError(f"{feature}: {milliseconds} ms is not a whole multiple of 1/{divisor} ns")
        coefficients[feature] = int(scaled)
    return Cost((CostFunction.model_validate({"divisor": divisor, **coefficients}),))
