"""The page of the shipped hypotheses, from the records of their verdicts."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parent / "records.json"  # what came of each shipped hypothesis when it was last checked
PAGE = Path(__file__).parents[1] / "docs" / "verdicts.md"
VARYING = ("seconds", "versions", "files")  # keys of a verdict that are not kept

HEAD = """\
# The verdicts on the shipped hypotheses

This page is written by `python -m hypotheses`, which checks every shipped hypothesis and saves the counterexamples.
[hypotheses.md](hypotheses.md) says what a hypothesis is, what a verdict means, and how to write one.
"""


def page(rows: list[dict[str, Any]]) -> str:
    """Return the page: names by verdict, and each in detail."""
    counts = Counter(row["verdict"] for row in rows)
    summary = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
    lines = [HEAD, f"{len(rows)} hypotheses: {summary}.", ""]
    for verdict in sorted(counts):
        names = (row["hypothesis"] for row in rows if row["verdict"] == verdict)
        lines.append(f"* **{verdict}**: {', '.join(f'[{name}](#{name})' for name in names)}")
    for row in rows:
        lines += ["", *_section(row)]
    return "\n".join(lines) + "\n"


def _section(row: dict[str, Any]) -> list[str]:
    lines = [f"### {row['hypothesis']}", "", f"**{row['verdict'].capitalize()}.** {row['statement']}", ""]
    lines += [f"* Source: {row['source']}.", f"* Family: {row['family']}. {_counts(row)}"]
    if row["why"]:
        lines.append(f"* {'Counterexample' if row['counterexample'] else 'Found'}: {row['why']}.")
        lines += [f"  * `{line}`" for line in row["counterexample"] or ()]
    if row["sentence"]:
        lines.append(f"* The source says: “{row['sentence']}”")
    if row["note"]:
        lines.append(f"* {row['note']}")
    return lines


def _counts(row: dict[str, Any]) -> str:
    text = f"{row['held']} {'case' if row['held'] == 1 else 'cases'} held"
    if row.get("failed"):
        text += f", {row['failed']} failed (the smallest is shown)"
    elif row["verdict"] == "refuted":
        text += " before it"
    if row.get("claimed"):
        text += f", {row['claimed']} by an optimum that is claimed, not certified"
    if row["undecided"]:
        text += f", {row['undecided']} undecided"
    numerator, _, denominator = (row["largest"] or "").partition("/")
    largest = f"; the largest number is {int(numerator) / int(denominator or 1):.4g}" if numerator else ""
    mean = f", the mean {row['mean']}" if row.get("mean") else ""
    return f"{text}{largest}{mean}."


def kept(row: dict[str, Any]) -> dict[str, Any]:
    """Return what a record keeps of a verdict: what other runs repeat."""
    return {key: value for key, value in row.items() if key not in VARYING}


def read_records() -> list[dict[str, Any]]:
    """Return the records of the shipped hypotheses."""
    rows: list[dict[str, Any]] = json.loads(RECORDS.read_text(encoding="utf-8"))
    return rows
