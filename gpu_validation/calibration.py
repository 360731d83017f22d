"""Calibration: time a grid of batches on the device, and fit a cost model to the medians.

    points = grid(SIZES["cuda", False], memory, block)
    measured, interrupted = measure(engine, points, repeats)
    found = fitted(measured, "cuda")

Each request of a point generates a token. Swaps are timed alone, for the fit, and beside work, for its test.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

from costmodels.fitted import Fit, Observation, fit
from gpu_validation.measure import spread
from kvcore.cost import Features

if TYPE_CHECKING:
    from gpu_validation.engine import Engine

VISITS = 3  # how often the grid is gone through
Work = tuple[tuple[int, int], ...]  # (c, m) for each request: it processes c tokens on top of m


@dataclass(frozen=True)
class Point:
    """A batch that is timed."""

    label: str
    work: Work
    swap_out: int = 0
    swap_in: int = 0

    @property
    def features(self) -> Features:
        """The features of the batch, as the referee counts them."""
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
        """Its name in tables."""
        counts = {shape: self.work.count(shape) for shape in dict.fromkeys(self.work)}
        parts = [f"{n} x {c} at {m}" for (c, m), n in counts.items()]
        parts += [f"{k} {way}" for k, way in ((self.swap_out, "out"), (self.swap_in, "in")) if k]
        return ", ".join(parts)

    def memory(self, block: int) -> int:
        """Return the tokens of its blocks on the device."""
        tokens = [c + m for c, m in self.work] + [self.swap_out, self.swap_in]
        return sum(-(-count // block) * block for count in tokens)


@dataclass(frozen=True)
class GridSizes:
    """The parts of a grid (the standard ones: `SIZES`); what exceeds the memory is left out."""

    batches: Sequence[int]  # requests in a batch of decodes ..
    contexts: Sequence[int]  # .. each with so much KV
    chunks: Sequence[int]  # tokens of a prefill ..
    offsets: Sequence[int]  # .. on top of so many
    prompts: Sequence[tuple[int, int]]  # (requests, tokens) of whole prompts in a batch
    moves: Sequence[int]  # tokens swapped
    mixed: Sequence[tuple[int, int, int]]  # (decodes, their KV, tokens of the prefill beside them)
    busy: tuple[int, int]  # (requests, KV) of the decodes that swaps are timed beside


SIZES = {
    ("cuda", False): GridSizes(
        (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256), (128, 512, 1024, 2048, 4096, 8192),
        (16, 32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096), (0, 1024, 6144), ((4, 64), (8, 256), (4, 1024)),
        (64, 256, 512, 1024, 2048, 2560, 4096, 8192),
        tuple((*beside, c) for beside in ((8, 1024), (32, 2048), (64, 2048), (128, 512))
              for c in (64, 256, 512, 1024, 2048)),
        (64, 2048),
    ),
    ("cuda", True): GridSizes(
        (1, 8, 32, 64, 128), (512, 2048, 8192), (32, 128, 256, 512, 2048), (0, 2048), ((4, 256),),
        (256, 1024, 2048, 4096), ((8, 1024, 256), (64, 2048, 64), (64, 2048, 512)), (64, 2048),
    ),
    ("cpu", False): GridSizes(
        (1, 2, 3, 4, 8), (64, 512, 1024, 1536, 2048), (2, 16, 32, 64, 128, 256, 512, 1024, 1536, 2048),
        (0, 512, 1024, 1920), ((2, 64), (4, 128), (2, 512), (2, 1024), (2, 1500)), (64, 512, 1024, 2048, 4096),
        ((1, 2048, 8), (2, 2048, 8), (1, 1024, 32), (2, 2048, 64), (1, 512, 256), (2, 1024, 512), (1, 2048, 2048),
         (2, 1500, 2000), (4, 512, 128)), (2, 1024),
    ),
    ("cpu", True): GridSizes(
        (1, 4, 8), (16, 128), (8, 32, 128), (0, 64), ((4, 16),), (64, 512), ((2, 64, 16), (8, 64, 32)), (8, 64)
    ),
}  # fmt: skip
"""By device type, and whether it has to be quick; a CPU's are for the models small and tiny."""


def grid(sizes: GridSizes, memory: int, block: int) -> list[Point]:
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
    def observation(self) -> Observation:
        """The observation for the fit."""
        return Observation(self.point.features, self.seconds, self.point.label)

    @property
    def noise(self) -> float:
        """Seconds between the two quantiles."""
        return float(self.spread["seconds_p90"] - self.spread["seconds_p10"])


class Timings:
    """Points of a grid and their times so far, taken a visit at a time.

    The order is seeded, and reversed from visit to visit, so a drift falls on all kinds alike. The points that need
    most memory go first, untimed: the engine reserves it once.
    """

    def __init__(self, engine: Engine, points: Sequence[Point], runs: int = 2, seed: int = 0, block: int = 16) -> None:
        self.engine, self.points, self.runs, self.block = engine, points, runs, block
        self.samples: list[list[float]] = [[] for _ in points]
        self.order = random.Random(seed).sample(range(len(points)), len(points))
        for size in (lambda point: point.memory(1), lambda point: point.swap_out + point.swap_in):
            self._time(max(points, key=size), 1)

    def _time(self, point: Point, runs: int) -> list[float]:
        return self.engine.time_batch(point.work, point.swap_out, point.swap_in, runs, block=self.block)

    def visit(self, go_on: Callable[[], bool] = lambda: True) -> None:
        """Time every point while `go_on()` says so."""
        for k in self.order:
            if go_on():
                self.samples[k] += self._time(self.points[k], self.runs)
        self.order.reverse()

    def measured(self) -> list[Measured]:
        """Return the timed points."""
        return [Measured(p, tuple(found)) for p, found in zip(self.points, self.samples, strict=True) if found]


def measure(
    engine: Engine, points: Sequence[Point], repeats: int, seed: int = 0, time_limit: float = math.inf,
    clock: Callable[[], float] = time.monotonic, block: int = 16, told: Callable[[int, int], None] = lambda k, n: None,
) -> tuple[list[Measured], bool]:  # fmt: skip
    """Time the points on an engine, until Ctrl-C or SIGTERM: return the times, and whether that came.

    Each is timed in VISITS visits of repeats / VISITS runs (rounded up, at least 2), none begun after `time_limit`
    seconds; untimed points are left out. `told` hears the batches done, of how many.
    """
    started, behind = clock(), count()
    timings = Timings(engine, points, max(2, -(-repeats // VISITS)), seed, block)

    def go_on() -> bool:
        told(next(behind), VISITS * len(points))
        return clock() - started < time_limit

    try:
        for _ in range(VISITS):
            timings.visit(go_on)
    except KeyboardInterrupt:
        return timings.measured(), True
    return timings.measured(), False


def fitted(measured: Sequence[Measured], device: str, seed: int = 0) -> Fit:
    """Return the fit to the medians: transfers beside the work on a GPU, before it on a CPU."""
    seen = [one.observation for one in measured]
    return fit(seen, transfers="overlapped" if device == "cuda" else "sync", seed=seed)
