"""Whether the interpreter runs the kernels, and the type of sums."""

from typing import Any

import torch
import triton
import triton.language as tl

INTERPRETED: bool = triton.knobs.runtime.interpret
"""TRITON_INTERPRET=1 was set at the import; kernels decorated afterwards run in the interpreter."""

INDICES = ("tables", "starts", "lengths", "work", "slots", "positions")  # hold indices, of any alignment


def numeric(dtype: torch.dtype) -> dict[str, Any]:
    """Return the two parameters that most kernels have.

    UPCAST widens bf16 in the interpreter, whose bf16 arithmetic is silently wrong; ACC is the type of sums.
    """
    wide = tl.float64 if dtype == torch.float64 else tl.float32
    return {"UPCAST": INTERPRETED and dtype == torch.bfloat16, "ACC": wide}
