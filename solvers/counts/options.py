"""The options of the search over counts of like requests."""

from __future__ import annotations

from dataclasses import dataclass

from bounds.options import Options, option


@dataclass(frozen=True)
class CountOptions(Options):
    """The search over counts of like requests: prices of the pools, and passes through layers of states."""

    most_vectors: int = option(400_000, "fillings of the memory beyond which like requests are not counted")
    many_vectors: int = option(50_000, "fillings beyond which prices get a sixth of the rounds")
    few_vectors: int = option(2_000, "fillings up to which prices are found at once")
    few_batches: int = option(40, "batches, about, of the instances in which first prices are found")
    rounds: int = option(60, "evaluations of the bound in one improvement of prices", least=6)
    first_box: float = option(0.08, "how far prices may move at first, as a part of what tokens to go cost")
    precision: float = option(2000.0, "prices are good where no more than a batch's cost divided by this is promised")
    most_starts: int = option(16, "starts in a batch, up to which first schedules are tried", least=0)
    pass_parts: tuple[int, ...] = option(
        (1, 100, 30, 10, 3, 1, 1, 0),
        "a batch's cost by this is how far a pass goes above the bound (0: any)",
        least=0,
    )
    pass_widths: tuple[int, ...] = option(
        (200, 1_000, 3_000, 10_000, 30_000, 100_000, 10**12, 10**12), "states of a layer that a pass follows"
    )
    chunk: int = option(20_000, "states that are expanded at once")
    most_rows: int = option(2_000_000, "states between two steps of one chunk; beyond, the worst are cut", least=2)
    rows_by_width: int = option(30, "and for each state of the width")
