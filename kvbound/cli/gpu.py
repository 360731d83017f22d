"""What the commands that use a GPU share: torch may not be installed, and ours may not be the only backend."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from kvbound.errors import BadInput, MissingTool

if TYPE_CHECKING:
    import torch

    from gpu_validation.backend import Backend

BACKENDS = ("torch", "triton")

DeviceOption = Annotated[str, typer.Option(metavar="cuda|cpu", help="cpu: a small run without a GPU")]
BackendOption = Annotated[
    str | None, typer.Option(metavar="|".join(BACKENDS), help="the kernels (default: triton on a GPU, torch on a CPU)")
]
DtypeOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="bfloat16, float16, float32 (default: bfloat16 on a GPU, float32)")
]


def get_torch_device(name: str) -> torch.device:
    """Return a device; MissingTool where torch or the GPU is missing. On a CPU, torch gets one thread: steady times."""
    try:
        import torch

        from gpu_validation.measure import get_device
    except ModuleNotFoundError as error:
        raise MissingTool(f"{error.name} is not installed; install it with: pip install 'kvbound[gpu]'") from None
    device = get_device(name)
    if device.type == "cpu":
        torch.set_num_threads(1)
    return device


def get_dtype(name: str | None, device: torch.device) -> torch.dtype:
    """Return a dtype by name, or the usual one of the device."""
    import torch

    dtypes = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
    usual = "bfloat16" if device.type == "cuda" else "float32"
    if (name or usual) not in dtypes:
        raise BadInput(f"--dtype: {name!r} is none of {', '.join(dtypes)}")
    return dtypes[name or usual]


def get_backend(name: str | None, device: torch.device) -> tuple[str, Backend]:
    """Return a backend by name, or the usual one of the device, with its name."""
    name = name or ("triton" if device.type == "cuda" else "torch")
    if name not in BACKENDS:
        raise BadInput(f"--backend: {name!r} is none of {', '.join(BACKENDS)}")
    if name == "torch":
        from gpu_validation.backend import TorchBackend

        return name, TorchBackend(device)
    try:
        from gpu_validation.kernels.backend import TritonBackend
    except ModuleNotFoundError as error:
        raise MissingTool(f"{error.name} is not installed; install it with: pip install 'kvbound[gpu]'") from None
    return name, TritonBackend(device)


def today() -> str:
    """Return the date that records carry."""
    return datetime.now(UTC).strftime("%Y-%m-%d")
