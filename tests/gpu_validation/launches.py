"""Every launch of a backend through Triton's own binding of arguments, up to the compiled kernel; no GPU is needed.

Run by test_compile.py in a Python without the interpreter; prints (kernel, grid) of each launch, then how often each
kernel was compiled for other arguments.
"""

import json

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from gpu_validation.kernels import backend, paged_attention, store_kv

HEADS, KV_HEADS, WIDTH, BLOCK, HIDDEN = 8, 2, 64, 16, 512
LAUNCHES = []


class NoGpu:
    """Stands where Triton asks which device is current."""

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=0):
        return 0


def compile_only(kernel, grid):
    """Take the place of a launch."""

    def launch(*arguments, **named):
        LAUNCHES.append((kernel.__name__, grid))
        return kernel.warmup(*arguments, grid=grid, **named)

    return launch


def run_batch(operations, lengths, counts, shift=0):
    """Run the operations of a layer on zeros; the slots begin `shift` numbers into a buffer."""
    rows, dtype = sum(counts), torch.bfloat16
    starts = [sum(counts[:s]) for s in range(len(counts) + 1)]
    x = torch.zeros((rows, HEADS * WIDTH), dtype=dtype)
    weight = torch.zeros(x.shape[1], dtype=dtype)
    normed, residual = operations.rms_norm(x, weight, 1e-5)
    normed, residual = operations.rms_norm(normed, weight, 1e-5, residual)
    fused = torch.zeros(((HEADS + 2 * KV_HEADS) * WIDTH, x.shape[1]), dtype=dtype)
    qkv = operations.linear(normed, fused).unflatten(1, (-1, WIDTH))
    kv = torch.zeros((100, 2, 2, KV_HEADS, BLOCK, WIDTH), dtype=dtype)[:, 1]
    where = torch.arange(rows + shift, dtype=torch.int32)[shift:]
    query, key, value = qkv.split([HEADS, KV_HEADS, KV_HEADS], 1)
    query = operations.store_kv(query, key, value, kv, where, where, torch.zeros((rows, WIDTH)))
    tables = [list(range(-(-length // BLOCK))) for length in lengths]
    operations.prepare(HEADS, KV_HEADS, WIDTH, dtype)
    operations.attention(query, kv, operations.layout(starts, lengths, tables), 0.125)
    operations.silu_mul(torch.zeros((rows, 2 * HIDDEN), dtype=dtype))


def main():
    """Run batches of different sizes, fast and strict."""
    driver.set_active(NoGpu())
    JITFunction.__getitem__ = compile_only
    for strict in (False, True):
        operations = backend.TritonBackend("cpu", strict=strict)
        run_batch(operations, [300, 40, 600], [1, 40, 1])
        run_batch(operations, [17, 16, 1, 65], [1, 16, 1, 3], shift=1)
        run_batch(operations, [5], [1])
    kernels = (paged_attention.attention_kernel, paged_attention.combine_kernel, store_kv.store_kv_kernel)
    compiled = {kernel.__name__: len(kernel.device_caches[0][0]) for kernel in kernels}
    print(json.dumps([LAUNCHES, compiled]))


if __name__ == "__main__":
    main()
