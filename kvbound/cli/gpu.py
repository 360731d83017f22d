"""Shared by the commands that use a GPU: options, device, backend, dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from gpu_validation.devices import BACKENDS, DTYPES, dtype_of, open_backend
from kvbound.cli.common import option

if TYPE_CHECKING:
    import torch

    from gpu_validation.backend import TorchBackend

DeviceOption = Annotated[str, option("cuda|cpu", "cpu: a small model, without a GPU")]
BackendOption = Annotated[
    str | None, option("|".join(BACKENDS), "the kernels (default: triton on a GPU, sdpa on a CPU)")
]
DtypeOption = Annotated[str | None, option("|".join(DTYPES), "(default: bfloat16 on a GPU, float32 on a CPU)")]


def get_backend(device: str, backend: str | None) -> tuple[TorchBackend, str]:
    """Return a backend by name, or the usual one of the device, with its name.

    A CPU gets one thread, whose processor time is measured, and memory that stays. MissingTool where torch, triton or
    the GPU is missing.
    """
    name = backend or ("sdpa" if device == "cpu" else "triton")
    opened = open_backend(device, name)
    if device == "cpu":
        import torch

        from gpu_validation.backend import keep_pages

        torch.set_num_threads(1)
        keep_pages()
    return opened, name


def get_dtype(name: str | None, device: torch.device) -> torch.dtype:
    """Return a dtype by name, or the usual one of the device."""
    return dtype_of(name or ("bfloat16" if device.type == "cuda" else "float32"))
