"""The variants of the attention kernel: a fixed table, nothing is tuned while timed."""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTHS = (16, 32, 64, 128)  # of a head: a row of a tile is a power of two, and 16-bit products need 16
SMS = 132  # multiprocessors of an H100 or H200 (data sheets): below so many programs tiles are smaller
Work = list[tuple[int, int]]  # what each program does: (request, first row of it)


@dataclass(frozen=True)
class Variant:
    """Tile sizes of one compiled kernel. `rows * group` query rows share a program; `group` heads share a KV head."""

    name: str
    block_m: int  # rows of the tile of queries: 16 gives mma.sync, 64 and more wgmma
    tile: int  # tokens of KV per step, any number of blocks
    split: int  # tokens of KV per program, a multiple of `tile`; 0: all. The size is fixed, not the number of splits.
    warps: int
    stages: int  # tiles of KV on the way from memory, plus one
    strict: bool = False  # one loop with the mask on: the same instructions wherever a row stands in a batch

    def packed(self, group: int) -> int:
        """Return the query rows of a program."""
        return max(1, self.block_m // group)

    def rows(self, group: int) -> int:
        """Return the rows of the tile, at least a group."""
        return max(self.block_m, 1 << (group - 1).bit_length())


HALF = (
    Variant("decode", 16, 64, 512, warps=4, stages=3),
    Variant("decode-few", 16, 64, 256, warps=4, stages=3),
    Variant("prefill", 128, 64, 0, warps=8, stages=3),
    Variant("prefill-few", 64, 64, 0, warps=4, stages=3),
    Variant("strict", 16, 64, 0, warps=4, stages=3, strict=True),
)
"""For bf16 and fp16; also for fp64, in the interpreter only."""

SINGLE = (
    Variant("decode", 16, 32, 512, warps=8, stages=2, strict=True),
    Variant("decode-few", 16, 32, 256, warps=8, stages=2, strict=True),
    Variant("prefill", 16, 32, 0, warps=8, stages=2, strict=True),
    Variant("prefill-few", 16, 32, 0, warps=8, stages=2, strict=True),
    Variant("strict", 16, 32, 0, warps=8, stages=2, strict=True),
)
"""For fp32, whose exact products run outside the tensor cores: for checks, not for speed; nothing spills."""

VARIANTS = {(variant.name, size): variant for size, table in ((2, HALF), (4, SINGLE), (8, HALF)) for variant in table}


@dataclass(frozen=True)
class HeadShape:
    """The model's shape: heads per KV head, KV heads, width, bytes of a number."""

    group: int
    kv_heads: int
    width: int
    size: int


def variant_for(role: str, counts: Sequence[int], shape: HeadShape) -> Variant:
    """Return the variant for decodes with this much KV each, or for prefills with this many rows each.

    With few programs it has smaller splits or tiles.
    """
    variant = VARIANTS[role, shape.size]
    programs = shape.kv_heads * sum(-(-count // (variant.split or variant.packed(shape.group))) for count in counts)
    return variant if programs >= (4 if variant.split else 1) * SMS else VARIANTS[f"{role}-few", shape.size]


def work_list(starts: Sequence[int], lengths: Sequence[int], requests: Sequence[int], packed: int) -> Work:
    """Return the programs of some requests, `packed` rows each, the most KV first."""
    work = []
    for s in requests:
        count = starts[s + 1] - starts[s]
        work += [(lengths[s] - count + min(first + packed, count), s, first) for first in range(0, count, packed)]
    return [(s, first) for _, s, first in sorted(work, key=lambda item: -item[0])]
