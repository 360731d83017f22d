"""Calibration: time a grid of batches on the device, and fit a cost model to the medians.

    points = grid(SIZES["cuda", False], memory, block)
    measured, interrupted = measure(engine, points, repeats)
    found = fit([Observation(one.point.features, one.seconds, one.point.label) for one in measured])

A point is a batch whose requests each process all their pending tokens, so each generates one. Swaps are timed alone
and beside work; the fit sees them alone, and is tested on those beside work.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpu_validation.measure import spread
from kvcore.cost import Features

if TYPE_CHECKING:
    from gpu_validation.engine import Engine

VISITS = 3
"""How often the grid is gone through."""
Work = tuple[tuple[int, int], ...]
"""(c, m) for each request: it processes c tokens on top of m."""


@dataclass(frozen=True)
class Point:
    """A batch that is timed."""

    label: str
    work: Work
    swap_out: int = 0
    swap_in: int = 0

    @property
    def features(self) -> Features:
        """What a cost may depend on, as the referee counts it."""
        decodes = [m for c, m in self.work if c == 1 and m > 0]
        prefills = [(c, m) for c, m in self.work if not (c == 1 and m > 0)]
        return Features(
            busy=int(bool(self.work)), any_decode=int(bool(decodes)), any_prefill=int(bool(prefills)),
            tokens=sum(c for c, _ in self.work), generated=len(self.work), decode_requests=len(decodes),
            prefill_requests=len(prefills), decode_kv=sum(decodes), prefill_kv=sum(m for _, m in prefills),
            prefill_pairs=sum(c * c + 2 * c * m for c, m in prefills), swap_out_tokens=self.swap_out,
            swap_in_tokens=self.swap_in, swap_outs=int(self.swap_out > 0), swap_ins=int(self.swap_in > 0),
        )  # fmt: skip

    @property
    def name(self) -> str:
        """What tables call it."""
        counts = {shape: self.work.count(shape) for shape in dict.fromkeys(self.work)}
        parts = [f"{n} x {c} at {m}" for (c, m), n in counts.items()]
        parts += [f"{k} {way}" for k, way in ((self.swap_out, "out"), (self.swap_in, "in")) if k]
        return ", ".join(parts)

    def memory(self, block: int) -> int:
        """Return the tokens of the blocks that it occupies on the device."""
        tokens = [c + m for c, m in self.work] + [self.swap_out, self.swap_in]
        return sum(-(-count // block) * block for count in tokens)


@dataclass(frozen=True)
class Sizes:
    """What a grid consists of (the standard ones are in `SIZES`); what does not fit into the memory is left out."""

    batches: Sequence[int]
    """Requests in a batch of decodes .."""
    contexts: Sequence[int]
    """.. each with so much KV."""
    chunks: Sequence[int]
    """Tokens of a prefill .."""
    offsets: Sequence[int]
    """.. on top of so many."""
    prompts: Sequence[tuple[int, int]]
    """(requests, tokens) of whole prompts in a batch."""
    moves: Sequence[int]
    """Tokens swapped."""
    mixed: Sequence[tuple[int, int, int]]
    """(decodes, their KV, tokens of the prefill beside them)."""
    busy: tuple[int, int]
    """(requests, KV) of the decodes that swaps are timed beside."""


SIZES = {
    ("cuda", False): Sizes(
        (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256), (128, 512, 1024, 2048, 4096, 8192),
        (16, 32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096), (0, 1024, 6144), ((4, 64), (8, 256), (4, 1024)),
        (64, 256, 512, 1024, 2048, 2560, 4096, 8192),
        tuple((*beside, c) for beside in ((8, 1024), (32, 2048), (64, 2048), (128, 512))
              for c in (64, 256, 512, 1024, 2048)),
        (64, 2048),
    ),
    ("cuda", True): Sizes(
        (1, 8, 32, 64, 128), (512, 2048, 8192), (32, 128, 256, 512, 2048), (0, 2048), ((4, 256),),
        (256, 1024, 2048, 4096), ((8, 1024, 256), (64, 2048, 64), (64, 2048, 512)), (64, 2048),
    ),
    ("cpu", False): Sizes(
        (1, 2, 4, 8, 16), (16, 64, 128, 256), (4, 8, 16, 32, 64, 128), (0, 64, 128), ((2, 8), (4, 16), (8, 16)),
        (64, 256, 1024), ((2, 64, 16), (4, 64, 32), (4, 128, 64), (8, 64, 16), (8, 128, 64)), (8, 64),
    ),
    ("cpu", True): Sizes(
        (1, 4, 8), (16, 128), (8, 32, 128), (0, 64), ((4, 16),), (64, 512), ((2, 64, 16), (8, 64, 32)), (8, 64)
    ),
}  # fmt: skip
"""By the type of the device, and whether it has to be quick; those of the CPU are for the tiny model."""


def grid(sizes: Sizes, memory: int, block: int) -> list[Point]:
    """Return the points that fit into `memory` tokens in blocks of `block`, each once."""
    busy = ((1, sizes.busy[1]),) * sizes.busy[0]
    points = [Point("decode", ((1, m),) * n) for n in sizes.batches for m in sizes.contexts]
    points += [Point("prefill", ((c, m),)) for c in sizes.chunks for m in sizes.offsets]
    points += [Point("prefill", ((c, 0),) * n) for n, c in sizes.prompts]
    points += [Point("mixed", (*((1, m),) * n, (c, 0))) for n, m, c in sizes.mixed]
    points += [Point("decode", busy)]
    for k in sizes.moves:
        moves = ((k, 0), (0, k), (k, k))
        points += [Point("swap", (), out, back) for out, back in moves]
        points += [Point("swap beside work", busy, out, back) for out, back in moves]
    return [point for point in dict.fromkeys(points) if point.memory(block) <= memory]


@dataclass(frozen=True)
class Measured:
    """A point and the seconds of its runs."""

    point: Point
    samples: tuple[float, ...]

    @cached_property
    def spread(self) -> dict[str, Any]:
        """The median and the 10 and 90 % quantiles."""
        return spread(self.samples)

    @property
    def seconds(self) -> float:
        """The median."""
        return float(self.spread["seconds_median"])

    @property
    def noise(self) -> float:
        """Seconds between the two quantiles."""
        return float(self.spread["seconds_p90"] - self.spread["seconds_p10"])

    def row(self, predicted: float, floor: float) -> dict[str, Any]:
        """Return a flat record: what it was, how long it took, what the fit says, and the least it could take.

        `error` is (predicted - measured) / measured.
        """
        return {
            "label": self.point.label, "batch": self.point.name,
            **{name: getattr(self.point.features, name) for name in COUNTS}, **self.spread,
            "predicted": predicted, "error": predicted / self.seconds - 1, "floor": floor,
            "over_floor": self.seconds / floor,
        }  # fmt: skip


COUNTS = ("tokens", "decode_requests", "prefill_requests", "decode_kv", "prefill_kv", "swap_out_tokens",
          "swap_in_tokens")  # fmt: skip
"""The features that a row holds."""


def measure(
    engine: Engine, points: Sequence[Point], repeats: int, seed: int = 0, time_limit: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[list[Measured], bool]:  # fmt: skip
    """Time the points on an engine, until Ctrl-C or SIGTERM: return what was timed, and whether that came.

    Each is timed in VISITS visits of repeats / VISITS runs (rounded up, at least 2). The order is random but seeded,
    and turned round from visit to visit: a drift of the clocks or a burst of other work falls on all kinds alike. The
    points that need most on the device and on the host go first, untimed, to make the engine reserve its memory once.
    After `time_limit` seconds nothing is timed; points without a time are left out.
    """
    started, runs = clock(), max(2, -(-repeats // VISITS))
    for size in (lambda point: point.memory(1), lambda point: point.swap_out + point.swap_in):
        most = max(points, key=size)
        engine.time_batch(most.work, most.swap_out, most.swap_in, 1)
    order = random.Random(seed).sample(range(len(points)), len(points))
    samples: list[list[float]] = [[] for _ in points]
    interrupted = False
    try:
        for k in (k for visit in range(VISITS) for k in order[:: 1 if visit % 2 == 0 else -1]):
            if clock() - started < time_limit:
                samples[k] += engine.time_batch(points[k].work, points[k].swap_out, points[k].swap_in, runs)
    except KeyboardInterrupt:
        interrupted = True
    return [Measured(point, tuple(found)) for point, found in zip(points, samples, strict=True) if found], interrupted
