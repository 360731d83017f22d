"""What a hypothesis is: a statement, where it is from, the instances it is about, and how one is judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from hypotheses.case import Case, Fails
from hypotheses.families import Family
from kvcore.errors import BadInput
from kvcore.shown import brief

STATES = ("proved", "no counterexample", "refuted", "undecided")
"""What a verdict may say, and a file may state. A family whose data is not at hand is "skipped"."""

Predicate = Callable[[Case], Fails | Fraction | str | None]
"""Judges one case: how it fails; or, where it holds, None, how near it came (the record keeps the largest), or words.

It raises `Undecided` where a limit strikes (the case does so by itself).
"""


@dataclass(frozen=True)
class Hypothesis:
    """A claim about scheduling that a script decides.

    `states` is the verdict that its author expects. `sentence` is what the source says, where the verdict contradicts
    it; `note` is for readers. With `every`, cases are judged after one has failed too, and those that fail are counted.
    """

    statement: str
    source: str
    states: str
    family: Family
    predicate: Predicate
    sentence: str = ""
    note: str = ""
    every: bool = False

    def __repr__(self) -> str:
        """Return the claim, the verdict that is expected, and of which instances."""
        return f"Hypothesis({brief(self.statement)}, states {self.states!r} of {brief(self.family.what)})"

    def __post_init__(self) -> None:
        if self.states not in STATES:
            raise BadInput(f"states is one of {', '.join(STATES)}, not {self.states!r}")
        for name in ("statement", "source"):
            if not str(getattr(self, name)).strip():
                raise BadInput(f"a hypothesis needs a {name}")
        if self.states == "proved" and not self.family.complete:
            raise BadInput("only a family of which all instances are listed can prove a claim; state something else")
