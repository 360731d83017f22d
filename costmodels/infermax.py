"""INFERMAX's linear cost models, with the coefficients of its released simulator.

The time of a batch is the number of layers times

    a_o S + b_o  +  [a decode] (a_d K_d + b_d + s_d n_d)  +  [a prefill] (a_p P + b_p + s_p n_p + m_p K_p)

milliseconds, with S the tokens of the batch, n_d and n_p its decode and prefill requests, K_d and K_p the KV that they
read, and P the sum of c*c + 2*c*m over prefills. It lacks the time to read the weights: `floor=True` adds a function
with a floor for `a_o S + b_o` (`docs/costmodels.md`).

With grouped queries, as in 70B, the simulator makes attention (a K + b) 10 % longer where more than one request is in
that phase. This is not linear and is left out.
"""

from collections.abc import Mapping
from fractions import Fraction

from kvcore.cost import Cost, CostFunction

DIVISOR = 100_000
NANOSECONDS = 1_000_000  # per millisecond
LAYERS_7B, LAYERS_70B = 32, 80
MILLISECONDS_PER_LAYER = {
    "tokens": ("0.00191", "0.002"),  # a_o
    "busy": ("0.06486", "0.159"),  # b_o
    "decode_kv": ("8.513e-6", "1.222e-6"),  # a_d
    "any_decode": ("0.01921", "0.081"),  # b_d
    "decode_requests": ("0.00074", "3.92e-4"),  # s_d
    "prefill_pairs": ("1.6773e-7", "4.309e-8"),  # a_p
    "any_prefill": ("0.0926", "0.2112"),  # b_p
    "prefill_requests": ("0.001534", "9.03e-4"),  # s_p
    "prefill_kv": ("9.224e-6", "3.805e-7"),  # m_p
}
"""Llama-2-7B on one A100, and Llama-2-70B on four, without the factor g."""
FLOOR_7B = "0.29"  # ms a layer, besides attention, of a batch of one token: Vidur's profile on an A100
FLOOR_70B = "0.2106"  # ms a layer to read the weights at the bandwidth of four A100 with 80 GB; not measured


def infermax_7b(floor: bool = False) -> Cost:
    """Return the 7B model at a tick of 1 ns, exactly, over a divisor of 100,000."""
    return _cost(0, LAYERS_7B, FLOOR_7B if floor else None)


def infermax_70b(floor: bool = False) -> Cost:
    """Return the 70B model (without g) at a tick of 1 ns, exactly, over the same divisor."""
    return _cost(1, LAYERS_70B, FLOOR_70B if floor else None)


def _cost(column: int, layers: int, floor: str | None) -> Cost:
    linear = {feature: both[column] for feature, both in MILLISECONDS_PER_LAYER.items()}
    parts = [linear] if floor is None else [linear, {**linear, "tokens": "0", "busy": floor}]
    return Cost(tuple(_in_nanoseconds(part, layers) for part in parts))


def _in_nanoseconds(milliseconds_per_layer: Mapping[str, str], layers: int) -> CostFunction:
    coefficients: dict[str, int] = {}
    for feature, milliseconds in milliseconds_per_layer.items():
        scaled = Fraction(milliseconds) * layers * NANOSECONDS * DIVISOR
        if scaled.denominator != 1:
            raise ArithmeticError(f"{feature}: {milliseconds} ms is not a whole multiple of 1/{DIVISOR} ns")
        coefficients[feature] = int(scaled)
    return CostFunction.model_validate({"divisor": DIVISOR, **coefficients})
