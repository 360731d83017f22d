"""What the compiler makes of the kernels for a Hopper GPU (sm_90): registers, spills, shared memory, instructions.

No GPU is needed. `python -m benchmarks.compiled [--all]` prints the table, a line for each shipped variant.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from gpu_validation.kernels import matmul, paged_attention, rms_norm, silu_mul, store_kv
from gpu_validation.kernels.launch import INDICES, INTERPRETED
from gpu_validation.kernels.variants import VARIANTS, Variant
from kvcore.errors import BadInput

HOPPER = GPUTarget("cuda", 90, 32)
TYPES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}
SUMS = ("partial", "lse", "angles")

SHAPES = (
    *((64, 16, 4), (128, 16, 4), (16, 16, 4), (32, 16, 4)),
    *((64, 1, 4), (64, 3, 4), (64, 64, 4), (64, 16, 1), (64, 16, 2), (64, 16, 8), (64, 16, 3)),
    *((128, 1, 1), (128, 64, 8), (16, 1, 8)),
)
"""(D, BS, heads that share a KV head): each varied alone, and some corners."""


@dataclass(frozen=True)
class Source:
    """A kernel with its constants, as the launch functions pass them."""

    name: str
    shape: str
    kernel: Any
    constants: dict[str, Any]
    dtype: str
    warps: int
    stages: int = 3


@dataclass(frozen=True)
class Compiled:
    """What came out. Bytes a thread for `spilled` (its stack), bytes a program for `shared`."""

    registers: int
    spilled: int
    shared: int
    wgmma: int
    mma: int
    copies: dict[int, int]  # how many asynchronous copies from memory (cp.async) there are, by the bytes of each
    waits: tuple[int, ...]  # how many groups of copies may still be on their way, at each wait of a loop or after it


def compile_source(source: Source) -> Compiled:
    """Compile a kernel for Hopper and read what came out of its PTX and of its binary."""
    if INTERPRETED:
        raise BadInput("TRITON_INTERPRET is set: unset it to compile the kernels")
    names = source.kernel.arg_names
    signature = {name: _type(name, source) for name in names}
    fixed = {parameter.name for parameter in source.kernel.params if parameter.do_not_specialize}
    aligned = [
        i
        for i, name in enumerate(names)
        if (signature[name][0] == "*" or name.endswith("_stride")) and name not in fixed
    ]
    attributes = {(i,): [["tt.divisibility", 16]] for i in aligned}
    ast = ASTSource(source.kernel, signature, source.constants, attributes)
    options = {"num_warps": source.warps, "num_stages": source.stages}
    made = triton.compile(ast, target=HOPPER, options=options)
    registers, spilled = _resources(made.asm["cubin"])
    ptx = made.asm["ptx"]
    sizes = [int(size, 0) for size in re.findall(r"cp\.async\.c[ag]\.shared\.global [^;]*?\], (\w+)", ptx)]
    return Compiled(
        registers,
        spilled,
        made.metadata.shared,
        len(re.findall(r"wgmma\.mma_async", ptx)),
        len(re.findall(r"mma\.sync", ptx)),
        {size: sizes.count(size) for size in sorted(set(sizes))},
        tuple(int(groups, 0) for groups in re.findall(r"cp\.async\.wait_group\s+(\w+)", ptx)),
    )


def attention(variant: Variant, dtype: torch.dtype, width: int, block: int, group: int, kv_heads: int = 8) -> Source:
    """Return the source of one variant of attention."""
    constants = paged_attention.attention_constants(variant, kv_heads, group, width, block)
    shape = f"D {width}, BS {block}, GQA {group}"
    types = {"UPCAST": False, "ACC": tl.float32}
    kernel = paged_attention.attention_kernel
    name = f"attention {variant.name}"
    return Source(name, shape, kernel, {**constants, **types}, TYPES[dtype], variant.warps, variant.stages)


def attentions(*, everything: bool) -> Iterator[Source]:
    """Yield the variants in the dtypes of a GPU: at two shapes, or at all of `SHAPES`."""
    for (_, size), variant in VARIANTS.items():
        dtypes = [dtype for dtype in TYPES if dtype.itemsize == size and (everything or dtype != torch.float16)]
        for dtype, shape in product(dtypes, SHAPES if everything else SHAPES[:2]):
            yield attention(variant, dtype, *shape)


def others(dtype: torch.dtype = torch.bfloat16) -> Iterator[Source]:
    """Yield the small kernels in the shapes of a model of 1 billion: 32 heads on 8, D 64, width 2048, hidden 8192."""
    name, acc = TYPES[dtype], {"ACC": tl.float32}
    combine = paged_attention.combine_constants(VARIANTS["decode", dtype.itemsize], 32, 4, 64)
    yield Source("combine", "32 heads, D 64", paged_attention.combine_kernel, {**combine, **acc}, name, 4)
    heads = store_kv.constants(32, 8, 64, 16)
    yield Source("store_kv", "32 + 8 heads, D 64, BS 16", store_kv.store_kv_kernel, {**heads, **acc}, name, 4)
    norm = {**rms_norm.constants(2048), "ADDS": True, **acc}
    yield Source("rms_norm", "width 2048", rms_norm.rms_norm_kernel, norm, name, 4)
    yield Source("silu_mul", "hidden 8192", silu_mul.silu_mul_kernel, {**silu_mul.constants(8192), **acc}, name, 4)
    product_ = {"IN": 2048, "OUT": 8192, **matmul.constants(dtype), "UPCAST": False, **acc}
    yield Source("matmul", "2048 to 8192", matmul.matmul_kernel, product_, name, 4)


def table(sources: Iterator[Source]) -> Iterator[str]:
    """Yield the lines of the table in Markdown."""
    yield "| kernel | dtype | shape | warps | registers | spilled bytes | shared KiB | products | cp.async |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for source in sources:
        made = compile_source(source)
        products = "wgmma" if made.wgmma else "mma.sync" if made.mma else "-"
        copies = ", ".join(f"{size} B" for size in made.copies) or "-"
        sizes = f"{made.registers} | {made.spilled} | {made.shared / 1024:.1f}"
        yield (
            f"| {source.name} | {source.dtype} | {source.shape} | {source.warps} | {sizes} | {products} | {copies} |"
        )


def _type(name: str, source: Source) -> str:
    if name in source.constants:
        return "constexpr"
    if name in INDICES:
        return "*i32"
    if name in SUMS:
        return "*fp32"
    if name in ("rows", "splits") or name.endswith("_stride"):
        return "i32"
    return "fp32" if name in ("scale", "epsilon") else f"*{source.dtype}"


def _resources(binary: bytes) -> tuple[int, int]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.cubin")
        file.write_bytes(binary)
        command = [triton.knobs.nvidia.cuobjdump.path, "-res-usage", str(file)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", said)
    if found is None:
        raise RuntimeError(f"cuobjdump said nothing about registers: {said!r}")
    return int(found[1]), int(found[2]) + int(found[3])


def main() -> None:
    """Print the table."""
    everything = "--all" in sys.argv[1:]
    for source in (attentions(everything=everything), others()):
        for line in table(source):
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
