"""How far each policy and solver of a sweep is from the best bound proved."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from kvcore.contradiction import contradiction
from sweeps.cell import CellRow
from sweeps.store import proved


@dataclass
class SummaryRow:
    """One policy or solver on one family: numbers of cells, and the ratios value / bound."""

    label: str
    objective: str
    run: str
    cells: int = 0
    failed: int = 0
    optimal: int = 0  # cells whose value a certificate of any cell meets
    claimed: int = 0  # cells whose value only a claim meets
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
        return vars(self) | {"ratios": len(self.ratios), "mean_ratio": mean, "worst_ratio": worst}


def summarise(rows: Sequence[CellRow]) -> list[SummaryRow]:
    """Return a line for each family and run, in the order of the rows.

    A value is divided by the largest proved bound of its instance and objective. Contradiction if it is below.
    """
    bounds, lines = best_bounds(rows), dict[tuple[str, str, str], SummaryRow]()
    for row in rows:
        what = (row["label"], row["objective"], run_name(row))
        line = lines.setdefault(what, SummaryRow(*what))
        line.cells += 1
        line.failed += "error" in row
        best = bounds.get(_place(row))
        if row["value"] is not None and best is not None:
            value, bound = Fraction(row["value"]), Fraction(best["bound"])
            if value < bound:
                raise contradiction(f"{line.run} has {value}, and {best['run']} proves {bound}", value=row, bound=best)
            certified = best["certified_bound"] is not None and value == Fraction(best["certified_bound"])
            line.optimal += certified
            line.claimed += value == bound and not certified
            line.ratios += [value / bound] if bound > 0 else []
    return list(lines.values())


def best_bounds(rows: Iterable[CellRow]) -> dict[tuple[str | None, str], CellRow]:
    """Return the row of the largest proved bound, certified before claimed, by instance and objective."""
    best: dict[tuple[str | None, str], CellRow] = {}
    for row in filter(proved, rows):
        both = best.get(_place(row), row), row
        best[_place(row)] = max(both, key=lambda one: (Fraction(one["bound"]), Fraction(one["certified_bound"] or 0)))
    return best


def run_name(row: CellRow) -> str:
    """Return what was run, with what tells it from others of its name."""
    options = row["options"]
    believed = options.get("predictions", "exact")
    words = [row["run"], str(believed), "free calls" if row["handling_mode"] == "free" else "exact"]
    return ", ".join(word for word in words if word != "exact")


def _place(row: CellRow) -> tuple[str | None, str]:
    return row["instance_sha256"], row["objective"]
