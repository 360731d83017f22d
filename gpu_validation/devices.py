"""Devices and backends by name."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from kvcore.errors import BadInput, MissingTool

if TYPE_CHECKING:
    import torch

    from gpu_validation.backend import TorchBackend

INSTALL = "install it with: pip install 'kvbound[gpu]'"
SPARE = 1 << 30  # bytes of the device that are left for activations and logits
BACKENDS = ("triton", "flashinfer", "sdpa", "torch")
DTYPES = ("bfloat16", "float16", "float32", "float64")


def open_backend(device: str = "cuda", backend: str = "triton", *, strict: bool = False) -> TorchBackend:
    """Return a backend: `device` "cuda" or "cpu", `backend` one of BACKENDS; `strict`: see `TritonBackend`.

    Raises:
        MissingTool: PyTorch or Triton is not installed, or torch sees no GPU.
        BadInput: there is no such device or backend, or the kernels cannot run on the CPU as things are.
    """
    if device not in ("cuda", "cpu"):
        raise BadInput(f"there is no device {device!r}; choose cuda or cpu")
    if backend not in BACKENDS:
        raise BadInput(f"there is no backend {backend!r}; choose one of {', '.join(BACKENDS)}")
    if strict and backend != "triton":
        raise BadInput(f"{backend} has no strict mode: its products depend on the batch; use the triton backend")
    if (device, backend) == ("cuda", "sdpa"):
        raise BadInput("the backend sdpa is for a CPU; on a GPU choose triton, flashinfer or torch")
    _need("torch", "PyTorch")
    import torch

    if device == "cuda":
        if not torch.cuda.is_available():
            raise MissingTool("torch sees no GPU here; use --device cpu for a dry run without one")
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    if backend in ("torch", "sdpa"):
        from gpu_validation.backend import CpuBackend, TorchBackend

        return CpuBackend() if backend == "sdpa" else TorchBackend(device)
    if backend == "flashinfer":
        _need("flashinfer", "FlashInfer", "install it with: pip install flashinfer-python")
    _need("triton", "Triton")
    if device == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        raise BadInput("the Triton kernels run on a CPU only in the interpreter: set TRITON_INTERPRET=1, or use torch")
    from gpu_validation.kernels.backend import FlashInferBackend, TritonBackend

    return FlashInferBackend(device) if backend == "flashinfer" else TritonBackend(device, strict=strict)


def dtype_of(name: str) -> torch.dtype:
    """Return a torch dtype by name; BadInput for one that is not in DTYPES."""
    if name not in DTYPES:
        raise BadInput(f"there is no dtype {name!r}; choose one of {', '.join(DTYPES)}")
    _need("torch", "PyTorch")
    import torch

    dtype: torch.dtype = getattr(torch, name)
    return dtype


def check_device_memory(device: torch.device, needed: int, what: str) -> None:
    """BadInput if a GPU has too little free memory for `needed` bytes and work."""
    import torch

    if device.type != "cuda":
        return
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info(device)[0] - SPARE
    _check(needed, free, what, "the GPU has free", "a smaller model, a shorter schedule or a smaller memory")


def check_host_memory(needed: int, what: str, *, pinned: bool = False) -> None:
    """BadInput if the host has too little free memory for `needed` bytes; torch pins a power of two."""
    import psutil

    if pinned and needed:
        needed = 1 << (needed - 1).bit_length()
    _check(needed, psutil.virtual_memory().available, what, "the host has free", "a smaller host memory")


def _check(needed: int, free: int, what: str, where: str, instead: str) -> None:
    if needed > free:
        raise BadInput(f"{what} take {needed / 2**30:.1f} GiB, {where} {max(free, 0) / 2**30:.1f} GiB; use {instead}")


def _need(module: str, name: str, install: str = INSTALL) -> None:
    if importlib.util.find_spec(module) is None:
        raise MissingTool(f"{name} is not installed; {install}")
