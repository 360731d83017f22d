"""Measured beside rooflines: time between batches, and layers."""

from fractions import Fraction

from costmodels.models import Model
from costmodels.rounding import Function
from kvcore.errors import BadInput, unknown
from kvcore.parameters import NUMBER, fraction

MS = Fraction(1, 1000)
LAUNCHES = {  # seconds between two batches, as developers of each version measured them
    "vllm-0.5": 9 * MS,  # vllm-project/vllm issue 6854 (July 2024): 5 to 13 ms without work between two decodes
    "vllm-0.6": Fraction(11, 2) * MS,  # issue 10634 (November 2024): 5 to 6 ms, Llama-2-7B, 256 requests
    "vllm-0.8": 2
    * MS,  # pull request 17866 (May 2025): TPOT 2.7 ms with Llama-3.2-1B, whose weights an H100 reads in 0.7
    "sglang-0.4": Fraction(0),  # LMSYS, 4 December 2024: decodes follow each other without a gap; the next is prepared
}
FLOORS = {  # microseconds of a layer by `SHARED`: the least in Vidur's profiles (costmodels/vidur.py; MIT licence)
    ("a100-80gb", "llama-2-7b"): (280, 155, 96, 65),
    ("a100-80gb", "llama-3-8b"): (303, 177, 101, 65),
    ("h100", "llama-2-7b"): (171, 98, 63, 41),
}
SHARED = (1, 2, 4, 8)


def launch_seconds(source: str, text: str) -> Fraction:
    """Return seconds, of a number or a version. Raises BadInput."""
    if NUMBER.fullmatch(text):
        return fraction(f"{source}: launch", text, zero=True)
    if text not in LAUNCHES:
        raise unknown("time between batches (launch)", text, LAUNCHES, "seconds, such as 0.005")
    return LAUNCHES[text]


def layer_floor(source: str, model: Model, device: str, devices: int) -> Function:
    """Return the least time of all layers without attention. BadInput: not measured."""
    measured = FLOORS.get((device, model.name))
    if measured is None or devices not in SHARED:
        there = ", ".join(f"{name} on {place}" for place, name in FLOORS)
        raise BadInput(
            f"{source}: floor=vidur: there are profiles of {there}, on {', '.join(map(str, SHARED))} devices"
        )
    return Function({"busy": model.layers * Fraction(measured[SHARED.index(devices)], 10**6)})
