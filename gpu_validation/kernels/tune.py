"""Time other tile sizes than the table's on a GPU: `python -m gpu_validation.kernels.tune decode|prefill [D]`.

The table in `variants` is edited by hand from what this prints. Llama-like shapes in bf16: 32 heads on 8 KV heads,
blocks of 16 tokens in random order.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import torch
import triton
from torch import Tensor

from gpu_validation.backend import Layout, TorchBackend
from gpu_validation.kernels.launch import accumulator
from gpu_validation.kernels.paged_attention import attend
from gpu_validation.kernels.variants import VARIANTS, Variant, work_list
from kvcore.errors import BadInput

Clock = Callable[[Callable[[], Tensor]], float]
"""Returns the milliseconds of a call."""


@dataclass(frozen=True)
class Question:
    """A batch to time: requests with so much KV each, so many rows of it new; the sizes of the model and of a block."""

    requests: int
    length: int
    rows: int
    width: int = 64
    heads: int = 32
    kv_heads: int = 8
    block: int = 16

    def bytes_read(self, size: int) -> int:
        """Return the bytes of KV."""
        return 2 * self.requests * self.length * self.kv_heads * self.width * size

    def operations(self) -> int:
        """Return the floating-point operations: two products for each query and key that it sees."""
        before = self.length - self.rows
        pairs = self.requests * (self.rows * before + self.rows * (self.rows + 1) // 2)
        return 4 * pairs * self.heads * self.width


QUESTIONS = {"decode": (Question(64, 4096, 1), Question(1, 8192, 1)), "prefill": (Question(1, 8192, 8192),)}
"""A large decode reads 512 MiB of KV at D 64, a small one fills the GPU badly."""


def candidates(role: str) -> Iterator[Variant]:
    """Yield variants for decodes or for prefills, the table's own first."""
    base = VARIANTS[role, 2]
    yield base
    if role == "decode":
        for tile, warps, stages in product((32, 64, 128), (1, 2, 4), (2, 3, 4)):
            yield replace(base, tile=tile, warps=warps, stages=stages)
        yield from (replace(base, split=split) for split in (128, 256, 1024))
    else:
        for block_m, tile, warps, stages in product((64, 128), (32, 64, 128), (4, 8), (2, 3, 4)):
            if block_m * tile // warps <= 2048:  # more scores a warp than that leave no registers
                yield replace(base, block_m=block_m, tile=tile, warps=warps, stages=stages)


@dataclass
class Prepared:
    """The tensors of a question."""

    query: Tensor
    kv: Tensor
    layout: Layout
    starts: list[int]
    lengths: list[int]

    def call(self, variant: Variant) -> Callable[[], Tensor]:
        """Return what attends with a variant and returns the output."""
        heads, group = self.query.shape[1], self.query.shape[1] // self.kv.shape[2]
        work = work_list(self.starts, self.lengths, range(len(self.lengths)), variant.packed(group))
        on_device = torch.tensor(work, dtype=torch.int32, device=self.query.device)
        splits = -(-max(self.lengths) // variant.split) if variant.split else 1
        layout, out = replace(self.layout, splits=splits), torch.empty_like(self.query)
        room = (len(work) * splits * heads, self.query.shape[2]) if variant.split else (1, 1)
        parts = tuple(
            torch.empty(size, dtype=accumulator(self.query.dtype), device=out.device) for size in (room, room[0])
        )
        scale = self.query.shape[2] ** -0.5

        def attended() -> Tensor:
            attend(self.query, self.kv, layout, on_device, scale, variant, out, (parts[0], parts[1]))
            return out

        return attended


def prepare(question: Question, device: str, dtype: torch.dtype) -> Prepared:
    """Return random tensors for a question."""
    generator = torch.Generator(device).manual_seed(0)
    per_request = -(-question.length // question.block)
    shape = (per_request * question.requests, 2, question.kv_heads, question.block, question.width)
    kv = torch.randn(shape, generator=generator, device=device, dtype=dtype)
    order = torch.randperm(shape[0], generator=generator, device=device)
    tables = order.reshape(question.requests, -1).tolist()
    starts = [question.rows * s for s in range(question.requests + 1)]
    lengths = [question.length] * question.requests
    size = (starts[-1], question.heads, question.width)
    query = torch.randn(size, generator=generator, device=device, dtype=dtype)
    return Prepared(query, kv, TorchBackend(device).layout(starts, lengths, tables), starts, lengths)


def sweep(
    question: Question, variants: Iterable[Variant], device: str, dtype: torch.dtype, clock: Clock
) -> Iterator[str]:
    """Yield a line of Markdown for each variant; what does not fit or compile says so."""
    prepared = prepare(question, device, dtype)
    for variant in variants:
        sizes = f"| {variant.block_m} | {variant.tile} | {variant.split} | {variant.warps} | {variant.stages} "
        try:
            milliseconds = clock(prepared.call(variant))
        except triton.runtime.errors.OutOfResources as error:
            yield f"{sizes}| does not fit: {error} | | |"
            continue
        rates = (question.bytes_read(dtype.itemsize) / 1e9, question.operations() / 1e9)
        speeds = f"{rates[0] / milliseconds:.2f} | {rates[1] / milliseconds:.0f}"
        yield f"{sizes}| {milliseconds:.4f} | {speeds} |"


def main() -> None:
    """Print a table for each question of a role."""
    given = sys.argv[1:]
    role, width = given[0] if given else "decode", int(given[1]) if len(given) > 1 else 64
    if role not in QUESTIONS:
        raise BadInput(f"no role {role!r}; choose {' or '.join(QUESTIONS)}")
    if not torch.cuda.is_available():
        raise BadInput("no GPU is visible to torch: nothing to time")
    for question in (replace(question, width=width) for question in QUESTIONS[role]):
        print(f"\n{question}\n| block_m | tile | split | warps | stages | ms | TB/s | TFLOP/s |\n{'|---' * 8}|")
        for line in sweep(question, candidates(role), "cuda", torch.bfloat16, triton.testing.do_bench_cudagraph):
            print(line, flush=True)


if __name__ == "__main__":
    main()
