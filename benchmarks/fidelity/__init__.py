"""What the papers report of their schedulers, beside what they do here: `python -m benchmarks.fidelity`."""

from __future__ import annotations

from dataclasses import dataclass


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
