"""Exact search over counts of like requests: busy-time and makespan, batches of linear cost, no calls."""

from solvers.counts.batch_numbers import CountSearch
from solvers.counts.model import CountsModel, count_model
from solvers.counts.vectors import Vectors, fitting_vectors

__all__ = ["CountSearch", "CountsModel", "Vectors", "count_model", "fitting_vectors"]
