"""What a sweep found: how far each policy and solver is from the best bound that the sweep proved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from sweeps.cell import CellRow
from sweeps.store import proved


@dataclass
class SummaryRow:
    """One policy or solver on one family: how many cells, and the ratios value / bound where there is a bound."""

    label: str
    objective: str
    run: str
    cells: int = 0
    failed: int = 0
    optimal: int = 0
    """Cells whose value is the proved optimum, whatever proved it."""
    ratios: list[Fraction] = field(default_factory=list, repr=False)

    @property
    def mean(self) -> Fraction | None:
        """The mean ratio, at least the mean of value / optimum; None without any."""
        return sum(self.ratios, Fraction(0)) / len(self.ratios) if self.ratios else None

    @property
    def worst(self) -> Fraction | None:
        """The largest ratio; None without any."""
        return max(self.ratios, default=None)

    def to_json(self) -> CellRow:
        """Return the line, JSON-ready; ratios are exact fractions in text."""
        mean, worst = (None if ratio is None else str(ratio) for ratio in (self.mean, self.worst))
        return {
            "label": self.label, "objective": self.objective, "run": self.run, "cells": self.cells,
            "failed": self.failed, "optimal": self.optimal, "ratios": len(self.ratios),
            "mean_ratio": mean, "worst_ratio": worst,
        }  # fmt: skip


def summarise(rows: Sequence[CellRow]) -> list[SummaryRow]:
    """Return a line for each family and run, in the order of the rows.

    A value is divided by the largest bound that any row proves of the same instance and objective (calls as they are in
    that instance: one with free calls is another instance).
    """
    bounds, lines = best_bounds(rows), dict[tuple[str, str, str], SummaryRow]()
    for row in rows:
        what = (row["label"], row["objective"], run_name(row))
        line = lines.setdefault(what, SummaryRow(*what))
        line.cells += 1
        line.failed += "error" in row
        bound = bounds.get(_place(row))
        if row["value"] is not None and bound is not None:
            line.optimal += Fraction(row["value"]) == bound
            line.ratios += [Fraction(row["value"]) / bound] if bound > 0 else []
    return list(lines.values())


def best_bounds(rows: Iterable[CellRow]) -> dict[tuple[str | None, str], Fraction]:
    """Return the largest proved bound by the SHA-256 of the instance and the objective."""
    best: dict[tuple[str | None, str], Fraction] = {}
    for row in rows:
        if proved(row):
            best[_place(row)] = max(best.get(_place(row), Fraction(0)), Fraction(row["bound"]))
    return best


def run_name(row: CellRow) -> str:
    """Return what was run, with what tells it from others of its name."""
    options = row["options"]
    believed = options.get("predictions", "exact")
    words = [row["run"], str(believed), "free calls" if row["handling_mode"] == "free" else "exact"]
    return ", ".join(word for word in words if word != "exact")


def _place(row: CellRow) -> tuple[str | None, str]:
    return row["instance_sha256"], row["objective"]
