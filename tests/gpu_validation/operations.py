"""The small kernels against their twins in plain torch, in fp64: each returns the largest absolute error."""

import torch

from gpu_validation.backend import TorchBackend
from gpu_validation.kernels.backend import TritonBackend

TORCH = TorchBackend()


def random(*shape, dtype, seed=0):
    """Return seeded normal numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def difference(got, twin):
    """Return the largest absolute difference of tensors, NaN if there is a NaN."""
    return float(torch.stack([(a.double() - b.double()).abs().max() for a, b in zip(got, twin, strict=True)]).max())


def rms_norm(dtype, rows=19, width=24):
    """Norm a slice of a wider tensor, with a residual and without."""
    x = random(rows, 2 * width, dtype=dtype)[:, :width]
    weight, residual = random(width, dtype=dtype, seed=1), random(rows, width, dtype=dtype, seed=2)
    got, twins = [], []
    for added in (None, residual):
        twins += TORCH.rms_norm(x.double(), weight.double(), 0.01, None if added is None else added.double())
        got += TritonBackend("cpu").rms_norm(x, weight, 0.01, added)
    return difference(got, twins)


def silu_mul(dtype, rows=19, hidden=21):
    """Gate."""
    x = random(rows, 2 * hidden, dtype=dtype)
    return difference([TritonBackend("cpu").silu_mul(x)], [TORCH.silu_mul(x.double())])


def matmul(dtype, rows=70, inner=138, outer=130):
    """Multiply across the edges of the tiles."""
    x, weight = random(rows, inner, dtype=dtype), random(outer, inner, dtype=dtype, seed=1) / inner**0.5
    product = TritonBackend("cpu", strict=True).linear(x, weight)
    return difference([product], [x.double() @ weight.double().T])


def store_kv(dtype, rows=21, heads=6, kv_heads=3, width=16, block=3):
    """Store slices of one tensor, at slots in random order, in a layer of a cache of two; two rows have no slot.

    A block before the cache and one behind it show what is stored beside it.
    """
    generator = torch.Generator().manual_seed(3)
    both = random(rows, heads + 2 * kv_heads, width, dtype=dtype)
    query, key, value = both.split([heads, kv_heads, kv_heads], 1)
    slots = torch.randperm(30, generator=generator)[:rows].int()
    slots[rows // 5] = slots[rows - 1] = -1
    positions = torch.randint(0, 40, (rows,), generator=generator).int()
    turns = torch.arange(40)[:, None] * torch.rand(width // 2, generator=generator)
    angles = torch.cat((turns.cos(), turns.sin()), 1)
    cache = random(12, 2, 2, kv_heads, block, width, dtype=dtype, seed=4)
    twin = cache.double().clone()
    rotated = TritonBackend("cpu").store_kv(query, key, value, cache[1:11, 1], slots, positions, angles)
    wide = (query.double(), key.double(), value.double())
    return difference([rotated, cache], [TORCH.store_kv(*wide, twin[1:11, 1], slots, positions, angles), twin])


OPERATIONS = {"rms_norm": rms_norm, "silu_mul": silu_mul, "matmul": matmul, "store_kv": store_kv}
"""By the function that launches the kernel."""
