"""Claims about scheduling as scripts: the instances they are tried on, and the verdicts."""

from hypotheses.case import Case, Fails, Held, Undecided
from hypotheses.hypothesis import STATES, Family, Hypothesis, drawn, enumerated, listed
from hypotheses.hypothesis_files import load, save, shipped
from hypotheses.verdict import Verdict, check

__all__ = [
    "STATES", "Case", "Fails", "Family", "Held", "Hypothesis", "Undecided", "Verdict", "check", "drawn", "enumerated",
    "listed", "load", "save", "shipped",
]  # fmt: skip
