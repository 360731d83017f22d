"""The table of the library, `records/README.md`."""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import groupby
from statistics import median
from typing import Any

from kvcore.files import write_text
from kvcore.metrics import AVERAGES
from library.families import FAMILIES
from library.library import Library
from library.policies import WITHIN, known_rows, profile

HEAD = """# The best known

Written by `kvbound library submit` and `python -m library.table`; [the library](../../docs/library.md) says what it is
and how to hand something in. A gap is (value - bound) / bound, of schedules and certificates in this folder; solved is
what has none. `By word` are those open ones that a way claims to be optimal, without a certificate (`tried.csv`)."""
SIZES = (5, 15, 50, 150, 10**9)
"""Requests of the groups of instances."""


def write_table(library: Library) -> None:
    """Write the table beside the records."""
    with library.locked():
        write_text(library.folder / "README.md", page(library))


def page(library: Library) -> str:
    """Return the table as Markdown."""
    proofs = (row for row in library.tried("proved", "bound") if row["proved"] == "1")
    words = {(row["name"], row["objective"], row["bound"]): row["run"] for row in proofs}
    rows = [
        row
        | {
            "word": row["status"] == "open" and words.get((row["name"], row["objective"], str(row["value"]))),
            "tick": library.tick_seconds(record),
        }
        for record in library.records()
        for row in record.rows()
    ]
    families = {record.family: record for record in library.records()}
    parts = [
        HEAD, *_heading("By family", ("family", "what", "from", "licence", "instances", *COUNTS)),
        *(_line(f"[{name}](#{name})", FAMILIES[name].what if name in FAMILIES else "", record.origin, record.licence,
                len({row["name"] for row in mine}), *_counts(mine))
          for name, record in families.items() for mine in [[row for row in rows if row["family"] == name]]),
        *_heading("By size", ("requests", *COUNTS)),
        *(_line(f"{low + 1} to {high}" if high < SIZES[-1] else f"above {low}", *_counts(mine))
          for low, high in zip((0, *SIZES), SIZES, strict=False)
          for mine in [[row for row in rows if low < row["requests"] <= high]]),
        *_policies(library), *_records(rows),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


COUNTS = ("values and bounds", "solved", "by word", "median gap", "largest gap")


def _counts(rows: Sequence[dict[str, Any]]) -> tuple[object, ...]:
    gaps = [row["gap"] for row in rows if row["gap"] is not None]
    solved = sum(row["status"] == "solved" for row in rows)
    return (
        len(rows),
        solved,
        sum(bool(row["word"]) for row in rows),
        *(map(_percent, (median(gaps), max(gaps))) if gaps else ("-", "-")),
    )


def _policies(library: Library) -> Iterator[str]:
    lines = profile(known_rows(library))
    if not lines:
        return
    head = ("policy", "values", "median", "worst", *(f"within {limit}" for limit in WITHIN))
    yield from _heading("Policies over the best known", head)
    for line in lines:
        shares = (_percent(line["within"][limit]) for limit in WITHIN)
        yield _line(line["policy"], line["values"], f"{line['median']:.3f}", f"{line['worst']:.2f}", *shares)


def _records(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    for family, mine in groupby(rows, key=lambda row: row["family"]):
        yield from _heading(family, ("instance", "requests", "calls", "objective", "value", "bound", "gap"))
        for row in mine:
            known = (_named(row[name], row["objective"], row["tick"]) for name in ("value", "bound"))
            gap = "solved" if row["status"] == "solved" else _percent(row["gap"])
            gap += f", claimed by `{row['word']}`" if row["word"] else ""
            yield _line(f"`{row['name']}`", row["requests"], row["calls"], row["objective"], *known, gap)


def _heading(title: str, columns: Sequence[str]) -> Iterator[str]:
    yield from ("", f"## {title}", "", _line(*columns), "|---" * len(columns) + "|")


def _line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _named(value: int | str | None, objective: str, tick: Fraction) -> str:
    if value is None:
        return "-"
    if objective == "late-requests":
        return f"{value} late"
    number = f"{float(Fraction(value) * tick):,.6f}".rstrip("0").rstrip(".")
    return f"{number} {'ticks' if tick == 1 else 's'}{' per token' * (objective in AVERAGES)}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f} %"


if __name__ == "__main__":
    write_table(Library())
