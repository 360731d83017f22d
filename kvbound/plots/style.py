"""Colours, fonts, numbers on axes, and reproducible files, for all pictures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvcore.errors import BadInput
from kvcore.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
    from matplotlib.lines import Line2D as Line2D
else:
    Axes = Figure = Line2D = Any  # matplotlib is loaded at the first drawing

BLACK, ORANGE, SKY, BLUE = "#000000", "#E69F00", "#56B4E9", "#0072B2"
VERMILLION, PURPLE, GREEN = "#D55E00", "#CC79A7", "#009E73"
"""The colours of Okabe and Ito, which colour-blind readers tell apart."""
WHITE, GREY, LIGHT, PALE, MINT = "#FFFFFF", "#595959", "#E2E2E2", "#D6ECF9", "#99D8C7"
SERIES, MARKERS = (BLUE, ORANGE, VERMILLION, SKY, PURPLE, BLACK), "osv^D<>pX*"  # of several kinds of dots
LEGEND: dict[str, Any] = {"frameon": False, "fontsize": 7, "handleheight": 1.1}
VECTORS = 10_000  # a chart of more bars than this stores them as an image
SMALL = 6.5  # points of the text within a picture
STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.linewidth": 0.6,
    "axes.edgecolor": GREY,
    "axes.titlesize": 8.5,
    "hatch.linewidth": 0.7,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "kvbound",
}
METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Creator": "kvbound", "Date": None},
    "png": {"Software": "kvbound"},
    "pdf": {"Creator": "kvbound", "CreationDate": None},
}
"""The metadata of each kind of file: nothing that changes between runs."""


def applied() -> AbstractContextManager[None]:
    """Use matplotlib's own defaults with STYLE, whatever the user has set, within a `with`."""
    import matplotlib.style

    context: AbstractContextManager[None] = matplotlib.style.context(["default", STYLE])
    return context


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of these inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    setattr(figure, "_repr_svg_", lambda: render(figure).decode())  # noqa: B010 - what a notebook shows of it, for mypy
    return figure


@contextmanager
def sheet(width: float, height: float, path: str | Path | None) -> Iterator[Figure]:
    """Give an empty figure of these inches; save it at the end if a path is given."""
    with applied():
        figure = new_figure(width, height)
        yield figure
    if path is not None:
        save(figure, path)


def dots(k: int) -> dict[str, Any]:
    """Return the look of dots of kind `k`, from 0."""
    return {"color": SERIES[k % len(SERIES)], "marker": MARKERS[k % len(MARKERS)], "markersize": 3}


def new_axes(width: float, height: float) -> Axes:
    """Return the only axes of a new figure of these inches."""
    return new_figure(width, height).subplots()


def save(figure: Figure, path: str | Path) -> None:
    """Write the figure by its suffix, .svg, .png or .pdf. BadInput for another, or if it cannot be written."""
    write_bytes(path, render(figure, kind_of(path)))


def kind_of(path: str | Path) -> str:
    """Return a picture's kind by its suffix; BadInput for an unknown one."""
    suffix = Path(path).suffix.lower()
    if suffix[1:] not in METADATA:
        raise BadInput(f"{path}: a picture is saved as .svg, .png or .pdf, not as {suffix or 'a file without suffix'}")
    return suffix[1:]


def render(figure: Figure, kind: str = "svg") -> bytes:
    """Return the figure as a file: "svg", "png" or "pdf"."""
    buffer = BytesIO()
    with applied():
        figure.savefig(buffer, format=kind, metadata=METADATA[kind])
    return buffer.getvalue()


def tidy(ax: Axes) -> None:
    """Leave a light grid, the axes at the left and below, and short ticks."""
    ax.grid(axis="x", color=LIGHT, linewidth=0.5)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=2.5, width=0.6, labelsize=7, color=GREY)


def legend_above(figure: Figure, ax: Axes, most: int) -> None:
    """Place a legend of an axes above the figure, in at most this many columns."""
    handles, labels = ax.get_legend_handles_labels()
    columns = max(1, min(most, len(labels)))
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False)


def write(ax: Axes, x: float, y: float, text: str, offset: float) -> None:
    """Write at the right of a point, `offset` points off."""
    ax.annotate(
        text, (x, y), xytext=(offset, 0), textcoords="offset points", va="center", fontsize=SMALL, parse_math=False,
        annotation_clip=False,
    )  # fmt: skip


def inches(ax: Axes) -> float:
    """Return the width of the axes before the layout."""
    return float(ax.bbox.width / ax.figure.dpi)


def number(value: float, _: object = None) -> str:
    """Write a number at an axis as it is."""
    return f"{value:,.10g}"


def decimals(largest: float, digits: int) -> int:
    """Return the decimals with which `largest` has this many digits."""
    return max(0, digits - len(str(int(largest))))


def short(name: str, most: int) -> str:
    """Make a label of a name: cut in the middle if longer than `most`."""
    return name if len(name) <= most else f"{name[: most - 7]}…{name[-6:]}"
