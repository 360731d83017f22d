"""Exact search, with no solver package: optimal schedules with a proof, or the best schedule and bound so far."""

from solvers.search.rules import DOMINANCE
from solvers.search.search import SearchOutcome, search

__all__ = ["DOMINANCE", "SearchOutcome", "search"]
