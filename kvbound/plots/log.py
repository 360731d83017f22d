"""How a solve went: the best value and the best bound against time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvbound.plots import style
from kvbound.units import Units, units_of_row
from kvcore.errors import BadInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOOKS = {"value": style.VERMILLION, "bound": style.BLUE}


def plot_log(row: Mapping[str, Any], path: str | Path | None = None, units: Units | None = None) -> Figure:
    """Draw two step lines of the `log` of a row of `solve`, value above bound, and write them to `path`.

    `units` are those of the instance (None: what suits the values). BadInput: the row has no log.
    """
    if not row.get("log"):
        raise BadInput("there is nothing to draw: the row has no log of values and bounds")
    units = units_of_row(row) if units is None else units
    with style.sheet(6, 3, path) as figure:
        ax = figure.subplots()
        for what, colour in LOOKS.items():
            known = [(entry["seconds"], entry[what]) for entry in row["log"] if what in entry]
            known += [(row["seconds"], known[-1][1])] if known else []
            heights = [float(units.size(value, row["objective"])) for _, value in known]
            ax.step([seconds for seconds, _ in known], heights, where="post", color=colour, label=what, linewidth=1)
        ax.set_xlim(0, None)
        ax.set_xlabel("seconds")
        ax.set_ylabel(f"{row['objective']} ({units.of(row['objective'])})")
        style.tidy(ax)
        figure.legend(*ax.get_legend_handles_labels(), loc="outside right upper", **style.LEGEND)
    return figure
