"""`python -m benchmarks.fidelity [PAPER ..]`: measure the papers' claims, and write docs/fidelity.md.

With names of papers only their claims are measured, printed and not written.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from pathlib import Path
from string import ascii_uppercase

from benchmarks.fidelity import Claim, table
from benchmarks.record import machine
from kvcore.files import write_text

PAGE = Path(__file__).parents[2] / "docs" / "fidelity.md"
INTRODUCTION = """# Fidelity

Do the policies do what their papers report? Each table has a paper's figures beside those of kvbound's policies. Papers
measured real engines, kvbound has a linear cost of batches. So a claim *holds* if the order or the direction is the
same. *Where* has a letter for the workload (below the table), then a section or figure of the paper; a number in
brackets leads to a remark. `python -m benchmarks.fidelity` (12 minutes) writes this page.

## Batch for batch

On 48 Azure conversations, with evictions, `vllm`, `vllm-ef`, `sarathi-serve` and `sarathi-serve-ef` equal INFERMAX's
released simulator, and `vllm-vidur` equals Vidur's, in tokens and times (`tests/heuristics/released`).
[policies.md](policies.md#papers-and-released-code) lists where released code differs from its paper.
"""


def papers() -> list[str]:
    """Return the papers that have claims: the tables of this folder."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.toml"))


def measure(names: Iterable[str]) -> list[Claim]:
    """Measure the claims of these papers; what each paper's came to is printed at once, for it takes many minutes."""
    found = []
    for name in names:
        for claim in importlib.import_module(f"benchmarks.fidelity.{name}").claims():
            found.append(claim)
            print(f"{claim.paper}, {claim.where}: {claim.claim}: {claim.ours}", file=sys.stderr, flush=True)
    return found


def page(claims: Iterable[Claim]) -> str:
    """Return the page: a table for each paper, and below it the reasons, by number, and the workloads, by letter."""
    parts = [INTRODUCTION]
    about = {known["paper"]: known.get("about", "") for known in map(table, papers())}
    by_paper: dict[str, list[Claim]] = {}
    for claim in claims:
        by_paper.setdefault(claim.paper, []).append(claim)
    for paper, rows in by_paper.items():
        parts += [f"## {paper}\n", *([f"{about[paper]}\n"] if about.get(paper) else [])]
        parts.append("| where | claim | paper | here | holds |\n|---|---|---|---|---|")
        reasons = list(dict.fromkeys(row.why for row in rows if row.why))
        workloads = dict(zip(dict.fromkeys(row.setting for row in rows), ascii_uppercase, strict=False))
        for row in rows:
            holds = ("yes" if row.holds else "**no**") + (f" ({1 + reasons.index(row.why)})" if row.why else "")
            where = f"{workloads[row.setting]}: {row.where}"
            parts.append(f"| {where} | {row.claim} | {row.theirs} | {row.ours} | {holds} |")
        parts += ["", *(f"{k}. {sentence(why)}" for k, why in enumerate(reasons, 1)), ""]
        parts += [f"* {letter}: {sentence(what)}" for what, letter in workloads.items()]
        parts.append("")
    facts = machine()
    parts.append(f"Measured on {facts['date']} with kvbound {facts['kvbound']}, Python {facts['python']}.")
    return "\n".join(parts) + "\n"


def sentence(text: str) -> str:
    """Return it with a capital, unless it begins with a name, and a full stop."""
    first = text.split()[0]
    start = first.capitalize() if first.isalpha() and first.islower() else first
    return start + text[len(first) :].rstrip(".") + "."


def main(names: list[str]) -> None:
    """Measure, and write the page if nothing is named."""
    unknown = sorted(set(names) - set(papers()))
    if unknown:
        sys.exit(f"no claims of {', '.join(unknown)}; there are {', '.join(papers())}")
    text = page(measure(names or papers()))
    if names:
        print(text)
    else:
        write_text(PAGE, text)
        print(f"written to {PAGE}")


if __name__ == "__main__":
    main(sys.argv[1:])
