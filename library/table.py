"""The table of the library, `records/README.md`."""

from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

from jinja2 import Environment

from kvcore.files import write_text
from kvcore.metrics import AVERAGES
from library.families import FAMILIES
from library.library import Library
from library.policies import known_rows, profile

TEMPLATE = Path(__file__).with_name("README.md.jinja")
SIZES = (5, 15, 50, 150, 10**9)
"""Requests of the groups of instances."""
Row = dict[str, Any]


def write_table(library: Library) -> None:
    """Write the table beside the records."""
    with library.locked():
        write_text(library.folder / "README.md", page(library))


def page(library: Library) -> str:
    """Return the table as Markdown."""
    proofs = (row for row in library.tried("proved", "bound") if row["proved"] == "1")
    words = {(row["name"], row["objective"], row["bound"]): row["run"] for row in proofs}
    families: dict[str, list[Row]] = {}
    for record in library.records():
        about = {"origin": record.origin, "licence": record.licence, "tick": library.tick_seconds(record)}
        for row in record.rows():
            word = row["status"] == "open" and words.get((row["name"], row["objective"], str(row["value"])))
            families.setdefault(record.family, []).append(row | about | {"word": word})
    rows = [row for some in families.values() for row in some]
    sizes = {
        f"{low + 1} to {high}" if high < SIZES[-1] else f"above {low}": [r for r in rows if low < r["requests"] <= high]
        for low, high in zip((0, *SIZES), SIZES, strict=False)
    }
    made = Environment(trim_blocks=True, keep_trailing_newline=True)
    made.filters["median"] = median
    return made.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        families=families, sizes=sizes, profile=profile(known_rows(library)), named=_named,
        what={name: family.what for name, family in FAMILIES.items()},
    )  # fmt: skip


def _named(value: int | str | None, row: Row) -> str:
    if value is None:
        return "-"
    if row["objective"] == "late-requests":
        return f"{value} late"
    number = f"{float(Fraction(value) * row['tick']):,.6f}".rstrip("0").rstrip(".")
    return f"{number} {'ticks' if row['tick'] == 1 else 's'}{' per token' * (row['objective'] in AVERAGES)}"


if __name__ == "__main__":
    write_table(Library())
