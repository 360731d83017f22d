"""The ladder: every policy's value beside the proved optimum or the lower bound."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import inf
from typing import NamedTuple

from kvbound.plots import style
from kvbound.plots.frame import far
from kvbound.plots.style import BLACK, BLUE, SKY, WHITE, Axes
from kvbound.tables import Row, Rows
from kvbound.units import Units, units_of_row
from kvcore.errors import BadInput


def ladder(rows: Rows, ax: Axes | None = None, units: Units | None = None) -> Axes:
    """Draw the value of every row as a dot beside the proved optimum or lower bound, the best on top; return the Axes.

    `rows` come from `Result.to_json`, for one objective; a key "label" goes before the name of the policy. Rows on one
    instance form a group, headed by their key "group" if any, measured against the largest bound that a row of the
    group proves (not one with an insufficient horizon). A value that dwarfs the others is a triangle at the edge.
    `units` are the instance's (None: by the values). BadInput for no row, or for rows with several objectives or ticks.
    """
    for key in ("objective", "tick_seconds"):
        found = sorted({str(row[key]) for row in rows})
        if len(found) != 1:
            raise BadInput(f"a ladder needs rows that share one {key}, these have {', '.join(found) or 'none'}")
    groups, scale = _groups(rows), _Scale.of(rows, units)
    with style.applied():
        ax = style.new_axes(6, 0.6 + 0.22 * (len(rows) + 2 * len(groups))) if ax is None else ax
        names: list[tuple[int, str]] = []
        y = 0
        for group in groups:
            _draw_group(ax, group, y, scale)
            labels = (r.get("label") or r["policy"] or r["formulation"] or r["status"] for r in group.rows)
            names += [(y + k, style.short(str(label), 32)) for k, label in enumerate(labels, 1)]
            y += len(group.rows) + 2
        _set_axes(ax, names, f"{rows[0]['objective']} ({scale.unit})")
    return ax


class _Group(NamedTuple):
    rows: list[Row]
    bound: Fraction | None

    @property
    def solved(self) -> bool:
        return self.bound is not None and _fraction(self.rows[0]["value"]) == self.bound

    def heading(self, scale: _Scale) -> str:
        what = "lower bound"
        if self.solved:
            certified = any(_fraction(row.get("certified_bound")) == self.bound for row in self.rows)
            claims = [row.get("proved_by") for row in self.rows if _fraction(row["bound"]) == self.bound]
            what = "optimum" if certified else f"optimum, claimed by {claims[0]}:"
        proved = "no bound is proved" if self.bound is None else f"{what} {scale.text(self.bound)}"
        return ": ".join(text for text in (self.rows[0].get("group"), proved) if text)


def _groups(rows: Rows) -> list[_Group]:
    by_instance: dict[str, list[Row]] = {}
    for row in rows:
        by_instance.setdefault(row["instance_sha256"], []).append(row)
    for group in by_instance.values():
        group.sort(key=lambda row: (row["value"] is None, Fraction(row["value"] or 0)))
    return [_Group(group, max(_bounds(group), default=None)) for group in by_instance.values()]


def _bounds(rows: Rows) -> Iterator[Fraction]:
    for row in rows:
        bound, horizon = _fraction(row["bound"]), row.get("horizon")
        if bound is not None and (horizon is None or horizon["sufficient"]):
            yield bound


def _fraction(value: int | str | None) -> Fraction | None:
    return None if value is None else Fraction(value)


class _Scale(NamedTuple):
    unit: str
    factor: Fraction
    decimals: int
    end: float

    @classmethod
    def of(cls, rows: Rows, units: Units | None) -> _Scale:
        given = [_fraction(row[key]) for row in rows for key in ("value", "bound")]
        values = [value for value in given if value is not None] or [Fraction(0)]
        objective = rows[0]["objective"]
        units = units or units_of_row(max(rows, key=lambda row: Fraction(row["value"] or row["bound"] or 0)))
        factor = Fraction(1) if objective == "late-requests" else units.tick
        drawn = [value * factor for row in rows if (value := _fraction(row["value"])) is not None]
        beyond = far([float(value) for value in drawn])
        near = max((float(value) for value, out in zip(drawn, beyond, strict=True) if not out), default=0)
        whole = all((value * factor).denominator == 1 for value in values)
        decimals = 0 if whole else style.decimals(float(max(values) * factor), 4)
        return cls(units.of(objective), factor, decimals, 1.1 * near if any(beyond) else inf)

    def place(self, value: Fraction | None) -> float:
        return min(float((value or 0) * self.factor), self.end)

    def text(self, value: Fraction) -> str:
        return f"{float(value * self.factor):,.{self.decimals}f}"


def _draw_group(ax: Axes, group: _Group, y: int, scale: _Scale) -> None:
    x = scale.place(group.bound)
    if group.bound is not None:
        ax.vlines(x, y + 0.4, y + len(group.rows) + 0.5, color=BLACK, linewidth=1)
    style.write(ax, x, y, group.heading(scale), offset=0)
    for k, row in enumerate(group.rows, 1):
        _draw_rung(ax, y + k, row, group, scale)


def _draw_rung(ax: Axes, y: int, row: Row, group: _Group, scale: _Scale) -> None:
    value, bound = _fraction(row["value"]), _fraction(row["bound"])
    x = scale.place(value if value is not None else bound if bound is not None else group.bound)
    if value is not None:
        beyond = x == scale.end
        ax.hlines(y, scale.place(group.bound), x, color=SKY, linewidth=2.5, linestyle=":" if beyond else "-")
        ax.plot([x], [y], ">" if beyond else "o", color=BLUE, markersize=5)
        text = f"{scale.text(value)}\u2003{_ratio(value, group)}"
    elif bound is not None:
        ax.plot([x], [y], ">", color=WHITE, markeredgecolor=BLUE, markersize=5)
        text = f"bound {scale.text(bound)}"
    else:
        text = f"{row['status']}: no schedule"
    style.write(ax, x, y, text, offset=6)


def _ratio(value: Fraction, group: _Group) -> str:
    if not group.bound:
        return ""
    ratio = "×1" if value == group.bound else f"×{float(value / group.bound):.3f}"
    return ratio if group.solved else f"≤ {ratio}"


def _set_axes(ax: Axes, names: list[tuple[int, str]], label: str) -> None:
    from matplotlib.ticker import FuncFormatter

    ax.set_yticks([y for y, _ in names], [name for _, name in names], parse_math=False)
    ax.set_ylim(names[-1][0] + 0.7, -0.6)
    ax.xaxis.set_major_formatter(FuncFormatter(style.number))
    ax.set_xlabel(label)
    style.tidy(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
