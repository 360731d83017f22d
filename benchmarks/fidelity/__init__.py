"""What the papers report of their schedulers, beside what they do here: `python -m benchmarks.fidelity`."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Claim:
    """A row of docs/fidelity.md."""

    paper: str
    where: str
    """Section or figure."""
    claim: str
    """What it reports, in our words."""
    theirs: str
    """Its figure."""
    ours: str
    """The figure measured here."""
    holds: bool
    """Whether the order, or the direction, is the paper's here, too."""
    setting: str
    """The workload, in one line, so that it can be run again."""
    why: str = ""
    """Where it does not hold (or barely): the likely reason."""


def table(paper: str) -> dict[str, Any]:
    """Return what a paper reports: PAPER.toml."""
    return tomllib.loads((Path(__file__).parent / f"{paper}.toml").read_text(encoding="utf-8"))


def reported(paper: str) -> Callable[..., Claim]:
    """Return what makes a claim of a paper from its key, whether it holds, and what is measured.

    `why` is always said, `why_not` where it does not hold.
    """
    known = table(paper)

    def claim(key: str, holds: bool, **measured: Any) -> Claim:
        row = {name: text.format(**measured) for name, text in known[key].items()}
        why_not = row.pop("why_not", "")
        return Claim(known["paper"], holds=holds, **{"why": "" if holds else why_not, **row})

    return claim
