"""Planted errors in the kernels: a piece of their text replaced, the module loaded from the new text.

A mutant is caught if one of the cases of its kernel comes out wrong, or as NaN. None goes outside its tensors.
"""

import importlib.util
import sys
from pathlib import Path
from typing import NamedTuple

import torch

from gpu_validation.kernels import backend
from tests.gpu_validation.operations import OPERATIONS
from tests.gpu_validation.paged import TOLERANCE, Batch, error, inputs_of


class Mutant(NamedTuple):
    """What is replaced: `old` stands `times` times in the module."""

    old: str
    new: str
    times: int = 1


ATTENTION = {
    "causal mask lets one more key in": Mutant("token[None, :] <= position", "token[None, :] <= 1 + position"),
    "causal mask hides the own key": Mutant("token[None, :] <= position", "token[None, :] < position"),
    "no mask of scores": Mutant("token[None, :] <= position[:, None]", "token[None, :] >= 0"),
    "values unmasked behind the end": Mutant("values + where, mask=inside[:, None], other=0.0", "values + where"),
    "keys unmasked behind the end": Mutant("mask=inside[:, None]", "mask=(token < high + 1)[:, None]", 2),
    "one block for a whole tile": Mutant("table + ahead.to(tl.uint32)", "table + (ahead // TILE * TILE)", 2),
    "table not read ahead": Mutant("ahead = token + TILE", "ahead = token"),
    "sum not rescaled": Mutant("total * shrink + tl.sum(p, 1)", "total + tl.sum(p, 1)"),
    "values not rescaled": Mutant("acc * shrink[:, None], input", "acc, input"),
    "end one short": Mutant("tl.minimum(first + PACKED, count)\n", "tl.minimum(first + PACKED, count) - 1\n"),
    "unmasked tile one too many": Mutant("(before + 1) // TILE * TILE", "(before + TILE) // TILE * TILE"),
    "unmasked past the split's end": Mutant("    full = low if STRICT", "    full = high // TILE * TILE if 1 - STRICT"),
    "split starts late": Mutant("low = tl.program_id(1) * SPLIT", "low = tl.program_id(1) * (SPLIT + TILE)"),
    "split ends early": Mutant("tl.minimum(low + SPLIT, high)", "tl.minimum(low + SPLIT - TILE, high)"),
    "KV heads one apart": Mutant("kv + head * (BS * D)", "kv + (head + 1) % KV * (BS * D)"),
    "values of the first head": Mutant("values = keys + KV * BS * D", "values = kv + KV * BS * D"),
    "head of a group": Mutant("head * GROUP + m % GROUP)[:, None]", "m % GROUP * KV + head)[:, None]"),
    "position ignores the offset": Mutant("position = before + m // GROUP", "position = first + m // GROUP"),
    "first row forgotten": Mutant("row = first + m // GROUP", "row = m // GROUP"),
    "slot in a block off by one": Mutant("token.to(tl.uint32) % BS", "(token + 1) % BS"),
    "combined without weights": Mutant("share = tl.exp2(w - peak[None, :])", "share = tl.exp2(w - w)"),
    "combined without rescaling": Mutant("total * shrink + tl.sum(share, 0)", "total + tl.sum(share, 0)"),
    "last split forgotten": Mutant("tl.cdiv(tl.load(lengths + request), SPLIT)", "tl.load(lengths + request) // SPLIT"),
}

STORE = {
    "rotation the wrong way": Mutant("left * cosine - right * sine, right * cosine + left * sine",
                                     "left * cosine + right * sine, right * cosine - left * sine"),
    "position of the row": Mutant("positions + row", "slots + row"),
    "block of the slot": Mutant("slot // BS", "(slot + 1) // (BS + 1)"),
    "place in the block": Mutant("slot % BS * D", "(slot + 1) % BS * D"),
    "rows without a slot stored": Mutant("(slot >= 0)", "((slot >= -1) & inside)"),
    "values among the keys": Mutant("(KV + h)[None", "h[None"),
    "rows of a slice": Mutant("* value_stride", "* key_stride // key_stride * (KV * D)"),
}  # fmt: skip

NORM = {
    "residual forgotten": Mutant("wide += tl.load(residual", "wide += 0 * tl.load(residual"),
    "epsilon outside the root": Mutant("tl.rsqrt(mean + epsilon)", "(tl.rsqrt(mean) + epsilon)"),
    "mean over the padding": Mutant("/ WIDTH\n", "/ PADDED\n"),
    "rows of a slice": Mutant("* row_stride", "* WIDTH"),
}

SILU = {
    "gate and up swapped": Mutant("gate / (1.0 + tl.exp(-gate)) * up", "up / (1.0 + tl.exp(-up)) * gate"),
    "sign of the exponent": Mutant("tl.exp(-gate)", "tl.exp(gate)"),
}

PRODUCT = {
    "end of the sum unmasked": Mutant("(first + k < IN)", "(first + k < first + BLOCK_K - 1)"),
    "one tile of the sum": Mutant("range(0, IN, BLOCK_K)", "range(0, BLOCK_K, BLOCK_K)"),
}

MUTANTS = {"attend": ATTENTION, "store_kv": STORE, "rms_norm": NORM, "silu_mul": SILU, "matmul": PRODUCT}
"""The planted errors by the function that launches the kernel, then by name."""

BATCHES = (
    Batch(((33, 1), (20, 20), (70, 9), (1, 1))), Batch(((300, 1), (5, 1)), heads=2, kv_heads=1),
    Batch(((140, 66),), heads=4, kv_heads=1), Batch(((1800, 1),), heads=1, kv_heads=1, block=64),
)  # fmt: skip


def is_right(function):
    """Return whether all cases of a kernel come out right, as the backend launches it now."""
    limit = TOLERANCE[torch.float64]
    if function == "attend":
        return all(error(backend.TritonBackend("cpu"), inputs_of(batch, torch.float64)) <= limit for batch in BATCHES)
    return OPERATIONS[function](torch.float64) <= limit


def load(function, mutant, folder):
    """Return the launching function of a module whose text has the replacement."""
    file = Path(sys.modules[getattr(backend, function).__module__].__file__)
    source = file.read_text(encoding="utf-8")
    assert source.count(mutant.old) == mutant.times, f"{mutant.old!r} stands there {source.count(mutant.old)} times"
    mutated = Path(folder, f"mutated_{function}.py")  # Triton reads the text of a kernel from its file
    mutated.write_text(source.replace(mutant.old, mutant.new), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(mutated.stem, mutated)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, function)
