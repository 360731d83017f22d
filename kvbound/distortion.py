"""How coarsening changes the sizes of an instance."""

from __future__ import annotations

from typing import NamedTuple

from kvcore.errors import BadInput
from kvcore.instance import Instance
from kvcore.stream import sizes_of


class Distortion(NamedTuple):
    """Sizes of an instance after coarsening over those before, both in fine tokens and ticks.

    `peaks`: the sum of all requests' peaks; `times`: that of their tokens and calls, each token in one tick; `memory`:
    the device's (1: no limit).
    """

    peaks: float
    times: float
    memory: float


def distortion(fine: Instance, coarse: Instance) -> Distortion:
    """Return the distortion of `fine` in its `coarse` version."""
    grid = coarse.coarsening
    if grid is None:
        raise BadInput(f"{coarse.name} was not coarsened")
    before, after = sizes_of(fine), sizes_of(coarse)
    times = [sizes.decode_tokens + sizes.call_ticks for sizes in (before, after)]
    limits = fine.machine.memory, coarse.machine.memory
    return Distortion(
        grid.block_tokens * after.sum_of_peaks / before.sum_of_peaks,
        grid.slot_ticks * times[1] / times[0],
        1.0 if limits[0] is None or limits[1] is None else grid.block_tokens * limits[1] / limits[0],
    )
