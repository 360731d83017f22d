"""Devices by name, as their makers publish them: memory, its bandwidth, arithmetic, the link to the host.

Rates are peaks. The link is PCI Express one way, 16 lanes with 128 of 130 bits payload: 16 x 16 GT/s = 31.5 GB/s
(generation 4), 16 x 32 GT/s = 63 GB/s (generation 5). Memory is the nominal size in GiB; about 1 % of it is never free
to a program. Data sheets of H200, B200 and MI300X: as cited in November 2026; the arithmetic of H200 and B200 is half
of NVIDIA's NeMo RL's with sparsity (`nemo_rl/utils/flops_tracker.py`).
"""

from dataclasses import dataclass

from kvcore.errors import unknown

GIB = 2**30
TERA = 10**12
PCIE_4, PCIE_5 = 31_500_000_000, 63_000_000_000  # bytes a second one way


@dataclass(frozen=True)
class Device:
    """One accelerator."""

    name: str
    memory: int  # bytes
    bandwidth: int  # bytes a second between the memory and the chip
    flops: int  # dense bf16 (fp32 accumulation) operations a second; a multiplication and an addition are two
    link: int  # bytes a second to the host, and as many from it
    source: str
    fp8: bool = True  # whether it has FP8 arithmetic, twice as fast


DEVICES = {device.name: device for device in (
    Device("a100-40gb", 40 * GIB, 1555 * 10**9, 312 * TERA, PCIE_4, "NVIDIA A100 data sheet, SXM4 40 GB", fp8=False),
    Device("a100-80gb", 80 * GIB, 2039 * 10**9, 312 * TERA, PCIE_4, "NVIDIA A100 data sheet, SXM4 80 GB", fp8=False),
    Device("h100", 80 * GIB, 3350 * 10**9, 9894 * TERA // 10, PCIE_5, "NVIDIA H100 data sheet, SXM5 80 GB"),
    Device("h200", 141 * GIB, 4800 * 10**9, 9894 * TERA // 10, PCIE_5, "NVIDIA H200 data sheet, SXM5; NeMo RL"),
    Device("b200", 180 * GIB, 8000 * 10**9, 2250 * TERA, PCIE_5, "NVIDIA DGX B200 data sheet, an eighth; NeMo RL"),
    Device("mi300x", 192 * GIB, 5300 * 10**9, 13074 * TERA // 10, PCIE_5, "AMD Instinct MI300X data sheet"),
    Device("rtx-4090", 24 * GIB, 1008 * 10**9, 1652 * TERA // 10, PCIE_4, "NVIDIA Ada architecture white paper"),
)}  # fmt: skip


def get_device(name: str) -> Device:
    """Return the device of that name, or raise BadInput."""
    if name not in DEVICES:
        raise unknown("device", name, DEVICES)
    return DEVICES[name]
