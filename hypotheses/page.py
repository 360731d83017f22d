"""Write the page of the shipped hypotheses from the records of their verdicts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parent / "records.json"
"""What came of each shipped hypothesis when it was last checked."""
PAGE = Path(__file__).parents[1] / "docs" / "hypotheses.md"
VARYING = ("seconds", "versions", "files")
"""Keys of a verdict that are not kept."""

HEAD = """\
# Hypotheses

This page is written by `python -m hypotheses`, which checks every shipped hypothesis and saves the counterexamples.

A hypothesis is a Python file: a statement, its source, the verdict that its author expects, a family of instances, and
a predicate that judges one case. Values come from schedules that the referee executed, optima from exhaustive search.

```python file=quick.py
from hypotheses import Case, Fails, Hypothesis, check, listed


def best(case: Case) -> Fails | None:
    policy, optimum = case.policy("sjf"), case.optimum()
    if policy is None or policy.value == optimum.value:
        return None
    return Fails(f"sjf has {policy.value}, the optimum is {optimum.value}", (policy, optimum))


HYPOTHESIS = Hypothesis(
    statement="Shortest job first is optimal on MARS's Figure 1.",
    source="an example",
    states="refuted",
    family=listed("mars-figure1"),
    predicate=best,
)

verdict = check("quick", HYPOTHESIS)
print(verdict.verdict, "-", verdict.fails.why)
```

```text
refuted - sjf has 31, the optimum is 29
```

`kvbound check FILE.py` does the same on the command line; `kvbound check NAME` takes a shipped one, `all` takes all
([commands.md](commands.md#check)). What a verdict means:

| verdict | meaning |
|---|---|
| proved | the family is finite, all of it was judged (up to symmetry), and every case holds, with exact answers |
| no counterexample | every case that was tried holds; the family is drawn, or only a part was taken |
| refuted | a case fails: the first in the family's order of size, so a smallest of those that were decided |
| undecided | a limit struck before all was decided, and nothing failed |
| skipped | the data of the family is not at hand |

Size is counted in requests, calls, tokens, ticks of calls and arrivals, and memory, in this order. A proof is of the
family as it is stated, not of the claim at large; a refutation is of the claim.

A refuted hypothesis has a folder in `hypotheses/counterexamples` with the instances and the schedules that show it, and
a certificate where an optimum matters; `kvbound verify` accepts each.
"""


def page(rows: list[dict[str, Any]]) -> str:
    """Return the page: how to write one, a table of the shipped ones, and each in detail."""
    counts = Counter(row["verdict"] for row in rows)
    summary = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items()))
    lines = [HEAD, "## What came of the shipped ones", "", f"{len(rows)} hypotheses: {summary}.", ""]
    lines += ["| hypothesis | claim | verdict |", "|---|---|---|"]
    lines += [f"| [{r['hypothesis']}](#{r['hypothesis']}) | {_cell(r['statement'])} | {r['verdict']} |" for r in rows]
    for row in rows:
        lines += ["", *_section(row)]
    return "\n".join(lines) + "\n"


def _section(row: dict[str, Any]) -> list[str]:
    lines = [f"### {row['hypothesis']}", "", f"**{row['verdict'].capitalize()}.** {row['statement']}", ""]
    lines += [f"* Source: {row['source']}.", f"* Family: {row['family']}. {_counts(row)}"]
    if row["why"]:
        lines.append(f"* Counterexample: {row['why']}.")
        lines += [f"  * `{line}`" for line in row["counterexample"]]
    if row["sentence"]:
        lines.append(f"* The source says: “{row['sentence']}”")
    if row["note"]:
        lines.append(f"* {row['note']}")
    return lines


def _counts(row: dict[str, Any]) -> str:
    text = f"{row['held']} cases held"
    if row["verdict"] == "refuted":
        text += " before it"
    if row["undecided"]:
        text += f", {row['undecided']} undecided"
    numerator, _, denominator = (row["largest"] or "").partition("/")
    largest = f"; the largest number is {int(numerator) / int(denominator or 1):.4g}" if numerator else ""
    return f"{text}{largest}."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def kept(row: dict[str, Any]) -> dict[str, Any]:
    """Return what a record keeps of a verdict: what another run gives again."""
    return {key: value for key, value in row.items() if key not in VARYING}


def read_records() -> list[dict[str, Any]]:
    """Return the records of the shipped hypotheses."""
    rows: list[dict[str, Any]] = json.loads(RECORDS.read_text(encoding="utf-8"))
    return rows
