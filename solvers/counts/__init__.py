"""Exact search over counts of like requests (busy-time, batches of linear cost, no calls)."""

from solvers.counts.model import Model, count_model
from solvers.counts.run import Outcome, minimise

__all__ = ["Model", "Outcome", "count_model", "minimise"]
