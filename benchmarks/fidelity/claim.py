"""One claim of a paper, and what is measured here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """A row of docs/fidelity.md."""

    paper: str
    """Paper and section or figure."""
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
