"""Performance profiles: for each policy, the share of values that are at most so many times the best known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvbound.plots import style
from kvcore.errors import BadInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 3.0
"""Times the best known where the axis ends."""


def plot_profile(lines: Sequence[Mapping[str, Any]], path: str | Path | None = None, least: float = 1.0) -> Figure:
    """Draw a step line for each of `library.policies.profile`, highest on the left is best; write it to `path`.

    `ratios` of a line, in order, are values over the best known; those above 3 are beyond the axis, which begins at
    `least`. BadInput: there is no line.
    """
    if not lines:
        raise BadInput("there is nothing to draw: no value has a best known one to compare with")
    with style.sheet(6, 3.6, path) as figure:
        ax = figure.subplots()
        for k, line in enumerate(lines):
            ratios = line["ratios"]
            shares = [(i + 1) / len(ratios) for i in range(len(ratios))]
            look = {"linewidth": 1, "linestyle": ("-", "--", ":", "-.")[k // len(style.SERIES) % 4]}
            colour = style.SERIES[k % len(style.SERIES)]
            label = f"{line['policy']} ({len(ratios)})"
            ax.step([least, *ratios, MOST], [0, *shares, shares[-1]], where="post", color=colour, label=label, **look)
        ax.set_xscale("log")
        ax.set_xlim(least, MOST)
        ax.set_ylim(0, 1.02)
        ticks = [tick for tick in (0.5, 0.7, 1, 1.1, 1.25, 1.5, 2, 2.5, 3) if tick >= least]
        ax.set_xticks(ticks, [style.number(tick) for tick in ticks], minor=False)
        ax.set_xticks([], minor=True)
        ax.set_xlabel("times the best known")
        ax.set_ylabel("share of values")
        style.tidy(ax)
        figure.legend(*ax.get_legend_handles_labels(), loc="outside right upper", **style.LEGEND)
    return figure
